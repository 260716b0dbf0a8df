#include "base/json.h"
#include "base/text.h"
#include "harness/test.h"
#include "proc/spec.h"

static struct tsk_error err;

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    if (json_parse(text, strlen(text), "test", &value, &err) < 0)
        test_fail(__FILE__, __LINE__, "not JSON: %s", text);
    return value;
}

static json_t *make_on(const char *text, const json_t *base, const char *cwd_base)
{
    json_t *input CLEANUP_JSON = parse(text), *spec = NULL;
    if (proc_spec_make(input, base, cwd_base, &spec, &err) < 0) {
        char message[512];
        tsk_error_message(&err, "en", message, sizeof message);
        test_fail(__FILE__, __LINE__, "%s is refused: %s", text, message);
    }
    return spec;
}

static json_t *make(const char *text)
{
    return make_on(text, NULL, NULL);
}

static void assert_json(const json_t *value, const char *expected)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, value, false);
    ASSERT_STR(buf_str(&text), expected);
}

/* The problem's path and sentence; the sentence must be complete (no placeholder left over). */
static void assert_refused(const char *text, const char *param, const char *key)
{
    json_t *input CLEANUP_JSON = parse(text), *spec = NULL;
    if (proc_spec_make(input, NULL, NULL, &spec, &err) == 0)
        test_fail(__FILE__, __LINE__, "%s is accepted", text);
    ASSERT(!spec);
    ASSERT_INT(err.code, TSK_INVALID_INPUT);
    ASSERT_STR(tsk_error_context(&err, "param"), param);
    ASSERT_STR(err.text, key);
    char message[1024];
    tsk_error_message(&err, "en", message, sizeof message);
    if (strstr(message, "{param}") || strstr(message, "{want}") || strstr(message, "{value}"))
        test_fail(__FILE__, __LINE__, "unfinished: %s", message);
}

TEST(the_smallest_spec_gets_every_default)
{
    json_t *spec CLEANUP_JSON = make("{\"command\":\"true\"}");
    assert_json(spec, "{\"command\":\"true\",\"args\":[],\"env\":{},\"cwd\":null,\"auto_start_on_restore\":false,"
                      "\"restart\":\"no\",\"max_retries\":null,\"backoff_ms\":1000,\"backoff_max_ms\":60000,"
                      "\"healthy_after_ms\":10000,\"log\":\"direct\",\"log_max\":67108864,\"ready\":null,"
                      "\"health\":null,\"depends_on\":{}}");
}

TEST(specs_that_mean_the_same_are_the_same_text)
{
    json_t *a CLEANUP_JSON = make("{\"env\":{\"B\":\"2\",\"A\":\"1\"},\"command\":\"x\",\"ready\":\"port:80\","
                                  "\"depends_on\":{\"z\":\"ready\",\"a\":\"started\"}}");
    json_t *b CLEANUP_JSON = make("{\"depends_on\":{\"a\":\"started\",\"z\":\"ready\"},\"ready\":{\"port\":80},"
                                  "\"args\":[],\"command\":\"x\",\"env\":{\"A\":\"1\",\"B\":\"2\"}}");
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, a, false);
    assert_json(b, buf_str(&text));
}

TEST(a_canonical_spec_stays_as_it_is)
{
    json_t *first CLEANUP_JSON =
        make("{\"command\":\"x\",\"args\":[\"\",\"\xe6\x97\xa5\"],\"env\":{\"A\":\"\"},\"cwd\":\"/"
             "tmp\",\"restart\":\"always\","
             "\"max_retries\":0,\"log\":\"stamped\",\"ready\":\"log:up$\",\"health\":\"exec:curl  -f x\","
             "\"depends_on\":{\"db\":\"completed\"}}");
    json_t *again = NULL;
    ASSERT_INT(proc_spec_make(first, NULL, NULL, &again, &err), 0);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, first, false);
    assert_json(again, buf_str(&text));
    json_free(&again);
}

