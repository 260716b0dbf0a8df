/* What is known of runs and requests from their files: which may run, what is pending, which lock a run has, what is pruned. */
#include "scene.h"

#include "base/listing.h"
#include "run/after.h"
#include "run/book.h"
#include "run/prune.h"
#include "run/queue.h"
#include "run/run_log.h"
#include "run/start.h"

#define COUNT(rows)  (sizeof(rows) / sizeof *(rows))
#define LONG_AGO     "2020-01-01T00:00:00.000Z"
#define REQUEST_TIME "2026-01-01T00:00:00.000Z"

static void put_file(struct tsk_workspace *ws, const char *path, const char *text)
{
    char dir[300];
    snprintf(dir, sizeof dir, "%s", path);
    *strrchr(dir, '/') = '\0';
    ASSERT_INT(fs_make_dirs(ws->state_dir, dir), 0);
    ASSERT_INT(fs_replace_file(ws->state_dir, path, 0600, text, strlen(text)), 0);
}

static void put_request(struct tsk_workspace *ws, const char *id, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "requests/%s.yaml", id);
    put_file(ws, path, text);
}

static void put_stage(struct tsk_workspace *ws, const char *run, const json_t *stage)
{
    char path[300];
    char *text = json_dumps(stage, 0);
    snprintf(path, sizeof path, "runs/%s/stage.json", run);
    put_file(ws, path, text);
    free(text);
    snprintf(path, sizeof path, "runs/%s/life", run);
    put_file(ws, path, "");
}

/* The request's latest run, with that status; `begun_with`: the time of the request's file. */
static void put_run(struct tsk_workspace *ws, const char *request, const char *run, const char *status,
                    const char *begun_with)
{
    struct tsk_error err;
    json_t *stage CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "run_id", run, "request_id", request, "status", status,
                  "started_at", LONG_AGO, "ended_at", LONG_AGO, "request_updated_at", begun_with);
    put_stage(ws, run, stage);
    ASSERT_OK(book_note_run(ws, request, run, &err));
}

static const char *updated_at(struct tsk_workspace *ws, const char *id)
{
    static char time[TIME_TEXT_MAX];
    struct tsk_error err;
    struct request request CLEANUP(request_clear) = {.json = NULL};
    ASSERT_OK(request_read(ws, id, LANG_EN, &request, &err));
    snprintf(time, sizeof time, "%s", request.updated_at);
    return time;
}

/* ---- the book ------------------------------------------------------------------------------------------- */

static void entry_is(struct tsk_workspace *ws, bool retries, const char *id, const char *status, const char *reason,
                     const char *detail)
{
    struct tsk_error err;
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    ASSERT_OK(book_open(ws, retries, LANG_EN, &book, &err));
    const struct book_entry *entry = book_find(&book, id);
    ASSERT(entry);
    const char *is = entry->reason == BOOK_MAY_RUN ? "" : book_reason_names[entry->reason];
    if (strcmp(book_status(entry), status) != 0 || strcmp(is, reason) != 0 ||
        strcmp(buf_str(&entry->detail), detail) != 0)
        test_fail(__FILE__, __LINE__, "%s is %s %s %s, expected %s %s %s", id, book_status(entry), is,
                  buf_str(&entry->detail), status, reason, detail);
}

