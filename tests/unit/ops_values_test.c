/* What operations take and give without a workspace: values of each type, pages of a list, filters of events. */
#include "base/json.h"
#include "harness/test.h"
#include "ops/event_filter.h"
#include "ops/page.h"
#include "ops/place.h"
#include "ops/short_id.h"
#include "unit/scene.h"

#include <stdlib.h>

static json_t *json_of(const char *text)
{
    struct tsk_error err = {0};
    json_t *json = NULL;
    if (json_parse(text, strlen(text), "text", &json, &err) < 0)
        test_fail(__FILE__, __LINE__, "no JSON: %s", text);
    return json;
}

/* ---- values ---- */

static const char *const kinds[] = {"red", "light green", NULL};
static const struct op_param params[] = {
    {.name = "map", .type = OP_MAP},
    {.name = "objects", .type = OP_OBJECTS},
    {.name = "any", .type = OP_ANY, .max = 4},
    {.name = "many", .type = OP_ID, .flags = OP_MANY},
    {.name = "ms", .type = OP_DURATION, .flags = OP_MS, .min = 10},
    {.name = "count", .type = OP_INT, .min = 1, .max = 9000000000000000},
    {.name = "shell", .type = OP_ARGV, .flags = OP_SHELL, .max = 4},
    {.name = "kind", .type = OP_ENUM, .choices = kinds, .flags = OP_POSITIONAL},
    {.name = "run", .type = OP_STRING, .flags = OP_POSITIONAL},
    {.name = "session", .type = OP_STRING},
    {.name = "local", .type = OP_STRING, .flags = OP_CLI_ONLY},
    {0},
};
static const struct op lock = {.name = "lock.sample", .noun = "lock", .verb = "sample", .params = params};

