#include "harness/test.h"
#include "proc/exchange.h"
#include "proc/exchange_reader.h"
#include "proc/template.h"

static struct tsk_error err;

static struct exchange_source source(const char *name, enum exchange_format format)
{
    return (struct exchange_source){.name = name, .format = format, .cwd_base = "/base", .lang = LANG_EN};
}

static void read_as(const char *name, enum exchange_format format, const char *text, struct exchange *ret)
{
    struct exchange_source from = source(name, format);
    if (exchange_read(&from, text, strlen(text), ret, &err) < 0) {
        char message[1024];
        tsk_error_message(&err, "en", message, sizeof message);
        test_fail(__FILE__, __LINE__, "%s is refused: %s %s\n%s", name, message, tsk_error_context(&err, "problems"),
                  text);
    }
}

static void assert_json(const json_t *value, const char *expected)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, value, false);
    ASSERT_STR(buf_str(&text), expected);
}

/* What the spec of `id` says beyond the defaults. */
static void assert_spec(const json_t *list, const char *id, const char *expected)
{
    json_t *minimal CLEANUP_JSON = proc_spec_minimal(json_object_get(list, id));
    assert_json(minimal, expected);
}

/* ---- the way there and back ------------------------------------------------------------------------------ */

static uint64_t random_state = 20261115;

