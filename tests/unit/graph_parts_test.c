/* The parts of a run that are neither graph nor process: attempts, what a task writes, answers. */
#include "scene.h"

#include "base/listing.h"
#include "graph/attempt.h"
#include "graph/output.h"
#include "graph/reply.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* ---- attempts ------------------------------------------------------------------------------------------- */

TEST(an_attempt_that_was_stopped_has_not_succeeded_and_a_question_counts_with_any_exit_code)
{
    static const struct {
        enum stop stop;
        int exit_code;
        bool is_good, asks;
        enum attempt_end end;
    } rows[] = {
        {STOP_NONE, 0, true, false, ATTEMPT_OK},       {STOP_NONE, 1, true, false, ATTEMPT_FAILED},
        {STOP_NONE, -1, true, false, ATTEMPT_FAILED},  {STOP_NONE, 0, false, false, ATTEMPT_FAILED},
        {STOP_NONE, 0, true, true, ATTEMPT_ASKS},      {STOP_NONE, 3, true, true, ATTEMPT_ASKS},
        {STOP_NONE, 0, false, true, ATTEMPT_FAILED},   {STOP_TIMEOUT, 0, true, false, ATTEMPT_FAILED},
        {STOP_TIMEOUT, 0, true, true, ATTEMPT_FAILED}, {STOP_GROUP, 0, true, false, ATTEMPT_STOPPED},
        {STOP_GROUP, 1, false, true, ATTEMPT_STOPPED}, {STOP_RUN, 0, true, true, ATTEMPT_STOPPED},
        {STOP_RUN, 1, true, false, ATTEMPT_STOPPED},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        ASSERT_INT(attempt_verdict(rows[i].stop, rows[i].exit_code, rows[i].is_good, rows[i].asks), rows[i].end);
}

TEST(retries_allow_so_many_further_attempts_unless_the_group_or_the_run_stops)
{
    ASSERT(attempt_is_last(STOP_NONE, false, 1, 0));
    ASSERT(!attempt_is_last(STOP_NONE, false, 1, 1));
    ASSERT(attempt_is_last(STOP_NONE, false, 2, 1));
    ASSERT(!attempt_is_last(STOP_NONE, false, 3, 3));
    ASSERT(attempt_is_last(STOP_NONE, false, 4, 3));
    ASSERT(!attempt_is_last(STOP_TIMEOUT, false, 1, 1));
    ASSERT(attempt_is_last(STOP_GROUP, false, 1, 9));
    ASSERT(attempt_is_last(STOP_RUN, false, 1, 9));
    ASSERT(attempt_is_last(STOP_NONE, true, 1, 9));
}

TEST(the_pause_grows_by_the_factor_up_to_the_most)
{
    static const struct {
        struct task_detail detail;
        unsigned attempt;
        int64_t pause;
    } rows[] = {
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 2}, 1, 100},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 2}, 2, 200},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 2}, 4, 800},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 2}, 5, 1000},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 2}, 4000000000u, 1000},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 1}, 9, 100},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1000, .backoff_factor = 1.5}, 3, 225},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 99, .backoff_factor = 2}, 1, 99},
        {{.backoff_initial_ms = 0, .backoff_max_ms = 1000, .backoff_factor = 2}, 9, 0},
        {{.backoff_initial_ms = 1, .backoff_max_ms = 1000, .backoff_factor = 2}, 1, 1},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 0, .backoff_factor = 2}, 1, 0},
        {{.backoff_initial_ms = 100, .backoff_max_ms = 1, .backoff_factor = 2}, 1, 1},
    };
    static const int64_t usual[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    for (size_t i = 0; i < COUNT(rows); i++)
        ASSERT_INT(attempt_pause(&rows[i].detail, "s", "t", rows[i].attempt), rows[i].pause);
    for (unsigned i = 0; i < COUNT(usual); i++)
        ASSERT_INT(attempt_pause(NULL, "s", "t", i + 1), usual[i]);
}

