/* op_sprint.c - the sprint interface: three modes with one return value, also for a refusal; the verdict decides the exit code.
 * The object and its messages are those of the tools that use `.sprint-running`, word for word (docs/origins.md). */
#include "base/fs.h"
#include "lock/file.h"
#include "lock/report.h"
#include "ops/lock_args.h"
#include "ops/ops.h"
#include "own/instance.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* lock_info{exists pid session_id started_at epic_spec age_hours pid_alive is_zombie} */
static json_t *lock_info(const struct judgement *found)
{
    static const char *const keys[] = {"pid",       "session_id", "started_at", "epic_spec",
                                       "age_hours", "pid_alive",  "is_zombie"};
    const struct lock_record *record = &found->record;
    json_t *info = json_object();
    bool exists = found->verdict != VERDICT_FREE;
    json_object_set_new(info, "exists", json_boolean(exists));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_object_set_new(info, keys[i], json_null());
    if (!exists)
        return info;
    if (record->pid)
        json_object_set_new(info, "pid", json_integer(record->pid));
    json_set_text(info, "session_id", record->session_id);
    if (record->created_ms >= 0)
        json_object_set_new(info, "started_at", json_string(TIME_IN_UTC(record->created_ms)));
    json_set_text(info, "epic_spec", record->epic_spec);
    if (found->age_ms >= 0)
        json_object_set_new(info, "age_hours", json_real(round((double)found->age_ms / 36000.0) / 100.0));
    bool alive = found->alive == LIVE_ALIVE || (found->alive == LIVE_UNKNOWN && record->pid);
    json_object_set_new(info, "pid_alive", json_boolean(alive));
    json_object_set_new(info, "is_zombie", json_boolean(found->verdict == VERDICT_ZOMBIE));
    return info;
}

/* The sprint object has no key for the evidence about its holder; it is reported beside the object, for people. */
static void set_aside(struct op_call *call, const struct lock_target *target, const struct judgement *found,
                      const struct tsk_error *hints)
{
    struct now now = clock_now();
    json_decref(call->aside);
    call->aside = report_lock(target, &now, found);
    json_t *next = json_array();
    const char *command;
    for (unsigned i = 0; (command = tsk_error_next(hints, i)); i++)
        json_array_append_new(next, json_string(command));
    json_object_set_new(call->aside, "next", next);
}

static json_t *sprint_answer(struct op_call *call, const char *status, const char *mode, const struct judgement *found,
                             const char *message, enum tsk_code verdict)
{
    json_t *errors = json_array();
    if (found && found->verdict != VERDICT_FREE && !found->is_parsed && found->st.st_ino)
        json_array_append_new(errors, json_string("Lock file exists but has invalid format"));
    struct judgement none = {.verdict = VERDICT_FREE};
    call->verdict = verdict;
    return json_pack("{s:s, s:s, s:o, s:s, s:o}", "status", status, "mode", mode, "lock_info",
                     lock_info(found ? found : &none), "message", message, "errors", errors);
}

static void add_error(json_t *result, const char *text)
{
    json_array_append_new(json_object_get(result, "errors"), json_string(text));
}

static json_t *sprint_failure(struct op_call *call, const char *mode, const char *text, enum tsk_code verdict)
{
    json_t *result = sprint_answer(call, "failure", mode, NULL, text, verdict);
    add_error(result, text);
    return result;
}

int sprint_invalid_mode(const char *mode, struct tsk_error *err)
{
    struct op_call call = {0};
    json_t *object CLEANUP_JSON = sprint_failure(&call, mode, "Invalid mode", TSK_INVALID_INPUT);
    error_set(err, TSK_INVALID_INPUT, "invalid_mode", "value", mode, NULL);
    json_each_pair (object, key, value) {
        struct buf text CLEANUP(buf_clear) = BUF_INIT;
        json_write(&text, value, false);
        error_add_beside(err, key, buf_str(&text));
    }
    return -1;
}