TEST(each_value_is_taken_as_what_it_is_or_refused_with_the_reason)
{
    static const char *const values[][2] = {
        /* the arguments as they are then, or "text: context want" of the refusal */
        {"{\"map\":{\"a\":\"x\",\"b\":1,\"c\":true,\"d\":0.5}}",
         "{\"map\":{\"a\":\"x\",\"b\":\"1\",\"c\":\"true\",\"d\":\"0.5\"}}"},
        {"{\"map\":{}}", "{\"map\":{}}"},
        {"{\"map\":{\"\":\"x\"}}", "param_type object of strings"},
        {"{\"map\":{\"a\":null}}", "param_type object of strings"},
        {"{\"map\":{\"a\":[]}}", "param_type object of strings"},
        {"{\"map\":[]}", "param_type object"},
        {"{\"objects\":[{},{\"a\":1}]}", "{\"objects\":[{},{\"a\":1}]}"},
        {"{\"objects\":[1]}", "param_type array of objects"},
        {"{\"objects\":\"file\"}", "{\"objects\":\"file\"}"},
        {"{\"objects\":5}", "param_type string"},
        {"{\"any\":{\"a\":1}}", "{\"any\":{\"a\":1}}"},
        {"{\"any\":\"1234\"}", "{\"any\":\"1234\"}"},
        {"{\"any\":\"12345\"}", "param_too_long 4"},
        {"{\"any\":[]}", "param_type string"},
        {"{\"many\":\"a\"}", "{\"many\":\"a\"}"},
        {"{\"many\":[\"a\",\"b\"]}", "{\"many\":[\"a\",\"b\"]}"},
        {"{\"many\":[\"a\",\"/\"]}", "id_pattern "},
        {"{\"many\":[\"a\",1]}", "param_type string"},
        {"{\"ms\":10}", "{\"ms\":10}"},
        {"{\"ms\":9}", "param_not_a_duration 30s, 5m, 1h"},
        {"{\"ms\":\"250\"}", "{\"ms\":250}"},
        {"{\"ms\":\"99999999999\"}", "{\"ms\":99999999999}"},
        {"{\"ms\":\"5s\"}", "{\"ms\":5000}"},
        {"{\"ms\":\"forever\"}", "param_not_a_duration 30s, 5m, 1h"},
        {"{\"ms\":\"\"}", "param_not_a_duration 30s, 5m, 1h"},
        {"{\"ms\":2147483646}", "{\"ms\":2147483646}"},
        {"{\"ms\":2147483647}", "param_not_a_duration 30s, 5m, 1h"},
        {"{\"count\":3.0}", "{\"count\":3}"},
        {"{\"count\":3.5}", "param_not_a_number 1 … 9000000000000000"},
        {"{\"count\":0}", "param_out_of_range 1 … 9000000000000000"},
        {"{\"count\":9000000000000000}", "{\"count\":9000000000000000}"},
        {"{\"count\":9000000000000001}", "param_out_of_range 1 … 9000000000000000"},
        {"{\"count\":\"99999999999999999999\"}", "param_out_of_range 1 … 9000000000000000"},
        {"{\"count\":\"a\"}", "param_not_a_number 1 … 9000000000000000"},
        {"{\"shell\":\"a b\"}", "{\"shell\":\"a b\"}"},
        {"{\"shell\":\"a b c\"}", "param_too_long 4"},
        {"{\"shell\":[\"a b c\"]}", "{\"shell\":[\"a b c\"]}"},
        {"{\"shell\":[1]}", "param_type array of strings"},
        {"{\"shell\":1}", "param_type array"},
        {"{\"kind\":\"red\"}", "{\"kind\":\"red\"}"},
        {"{\"kind\":\"RED\"}", "param_not_one_of_near red, light green"},
        {"{\"kind\":\"deploy\"}", "param_not_one_of red, light green"},
        {"{\"run_id\":\"R\"}", "{\"run\":\"R\"}"},
        {"{\"id\":\"R\"}", "{\"run\":\"R\"}"},
        {"{\"id\":\"R\",\"run\":\"R\"}", "{\"run\":\"R\"}"},
        {"{\"id\":\"R\",\"run\":\"S\"}", "param_unknown "},
        {"{\"session_id\":\"s\"}", "{\"session\":\"s\"}"},
        {"{\"request_id\":\"r\"}", "param_unknown "},
        {"{\"session\":null,\"map\":null}", "{}"},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct tsk_error err = {0};
        struct buf got CLEANUP(buf_clear) = BUF_INIT;
        json_t *args CLEANUP_JSON = json_of(values[i][0]);
        if (op_check_args(&lock, args, &err) == 0)
            json_write(&got, args, false);
        else
            buf_printf(&got, "%s %s", err.text, tsk_error_context(&err, "want") ? tsk_error_context(&err, "want") : "");
        if (strncmp(buf_str(&got), values[i][1], strlen(values[i][1])) != 0)
            test_fail(__FILE__, __LINE__, "%s is %s, expected %s", values[i][0], buf_str(&got), values[i][1]);
        ASSERT(!err.text || err.code == TSK_INVALID_INPUT);
        ASSERT(!err.text || tsk_error_next(&err, 0)); /* what to do */
    }
}

TEST(a_lock_whose_kind_was_forgotten_is_proposed_as_a_name)
{
    static const char *const values[][2] = {{"{\"kind\":\"deploy\"}", "tasuki lock sample name deploy"},
                                            {"{\"kind\":\"RED\"}", "tasuki lock sample --help"},
                                            {"{\"kind\":\"de ploy\"}", "tasuki lock sample --help"}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct tsk_error err = {0};
        json_t *args CLEANUP_JSON = json_of(values[i][0]);
        ASSERT_CODE(op_check_args(&lock, args, &err), TSK_INVALID_INPUT);
        ASSERT_STR(tsk_error_next(&err, 0), values[i][1]);
    }
}

TEST(what_is_for_the_command_line_only_is_unknown_elsewhere)
{
    struct tsk_error err = {0};
    json_t *args CLEANUP_JSON = json_of("{\"local\":\"x\"}"),
                 *others CLEANUP_JSON = json_of("{\"run\":\"x\",\"nonsense\":1}");
    ASSERT_OK(op_check_args(&lock, args, &err));
    ASSERT_CODE(op_check_remote(&lock, args, &err), TSK_INVALID_INPUT);
    ASSERT_STR(tsk_error_context(&err, "param"), "local");
    ASSERT_OK(op_check_remote(&lock, others, &err));
}

/* ---- pages ---- */

static void key_of(const json_t *item, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s", json_string_value(item));
}