static unsigned pick(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

/* Texts made of what YAML, JSON and shells stumble over. */
static json_t *random_text(void)
{
    static const char *const parts[] = {
        "a",
        "no",
        "1",
        " ",
        "  ",
        ":",
        ": ",
        " #",
        "#",
        "-",
        "- ",
        "\n",
        "\n\n",
        "\t",
        "\"",
        "'",
        "\\",
        "\\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&",
        "*",
        "!",
        "|",
        ">",
        "%",
        "@",
        "`",
        "?",
        "? ",
        "~",
        "null",
        "True",
        "0x1f",
        "1e3",
        ".5",
        ".inf",
        "<<",
        "=",
        "\r",
        "\x01",
        "\x7f",
        "\xc2\x85",
        "\xc2\xa0",
        "\xe2\x80\xa8",
        "\xe2\x80\xa9",
        "\xef\xbb\xbf",
        "\xef\xbf\xbe",
        "\xef\xbf\xbf",
        "\xf0\x9f\x98\x80",
        "\xe6\x97\xa5",
        "---",
        "...",
        "2001-01-01",
        "$HOME",
        "/x",
        "--y",
        "${Z}",
        "***",
        "./z",
        "{{A b}}",
        "\x1b[0m",
    };
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    for (unsigned n = pick(6); n > 0; n--)
        buf_puts(&text, parts[pick(sizeof parts / sizeof parts[0])]);
    return json_string(buf_str(&text));
}

static json_t *random_name(void)
{
    json_t *name = random_text();
    while (json_string_length(name) == 0 || strchr(json_string_value(name), '=')) {
        json_decref(name);
        name = random_text();
    }
    return name;
}

static json_t *random_probe(void)
{
    static const char *const probes[] = {"{\"port\":8080}", "{\"log\":\"^up: [0-9]+ #\"}",
                                         "{\"http\":\"http://[::1]:80/x?y#z\"}", "{\"notify\":true}"};
    json_t *probe = json_loads(probes[pick(4)], 0, NULL);
    if (pick(3) == 0)
        json_object_set_new(probe, "timeout_ms", json_integer(1 + pick(100000)));
    if (pick(4) == 0) {
        json_object_clear(probe);
        json_object_set_new(probe, "command", json_pack("[s, o, o]", "test", random_text(), random_text()));
    }
    return probe;
}

static json_t *random_spec(void)
{
    json_t *input CLEANUP_JSON = json_object(), *args = json_array(), *env = json_object(), *spec = NULL;
    json_object_set_new(input, "command", random_name());
    json_object_set_new(input, "args", args);
    json_object_set_new(input, "env", env);
    for (unsigned n = pick(4); n > 0; n--)
        json_array_append_new(args, random_text());
    for (unsigned n = pick(4); n > 0; n--) {
        json_t *name CLEANUP_JSON = random_name();
        json_object_set_new(env, json_string_value(name), random_text());
    }
    if (pick(2)) {
        json_t *end CLEANUP_JSON = random_text();
        json_object_set_new(input, "cwd", json_sprintf("/%s", json_string_value(end)));
    }
    if (pick(2))
        json_object_set_new(input, "restart", json_string(proc_restart_names[pick(3)]));
    if (pick(2))
        json_object_set_new(input, "log", json_string(proc_log_names[pick(3)]));
    if (pick(2))
        json_object_set_new(input, "max_retries", json_integer(pick(10)));
    if (pick(2))
        json_object_set_new(input, "auto_start_on_restore", json_boolean(pick(2)));
    if (pick(3) == 0)
        json_object_set_new(input, "ready", random_probe());
    if (pick(3) == 0)
        json_object_set_new(input, "health", random_probe());
    if (pick(3) == 0)
        json_object_set_new(input, "depends_on", json_pack("{s:s, s:s}", "no", "ready", "1.5", "completed"));
    if (proc_spec_make(input, NULL, NULL, &spec, &err) < 0)
        test_fail(__FILE__, __LINE__, "random_spec makes what is refused: %s", tsk_error_context(&err, "param"));
    return spec;
}

static void assert_round_trip(const json_t *processes, enum exchange_format format)
{
    json_t *list = json_object(), *spec;
    const char *id;
    json_object_foreach ((json_t *)processes, id, spec)
        json_object_set_new(list, id, proc_spec_minimal(spec));
    json_t *document CLEANUP_JSON = json_pack("{s:i, s:b, s:o}", "version", 1, "secrets", 1, "processes", list);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (format == EXCHANGE_JSON)
        json_write(&text, document, true);
    else
        exchange_write_yaml(&text, document);
    struct exchange found CLEANUP(exchange_clear) = {0};
    read_as("f", format, buf_str(&text), &found);
    if (!json_equal(found.processes, processes))
        test_fail(__FILE__, __LINE__, "this came back differently:\n%s", buf_str(&text));
}

TEST(what_was_written_as_yaml_or_json_is_read_back_exactly)
{
    static const char *const ids[] = {"web", "no", "123", "1.5", "null", "a-b_c.d", "0x1f", "y", "true"};
    for (int round = 0; round < 2000; round++) {
        json_t *processes CLEANUP_JSON = json_object();
        for (unsigned n = 1 + pick(3); n > 0; n--)
            json_object_set_new(processes, ids[pick(9)], random_spec());
        assert_round_trip(processes, EXCHANGE_YAML);
        assert_round_trip(processes, EXCHANGE_JSON);
    }
}

TEST(a_variable_with_a_very_long_name_is_read_back)
{
    struct buf name CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < 3000; i++)
        buf_puts(&name, "N");
    json_t *input CLEANUP_JSON =
        json_pack("{s:s, s:{s:s, s:s}}", "command", "x", "env", buf_str(&name), "value", "Z", "1");
    json_t *spec = NULL;
    ASSERT_INT(proc_spec_make(input, NULL, NULL, &spec, &err), 0);
    json_t *processes CLEANUP_JSON = json_pack("{s:o}", "web", spec);
    assert_round_trip(processes, EXCHANGE_YAML);
}

TEST(equal_documents_are_equal_texts)
{
    json_t *document CLEANUP_JSON =
        json_loads("{\"version\":1,\"processes\":{\"web\":{\"command\":\"npm\",\"args\":[\"run\",\"a b\",\"no\",\"\"],"
                   "\"env\":{\"PORT\":\"80\"},\"ready\":{\"port\":80}},\"db\":{\"command\":\"./x\"}}}",
                   0, NULL);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    exchange_write_yaml(&text, document);
    ASSERT_STR(buf_str(&text), "version: 1\n"
                               "processes:\n"
                               "  web:\n"
                               "    command: npm\n"
                               "    args:\n"
                               "      - run\n"
                               "      - a b\n"
                               "      - \"no\"\n"
                               "      - \"\"\n"
                               "    env:\n"
                               "      PORT: \"80\"\n"
                               "    ready:\n"
                               "      port: 80\n"
                               "  db:\n"
                               "    command: ./x\n");
}

/* ---- formats ------------------------------------------------------------------------------------------------ */