/* The fixed words for a failure, and the system's error beside them. */
static json_t *failure_of(struct op_call *call, const char *mode, const struct tsk_error *err)
{
    const char *what = tsk_error_context(err, "what");
    const char *text = "Failed to write lock file";
    if (err->text && strcmp(err->text, "lock_not_regular") == 0)
        text = "Cannot read lock file";
    else if (what && (strcmp(what, "read") == 0 || strcmp(what, "examine") == 0))
        text = "Cannot read lock file";
    else if (what && strcmp(what, "replace") == 0)
        text = "Atomic rename failed";
    else if (what && strcmp(what, "delete") == 0)
        text = err->sys_errno == EACCES || err->sys_errno == EPERM || err->sys_errno == EROFS
                   ? "Cannot delete lock file: permission denied"
                   : "Cannot delete lock file";
    struct buf detail CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&detail, call->lang, err);
    if (code_info(err->code)->exit_code == 2) /* there are no fixed words for this */
        return sprint_failure(call, mode, buf_str(&detail), TSK_INVALID_INPUT);
    json_t *result = sprint_failure(call, mode, text, err->code);
    if (strncmp(text, "Cannot ", 7) == 0) /* read or delete: it is there */
        json_object_set_new(json_object_get(result, "lock_info"), "exists", json_true());
    add_error(result, buf_str(&detail));
    return result;
}

static bool is_absent(int number)
{
    return number == ENOENT || number == ENOTDIR;
}

/* The project root, and a workspace for the events: the project's own, else the one of --root, else one made there. For a
 * project that was named, the directory of the call does not matter. */
static int open_project(struct op_call *call, char root[PATH_MAX], struct tsk_workspace **ret, json_t **ret_refusal,
                        const char *mode, struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "project_root", NULL);
    struct workspace_place place;
    struct stat st;
    *ret_refusal = NULL;
    enum tsk_code verdict = TSK_OK;
    if (given ? !realpath(given, root) : workspace_project_root(call->root, root, err) < 0)
        verdict = is_absent(given ? errno : err->sys_errno) || err->code == TSK_NOT_FOUND ? TSK_INVALID_INPUT
                                                                                          : TSK_ENVIRONMENT;
    else if (fs->fstatat(AT_FDCWD, root, &st, 0) < 0)
        verdict = is_absent(errno) ? TSK_INVALID_INPUT : TSK_ENVIRONMENT;
    else if (!S_ISDIR(st.st_mode))
        verdict = TSK_INVALID_INPUT;
    else if (faccessat(AT_FDCWD, root, R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        verdict = TSK_ENVIRONMENT;
    if (verdict) {
        *ret_refusal = sprint_failure(call, mode, "Project root not accessible", verdict);
        return -1;
    }
    char own[PATH_MAX];
    bool has_own = snprintf(own, sizeof own, "%s/.aiflow", root) < (int)sizeof own &&
                   fs->fstatat(AT_FDCWD, own, &st, 0) == 0 && S_ISDIR(st.st_mode);
    if ((given && (has_own || !call->root)) || workspace_find(call->root, &place, err) < 0) {
        memcpy(place.root, root, sizeof place.root);
        memcpy(place.state_path, own, sizeof place.state_path);
        if (!has_own && workspace_make_state(&place, err) < 0) {
            *ret_refusal = failure_of(call, mode, err);
            return -1;
        }
    }
    if (workspace_open_at(&place, ret, err) == 0)
        return 0;
    *ret_refusal = failure_of(call, mode, err);
    return -1;
}

struct sprint {
    char root[PATH_MAX];
    struct tsk_workspace *ws;
    struct lock_target target;
};

static void sprint_end(struct sprint *sprint)
{
    lock_target_clear(&sprint->target);
    tsk_workspace_close(sprint->ws);
}

/* 0, or -1 with the answer in *ret. */
static int sprint_begin(struct op_call *call, const char *mode, struct sprint *sprint, json_t **ret)
{
    struct tsk_error err = {0};
    memset(sprint, 0, sizeof *sprint);
    sprint->target.dir = sprint->target.guard_dir = -1;
    if (open_project(call, sprint->root, &sprint->ws, ret, mode, &err) < 0)
        return -1;
    if (lock_target_init(&sprint->target, sprint->ws, lock_kind_get(TSK_LOCK_SPRINT),
                         json_get_string(call->args, "lock_file", NULL), sprint->root, &err) == 0) {
        sprint->target.given_root = call->root;
        sprint->target.given_project_root = json_get_string(call->args, "project_root", NULL);
        sprint->target.given_lock_file = json_get_string(call->args, "lock_file", NULL);
        return 0;
    }
    *ret = failure_of(call, mode, &err);
    sprint_end(sprint);
    return -1;
}

static void sprint_describe(char *text, size_t size, const char *what, const struct judgement *found)
{
    char started[TIME_TEXT_MAX] = "?";
    if (found->record.created_ms >= 0)
        time_format_utc(found->record.created_ms, started);
    if (found->is_parsed && found->record.hold == HOLD_LEASE)
        snprintf(text, size, "%s (client: %s, session: %s, started: %s)", what, found->record.instance,
                 found->record.session_id[0] ? found->record.session_id : "?", started);
    else if (found->is_parsed && found->record.pid)
        snprintf(text, size, "%s (PID: %d, session: %s, started: %s)", what, (int)found->record.pid,
                 found->record.session_id[0] ? found->record.session_id : "?", started);
    else if (found->is_parsed)
        snprintf(text, size, "%s (PID: ?, session: %s, started: %s)", what,
                 found->record.session_id[0] ? found->record.session_id : "?", started);
    else
        snprintf(text, size, "%s (%s)", what, found->how ? found->how : "?");
}

/* The sprint object of a call that lacks only a yes. A sentence of tasuki says so, beside the fixed ones. */
static json_t *needs_yes(struct op_call *call, json_t *result, const struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&text, call->lang, err);
    add_error(result, buf_str(&text));
    json_object_set_new(result, "needs_confirmation", json_true());
    return result;
}

