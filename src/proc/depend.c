#include "proc/depend.h"
#include "proc/files.h"

#include "base/fs.h"
#include "own/waiting.h"
#include "proc/condition.h"
#include "proc/registry.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#define PATH_TEXT_MAX 1024

/* ---- the graph ----------------------------------------------------------------------------------------------------- */

struct edge {
    size_t to;
    enum proc_condition condition;
};

/* Whose fault it was that a process was not started. */
struct failure {
    struct tsk_error error;
    struct reason reason;
    char other[129], path[PATH_TEXT_MAX]; /* "web -> api -> db" */
    enum proc_condition condition;
};

/* A process that was asked for, or that one of those needs. */
struct node {
    char id[129];
    bool is_wanted;                             /* to be started by us */
    bool is_missing, is_running, has_completed; /* as it was found */
    bool is_on_path;                            /* while the graph is being walked */
    bool is_awaited;                            /* a condition of another one waits for it */
    enum { NODE_WAITING, NODE_DONE, NODE_FAILED } state;
    struct edge *edges;
    size_t edge_count;
    struct failure *failure; /* also of a NODE_DONE that was running already */
    struct proc *p;          /* while somebody waits for it */
    int64_t give_up_ms;
};

struct graph {
    struct proc_registry *reg;
    struct node *nodes;
    size_t count, room;
    json_t *index;          /* id -> place */
    struct buf awaited;     /* what the caller knows */
    struct waiting waiting; /* what others see */
    /* proc_depend_check: only the specs count, this one instead of the registered one */
    const char *changed_id;
    const json_t *changed_spec;
};

static void node_unwatch(struct node *node)
{
    if (node->p)
        proc_clear(node->p);
    free(node->p);
    node->p = NULL;
}

static void graph_clear(struct graph *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        node_unwatch(&graph->nodes[i]);
        free(graph->nodes[i].edges);
        free(graph->nodes[i].failure);
    }
    free(graph->nodes);
    waiting_end(&graph->waiting);
    buf_clear(&graph->awaited);
    json_decref(graph->index);
}

/* The place of the process in the graph, where it gets one if it has none. */
static size_t graph_place(struct graph *graph, const char *id)
{
    const json_t *known = json_object_get(graph->index, id);
    size_t place = known ? (size_t)json_integer_value(known) : graph->count;
    BUG(place > graph->count);
    if (place < graph->count)
        return place;
    LIST_GROW(graph->nodes, graph->count, graph->room, 16);
    graph->nodes[graph->count] = (struct node){.state = NODE_WAITING};
    snprintf(graph->nodes[graph->count].id, sizeof graph->nodes->id, "%s", id);
    json_object_set_new(graph->index, id, json_integer((json_int_t)graph->count));
    return graph->count++;
}

/* The way from what was asked for to the node that is being walked. */
struct step {
    size_t node;
    const struct step *up;
};

/* D3 */
static int cycle_found(const struct graph *graph, const struct step *last, size_t first, struct tsk_error *err)
{
    char path[PATH_TEXT_MAX], longer[PATH_TEXT_MAX];
    snprintf(path, sizeof path, "%s", graph->nodes[first].id);
    for (const struct step *step = last; step; step = step->node == first ? NULL : step->up) {
        if (snprintf(longer, sizeof longer, "%s -> %.900s", graph->nodes[step->node].id, path) >= (int)sizeof longer)
            break;
        memcpy(path, longer, sizeof path);
    }
    return error_set(err, TSK_INVALID_INPUT, "depend_cycle", "param", "depends_on", "path", path, NULL);
}