TEST(the_jitter_spreads_the_pause_to_both_sides_and_is_the_same_for_the_same_attempt)
{
    struct task_detail d = {
        .backoff_initial_ms = 1000000, .backoff_max_ms = 1200000, .backoff_factor = 1, .backoff_jitter = 0.5};
    int64_t least = INT64_MAX, most = 0, at_most = 0;
    for (unsigned i = 1; i <= 200; i++) {
        int64_t pause = attempt_pause(&d, "s", "t", i);
        ASSERT_INT(attempt_pause(&d, "s", "t", i), pause);
        ASSERT(pause >= 500000 && pause <= 1200000);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
        at_most += pause == 1200000;
    }
    ASSERT(least < 550000);
    ASSERT_INT(most, 1200000);
    ASSERT(at_most > 20 && at_most < 100); /* about three of ten */
    ASSERT(attempt_pause(&d, "s", "t", 1) != attempt_pause(&d, "s", "u", 1));
    ASSERT(attempt_pause(&d, "s", "t", 1) != attempt_pause(&d, "r", "t", 1));
    ASSERT(attempt_pause(&d, "st", "", 1) != attempt_pause(&d, "s", "t", 1));
}

/* ---- what a task writes --------------------------------------------------------------------------------- */

/* As [kind, key, value] of its writes, its requests and its question; or the number of the line that is none. */
static json_t *parsed(const char *text, size_t len)
{
    struct tsk_error err;
    struct output output;
    if (output_parse(&output, text, len, &err) < 0) {
        ASSERT_INT(err.code, TSK_INVALID_INPUT);
        const char *number = tsk_error_context(&err, "number");
        return json_pack("s", number ? number : "?");
    }
    json_t *all = json_pack("{s:O*, s:O*, s:O*}", "w", output.effects.list, "r", output.requests, "q", output.question);
    output_clear(&output);
    return all;
}

TEST(a_line_is_a_pair_an_object_or_blank_and_what_is_neither_is_named_by_its_number)
{
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        {"", "{}"},
        {"\n \t\n\r\n", "{}"},
        {"a=1", "{'w': [['set', 'a', 1]]}"},
        {"a=1\r\nb=x\r\n", "{'w': [['set', 'a', 1], ['set', 'b', 'x']]}"},
        {"a=", "{'w': [['set', 'a', '']]}"},
        {"a=b=c", "{'w': [['set', 'a', 'b=c']]}"},
        {"a=007\nb=1.10\nc=1e3\nd=1.5\ne=-3", "{'w': [['set', 'a', '007'], ['set', 'b', '1.10'], ['set', 'c', '1e3'], "
                                              "['set', 'd', 1.5], ['set', 'e', -3]]}"},
        {"a=true\nb=null\nc=[1]\nd=\"q\"",
         "{'w': [['set', 'a', true], ['set', 'b', null], ['set', 'c', [1]], ['set', 'd', 'q']]}"},
        {"a={\"x\":1,\"x\":2}", "{'w': [['set', 'a', '{\\'x\\':1,\\'x\\':2}']]}"},
        {"{\"a\":1,\"b\":[2]}", "{'w': [['set', 'a', 1], ['set', 'b', [2]]]}"},
        {"{\"do\":\"set\",\"key\":\"a\",\"value\":1}", "{'w': [['set', 'a', 1]]}"},
        {"{\"do\":\"add\",\"key\":\"a\",\"value\":2}", "{'w': [['add', 'a', 2]]}"},
        {"{\"do\":\"append\",\"key\":\"a\",\"value\":3}", "{'w': [['append', 'a', 3]]}"},
        {"{\"do\":\"next\",\"task\":\"x\"}\n{\"do\":\"finish\"}",
         "{'r': [{'do': 'next', 'task': 'x'}, {'do': 'finish'}]}"},
        {"{\"do\":\"goto\"}\n{\"do\":\"again\"}\n{\"do\":\"spawn\"}\n{\"do\":\"cancel\"}",
         "{'r': [{'do': 'goto'}, {'do': 'again'}, {'do': 'spawn'}, {'do': 'cancel'}]}"},
        {"{\"do\":\"ask\",\"question\":\"a\"}\n{\"do\":\"ask\",\"question\":\"b\"}",
         "{'q': {'do': 'ask', 'question': 'b'}}"},
        {"x", "'1'"},
        {"=x", "'1'"},
        {"a=1\n\nword\n", "'3'"},
        {"{\"a\":1", "'1'"},
        {"{\"a\":1,\"a\":2}", "'1'"},
        {"{\"\":1}", "'?'"},
        {"{\"do\":\"set\",\"key\":\"\",\"value\":1}", "'?'"},
        {"{\"do\":\"dance\"}", "'1'"},
        {"a=1\n{\"do\":\"\"}", "'2'"},
        {"{}", "{}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char wanted[512];
        snprintf(wanted, sizeof wanted, "%s", rows[i].wanted);
        for (char *at = wanted; (at = strchr(at, '\'')); at++)
            *at = '"';
        json_t *is CLEANUP_JSON = parsed(rows[i].text, strlen(rows[i].text));
        json_t *must CLEANUP_JSON = json_loads(wanted, JSON_DECODE_ANY, NULL);
        if (!must || !json_equal(is, must)) {
            char *shown = json_dumps(is, JSON_ENCODE_ANY);
            test_fail(__FILE__, __LINE__, "%s: %s, expected %s", rows[i].text, shown, wanted);
        }
    }
    json_t *nul CLEANUP_JSON = parsed("a=1\0", 4);
    ASSERT_STR(json_string_value(nul), "0");
}