TEST(a_plain_scalar_is_what_its_key_wants)
{
    struct exchange found CLEANUP(exchange_clear) = {0};
    read_as(
        "f.yaml", EXCHANGE_AUTO,
        "version: 1\nprocesses:\n  a:\n    command: true\n    args: [8080, no, 1.5]\n    env: {port: 80, on: off}\n"
        "    restart: no\n    auto_start_on_restore: yes\n    cwd: ~\n    max_retries: null\n    ready: {port: 80}\n"
        "    depends_on: {no: ready}\n",
        &found);
    ASSERT_INT(found.format, EXCHANGE_YAML);
    assert_spec(found.processes, "a",
                "{\"command\":\"true\",\"args\":[\"8080\",\"no\",\"1.5\"],\"env\":{\"on\":\"off\",\"port\":\"80\"},"
                "\"auto_start_on_restore\":true,\"ready\":{\"port\":80},\"depends_on\":{\"no\":\"ready\"}}");
}

TEST(the_format_is_found_by_name_and_content)
{
    static const struct {
        const char *name, *text;
        enum exchange_format format;
    } table[] = {
        {"x.yaml", "version: 1\nprocesses: {}\n", EXCHANGE_YAML},
        {"x", "version: '1'\nprocesses: {a: {command: x}}\n", EXCHANGE_YAML},
        {"x.json", "{\"version\":1}", EXCHANGE_JSON},
        {"-", " {\"version\":1}", EXCHANGE_JSON},
        {"dir/Procfile", "a: b\n", EXCHANGE_PROCFILE},
        {"Procfile.dev", "a: b\n", EXCHANGE_PROCFILE},
        {"-", "# one\na: b c\n\nd: e\n", EXCHANGE_PROCFILE},
        {"x.yml", "version: \"0.5\"\nprocesses: {a: {command: b}}\n", EXCHANGE_COMPOSE},
        {"x.yml", "processes: {a: {command: b, working_dir: c}}\n", EXCHANGE_COMPOSE},
        {"process-compose.yml", "processes: {a: {command: b}}\n", EXCHANGE_COMPOSE},
        {"x.yaml", "- {id: a, command: b}\n", EXCHANGE_VANTAGE},
        {"x.yaml", "version: '1.0'\nprocesses:\n- {id: a, command: b}\n", EXCHANGE_VANTAGE},
        {"x.json", "{\"a\":{\"process_id\":\"a\",\"command\":\"b\"}}", EXCHANGE_VANTAGE},
        {"-", "-- x\nCREATE process CONTENT {\"process_id\":\"a\",\"command\":\"b\"};\n", EXCHANGE_VANTAGE},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct exchange found CLEANUP(exchange_clear) = {0};
        read_as(table[i].name, EXCHANGE_AUTO, table[i].text, &found);
        if (found.format != table[i].format)
            test_fail(__FILE__, __LINE__, "%s: %s", exchange_format_names[found.format], table[i].text);
    }
}