/* ---- acquire ---- */

static json_t *acquire_refused(struct op_call *call, const struct lock_outcome *outcome, const struct tsk_error *err)
{
    char message[1024];
    bool is_zombie = outcome->before.verdict == VERDICT_ZOMBIE;
    if (err->code != TSK_SPRINT_BLOCKED && err->code != TSK_NEEDS_CONFIRMATION)
        return failure_of(call, "acquire", err);
    sprint_describe(message, sizeof message, is_zombie ? "Zombie lock was not overwritten" : "Sprint already running",
                    &outcome->before);
    json_t *result = sprint_answer(call, "blocked", "acquire", &outcome->before, message, err->code);
    if (outcome->is_place_kept)
        add_error(result,
                  text_get(who_current()->is_agent ? "sprint_place_kept_agent" : "sprint_place_kept", call->lang));
    return err->code == TSK_NEEDS_CONFIRMATION ? needs_yes(call, result, err) : result;
}

/* The object has no key for it: the sentence for people stands beside it. */
static void say_own(struct op_call *call, struct sprint *sprint, const struct judgement *found)
{
    struct tsk_error own = {0};
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    lock_refuse_own(&sprint->target, found, &own);
    text_put_error(&text, call->lang, &own);
    set_aside(call, &sprint->target, found, &own);
    json_set_text(call->aside, "said", buf_str(&text));
}

/* So that it is found when the client ends. */
static int note_sprint(const struct op_call *call, const struct sprint *sprint, const struct lock_request *request,
                       struct tsk_error *err)
{
    bool is_listed = !sprint->target.given_project_root && strcmp(sprint->target.file, SPRINT_FILE_DEFAULT) == 0;
    if (request->hold != HOLD_LEASE || is_listed || !call->home)
        return 0;
    return instance_note_sprint(call->home, request->instance, sprint->root, sprint->target.file, err);
}

static int run_acquire(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct lock_request request = {.wait_ms = lock_args_wait(call),
                                   .session_id = json_get_string(call->args, "session", ""),
                                   .epic_spec = json_get_string(call->args, "epic", "")};
    struct sprint sprint;
    struct lock_outcome outcome = {0};
    if (!request.session_id[0] || !request.epic_spec[0]) {
        *ret = sprint_failure(call, "acquire",
                              request.session_id[0] ? "epic_spec required for acquire mode"
                                                    : "session_id required for acquire mode",
                              TSK_INVALID_INPUT);
        return 0;
    }
    if (lock_args_holder(call, &request, err) < 0) {
        *ret = failure_of(call, "acquire", err);
        return 0;
    }
    if (sprint_begin(call, "acquire", &sprint, ret) < 0)
        return 0;
    if (note_sprint(call, &sprint, &request, err) == 0 &&
        lock_acquire_confirmed(call, &sprint.target, &request, &outcome, err) == 0) {
        char message[512];
        struct judgement mine = {
            .verdict = VERDICT_HELD, .is_parsed = true, .alive = LIVE_ALIVE, .record = outcome.record};
        snprintf(message, sizeof message, "Lock acquired successfully for session %s", request.session_id);
        *ret = sprint_answer(call, "acquired", "acquire", &mine, message, TSK_OK);
    } else {
        *ret = acquire_refused(call, &outcome, err);
        set_aside(call, &sprint.target, &outcome.before, err);
        if (err->code == TSK_SPRINT_BLOCKED && lock_args_is_own(&request, &outcome.before))
            say_own(call, &sprint, &outcome.before);
    }
    sprint_end(&sprint);
    return 0;
}

