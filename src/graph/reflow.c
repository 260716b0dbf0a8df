#include "graph/reflow.h"
#include "base/listing.h"
#include "base/log.h"
#include "base/sha256.h"
#include "graph/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY             "flow.yaml"
#define NEXT_COPY        "flow.next.yaml"
#define REFLOW_NAMES_MAX 20 /* in a message */
#define SOURCE_MAX       FLOW_SIZE_MAX

/* ---- definitions ---------------------------------------------------------------------------------------- */

static bool is_same_text(const struct flow *a, uint32_t x, const struct flow *b, uint32_t y)
{
    return x && y ? strcmp(flow_string(a, x), flow_string(b, y)) == 0 : x == y;
}

static bool are_same_texts(const struct flow *a, uint32_t x, const struct flow *b, uint32_t y, uint32_t count)
{
    const char *one = flow_string(a, x), *other = flow_string(b, y);
    for (uint32_t i = 0; i < count; i++, one += strlen(one) + 1, other += strlen(other) + 1)
        if (strcmp(one, other) != 0)
            return false;
    return true;
}

static const struct flow_agent *agent_of_task(const struct flow *flow, uint32_t task)
{
    for (uint32_t i = 0; i < flow->agents.count; i++)
        if (REGION_AT(&flow->agents, struct flow_agent, i)->task == task)
            return REGION_AT(&flow->agents, struct flow_agent, i);
    return NULL;
}

static bool is_same_agent(const struct flow *a, uint32_t x, const struct flow *b, uint32_t y)
{
    const struct flow_agent *one = agent_of_task(a, x), *other = agent_of_task(b, y);
    return one && other ? is_same_text(a, one->name, b, other->name) && is_same_text(a, one->text, b, other->text)
                        : one == other;
}

static bool is_same_detail(const struct flow *a, uint32_t x, const struct flow *b, uint32_t y)
{
    if (!x || !y)
        return x == y;
    const struct task_detail *one = REGION_AT(&a->details, struct task_detail, x - 1);
    const struct task_detail *other = REGION_AT(&b->details, struct task_detail, y - 1);
    return one->retries == other->retries && one->max_cycles == other->max_cycles &&
           one->backoff_initial_ms == other->backoff_initial_ms && one->backoff_max_ms == other->backoff_max_ms &&
           one->backoff_factor == other->backoff_factor && one->backoff_jitter == other->backoff_jitter;
}

/* Before the agents are settled: their commands are made from what is compared here. */
static bool is_same_task(const struct flow *a, uint32_t x, const struct flow *b, uint32_t y)
{
    const struct flow_task *one = flow_task(a, x), *other = flow_task(b, y);
    return one->run_count == other->run_count && are_same_texts(a, one->run, b, other->run, one->run_count) &&
           one->env_count == other->env_count && are_same_texts(a, one->env, b, other->env, one->env_count) &&
           is_same_text(a, one->cwd, b, other->cwd) && is_same_text(a, one->when, b, other->when) &&
           is_same_detail(a, one->detail, b, other->detail) && one->is_shell == other->is_shell &&
           one->shell_count == other->shell_count && are_same_texts(a, one->shell, b, other->shell, one->shell_count) &&
           one->never_starts == other->never_starts && one->on_interrupt == other->on_interrupt &&
           one->timeout_ms == other->timeout_ms && is_same_agent(a, x, b, y);
}

/* The name of the first group around the old task that is not around the new one in the same place; NULL: there is none. */
static const char *lost_group(const struct graph *old, uint32_t was, const struct graph *new, uint32_t is,
                              char name[GRAPH_NAME_MAX])
{
    char other[GRAPH_NAME_MAX];
    uint32_t a = graph_node(old, was)->scope, b = graph_node(new, is)->scope;
    for (; a != GRAPH_ROOT; a = graph_scope(old, a)->parent, b = graph_scope(new, b)->parent) {
        const char *group = graph_name(old, graph_group(old, graph_scope(old, a)->group)->node, name);
        if (b == GRAPH_ROOT ||
            strcmp(group, graph_name(new, graph_group(new, graph_scope(new, b)->group)->node, other)) != 0)
            return group;
    }
    return b == GRAPH_ROOT ? NULL : graph_name(new, graph_group(new, graph_scope(new, b)->group)->node, name);
}

/* By the graph: the loader has forgotten its own table of names. */
static uint32_t task_find(const struct flow *flow, const char *name)
{
    uint32_t node = graph_find(&flow->graph, name);
    return node == NO_NODE || graph_node(&flow->graph, node)->is_group
               ? NO_NODE
               : *REGION_AT(&flow->task_of_node, uint32_t, node);
}

/* ---- what changes --------------------------------------------------------------------------------------- */

