/* Which runs are removed, and what is shown of the end of a log. */
#include "scene.h"

#include "run/book.h"
#include "run/prune.h"
#include "run/run_log.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
#define LONG_AGO    "2020-01-01T00:00:00.000Z"

/* ---- pruning -------------------------------------------------------------------------------------------- */

static void put_run(struct tsk_workspace *ws, const char *run, const char *status, const char *ended_at,
                    const char *request)
{
    char path[200];
    json_t *stage CLEANUP_JSON = json_pack("{s:s, s:s, s:s, s:s?, s:s*}", "run_id", run, "status", status, "started_at",
                                           LONG_AGO, "ended_at", ended_at, "request_id", request);
    char *text = json_dumps(stage, 0);
    snprintf(path, sizeof path, "runs/%s", run);
    ASSERT_INT(fs_make_dirs(ws->state_dir, path), 0);
    snprintf(path, sizeof path, "runs/%s/life", run);
    ASSERT_INT(fs_replace_file(ws->state_dir, path, 0600, "", 0), 0);
    snprintf(path, sizeof path, "runs/%s/stage.json", run);
    ASSERT_INT(fs_replace_file(ws->state_dir, path, 0600, text, strlen(text)), 0);
    free(text);
}

static json_t *pruned(struct tsk_workspace *ws, struct prune prune)
{
    struct tsk_error err;
    json_t *gone = NULL;
    ASSERT_OK(prune_runs(ws, &prune, &gone, &err));
    return gone;
}

static bool has(const json_t *list, const char *text)
{
    json_each (list, i, one)
        if (strcmp(json_string_value(one), text) == 0)
            return true;
    return false;
}

TEST(a_run_goes_if_it_is_over_and_old_by_its_id_and_its_end_and_not_the_latest_of_a_request_that_is_there)
{
    static const struct {
        const char *run, *status, *ended_at, *request;
        bool goes;
    } rows[] = {
        {"RUN-20200101T000001-000aaa", "DONE", LONG_AGO, NULL, true},
        {"RUN-20200101T000002-000aaa", "FAILED", LONG_AGO, NULL, true},
        {"RUN-20200101T000003-000aaa", "CANCELLED", LONG_AGO, NULL, true},
        {"RUN-20200101T000004-000aaa", "NEEDS_INPUT", LONG_AGO, NULL, false},
        {"RUN-20200101T000005-000aaa", "INTERRUPTED", LONG_AGO, NULL, false},
        {"RUN-20200101T000006-000aaa", "RUNNING", NULL, NULL, false},
        {"RUN-20200101T000007-000aaa", "DONE", "2999-01-01T00:00:00.000Z", NULL, false},
        {"RUN-20200101T000008-000aaa", "DONE", NULL, NULL, true},
        {"RUN-29990101T000000-000aaa", "DONE", LONG_AGO, NULL, false},
        {"RUN-by-hand", "DONE", LONG_AGO, NULL, false},
        {"RUN-20200101T000010-000aaa", "DONE", LONG_AGO, "RQ-gone", true},
        {"RUN-20200101T000011-000aaa", "DONE", LONG_AGO, "RQ-here", true}, /* a later run is its latest */
        {"RUN-20200101T000012-000aaa", "DONE", LONG_AGO, "RQ-here", false},
    };
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    size_t count = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        put_run(ws, rows[i].run, rows[i].status, rows[i].ended_at, rows[i].request);
        count += rows[i].goes;
        if (rows[i].request)
            ASSERT_OK(book_note_run(ws, rows[i].request, rows[i].run, &err));
    }
    ASSERT_INT(fs_make_dirs(ws->state_dir, "requests"), 0);
    scene_write(".aiflow/requests/RQ-here.yaml", "title: a\nrun: x\n");
    for (int is_dry = 1; is_dry >= 0; is_dry--) {
        json_t *gone CLEANUP_JSON = pruned(ws, (struct prune){.age_ms = 1000, .is_dry = is_dry});
        for (size_t i = 0; i < COUNT(rows); i++) {
            char path[200];
            snprintf(path, sizeof path, ".aiflow/runs/%s", rows[i].run);
            if (has(gone, rows[i].run) != rows[i].goes || scene_exists(path) != (is_dry || !rows[i].goes))
                test_fail(__FILE__, __LINE__, "%s %s", rows[i].run, rows[i].status);
        }
        ASSERT_INT(json_array_size(gone), count);
    }
    json_t *again CLEANUP_JSON = pruned(ws, (struct prune){.age_ms = 1000});
    ASSERT_INT(json_array_size(again), 0);
    tsk_workspace_close(ws);
}