TEST(every_wrong_value_is_refused_by_its_path)
{
    static const struct {
        const char *text, *param, *key;
    } table[] = {
        {"[]", "spec", "param_type"},
        {"{}", "command", "param_missing"},
        {"{\"command\":null}", "command", "param_missing"},
        {"{\"command\":\"\"}", "command", "param_empty"},
        {"{\"command\":[\"x\"]}", "command", "param_type"},
        {"{\"command\":\"x\",\"arg\":[]}", "arg", "spec_key_unknown_near"},
        {"{\"command\":\"x\",\"frobnicate\":1}", "frobnicate", "spec_key_unknown"},
        {"{\"command\":\"x\",\"args\":\"a b\"}", "args", "param_type"},
        {"{\"command\":\"x\",\"args\":[\"a\",1]}", "args.1", "param_type"},
        {"{\"command\":\"x\",\"env\":[]}", "env", "param_type"},
        {"{\"command\":\"x\",\"env\":{\"PORT\":3000}}", "env.PORT", "param_type"},
        {"{\"command\":\"x\",\"env\":{\"A=B\":\"\"}}", "env.A=B", "spec_env_name"},
        {"{\"command\":\"x\",\"env\":{\"\":\"\"}}", "env.", "spec_env_name"},
        {"{\"command\":\"x\",\"cwd\":\"relative\"}", "cwd", "spec_cwd_relative"},
        {"{\"command\":\"x\",\"cwd\":\"\"}", "cwd", "param_empty"},
        {"{\"command\":\"x\",\"auto_start_on_restore\":\"yes\"}", "auto_start_on_restore", "param_type"},
        {"{\"command\":\"x\",\"restart\":\"sometimes\"}", "restart", "param_not_one_of"},
        {"{\"command\":\"x\",\"restart\":false}", "restart", "param_not_one_of"},
        {"{\"command\":\"x\",\"max_retries\":-1}", "max_retries", "param_out_of_range"},
        {"{\"command\":\"x\",\"max_retries\":1.5}", "max_retries", "param_not_a_number"},
        {"{\"command\":\"x\",\"backoff_ms\":120000}", "backoff_max_ms", "spec_backoff"},
        {"{\"command\":\"x\",\"log\":\"file\"}", "log", "param_not_one_of"},
        {"{\"command\":\"x\",\"log_max\":10}", "log_max", "param_out_of_range"},
        {"{\"command\":\"x\",\"depends_on\":[\"db\"]}", "depends_on", "param_map"},
        {"{\"command\":\"x\",\"depends_on\":{\"../db\":\"ready\"}}", "depends_on.../db", "id_pattern"},
        {"{\"command\":\"x\",\"depends_on\":{\"db\":\"healthy\"}}", "depends_on.db", "param_not_one_of"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_refused(table[i].text, table[i].param, table[i].key);
}

TEST(every_wrong_probe_is_refused_by_its_path)
{
    static const struct {
        const char *probe, *param, *key;
    } table[] = {
        {"\"tcp:80\"", "ready", "spec_probe"},
        {"true", "ready", "spec_probe"},
        {"{}", "ready", "spec_probe_kinds"},
        {"{\"timeout_ms\":5}", "ready", "spec_probe_kinds"},
        {"{\"port\":80,\"log\":\"x\"}", "ready", "spec_probe_kinds"},
        {"\"port:0\"", "ready.port", "param_out_of_range"},
        {"\"port:http\"", "ready.port", "param_not_a_number"},
        {"{\"port\":\"80\"}", "ready.port", "param_not_a_number"},
        {"\"log:\"", "ready.log", "param_empty"},
        {"\"log:(\"", "ready.log", "spec_regex"},
        {"\"log:((a{1,255}){1,255}){1,255}\"", "ready.log", "spec_regex"},
        {"\"log:a{99999999999999999999}\"", "ready.log", "spec_regex"},
        {"\"https://x/\"", "ready.http", "spec_http"},
        {"\"http://\"", "ready.http", "spec_http"},
        {"\"http://x:0/\"", "ready.http", "spec_http"},
        {"\"http://x:80a/\"", "ready.http", "spec_http"},
        {"\"http://u:p@x/\"", "ready.http", "spec_http"},
        {"\"http://x/\\r\\nHost: y\"", "ready.http", "spec_http"},
        {"\"http://[::1/\"", "ready.http", "spec_http"},
        {"\"exec: \"", "ready.command", "param_empty"},
        {"{\"command\":[]}", "ready.command", "param_empty"},
        {"{\"command\":\"curl x\"}", "ready.command", "param_type"},
        {"{\"notify\":false}", "ready.notify", "param_not_one_of"},
        {"{\"port\":80,\"timeout_ms\":0}", "ready.timeout_ms", "param_out_of_range"},
        {"{\"port\":80,\"interval_ms\":\"1s\"}", "ready.interval_ms", "param_not_a_number"},
        {"{\"port\":80,\"failures\":3}", "ready.failures", "spec_key_unknown"},
        {"{\"port\":80,\"action\":\"restart\"}", "ready.action", "spec_key_unknown"},
        {"{\"port\":80,\"timeout\":3}", "ready.timeout", "spec_key_unknown_near"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"command\":\"x\",\"ready\":%s}", table[i].probe);
        assert_refused(text, table[i].param, table[i].key);
    }
    assert_refused("{\"command\":\"x\",\"health\":{\"port\":80,\"action\":\"stop\"}}", "health.action",
                   "param_not_one_of");
}

TEST(only_the_counts_of_a_pattern_are_limited_and_not_its_other_numbers)
{
    static const char *const good[] = {"port 99999", "a99999{2}", "a\\\\{99999", "[0-9]{3,}x",
                                       "a{2,3}b{4}", "a{255}",    "x{1}{0,1}"};
    static const char *const bad[] = {"a{32768}", "a{1,32768}", "(a{200}){164}", "(a{2,200}){164,}", "x99999a{32768}"};
    char text[256];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(text, sizeof text, "{\"command\":\"x\",\"ready\":{\"log\":\"%s\"}}", good[i]);
        json_t *spec CLEANUP_JSON = make(text);
        ASSERT(json_object_get(json_object_get(spec, "ready"), "log"));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "{\"command\":\"x\",\"ready\":{\"log\":\"%s\"}}", bad[i]);
        assert_refused(text, "ready.log", "spec_regex");
    }
}