TEST(what_the_file_and_the_latest_run_say_decides_whether_a_request_may_run)
{
    static const struct {
        const char *text,
            *run; /* the status of its latest run, begun with this file; with ! with another one; NULL: none */
        const char *status, *reason, *detail;
        const char *retried; /* the reason with --retry */
    } rows[] = {
        {"title: a\nrun: x\n", NULL, "ready", "", "", ""},
        {"title: a\n", NULL, "draft", "NOT_READY", "draft", "NOT_READY"},
        {"title: a\nrun: x\nstatus: archived\n", NULL, "archived", "NOT_READY", "archived", "NOT_READY"},
        {"run: x\n", NULL, "broken", "NOT_READY", "broken", "NOT_READY"},
        {"title: a\nrun: x\n", "DONE", "done", "ALREADY_DONE", "RUN-1", "ALREADY_DONE"},
        {"title: a\nrun: x\n", "!DONE", "ready", "", "", ""},
        {"title: a\nrun: x\n", "FAILED", "failed", "LATEST_RUN_FAILED", "RUN-1", ""},
        {"title: a\nrun: x\n", "!FAILED", "failed", "LATEST_RUN_FAILED", "RUN-1", ""},
        {"title: a\nrun: x\n", "NEEDS_INPUT", "needs_input", "LATEST_RUN_NEEDS_INPUT", "RUN-1",
         "LATEST_RUN_NEEDS_INPUT"},
        {"title: a\nrun: x\n", "CANCELLED", "ready", "", "", ""},
        {"title: a\nrun: x\n", "INTERRUPTED", "ready", "", "", ""},
        {"title: a\nrun: x\nstatus: archived\n", "!DONE", "archived", "NOT_READY", "archived", "NOT_READY"},
        {"title: a\nstatus: draft\nrun: x\n", "FAILED", "draft", "NOT_READY", "draft", "NOT_READY"},
    };
    struct tsk_workspace *ws = scene_open();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        const char *run = rows[i].run;
        put_request(ws, "RQ-a", rows[i].text);
        ASSERT_OK(book_forget_run(ws, "RQ-a", &err));
        if (run)
            put_run(ws, "RQ-a", "RUN-1", run + (run[0] == '!'), run[0] == '!' ? REQUEST_TIME : updated_at(ws, "RQ-a"));
        entry_is(ws, false, "RQ-a", rows[i].status, rows[i].reason, rows[i].detail);
        struct book book CLEANUP(book_clear) = {.entries = NULL};
        ASSERT_OK(book_open(ws, true, LANG_EN, &book, &err));
        const struct book_entry *entry = book_find(&book, "RQ-a");
        ASSERT_STR(entry->reason ? book_reason_names[entry->reason] : "", rows[i].retried);
    }
    tsk_workspace_close(ws);
}

TEST(a_request_whose_lock_is_held_runs_in_the_name_of_any_holder)
{
    struct tsk_error err;
    char holder[40];
    struct tsk_lock *lock;
    struct tsk_lock_options options = {.size = sizeof options};
    struct tsk_workspace *ws = scene_open();
    put_request(ws, "RQ-a", "title: a\nrun: x\n");
    ASSERT_OK(tsk_lock_acquire(ws, TSK_LOCK_REQUEST, "RQ-a", &options, &lock, &err));
    snprintf(holder, sizeof holder, "pid %d", (int)getpid());
    entry_is(ws, true, "RQ-a", "running", "REQUEST_LOCKED", holder);
    ASSERT_OK(tsk_lock_release(lock, &err));
    entry_is(ws, true, "RQ-a", "ready", "", "");
    tsk_workspace_close(ws);
}

TEST(a_file_of_another_time_with_the_same_text_is_the_one_that_was_done)
{
    struct tsk_error err;
    char hash[SHA256_HEX_SIZE];
    struct request request CLEANUP(request_clear) = {.json = NULL};
    struct tsk_workspace *ws = scene_open();
    put_request(ws, "RQ-a", "title: a\nrun: x\n");
    ASSERT_OK(request_read(ws, "RQ-a", LANG_EN, &request, &err));
    request_hash(&request, hash);
    json_t *stage CLEANUP_JSON = json_pack("{s:s, s:s}", "request_updated_at", REQUEST_TIME, "request_sha256", hash);
    ASSERT(book_is_same_file(&request, stage));
    hash[0] = hash[0] == 'a' ? 'b' : 'a';
    json_object_set_new(stage, "request_sha256", json_string(hash));
    ASSERT(!book_is_same_file(&request, stage));
    json_object_set_new(stage, "request_updated_at", json_string(request.updated_at));
    ASSERT(book_is_same_file(&request, stage));
    tsk_workspace_close(ws);
}

