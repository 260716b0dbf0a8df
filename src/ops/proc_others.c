#include "ops/proc_others.h"
#include "base/word.h"
#include "own/who.h"
#include "proc/actor.h"

#include <stdio.h>
#include <string.h>

/* What was found. */
struct others {
    const char *first;   /* the first such process; NULL: none */
    json_t *ids;         /* all of them; owned */
    json_t *started_by;  /* of the first; owned */
    struct buf by, text; /* its starter, and a sentence for each */
};

static void others_clear(struct others *others)
{
    json_decref(others->ids);
    json_decref(others->started_by);
    buf_clear(&others->by);
    buf_clear(&others->text);
}

/* Another living agent than the caller; doubt counts as alive. */
static bool starter_is_other(struct proc_registry *reg, const struct who *starter)
{
    struct instance_state state;
    struct tsk_error ignored;
    struct now now = clock_now();
    const struct who *caller = who_current();
    bool is_callers = caller->instance[0] && instance_is_same_id(starter->instance, caller->instance);
    if (!starter->is_agent || !starter->instance[0] || (is_callers && who_current_is(starter)))
        return false;
    return instance_judge(&reg->db, starter->instance, &now, &state, &ignored) < 0 || state.alive != LIVE_DEAD;
}

static void add_other(const struct op_call *call, const char *id, const struct who *starter, struct others *others)
{
    struct buf by CLEANUP(buf_clear) = BUF_INIT;
    json_t *who CLEANUP_JSON = who_json(starter);
    who_put_label(&by, who);
    if (others->text.len)
        buf_puts(&others->text, "\n");
    text_put(&others->text, call->lang, starter->pid ? "process_others" : "process_others_client", "id", id, "by",
             buf_str(&by), "pid", DIGITS(starter->pid), NULL);
    json_array_append_new(others->ids, json_string(id));
    if (others->first)
        return;
    others->first = id;
    others->started_by = json_incref(who);
    buf_puts(&others->by, buf_str(&by));
}

static void find_others(const struct op_call *call, struct proc_registry *reg, const json_t *ids, bool only_running,
                        struct others *ret)
{
    *ret = (struct others){.ids = json_array(), .by = BUF_INIT, .text = BUF_INIT};
    json_each (ids, i, id) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        struct tsk_error later; /* the operation itself says what is wrong with it */
        struct who starter;
        if (proc_load(reg, json_string_value(id), &p, &later) < 0)
            continue;
        bool runs = p.view.state == PROC_RUNNING || *p.view.phase;
        if ((runs || !only_running) && proc_starter(p.dir, p.view.n, &starter) && starter_is_other(reg, &starter))
            add_other(call, json_string_value(id), &starter, ret);
    }
}

static int refuse(const struct op_call *call, const struct others *others, struct tsk_error *err)
{
    struct buf who CLEANUP(buf_clear) = BUF_INIT;
    json_write(&who, others->started_by, false);
    error_set(err, TSK_NEEDS_CONFIRMATION, "process_guard_refused", "id", others->first, "by", buf_str(&others->by),
              "verb", call->op->verb, NULL);
    error_add_json(err, "started_by", buf_str(&who));
    error_add_next(err, "tasuki proc status %s", others->first);
    return error_add_next(err, "tasuki agents");
}

static bool is_confirmed(struct op_call *call, const struct others *others)
{
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    if (json_get_bool(call->args, "yes", false))
        return true;
    if (!call->confirm)
        return false;
    buf_printf(&question, "%s\n", buf_str(&others->text));
    text_put(&question, call->lang, "process_guard_question", "verb", call->op->verb, NULL);
    call->asks_about_dead = call->has_force = false;
    return call->confirm(call, buf_str(&question));
}

int proc_others_ask(struct op_call *call, struct proc_registry *reg, const json_t *ids, bool only_running,
                    json_t **ret_warning, struct tsk_error *err)
{
    struct others others CLEANUP(others_clear);
    enum proc_guarding guard;
    find_others(call, reg, ids, only_running, &others);
    if (!others.first)
        return 0;
    if (proc_guarding_read(call->ws, &guard, err) < 0)
        return -1;
    if (guard == GUARD_ASK && who_current()->is_agent && !is_confirmed(call, &others))
        return refuse(call, &others, err);
    if (guard != GUARD_OFF)
        *ret_warning = json_string(buf_str(&others.text));
    return 0;
}

json_t *proc_others_spare(const struct op_call *call, struct proc_registry *reg, const json_t *ids,
                          json_t **ret_warning)
{
    struct others others CLEANUP(others_clear);
    struct tsk_error ignored;
    enum proc_guarding guard = GUARD_ASK;
    find_others(call, reg, ids, true, &others);
    if (others.first && proc_guarding_read(call->ws, &guard, &ignored) < 0)
        guard = GUARD_ASK;
    *ret_warning = others.first && guard != GUARD_OFF ? json_string(buf_str(&others.text)) : NULL;
    return guard == GUARD_ASK && who_current()->is_agent ? json_incref(others.ids) : json_array();
}

void proc_others_warn(json_t *answer, const json_t *warning)
{
    if (warning)
        json_object_set(answer, "warning", (json_t *)warning);
}