TEST(a_page_begins_behind_its_cursor_and_says_whether_there_is_more)
{
    static const char *const pages[][2] = {
        {"{}", "{\"x\":[\"a\",\"b\",\"c\",\"d\"],\"total\":4,\"cursor\":null}"},
        {"{\"limit\":4}", "{\"x\":[\"a\",\"b\",\"c\",\"d\"],\"total\":4,\"cursor\":null}"},
        {"{\"limit\":3}", "{\"x\":[\"a\",\"b\",\"c\"],\"total\":4,\"cursor\":\"c\"}"},
        {"{\"limit\":3,\"cursor\":\"c\"}", "{\"x\":[\"d\"],\"total\":4,\"cursor\":null}"},
        {"{\"limit\":1,\"cursor\":\"\"}", "{\"x\":[\"a\"],\"total\":4,\"cursor\":\"a\"}"},
        {"{\"limit\":2,\"cursor\":\"aa\"}", "{\"x\":[\"b\",\"c\"],\"total\":4,\"cursor\":\"c\"}"},
        {"{\"cursor\":\"d\"}", "{\"x\":[],\"total\":4,\"cursor\":null}"},
        {"{\"limit\":3,\"cursor\":\"a\"}", "{\"x\":[\"b\",\"c\",\"d\"],\"total\":4,\"cursor\":null}"},
    };
    json_t *items CLEANUP_JSON = json_of("[\"c\",\"a\",\"d\",\"b\"]");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        json_t *args CLEANUP_JSON = json_of(pages[i][0]);
        struct op_call call = {.args = args};
        struct buf got CLEANUP(buf_clear) = BUF_INIT;
        json_t *page CLEANUP_JSON = page_sorted(&call, "x", items, key_of);
        json_write(&got, page, false);
        ASSERT_STR(buf_str(&got), pages[i][1]);
    }
}

TEST(a_list_from_the_newest_goes_down_and_an_agent_gets_a_short_one)
{
    json_t *args CLEANUP_JSON = json_of("{\"cursor\":\"c\"}"), *none CLEANUP_JSON = json_object();
    struct op_call call = {.args = args}, brief = {.args = none, .is_brief = true};
    struct page page CLEANUP(page_clear) = page_begin(&call, 2);
    page.is_descending = true;
    ASSERT(!page_takes(&page, "d") && !page_takes(&page, "c") && page_takes(&page, "b"));
    page_put(&page, json_string("b"));
    ASSERT(!page_is_full(&page) && page_takes(&page, "a"));
    page_put(&page, json_string("a"));
    ASSERT(page_is_full(&page) && !page.has_more && !page_takes(&page, "0") && page.has_more);
    ASSERT_INT(page.total, 5);
    page.is_partial = true;
    json_t *json CLEANUP_JSON = page_end(&page, "x");
    ASSERT(!json_object_get(json, "total"));
    ASSERT_STR(json_get_string(json, "cursor", ""), "a");
    struct page shown CLEANUP(page_clear) = page_begin(&brief, PAGE_ALL),
                      given CLEANUP(page_clear) = page_begin(&brief, 7),
                      whole CLEANUP(page_clear) = page_begin(&call, PAGE_ALL);
    ASSERT_INT(shown.limit, 50);
    ASSERT_INT(given.limit, 7);
    ASSERT(whole.limit == PAGE_ALL && !shown.after);
}

/* ---- events ---- */