/* What the node depends on, and how it is; *ret is owned, NULL when there is no such process. */
static int node_look(struct graph *graph, size_t i, json_t **ret, struct tsk_error *err)
{
    struct node *node = &graph->nodes[i];
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (graph->changed_id && strcmp(graph->changed_id, node->id) == 0) {
        *ret = json_incref(json_object_get(graph->changed_spec, "depends_on"));
        return 0;
    }
    int result =
        graph->changed_id ? proc_find(graph->reg, node->id, &p, err) : proc_load(graph->reg, node->id, &p, err);
    if (result < 0) {
        node->is_missing = err->code == TSK_PROCESS_NOT_FOUND;
        return node->is_missing ? 0 : -1;
    }
    node->is_running = p.view.state == PROC_RUNNING;
    node->has_completed = proc_ended_well(&p.view) && !proc_is_coming(&p.view);
    *ret = json_incref(json_object_get(p.spec, "depends_on"));
    return 0;
}

static void node_connect(struct node *node, size_t to, enum proc_condition condition)
{
    struct edge *grown = realloc(node->edges, (node->edge_count + 1) * sizeof *grown);
    BUG(!grown);
    node->edges = grown;
    node->edges[node->edge_count++] = (struct edge){.to = to, .condition = condition};
}

static int graph_need(struct graph *graph, size_t i, enum proc_condition condition, const struct step *up,
                      struct tsk_error *err);

/* Connects a node that is to be started with what it depends on, and continues from there. */
static int graph_expand(struct graph *graph, size_t i, const json_t *depends_on, const struct step *up,
                        struct tsk_error *err)
{
    struct step step = {.node = i, .up = up};
    graph->nodes[i].is_wanted = graph->nodes[i].is_on_path = true;
    json_each_pair (depends_on, id, name) {
        enum proc_condition condition = PROC_DEP_STARTED;
        proc_condition_parse(json_string_value(name), &condition);
        size_t to = graph_place(graph, id);
        if (graph->nodes[to].is_on_path)
            return cycle_found(graph, &step, to, err);
        node_connect(&graph->nodes[i], to, condition);
        if (graph_need(graph, to, condition, &step, err) < 0)
            return -1;
    }
    graph->nodes[i].is_on_path = false;
    return 0;
}

/* Somebody depends on it: it is to be started too, unless it runs, or has done what is expected of it. */
static int graph_need(struct graph *graph, size_t i, enum proc_condition condition, const struct step *up,
                      struct tsk_error *err)
{
    json_t *depends_on CLEANUP_JSON = NULL;
    if (graph->nodes[i].is_wanted)
        return 0;
    if (node_look(graph, i, &depends_on, err) < 0)
        return -1;
    const struct node *node = &graph->nodes[i];
    if (node->is_missing || node->is_running || (condition == PROC_DEP_COMPLETED && node->has_completed))
        return 0;
    return graph_expand(graph, i, depends_on, up, err);
}

/* Most processes depend on nothing: those are not looked at before they are started. */
static int graph_ask(struct graph *graph, const char *id, struct tsk_error *err)
{
    json_t *depends_on CLEANUP_JSON = NULL;
    size_t i = graph_place(graph, id);
    if (graph->nodes[i].is_wanted)
        return 0;
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    bool is_known = proc_find(graph->reg, id, &p, err) == 0;
    if (!is_known && err->code != TSK_PROCESS_NOT_FOUND)
        return -1;
    graph->nodes[i].is_missing = !is_known;
    bool is_alone = !is_known || json_object_size(json_object_get(p.spec, "depends_on")) == 0;
    if (!is_alone && node_look(graph, i, &depends_on, err) < 0)
        return -1;
    /* A running one is started, too, so that the refusal says so; nothing is started for its sake. */
    return graph_expand(graph, i, graph->nodes[i].is_running ? NULL : depends_on, NULL, err);
}

int proc_depend_check(struct proc_registry *reg, const char *id, const json_t *spec, struct tsk_error *err)
{
    struct graph graph CLEANUP(graph_clear) = {.reg = reg,
                                               .index = json_object(),
                                               .awaited = BUF_INIT,
                                               .waiting = WAITING_NONE,
                                               .changed_id = id,
                                               .changed_spec = spec};
    size_t i = graph_place(&graph, id);
    return graph_need(&graph, i, PROC_DEP_STARTED, NULL, err);
}

