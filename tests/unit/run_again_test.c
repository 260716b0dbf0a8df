/* Which run of a request may go on, be put back, or is recorded as failed; what a program elsewhere says. */
#include "scene.h"

#include "run/book.h"
#include "run/edit_text.h"
#include "run/elsewhere.h"
#include "run/start.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))
#define BEGUN       "2020-01-01T00:00:00.000Z"

static void put_run(struct tsk_workspace *ws, const char *run, const char *status, bool is_answered)
{
    char path[200];
    struct tsk_error err;
    json_t *stage CLEANUP_JSON = json_pack("{s:s, s:s, s:s, s:s, s:b}", "run_id", run, "request_id", "RQ-a", "status",
                                           status, "started_at", BEGUN, "answered", is_answered);
    char *text = json_dumps(stage, 0);
    snprintf(path, sizeof path, "runs/%s", run);
    ASSERT_INT(fs_make_dirs(ws->state_dir, path), 0);
    snprintf(path, sizeof path, "runs/%s/life", run);
    ASSERT_INT(fs_replace_file(ws->state_dir, path, 0600, "", 0), 0);
    snprintf(path, sizeof path, "runs/%s/stage.json", run);
    ASSERT_INT(fs_replace_file(ws->state_dir, path, 0600, text, strlen(text)), 0);
    free(text);
    ASSERT_OK(book_note_run(ws, "RQ-a", run, &err));
}

static struct tsk_workspace *begin(const char *text)
{
    struct tsk_workspace *ws = scene_open();
    ASSERT_INT(fs_make_dirs(ws->state_dir, "requests"), 0);
    scene_write(".aiflow/requests/RQ-a.yaml", text);
    return ws;
}

/* ---- continuing ----------------------------------------------------------------------------------------- */

TEST(a_run_goes_on_because_of_an_answer_once_while_it_is_the_latest_and_was_not_given_up)
{
    static const struct {
        const char *status;
        bool is_answered;
        const char *latest; /* that of the request */
        const char *text;   /* of the refusal; NULL: it goes on */
    } rows[] = {
        {"INTERRUPTED", true, "RUN-1", NULL},
        {"INTERRUPTED", true, "RUN-2", "run_replaced"},
        {"INTERRUPTED", true, "", NULL},
        {"INTERRUPTED", false, "RUN-1", "answer_used"},
        {"NEEDS_INPUT", true, "RUN-1", "answer_used"},
        {"NEEDS_INPUT", false, "RUN-1", "answer_used"},
        {"DONE", true, "RUN-1", "answer_used"},
        {"FAILED", true, "RUN-1", "answer_used"},
        {"CANCELLED", true, "RUN-1", "run_given_up"},
        {"CANCELLED", false, "RUN-2", "run_given_up"},
    };
    struct tsk_workspace *ws = begin("title: a\nrun: x\n");
    put_run(ws, "RUN-2", "DONE", false);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        struct run_start start = {.is_answered = true};
        put_run(ws, "RUN-1", rows[i].status, rows[i].is_answered);
        if (rows[i].latest[0])
            ASSERT_OK(book_note_run(ws, "RQ-a", rows[i].latest, &err));
        else
            ASSERT_OK(book_forget_run(ws, "RQ-a", &err));
        int result = latest_need(ws, &start, "RQ-a", "RUN-1", &err);
        if (!rows[i].text) {
            ASSERT_OK(result);
            continue;
        }
        ASSERT_CODE(result, TSK_CONFLICT);
        ASSERT_STR(err.text, rows[i].text);
        start.is_answered = false;
        ASSERT_OK(latest_need(ws, &start, "RQ-a", "RUN-1", &err)); /* by name it may */
    }
    tsk_workspace_close(ws);
}

TEST(a_run_goes_on_in_the_place_of_a_new_one_if_it_is_the_latest_and_can)
{
    static const struct {
        const char *status;
        bool is_answered;
        const char *latest;
        bool goes_on;
    } rows[] = {{"INTERRUPTED", false, "RUN-1", true},  {"INTERRUPTED", true, "RUN-1", true},
                {"INTERRUPTED", false, "RUN-2", false}, {"INTERRUPTED", false, "", true},
                {"NEEDS_INPUT", false, "RUN-1", false}, {"DONE", false, "RUN-1", false},
                {"FAILED", false, "RUN-1", false},      {"CANCELLED", false, "RUN-1", false}};
    struct tsk_workspace *ws = begin("title: a\nrun: x\n");
    struct tsk_error err;
    struct run_start start = {.is_instead = true};
    put_run(ws, "RUN-2", "DONE", false);
    for (size_t i = 0; i < COUNT(rows); i++) {
        put_run(ws, "RUN-1", rows[i].status, rows[i].is_answered);
        if (rows[i].latest[0])
            ASSERT_OK(book_note_run(ws, "RQ-a", rows[i].latest, &err));
        else
            ASSERT_OK(book_forget_run(ws, "RQ-a", &err));
        int result = latest_need(ws, &start, "RQ-a", "RUN-1", &err);
        if (result != (rows[i].goes_on ? 0 : -1))
            test_fail(__FILE__, __LINE__, "%s, latest %s", rows[i].status, rows[i].latest);
        if (result < 0)
            ASSERT_STR(tsk_code_name(err.code), "CONFLICT");
    }
    ASSERT_CODE(latest_need(ws, &start, "RQ-a", "RUN-9", &err), TSK_RUN_NOT_FOUND);
    tsk_workspace_close(ws);
}