static void add_name(json_t *changes, const char *list, const char *name)
{
    json_array_append_new(json_object_get(changes, list), json_string(name));
}

static json_t *reflow_compare(const struct flow *old, const struct flow *new)
{
    json_t *changes = json_pack("{s:[], s:[], s:[], s:{}}", "changed", "new", "removed", "kept");
    for (uint32_t i = 0; i < old->tasks.count; i++) {
        const char *name = flow_string(old, flow_task(old, i)->name);
        uint32_t now = task_find(new, name);
        if (now == NO_NODE)
            add_name(changes, "removed", name);
        else if (!is_same_task(old, i, new, now))
            add_name(changes, "changed", name);
        else
            json_object_set_new(json_object_get(changes, "kept"), name, json_false()); /* true: it is completed */
    }
    for (uint32_t i = 0; i < new->tasks.count; i++)
        if (task_find(old, flow_string(new, flow_task(new, i)->name)) == NO_NODE)
            add_name(changes, "new", flow_string(new, flow_task(new, i)->name));
    return changes;
}

/* A task that asked for tasks which do not exist any more cannot be repeated from the journal. */
static bool asks_for_unknown(const json_t *record, const struct flow *new)
{
    json_each (json_object_get(record, "r"), i, request) {
        const char *name = json_get_string(request, "task", NULL);
        if (name && graph_find(&new->graph, name) == NO_NODE)
            return true;
    }
    return false;
}

static void note_completed(json_t *changes, const json_t *records, const struct flow *new)
{
    json_t *kept = json_object_get(changes, "kept");
    json_each (records, i, record) {
        const char *name = json_get_string(record, "k", ""), *outcome = json_get_string(record, "o", "");
        bool is_end = json_text_is(record, "e", "end");
        if (!is_end || !json_object_get(kept, name))
            continue;
        if (asks_for_unknown(record, new)) {
            json_object_del(kept, name);
            add_name(changes, "changed", name);
        } else if (strcmp(outcome, "retry") != 0) {
            json_object_set_new(kept, name,
                                json_boolean(strcmp(outcome, "failed") != 0 && strcmp(outcome, "stopped") != 0));
        }
    }
}

/* ---- refusals (R3) -------------------------------------------------------------------------------------- */

/* The run can continue with its own copy. */
static int reflow_refuse(struct tsk_error *err, const struct rundir *run, const char *text, const char *key,
                         const char *value, const char *key2, const char *value2)
{
    error_set(err, TSK_CONFLICT, text, "run", run->id, "run_id", run->id, key, value, key2, value2, NULL);
    return error_add_next(err, "tasuki resume %s", run->id);
}

static int refuse_question(const struct rundir *run, const json_t *records, struct tsk_error *err)
{
    json_t *open CLEANUP_JSON = reply_questions(run, records);
    if (!reply_is_there(run, records) && json_array_size(open) == 0)
        return 0;
    error_set(err, TSK_CONFLICT, "reflow_question", "run", run->id, "run_id", run->id, NULL);
    return error_add_next(err, "tasuki runs show %s", run->id);
}

static int refuse_added(const struct rundir *run, const json_t *records, struct tsk_error *err)
{
    json_each (records, i, record)
        if (json_object_get(record, "n") && !json_text_is(record, "e", "dropped") &&
            (uint32_t)json_get_int(record, "n", 0) & PLAN_DYNAMIC)
            return reflow_refuse(err, run, "reflow_added", "task", json_get_string(record, "k", ""), NULL, NULL);
    return 0;
}

static int refuse_groups(const struct rundir *run, const json_t *changes, const struct flow *old,
                         const struct flow *new, struct tsk_error *err)
{
    char buf[GRAPH_NAME_MAX];
    json_each_pair (json_object_get(changes, "kept"), name, is_completed) {
        if (!json_is_true(is_completed))
            continue;
        const char *group =
            lost_group(&old->graph, graph_find(&old->graph, name), &new->graph, graph_find(&new->graph, name), buf);
        if (group)
            return reflow_refuse(err, run, "reflow_group", "task", name, "group", group);
    }
    return 0;
}

static int reflow_refuse_start(const json_t *records, const struct flow *new, struct tsk_error *err)
{
    const char *start = json_get_string(json_array_get(records, 0), "start", NULL);
    if (!start || graph_find(&new->graph, start) != NO_NODE)
        return 0;
    return error_set(err, TSK_INVALID_INPUT, "start_unknown", "task", start, NULL);
}

/* ---- the journal (R1, R2) ------------------------------------------------------------------------------- */

static void record_number(const json_t *record, char number[24])
{
    snprintf(number, 24, "%lld", (long long)json_get_int(record, "n", -1));
}