TEST(a_question_has_a_text_a_known_type_and_a_selection_something_to_choose)
{
    static const struct {
        const char *question;
        bool is_good;
    } rows[] = {
        {"{\"question\":\"q\"}", true},
        {"{\"question\":\"q\",\"type\":null}", true},
        {"{\"question\":\"q\",\"type\":\"text\",\"options\":[]}", true},
        {"{\"question\":\"q\",\"type\":\"approval\",\"options\":null}", true},
        {"{\"question\":\"q\",\"type\":\"selection\",\"options\":[\"a\"]}", true},
        {"{\"question\":\"q\",\"type\":\"multi_selection\",\"options\":[\"a\",\"b\"]}", true},
        {"{\"question\":\"\"}", false},
        {"{\"question\":1}", false},
        {"{}", false},
        {"{\"question\":\"q\",\"type\":\"essay\"}", false},
        {"{\"question\":\"q\",\"type\":1}", false},
        {"{\"question\":\"q\",\"type\":\"selection\"}", false},
        {"{\"question\":\"q\",\"type\":\"selection\",\"options\":[]}", false},
        {"{\"question\":\"q\",\"type\":\"multi_selection\",\"options\":null}", false},
        {"{\"question\":\"q\",\"options\":[1]}", false},
        {"{\"question\":\"q\",\"options\":[\"a\",1]}", false},
        {"{\"question\":\"q\",\"options\":\"a\"}", false},
        {"{\"question\":\"q\",\"options\":{}}", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        json_t *question CLEANUP_JSON = json_loads(rows[i].question, 0, NULL);
        int result = output_check_question(question, &err);
        if (result != (rows[i].is_good ? 0 : -1))
            test_fail(__FILE__, __LINE__, "%s", rows[i].question);
        if (result < 0)
            ASSERT_INT(err.code, TSK_INVALID_INPUT);
        if (strstr(rows[i].question, "essay")) {
            ASSERT_STR(err.text, "param_not_one_of");
            ASSERT_STR(tsk_error_context(&err, "param"), "type");
            ASSERT_STR(tsk_error_context(&err, "value"), "essay");
        }
    }
}

/* ---- answers -------------------------------------------------------------------------------------------- */

static struct rundir here(void)
{
    struct rundir run = {
        .id = "RUN-1", .dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .life_fd = -1, .runner_fd = -1};
    return run;
}

TEST(of_two_answers_to_one_question_the_first_counts_and_the_second_is_refused)
{
    struct tsk_error err;
    struct rundir run = here();
    char id[REPLY_ID_MAX];
    reply_id(3, 0, id);
    ASSERT_STR(id, "3.1");
    reply_id(3, 4, id);
    ASSERT_STR(id, "3.5");
    json_t *question CLEANUP_JSON = json_pack("{s:s}", "id", id), *first CLEANUP_JSON = json_string("one"),
                     *second CLEANUP_JSON = json_string("two");
    json_t *list CLEANUP_JSON = json_pack("[{s:s}, O, {s:s}, {}]", "id", "3.4", question, "id", "3.6");
    ASSERT(!reply_get(&run, question));
    ASSERT_INT(reply_filter(&run, list), 0);
    ASSERT_OK(reply_put(&run, question, first, &err));
    ASSERT_CODE(reply_put(&run, question, second, &err), TSK_ALREADY_ANSWERED);
    ASSERT_STR(tsk_error_context(&err, "run_id"), "RUN-1");
    json_t *got CLEANUP_JSON = reply_get(&run, question);
    ASSERT(json_equal(got, first));
    ASSERT_INT(reply_filter(&run, list), 1);
    ASSERT_INT(json_array_size(list), 3);
    close(run.dir);
}

static struct fs_calls calls;

static int refuse_unnamed(int dir, const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return fs_system_calls.openat(dir, path, flags, mode);
}

TEST(where_no_file_is_without_a_name_an_answer_leaves_nothing_but_itself)
{
    struct tsk_error err;
    struct rundir run = here();
    json_t *question CLEANUP_JSON = json_pack("{s:s}", "id", "1.1"), *yes CLEANUP_JSON = json_true();
    calls = fs_system_calls;
    calls.openat = refuse_unnamed;
    fs = &calls;
    ASSERT_OK(reply_put(&run, question, yes, &err));
    ASSERT_CODE(reply_put(&run, question, yes, &err), TSK_ALREADY_ANSWERED);
    fs = &fs_system_calls;
    struct listing names CLEANUP(listing_close);
    ASSERT_INT(listing_open(&names, run.dir, ".", LISTING_SORTED), 0);
    ASSERT_STR(listing_next(&names), "reply.1.1");
    ASSERT(!listing_next(&names));
    close(run.dir);
}

TEST(an_answer_to_a_question_without_an_id_or_with_a_strange_one_is_refused_and_nothing_is_written)
{
    static const char *const ids[] = {"", "../x", "1.1/", "a", "1.1 ", "1234567890.123456789012345678901"};
    struct rundir run = here();
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct tsk_error err;
        json_t *question CLEANUP_JSON = json_pack("{s:s}", "id", ids[i]), *yes CLEANUP_JSON = json_true();
        ASSERT_CODE(reply_put(&run, question, yes, &err), TSK_ENVIRONMENT);
        ASSERT(!reply_get(&run, question));
    }
    ASSERT(!scene_exists("reply."));
    close(run.dir);
}

