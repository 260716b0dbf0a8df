/* memory.c - the operations of memory.h: the plan, a queue per session, claims in slots. */
#include "base/ident.h"
#include "base/word.h"
#include "graph/memory_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- claims --------------------------------------------------------------------------------------------- */

static int memory_stop_run(struct memory *m, const struct tsk_error *reason)
{
    if (reason)
        memory_failure_keep(m, reason, true);
    m->is_stopped = true;
    plan_stop(&m->plan, GRAPH_ROOT);
    return 0;
}

/* A task that is ready and may not run: it ends here. */
static void slot_drop(struct memory *m, uint32_t index, enum outcome outcome)
{
    uint32_t node = slot_at(m, index)->node;
    memory_slot_free(m, index);
    memory_task_dropped(m, node, outcome);
    plan_end(&m->plan, node, outcome, &m->out);
    memory_settle(m);
}

/* The task that used up the steps: the one that ran most often. */
static uint32_t busiest_branch(const struct memory *m)
{
    uint32_t found = 0, most = 0;
    size_t count = m->plan.graph->nodes.count, all = count + atomic_load(&m->plan.dynamic_count);
    for (size_t i = 0; i < all; i++) {
        uint32_t node = i < count ? (uint32_t)i : PLAN_DYNAMIC | (uint32_t)(i - count);
        bool is_task = i >= count || !graph_node(m->plan.graph, node)->is_group;
        if (is_task && plan_cycles(&m->plan, node) > most) {
            most = plan_cycles(&m->plan, node);
            found = node;
        }
    }
    return found;
}

/* `next` would have been the step beyond. */
static void steps_exceeded(struct memory *m, uint32_t next)
{
    struct tsk_error err;
    char max[24], buf[GRAPH_NAME_MAX];
    uint32_t node = busiest_branch(m), cycles = plan_cycles(&m->plan, node) - (node == next);
    snprintf(max, sizeof max, "%llu", (unsigned long long)m->limits.max_steps);
    error_set(&err, TSK_MAX_STEPS_EXCEEDED, cycles > 1 ? "max_steps_reached_by" : "max_steps_reached", "max", max,
              "task", plan_name(&m->plan, node, buf), "count", DIGITS(cycles), NULL);
    memory_stop_run(m, &err);
}

static bool is_within_limits(struct memory *m, struct slot *slot, enum outcome *ret)
{
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    if (slot->is_counted)
        return true;
    if (plan_is_over_cycles(&m->plan, slot->node)) {
        error_set(&err, TSK_CYCLE_LIMIT_EXCEEDED, "max_cycles_reached", "task", plan_name(&m->plan, slot->node, buf),
                  "max", DIGITS(plan_cycles(&m->plan, slot->node) - 1), NULL);
        memory_failure_keep(m, &err, false);
        *ret = OUTCOME_FAILED;
        return false;
    }
    if (m->limits.max_steps && m->steps >= m->limits.max_steps) {
        steps_exceeded(m, slot->node);
        *ret = OUTCOME_STOPPED;
        return false;
    }
    slot->is_counted = true;
    m->steps++;
    return true;
}

static void claim_fill(struct memory *m, uint32_t index, struct claim *ret)
{
    static _Thread_local char buf[GRAPH_NAME_MAX];
    const struct slot *slot = slot_at(m, index);
    *ret = (struct claim){.slot = index,
                          .fence = slot->fence,
                          .node = slot->node,
                          .attempt = slot->attempt,
                          .cycle = plan_cycles(&m->plan, slot->node),
                          .task = plan_name(&m->plan, slot->node, buf),
                          .session = memory_session_id(m, plan_scope_of(&m->plan, slot->node)),
                          .is_asked = plan_is_asked(&m->plan, slot->node)};
    if (slot->node & PLAN_DYNAMIC)
        ret->payload = *REGION_AT(&m->payloads, json_t *, slot->node & ~PLAN_DYNAMIC);
}

static void slot_take(struct memory *m, uint32_t index, struct claim *ret)
{
    struct slot *slot = slot_at(m, index);
    slot->state = SLOT_CLAIMED;
    slot->fence = ++m->fence;
    m->claimed++;
    claim_fill(m, index, ret);
}

bool memory_claim(struct memory *m, int64_t now_ms, struct claim *ret)
{
    uint32_t index;
    memory_wake(m, now_ms);
    if (!memory_queue_take(m, &index))
        return false;
    slot_take(m, index, ret);
    return true;
}

