#include "lock/report.h"
#include "base/log.h"
#include "base/word.h"
#include "lock/line.h"
#include "own/who.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {
        [VERDICT_FREE] = "free", [VERDICT_HELD] = "held", [VERDICT_STALE] = "stale", [VERDICT_ZOMBIE] = "zombie"};
    return names[verdict];
}

/* The who of a holder. A lock of another tool has none: then there is nothing to show but its pid. */
static json_t *who_of(struct tsk_workspace *ws, const struct lock_record *record)
{
    struct who who = record->who;
    if (!who.label[0])
        return json_null();
    who.pid = record->pid;
    who_copy(who.host, sizeof who.host, record->hostname);
    if (!who.instance[0])
        who_copy(who.instance, sizeof who.instance, record->instance);
    if (ws)
        who_add_note(ws, &who);
    return who_json(&who);
}

json_t *report_holder(struct tsk_workspace *ws, const struct lock_record *record, enum liveness alive, const char *how)
{
    json_t *json = json_object();
    json_object_set_new(json, "pid", record->pid ? json_integer(record->pid) : json_null());
    json_object_set_new(json, "hostname", record->hostname[0] ? json_string(record->hostname) : json_null());
    json_object_set_new(json, "session_id", record->session_id[0] ? json_string(record->session_id) : json_null());
    json_object_set_new(json, "run_id", record->run_id[0] ? json_string(record->run_id) : json_null());
    json_object_set_new(json, "instance", record->instance[0] ? json_string(record->instance) : json_null());
    json_object_set_new(json, "alive", alive == LIVE_UNKNOWN ? json_null() : json_boolean(alive == LIVE_ALIVE));
    json_object_set_new(json, "how", how ? json_string(how) : json_null());
    json_object_set_new(json, "hold", json_string(hold_name(record->hold)));
    json_object_set_new(json, "who", who_of(ws, record));
    return json;
}

static void set_time(json_t *json, const char *key, int64_t wall_ms)
{
    json_object_set_new(json, key, wall_ms < 0 ? json_null() : json_string(TIME_LOCAL(wall_ms)));
}

#define SAME_MOMENT_MS 2000 /* two looks at the clock, and the file has whole seconds */

/* As the file says it; where the clock was set since, as it is by now. */
static int64_t expires_shown(const struct judgement *found, const struct now *now)
{
    int64_t computed = now->wall_ms + found->expires_in_ms, recorded = found->record.expires_ms;
    return llabs(computed - recorded) < SAME_MOMENT_MS ? recorded : computed;
}

json_t *report_lock(const struct lock_target *target, const struct now *now, const struct judgement *found)
{
    char path[PATH_MAX];
    const struct lock_record *record = &found->record;
    lock_target_path(target, path);
    json_t *json = json_object();
    json_object_set_new(json, "kind", json_string(target->kind->name));
    json_object_set_new(json, "id", target->id[0] ? json_string(target->id) : json_null());
    json_object_set_new(json, "state", json_string(verdict_name(found->verdict)));
    json_object_set_new(json, "path", json_string(path));
    if (found->verdict == VERDICT_FREE)
        return json;
    json_object_set_new(json, "fence", record->fence ? json_integer((json_int_t)record->fence) : json_null());
    set_time(json, "created_at", record->created_ms);
    bool has_ttl = found->expires_in_ms != INT64_MAX; /* a sprint's is 24 hours */
    set_time(json, "expires_at", has_ttl && !target->kind->is_sprint ? expires_shown(found, now) : -1);
    json_object_set_new(json, "expires_in_ms", has_ttl ? json_integer(found->expires_in_ms) : json_null());
    json_object_set_new(json, "age_ms", found->age_ms < 0 ? json_null() : json_integer(found->age_ms));
    json_object_set_new(json, "expired", json_boolean(found->is_expired));
    json_object_set_new(json, "request_id", record->request_id[0] ? json_string(record->request_id) : json_null());
    json_object_set_new(json, "epic_spec", record->epic_spec[0] ? json_string(record->epic_spec) : json_null());
    json_object_set_new(json, "holder", report_holder(target->ws, record, found->alive, found->how));
    return json;
}

/* ---- events ---- */

static void put_record(struct buf *b, const struct lock_target *target, const struct lock_record *record)
{
    buf_puts(b, "{");
    buf_json_pair(b, "kind", target->kind->name);
    buf_json_pair(b, "id", text_or_null(target->id));
    buf_json_pair_int(b, "fence", (int64_t)record->fence);
    if (record->hold == HOLD_LEASE)
        buf_json_pair(b, "instance", record->instance);
    else
        buf_json_pair_int(b, "pid", record->pid);
    buf_json_pair(b, "hold", hold_name(record->hold));
}

static int report_append(const struct lock_target *target, const struct now *now, const char *type,
                         const struct lock_record *record, struct buf *data, struct tsk_error *err)
{
    struct event event = {.type = type,
                          .session_id = text_or_null(record->session_id),
                          .run_id = text_or_null(record->run_id),
                          .data = buf_str(data)};
    BUG(data->failed);
    return workspace_event(target->ws, now, &event, err);
}