TEST(the_newest_stay_and_at_most_so_many_go_at_a_time)
{
    struct tsk_workspace *ws = scene_open();
    char run[64];
    for (int i = 1; i <= 6; i++) {
        snprintf(run, sizeof run, "RUN-20200101T00000%d-000aaa", i);
        put_run(ws, run, "DONE", LONG_AGO, NULL);
    }
    static const struct {
        int64_t keep;
        size_t max, gone;
    } rows[] = {{6, 0, 0}, {7, 0, 0}, {5, 0, 1}, {2, 0, 4}, {0, 0, 6}, {2, 1, 1}, {2, 4, 4}, {2, 5, 4}, {0, 3, 3}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *gone CLEANUP_JSON =
            pruned(ws, (struct prune){.runs = rows[i].keep, .age_ms = 1, .max = rows[i].max, .is_dry = true});
        ASSERT_INT(json_array_size(gone), rows[i].gone);
        for (int64_t k = 0; k < rows[i].keep && k < 6; k++) {
            snprintf(run, sizeof run, "RUN-20200101T00000%d-000aaa", 6 - (int)k);
            ASSERT(!has(gone, run));
        }
    }
    tsk_workspace_close(ws);
}

TEST(keep_has_its_usual_values_and_its_limits)
{
    static const struct {
        const char *text;
        int64_t runs, days; /* -1: refused */
    } rows[] = {
        {"", 200, 30},
        {"keep: {}\n", 200, 30},
        {"keep: {runs: 0}\n", 0, 30},
        {"keep: {days: 0}\n", 200, 0},
        {"keep: {runs: 2147483647, days: 36500}\n", 2147483647, 36500},
        {"keep: {runs: 2147483648}\n", -1, 0},
        {"keep: {days: 36501}\n", -1, 0},
        {"keep: {runs: -1}\n", -1, 0},
        {"keep: {days: -1}\n", -1, 0},
        {"keep: {runs: many}\n", -1, 0},
        {"keep: {weeks: 1}\n", -1, 0},
    };
    struct tsk_workspace *ws = scene_open();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        struct prune prune;
        ASSERT_INT(fs_replace_file(ws->state_dir, "config.yaml", 0600, rows[i].text, strlen(rows[i].text)), 0);
        int result = prune_config(ws, &prune, &err);
        if (result != (rows[i].runs < 0 ? -1 : 0))
            test_fail(__FILE__, __LINE__, "%s", rows[i].text);
        if (result == 0) {
            ASSERT_INT(prune.runs, rows[i].runs);
            ASSERT_INT(prune.age_ms, rows[i].days * 24 * 3600 * 1000);
            ASSERT_INT(prune.max, 0);
        }
    }
    tsk_workspace_close(ws);
}

TEST(a_run_that_is_removed_by_name_must_be_over_and_not_the_latest_of_its_request)
{
    static const struct {
        const char *run, *status, *request;
        enum tsk_code code; /* TSK_OK: it goes */
    } rows[] = {
        {"RUN-20990101T000001-000aaa", "DONE", NULL, TSK_OK},
        {"RUN-20990101T000002-000aaa", "FAILED", NULL, TSK_OK},
        {"RUN-20990101T000003-000aaa", "CANCELLED", NULL, TSK_OK},
        {"RUN-20990101T000004-000aaa", "NEEDS_INPUT", NULL, TSK_NEEDS_INPUT},
        {"RUN-20990101T000005-000aaa", "INTERRUPTED", NULL, TSK_CONFLICT},
        {"RUN-20990101T000006-000aaa", "DONE", "RQ-here", TSK_CONFLICT},
        {"RUN-20990101T000007-000aaa", "DONE", "RQ-gone", TSK_OK},
    };
    struct tsk_workspace *ws = scene_open();
    ASSERT_INT(fs_make_dirs(ws->state_dir, "requests"), 0);
    scene_write(".aiflow/requests/RQ-here.yaml", "title: a\nrun: x\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        char id[RUN_ID_MAX], path[200];
        put_run(ws, rows[i].run, rows[i].status, LONG_AGO, rows[i].request);
        if (rows[i].request)
            ASSERT_OK(book_note_run(ws, rows[i].request, rows[i].run, &err));
        int result = prune_remove(ws, rows[i].run, id, &err);
        snprintf(path, sizeof path, ".aiflow/runs/%s", rows[i].run);
        ASSERT_INT(result, rows[i].code == TSK_OK ? 0 : -1);
        ASSERT_INT(scene_exists(path), rows[i].code != TSK_OK);
        if (result == 0)
            ASSERT_STR(id, rows[i].run);
        else
            ASSERT_STR(tsk_code_name(err.code), tsk_code_name(rows[i].code));
        ASSERT_CODE(prune_remove(ws, "RUN-20990101T000009-000aaa", id, &err), TSK_RUN_NOT_FOUND);
    }
    tsk_workspace_close(ws);
}

