#include "ops/lock_args.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "base/word.h"
#include "lock/report.h"
#include "ops/waits.h"
#include "own/workflow.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Routes name a lock by kind and id (/api/locks/:kind/:id). For a kind without ids, the file's name is
 * the id. */
static bool is_own_name(const struct lock_kind *kind, const char *id)
{
    return !kind->has_id && strcmp(id, kind->is_sprint ? SPRINT_FILE_DEFAULT : kind->name) == 0;
}

static int make_target(struct op_call *call, const struct lock_kind *kind, const char *id, struct lock_target *ret,
                       struct tsk_error *err)
{
    char project[PATH_MAX];
    if (id && is_own_name(kind, id))
        id = NULL;
    if (kind->is_sprint && id)
        return error_set(err, TSK_INVALID_INPUT, "sprint_takes_no_id", "value", id, NULL);
    /* The sprint lock belongs to its project, which in a linked worktree is not the workspace's root. */
    if (kind->is_sprint && workspace_project_root(call->root, project, err) < 0)
        return -1;
    if (lock_target_init(ret, call->ws, kind, id, kind->is_sprint ? project : NULL, err) < 0)
        return -1;
    ret->given_root = call->root;
    return 0;
}

int lock_args_target(struct op_call *call, struct lock_target *ret, struct tsk_error *err)
{
    const struct lock_kind *kind = lock_kind_by_name(json_get_string(call->args, "kind", "name"));
    return make_target(call, kind, json_get_string(call->args, "id", NULL), ret, err);
}

int lock_args_named(struct op_call *call, const char *name, struct lock_target *ret, struct tsk_error *err)
{
    char first[16] = "";
    const char *slash = strchr(name, '/');
    const struct lock_kind *kind = lock_kind_by_name(name);
    if (kind && !kind->has_id)
        return make_target(call, kind, NULL, ret, err);
    if (!slash)
        return make_target(call, lock_kind_get(strncmp(name, "RQ-", 3) == 0 ? TSK_LOCK_REQUEST : TSK_LOCK_NAME), name,
                           ret, err);
    snprintf(first, sizeof first, "%.*s", (int)(slash - name), name);
    kind = lock_kind_by_name(first);
    if (!kind) /* a name with a slash in it */
        return make_target(call, lock_kind_get(TSK_LOCK_NAME), name, ret, err);
    return make_target(call, kind, slash[1] ? slash + 1 : NULL, ret, err);
}

int lock_args_instance(struct op_call *call, const char **ret, struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "instance", NULL);
    *ret = given ? given : call->is_cli ? getenv("TASUKI_INSTANCE_ID") : NULL; /* a server's own is nobody else's */
    if (*ret && (strlen(*ret) >= LOCK_TEXT_MAX || !utf8_is_valid(*ret, strlen(*ret))))
        return error_set(err, TSK_INVALID_INPUT, "text_not_utf8", "param", given ? "instance" : "TASUKI_INSTANCE_ID",
                         NULL);
    if (*ret && !(*ret)[0])
        *ret = NULL;
    return 0;
}

/* The process of an instance that lives: the one that the table remembers, else the one that its id names. */
static int holder_of_instance(struct tsk_workspace *ws, const char *instance, struct proc_id *ret)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct now now = clock_now();
    struct tsk_error ignored;
    struct instance_state state;
    instance_judge_form(instance, &now, &state);
    if (!state.process.pid && (!ws || owners_open(&owners, ws, &ignored) < 0 ||
                               instance_judge(&owners.db, instance, &now, &state, &ignored) < 0))
        return -1;
    *ret = state.process;
    return ret->pid ? 0 : -1;
}

/* A client of the server has no process here that we could look at, and those above the server are not its. */
static int hold_by_lease(struct op_call *call, struct lock_request *request, struct tsk_error *err)
{
    if (!request->instance) {
        error_set(err, TSK_INVALID_INPUT, "instance_needed", NULL);
        op_hint_register(err);
        return -1;
    }
    if (!call->home) /* it was verified, and then its workspace was removed */
        return error_set(err, TSK_NOT_FOUND, "instance_gone", "instance", request->instance, NULL);
    request->hold = HOLD_LEASE;
    request->registry = call->home->state_path;
    return 0;
}