/* B1. */
static struct slot *slot_of_claim(struct memory *m, const struct claim *claim)
{
    struct slot *slot = claim->slot < m->slots.count ? slot_at(m, claim->slot) : NULL;
    return slot && slot->state == SLOT_CLAIMED && slot->fence == claim->fence ? slot : NULL;
}

bool memory_execute(struct memory *m, const struct claim *claim)
{
    enum outcome outcome = OUTCOME_STOPPED;
    struct slot *slot = slot_of_claim(m, claim);
    if (!slot || is_within_limits(m, slot, &outcome))
        return slot;
    m->claimed--;
    slot_drop(m, claim->slot, outcome);
    return false;
}

void memory_pass(struct memory *m, const struct claim *claim)
{
    plan_pass(&m->plan, claim->node);
}

bool memory_give_back(struct memory *m, const struct claim *claim)
{
    if (!slot_of_claim(m, claim))
        return false;
    m->claimed--;
    memory_slot_ready(m, claim->slot);
    return true;
}

/* ---- completing (B2) ------------------------------------------------------------------------------------ */

static int do_spawn(struct memory *m, uint32_t by, json_t *request, struct tsk_error *err)
{
    uint32_t node;
    const char *name = json_get_string(request, "task", NULL);
    json_t **payload = region_add(&m->payloads, 1);
    if (!payload)
        return error_no_memory(err, "keep", "run");
    *payload = json_incref(json_object_get(request, "payload"));
    if (plan_spawn(&m->plan, by, name, NULL, NULL, &node, &m->out, err) < 0)
        return -1;
    return 0;
}

static int do_next(struct memory *m, uint32_t by, const char *name, struct tsk_error *err)
{
    uint32_t target = plan_find(&m->plan, name);
    if (target == NO_NODE)
        return error_set(err, TSK_INVALID_INPUT, "next_unknown", "target", name, NULL);
    bool is_lent = plan_is_lent(&m->plan, by, target);
    target = is_lent && plan_copy_find(&m->plan, by, target) != NO_NODE ? plan_copy_find(&m->plan, by, target) : target;
    if (!is_lent || (target & PLAN_DYNAMIC))
        return plan_activate(&m->plan, by, target, &m->out, err);
    json_t **payload = region_add(&m->payloads, 1);
    if (!payload)
        return error_no_memory(err, "keep", "run");
    *payload = NULL;
    return plan_copy_spawn(&m->plan, by, target, &m->out, err);
}

static void claim_cancelled(struct memory *m, uint32_t by, const char *message)
{
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    error_set(&err, TSK_RUN_FAILED, "run_cancelled_by_task", "task", plan_name(&m->plan, by, buf), "message", message,
              NULL);
    memory_stop_run(m, &err);
}

static int do_request(struct memory *m, uint32_t by, json_t *request, bool *ret_is_goto, struct tsk_error *err)
{
    const char *what = json_get_string(request, "do", "");
    char buf[GRAPH_NAME_MAX];
    if (strcmp(what, "again") == 0) {
        *ret_is_goto = true;
        return plan_activate(&m->plan, by, by, &m->out, err);
    }
    if (strcmp(what, "next") == 0 || strcmp(what, "goto") == 0) {
        *ret_is_goto = *ret_is_goto || what[0] == 'g';
        return do_next(m, by, json_get_string(request, "task", plan_name(&m->plan, by, buf)), err);
    }
    if (strcmp(what, "spawn") == 0)
        return do_spawn(m, by, request, err);
    if (strcmp(what, "finish") == 0) {
        m->has_finished = true;
        return memory_stop_run(m, NULL);
    }
    if (strcmp(what, "cancel") == 0)
        claim_cancelled(m, by, json_get_string(request, "message", ""));
    return 0;
}

static int check_next(struct memory *m, uint32_t by, const char *name, struct tsk_error *err)
{
    char a[GRAPH_NAME_MAX];
    uint32_t target = plan_find(&m->plan, name);
    if (target == NO_NODE)
        return error_set(err, TSK_INVALID_INPUT, "next_unknown", "target", name, NULL);
    if (plan_scope_of(&m->plan, target) != plan_scope_of(&m->plan, by) && !plan_is_lent(&m->plan, by, target))
        return error_set(err, TSK_INVALID_INPUT, "next_other_branch", "task", plan_name(&m->plan, by, a), "target",
                         name, NULL);
    return 0;
}

/* A spawned task that has ended leaves its name to the next one: a loop may spawn in every iteration. `names`: those that the
 * requests before have taken. */