TEST(a_question_is_meant_by_its_task_and_in_a_branch_by_the_branch_before_it)
{
    static const struct {
        const char *task, *session, *meant;
        bool is_for;
    } rows[] = {
        {"t", "RUN-1", "t", true},          {"t", "RUN-1", "u", false},          {"t", "RUN-1_b", "t", true},
        {"t", "RUN-1_b", "b/t", true},      {"t", "RUN-1_b", "RUN-1_b/t", true}, {"t", "RUN-1_b", "c/t", false},
        {"t", "RUN-1_b", "RUN-1/t", false}, {"t", "RUN-1_b", "b/u", false},      {"t", "RUN-1_b_c", "b_c/t", true},
        {"t", "RUN-1_bb", "b/t", false},    {"t", "RUN-1_b", "bb/t", false},     {"t", "RUN-1", "RUN-1/t", true},
        {"t", "RUN-1xb", "b/t", false},     {"t", "RUN-1_b", "/t", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *question CLEANUP_JSON = json_pack("{s:s, s:s}", "task", rows[i].task, "session_id", rows[i].session);
        if (reply_is_for("RUN-1", question, rows[i].meant) != rows[i].is_for)
            test_fail(__FILE__, __LINE__, "%s of %s, meant by %s", rows[i].task, rows[i].session, rows[i].meant);
    }
}

static json_t *records_of(const char *text)
{
    json_t *records = json_loads(text, 0, NULL);
    ASSERT(records);
    return records;
}

TEST(open_questions_are_those_asked_and_neither_answered_nor_overtaken_by_a_new_start_or_the_end)
{
    struct tsk_error err;
    struct rundir run = here();
    json_t *records CLEANUP_JSON =
        records_of("[{\"e\":\"run\"}, {\"e\":\"ask\",\"n\":1,\"k\":\"a\",\"s\":\"S\",\"q\":{\"question\":\"?\"}}, "
                   "{\"e\":\"ask\",\"n\":2,\"k\":\"b\",\"s\":\"S\"},"
                   " {\"e\":\"answer\",\"n\":1}, {\"e\":\"ask\",\"n\":1,\"k\":\"a\",\"s\":\"S\"}, "
                   "{\"e\":\"ask\",\"n\":3,\"k\":\"c\",\"s\":\"S\"}, {\"e\":\"start\",\"n\":3},"
                   " {\"e\":\"ask\",\"n\":4,\"k\":\"d\",\"s\":\"S\"}, {\"e\":\"end\",\"n\":4}, "
                   "{\"e\":\"ask\",\"n\":5,\"k\":\"e\",\"s\":\"S\"}, {\"e\":\"group\",\"n\":5}]");
    json_t *open CLEANUP_JSON = reply_questions(&run, records);
    json_t *wanted CLEANUP_JSON = records_of(
        "[{\"id\":\"1.2\",\"task\":\"a\",\"session_id\":\"S\"}, {\"id\":\"2.1\",\"task\":\"b\",\"session_id\":\"S\"},"
        " {\"id\":\"5.1\",\"task\":\"e\",\"session_id\":\"S\"}]");
    ASSERT_INT(json_array_size(open), 3);
    json_each (wanted, i, one) {
        bool is_there = false;
        json_each (open, k, other)
            is_there = is_there || json_equal(one, other);
        ASSERT(is_there);
    }
    ASSERT(!reply_is_there(&run, records));
    json_t *yes CLEANUP_JSON = json_true();
    ASSERT_OK(reply_put(&run, json_array_get(wanted, 1), yes, &err));
    ASSERT(reply_is_there(&run, records));
    json_t *rest CLEANUP_JSON = reply_questions(&run, records);
    ASSERT_INT(json_array_size(rest), 2);
    close(run.dir);
}

TEST(an_answer_is_taken_once_the_journal_has_so_many_of_its_node)
{
    static const struct {
        const char *id;
        bool is_taken;
    } rows[] = {{"1.1", true},  {"1.2", true},  {"1.3", false}, {"2.1", true},
                {"2.2", false}, {"3.1", false}, {"1", false},   {"", false}};
    json_t *records CLEANUP_JSON =
        records_of("[{\"e\":\"answer\",\"n\":1}, {\"e\":\"ask\",\"n\":1}, {\"e\":\"answer\",\"n\":1}, "
                   "{\"e\":\"answer\",\"n\":2}, {\"e\":\"answer\"}]");
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *question CLEANUP_JSON = json_pack("{s:s}", "id", rows[i].id);
        if (reply_is_taken(records, question) != rows[i].is_taken)
            test_fail(__FILE__, __LINE__, "%s", rows[i].id);
    }
}