/* ---- stopping in order ---------------------------------------------------------------------------------------------- */

/* What each registered process depends on: id -> depends_on. Most depend on nothing, and are not read. */
static int read_needs(struct proc_registry *reg, json_t *ret, struct tsk_error *err)
{
    struct db_rows rows CLEANUP(db_rows_free);
    int more;
    if (db_query(&reg->db, &rows, err, "SELECT id, settings FROM process WHERE settings LIKE '%\"depends_on\"%'") < 0)
        return -1;
    while ((more = db_next(&rows, err)) == 1) {
        const char *settings = db_column_text(&rows, 1);
        json_t *spec CLEANUP_JSON = NULL;
        struct tsk_error ignored; /* a row that cannot be read is reported where it is stopped */
        if (json_parse(settings, strlen(settings), "state.db", &spec, &ignored) == 0)
            json_object_set(ret, db_column_text(&rows, 0), json_object_get(spec, "depends_on"));
    }
    return more;
}

/* What `id` needs is stopped after it. Whether a rank has changed. */
static bool raise_ranks(json_t *ranks, const char *id, json_t *depends_on)
{
    json_int_t least = json_get_int(ranks, id, 0) + 1;
    bool has_changed = false;
    json_each_key (depends_on, other)
        if (json_get_int(ranks, other, 0) < least) {
            json_object_set_new(ranks, other, json_integer(least));
            has_changed = true;
        }
    return has_changed;
}

int proc_depend_ranks(struct proc_registry *reg, const char *const *ids, size_t count, size_t *ret_ranks,
                      struct tsk_error *err)
{
    json_t *needs CLEANUP_JSON = json_object(), *ranks CLEANUP_JSON = json_object();
    bool has_changed = count > 1;
    if (count > 1 && read_needs(reg, needs, err) < 0)
        return -1;
    /* Without a cycle (D3) there are no more rounds than processes. */
    for (size_t round = 0; has_changed && round <= json_object_size(needs); round++) {
        has_changed = false;
        json_each_pair (needs, id, depends_on)
            has_changed = raise_ranks(ranks, id, depends_on) || has_changed;
    }
    for (size_t i = 0; i < count; i++)
        ret_ranks[i] = (size_t)json_get_int(ranks, ids[i], 0);
    return 0;
}

/* ---- starting in order --------------------------------------------------------------------------------------------- */

static const char *const failure_texts[WHY_COUNT] = {
    [WHY_ENDED] = "depend_ended",         [WHY_STOPPED] = "depend_stopped", [WHY_UNREADY] = "depend_never_ready",
    [WHY_NOT_READY] = "depend_timed_out", [WHY_MISSING] = "depend_missing", [WHY_START_FAILED] = "depend_not_started",
};

static struct failure *node_failure(struct node *node)
{
    if (!node->failure)
        node->failure = memory_zeroed(1, sizeof *node->failure);
    return node->failure;
}

static const char *reason_of(const struct tsk_error *err, char *words, size_t size)
{
    const char *reason = tsk_error_context(err, "reason");
    snprintf(words, size, "%s", reason ? reason : tsk_code_name(err->code));
    return words;
}

/* The reason of the edge's failure becomes the node's, with the chain to the process that caused it (D2). */
static void node_fail(struct graph *graph, struct node *node, const struct edge *edge, const struct reason *why)
{
    const struct node *to = &graph->nodes[edge->to];
    const struct failure *cause = to->state == NODE_FAILED ? to->failure : NULL;
    struct failure *f = node_failure(node);
    bool is_chain = cause && cause->other[0];
    f->reason = is_chain ? cause->reason : *why;
    f->condition = is_chain ? cause->condition : edge->condition;
    snprintf(f->other, sizeof f->other, "%s", is_chain ? cause->other : to->id);
    snprintf(f->path, sizeof f->path, "%s -> %.880s", node->id, is_chain ? cause->path : to->id);
    node->state = NODE_FAILED;
    error_set(&f->error, TSK_PROCESS_START_FAILED, failure_texts[f->reason.why], "id", node->id, "other", f->other,
              "condition", proc_condition_names[f->condition], "path", f->path, "why", f->reason.words, "span",
              f->reason.span, NULL);
    if (f->reason.why == WHY_MISSING)
        error_add_next(&f->error, "tasuki proc start %s --no-deps", node->id);
    else
        error_add_next(&f->error, "tasuki proc logs %s", f->other);
}