int lock_args_holder(struct op_call *call, struct lock_request *request, struct tsk_error *err)
{
    int64_t pid = json_get_int(call->args, "pid", 0);
    if (lock_args_instance(call, &request->instance, err) < 0)
        return -1;
    if (pid) {
        request->hold = HOLD_PROCESS;
        if (proc_id_of((pid_t)pid, &request->holder) == 0)
            return 0;
        if (errno != ESRCH)
            return error_errno(err, "examine", "process");
        return error_set(err, TSK_INVALID_INPUT, "pid_not_running", "pid", DIGITS(pid), NULL);
    }
    if (call->is_remote)
        return hold_by_lease(call, request, err);
    if (request->instance && holder_of_instance(call->ws, request->instance, &request->holder) == 0) {
        request->hold = HOLD_PROCESS;
        return 0;
    }
    request->hold = HOLD_GUESS;
    if (proc_guess_holder(&request->holder) == 0)
        return 0;
    if (errno != ESRCH)
        return error_errno(err, "examine", "calling process");
    error_set(err, TSK_INVALID_INPUT, "holder_needed", NULL);
    return error_add_next(err, "tasuki %s … --pid PID", OP_WORDS(call->op));
}

bool lock_args_is_own(const struct lock_request *request, const struct judgement *found)
{
    const struct proc_id *holder = &found->record.holder;
    bool is_process = found->record.hold == HOLD_PROCESS || found->record.hold == HOLD_GUESS;
    bool is_own = request->instance ? strcmp(found->record.instance, request->instance) == 0
                                    : is_process && holder->pid == request->holder.pid &&
                                          holder->start_ticks == request->holder.start_ticks &&
                                          holder->pid_ns == request->holder.pid_ns;
    return is_own && found->verdict == VERDICT_HELD && request->hold != HOLD_LEASE && request->holder.pid &&
           who_current_is(&found->record.who);
}

int lock_refuse_own(struct lock_target *target, const struct judgement *found, struct tsk_error *err)
{
    char words[LOCK_WORDS_MAX];
    struct now now = clock_now();
    lock_target_words(target, words, sizeof words);
    error_set(err, target->kind->held_code, "lock_held_by_you", "lock", words, "fence", DIGITS(found->record.fence),
              NULL);
    report_add_facts(target, &now, found, err);
    report_add_command(target, target->kind->is_sprint ? "check" : "release", "", err);
    return -1;
}

int lock_refuse_around(struct lock_target *target, struct tsk_error *err)
{
    struct judgement found;
    struct tsk_error ignored;
    const char *around = getenv("TASUKI_LOCK");
    if (!around || strcmp(around, target->id) != 0 || lock_inspect(target, &found, &ignored) < 0 ||
        found.verdict != VERDICT_HELD || found.record.hold != HOLD_LIFE || !proc_is_ancestor(&found.record.holder))
        return 0;
    struct now now = clock_now();
    error_set(err, TSK_LOCK_HELD, "lock_held_around_you", "id", target->id, NULL);
    report_add_facts(target, &now, &found, err);
    report_add_command(target, "check", "", err);
    return -1;
}

int64_t lock_args_wait(struct op_call *call)
{
    int64_t wait_ms = json_get_int(call->args, "wait", 0);
    if (!call->is_cli && (wait_ms < 0 || wait_ms > REMOTE_WAIT_MAX_MS))
        return REMOTE_WAIT_MAX_MS;
    return wait_ms < 0 ? (int64_t)100 * 366 * 24 * 3600 * 1000 : wait_ms;
}

static void put_age(char *text, size_t size, int64_t age_ms)
{
    snprintf(text, size, "%.1f", age_ms < 0 ? 0.0 : (double)age_ms / 3600000.0);
}