TEST(files_of_no_known_format_are_refused_in_their_own_words)
{
    static const struct {
        const char *name, *text, *key;
    } table[] = {
        {"x.kdl", "", "import_kdl"},
        {"x", "process \"a\" {\n}\n", "import_kdl"},
        {"x.yml", "services: {a: {image: b}}\n", "import_docker"},
        {"x.yaml", "processes: {a: {command: b}}\n", "yaml_invalid"},
        {"x.yaml", "version: 2\n", "yaml_invalid"},
        {"x.yaml", "just a text\n", "yaml_invalid"},
        {"x.yaml", "a: [\n", "yaml_invalid"},
        {"x.json", "{\"version\":", "json_invalid"},
        {"x.json", "7", "json_invalid"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct exchange found;
        struct exchange_source from = source(table[i].name, EXCHANGE_AUTO);
        ASSERT_INT(exchange_read(&from, table[i].text, strlen(table[i].text), &found, &err), -1);
        ASSERT_INT(err.code, TSK_INVALID_INPUT);
        ASSERT_STR(err.text, table[i].key);
    }
}

TEST(every_problem_is_told_with_its_place)
{
    static const char text[] = "version: 1\n"
                               "processes:\n"
                               "  a:\n"
                               "    comand: x\n"
                               "    ready: {port: high}\n"
                               "  'b c': {command: x}\n"
                               "  d: {command: x, args: [1, [2]], env: {A: ~}}\n";
    struct exchange found;
    struct exchange_source from = source("f.yaml", EXCHANGE_AUTO);
    ASSERT_INT(exchange_read(&from, text, strlen(text), &found, &err), -1);
    json_t *problems CLEANUP_JSON = json_loads(tsk_error_context(&err, "problems"), 0, NULL), *problem;
    struct buf places CLEANUP(buf_clear) = BUF_INIT;
    size_t i;
    json_array_foreach (problems, i, problem)
        buf_printf(&places, "%lld:%lld ", (long long)json_get_int(problem, "line", 0),
                   (long long)json_get_int(problem, "column", 0));
    ASSERT_STR(buf_str(&places), "4:5 5:19 6:3 7:29 7:44 ");
    ASSERT_STR(tsk_error_context(&err, "count"), "5");
}

TEST(problems_of_a_json_file_have_places_too_also_behind_surrogate_pairs)
{
    static const char text[] = "{\"version\": 1, \"processes\": {\n"
                               "  \"a\": {\"command\": \"\\ud83d\\ude00\\\\ud800\", \"log\": \"none\"}}}";
    struct exchange found;
    struct exchange_source from = source("f.json", EXCHANGE_AUTO);
    ASSERT_INT(exchange_read(&from, text, strlen(text), &found, &err), -1);
    ASSERT_STR(tsk_error_context(&err, "line"), "2");
    ASSERT_STR(tsk_error_context(&err, "column"), "50");
}

TEST(a_problem_is_told_however_long_the_name_is)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, "version: 1\nprocesses:\n  ? x");
    for (int i = 0; i < 5000; i++)
        buf_puts(&text, "\xe6\x97\xa5");
    buf_puts(&text, "\n  : {command: x, log: y}\n");
    struct exchange found;
    struct exchange_source from = source("f.yaml", EXCHANGE_AUTO);
    ASSERT_INT(exchange_read(&from, buf_str(&text), text.len, &found, &err), -1);
    ASSERT_STR(tsk_error_context(&err, "count"), "2");
}

TEST(a_file_with_thousands_of_problems_is_refused_briefly)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, "version: 1\nprocesses:\n");
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "  p%d: {}\n", i);
    struct exchange found;
    struct exchange_source from = source("f.yaml", EXCHANGE_AUTO);
    ASSERT_INT(exchange_read(&from, buf_str(&text), text.len, &found, &err), -1);
    json_t *problems CLEANUP_JSON = json_loads(tsk_error_context(&err, "problems"), 0, NULL);
    ASSERT(json_array_size(problems) > 10);
}