/* A lock that is released is released, whether the trail can be written or not. */
static void append_fact(const struct lock_target *target, const struct now *now, const char *type,
                        const struct lock_record *record, struct buf *data)
{
    struct tsk_error problem;
    struct event event = {.type = type,
                          .session_id = text_or_null(record->session_id),
                          .run_id = text_or_null(record->run_id),
                          .data = buf_str(data)};
    BUG(data->failed);
    if (workspace_event_later(target->ws, now, &event, &problem) < 0)
        log_problem(&problem);
}

static void put_old_holder(struct buf *b, const struct judgement *before)
{
    const struct lock_record *old = &before->record;
    buf_json_key(b, "old_holder");
    buf_puts(b, "{");
    if (old->hold == HOLD_LEASE)
        buf_json_pair(b, "instance", old->instance);
    else
        buf_json_pair_int(b, "pid", old->pid);
    buf_json_pair_int(b, "fence", (int64_t)old->fence);
    buf_json_pair(b, "session_id", text_or_null(old->session_id));
    buf_json_pair(b, "run_id", text_or_null(old->run_id));
    buf_json_pair(b, "how", before->how);
    buf_puts(b, "}");
}

int report_taken(const struct lock_target *target, const struct now *now, const struct lock_record *record,
                 const struct judgement *before, bool recovered, bool forced, struct tsk_error *err)
{
    char storage[8192];
    struct buf data;
    buf_init_fixed(&data, storage, sizeof storage);
    if (recovered || forced) {
        put_record(&data, target, record);
        put_old_holder(&data, before);
        buf_puts(&data, "}");
        if (report_append(target, now, forced ? "lock.forced" : "LOCK_STALE_RECOVERED", record, &data, err) < 0)
            return -1;
        buf_reset(&data);
    }
    put_record(&data, target, record);
    buf_puts(&data, "}");
    return report_append(target, now, "lock.acquired", record, &data, err);
}

static void report_fact(const struct lock_target *target, const struct now *now, const char *type,
                        const struct lock_record *record)
{
    char storage[4096];
    struct buf data;
    buf_init_fixed(&data, storage, sizeof storage);
    put_record(&data, target, record);
    buf_puts(&data, "}");
    append_fact(target, now, type, record, &data);
}

void report_released(const struct lock_target *target, const struct now *now, const struct lock_record *record)
{
    report_fact(target, now, "lock.released", record);
}

void report_renewed(const struct lock_target *target, const struct now *now, const struct lock_record *record)
{
    char storage[4096];
    struct buf data;
    if (record->hold == HOLD_LEASE)
        return;
    buf_init_fixed(&data, storage, sizeof storage);
    put_record(&data, target, record);
    buf_json_pair(&data, "expires_at", TIME_EXACT(record->expires_ms));
    buf_puts(&data, "}");
    append_fact(target, now, "lock.renewed", record, &data);
}

/* The process that called: the shell or program above this command, as for a lock's holder. */
static void put_caller(struct buf *b, const struct lock_proof *proof)
{
    struct proc_id process;
    char name[64] = "";
    buf_json_key(b, "released_by");
    buf_puts(b, "{");
    buf_json_pair(b, "instance", proof->instance);
    if (!proof->is_remote && proc_guess_holder(&process) == 0) {
        proc_name(process.pid, name, sizeof name);
        buf_json_pair_int(b, "pid", process.pid);
        buf_json_pair(b, "program", text_or_null(name));
    }
    buf_json_pair(b, "session_id", proof->session_id);
    buf_puts(b, "}");
}

void report_released_by(const struct lock_target *target, const struct now *now, const struct lock_record *record,
                        const struct lock_proof *proof)
{
    char storage[8192];
    struct buf data;
    buf_init_fixed(&data, storage, sizeof storage);
    put_record(&data, target, record);
    put_caller(&data, proof);
    bool is_other = proof->session_id && proof->session_id[0] && strcmp(proof->session_id, record->session_id) != 0;
    if (is_other) {
        buf_json_key(&data, "session_mismatch");
        buf_puts(&data, "{");
        buf_json_pair(&data, "expected", proof->session_id);
        buf_json_pair(&data, "actual", text_or_null(record->session_id));
        buf_puts(&data, "}");
    }
    buf_puts(&data, "}");
    append_fact(target, now, "lock.released", record, &data);
}

void report_recovered(const struct lock_target *target, const struct now *now, const struct judgement *before)
{
    char storage[8192];
    struct buf data;
    struct tsk_error problem;
    buf_init_fixed(&data, storage, sizeof storage);
    put_record(&data, target, &before->record);
    put_old_holder(&data, before);
    buf_puts(&data, "}");
    if (report_append(target, now, "LOCK_STALE_RECOVERED", &before->record, &data, &problem) < 0)
        log_problem(&problem);
}

int report_lost(const struct lock_target *target, const struct now *now, const struct lock_record *mine,
                const struct judgement *found, struct tsk_error *err)
{
    report_fact(target, now, "lock.lost", mine);
    error_set(err, TSK_LOCK_LOST, found->verdict == VERDICT_FREE ? "lost_and_free" : NULL, NULL);
    report_add_holder(target, now, found, err);
    return -1;
}