TEST(a_run_that_cannot_be_removed_yet_is_named_with_the_commands_that_help)
{
    static const struct {
        const char *status, *text;
        enum tsk_code code;
        const char *next[3];
    } rows[] = {
        {"RUNNING", "run_has_runner", TSK_RUN_IN_PROGRESS, {"tasuki wait run %s", "tasuki runs show %s", NULL}},
        {"NEEDS_INPUT", "run_rm_waits", TSK_NEEDS_INPUT, {"tasuki runs show %s", "tasuki runs cancel %s", NULL}},
        {"INTERRUPTED", "run_rm_interrupted", TSK_CONFLICT, {"tasuki runs show %s", "tasuki runs cancel %s", NULL}},
    };
    struct tsk_workspace *ws = scene_open();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        struct rundir run;
        char id[RUN_ID_MAX], next[100];
        json_t *stage CLEANUP_JSON = json_pack("{s:s, s:s}", "status", rows[i].status, "started_at", LONG_AGO);
        ASSERT_OK(rundir_create(ws, NULL, &run, &err));
        ASSERT_OK(rundir_write_stage(&run, stage, &err));
        ASSERT_OK(rundir_publish(ws, &run, &err));
        snprintf(id, sizeof id, "%s", run.id);
        if (i)
            rundir_clear(&run); /* its runner has ended */
        ASSERT_CODE(prune_remove(ws, id, (char[RUN_ID_MAX]){0}, &err), rows[i].code);
        ASSERT_STR(err.text, rows[i].text);
        ASSERT_STR(tsk_error_context(&err, "run"), id);
        ASSERT_STR(tsk_error_context(&err, "run_id"), id);
        for (unsigned k = 0; rows[i].next[k]; k++) {
            size_t len = strlen(rows[i].next[k]) - 2;
            snprintf(next, sizeof next, "%.*s%s", (int)len, rows[i].next[k], id);
            ASSERT_STR(tsk_error_next(&err, k), next);
        }
        ASSERT(!tsk_error_next(&err, 2));
        if (!i)
            rundir_clear(&run);
    }
    tsk_workspace_close(ws);
}

/* ---- logs ----------------------------------------------------------------------------------------------- */

TEST(the_last_lines_of_a_log_are_counted_from_its_end_whether_that_has_a_newline_or_not)
{
    static const struct {
        const char *log;
        int64_t lines;
        const char *tail;
    } rows[] = {
        {"a\nb\nc\n", 1, "c\n"},
        {"a\nb\nc\n", 2, "b\nc\n"},
        {"a\nb\nc\n", 3, "a\nb\nc\n"},
        {"a\nb\nc\n", 4, "a\nb\nc\n"},
        {"a\nb\nc", 1, "c"},
        {"a\nb\nc", 2, "b\nc"},
        {"\n\n\n", 1, "\n"},
        {"\n\n\n", 2, "\n\n"},
        {"a", 1, "a"},
        {"", 1, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        struct buf text CLEANUP(buf_clear) = {.max = RUN_LOG_MAX};
        off_t offset = -1;
        scene_write("log", rows[i].log);
        ASSERT_INT(run_log_tail(AT_FDCWD, "log", rows[i].lines, &text, &offset, &err), 1);
        ASSERT(text.len == strlen(rows[i].tail) && memcmp(text.data ? text.data : "", rows[i].tail, text.len) == 0);
        ASSERT_INT(offset, strlen(rows[i].log) - strlen(rows[i].tail));
    }
    struct tsk_error err;
    struct buf text CLEANUP(buf_clear) = {.max = RUN_LOG_MAX};
    off_t offset;
    ASSERT_INT(run_log_tail(AT_FDCWD, "none", 1, &text, &offset, &err), 0);
    ASSERT_INT(symlink("log", "link"), 0);
    ASSERT_INT(run_log_tail(AT_FDCWD, "link", 1, &text, &offset, &err), -1);
}

TEST(a_tail_that_is_longer_than_what_is_read_at_once_is_whole)
{
    static const int sizes[] = {RUN_LOG_PIECE - 2, RUN_LOG_PIECE - 1, RUN_LOG_PIECE, RUN_LOG_PIECE + 1,
                                2 * RUN_LOG_PIECE};
    static char log[3 * RUN_LOG_PIECE];
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct tsk_error err;
        struct buf text CLEANUP(buf_clear) = {.max = RUN_LOG_MAX};
        off_t offset;
        memset(log, 'x', sizeof log);
        memcpy(log, "first\n", 6);
        log[6 + sizes[i]] = '\n';
        log[7 + sizes[i]] = '\0';
        scene_write("log", log);
        ASSERT_INT(run_log_tail(AT_FDCWD, "log", 1, &text, &offset, &err), 1);
        ASSERT_INT(offset, 6);
        ASSERT(text.len == strlen(log + 6) && memcmp(text.data, log + 6, text.len) == 0);
    }
}