static int check_spawn(struct memory *m, json_t *names, const char *name, struct tsk_error *err)
{
    if (!id_is_valid(name))
        return error_set(err, TSK_INVALID_INPUT, "id_pattern", "param", "task", "value", name, NULL);
    uint32_t found = plan_find(&m->plan, name);
    bool is_there = found != NO_NODE && (!(found & PLAN_DYNAMIC) || memory_slot_of(m, found) != NO_NODE);
    if (is_there || json_object_get(names, name))
        return error_set(err, TSK_INVALID_INPUT, "spawn_name_taken", "name", name, NULL);
    return json_object_set_new(names, name, json_true()) < 0 ? error_no_memory(err, "keep", "run") : 0;
}

/* What a request names is looked at before anything is done: all of them or none. */
static int check_requests(struct memory *m, uint32_t by, const json_t *requests, struct tsk_error *err)
{
    json_t *names CLEANUP_JSON = requests ? json_object() : NULL;
    json_each (requests, i, request) {
        const char *what = json_get_string(request, "do", ""), *name = json_get_string(request, "task", NULL);
        bool is_next = strcmp(what, "next") == 0 || strcmp(what, "goto") == 0, is_spawn = strcmp(what, "spawn") == 0;
        if (is_next && !name)
            return error_set(err, TSK_INVALID_INPUT, "request_lacks", "request", what, "key", "task", NULL);
        if (is_next && check_next(m, by, name, err) < 0)
            return -1;
        if (is_spawn && name && check_spawn(m, names, name, err) < 0)
            return -1;
    }
    return 0;
}

static int claim_succeed(struct memory *m, uint32_t node, struct completion *completion, struct tsk_error *err)
{
    bool is_goto = false;
    struct session *session = session_of(&m->plan, plan_scope_of(&m->plan, node));
    if (check_requests(m, node, completion->requests, err) < 0 ||
        channel_apply(&session->channel, &completion->effects, err) < 0)
        return -1;
    json_each (completion->requests, i, request)
        if (do_request(m, node, request, &is_goto, err) < 0)
            return -1;
    if (is_goto)
        plan_end_goto(&m->plan, node, &m->out);
    else
        plan_end(&m->plan, node, OUTCOME_OK, &m->out);
    return 0;
}

static void claim_failed(struct memory *m, uint32_t node, const struct tsk_error *reason)
{
    struct tsk_error err;
    char buf[GRAPH_NAME_MAX];
    if (reason)
        err = *reason;
    else
        error_set(&err, TSK_TASK_FAILED, "task_failed", "task", plan_name(&m->plan, node, buf), "session_id",
                  memory_session_id(m, plan_scope_of(&m->plan, node)), NULL);
    memory_failure_keep(m, &err, false);
    plan_end(&m->plan, node, OUTCOME_FAILED, &m->out);
}

bool memory_complete(struct memory *m, const struct claim *claim, struct completion *completion)
{
    struct slot *slot = slot_of_claim(m, claim);
    if (!slot)
        return false;
    m->claimed--;
    uint32_t node = slot->node;
    bool may_retry = !plan_is_stopped(&m->plan, plan_scope_of(&m->plan, node));
    if (completion->outcome == OUTCOME_FAILED && completion->retry_at_ms && may_retry) {
        slot->attempt++;
        memory_slot_later(m, claim->slot, completion->retry_at_ms);
        return true;
    }
    memory_slot_free(m, claim->slot);
    if (completion->outcome == OUTCOME_OK) {
        struct tsk_error problem;
        if (claim_succeed(m, node, completion, &problem) < 0) {
            completion->outcome = OUTCOME_FAILED;
            if (completion->reason)
                *completion->reason = problem;
            claim_failed(m, node, &problem);
        }
    } else if (completion->outcome == OUTCOME_FAILED) {
        claim_failed(m, node, completion->reason);
    } else {
        plan_end(&m->plan, node, completion->outcome, &m->out);
    }
    memory_settle(m);
    return true;
}

/* ---- the rest ------------------------------------------------------------------------------------------- */

bool memory_park(struct memory *m, const struct claim *claim)
{
    struct slot *slot = slot_of_claim(m, claim);
    if (!slot)
        return false;
    slot->state = SLOT_PARKED;
    m->claimed--;
    m->parked++;
    return true;
}

/* Its slot, if it is in one of the two states. */
static uint32_t slot_find(const struct memory *m, uint32_t node, enum slot_state a, enum slot_state b)
{
    uint32_t index = memory_slot_of(m, node);
    bool is_found = index != NO_NODE && (slot_at(m, index)->state == a || slot_at(m, index)->state == b);
    return is_found ? index : NO_NODE;
}