TEST(a_probe_is_the_same_as_string_and_as_object)
{
    static const struct {
        const char *text, *canonical;
    } table[] = {
        {"\"log:ready in [0-9]+ ms\"", "{\"log\":\"ready in [0-9]+ ms\",\"timeout_ms\":60000,\"interval_ms\":100}"},
        {"\"port:8080\"", "{\"port\":8080,\"timeout_ms\":60000,\"interval_ms\":100}"},
        {"\"http://[::1]:80/a?b\"", "{\"http\":\"http://[::1]:80/a?b\",\"timeout_ms\":60000,\"interval_ms\":100}"},
        {"\"exec:pg_isready  -q \"", "{\"command\":[\"pg_isready\",\"-q\"],\"timeout_ms\":60000,\"interval_ms\":100}"},
        {"\"notify\"", "{\"notify\":true,\"timeout_ms\":60000,\"interval_ms\":100}"},
        {"{\"probe\":\"port:1\",\"timeout_ms\":5}", "{\"port\":1,\"timeout_ms\":5,\"interval_ms\":100}"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"command\":\"x\",\"ready\":%s}", table[i].text);
        json_t *spec CLEANUP_JSON = make(text);
        assert_json(json_object_get(spec, "ready"), table[i].canonical);
    }
    json_t *spec CLEANUP_JSON = make("{\"command\":\"x\",\"health\":\"http://localhost\"}");
    assert_json(
        json_object_get(spec, "health"),
        "{\"http\":\"http://localhost\",\"timeout_ms\":5000,\"interval_ms\":10000,\"failures\":3,\"action\":\"none\"}");
}