/* ---- refusals ---- */

static void add_json(struct tsk_error *err, const char *key, json_t *value)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_write(&b, value, false);
    error_add_json(err, key, buf_str(&b));
    json_decref(value);
}

void report_add_command(const struct lock_target *target, const char *verb, const char *options, struct tsk_error *err)
{
    char storage[PATH_MAX * 2];
    struct buf b;
    buf_init_fixed(&b, storage, sizeof storage);
    lock_target_command(target, verb, &b);
    buf_puts(&b, options);
    if (!b.failed)
        error_add_next(err, "%s", buf_str(&b));
}

static void add_sprint_commands(const struct lock_target *target, const struct judgement *found, struct tsk_error *err)
{
    if (judgement_is_left_behind(found)) {
        report_add_command(target, "acquire", " --yes", err);
        report_add_command(target, "release", "", err);
        return;
    }
    if (found->verdict != VERDICT_ZOMBIE)
        report_add_command(target, "acquire", " --wait 30m", err);
    report_add_command(target, "check", "", err);
    if (!found->st.st_ino) /* another tool is writing: there is no holder yet that could be forced */
        return;
    /* One that is only old is a zombie, which force would take without a question. */
    report_add_command(target, "acquire", found->verdict == VERDICT_ZOMBIE ? "" : " --force", err);
}

static void add_commands(const struct lock_target *target, const struct judgement *found, struct tsk_error *err)
{
    if (target->kind->is_sprint) {
        add_sprint_commands(target, found, err);
        return;
    }
    report_add_command(target, "acquire", " --wait 30m", err);
    report_add_command(target, "check", "", err);
    report_add_command(target, "acquire", " --force", err);
}

void report_add_facts(const struct lock_target *target, const struct now *now, const struct judgement *found,
                      struct tsk_error *err)
{
    char words[LOCK_WORDS_MAX], path[PATH_MAX];
    const struct lock_record *record = &found->record;
    lock_target_words(target, words, sizeof words);
    lock_target_path(target, path);
    error_add(err, "lock", words);
    error_add(err, "kind", target->kind->name);
    error_add(err, "id", text_or_null(target->id));
    error_add(err, "path", path);
    if (found->verdict == VERDICT_FREE)
        return;
    if (target->kind->kind == TSK_LOCK_REQUEST)
        error_add(err, "request_id", target->id);
    else
        error_add(err, "request_id", text_or_null(record->request_id));
    error_add(err, "run_id", text_or_null(record->run_id));
    if (target->kind->kind == TSK_LOCK_REQUEST && record->run_id[0]) {
        char url[LOCK_WORDS_MAX];
        snprintf(url, sizeof url, "/api/runs/%s", record->run_id);
        error_add(err, "latest_run", url);
    }
    json_t *holder = report_holder(target->ws, record, found->alive, found->how);
    struct buf by CLEANUP(buf_clear) = BUF_INIT;
    who_put_label(&by, json_object_get(holder, "who"));
    error_add(err, "what", target->kind->kind == TSK_LOCK_NAME ? target->id : words);
    error_add(err, "by", by.len ? buf_str(&by) : NULL);
    add_json(err, "holder", holder);
    json_t *lock = report_lock(target, now, found);
    static const char *const copied[] = {"state",         "fence",  "created_at", "expires_at",
                                         "expires_in_ms", "age_ms", "expired"};
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        add_json(err, copied[i], json_incref(json_object_get(lock, copied[i])));
    json_decref(lock);
}

void report_add_holder(const struct lock_target *target, const struct now *now, const struct judgement *found,
                       struct tsk_error *err)
{
    report_add_facts(target, now, found, err);
    if (found->verdict != VERDICT_FREE)
        add_commands(target, found, err);
}

/* The sentence that names the holder; NULL: the code's own. The refusals of the other kinds have fixed words. */
static const char *held_text(const struct lock_target *target, const struct judgement *found)
{
    if (target->kind->held_code != TSK_LOCK_HELD || !found->is_parsed)
        return NULL;
    bool is_client = found->record.hold == HOLD_LEASE;
    if (!found->record.who.label[0])
        return is_client ? "lock_held_by_client" : NULL;
    return is_client                    ? "lock_held_client"
           : found->alive == LIVE_ALIVE ? "lock_held_alive"
           : found->alive == LIVE_DEAD  ? "lock_held_dead"
                                        : "lock_held_unknown";
}

int report_refusal(const struct lock_target *target, const struct now *now, const struct judgement *found,
                   bool is_place_kept, struct tsk_error *err)
{
    bool is_zombie = found->verdict == VERDICT_ZOMBIE;
    error_set(err, is_zombie ? TSK_ZOMBIE_DETECTED : target->kind->held_code,
              is_place_kept ? (who_current()->is_agent ? "lock_place_kept_agent" : "lock_place_kept")
              : is_zombie   ? NULL
                            : held_text(target, found),
              NULL);
    report_add_holder(target, now, found, err);
    if (is_place_kept)
        error_add_int(err, "place_kept_ms", LINE_KEEP_MS);
    return -1;
}