/* For people: local, without the day if it is today. No span: the yes is for the very words of the question, which is asked again. */
static void put_since(struct buf *b, int64_t created_ms)
{
    const char *time = created_ms >= 0 ? TIME_LOCAL(created_ms) : "?", *today = TIME_LOCAL(clock_now().wall_ms);
    bool is_today = strncmp(time, today, 10) == 0;
    buf_printf(b, is_today ? "%.5s" : "%.10s", time + (is_today ? 11 : 0));
}

/* `key`: the text. */
static void lock_put_question(struct op_call *call, const struct lock_target *target, const struct judgement *found,
                              const char *key, struct buf *b)
{
    char pid[LOCK_TEXT_MAX], age[32], started[TIME_TEXT_MAX] = "?", words[LOCK_WORDS_MAX];
    const struct lock_record *record = &found->record;
    bool is_client = record->hold == HOLD_LEASE;
    snprintf(pid, sizeof pid, record->pid ? "%d" : "?", (int)record->pid);
    if (is_client)
        snprintf(pid, sizeof pid, "%s", record->instance);
    put_age(age, sizeof age, found->age_ms);
    if (record->created_ms >= 0)
        time_format_utc(record->created_ms, started);
    lock_target_words(target, words, sizeof words);
    json_t *holder CLEANUP_JSON = report_holder(target->ws, record, found->alive, found->how);
    struct buf by CLEANUP(buf_clear) = BUF_INIT, since CLEANUP(buf_clear) = BUF_INIT;
    who_put_label(&by, json_object_get(holder, "who"));
    put_since(&since, record->created_ms);
    bool is_dead = found->alive == LIVE_DEAD || (!record->pid && !is_client);
    const char *state = is_dead ? "dead" : "alive"; /* sprints: a word of their specification */
    if (!target->kind->is_sprint)
        state = text_get(is_dead ? "owner_dead" : "owner_alive", call->lang);
    text_put(b, call->lang, key, "lock", words, "by", by.len ? buf_str(&by) : "?", "pid", pid, "state", state,
             "session_id", record->session_id[0] ? record->session_id : "?", "started_at", started, "since",
             buf_str(&since), "age_hours", age, "epic_spec", record->epic_spec[0] ? record->epic_spec : "?", NULL);
}

/* What kind of yes the refusal could be overcome with. */
static bool may_be_confirmed(const struct lock_target *target, const struct judgement *found, bool wants_force)
{
    if (found->verdict == VERDICT_ZOMBIE)
        return target->kind->is_sprint;
    return wants_force && found->verdict == VERDICT_HELD && found->st.st_ino;
}

/* A lock that is granted to a caller who has gone while he waited would be nobody's: it goes back. */
static int acquire_for(struct op_call *call, struct lock_target *target, const struct lock_request *request,
                       struct lock_outcome *outcome, struct tsk_error *err)
{
    struct op_wait waiting CLEANUP(op_wait_end) = OP_WAIT_NONE;
    if (request->wait_ms)
        op_wait_begin(&waiting, call, target->ws, target->kind->name, target->id[0] ? target->id : NULL);
    int result = lock_acquire(target, request, NULL, outcome, err);
    op_wait_end(&waiting);
    if (result < 0 || !request->wait_ms || !call->is_cancelled || !call->is_cancelled(call))
        return result;
    struct lock_outcome given_back;
    struct tsk_error ignored;
    struct lock_proof proof = {.token = outcome->record.token,
                               .instance = request->instance,
                               .session_id = request->session_id,
                               .strict = true,
                               .is_remote = true};
    lock_release_by(target, &proof, &given_back, &ignored); /* if it cannot be: as if he had gone a moment later */
    return error_set(err, TSK_CONFLICT, "interrupted", NULL);
}