TEST(a_probe_reads_back_as_it_was_made)
{
    json_t *spec CLEANUP_JSON = make("{\"command\":\"x\",\"ready\":\"log:up\",\"health\":{\"command\":[\"a\",\"b\"],"
                                     "\"timeout_ms\":7,\"interval_ms\":20,\"failures\":2,\"action\":\"restart\"}}");
    struct proc_probe probe;
    proc_spec_probe(spec, "ready", &probe);
    ASSERT_INT(probe.kind, PROBE_LOG);
    ASSERT_STR(probe.text, "up");
    ASSERT_INT(probe.timeout_ms, 60000);
    proc_spec_probe(spec, "health", &probe);
    ASSERT_INT(probe.kind, PROBE_COMMAND);
    ASSERT_INT(json_array_size(probe.argv), 2);
    ASSERT_INT(probe.timeout_ms, 7);
    ASSERT_INT(probe.interval_ms, 20);
    ASSERT_INT(probe.failures, 2);
    ASSERT(probe.restarts);
    json_t *none CLEANUP_JSON = make("{\"command\":\"x\"}");
    proc_spec_probe(none, "health", &probe);
    ASSERT_INT(probe.kind, PROBE_NONE);
}

TEST(what_an_update_does_not_mention_stays_and_null_resets)
{
    json_t *base CLEANUP_JSON =
        make("{\"command\":\"x\",\"args\":[\"1\"],\"env\":{\"A\":\"1\",\"B\":\"2\"},\"cwd\":\"/tmp\","
             "\"restart\":\"always\",\"ready\":{\"port\":80,\"timeout_ms\":5}}");
    json_t *spec CLEANUP_JSON = make_on("{\"env\":{\"C\":\"3\"},\"cwd\":null,\"log\":\"pipe\"}", base, NULL);
    ASSERT_STR(json_get_string(spec, "command", ""), "x");
    assert_json(json_object_get(spec, "args"), "[\"1\"]");
    assert_json(json_object_get(spec, "env"), "{\"C\":\"3\"}");
    ASSERT(json_is_null(json_object_get(spec, "cwd")));
    ASSERT_INT(proc_spec_restart(spec), PROC_RESTART_ALWAYS);
    ASSERT_INT(proc_spec_log(spec), PROC_LOG_PIPE);
    json_t *timed CLEANUP_JSON = make_on("{\"ready\":{\"timeout_ms\":9}}", base, NULL);
    assert_json(json_object_get(timed, "ready"), "{\"port\":80,\"timeout_ms\":9,\"interval_ms\":100}");
    json_t *other CLEANUP_JSON = make_on("{\"ready\":\"notify\"}", base, NULL);
    assert_json(json_object_get(other, "ready"), "{\"notify\":true,\"timeout_ms\":60000,\"interval_ms\":100}");
    json_t *none CLEANUP_JSON = make_on("{\"ready\":null}", base, NULL);
    ASSERT(json_is_null(json_object_get(none, "ready")));
}

TEST(a_relative_directory_is_taken_from_the_base)
{
    static const char *const table[][2] = {
        {".", "/base"},         {"./", "/base"}, {"./a", "/base/a"},           {"a/b", "/base/a/b"},
        {"../a", "/base/../a"}, {"/x", "/x"},    {".hidden", "/base/.hidden"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"command\":\"x\",\"cwd\":\"%s\"}", table[i][0]);
        json_t *spec CLEANUP_JSON = make_on(text, NULL, "/base");
        ASSERT_STR(json_get_string(spec, "cwd", ""), table[i][1]);
    }
}