TEST(a_filter_takes_the_events_of_its_type_its_thing_its_actor_and_its_time)
{
    static const struct {
        const char *filter, *event;
        bool wants;
    } cases[] = {
        {"{}", "{}", true},
        {"{\"type\":\"lock.*\"}", "{\"type\":\"lock.acquired\"}", true},
        {"{\"type\":\"lock.*\"}", "{\"type\":\"locked\"}", false},
        {"{\"type\":\"*\"}", "{\"type\":\"x\"}", true},
        {"{\"type\":\"lock\"}", "{\"type\":\"lock.acquired\"}", false},
        {"{\"type\":\"lock.acquired\"}", "{\"type\":\"lock.acquired\"}", true},
        {"{\"type\":\"\"}", "{\"type\":\"x\"}", false},
        {"{\"actor\":\"me\"}", "{\"actor\":{\"label\":\"me\"}}", true},
        {"{\"actor\":\"me\"}", "{\"actor\":{\"label\":\"me2\"}}", false},
        {"{\"actor\":\"me\"}", "{}", false},
        {"{\"thing\":\"process:p\"}", "{\"data\":{\"process_id\":\"p\"}}", true},
        {"{\"thing\":\"process:p\"}", "{\"data\":{\"process_id\":\"pp\"}}", false},
        {"{\"thing\":\"process:p\"}", "{\"process_id\":\"p\"}", false},
        {"{\"thing\":\"run:R\"}", "{\"run_id\":\"R\"}", true},
        {"{\"thing\":\"run:R\"}", "{\"data\":{\"run_id\":\"R\"}}", false},
        {"{\"thing\":\"session:R\"}", "{\"session_id\":\"R\"}", true},
        {"{\"thing\":\"task:R\"}", "{\"task_id\":\"R\"}", true},
        {"{\"thing\":\"workflow:w\"}", "{\"data\":{\"workflow\":\"w\"}}", true},
        {"{\"thing\":\"template:t\"}", "{\"data\":{\"template\":\"t\"}}", true},
        {"{\"thing\":\"agent:i\"}", "{\"data\":{\"instance\":\"i\"}}", true},
        {"{\"thing\":\"request:q\"}", "{\"data\":{\"request_id\":\"q\"}}", true},
        {"{\"thing\":\"request:q\"}", "{\"data\":{\"kind\":\"request\",\"id\":\"q\"}}", true},
        {"{\"thing\":\"request:q\"}", "{\"data\":{\"kind\":\"request\",\"lock\":\"q\"}}", true},
        {"{\"thing\":\"request:q\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"q\"}}", false},
        {"{\"thing\":\"lock:a\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"a\",\"fence\":1}}", true},
        {"{\"thing\":\"lock:a\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"a\"}}", false},
        {"{\"thing\":\"lock:a\"}", "{\"data\":{\"id\":\"a\",\"fence\":1}}", false},
        {"{\"thing\":\"lock:name:a\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"a\",\"fence\":1}}", true},
        {"{\"thing\":\"lock:request:a\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"a\",\"fence\":1}}", false},
        {"{\"thing\":\"lock:name:b\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"a\",\"fence\":1}}", false},
        {"{\"thing\":\"lock:queue\"}", "{\"data\":{\"kind\":\"queue\",\"fence\":1}}", true},
        {"{\"thing\":\"lock:sprint\"}", "{\"data\":{\"kind\":\"sprint\",\"id\":\"x\",\"fence\":1}}", true},
        {"{\"thing\":\"lock:name\"}", "{\"data\":{\"kind\":\"name\",\"id\":\"a\",\"fence\":1}}", false},
        {"{\"since\":\"2026-01-01T00:00:00Z\"}", "{\"time\":\"2026-01-01T00:00:00.000Z\"}", true},
        {"{\"since\":\"2026-01-01T00:00:00Z\"}", "{\"time\":\"2025-12-31T23:59:59.999Z\"}", false},
        {"{\"until\":\"2026-01-01T00:00:00Z\"}", "{\"time\":\"2026-01-01T00:00:00.000Z\"}", true},
        {"{\"until\":\"2026-01-01T00:00:00Z\"}", "{\"time\":\"2026-01-01T00:00:01.001Z\"}", false},
        {"{\"until\":\"2026-01-01T00:00:00Z\"}", "{}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct event_filter filter;
        struct tsk_error err = {0};
        json_t *args CLEANUP_JSON = json_of(cases[i].filter), *event CLEANUP_JSON = json_of(cases[i].event);
        ASSERT_OK(event_filter_take(args, &filter, &err));
        if (event_filter_wants(&filter, event) != cases[i].wants)
            test_fail(__FILE__, __LINE__, "%s %s", cases[i].filter, cases[i].event);
    }
    static const char *const wrong[] = {"{\"thing\":\"x:y\"}", "{\"thing\":\"process\"}", "{\"thing\":\"locks:a\"}",
                                        "{\"since\":\"soon\"}", "{\"until\":\"soon\"}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct event_filter filter;
        struct tsk_error err = {0};
        json_t *args CLEANUP_JSON = json_of(wrong[i]);
        ASSERT_CODE(event_filter_take(args, &filter, &err), TSK_INVALID_INPUT);
    }
}

TEST(an_event_is_bad_if_something_went_wrong_by_itself)
{
    static const struct {
        const char *event;
        bool is_bad;
    } events[] = {{"{\"type\":\"lock.holder_died\"}", true},
                  {"{\"type\":\"lock.lost\"}", true},
                  {"{\"type\":\"run.interrupted\"}", true},
                  {"{\"type\":\"queue.interrupted\"}", true},
                  {"{\"type\":\"workflow.owner_died\"}", true},
                  {"{\"type\":\"process.unhealthy\"}", true},
                  {"{\"type\":\"process.lost\"}", true},
                  {"{\"type\":\"process.gave_up\"}", true},
                  {"{\"type\":\"process.not_ready\"}", true},
                  {"{\"type\":\"process.start_failed\"}", true},
                  {"{\"type\":\"task.failed\"}", true},
                  {"{\"type\":\"LOG_GAP\"}", true},
                  {"{\"type\":\"LOG_DISK_FULL\"}", true},
                  {"{\"type\":\"lock.acquired\"}", false},
                  {"{}", false},
                  {"{\"type\":\"process.exited\",\"data\":{\"status\":1,\"by\":\"itself\"}}", true},
                  {"{\"type\":\"process.exited\",\"data\":{\"status\":0,\"by\":\"itself\"}}", false},
                  {"{\"type\":\"process.exited\",\"data\":{\"status\":1,\"by\":\"stop\"}}", false},
                  {"{\"type\":\"run.ended\",\"data\":{\"status\":\"FAILED\"}}", true},
                  {"{\"type\":\"run.ended\",\"data\":{\"status\":\"DONE\"}}", false}};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        json_t *event CLEANUP_JSON = json_of(events[i].event);
        if (event_is_bad(event) != events[i].is_bad)
            test_fail(__FILE__, __LINE__, "%s", events[i].event);
    }
}