/* Reads the present state of a process that is waited for. -1: it cannot be found out. */
static int node_watch(struct graph *graph, struct node *node, struct tsk_error *err)
{
    node_unwatch(node);
    node->p = memory_zeroed(1, sizeof *node->p);
    if (proc_load(graph->reg, node->id, node->p, err) == 0) {
        node->give_up_ms = node->give_up_ms ? node->give_up_ms : condition_give_up(node->p);
        return 0;
    }
    free(node->p);
    node->p = NULL;
    node->is_missing = err->code == TSK_PROCESS_NOT_FOUND;
    return node->is_missing ? 0 : -1;
}

static enum verdict judge_edge(struct graph *graph, const struct edge *edge, struct reason *why)
{
    struct node *to = &graph->nodes[edge->to];
    char words[sizeof why->words];
    if (to->is_missing)
        return condition_fails(why, WHY_MISSING, "");
    if (to->state == NODE_FAILED)
        return condition_fails(why, WHY_START_FAILED, reason_of(&to->failure->error, words, sizeof words));
    if (to->is_wanted && to->state == NODE_WAITING)
        return PENDING;
    struct tsk_error problem;
    if (!to->p && node_watch(graph, to, &problem) < 0)
        return condition_fails(why, WHY_START_FAILED, reason_of(&problem, words, sizeof words));
    return to->p ? condition_judge(to->p, edge->condition, to->give_up_ms, why) : condition_fails(why, WHY_MISSING, "");
}

/* HOLDS when all of its conditions do. A failure is written down. */
static enum verdict judge_node(struct graph *graph, struct node *node)
{
    enum verdict all = HOLDS;
    for (size_t i = 0; i < node->edge_count; i++) {
        struct reason why = {.span = ""};
        enum verdict one = judge_edge(graph, &node->edges[i], &why);
        if (one == FAILS) {
            node_fail(graph, node, &node->edges[i], &why);
            return FAILS;
        }
        all = one == PENDING ? PENDING : all;
        graph->nodes[node->edges[i].to].is_awaited |= one == PENDING && graph->nodes[node->edges[i].to].p;
    }
    return all;
}

/* Which nodes can be started now. What one of them learns, another may depend on: until nothing changes any more. */
static size_t graph_judge(struct graph *graph, size_t *ret_ready, size_t *ret_waiting)
{
    bool has_changed = true;
    size_t ready = 0;
    while (has_changed) {
        has_changed = false;
        ready = *ret_waiting = 0;
        for (size_t i = 0; i < graph->count; i++)
            graph->nodes[i].is_awaited = false;
        for (size_t i = 0; i < graph->count; i++) {
            struct node *node = &graph->nodes[i];
            if (!node->is_wanted || node->state != NODE_WAITING)
                continue;
            enum verdict verdict = judge_node(graph, node);
            has_changed = has_changed || verdict == FAILS;
            if (verdict == HOLDS)
                ret_ready[ready++] = i;
            *ret_waiting += verdict == PENDING;
        }
    }
    return ready;
}

static void node_started(struct node *node, const struct tsk_error *result)
{
    bool is_fine = result->code == TSK_OK || result->code == TSK_PROCESS_ALREADY_RUNNING;
    node->state = is_fine ? NODE_DONE : NODE_FAILED;
    if (result->code != TSK_OK)
        node_failure(node)->error = *result;
}

