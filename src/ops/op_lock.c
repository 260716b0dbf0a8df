/* op_lock.c - lock acquire, release, renew, check, list. */
#include "lock/report.h"
#include "ops/lock_args.h"
#include "ops/ops.h"
#include "ops/page.h"

#include <stdio.h>
#include <string.h>

static const char kind_help[] =
#define X(symbol, name, ...) ", " name
#include "lock/kinds.def"
#undef X
    ".";
#define KIND_PARAM                                                                                                     \
    PARAM("kind", OP_ENUM, OP_REQUIRED | OP_POSITIONAL, "KIND", kind_help + 2, .choices = lock_kind_names,             \
          .agent_help = "")
#define ID_PARAM                                                                                                       \
    PARAM("id", OP_STRING, OP_POSITIONAL, "ID", "The request's id or the name; a queue has none.", .max = 512,         \
          .completes = "lock-id")
#define TOKEN_PARAM PARAM("token", OP_STRING, OP_OPTIONAL, "T", "The token that acquire printed.", .max = 128)

/* ---- acquire ---- */

static json_t *acquired_json(struct lock_target *target, const struct lock_outcome *outcome, bool killed)
{
    char path[PATH_MAX];
    const struct lock_record *record = &outcome->record;
    lock_target_path(target, path);
    json_t *json =
        json_pack("{s:s, s:s, s:s?, s:I, s:s, s:s, s:s?, s:o}", "status", "acquired", "kind", target->kind->name, "id",
                  target->id[0] ? target->id : NULL, "fence", (json_int_t)record->fence, "token", record->token, "path",
                  path, "expires_at", target->kind->is_sprint ? NULL : TIME_LOCAL(record->expires_ms), "holder",
                  report_holder(NULL, record, LIVE_ALIVE,
                                record->hold == HOLD_LIFE    ? "life byte is locked"
                                : record->hold == HOLD_LEASE ? "lease runs"
                                                             : "process exists"));
    if (outcome->recovered)
        json_object_set_new(json, "recovered",
                            report_holder(NULL, &outcome->before.record, outcome->before.alive, outcome->before.how));
    if (outcome->forced)
        json_object_set_new(json, "forced",
                            report_holder(NULL, &outcome->before.record, killed ? LIVE_DEAD : outcome->before.alive,
                                          killed ? "process is gone" : outcome->before.how));
    return json;
}

/* An agent that has forgotten that it holds the lock must neither wait for itself nor take it from itself. It is a refusal all
 * the same: several helpers of one agent share its instance. */
static int refuse_own(struct op_call *call, struct lock_target *target, const struct lock_request *request,
                      struct tsk_error *err)
{
    struct judgement found;
    struct tsk_error ignored;
    /* A call that neither waits nor forces is refused by the acquisition itself, which knows the same (refused_by_own). */
    bool is_refused_anyway = !request->wait_ms && !json_get_bool(call->args, "force", false) &&
                             request->hold == HOLD_PROCESS && target->kind->held_code == TSK_LOCK_HELD;
    if (call->is_cli && !json_get_bool(call->args, "force", false) && target->kind->kind == TSK_LOCK_NAME)
        return lock_refuse_around(target, err);
    if (call->is_cli || is_refused_anyway || target->kind->is_sprint || !request->instance ||
        lock_inspect(target, &found, &ignored) < 0 || found.verdict != VERDICT_HELD ||
        strcmp(found.record.instance, request->instance) != 0 || !who_current_is(&found.record.who))
        return 0;
    return lock_refuse_own(target, &found, err);
}

/* A command may wait for another part of its shell. When it is refused, it learns that the holder is that shell. The refusals for
 * requests and the queue keep their fixed words. */
static void refused_by_own(struct lock_target *target, const struct lock_request *request,
                           const struct lock_outcome *outcome, struct tsk_error *err)
{
    bool has_fixed_words = err->code != TSK_LOCK_HELD && err->code != TSK_SPRINT_BLOCKED;
    if (!has_fixed_words && lock_args_is_own(request, &outcome->before))
        lock_refuse_own(target, &outcome->before, err);
}