bool memory_unpark(struct memory *m, uint32_t node)
{
    uint32_t index = slot_find(m, node, SLOT_PARKED, SLOT_PARKED);
    if (index == NO_NODE)
        return false;
    m->parked--;
    memory_slot_ready(m, index);
    return true;
}

json_t *memory_values(struct memory *m, const struct claim *claim, uint64_t *ret_version)
{
    struct channel *channel = &session_of(&m->plan, plan_scope_of(&m->plan, claim->node))->channel;
    *ret_version = channel->version;
    return channel_values(channel);
}

void memory_stop(struct memory *m, const struct tsk_error *reason)
{
    memory_stop_run(m, reason);
    memory_settle(m);
}

void memory_status(struct memory *m, struct memory_status *ret)
{
    bool is_waiting = m->parked && !m->ready && !m->claimed && !m->later;
    *ret = (struct memory_status){.state = m->has_ended ? RUN_ENDED
                                           : is_waiting ? RUN_WAITING
                                                        : RUN_ACTIVE,
                                  .ready = m->ready,
                                  .claimed = m->claimed,
                                  .later = m->later,
                                  .parked = m->parked,
                                  .next_due_ms = m->later ? m->next_due_ms : INT64_MAX,
                                  .steps = m->steps,
                                  .has_finished = m->has_finished,
                                  .failure = m->failure};
    bool has_failure = atomic_load(&m->plan.scopes[GRAPH_ROOT].failures) > 0;
    /* The task that cancels succeeds itself, and its group may tolerate what was stopped: the run has failed all the same. */
    bool was_cancelled = m->failure && m->failure->code == TSK_RUN_FAILED;
    bool was_cut = m->failure && m->failure->code == TSK_MAX_STEPS_EXCEEDED;
    ret->has_failed = was_cancelled || (!m->has_finished && (has_failure || was_cut));
}

json_t *memory_result(struct memory *m)
{
    return channel_values(&m->session.channel);
}

void memory_free(struct memory *m)
{
    for (uint32_t s = 1; m->plan.graph && s < m->plan.graph->scopes.count; s++)
        if (session_of(&m->plan, s)) {
            session_clear(session_of(&m->plan, s));
            free(session_of(&m->plan, s));
        }
    for (size_t i = 0; i < m->payloads.count; i++)
        json_decref(*REGION_AT(&m->payloads, json_t *, i));
    plan_clear(&m->plan);
    if (m->session.id)
        session_clear(&m->session);
    region_clear(&m->slots);
    region_clear(&m->places);
    region_clear(&m->payloads);
    plan_out_clear(&m->out);
    free(m->queues);
    free(m->failure);
    free(m);
}

int memory_new(const struct graph *graph, const char *session_id_given, const json_t *values,
               const struct memory_limits *limits, const struct memory_watcher *watcher, struct memory **ret,
               struct tsk_error *err)
{
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(err, "keep", "run");
    m->slots = (struct region)REGION_OF(struct slot);
    m->places = (struct region)REGION_OF(uint32_t);
    m->payloads = (struct region)REGION_OF(json_t *);
    m->queues = calloc(graph->scopes.count, sizeof *m->queues);
    m->limits = *limits;
    m->fence = limits->first_fence;
    if (watcher)
        m->watcher = *watcher;
    if (!m->queues || session_init(&m->session, session_id_given, NULL, false, err) < 0 ||
        plan_init(&m->plan, graph, &memory_hooks, m, err) < 0) {
        if (!m->queues)
            error_no_memory(err, "keep", "run");
        memory_free(m);
        return -1;
    }
    if (values)
        json_object_update(m->session.channel.values, (json_t *)values);
    m->plan.max_cycles = limits->max_cycles;
    m->plan.scopes[GRAPH_ROOT].session = &m->session;
    plan_heads(&m->plan, &m->out);
    m->has_ended = graph->nodes.count == 0;
    memory_settle(m);
    *ret = m;
    return 0;
}

bool memory_claim_node(struct memory *m, uint32_t node, struct claim *ret)
{
    uint32_t index = slot_find(m, node, SLOT_READY, SLOT_LATER);
    if (index == NO_NODE)
        return false;
    if (slot_at(m, index)->state == SLOT_READY)
        memory_queue_remove(m, index);
    else
        m->later--;
    slot_take(m, index, ret);
    return true;
}

void memory_set_attempt(struct memory *m, uint32_t node, unsigned attempt)
{
    uint32_t index = slot_find(m, node, SLOT_READY, SLOT_LATER);
    if (index != NO_NODE)
        slot_at(m, index)->attempt = attempt;
}

struct plan *memory_plan(struct memory *m)
{
    return &m->plan;
}