TEST(bytes_that_json_cannot_have_are_replaced_one_by_one)
{
    static const struct {
        const char *data;
        size_t len;
        const char *text;
    } rows[] = {{"ab", 2, "ab"},
                {"a\0b", 3,
                 "a\xef\xbf\xbd"
                 "b"},
                {"\0", 1, "\xef\xbf\xbd"},
                {"a\0\0", 3, "a\xef\xbf\xbd\xef\xbf\xbd"},
                {"a\xff"
                 "b",
                 3,
                 "a\xef\xbf\xbd"
                 "b"},
                {"", 0, ""},
                {"\"\\\n", 3, "\"\\\n"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *text CLEANUP_JSON = run_log_text(rows[i].data, rows[i].len);
        ASSERT_STR(json_string_value(text), rows[i].text);
    }
}

TEST(a_failure_shows_the_last_20_lines_of_its_attempt_and_ten_failures_show_theirs)
{
    struct tsk_workspace *ws = scene_open();
    char log[1000] = "";
    for (int i = 1; i <= 25; i++)
        snprintf(log + strlen(log), sizeof log - strlen(log), "line %d\n", i);
    ASSERT_INT(fs_make_dirs(ws->state_dir, "runs/R"), 0);
    scene_write(".aiflow/runs/R/log", log);
    scene_write(".aiflow/runs/R/bar", "old\n10%\r50%\r100%\nend");
    json_t *failures = json_array();
    json_array_append_new(failures, json_pack("{s:s}", "log", "/x/.aiflow/runs/R/log"));
    json_array_append_new(failures, json_pack("{s:s, s:i}", "log", "/x/.aiflow/runs/R/bar", "log_from", 4));
    json_array_append_new(failures, json_pack("{s:s}", "log", "/x/runs/../runs/R/log"));
    json_array_append_new(failures, json_pack("{s:s}", "log", "/x/.aiflow/runs/R/none"));
    json_array_append_new(failures,
                          json_pack("{s:s, s:i}", "log", "/x/.aiflow/runs/R/log", "log_from", (int)strlen(log)));
    while (json_array_size(failures) < 12)
        json_array_append_new(failures, json_pack("{s:s}", "log", "/x/.aiflow/runs/R/bar"));
    json_t *stage CLEANUP_JSON = json_pack("{s:o}", "failures", failures);
    run_log_add_failures(ws, stage, true);
    const json_t *lines = json_object_get(json_array_get(failures, 0), "lines");
    ASSERT_INT(json_array_size(lines), 20);
    ASSERT_STR(json_string_value(json_array_get(lines, 0)), "line 6");
    ASSERT_STR(json_string_value(json_array_get(lines, 19)), "line 25");
    lines = json_object_get(json_array_get(failures, 1), "lines");
    ASSERT_INT(json_array_size(lines), 2);
    ASSERT_STR(json_string_value(json_array_get(lines, 0)), "100%");
    ASSERT_STR(json_string_value(json_array_get(lines, 1)), "end");
    ASSERT(!json_object_get(json_array_get(failures, 2), "lines"));
    ASSERT(!json_object_get(json_array_get(failures, 3), "lines"));
    ASSERT_INT(json_array_size(json_object_get(json_array_get(failures, 4), "lines")), 0);
    ASSERT_INT(json_array_size(json_object_get(json_array_get(failures, 9), "lines")), 3);
    ASSERT(!json_object_get(json_array_get(failures, 10), "lines"));
    tsk_workspace_close(ws);
}