/* Starts those, together. -1 when nothing could be tried. */
static int graph_start(struct graph *graph, const size_t *ready, size_t count, struct tsk_error *err)
{
    const char **ids CLEANUP_FREE = calloc(count, sizeof *ids);
    struct tsk_error *results = calloc(count, sizeof *results);
    BUG(!ids || !results);
    for (size_t i = 0; i < count; i++)
        ids[i] = graph->nodes[ready[i]].id;
    int result = proc_start_many(graph->reg, ids, count, results, err);
    for (size_t i = 0; i < count; i++)
        node_started(&graph->nodes[ready[i]], result < 0 ? err : &results[i]);
    free(results);
    return result;
}

/* Until one of the watched processes may have changed. What changed between the look and now ends the wait at once. */
static void graph_wait(const struct graph *graph)
{
    struct pollfd *fds = memory_zeroed(graph->count + 1, sizeof *fds);
    size_t count = 1;
    bool has_changed = false;
    fds[0] = (struct pollfd){.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .events = POLLIN};
    for (size_t i = 0; i < graph->count; i++) {
        const struct proc *p = graph->nodes[i].p;
        struct proc_stamp stamps[2];
        char path[64];
        if (!p)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", p->dir);
        inotify_add_watch(fds[0].fd, path, IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF);
        fds[count++] = (struct pollfd){.fd = proc_id_open(&p->view.child), .events = POLLIN};
        proc_stamps(p->dir, stamps);
        has_changed = has_changed || memcmp(stamps, p->seen, sizeof stamps) != 0;
    }
    if (!has_changed)
        poll(fds, count, fds[0].fd < 0 ? RECORD_POLL_MS : SECOND_LOOK_MS);
    for (size_t i = 0; i < count; i++)
        fs_close(&fds[i].fd);
    free(fds);
}

static void graph_forget(struct graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        node_unwatch(&graph->nodes[i]);
}

/* Tells the caller, and others, for whom it waits, if that is news. */
static void graph_say(struct graph *graph)
{
    struct buf names CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i].is_awaited)
            buf_printf(&names, "%s%s", names.len ? ", " : "", graph->nodes[i].id);
    if (strcmp(buf_str(&names), buf_str(&graph->awaited)) == 0)
        return;
    waiting_end(&graph->waiting);
    if (names.len)
        waiting_begin(&graph->waiting, graph->reg->ws, "process", buf_str(&names));
    if (graph->reg->waits)
        graph->reg->waits(graph->reg->waits_data, names.len ? buf_str(&names) : NULL);
    buf_reset(&graph->awaited);
    buf_puts(&graph->awaited, buf_str(&names));
}

static int graph_run(struct graph *graph, struct tsk_error *err)
{
    size_t waiting, started = 0;
    size_t *ready CLEANUP_FREE = memory_zeroed(graph->count + 1, sizeof *ready);
    int result = 0;
    for (;;) {
        size_t count = graph_judge(graph, ready, &waiting);
        graph_say(graph);
        if (count == 0 && waiting == 0)
            break;
        if (count == 0)
            graph_wait(graph);
        else if (graph_start(graph, ready, count, err) < 0 && started == 0)
            result = -1;
        started += count;
        graph_forget(graph);
        if (result < 0)
            break;
    }
    return result;
}

int proc_start_ordered(struct proc_registry *reg, const char *const *ids, size_t count, bool with_dependencies,
                       struct tsk_error *results, struct tsk_error *err)
{
    struct graph graph CLEANUP(graph_clear) = {
        .reg = reg, .index = json_object(), .awaited = BUF_INIT, .waiting = WAITING_NONE};
    if (!with_dependencies)
        return proc_start_many(reg, ids, count, results, err);
    for (size_t i = 0; i < count; i++)
        if (graph_ask(&graph, ids[i], err) < 0)
            return -1;
    if (graph_run(&graph, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const struct node *node = &graph.nodes[graph_place(&graph, ids[i])];
        results[i].code = TSK_OK;
        if (node->failure)
            results[i] = node->failure->error;
    }
    return 0;
}