TEST(what_the_latest_run_means_for_the_next_one_is_the_same_before_the_lock_and_under_it)
{
    static const struct {
        const char *status;
        bool is_answered, is_changed, has_other_flow, is_queue;
        enum tsk_code code; /* TSK_OK: a new run begins */
        const char *text;
    } rows[] = {
        {"DONE", false, false, false, false, TSK_OK, NULL},
        {"FAILED", false, false, false, false, TSK_OK, NULL},
        {"CANCELLED", false, false, false, false, TSK_OK, NULL},
        {"NEEDS_INPUT", false, false, false, false, TSK_NEEDS_INPUT, "request_waits"},
        {"NEEDS_INPUT", false, true, true, false, TSK_NEEDS_INPUT, "request_waits"},
        {"INTERRUPTED", false, false, false, false, TSK_RUN_IN_PROGRESS, "run_has_runner"}, /* it goes on */
        {"INTERRUPTED", false, true, false, false, TSK_CONFLICT, "request_changed_since"},
        {"INTERRUPTED", false, false, true, false, TSK_CONFLICT, "request_flow_changed_since"},
        {"INTERRUPTED", true, true, true, false, TSK_RUN_IN_PROGRESS,
         "run_has_runner"}, /* the answer was for that text */
        {"INTERRUPTED", false, true, true, true, TSK_RUN_IN_PROGRESS, "run_has_runner"}, /* nobody is there to decide */
    };
    static const char text[] = "title: a\nflow: f.yaml\n";
    struct tsk_workspace *ws = begin(text);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        struct request request CLEANUP(request_clear) = {.json = NULL};
        struct buf flow CLEANUP(buf_clear) = BUF_INIT;
        struct tsk_lock *some = (struct tsk_lock *)(void *)&flow; /* only whether there is one */
        struct run_start start = {.request_id = "RQ-a", .queue = rows[i].is_queue ? some : NULL};
        struct wanted wanted = {.ws = ws, .start = &start, .request = &request, .flow = &flow};
        char goes_on[RUN_ID_MAX], hash[SHA256_HEX_SIZE], path[100];
        ASSERT_OK(request_read(ws, "RQ-a", LANG_EN, &request, &err));
        request_hash(&request, hash);
        hash[0] = rows[i].is_changed ? 'x' : hash[0];
        buf_puts(&flow, "tasks: {a: {run: x}}\n");
        put_run(ws, "RUN-1", rows[i].status, rows[i].is_answered);
        json_t *stage CLEANUP_JSON = json_load_file(".aiflow/runs/RUN-1/stage.json", 0, NULL);
        json_object_set_new(stage, "request_sha256", json_string(hash));
        json_dump_file(stage, ".aiflow/runs/RUN-1/stage.json", 0);
        snprintf(path, sizeof path, ".aiflow/runs/RUN-1/flow.yaml");
        scene_write(path, rows[i].has_other_flow ? "tasks: {a: {run: y}}\n" : "tasks: {a: {run: x}}\n");
        for (int is_early = 0; is_early < 2; is_early++) {
            goes_on[0] = '\0';
            int result = is_early ? latest_settle_early(&wanted, goes_on, &err) : latest_settle(&wanted, goes_on, &err);
            ASSERT_INT(result, rows[i].code == TSK_OK ? 0 : -1);
            if (result < 0) {
                ASSERT_STR(tsk_code_name(err.code), tsk_code_name(rows[i].code));
                ASSERT_STR(err.text, rows[i].text);
            }
            ASSERT_STR(goes_on, rows[i].code == TSK_RUN_IN_PROGRESS ? "RUN-1" : "");
            if (rows[i].code == TSK_CONFLICT || rows[i].code == TSK_NEEDS_INPUT) {
                ASSERT_STR(tsk_error_context(&err, "request_id"), "RQ-a");
                ASSERT_STR(tsk_error_context(&err, "run_id"), "RUN-1");
                ASSERT(strncmp(tsk_error_next(&err, 0),
                               rows[i].code == TSK_CONFLICT ? "tasuki resume RUN-1" : "tasuki runs show RUN-1",
                               19) == 0);
            }
        }
        start.is_new = true;
        ASSERT_OK(latest_settle_early(&wanted, goes_on, &err)); /* under the lock it is cancelled */
    }
    tsk_workspace_close(ws);
}