/* ---- paths and commands as they are typed ---- */

TEST(a_path_of_the_workspace_is_named_as_it_is_from_here)
{
    struct tsk_workspace *ws = scene_open();
    char root[4096], path[8192], want[8192];
    snprintf(root, sizeof root, "%s", ws->root);
    ASSERT(mkdir("a", 0700) == 0 && mkdir("a/b", 0700) == 0 && mkdir("ab", 0700) == 0);
    static const struct {
        const char *here, *path, *place; /* here and paths that begin with `@`: from the root; place NULL: as it was */
    } places[] = {{"@", ".aiflow/x", NULL},
                  {"@/a", ".aiflow/x", "../.aiflow/x"},
                  {"@/a/b", "@/a/c", "../c"},
                  {"@/a/b", "@/a/b", "."},
                  {"@/a/b", "@/ab/x", "../../ab/x"},
                  {"@/a", "@/ab", "../ab"},
                  {"@/ab", "@/a/x", "../a/x"},
                  {"@", "@/x", "x"},
                  {"@", "@", "."},
                  {"/", "@/x", NULL},
                  {"@", "/etc/x", NULL},
                  {"@", "@x", NULL},
                  {"@", "x", NULL},
                  {"/usr", ".aiflow/x", "@/.aiflow/x"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct buf place CLEANUP(buf_clear) = BUF_INIT;
        const char *here = places[i].here, *given = places[i].path, *end = places[i].place;
        snprintf(path, sizeof path, "%s%s", here[0] == '@' ? root : "", here + (here[0] == '@'));
        ASSERT_INT(chdir(path), 0);
        snprintf(path, sizeof path, "%s%s", given[0] == '@' ? root : "", given + (given[0] == '@'));
        bool is_other = place_from_here(ws, path, &place);
        if (end && end[0] == '@') /* from elsewhere */
            snprintf(want, sizeof want, "%s%s", root, end + 1);
        else
            snprintf(want, sizeof want, "%s", end ? end : "");
        if (is_other != (end != NULL) || (end && strcmp(buf_str(&place), want) != 0))
            test_fail(__FILE__, __LINE__, "%s from %s is %s, expected %s", given, here, buf_str(&place), want);
    }
    ASSERT_INT(chdir(root), 0);
    tsk_workspace_close(ws);
}

TEST(a_command_is_shown_as_it_would_be_typed)
{
    static const char *const commands[][3] = {{NULL, "tasuki status", "tasuki status"},
                                              {"/a b", "tasuki status", "tasuki --root '/a b' status"},
                                              {"/a", "tasuki --help", "tasuki --help"},
                                              {"/a", "namei -l x", "namei -l x"},
                                              {"/a", "tasuki", "tasuki"}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        op_put_command(&line, commands[i][0], commands[i][1]);
        ASSERT_STR(buf_str(&line), commands[i][2]);
    }
    static const struct op_param some[] = {{.name = "name", .type = OP_STRING, .flags = OP_POSITIONAL},
                                           {.name = "count", .type = OP_INT},
                                           {.name = "long_one", .type = OP_BOOL},
                                           {.name = "set", .type = OP_MAP},
                                           {.name = "many", .type = OP_STRING, .option = "one"},
                                           {.name = "remote", .type = OP_STRING, .flags = OP_REMOTE_ONLY},
                                           {.name = "instance", .type = OP_STRING, .flags = OP_CALLER},
                                           {0}};
    const struct op op = {.name = "test.typed", .noun = "test", .verb = "typed", .params = some};
    json_t *args CLEANUP_JSON =
        json_of("{\"name\":\"a b\",\"count\":3,\"long_one\":true,\"set\":{\"k\":\"v w\"},\"many\":[\"x\",\"y\"],"
                "\"remote\":\"r\",\"instance\":\"i\"}");
    json_t *off CLEANUP_JSON = json_of("{\"long_one\":false,\"count\":\"3\"}"), *other CLEANUP_JSON = json_string("c");
    struct op_call call = {.op = &op, .args = args};
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    op_put_typed(&line, &call, "", NULL);
    ASSERT_STR(buf_str(&line), "tasuki test typed 'a b' --count 3 --long-one --set 'k=v w' --one x --one y");
    buf_reset(&line);
    call.args = off;
    op_put_typed(&line, &call, "name", other);
    ASSERT_STR(buf_str(&line), "tasuki test typed c --count 3");
    ASSERT_STR(op_words(&op, (char[64]){0}), "test typed");
}

TEST(an_id_is_shortened_to_its_end_where_that_is_in_no_other_then_to_its_time_and_its_end)
{
    static const char *const forms[][2] = {{"RUN-20260207T223001-ab12ce", "ab12ce"},
                                           {"RUN-20260207T223000-ab12cd", "223000-ab12cd"},
                                           {"RUN-20260207T223002-ab12cd", "223002-ab12cd"},
                                           {"RUN-20260207T223003-ab1", "RUN-20260207T223003-ab1"},
                                           {"RUN-20260207T223004-ab1f", "ab1f"},
                                           {"RQ-plain", "RQ-plain"},
                                           {"plain", "plain"},
                                           {"RUN-20260208T101010-1234", "RUN-20260208T101010-1234"},
                                           {"RUN-20260209T101010-1234", "RUN-20260209T101010-1234"},
                                           {"RUN-20260209T101010-9999", "RUN-20260209T101010-9999"}};
    json_t *ids CLEANUP_JSON = json_array();
    for (size_t i = 0; i < sizeof forms / sizeof forms[0] - 1; i++) /* the last one is not there */
        json_array_append_new(ids, json_string(forms[i][0]));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        ASSERT_STR(short_id_of(short_ids_of_texts(ids), forms[i][0]), forms[i][1]);
    struct op_call call = {0};
    short_id_put(&call, short_ids_of_texts(ids), "");
    ASSERT(!call.aside);
    short_id_put(&call, short_ids_of_texts(ids), forms[0][0]);
    short_id_put(&call, short_ids_of_texts(ids), forms[1][0]);
    struct buf got CLEANUP(buf_clear) = BUF_INIT;
    json_write(&got, call.aside, false);
    ASSERT_STR(
        buf_str(&got),
        "{\"short\":{\"RUN-20260207T223001-ab12ce\":\"ab12ce\",\"RUN-20260207T223000-ab12cd\":\"223000-ab12cd\"}}");
    json_decref(call.aside);
}