TEST(an_answer_that_no_question_is_open_for_is_late_unknown_or_was_never_asked_for)
{
    static const struct {
        const char *records, *task;
        enum tsk_code code;
    } rows[] = {
        {"[{\"e\":\"ask\",\"k\":\"a\",\"s\":\"RUN-1_x\"}]", NULL, TSK_ALREADY_ANSWERED},
        {"[{\"e\":\"ask\",\"k\":\"a\",\"s\":\"RUN-1_x\"}]", "a", TSK_ALREADY_ANSWERED},
        {"[{\"e\":\"ask\",\"k\":\"a\",\"s\":\"RUN-1_x\"}]", "x/a", TSK_ALREADY_ANSWERED},
        {"[{\"e\":\"ask\",\"k\":\"b\",\"s\":\"RUN-1\"}, {\"e\":\"ask\",\"k\":\"a\",\"s\":\"RUN-1\"}]", "b",
         TSK_ALREADY_ANSWERED},
        {"[{\"e\":\"ask\",\"k\":\"a\",\"s\":\"RUN-1_x\"}]", "b", TSK_NOT_FOUND},
        {"[{\"e\":\"ask\",\"k\":\"a\",\"s\":\"RUN-1_x\"}]", "y/a", TSK_NOT_FOUND},
        {"[{\"e\":\"start\",\"k\":\"a\"}]", "a", TSK_CONFLICT},
        {"[]", NULL, TSK_CONFLICT},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        json_t *records CLEANUP_JSON = records_of(rows[i].records);
        ASSERT_CODE(reply_refuse("RUN-1", records, rows[i].task, &err), rows[i].code);
    }
}