/* ---- putting back --------------------------------------------------------------------------------------- */

TEST(what_is_done_or_has_failed_is_put_back_once_and_nothing_else)
{
    static const struct {
        const char *text, *status; /* of its latest run; NULL: none */
        bool is_changed;
        enum tsk_code code;
    } rows[] = {
        {"title: a\nrun: x\n", NULL, false, TSK_OK},
        {"title: a\nrun: x\n", "FAILED", true, TSK_OK},
        {"title: a\nrun: x\n", "CANCELLED", false, TSK_OK},
        {"title: a\nrun: x\n", "INTERRUPTED", false, TSK_OK},
        {"title: a\nrun: x\n", "NEEDS_INPUT", false, TSK_NEEDS_INPUT},
        {"title: a\n", NULL, false, TSK_CONFLICT},
        {"title: a\nrun: x\nstatus: archived\n", "DONE", false, TSK_CONFLICT},
        {"run: x\n", NULL, false, TSK_INVALID_INPUT},
    };
    struct tsk_error err;
    bool is_changed;
    char latest[RUN_ID_MAX];
    struct tsk_workspace *ws = begin("");
    for (size_t i = 0; i < COUNT(rows); i++) {
        scene_write(".aiflow/requests/RQ-a.yaml", rows[i].text);
        ASSERT_OK(book_forget_run(ws, "RQ-a", &err));
        if (rows[i].status)
            put_run(ws, "RUN-1", rows[i].status, false);
        int result = book_put_back(ws, "RQ-a", LANG_EN, &is_changed, &err);
        ASSERT_INT(result, rows[i].code == TSK_OK ? 0 : -1);
        ASSERT_INT(is_changed, rows[i].is_changed);
        if (result < 0)
            ASSERT_STR(tsk_code_name(err.code), tsk_code_name(rows[i].code));
        ASSERT_OK(book_latest_run(ws, "RQ-a", latest, &err));
        ASSERT_STR(latest, rows[i].status && !rows[i].is_changed ? "RUN-1" : "");
        if (rows[i].is_changed) {
            ASSERT_OK(book_put_back(ws, "RQ-a", LANG_EN, &is_changed, &err));
            ASSERT(!is_changed);
        }
    }
    ASSERT_CODE(book_put_back(ws, "RQ-b", LANG_EN, &is_changed, &err), TSK_REQUEST_NOT_FOUND);
    tsk_workspace_close(ws);
}

/* ---- what could not begin ------------------------------------------------------------------------------- */

TEST(a_problem_that_lasts_is_recorded_as_a_failed_run_and_one_that_may_pass_is_not)
{
    static const struct {
        enum tsk_code code;
        int problem;
        bool is_recorded;
    } rows[] = {
        {TSK_FLOW_INVALID, 0, true},         {TSK_NOT_FOUND, 0, true},
        {TSK_INVALID_INPUT, 0, true},        {TSK_ENVIRONMENT, ENOENT, true},
        {TSK_ENVIRONMENT, ENOTDIR, true},    {TSK_ENVIRONMENT, EACCES, true},
        {TSK_ENVIRONMENT, EISDIR, true},     {TSK_ENVIRONMENT, ELOOP, true},
        {TSK_ENVIRONMENT, EFBIG, true},      {TSK_ENVIRONMENT, ENAMETOOLONG, true},
        {TSK_ENVIRONMENT, EIO, false},       {TSK_ENVIRONMENT, EMFILE, false},
        {TSK_STORAGE_FULL, ENOSPC, false},   {TSK_STORAGE_FULL, 0, false},
        {TSK_RUN_IN_PROGRESS, 0, false},     {TSK_CONFLICT, 0, false},
        {TSK_PROCESS_STOP_FAILED, 0, false},
    };
    struct tsk_error err;
    struct request request CLEANUP(request_clear) = {.json = NULL};
    struct tsk_workspace *ws = begin("title: a\nflow: f.yaml\n");
    ASSERT_OK(request_read(ws, "RQ-a", LANG_EN, &request, &err));
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error why;
        char run[RUN_ID_MAX];
        json_t *stage CLEANUP_JSON = NULL;
        rundir_new_id(run);
        ASSERT_OK(book_forget_run(ws, "RQ-a", &err));
        error_set(&why, rows[i].code, NULL, NULL);
        why.sys_errno = rows[i].problem;
        ASSERT_CODE(unbegun_record(ws, &request, run, LANG_EN, &why, &err), rows[i].code);
        const char *named = tsk_error_context(&err, "run_id");
        ASSERT_OK(book_latest_stage(ws, "RQ-a", &stage, &why));
        if ((stage != NULL) != rows[i].is_recorded || (named != NULL) != rows[i].is_recorded)
            test_fail(__FILE__, __LINE__, "%s %d", tsk_code_name(rows[i].code), rows[i].problem);
        if (!stage)
            continue;
        ASSERT_STR(named, run);
        ASSERT_STR(json_get_string(stage, "run_id", ""), run);
        ASSERT_STR(json_get_string(stage, "status", ""), "FAILED");
        ASSERT_STR(json_get_string(stage, "source", ""), "f.yaml");
        ASSERT_STR(json_get_string(stage, "reason_code", ""), tsk_code_name(rows[i].code));
        ASSERT(book_is_same_file(&request, stage));
    }
    tsk_workspace_close(ws);
}