TEST(a_run_that_has_not_begun_is_no_run_and_a_note_that_is_damaged_is_searched_for)
{
    struct tsk_error err;
    char run[RUN_ID_MAX];
    struct tsk_workspace *ws = scene_open();
    put_request(ws, "RQ-a", "title: a\nrun: x\n");
    json_t *unbegun CLEANUP_JSON =
        json_pack("{s:s, s:s, s:s}", "run_id", "RUN-1", "request_id", "RQ-a", "status", "RUNNING");
    put_stage(ws, "RUN-1", unbegun);
    ASSERT_OK(book_note_run(ws, "RQ-a", "RUN-1", &err));
    entry_is(ws, false, "RQ-a", "ready", "", "");
    put_run(ws, "RQ-a", "RUN-2", "FAILED", "");
    put_run(ws, "RQ-b", "RUN-3", "FAILED", "");
    static const char *const notes[] = {"", "junk of another kind", "RQ-a", "RUN-9",
                                        "RUN-1234567890123456789012345678901234567890123456789012345678901234567890"};
    for (size_t i = 0; i < COUNT(notes); i++) {
        put_file(ws, "runs/.requests/RQ-a", notes[i]);
        ASSERT_OK(book_latest_run(ws, "RQ-a", run, &err));
        ASSERT_STR(run, "RUN-2");
    }
    put_file(ws, "runs/.requests/RQ-c", "junk");
    ASSERT_OK(book_latest_run(ws, "RQ-c", run, &err));
    ASSERT_STR(run, "");
    ASSERT_OK(book_forget_run(ws, "RQ-a", &err));
    ASSERT_OK(book_forget_run(ws, "RQ-a", &err)); /* it is forgotten already */
    ASSERT_OK(book_latest_run(ws, "RQ-a", run, &err));
    ASSERT_STR(run, "");
    tsk_workspace_close(ws);
}