static void count_problem(void *data, const struct tsk_error *problem)
{
    struct buf *paths = data;
    buf_printf(paths, "%s ", tsk_error_context(problem, "param"));
}

TEST(all_problems_are_told_at_once)
{
    json_t *input CLEANUP_JSON = parse("{\"argz\":1,\"args\":[1,\"a\",2],\"env\":{\"A\":1,\"B\":2},\"log\":\"x\","
                                       "\"ready\":{\"port\":0,\"interval_ms\":0},\"depends_on\":{\"a b\":\"ready\"}}");
    json_t *spec = NULL;
    struct buf paths CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(proc_spec_make_all(input, NULL, NULL, &spec, count_problem, &paths), -1);
    ASSERT(!spec);
    ASSERT_STR(buf_str(&paths),
               "argz command args.0 args.2 env.A env.B log ready.port ready.interval_ms depends_on.a b ");
}

TEST(sizes_are_limited_to_what_the_kernel_takes)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, "{\"command\":\"x\",\"args\":[\"");
    for (int i = 0; i < 131072; i++)
        buf_puts(&text, "a");
    buf_puts(&text, "\"]}");
    assert_refused(buf_str(&text), "args.0", "param_too_long");
    buf_reset(&text);
    buf_puts(&text, "{\"command\":\"x\",\"args\":[\"\"");
    while (text.len < 1u << 20)
        buf_puts(&text, ",\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"");
    buf_puts(&text, "]}");
    assert_refused(buf_str(&text), "command", "spec_too_large");
}

/* Whether a spec with that member is accepted. */
static bool accepts(const char *before, const char *key, long long value)
{
    char text[256];
    snprintf(text, sizeof text, "%s\"%s\":%lld%s", before, key, value, strstr(before, ":{") ? "}}" : "}");
    json_t *input CLEANUP_JSON = parse(text), *spec = NULL;
    int result = proc_spec_make(input, NULL, NULL, &spec, &err);
    json_free(&spec);
    if (result < 0)
        ASSERT_STR(err.text, "param_out_of_range");
    return result == 0;
}

TEST(every_number_has_a_least_and_a_greatest_value)
{
    static const char plain[] = "{\"command\":\"x\",\"backoff_ms\":0,";
    static const char ready[] = "{\"command\":\"x\",\"ready\":{\"port\":80,";
    static const char health[] = "{\"command\":\"x\",\"health\":{\"notify\":true,";
    static const struct {
        const char *before, *key;
        long long least, greatest;
    } table[] = {
        {plain, "max_retries", 0, 1000000},
        {plain, "backoff_max_ms", 0, 604800000 /* a week */},
        {plain, "healthy_after_ms", 1, 604800000 /* a week */},
        {plain, "log_max", 4096, 1099511627776},
        {ready, "timeout_ms", 1, 604800000 /* a week */},
        {ready, "interval_ms", 10, 604800000 /* a week */},
        {health, "timeout_ms", 1, 604800000 /* a week */},
        {health, "interval_ms", 10, 604800000 /* a week */},
        {health, "failures", 1, 1000},
        {"{\"command\":\"x\",\"ready\":{", "port", 1, 65535},
        {"{\"command\":\"x\",\"backoff_max_ms\":604800000,", "backoff_ms", 0, 604800000 /* a week */},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int edge = -1; edge <= 1; edge++) {
            bool is_low = accepts(table[i].before, table[i].key, table[i].least + edge);
            bool is_high = accepts(table[i].before, table[i].key, table[i].greatest + edge);
            if (is_low != (edge >= 0) || is_high != (edge <= 0))
                test_fail(__FILE__, __LINE__, "%s at %lld%+d or %lld%+d", table[i].key, table[i].least, edge,
                          table[i].greatest, edge);
        }
}