TEST(command_lines_are_split_as_a_shell_would_or_left_to_one)
{
    static const struct {
        const char *line, *words; /* NULL: needs a shell */
    } table[] = {
        {"npm run dev", "[\"npm\",\"run\",\"dev\"]"},
        {"  a\t b  ", "[\"a\",\"b\"]"},
        {"a 'b c' \"d e\" f\\ g", "[\"a\",\"b c\",\"d e\",\"f g\"]"},
        {"a 'x'\"y\"z", "[\"a\",\"xyz\"]"},
        {"a \"\\\"\\\\\\n\"", "[\"a\",\"\\\"\\\\\\\\n\"]"},
        {"a '' \"\"", "[\"a\",\"\",\"\"]"},
        {"a '$X;|&'", "[\"a\",\"$X;|&\"]"},
        {"a --x=y k=v", "[\"a\",\"--x=y\",\"k=v\"]"},
        {"a b#c d~e", "[\"a\",\"b#c\",\"d~e\"]"},
        {"a $X", NULL},
        {"a \"$X\"", NULL},
        {"a `b`", NULL},
        {"a | b", NULL},
        {"a && b", NULL},
        {"a > b", NULL},
        {"a *.c", NULL},
        {"a ~/b", NULL},
        {"a # b", NULL},
        {"X=1 a", NULL},
        {"cd a", NULL},
        {"exec a", NULL},
        {"{ a; }", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *words CLEANUP_JSON = json_array();
        enum shell_line kind = shell_split(table[i].line, words);
        if (kind != (table[i].words ? SHELL_PLAIN : SHELL_SYNTAX))
            test_fail(__FILE__, __LINE__, "%s", table[i].line);
        if (table[i].words)
            assert_json(words, table[i].words);
    }
    json_t *words CLEANUP_JSON = json_array();
    ASSERT_INT(shell_split("a 'b", words), SHELL_UNFINISHED);
    ASSERT_INT(shell_split("a \"b", words), SHELL_UNFINISHED);
    ASSERT_INT(shell_split("a b\\", words), SHELL_SYNTAX);
}

/* ---- templates ---------------------------------------------------------------------------------------------- */

static json_t *template_of(const char *text)
{
    json_t *input CLEANUP_JSON = json_loads(text, 0, NULL), *spec = NULL;
    ASSERT_INT(template_spec_make(input, NULL, NULL, &spec, &err), 0);
    return spec;
}

TEST(variables_are_found_wherever_they_may_stand)
{
    json_t *spec CLEANUP_JSON = template_of(
        "{\"command\":\"{{C}}\",\"args\":[\"-p{{P}}\",\"{{ A_1 }}{{A_1}}\",\"{{.x}}\",\"{{}}\",\"{{1}}\",\"{{X\"],"
        "\"env\":{\"{{N}}\":\"{{E}}\"},\"cwd\":\"{{D}}/x\"}");
    json_t *names CLEANUP_JSON = template_variables(spec);
    assert_json(names, "[\"A_1\",\"C\",\"D\",\"E\",\"P\"]");
}

TEST(a_value_takes_the_place_of_its_variable_and_nothing_else)
{
    struct proc_template t CLEANUP(template_clear) = {
        .name = "t",
        .spec = template_of("{\"command\":\"{{C}}\",\"args\":[\"a{{P}}b{{ P }}\",\"{{.P}}\"],\"cwd\":\"{{D}}\"}")};
    json_t *values CLEANUP_JSON = json_pack("{s:s, s:s, s:s}", "C", "x y", "P", "{{P}}", "D", "sub");
    json_t *spec = NULL;
    ASSERT_INT(template_expand(&t, values, NULL, "/base", &spec, &err), 0);
    json_t *minimal CLEANUP_JSON = proc_spec_minimal(spec);
    assert_json(minimal, "{\"command\":\"x y\",\"args\":[\"a{{P}}b{{P}}\",\"{{.P}}\"],\"cwd\":\"/base/sub\"}");
    json_free(&spec);
}

TEST(variables_without_a_value_and_values_without_a_variable_are_named)
{
    struct proc_template t CLEANUP(template_clear) = {
        .name = "t", .spec = template_of("{\"command\":\"{{ONE}}\",\"args\":[\"{{TWO}}\"]}")};
    json_t *spec = NULL, *some CLEANUP_JSON = json_pack("{s:s}", "ONE", "1"),
           *odd CLEANUP_JSON = json_pack("{s:s}", "TWOO", "1");
    ASSERT_INT(template_expand(&t, NULL, NULL, NULL, &spec, &err), -1);
    ASSERT_STR(err.text, "template_unset");
    ASSERT_STR(tsk_error_context(&err, "variables"), "[\"ONE\",\"TWO\"]");
    ASSERT_INT(template_expand(&t, some, NULL, NULL, &spec, &err), -1);
    ASSERT_STR(tsk_error_context(&err, "variables"), "[\"TWO\"]");
    ASSERT_INT(template_expand(&t, odd, NULL, NULL, &spec, &err), -1);
    ASSERT_STR(err.text, "template_no_variable_near");
    ASSERT_STR(tsk_error_context(&err, "want"), "TWO");
}

TEST(what_is_overridden_needs_no_value)
{
    struct proc_template t CLEANUP(template_clear) = {
        .name = "t",
        .spec = template_of(
            "{\"command\":\"{{C}}\",\"args\":[\"{{A}}\"],\"env\":{\"X\":\"{{E}}\",\"Y\":\"1\"},\"cwd\":\"{{D}}\"}")};
    json_t *overrides CLEANUP_JSON = json_pack("{s:s, s:[s], s:{s:s, s:s}, s:s}", "command", "c", "args", "a", "env",
                                               "X", "x", "Z", "z", "cwd", "/d");
    json_t *spec = NULL;
    ASSERT_INT(template_expand(&t, NULL, overrides, NULL, &spec, &err), 0);
    json_t *minimal CLEANUP_JSON = proc_spec_minimal(spec);
    assert_json(minimal,
                "{\"command\":\"c\",\"args\":[\"a\"],\"env\":{\"X\":\"x\",\"Y\":\"1\",\"Z\":\"z\"},\"cwd\":\"/d\"}");
    json_free(&spec);
}