/* By the old numbers: the task's name; the start that has no end. */
static void find_open(const json_t *records, json_t *open)
{
    char number[24];
    json_each (records, i, record) {
        record_number(record, number);
        if (json_text_is(record, "e", "start"))
            json_object_set(open, number, record);
        else if (json_text_is(record, "e", "end") || json_text_is(record, "e", "ask"))
            json_object_del(open, number);
    }
}

static void record_drop(json_t *record)
{
    json_object_set(record, "was", json_object_get(record, "e"));
    json_object_set_new(record, "e", json_string("dropped"));
}

static void records_rewrite(json_t *records, const struct flow *new, const json_t *kept)
{
    json_t *open CLEANUP_JSON = json_object(), *names CLEANUP_JSON = json_object();
    char number[24];
    find_open(records, open);
    json_each (records, i, record) {
        if (!json_text_is(record, "e", "start") && !json_text_is(record, "e", "end") &&
            !json_text_is(record, "e", "ask") && !json_text_is(record, "e", "answer"))
            continue;
        record_number(record, number);
        if (json_object_get(record, "k"))
            json_object_set(names, number, json_object_get(record, "k"));
        const char *name = json_get_string(names, number, "");
        uint32_t node = graph_find(&new->graph, name);
        /* An interrupted task is settled as its new definition says. */
        bool stays = json_object_get(kept, name) || json_object_get(open, number) == record;
        if (node == NO_NODE || !stays)
            record_drop(record);
        else
            json_object_set_new(record, "n", json_integer(node));
    }
}

/* The path by which the run finds the file from its own directory. */
static json_t *source_for(const json_t *first, const char *source)
{
    char cwd[PATH_MAX];
    char *whole CLEANUP_FREE = NULL;
    if (!getcwd(cwd, sizeof cwd) || strcmp(cwd, json_get_string(first, "cwd", "")) != 0)
        whole = realpath(source, NULL);
    json_t *path = json_string(whole ? whole : source);
    return path;
}

static void add_record(json_t *records, const struct flow *new, const char *sha256, const json_t *changes)
{
    json_t *first = json_array_get(records, 0), *source = source_for(first, new->source);
    json_object_set(first, "flow", source);
    json_object_set_new(first, "tasks", json_integer((json_int_t) new->tasks.count));
    json_array_append_new(
        records, json_pack("{s:I, s:s, s:o, s:s, s:O, s:O, s:O}", "t", (json_int_t)clock_now().wall_ms, "e", "flow",
                           "flow", source, "sha256", sha256, "changed", json_object_get(changes, "changed"), "new",
                           json_object_get(changes, "new"), "removed", json_object_get(changes, "removed")));
}

static int reflow_write_journal(const struct rundir *run, const json_t *records, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_MAX};
    json_each (records, i, record) {
        json_write(&text, record, false);
        buf_puts(&text, "\n");
    }
    if (text.failed)
        errno = EFBIG;
    return text.failed || fs_replace_file(run->dir, "journal", 0600, text.data, text.len) < 0
               ? fs_error(err, "write", run->dir, "journal")
               : 0;
}

/* Answers are numbered by their task. All of them are in the journal (R3), and a new number must not find an old answer. */
static void remove_replies(const struct rundir *run)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, run->dir, ".", 0);
    for (const char *name; (name = listing_next(&names));)
        if (strncmp(name, "reply.", 6) == 0)
            fs->unlinkat(run->dir, name, 0);
}

/* ---- the change ----------------------------------------------------------------------------------------- */

static int records_change(struct runner *runner, json_t *records, const struct flow *old, struct flow *new,
                          json_t *changes, struct tsk_error *err)
{
    const struct runner_options *options = &runner->options;
    char sha256[SHA256_HEX_SIZE];
    note_completed(changes, records, new);
    if (refuse_question(&runner->run, records, err) < 0 || refuse_added(&runner->run, records, err) < 0 ||
        reflow_refuse_start(records, new, err) < 0 || refuse_groups(&runner->run, changes, old, new, err) < 0)
        return -1;
    if (flow_settle_agents(new, runner->ws, &runner->run, options->flow_text, options->flow_len, err) < 0)
        return -1;
    if (fs_replace_file(runner->run.dir, NEXT_COPY, 0600, options->flow_text, options->flow_len) < 0)
        return fs_error(err, "write", runner->run.dir, NEXT_COPY);
    sha256_hex(options->flow_text, options->flow_len, sha256);
    records_rewrite(records, new, json_object_get(changes, "kept"));
    add_record(records, new, sha256, changes);
    remove_replies(&runner->run);
    return reflow_write_journal(&runner->run, records, err);
}