/* ---- elsewhere ------------------------------------------------------------------------------------------ */

/* A program that prints this and exits with that code. */
static struct elsewhere program(const char *text, int code)
{
    struct elsewhere elsewhere = {.env = json_pack("[s]", "TASUKI_REDIS=redis://ours")};
    char script[600];
    unlink("program");
    snprintf(script, sizeof script, "#!/bin/sh\ncat <<'END'\n%s\nEND\nexit %d\n", text, code);
    scene_write("program", script);
    ASSERT_INT(chmod("program", 0700), 0);
    ASSERT(realpath("program", elsewhere.program));
    return elsewhere;
}

TEST(what_the_program_elsewhere_says_is_the_answer_or_the_reason_that_it_names)
{
    static const struct {
        const char *text;
        int exit_code;
        const char *code; /* NULL: an answer */
    } rows[] = {
        {"{\"a\": 1}", 0, NULL},
        {"{\"error\": {\"reason_code\": \"REDIS_UNAVAILABLE\", \"message\": \"m\"}}", 1, "REDIS_UNAVAILABLE"},
        {"{\"error\": {\"reason_code\": \"INVALID_INPUT\", \"message\": \"m\"}}", 1, "INVALID_INPUT"},
        {"{\"error\": {\"reason_code\": \"NEW_ONE\", \"message\": \"m\"}}", 1, "ENVIRONMENT"},
        {"{\"error\": {\"reason_code\": \"OK\", \"message\": \"m\"}}", 1, "ENVIRONMENT"},
        {"{}", 3, "ENVIRONMENT"},
        {"junk", 0, "INVALID_INPUT"},
    };
    static const char *const question[] = {"server", NULL};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        json_t *answer CLEANUP_JSON = NULL;
        struct elsewhere elsewhere = program(rows[i].text, rows[i].exit_code);
        int result = elsewhere_ask(&elsewhere, question, &answer, &err);
        if (rows[i].code) {
            ASSERT_INT(result, -1);
            ASSERT_STR(tsk_code_name(err.code), rows[i].code);
        } else {
            ASSERT_OK(result);
            ASSERT_INT(json_get_int(answer, "a", 0), 1);
        }
        elsewhere_clear(&elsewhere);
    }
}

TEST(the_program_elsewhere_gets_our_settings_and_its_words_and_none_of_the_callers_settings)
{
    struct tsk_error err;
    json_t *answer CLEANUP_JSON = NULL;
    static const char *const question[] = {"settle", "RUN-1", "2", "3", NULL};
    struct elsewhere elsewhere = program("", 0);
    setenv("TASUKI_REDIS", "redis://theirs", 1);
    setenv("TASUKI_REDIS_POOL", "theirs", 1);
    setenv("OTHER", "stays", 1);
    unlink("program");
    scene_write("program", "#!/bin/sh\necho \"{\\\"words\\\": \\\"$*\\\", \\\"url\\\": \\\"$TASUKI_REDIS\\\", "
                           "\\\"pool\\\": \\\"$TASUKI_REDIS_POOL\\\", \\\"other\\\": \\\"$OTHER\\\"}\"\n");
    ASSERT_INT(chmod("program", 0700), 0);
    ASSERT_OK(elsewhere_ask(&elsewhere, question, &answer, &err));
    ASSERT_STR(json_get_string(answer, "words", ""), "ask settle RUN-1 2 3");
    ASSERT_STR(json_get_string(answer, "url", ""), "redis://ours");
    ASSERT_STR(json_get_string(answer, "pool", "?"), "");
    ASSERT_STR(json_get_string(answer, "other", ""), "stays");
    ASSERT_INT(unlink("program"), 0);
    json_t *none CLEANUP_JSON = NULL;
    ASSERT_INT(elsewhere_ask(&elsewhere, question, &none, &err), -1);
    elsewhere_clear(&elsewhere);
}