TEST(a_first_pause_may_be_as_long_as_the_longest_and_no_longer)
{
    json_t *spec CLEANUP_JSON = make("{\"command\":\"x\",\"backoff_ms\":60000}");
    ASSERT_INT(json_get_int(spec, "backoff_ms", 0), 60000);
    assert_refused("{\"command\":\"x\",\"backoff_ms\":60001}", "backoff_max_ms", "spec_backoff");
    json_t *both CLEANUP_JSON = make("{\"command\":\"x\",\"backoff_ms\":7,\"backoff_max_ms\":7}");
    ASSERT_INT(json_get_int(both, "backoff_max_ms", 0), 7);
    assert_refused("{\"command\":\"x\",\"backoff_ms\":8,\"backoff_max_ms\":7}", "backoff_max_ms", "spec_backoff");
}

TEST(patterns_and_addresses_of_probes_are_taken_or_refused_at_their_edges)
{
    static const struct {
        const char *probe, *key; /* NULL: accepted */
    } table[] = {
        {"log:a{32767}", NULL},
        {"log:a{32768}", "spec_regex"},
        {"log:a{255}", NULL},
        {"log:(a{128}){255}", NULL},
        {"log:(a{129}){255}", "spec_regex"},
        {"log:(a{2,128}){255}", NULL},
        {"log:(a{2,129}){255}", "spec_regex"},
        {"log:a\\\\{x", NULL},
        {"log:\\\\{40000", NULL},
        {"log:[{]40", NULL},
        {"log:(a{0}){255}", NULL},
        {"http://x", NULL},
        {"http://x/", NULL},
        {"http://x?y", NULL},
        {"http://x:1", NULL},
        {"http://x:65535/y", NULL},
        {"http://x:65536/y", "spec_http"},
        {"http://x:/y", "spec_http"},
        {"http://x:-1/", "spec_http"},
        {"http://:80/", "spec_http"},
        {"http:///y", "spec_http"},
        {"http://[::1]", NULL},
        {"http://[::1]:80/y", NULL},
        {"http://[::1]80/", "spec_http"},
        {"http://x/a b", "spec_http"},
        {"http://x/\\u007f", "spec_http"},
        {"http://x/~", NULL},
        {"http://x/@y", NULL},
        {"http://x/]", NULL},
        {"http://[x/]", "spec_http"},
        {"HTTP://x/", "spec_probe"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"command\":\"x\",\"ready\":\"%s\"}", table[i].probe);
        json_t *input CLEANUP_JSON = parse(text), *spec CLEANUP_JSON = NULL;
        err.text = "";
        int result = proc_spec_make(input, NULL, NULL, &spec, &err);
        if ((result < 0) != (table[i].key != NULL) || (result < 0 && strcmp(err.text, table[i].key) != 0))
            test_fail(__FILE__, __LINE__, "%s: %s", table[i].probe, result < 0 ? err.text : "accepted");
    }
}

/* `before`, a word of `len` bytes, `after`. */
static int make_with_word(const char *before, size_t len, const char *after)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&text, before);
    for (size_t i = 0; i < len; i++)
        buf_puts(&text, "a");
    buf_puts(&text, after);
    json_t *input CLEANUP_JSON = parse(buf_str(&text)), *spec CLEANUP_JSON = NULL;
    return proc_spec_make(input, NULL, "/base", &spec, &err);
}

TEST(a_word_a_variable_a_directory_and_a_pattern_have_their_greatest_lengths)
{
    static const struct {
        const char *before, *after, *param;
        size_t most;
    } table[] = {
        {"{\"command\":\"", "\"}", "command", 131071},
        {"{\"command\":\"x\",\"args\":[\"\",\"", "\"]}", "args.1", 131071},
        {"{\"command\":\"x\",\"env\":{\"AB\":\"", "\"}}", "env.AB", 131071 - 3},
        {"{\"command\":\"x\",\"cwd\":\"/", "\"}", "cwd", 4095 - 1},
        {"{\"command\":\"x\",\"cwd\":\"", "\"}", "cwd", 4095 - 6},
        {"{\"command\":\"x\",\"ready\":\"log:", "\"}", "ready.log", 4096},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        ASSERT_INT(make_with_word(table[i].before, table[i].most, table[i].after), 0);
        ASSERT_INT(make_with_word(table[i].before, table[i].most + 1, table[i].after), -1);
        ASSERT_STR(err.text, "param_too_long");
        ASSERT_STR(tsk_error_context(&err, "param"), table[i].param);
        char want[24];
        snprintf(want, sizeof want, "%d", i < 3 ? 131071 : i < 5 ? 4095 : 4096);
        ASSERT_STR(tsk_error_context(&err, "want"), want);
    }
}