static int run_acquire(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct lock_outcome outcome = {0};
    struct lock_request request = {.wait_ms = lock_args_wait(call),
                                   .ttl_ms = json_get_int(call->args, "ttl", 0),
                                   .session_id = json_get_string(call->args, "session", NULL),
                                   .run_id = json_get_string(call->args, "run", NULL),
                                   .epic_spec = json_get_string(call->args, "epic", NULL)};
    if (lock_args_target(call, &target, err) < 0)
        return -1;
    int result = -1;
    if (target.kind->is_sprint && (!request.session_id || !request.epic_spec))
        error_set(err, TSK_INVALID_INPUT, "sprint_needs_session_and_epic", NULL);
    else if (!target.kind->is_sprint && request.epic_spec)
        error_set(err, TSK_INVALID_INPUT, "epic_only_for_sprint", "param", "epic", NULL);
    else if (lock_args_holder(call, &request, err) == 0 && refuse_own(call, &target, &request, err) == 0)
        result = lock_acquire_confirmed(call, &target, &request, &outcome, err);
    if (result < 0)
        refused_by_own(&target, &request, &outcome, err);
    if (result == 0)
        *ret = acquired_json(&target, &outcome, request.kill);
    lock_target_clear(&target);
    return result;
}

static const struct op_route force_route[] = {{"POST", "/api/locks/:kind/:id/force", "force=true"}, {0}};