int reflow_change(struct runner *runner, json_t *records, enum lang lang, json_t **ret_changes, struct tsk_error *err)
{
    const struct runner_options *options = &runner->options;
    struct buf copy CLEANUP(buf_clear) = {.max = FLOW_SIZE_MAX};
    struct flow old, new;
    *ret_changes = NULL;
    if (fs_read_file(runner->run.dir, COPY, FLOW_SIZE_MAX - 1, &copy) < 0)
        return rundir_flow_error(&runner->run, "read", err);
    if (copy.len == options->flow_len && memcmp(buf_str(&copy), options->flow_text, copy.len) == 0)
        return 0;
    if (flow_load(&old, COPY, buf_str(&copy), copy.len, lang, err) < 0)
        return -1;
    int result = flow_load(&new, options->flow_source, options->flow_text, options->flow_len, lang, err);
    if (result == 0) {
        json_t *changes CLEANUP_JSON = reflow_compare(&old, &new);
        result = records_change(runner, records, &old, &new, changes, err);
        if (result == 0)
            *ret_changes = json_incref(changes);
        flow_clear(&new);
    }
    flow_clear(&old);
    return result;
}

int reflow_finish(const struct rundir *run, const json_t *records, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = FLOW_SIZE_MAX};
    char sha256[SHA256_HEX_SIZE];
    const char *wanted = NULL;
    json_each (records, i, record)
        if (json_text_is(record, "e", "flow"))
            wanted = json_get_string(record, "sha256", "");
    if (!wanted || fs_read_file(run->dir, NEXT_COPY, FLOW_SIZE_MAX - 1, &text) < 0)
        return 0;
    sha256_hex(buf_str(&text), text.len, sha256);
    if (strcmp(sha256, wanted) == 0 && fs->renameat2(run->dir, NEXT_COPY, run->dir, COPY, 0) < 0)
        return fs_error(err, "rename", run->dir, NEXT_COPY);
    return 0;
}

/* ---- reports -------------------------------------------------------------------------------------------- */

static void add_list(struct tsk_error *report, const char *key, const json_t *names)
{
    struct buf list CLEANUP(buf_clear) = BUF_INIT;
    json_each (names, i, name)
        if (i < REFLOW_NAMES_MAX)
            buf_printf(&list, "%s%s", i ? ", " : "", json_string_value(name));
    if (json_array_size(names) > REFLOW_NAMES_MAX)
        buf_printf(&list, ", … (%zu)", json_array_size(names));
    error_add(report, key, list.len ? buf_str(&list) : "-");
}

static json_t *completed_again(struct runner *runner, const json_t *changes)
{
    json_t *again = json_array();
    json_each_pair (json_object_get(changes, "kept"), name, is_completed) {
        const struct task_view *view = view_of(runner, graph_find(&runner->flow->graph, name));
        if (json_is_true(is_completed) && view->state != VIEW_OK && view->state != VIEW_SKIPPED)
            json_array_append_new(again, json_string(name));
    }
    return again;
}

void reflow_report(struct runner *runner, json_t *changes)
{
    struct tsk_error report;
    json_t *again CLEANUP_JSON = completed_again(runner, changes);
    error_set(&report, TSK_CONFLICT, "reflow_changes", "run", runner->run.id, "source", runner->source, NULL);
    add_list(&report, "changed", json_object_get(changes, "changed"));
    add_list(&report, "new", json_object_get(changes, "new"));
    add_list(&report, "removed", json_object_get(changes, "removed"));
    add_list(&report, "again", again);
    error_add_next(&report, "tasuki runs show %s", runner->run.id);
    log_problem(&report);
}

/* A run of a request without a flow file is made from the request, which is no flow, whatever the ending of its name. */
static bool is_flow_file(const struct runner *runner)
{
    const char *dot = strrchr(runner->source, '.'), *slash = strrchr(runner->source, '/');
    size_t len = slash ? (size_t)(slash - runner->source) : 0;
    bool is_request = runner->request_id[0] && len >= 8 && memcmp(slash - 8, "requests", 8) == 0;
    return !is_request && dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

void reflow_hint(const struct runner *runner, const struct buf *text)
{
    struct buf now CLEANUP(buf_clear) = {.max = SOURCE_MAX};
    struct tsk_error hint;
    if (!is_flow_file(runner) || fs_read_file(AT_FDCWD, runner->source, SOURCE_MAX - 1, &now) < 0)
        return;
    if (now.len == text->len && memcmp(buf_str(&now), text->data, now.len) == 0)
        return;
    error_set(&hint, TSK_CONFLICT, "reflow_hint", "run", runner->run.id, "source", runner->source, NULL);
    error_add_next(&hint, "tasuki resume %s --flow %s", runner->run.id, runner->source);
    log_problem(&hint);
}