/* Only a yes is missing. `next` names --yes where nobody alive can lose anything by it; elsewhere a person decides. */
static int refuse_unconfirmed(struct lock_target *target, const struct lock_outcome *outcome, struct tsk_error *err)
{
    struct now now = clock_now();
    bool is_left_behind = judgement_is_left_behind(&outcome->before);
    error_set(err, TSK_NEEDS_CONFIRMATION, is_left_behind ? "zombie_blocks" : "needs_confirmation_force", NULL);
    report_add_facts(target, &now, &outcome->before, err);
    if (is_left_behind)
        report_add_command(target, "acquire", " --yes", err);
    else if (outcome->before.alive == LIVE_DEAD)
        report_add_command(target, "acquire", " --force --yes", err);
    else if (outcome->before.verdict == VERDICT_HELD)
        report_add_command(target, "acquire", " --wait 30m", err);
    report_add_command(target, "check", "", err);
    return -1;
}

/* Whether the holder that was met may be replaced: by the caller's word, or by a person's. */
static bool is_confirmed_takeover(struct op_call *call, struct lock_target *target, const struct lock_outcome *outcome,
                                  bool wants_force)
{
    const struct judgement *found = &outcome->before;
    bool is_dead = found->alive == LIVE_DEAD;
    if (json_get_bool(call->args, "yes", false))
        return true;
    /* Nobody alive loses anything when it is taken from a dead one; an agent's word is not enough where TTLs count. */
    if (wants_force && is_dead && (call->is_cli || found->verdict == VERDICT_ZOMBIE))
        return true;
    if (!call->confirm)
        return false;
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    lock_put_question(call, target, found,
                      !target->kind->is_sprint           ? "confirm_force"
                      : found->verdict == VERDICT_ZOMBIE ? "u2_confirm_zombie"
                                                         : "u2_confirm_live",
                      &question);
    call->asks_about_dead = is_dead;
    return call->confirm(call, buf_str(&question));
}

int lock_acquire_confirmed(struct op_call *call, struct lock_target *target, struct lock_request *request,
                           struct lock_outcome *outcome, struct tsk_error *err)
{
    bool wants_force = json_get_bool(call->args, "force", false);
    target->given_session = text_or_null(request->session_id);
    target->given_epic = text_or_null(request->epic_spec);
    request->kill = json_get_bool(call->args, "kill", false);
    /* Force alone is enough for a zombie. An agent's force is enough for a dead holder, but not for one that is only old. */
    request->take_zombie = wants_force && call->is_cli;
    request->take_dead = json_get_bool(call->args, "yes", false); /* also for those who die while this call waits */
    int64_t wait_ms = request->wait_ms;
    if (wants_force)
        request->wait_ms = 0;
    int result = acquire_for(call, target, request, outcome, err);
    bool is_refusal = err->code == target->kind->held_code || err->code == TSK_ZOMBIE_DETECTED;
    if (result == 0 || !is_refusal || !may_be_confirmed(target, &outcome->before, wants_force))
        return result;
    if (!is_confirmed_takeover(call, target, outcome, wants_force)) {
        if (!call->is_cli || !call->confirm)
            return refuse_unconfirmed(target, outcome, err);
        err->code = target->kind->held_code; /* a person was asked, and said no */
        return -1;
    }
    request->force = wants_force;
    request->take_zombie = true;
    request->wait_ms = wants_force ? 0 : wait_ms;
    struct judgement shown = outcome->before; /* the yes was for what was shown, not for what came since */
    request->confirmed = &shown;
    return acquire_for(call, target, request, outcome, err);
}

int lock_release_confirmed(struct op_call *call, struct lock_target *target, struct lock_proof *proof,
                           struct lock_outcome *outcome, struct tsk_error *err)
{
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    proof->is_remote = call->is_remote;
    int result = lock_release_by(target, proof, outcome, err);
    if (result == 0 || err->code != TSK_NEEDS_CONFIRMATION)
        return result;
    lock_put_question(call, target, &outcome->before, "u2_confirm_release", &question);
    call->asks_about_dead = false;
    if (!json_get_bool(call->args, "yes", false) && !(call->confirm && call->confirm(call, buf_str(&question))))
        return -1;
    struct judgement shown = outcome->before; /* the yes is for the holder that was shown */
    proof->confirmed = &shown;
    result = lock_release_by(target, proof, outcome, err);
    proof->confirmed = NULL;
    return result;
}