#define ROOT_PARAMS                                                                                                    \
    PARAM("project_root", OP_PATH, OP_OPTIONAL, "DIR",                                                                 \
          "Where the lock file is (default: the project that contains the working directory)."),                       \
        PARAM("lock_file", OP_PATH, OP_OPTIONAL, "NAME", "The lock file's name.", .fallback = ".sprint-running")

static const struct op_field result_fields[] = {
    {"status", "string", "acquired released blocked zombie-detected clean failure"},
    {"mode", "string", "acquire release check"},
    {"lock_info", "object", "exists pid session_id started_at epic_spec age_hours pid_alive is_zombie"},
    {"message", "string", ""},
    {"errors", "array", ""},
    {"needs_confirmation", "boolean?", "only a yes is missing"},
    {0},
};

const struct op op_sprint_acquire = {
    NAMES("sprint.acquire", "sprint", "acquire"),
    .summary = "Take the project's sprint lock (.sprint-running), so that only one sprint runs.",
    .detail = "A zombie (dead holder, older than 24 h, unreadable) is overwritten after a yes, or with --force; a "
              "living holder only with --force and a second yes. Without a terminal and without --yes the answer is "
              "no. The question waits 30 s.",
    .examples = "tasuki sprint acquire --session sprint-2026-02-07-001 --epic epic5",
    .flags = OP_NO_WORKSPACE | OP_INTERRUPTIBLE | OP_WAITS | OP_DESTRUCTIVE | OP_VERDICTS,
    .params =
        PARAMS(PARAM("session", OP_STRING, OP_SHOWN_REQUIRED, "S", "Session id; required.", .max = 256),
               PARAM("epic", OP_STRING, OP_SHOWN_REQUIRED, "E", "The epic that is worked on; required.", .max = 256),
               LOCK_WAIT_PARAM,
               FLAG("force", OP_OPTIONAL, "Overwrite a zombie without asking, a living holder after a second yes."),
               YES_PARAM, LOCK_KILL_PARAM, LOCK_PID_PARAM, INSTANCE_PARAM, NOTE_PARAM, ROOT_PARAMS),
    .result = result_fields,
    .errors = ERRORS(TSK_SPRINT_BLOCKED, TSK_NEEDS_CONFIRMATION, TSK_ZOMBIE_DETECTED, TSK_INVALID_INPUT,
                     TSK_ENVIRONMENT, TSK_UNSUPPORTED_FS, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/sprint", .when = "mode=acquire"),
    .mcp = TOOL("sprint_acquire", "locks", .refusal = "NOT ACQUIRED",
                .text = "Take the project's sprint lock (.sprint-running), so that only one sprint runs. NOT ACQUIRED "
                        "names the holder; a dead one's needs confirm: true, a living one's force: true and a person's "
                        "yes. It stays until sprint_release."),
    .run = run_acquire,
};

/* ---- release ---- */

static json_t *release_refused(struct op_call *call, const struct lock_proof *proof, const struct lock_outcome *outcome,
                               const struct tsk_error *err)
{
    char message[1024];
    if (err->code == TSK_NEEDS_CONFIRMATION) {
        sprint_describe(message, sizeof message, "Sprint already running", &outcome->before);
        return needs_yes(call, sprint_answer(call, "blocked", "release", &outcome->before, message, err->code), err);
    }
    if (err->code != TSK_LOCK_LOST)
        return failure_of(call, "release", err);
    snprintf(message, sizeof message, "Lock session mismatch (expected: %s, actual: %s)", proof->session_id,
             outcome->record.session_id);
    json_t *result = sprint_answer(call, "blocked", "release", &outcome->before, message, TSK_SPRINT_BLOCKED);
    add_error(result, message);
    return result;
}

static int run_release(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct sprint sprint;
    struct lock_outcome outcome = {0};
    struct lock_proof proof = {.session_id = json_get_string(call->args, "session", NULL),
                               .strict = json_get_bool(call->args, "strict", false)};
    if (lock_args_instance(call, &proof.instance, err) < 0) {
        *ret = failure_of(call, "release", err);
        return 0;
    }
    if (sprint_begin(call, "release", &sprint, ret) < 0)
        return 0;
    if (lock_release_confirmed(call, &sprint.target, &proof, &outcome, err) == 0) {
        *ret = sprint_answer(call, "released", "release", NULL, "Lock released successfully", TSK_OK);
        if (outcome.session_mismatch) {
            char text[1024];
            snprintf(text, sizeof text, "Lock session mismatch (expected: %s, actual: %s)", proof.session_id,
                     outcome.record.session_id);
            add_error(*ret, text);
        }
    } else {
        *ret = release_refused(call, &proof, &outcome, err);
        set_aside(call, &sprint.target, &outcome.before, err);
    }
    sprint_end(&sprint);
    return 0;
}

const struct op op_sprint_release = {
    NAMES("sprint.release", "sprint", "release"),
    .summary = "Release the sprint lock. Succeeds if it is not held.",
    .detail = "It releases your own sprint, a dead holder's, and one without a usable pid. A living sprint that is not "
              "yours is released only after a yes: on a terminal the command asks.",
    .examples = "tasuki sprint release --session sprint-2026-02-07-001",
    .flags = OP_IDEMPOTENT | OP_NO_WORKSPACE | OP_VERDICTS,
    .params = PARAMS(
        PARAM("session", OP_STRING, OP_OPTIONAL, "S", "Session id; another one in the file is a warning.", .max = 256),
        FLAG("strict", OP_OPTIONAL, "Refuse when the session differs."), YES_PARAM, INSTANCE_PARAM, ROOT_PARAMS),
    .result = result_fields,
    .errors = ERRORS(TSK_SPRINT_BLOCKED, TSK_NEEDS_CONFIRMATION, TSK_ZOMBIE_DETECTED, TSK_INVALID_INPUT,
                     TSK_ENVIRONMENT, TSK_UNSUPPORTED_FS, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/sprint", .when = "mode=release"),
    .mcp = TOOL("sprint_release", "locks", .refusal = "NOT RELEASED",
                .text = "Release the sprint lock at the end of your sprint, or one that a dead holder left. It "
                        "succeeds if there is none. A living sprint that is not yours stays: it needs a person's yes."),
    .run = run_release,
};

/* ---- check ---- */

static int run_check(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct sprint sprint;
    struct judgement found;
    char message[1024];
    if (sprint_begin(call, "check", &sprint, ret) < 0)
        return 0;
    if (lock_inspect(&sprint.target, &found, err) < 0) {
        *ret = failure_of(call, "check", err);
        sprint_end(&sprint);
        return 0;
    }
    struct tsk_error hints = {0};
    struct now now = clock_now();
    sprint_tmp_meet(&sprint.target, &now, &found);
    report_add_holder(&sprint.target, &now, &found, &hints);
    set_aside(call, &sprint.target, &found, &hints);
    if (found.verdict == VERDICT_FREE) {
        *ret = sprint_answer(call, "clean", "check", &found, "No sprint lock", TSK_OK);
    } else if (found.verdict == VERDICT_ZOMBIE) {
        sprint_describe(message, sizeof message, "Zombie lock detected", &found);
        *ret = sprint_answer(call, "zombie-detected", "check", &found, message, TSK_ZOMBIE_DETECTED);
    } else {
        sprint_describe(message, sizeof message, "Sprint already running", &found);
        *ret = sprint_answer(call, "blocked", "check", &found, message, TSK_SPRINT_BLOCKED);
    }
    sprint_end(&sprint);
    return 0;
}

const struct op op_sprint_check = {
    NAMES("sprint.check", "sprint", "check"),
    .summary = "Say whether a sprint runs: clean (exit 0), blocked (4), zombie-detected (6).",
    .examples = "tasuki sprint check --json",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_NO_WORKSPACE | OP_VERDICTS,
    .params = PARAMS(ROOT_PARAMS),
    .result = result_fields,
    .errors = ERRORS(TSK_SPRINT_BLOCKED, TSK_ZOMBIE_DETECTED, TSK_INVALID_INPUT, TSK_ENVIRONMENT, TSK_UNSUPPORTED_FS,
                     TSK_STORAGE_FULL),
    .http = ROUTE("GET", "/api/sprint"),
    .mcp = TOOL("sprint_check", "locks",
                .text = "Say whether a sprint runs: clean, blocked or zombie-detected. It changes nothing."),
    .run = run_check,
};