const struct op op_lock_acquire = {
    NAMES("lock.acquire", "lock", "acquire"),
    .summary = "Take a lock that is kept after this command, for the process that called it.",
    .detail = "The lock is recorded for --pid, the caller's instance, or the nearest ancestor that is not just passing "
              "through (a shell started with -c, sudo, timeout, xargs), and the answer names the process. It ends with "
              "release. When that process ends, others can take it: at once, or after the TTL if the process was a "
              "guess. To hold a "
              "lock while a command runs, use lock run.",
    .examples = "tasuki lock acquire name deploy  # take it, or see who has it\n"
                "tasuki lock acquire name deploy --wait 5m  # wait for it, in arrival order\n"
                "tasuki lock acquire request RQ-12 --pid $$ --run RUN-7  # for a process you name",
    .flags = OP_INTERRUPTIBLE | OP_WAITS | OP_DESTRUCTIVE,
    .params = PARAMS(KIND_PARAM, ID_PARAM, LOCK_SESSION_PARAM,
                     PARAM("run", OP_ID, OP_OPTIONAL, "RUN", "Run id to record.", .agent_help = ""),
                     PARAM("epic", OP_STRING, OP_OPTIONAL, "E", "Epic to record (sprint).", .max = 256),
                     PARAM("ttl", OP_DURATION, OP_OPTIONAL, "D", "Time after which other tools may call it expired.",
                           .fallback = "30m", .min = 1, .agent_help = "For other tools only."),
                     LOCK_WAIT_PARAM, LOCK_PID_PARAM, INSTANCE_PARAM,
                     FLAG("force", OP_OPTIONAL,
                          "Take it even from a living holder (asks first), or from a dead one before its TTL is over.",
                          .agent_help = "Take it even from a living holder (a person is asked)."),
                     YES_PARAM, LOCK_KILL_PARAM,
                     PARAM("note", OP_STRING, OP_OPTIONAL, "TEXT", NOTE_PARAM_HELP, .max = WHO_NOTE_SIZE - 1,
                           .agent_help = "What for; others read it.")),
    .result = FIELDS({"status", "string", "acquired"}, {"kind", "string", ""}, {"id", "string?", ""},
                     {"fence", "integer", "the number of this acquisition; it grows"},
                     {"token", "string", "proves ownership for release and renew"},
                     {"path", "string", "of the lock file"}, {"expires_at", "string?", "for other tools"},
                     {"holder", "object", "pid hostname session_id run_id instance alive how hold who"},
                     {"recovered", "object?", "the dead holder from which it was taken"}),
    .errors =
        ERRORS(TSK_LOCK_HELD, TSK_RUN_IN_PROGRESS, TSK_QUEUE_IN_PROGRESS, TSK_SPRINT_BLOCKED, TSK_NEEDS_CONFIRMATION,
               TSK_INVALID_INPUT, TSK_UNSUPPORTED_FS, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http = ROUTE("POST", "/api/locks/:kind/:id", .also = force_route),
    .mcp = TOOL("lock_acquire", "locks", .is_core = true, .refusal = "NOT ACQUIRED",
                .text = "Take a lock before you change what others may change, too; kind name is any name that you "
                        "agree on. NOT ACQUIRED says who holds it: wait (wait: \"45s\"; call again with the same "
                        "arguments, your place is kept; do not end your turn to wait), do something else, or ask the "
                        "person; never continue without it. It stays until lock_release or your program ends."),
    .run = run_acquire,
};

/* ---- release ---- */

static void lock_say(struct op_call *call, struct lock_target *target, const char *sentence)
{
    char words[LOCK_WORDS_MAX];
    lock_target_words(target, words, sizeof words);
    call->says = sentence;
    call->aside = json_pack("{s:s}", "lock", words);
}

static int run_release(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct lock_outcome outcome;
    struct lock_proof proof = {.token = json_get_string(call->args, "token", NULL),
                               .session_id = json_get_string(call->args, "session", NULL),
                               .strict = json_get_bool(call->args, "strict", false)};
    if (lock_args_instance(call, &proof.instance, err) < 0 || lock_args_target(call, &target, err) < 0)
        return -1;
    int result = lock_release_confirmed(call, &target, &proof, &outcome, err);
    if (result < 0)
        op_hint_proof(call, &proof, err);
    if (result == 0) {
        lock_say(call, &target, outcome.existed ? "released" : "released_none");
        *ret = json_pack("{s:s, s:s, s:s?, s:b}", "status", "released", "kind", target.kind->name, "id",
                         target.id[0] ? target.id : NULL, "existed", outcome.existed);
        if (outcome.session_mismatch)
            json_object_set_new(*ret, "warning",
                                json_sprintf("Lock session mismatch (expected: %s, actual: %s)", proof.session_id,
                                             outcome.record.session_id));
    }
    lock_target_clear(&target);
    return result;
}

const struct op op_lock_release = {
    NAMES("lock.release", "lock", "release"),
    .summary = "Release a lock. Succeeds if the lock is not held.",
    .detail = "You prove that it is yours by --token, by your instance, or by being (a descendant of) the recorded "
              "process. Anybody may release the lock of a dead holder. A living sprint that is not yours is released "
              "only after a yes.",
    .examples = "tasuki lock release name deploy  # from the shell that took it\n"
                "tasuki lock release name deploy --token 5f0c…  # from anywhere",
    .flags = OP_IDEMPOTENT,
    .params =
        PARAMS(KIND_PARAM, ID_PARAM, TOKEN_PARAM, INSTANCE_PARAM,
               PARAM("session", OP_STRING, OP_OPTIONAL, "S", "Session id; another one in the file is a warning.",
                     .max = 256, .agent_help = "Of a sprint."),
               FLAG("strict", OP_OPTIONAL, "Refuse when the session differs.", .agent_help = "Refuse another session."),
               YES_PARAM),
    .result = FIELDS({"status", "string", "released"}, {"kind", "string", ""}, {"id", "string?", ""},
                     {"existed", "boolean", "false: there was no lock"}, {"warning", "string?", "another session's"}),
    .errors = ERRORS(TSK_LOCK_LOST, TSK_NEEDS_CONFIRMATION, TSK_INVALID_INPUT, TSK_UNSUPPORTED_FS, TSK_ENVIRONMENT,
                     TSK_NOT_FOUND),
    .http = ROUTE("DELETE", "/api/locks/:kind/:id"),
    .mcp = TOOL("lock_release", "locks", .is_core = true, .refusal = "NOT RELEASED",
                .text = "Release a lock as soon as the work is done. It succeeds if there is none; NOT RELEASED "
                        "(LOCK_LOST) means that it is somebody else's now."),
    .run = run_release,
};

/* ---- renew ---- */

static int run_renew(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct lock_outcome outcome;
    struct lock_proof proof = {.token = json_get_string(call->args, "token", NULL), .is_remote = call->is_remote};
    if (lock_args_instance(call, &proof.instance, err) < 0 || lock_args_target(call, &target, err) < 0)
        return -1;
    int result = lock_renew_by(&target, &proof, json_get_int(call->args, "ttl", 0), &outcome, err);
    if (result < 0)
        op_hint_proof(call, &proof, err);
    if (result == 0) {
        lock_say(call, &target, target.kind->is_sprint ? "renewed_no_ttl" : "renewed");
        *ret = json_pack("{s:s, s:s, s:s?, s:I, s:s?}", "status", "renewed", "kind", target.kind->name, "id",
                         target.id[0] ? target.id : NULL, "fence", (json_int_t)outcome.record.fence, "expires_at",
                         target.kind->is_sprint ? NULL : TIME_LOCAL(outcome.record.expires_ms));
    }
    lock_target_clear(&target);
    return result;
}

const struct op op_lock_renew = {
    NAMES("lock.renew", "lock", "renew"),
    .summary = "Extend the TTL of a lock that you hold, and learn whether you still hold it.",
    .examples = "tasuki lock renew name deploy  # another 30 minutes",
    .flags = OP_IDEMPOTENT,
    .params = PARAMS(
        KIND_PARAM, ID_PARAM, TOKEN_PARAM, INSTANCE_PARAM,
        PARAM("ttl", OP_DURATION, OP_OPTIONAL, "D", "A new TTL from now on.", .fallback = "as before", .min = 1)),
    .result = FIELDS({"status", "string", "renewed"}, {"kind", "string", ""}, {"id", "string?", ""},
                     {"fence", "integer", ""}, {"expires_at", "string?", ""}),
    .errors = ERRORS(TSK_LOCK_LOST, TSK_LOCK_NOT_FOUND, TSK_INVALID_INPUT, TSK_UNSUPPORTED_FS, TSK_ENVIRONMENT,
                     TSK_STORAGE_FULL, TSK_NOT_FOUND),
    .http = ROUTE("PUT", "/api/locks/:kind/:id"),
    .mcp = TOOL("lock_renew", "locks", .refusal = "NOT RENEWED",
                .text = "Extend the TTL of a lock that you hold, and learn whether you still hold it. NOT RENEWED: "
                        "stop your work, the lock is not yours any more. This connection renews its locks by itself."),
    .run = run_renew,
};

/* ---- check ---- */

static int run_check(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct lock_target target;
    struct judgement found;
    if (lock_args_target(call, &target, err) < 0)
        return -1;
    int result = lock_inspect(&target, &found, err);
    struct now now = clock_now();
    if (result == 0) {
        *ret = report_lock(&target, &now, &found);
        /* Dead, whether it may be taken at once (stale) or only after its TTL (a guessed holder, another tool's). */
        bool is_dead = found.verdict == VERDICT_STALE || found.verdict == VERDICT_ZOMBIE || found.alive == LIVE_DEAD;
        call->verdict = found.verdict == VERDICT_FREE ? TSK_OK : is_dead ? TSK_ZOMBIE_DETECTED : target.kind->held_code;
    }
    lock_target_clear(&target);
    return result;
}

const struct op op_lock_check = {
    NAMES("lock.check", "lock", "check"),
    .summary = "Say whether a lock is free (exit 0), held (4), or left behind by a dead holder (6).",
    .examples = "tasuki lock check name deploy && echo free  # in a script",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_VERDICTS,
    .params = PARAMS(KIND_PARAM, ID_PARAM),
    .result = FIELDS({"kind", "string", ""}, {"id", "string?", ""}, {"state", "string", "free, held, stale or zombie"},
                     {"path", "string", ""}, {"fence", "integer?", ""}, {"created_at", "string?", ""},
                     {"expires_at", "string?", ""},
                     {"holder", "object?", "pid hostname session_id run_id instance alive how hold who"}),
    .errors = ERRORS(TSK_LOCK_HELD, TSK_RUN_IN_PROGRESS, TSK_QUEUE_IN_PROGRESS, TSK_SPRINT_BLOCKED, TSK_ZOMBIE_DETECTED,
                     TSK_INVALID_INPUT, TSK_UNSUPPORTED_FS, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/locks/:kind/:id"),
    .mcp = TOOL("lock_check", "locks",
                .text = "Say whether a lock is free, held, or left behind by a dead holder (stale, zombie). It changes "
                        "nothing: only lock_acquire gives it to you."),
    .run = run_check,
};

/* ---- list ---- */

static void lock_page_key(const json_t *lock, char text[PAGE_KEY_MAX])
{
    snprintf(text, PAGE_KEY_MAX, "%s/%s", json_get_string(lock, "kind", ""), json_get_string(lock, "id", ""));
}

static int run_list(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *locks CLEANUP_JSON = NULL;
    if (locks_list(call->ws, json_get_string(call->args, "kind", NULL), call->root, &locks, err) < 0)
        return -1;
    *ret = page_sorted(call, "locks", locks, lock_page_key);
    return 0;
}

const struct op op_lock_list = {
    NAMES("lock.list", "lock", "list"),
    .summary = "Show all locks of the workspace: who holds what, since when, alive or dead.",
    .examples = "tasuki lock list  # everything\ntasuki lock list --kind request --json",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT,
    .params =
        PARAMS(PARAM("kind", OP_ENUM, OP_OPTIONAL, "KIND", "Only locks of this kind.", .choices = lock_kind_names),
               PAGE_PARAMS),
    .result = FIELDS({"locks", "array", "by kind and id, each as lock.check gives it"}, PAGE_FIELDS),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_UNSUPPORTED_FS, TSK_ENVIRONMENT, TSK_NOT_FOUND),
    .http = ROUTE("GET", "/api/locks"),
    .mcp =
        TOOL("lock_list", "locks", .is_core = true,
             .text = "Show all locks of the workspace: who holds what, since when, alive or dead. It changes nothing."),
    .run = run_list,
};