static int add_lock(struct tsk_workspace *ws, const struct lock_kind *kind, const char *id, const char *project,
                    json_t *list, struct tsk_error *err)
{
    struct lock_target target;
    struct judgement found;
    if (lock_target_init(&target, ws, kind, id, project, err) < 0)
        return -1;
    struct now now = clock_now();
    if (lock_inspect(&target, &found, err) < 0) {
        /* One lock that cannot be read must not hide the others. */
        char path[PATH_MAX];
        lock_target_path(&target, path);
        json_array_append_new(list, json_pack("{s:s, s:s?, s:s, s:s}", "kind", kind->name, "id",
                                              target.id[0] ? target.id : NULL, "state", "unreadable", "path", path));
    } else if (found.verdict != VERDICT_FREE) {
        json_array_append_new(list, report_lock(&target, &now, &found));
    }
    lock_target_clear(&target);
    return 0;
}

static int list_kind(struct tsk_workspace *ws, const struct lock_kind *kind, struct dirent **names, int count,
                     json_t *list, struct tsk_error *err)
{
    char id[LOCK_NAME_SIZE];
    for (int i = 0; i < count; i++)
        if (lock_kind_file_id(kind, ws->locks_dir, names[i]->d_name, id) &&
            add_lock(ws, kind, kind->has_id ? id : NULL, NULL, list, err) < 0)
            return -1;
    return 0;
}

/* The sprint lock of the project we are in, if there is one. */
static int list_sprint(struct tsk_workspace *ws, const struct lock_kind *kind, const char *root, json_t *list,
                       struct tsk_error *err)
{
    char project[PATH_MAX], path[PATH_MAX];
    struct stat st;
    if (workspace_project_root(root, project, err) < 0)
        return -1;
    if (snprintf(path, sizeof path, "%s/%s", project, SPRINT_FILE_DEFAULT) >= (int)sizeof path ||
        fs->fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return add_lock(ws, kind, NULL, project, list, err);
}

/* The parties that wait for a lock: `waiters`, where there are any. */
static void add_waiters(struct tsk_workspace *ws, json_t *locks)
{
    json_t *waiting CLEANUP_JSON = waiting_list(ws);
    json_each (locks, i, lock) {
        const char *kind = json_get_string(lock, "kind", ""), *id = json_get_string(lock, "id", "");
        json_t *waiters = NULL;
        char whole[LOCK_NAME_SIZE + 32];
        snprintf(whole, sizeof whole, "%s/%s", kind, id);
        json_each (waiting, k, one) {
            const char *for_kind = json_get_string(one, "kind", ""), *for_id = json_get_string(one, "id", "");
            bool is_it = (strcmp(for_kind, kind) == 0 && strcmp(for_id, id) == 0) ||
                         (strcmp(for_kind, "lock") == 0 && (strcmp(for_id, whole) == 0 || strcmp(for_id, id) == 0));
            if (!is_it)
                continue;
            if (!waiters) {
                waiters = json_array();
                json_object_set_new(lock, "waiters", waiters);
            }
            json_array_append(waiters, json_object_get(one, "who"));
        }
    }
}

int locks_list(struct tsk_workspace *ws, const char *kind, const char *root, json_t **ret, struct tsk_error *err)
{
    struct dirent **names = NULL;
    json_t *list CLEANUP_JSON = json_array();
    if (workspace_lock_dirs(ws, err) < 0)
        return -1;
    int count = scandirat(ws->locks_dir, ".", &names, NULL, alphasort);
    if (count < 0)
        return error_errno(err, "list", "locks");
    int result = 0;
    for (int k = 0; k < LOCK_KIND_COUNT && result == 0; k++) {
        const struct lock_kind *row = lock_kind_get((enum tsk_lock_kind)k);
        if (kind && strcmp(kind, row->name) != 0)
            continue;
        if (!row->is_sprint)
            result = list_kind(ws, row, names, count, list, err);
        else
            result = list_sprint(ws, row, root, list, err);
    }
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (result == 0) {
        add_waiters(ws, list);
        *ret = list;
        list = NULL;
    }
    return result;
}