TEST(a_dependency_that_is_missing_not_done_or_in_a_circle_is_named_with_the_shortest_way_around)
{
    static const struct {
        const char *edges; /* "ab": a depends on b */
        char of;
        const char *reason, *detail;
    } rows[] = {
        {"ab", 'a', "DEPENDS_NOT_DONE", "RQ-b"},
        {"ab", 'b', "", ""},
        {"az", 'a', "DEPENDS_NOT_FOUND", "RQ-z"},
        {"ab az", 'a', "DEPENDS_NOT_FOUND", "RQ-z"},
        {"aa", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-a"},
        {"ab ba", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-b → RQ-a"},
        {"ab ba", 'b', "DEPENDS_CYCLE", "RQ-b → RQ-a → RQ-b"},
        {"ab bc cb", 'a', "DEPENDS_NOT_DONE", "RQ-b"},
        {"ab bc cb", 'b', "DEPENDS_CYCLE", "RQ-b → RQ-c → RQ-b"},
        {"ab bc ca ac", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-c → RQ-a"},
        {"ab bc ca ac", 'b', "DEPENDS_CYCLE", "RQ-b → RQ-c → RQ-a → RQ-b"},
        {"ab ba cd dc ac", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-b → RQ-a"},
        {"ac ab ba cd dc", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-b → RQ-a"},
        {"ab bc cd de ec", 'b', "DEPENDS_NOT_DONE", "RQ-c"},
        {"ab bc cd de ec", 'd', "DEPENDS_CYCLE", "RQ-d → RQ-e → RQ-c → RQ-d"},
        {"ab bb", 'a', "DEPENDS_NOT_DONE", "RQ-b"},
        {"ab bc cd da be ea", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-b → RQ-e → RQ-a"},
        {"ab bc cd de ef fg gh hi ij ja", 'a', "DEPENDS_CYCLE",
         "RQ-a → RQ-b → RQ-c → RQ-d → RQ-e → RQ-f → RQ-g → RQ-h → RQ-i → RQ-j → RQ-a"},
        {"ab bc cd de ef fg gh hi ij jk kl la", 'a', "DEPENDS_CYCLE", "RQ-a → RQ-b → … → RQ-a"},
        {"az ab bc cd de ef fg gh hi ij jk kl la", 'b', "DEPENDS_CYCLE", "RQ-b → RQ-c → … → RQ-b"},
    };
    struct tsk_workspace *ws = scene_open();
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (char of = 'a'; of < 'm'; of++) {
            char id[8], text[400] = "title: a\nrun: x\ndepends_on: [";
            for (const char *edge = rows[i].edges; *edge; edge += edge[2] ? 3 : 2)
                if (edge[0] == of)
                    snprintf(text + strlen(text), sizeof text - strlen(text), "RQ-%c, ", edge[1]);
            snprintf(text + strlen(text), sizeof text - strlen(text), "]\n");
            snprintf(id, sizeof id, "RQ-%c", of);
            put_request(ws, id, text);
        }
        char id[8] = {'R', 'Q', '-', rows[i].of};
        entry_is(ws, false, id, rows[i].reason[0] ? "blocked" : "ready", rows[i].reason, rows[i].detail);
    }
    put_request(ws, "RQ-a", "title: a\nrun: x\ndepends_on: [RQ-b]\n");
    put_request(ws, "RQ-b", "title: a\nrun: x\nstatus: archived\n");
    put_run(ws, "RQ-b", "RUN-1", "DONE", REQUEST_TIME); /* archived after it was done: that is not undone */
    entry_is(ws, false, "RQ-a", "ready", "", "");
    put_run(ws, "RQ-b", "RUN-1", "CANCELLED", REQUEST_TIME);
    entry_is(ws, false, "RQ-a", "blocked", "DEPENDS_NOT_DONE", "RQ-b");
    tsk_workspace_close(ws);
}

/* ---- what is pending ------------------------------------------------------------------------------------ */

static struct run_lock lock_of(const char *id)
{
    struct run_lock lock = {.kind = TSK_LOCK_NAME};
    snprintf(lock.id, sizeof lock.id, "%s", id);
    return lock;
}

static const char *pending_id(struct tsk_workspace *ws, const struct run_lock *lock)
{
    static char id[64];
    json_t *pending CLEANUP_JSON = after_look(ws, lock);
    snprintf(id, sizeof id, "%s", pending ? json_get_string(pending, "id", "?") : "");
    return id;
}

TEST(one_run_is_pending_per_lock_the_newest_and_it_is_dropped_by_its_own_id_only)
{
    struct tsk_error err;
    char one[AFTER_ID_SIZE], two[AFTER_ID_SIZE], other[AFTER_ID_SIZE];
    bool is_replaced, existed;
    struct tsk_workspace *ws = scene_open();
    struct run_lock lock = lock_of("flow:f"), elsewhere = lock_of("flow:g"), none = lock_of("");
    json_t *job CLEANUP_JSON = json_pack("{s:{}, s:{s:s}}", "args", "who", "name", "me");
    ASSERT(!after_look(ws, &lock) && !after_look(ws, &none));
    ASSERT_OK(after_drop(ws, &lock, NULL, "test", &existed, &err));
    ASSERT(!existed);
    ASSERT_OK(after_record(ws, &lock, job, "RUN-1", one, &is_replaced, &err));
    ASSERT(!is_replaced);
    ASSERT_INT(strlen(one), AFTER_ID_SIZE - 1);
    ASSERT_STR(json_get_string(json_object_get(job, "args"), "after", ""), one);
    json_t *seen CLEANUP_JSON = after_look(ws, &lock);
    ASSERT_STR(json_get_string(seen, "after", ""), "RUN-1");
    ASSERT_STR(json_get_string(json_object_get(seen, "who"), "name", ""), "me");
    ASSERT_OK(after_record(ws, &lock, job, "RUN-1", two, &is_replaced, &err));
    ASSERT(is_replaced);
    ASSERT_OK(after_record(ws, &elsewhere, job, "RUN-2", other, &is_replaced, &err));
    ASSERT(!is_replaced);
    ASSERT_STR(pending_id(ws, &lock), two);
    ASSERT_OK(after_drop(ws, &lock, one, "test", &existed, &err));
    ASSERT(!existed);
    ASSERT_STR(pending_id(ws, &lock), two);
    ASSERT_OK(after_drop(ws, &lock, two, "test", &existed, &err));
    ASSERT(existed);
    ASSERT_STR(pending_id(ws, &lock), "");
    ASSERT_STR(pending_id(ws, &elsewhere), other);
    ASSERT_OK(after_drop(ws, &elsewhere, NULL, "test", &existed, &err));
    ASSERT(existed);
    tsk_workspace_close(ws);
}

static struct fs_calls calls;
static int syncs, failing_sync; /* the number of the call that fails; 0: none */

static int count_fdatasync(int fd)
{
    if (++syncs != failing_sync)
        return fs_system_calls.fdatasync(fd);
    errno = EIO;
    return -1;
}

TEST(a_run_is_pending_once_its_file_and_its_name_are_on_the_disk)
{
    struct tsk_error err;
    char id[AFTER_ID_SIZE];
    bool is_replaced;
    struct tsk_workspace *ws = scene_open();
    struct run_lock lock = lock_of("flow:f");
    json_t *job CLEANUP_JSON = json_pack("{s:{}}", "args");
    ASSERT_INT(fs_make_dirs(ws->state_dir, "after"), 0);
    calls = fs_system_calls;
    calls.fdatasync = count_fdatasync;
    fs = &calls;
    ASSERT_OK(after_record(ws, &lock, job, "RUN-1", id, &is_replaced, &err));
    int count = syncs, failed = 0;
    ASSERT(count >= 2);
    for (failing_sync = 1; failing_sync <= count; failing_sync++) {
        syncs = 0;
        if (after_record(ws, &lock, job, "RUN-1", id, &is_replaced, &err) == 0)
            continue; /* that of its event, which is only a record */
        ASSERT_INT(err.sys_errno, EIO);
        failed++;
    }
    ASSERT_INT(failed, 2);
    failing_sync = 0;
    fs = &fs_system_calls;
    tsk_workspace_close(ws);
}

TEST(a_pending_run_is_claimed_under_its_id_and_gone_when_the_run_is_there)
{
    struct tsk_error err;
    char id[AFTER_ID_SIZE], next[AFTER_ID_SIZE];
    bool is_replaced, existed;
    struct tsk_workspace *ws = scene_open();
    struct run_lock lock = lock_of("flow:f");
    json_t *job CLEANUP_JSON = json_pack("{s:{}}", "args");
    ASSERT_INT(fs_make_dirs(ws->state_dir, "after"), 0);
    ASSERT_CODE(after_claim(ws, &lock, "0123456789abcdef", "RUN-2", &err), TSK_CONFLICT);
    ASSERT_OK(after_record(ws, &lock, job, "RUN-1", id, &is_replaced, &err));
    ASSERT_CODE(after_claim(ws, &lock, "0123456789abcdef", "RUN-2", &err), TSK_CONFLICT);
    ASSERT_OK(after_claim(ws, &lock, id, "RUN-2", &err));
    ASSERT_STR(pending_id(ws, &lock), id); /* RUN-2 is not there yet */
    after_begun(ws, &lock, "RUN-3");
    ASSERT_STR(pending_id(ws, &lock), id);
    ASSERT_OK(after_claim(ws, &lock, id, "RUN-4", &err)); /* the runner of RUN-2 was killed */
    ASSERT_INT(fs_make_dirs(ws->state_dir, "runs/RUN-4"), 0);
    ASSERT_STR(pending_id(ws, &lock), "");
    ASSERT_CODE(after_claim(ws, &lock, id, "RUN-5", &err), TSK_CONFLICT); /* it has become RUN-4 */
    ASSERT_OK(after_record(ws, &lock, job, "RUN-4", next, &is_replaced, &err));
    ASSERT(!is_replaced);
    ASSERT_OK(after_claim(ws, &lock, next, "RUN-4", &err));
    ASSERT_OK(after_record(ws, &lock, job, "RUN-4", next, &is_replaced, &err));
    ASSERT(!is_replaced); /* what has begun is not replaced */
    ASSERT_OK(after_claim(ws, &lock, next, "RUN-4", &err));
    ASSERT_OK(after_drop(ws, &lock, NULL, "test", &existed, &err));
    ASSERT(!existed);
    ASSERT_OK(after_record(ws, &lock, job, "RUN-4", next, &is_replaced, &err));
    ASSERT_OK(after_claim(ws, &lock, next, "RUN-6", &err));
    after_begun(ws, &lock, "RUN-6");
    ASSERT_STR(pending_id(ws, &lock), "");
    tsk_workspace_close(ws);
}

static int pending_files(struct tsk_workspace *ws)
{
    int count = 0;
    struct listing names CLEANUP(listing_close);
    ASSERT_INT(listing_open(&names, ws->state_dir, "after", 0), 0);
    for (const char *name; (name = listing_next(&names));)
        count += name[0] != '.';
    return count;
}

TEST(a_pending_run_that_can_never_begin_goes_at_the_next_look_unless_its_lock_is_left_out)
{
    struct tsk_error err;
    char id[AFTER_ID_SIZE];
    bool is_replaced;
    struct tsk_workspace *ws = scene_open();
    struct run_lock lock = lock_of("flow:f"), other = lock_of("flow:g");
    json_t *no_job CLEANUP_JSON = json_string("x"), *job CLEANUP_JSON = json_pack("{s:{}}", "args");
    ASSERT_OK(after_record(ws, &lock, no_job, "RUN-1", id, &is_replaced, &err));
    after_start(ws, &lock);
    ASSERT_INT(pending_files(ws), 1);
    after_start_newer(ws, &lock, id);
    ASSERT_INT(pending_files(ws), 1);
    after_start_newer(ws, &lock, "another");
    ASSERT_INT(pending_files(ws), 0);
    ASSERT_OK(after_record(ws, &lock, no_job, "RUN-1", id, &is_replaced, &err));
    after_start(ws, &other);
    ASSERT_INT(pending_files(ws), 0);
    ASSERT_OK(after_record(ws, &lock, job, "RUN-1", id, &is_replaced, &err));
    ASSERT_OK(after_claim(ws, &lock, id, "RUN-2", &err));
    ASSERT_INT(fs_make_dirs(ws->state_dir, "runs/RUN-2"), 0);
    ASSERT_CODE(after_claim(ws, &lock, id, "RUN-3", &err), TSK_CONFLICT);
    ASSERT_INT(pending_files(ws), 0);
    tsk_workspace_close(ws);
}

/* ---- locks ---------------------------------------------------------------------------------------------- */

TEST(a_run_has_the_lock_of_its_request_else_that_of_its_flow_else_none)
{
    static const struct {
        const char *stage;
        enum tsk_lock_kind kind;
        const char *id;
    } rows[] = {{"{\"request_id\":\"RQ-a\",\"exclusive\":\"flow:f\"}", TSK_LOCK_REQUEST, "RQ-a"},
                {"{\"request_id\":null,\"exclusive\":\"flow:f\"}", TSK_LOCK_NAME, "flow:f"},
                {"{\"request_id\":\"\"}", TSK_LOCK_NAME, ""},
                {"{}", TSK_LOCK_NAME, ""}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *stage CLEANUP_JSON = json_loads(rows[i].stage, 0, NULL);
        struct run_lock lock = run_lock_of_stage(stage);
        ASSERT_INT(lock.kind, rows[i].kind);
        ASSERT_STR(lock.id, rows[i].id);
    }
}

TEST(a_flow_runs_once_at_a_time_if_it_says_so_or_is_kept_among_the_flows)
{
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    char root[PATH_MAX], path[2 * PATH_MAX], name[300];
    ASSERT(realpath(ws->root, root));
    static const struct {
        enum flow_exclusive exclusive;
        const char *below, *id; /* NULL: refused */
    } rows[] = {
        {EXCLUSIVE_BY_PLACE, ".aiflow/flows/f.yaml", "flow:.aiflow/flows/f.yaml"},
        {EXCLUSIVE_BY_PLACE, ".aiflow/flows/d/f.yaml", ""},
        {EXCLUSIVE_BY_PLACE, ".aiflow/flowsx/f.yaml", ""},
        {EXCLUSIVE_BY_PLACE, "f.yaml", ""},
        {EXCLUSIVE_BY_PLACE, "", ""},
        {EXCLUSIVE_ALWAYS, "f.yaml", "flow:f.yaml"},
        {EXCLUSIVE_ALWAYS, "d/f.yaml", "flow:d/f.yaml"},
        {EXCLUSIVE_ALWAYS, "", NULL},
        {EXCLUSIVE_NEVER, ".aiflow/flows/f.yaml", ""},
        {EXCLUSIVE_NEVER, "", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct flow flow = {.exclusive = rows[i].exclusive};
        struct run_lock lock;
        snprintf(path, sizeof path, "%s%s%s", rows[i].below[0] ? root : "", rows[i].below[0] ? "/" : "", rows[i].below);
        if (!rows[i].id) {
            ASSERT_CODE(run_lock_of_flow(ws, &flow, path, &lock, &err), TSK_INVALID_INPUT);
            continue;
        }
        ASSERT_OK(run_lock_of_flow(ws, &flow, path, &lock, &err));
        ASSERT_STR(lock.id, rows[i].id);
    }
    struct flow flow = {.exclusive = EXCLUSIVE_ALWAYS};
    struct run_lock one, two;
    ASSERT_OK(run_lock_of_flow(ws, &flow, "/elsewhere/f.yaml", &one, &err));
    ASSERT_STR(one.id, "flow:/elsewhere/f.yaml");
    ASSERT_OK(run_lock_of_flow(ws, &flow, "/else\nwhere", &one, &err)); /* not printable, or too long: by its hash */
    ASSERT_INT(strncmp(one.id, "flow:sha256/", 12), 0);
    memset(name, 'n', sizeof name);
    name[0] = '/';
    name[194] = '\0';
    ASSERT_OK(run_lock_of_flow(ws, &flow, name, &one, &err));
    ASSERT_STR(one.id + 5, name);
    name[194] = 'n';
    name[290] = '\0';
    ASSERT_OK(run_lock_of_flow(ws, &flow, name, &one, &err));
    name[200] = 'm';
    ASSERT_OK(run_lock_of_flow(ws, &flow, name, &two, &err));
    ASSERT_INT(strlen(one.id), 12 + 64);
    ASSERT(strcmp(one.id, two.id) != 0);
    tsk_workspace_close(ws);
}

TEST(the_run_that_refuses_is_the_one_that_a_run_in_progress_names)
{
    static const struct {
        enum tsk_code code;
        const char *run;
        bool is_named;
    } rows[] = {{TSK_RUN_IN_PROGRESS, "RUN-1", true}, {TSK_RUN_IN_PROGRESS, "null", false},
                {TSK_RUN_IN_PROGRESS, "", false},     {TSK_RUN_IN_PROGRESS, "a b", false},
                {TSK_RUN_IN_PROGRESS, NULL, false},   {TSK_CONFLICT, "RUN-1", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        char run[LOCK_ID_MAX];
        error_set(&err, rows[i].code, NULL, rows[i].run ? "run_id" : NULL, rows[i].run, NULL);
        ASSERT_INT(start_refused_by(&err, run), rows[i].is_named);
        if (rows[i].is_named)
            ASSERT_STR(run, rows[i].run);
    }
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

TEST(a_stop_is_for_the_queue_with_that_fence)
{
    static const struct {
        const char *text;
        uint64_t fence;
        enum queue_stopping stops;
    } rows[] = {{"5\n", 5, QUEUE_STOPS},    {"5 now\n", 5, QUEUE_STOPS_NOW}, {"5\n", 6, QUEUE_RUNS_ON},
                {"55\n", 5, QUEUE_RUNS_ON}, {"5 later\n", 5, QUEUE_STOPS},   {"5 now\n", 4, QUEUE_RUNS_ON},
                {"0\n", 0, QUEUE_RUNS_ON},  {"", 5, QUEUE_RUNS_ON},          {"now\n", 5, QUEUE_RUNS_ON}};
    struct tsk_workspace *ws = scene_open();
    ASSERT_INT(queue_stop_read(ws, 5), QUEUE_RUNS_ON);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ASSERT_INT(fs_replace_file(ws->state_dir, QUEUE_STOP_NAME, 0600, rows[i].text, strlen(rows[i].text)), 0);
        ASSERT_INT(queue_stop_read(ws, rows[i].fence), rows[i].stops);
    }
    tsk_workspace_close(ws);
}

TEST(a_queue_that_nobody_runs_is_idle_or_was_interrupted_and_its_stop_changes_nothing)
{
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    static const char *const records[][2] = {{NULL, "idle"},
                                             {"{\"status\":\"STOPPED\"}", "idle"},
                                             {"{\"status\":\"RUNNING\"}", "interrupted"},
                                             {"junk", "idle"}};
    put_request(ws, "RQ-a", "title: a\nrun: x\n");
    put_request(ws, "RQ-b", "title: a\nrun: x\npriority: P1\n");
    put_request(ws, "RQ-c", "title: a\n");
    for (size_t i = 0; i < COUNT(records); i++) {
        json_t *status CLEANUP_JSON = NULL, *stopped CLEANUP_JSON = NULL;
        struct book book CLEANUP(book_clear) = {.entries = NULL};
        if (records[i][0])
            ASSERT_INT(fs_replace_file(ws->state_dir, QUEUE_RECORD_NAME, 0600, records[i][0], strlen(records[i][0])),
                       0);
        ASSERT_OK(book_open(ws, false, LANG_EN, &book, &err));
        ASSERT_OK(queue_status(ws, &book, &status, &err));
        ASSERT_STR(json_get_string(status, "status", ""), records[i][1]);
        ASSERT_INT(json_get_int(status, "ready", -1), 2);
        ASSERT_STR(json_get_string(status, "next", ""), "RQ-b");
        ASSERT(!queue_is_running(ws));
        ASSERT_OK(queue_stop(ws, true, &stopped, &err));
        ASSERT_STR(json_get_string(stopped, "status", ""), "not_running");
        ASSERT(!scene_exists(".aiflow/" QUEUE_STOP_NAME));
    }
    json_t *next CLEANUP_JSON = NULL;
    ASSERT_OK(queue_next(ws, false, LANG_EN, &next, &err));
    ASSERT_STR(json_get_string(json_object_get(next, "next"), "id", ""), "RQ-b");
    const json_t *others = json_object_get(next, "others");
    ASSERT_INT(json_array_size(others), 2);
    ASSERT_INT(json_get_int(json_array_get(others, 0), "position", 0), 2);
    ASSERT(!json_object_get(json_array_get(others, 1), "position"));
    tsk_workspace_close(ws);
}

TEST(why_a_queue_has_ended_decides_its_exit)
{
    static const struct {
        const char *reason;
        enum tsk_code code;
    } rows[] = {{"EMPTY", TSK_OK},
                {"STOPPED", TSK_OK},
                {"MAX", TSK_OK},
                {"TIME", TSK_OK},
                {"NEEDS_INPUT", TSK_NEEDS_INPUT},
                {"FAILED", TSK_RUN_FAILED},
                {"CANCELLED", TSK_RUN_FAILED},
                {"DOCTOR_FAILED", TSK_DOCTOR_FAILED},
                {"LOCK_LOST", TSK_LOCK_LOST}};
    for (size_t i = 0; i < COUNT(rows); i++)
        ASSERT_INT(queue_verdict(rows[i].reason), rows[i].code);
}