TEST(a_minimal_spec_has_what_was_written_and_makes_the_same_again)
{
    json_t *spec CLEANUP_JSON =
        make("{\"command\":\"x\",\"args\":[],\"restart\":\"no\",\"backoff_ms\":5,\"ready\":\"notify\","
             "\"health\":{\"port\":1,\"interval_ms\":50,\"action\":\"restart\"}}");
    json_t *minimal CLEANUP_JSON = proc_spec_minimal(spec), *again = NULL;
    assert_json(minimal, "{\"command\":\"x\",\"backoff_ms\":5,\"ready\":{\"notify\":true},"
                         "\"health\":{\"port\":1,\"interval_ms\":50,\"action\":\"restart\"}}");
    ASSERT_INT(proc_spec_make(minimal, NULL, NULL, &again, &err), 0);
    ASSERT(json_equal(again, spec));
    json_free(&again);
}

TEST(secrets_are_known_by_name_or_by_value)
{
    static const struct {
        const char *name, *value;
        bool is_secret;
    } table[] = {
        {"GITHUB_TOKEN", "x", true},
        {"github_token", "x", true},
        {"AWS_SECRET_ACCESS_KEY", "x", true},
        {"DB_PASSWORD", "x", true},
        {"MYSQL_PASSWD", "x", true},
        {"DB_PASS", "x", true},
        {"MYSQL_PWD", "x", true},
        {"OPENAI_API_KEY", "x", true},
        {"SIGNING_KEY", "x", true},
        {"GOOGLE_CREDENTIALS", "x", true},
        {"HTTP_AUTH", "x", true},
        {"AUTHORIZATION", "x", true},
        {"SESSION_COOKIE", "x", true},
        {"PRIVATE_PEM", "x", true},
        {"DATABASE_URL", "postgres://me:hidden@db/x", true},
        {"URLS", "http://a/ http://u:p@b/", true},
        {"CERT", "-----BEGIN EC PRIVATE KEY-----\nx", true},
        {"GITHUB_TOKEN", "", false},
        {"GIT_AUTHOR_NAME", "x", false},
        {"PWD", "/x", false},
        {"KEYBOARD", "us", false},
        {"XKB_KEYMAP", "us", false},
        {"PORT", "3000", false},
        {"DATABASE_URL", "postgres://me@db:5432/x", false},
        {"DATABASE_URL", "postgres://db:5432/x?a=u:p@c", false},
        {"DATABASE_URL", "postgres://me:@db/", false},
        {"NODE_ENV", "production", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (proc_env_is_secret(table[i].name, table[i].value) != table[i].is_secret)
            test_fail(__FILE__, __LINE__, "%s=%s", table[i].name, table[i].value);
}

TEST(masking_hides_the_secrets_and_leaves_the_rest)
{
    json_t *env CLEANUP_JSON = parse("{\"A\":\"1\",\"API_KEY\":\"k\",\"EMPTY_TOKEN\":\"\"}");
    json_t *masked CLEANUP_JSON = proc_env_masked(env);
    assert_json(masked, "{\"A\":\"1\",\"API_KEY\":\"***\",\"EMPTY_TOKEN\":\"\"}");
    ASSERT_STR(json_get_string(env, "API_KEY", ""), "k");
}
