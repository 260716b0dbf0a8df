/* flow_read.c - YAML pieces to tasks, groups and limits. What a key takes is in the tables at the end. */
#include "base/ident.h"
#include "base/json.h"
#include "base/utf8.h"
#include "base/word.h"
#include "graph/flow_pieces.h"
#include "graph/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tasks ---------------------------------------------------------------------------------------------- */

struct task_detail *flow_detail(struct flow *flow, struct flow_task *task)
{
    if (!task->detail) {
        struct task_detail *made = region_add(&flow->details, 1);
        BUG(!made);
        *made = (struct task_detail){.retries = -1,
                                     .backoff_initial_ms = BACKOFF_INITIAL_MS,
                                     .backoff_max_ms = BACKOFF_MAX_MS,
                                     .backoff_factor = BACKOFF_FACTOR};
        task->detail = (uint32_t)flow->details.count;
    }
    return REGION_AT(&flow->details, struct task_detail, task->detail - 1);
}

static struct task_detail *task_detail_of(struct reading *r, struct flow_task *task)
{
    return flow_detail(r->flow, task);
}

static void task_cwd(struct reading *r, void *target)
{
    ((struct flow_task *)target)->cwd = piece_string(r);
}

/* Reports a repeated key. `seen` has the keys of the map so far. */
static void check_twice(struct reading *r, json_t *seen, const char *key)
{
    if (key && json_object_get(seen, key))
        flow_problem(r->flow, r->piece.line, r->piece.column, "flow_key_twice", "key", key, NULL);
    BUG(!seen || (key && json_object_set_new(seen, key, json_true()) < 0));
}

static void task_env(struct reading *r, void *target)
{
    struct flow_task *task = target;
    struct buf pair CLEANUP(buf_clear) = BUF_INIT;
    json_t *seen CLEANUP_JSON = json_object();
    if (r->piece.type != YAML_PIECE_MAP) {
        piece_wrong(r, "flow_want_map");
        return;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        const char *key = piece_scalar(r, "flow_want_text");
        buf_reset(&pair);
        buf_printf(&pair, "%s=", key ? key : "");
        if (key && strchr(key, '='))
            flow_problem(r->flow, r->piece.line, r->piece.column, "flow_env_name", "value", key, NULL);
        check_twice(r, seen, key);
        if (!piece_next(r))
            return;
        if (r->piece.type != YAML_PIECE_SCALAR) {
            piece_wrong(r, "flow_want_text");
            continue;
        }
        buf_put(&pair, r->piece.text, r->piece.len);
        uint32_t offset = flow_string_add(r->flow, buf_str(&pair), pair.len);
        task->env = task->env ? task->env : offset;
        task->env_count++;
    }
}

static void task_timeout(struct reading *r, void *target)
{
    struct flow_task *task = target;
    uint32_t line = r->piece.line, column = r->piece.column;
    task->timeout_ms = piece_duration(r, 1);
    if (task->timeout_ms == 0)
        flow_problem(r->flow, line, column, "flow_timeout_zero", NULL);
}

static void task_retries(struct reading *r, void *target)
{
    task_detail_of(r, target)->retries = (int32_t)piece_number(r, 0, 1000000, 0);
}

static void task_max_cycles(struct reading *r, void *target)
{
    task_detail_of(r, target)->max_cycles = (uint32_t)piece_number(r, 1, 1000000000, 0);
}

static void backoff_initial(struct reading *r, void *target)
{
    ((struct task_detail *)target)->backoff_initial_ms = piece_duration(r, BACKOFF_INITIAL_MS);
}

static void backoff_factor(struct reading *r, void *target)
{
    ((struct task_detail *)target)->backoff_factor = piece_fraction(r, 1, 1000, BACKOFF_FACTOR);
}

static void backoff_max(struct reading *r, void *target)
{
    ((struct task_detail *)target)->backoff_max_ms = piece_duration(r, BACKOFF_MAX_MS);
}

static void backoff_jitter(struct reading *r, void *target)
{
    ((struct task_detail *)target)->backoff_jitter = piece_fraction(r, 0, 1, 0);
}

static const struct key_rule backoff_keys[] = {
    {"initial", backoff_initial}, {"factor", backoff_factor}, {"max", backoff_max}, {"jitter", backoff_jitter}, {0}};

static void task_backoff(struct reading *r, void *target)
{
    piece_map(r, backoff_keys, task_detail_of(r, target));
}

static void need_add(struct reading *r, struct flow_task *task)
{
    struct flow_need *need = region_add(&r->flow->needs, 1);
    BUG(!need);
    *need = (struct flow_need){.task = (uint32_t)(task - flow_task(r->flow, 0)),
                               .name = flow_string_add(r->flow, r->piece.text, r->piece.len),
                               .line = r->piece.line,
                               .column = r->piece.column};
}

static void task_needs(struct reading *r, void *target)
{
    struct flow_task *task = target;
    task->has_needs = true;
    if (r->piece.type == YAML_PIECE_SCALAR && r->piece.len) {
        need_add(r, task);
        return;
    }
    if (r->piece.type != YAML_PIECE_LIST) {
        piece_wrong(r, "flow_want_names");
        return;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END)
        if (r->piece.type == YAML_PIECE_SCALAR && r->piece.len)
            need_add(r, task);
        else
            piece_wrong(r, "flow_want_text");
}

/* The place of a byte of the current scalar. One over several lines has the place of its first character. */
static uint32_t column_in_scalar(const struct reading *r, size_t at)
{
    uint32_t column = r->piece.column + r->piece.is_quoted;
    if (r->piece.is_block || r->piece.end_line != r->piece.line)
        return r->piece.column;
    for (size_t i = 0; i < at; i++)
        column += !utf8_is_inside(r->piece.text[i]);
    return column;
}

static void task_when(struct reading *r, void *target)
{
    struct flow_task *task = target;
    size_t at;
    const char *text = piece_scalar(r, "flow_want_text");
    if (!text)
        return;
    const char *problem = flow_condition_problem(text, &at);
    if (problem)
        flow_problem(r->flow, r->piece.line, column_in_scalar(r, at), problem, NULL);
    task->never_starts = strcmp(text, "never") == 0;
    task->when = flow_string_add(r->flow, text, r->piece.len);
}

static void task_agent(struct reading *r, void *target)
{
    const char *name = piece_scalar(r, "flow_want_text");
    if (!name)
        return;
    struct flow_agent *agent = region_add(&r->flow->agents, 1);
    BUG(!agent);
    *agent = (struct flow_agent){.task = (uint32_t)((struct flow_task *)target - flow_task(r->flow, 0)),
                                 .name = flow_string_add(r->flow, name, r->piece.len),
                                 .line = r->piece.line,
                                 .column = r->piece.column};
}

/* `run` of an agent's task is the text that it gets, whichever of the two keys came first. */
static void read_agent_text(struct reading *r, const struct flow_task *task)
{
    size_t count = r->flow->agents.count;
    struct flow_agent *last = count ? REGION_AT(&r->flow->agents, struct flow_agent, count - 1) : NULL;
    if (!last || last->task != (uint32_t)(task - flow_task(r->flow, 0)) || !task->has_run)
        return;
    if (!r->run_text.len)
        flow_problem(r->flow, r->run_line, r->run_column, "flow_agent_text", NULL);
    last->text = flow_string_add(r->flow, buf_str(&r->run_text), r->run_text.len);
}

static void task_on_interrupt(struct reading *r, void *target)
{
    static const char *const choices[] = {"rerun", "fail", "ask", NULL};
    ((struct flow_task *)target)->on_interrupt = (uint8_t)piece_choice(r, choices, INTERRUPT_RERUN);
}

/* The tags that a worker must have, sorted, so that equal sets are one text. */
static void task_on(struct reading *r, void *target)
{
    uint32_t line = r->piece.line, column = r->piece.column, count = 0;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *tags CLEANUP_JSON = json_object();
    const char *tag = flow_string(r->flow, piece_strings(r, &count));
    for (uint32_t i = 0; tag && i < count; i++, tag += strlen(tag) + 1) {
        if (!id_is_valid(tag))
            flow_problem(r->flow, line, column, "flow_tag", "value", tag, NULL);
        json_object_set_new(tags, tag, json_true());
    }
    char *sorted = json_dumps(tags, JSON_SORT_KEYS | JSON_COMPACT);
    BUG(!sorted);
    for (char *at = sorted; (at = strchr(at, '"')); at++) {
        size_t len = strcspn(at + 1, "\"");
        buf_printf(&text, "%s%.*s", text.len ? "," : "", (int)len, at + 1);
        at += len + 1;
    }
    free(sorted);
    if (text.len)
        ((struct flow_task *)target)->tags = flow_string_add(r->flow, buf_str(&text), text.len);
}

static const struct key_rule task_keys[] = {{"run", flow_read_run},
                                            {"shell", flow_read_task_shell},
                                            {"needs", task_needs},
                                            {"cwd", task_cwd},
                                            {"env", task_env},
                                            {"timeout", task_timeout},
                                            {"retries", task_retries},
                                            {"backoff", task_backoff},
                                            {"max_cycles", task_max_cycles},
                                            {"when", task_when},
                                            {"agent", task_agent},
                                            {"on", task_on},
                                            {"on_interrupt", task_on_interrupt},
                                            {0}};

/* The task that the current piece names, or NULL when there is one already. */
static struct flow_task *task_new(struct reading *r)
{
    struct flow *flow = r->flow;
    uint32_t same = flow_find(flow, r->piece.text);
    if (!id_is_valid(r->piece.text))
        flow_problem(flow, r->piece.line, r->piece.column, "flow_name", "value", r->piece.text, NULL);
    if (same != NO_NODE) {
        flow_problem(flow, r->piece.line, r->piece.column, "flow_task_twice", "name", r->piece.text, "line",
                     DIGITS(flow_task(flow, same)->line), NULL);
        return NULL;
    }
    return flow_task_add(flow, r->piece.text, r->piece.len, r->piece.line, r->piece.column);
}

static void read_tasks(struct reading *r, void *target)
{
    (void)target;
    if (r->piece.type == YAML_PIECE_LIST) {
        piece_refuse_task_list(r);
        return;
    }
    if (r->piece.type != YAML_PIECE_MAP) {
        piece_wrong(r, "flow_want_map");
        return;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        struct flow_task *task = r->piece.type == YAML_PIECE_SCALAR ? task_new(r) : NULL;
        if (!piece_next(r))
            return;
        if (!task) {
            piece_skip(r);
            continue;
        }
        /* `name: command` is the short form of `name: {run: command}`. */
        if (r->piece.type == YAML_PIECE_SCALAR || r->piece.type == YAML_PIECE_LIST)
            flow_read_run(r, task);
        else
            piece_map(r, task_keys, task);
        read_agent_text(r, task);
        flow_check_shell(r, task);
        if (!task->has_run && !r->is_broken)
            flow_problem(r->flow, task->line, task->column, "flow_run_missing", "name",
                         flow_string(r->flow, task->name), NULL);
    }
}

/* ---- the rest of the file ------------------------------------------------------------------------------- */

static void read_at_least(struct reading *r, void *target)
{
    struct flow_group *group = target;
    group->policy = TSK_POLICY_AT_LEAST;
    group->at_least = (uint32_t)piece_number(r, 1, 1000000, 1);
}

static void read_critical(struct reading *r, void *target)
{
    struct flow_group *group = target;
    group->policy = TSK_POLICY_CRITICAL;
    group->critical_line = r->piece.line;
    group->critical_column = r->piece.column;
    group->critical = piece_strings(r, &group->critical_count);
}

static const struct key_rule policy_keys[] = {{"at_least", read_at_least}, {"critical", read_critical}, {0}};

/* The policies that are one word. */
#define WORD(...) __VA_ARGS__,
#define MAP(...)
static const char *const policy_words[] = {
#define X(symbol, name, function, form) form(name)
#include "graph/policy.def"
#undef X
    NULL};
static const enum tsk_policy policy_values[] = {
#define X(symbol, name, function, form) form(TSK_POLICY_##symbol)
#include "graph/policy.def"
#undef X
};
#undef WORD
#undef MAP

static void group_policy(struct reading *r, void *target)
{
    struct flow_group *group = target;
    if (r->piece.type != YAML_PIECE_MAP) {
        group->policy = policy_values[piece_choice(r, policy_words, 0)];
        return;
    }
    uint32_t line = r->piece.line, column = r->piece.column;
    size_t problems = r->flow->problem_count;
    piece_map(r, policy_keys, group);
    if ((group->at_least != 0) == (group->critical_line != 0) && r->flow->problem_count == problems)
        flow_problem(r->flow, line, column, "flow_policy_map", NULL);
}

static const struct key_rule group_keys[] = {{"policy", group_policy}, {0}};

static void read_groups(struct reading *r, void *target)
{
    (void)target;
    if (r->piece.type != YAML_PIECE_MAP) {
        piece_wrong(r, "flow_want_map");
        return;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        struct flow_group group = {.line = r->piece.line, .column = r->piece.column};
        group.name = piece_string(r);
        for (size_t i = 0; group.name && i < r->flow->groups.count; i++)
            if (strcmp(flow_string(r->flow, REGION_AT(&r->flow->groups, struct flow_group, i)->name),
                       flow_string(r->flow, group.name)) == 0)
                flow_problem(r->flow, group.line, group.column, "flow_key_twice", "key",
                             flow_string(r->flow, group.name), NULL);
        if (!piece_next(r))
            return;
        piece_map(r, group_keys, &group);
        struct flow_group *kept = group.name ? region_add(&r->flow->groups, 1) : NULL;
        if (kept)
            *kept = group;
    }
}

static void channel_merge_rules(struct reading *r, void *target)
{
    json_t *seen CLEANUP_JSON = json_object();
    (void)target;
    if (r->piece.type != YAML_PIECE_MAP) {
        piece_wrong(r, "flow_want_map");
        return;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        struct tsk_error err;
        uint32_t key = piece_string(r);
        check_twice(r, seen, key ? flow_string(r->flow, key) : NULL);
        if (!piece_next(r))
            return;
        enum tsk_merge rule = (enum tsk_merge)piece_choice(r, merge_rule_names, TSK_MERGE_LAST);
        BUG(key && graph_add_rule(&r->flow->graph, flow_string(r->flow, key), rule, &err) < 0);
    }
}

static const struct key_rule channel_keys[] = {{"merge", channel_merge_rules}, {0}};

static void read_channel(struct reading *r, void *target)
{
    (void)target;
    piece_map(r, channel_keys, NULL);
}

static void limit_parallel(struct reading *r, void *target)
{
    (void)target;
    r->flow->parallel = piece_number(r, 1, 100000, 0);
}

static void limit_max_steps(struct reading *r, void *target)
{
    (void)target;
    r->flow->max_steps = (uint64_t)piece_number(r, 1, INT64_MAX, 0);
}

static void limit_max_cycles(struct reading *r, void *target)
{
    (void)target;
    r->flow->max_cycles = (uint32_t)piece_number(r, 1, 1000000000, 10);
}

static void limit_retries(struct reading *r, void *target)
{
    (void)target;
    r->flow->retries = (int32_t)piece_number(r, 0, 1000000, 0);
}

static const struct key_rule limit_keys[] = {{"parallel", limit_parallel},
                                             {"max_steps", limit_max_steps},
                                             {"max_cycles", limit_max_cycles},
                                             {"retries", limit_retries},
                                             {0}};

static void read_limits(struct reading *r, void *target)
{
    (void)target;
    piece_map(r, limit_keys, NULL);
}

static void read_journal(struct reading *r, void *target)
{
    static const char *const choices[] = {"async", "sync", NULL};
    (void)target;
    r->flow->is_journal_synced = piece_choice(r, choices, 0) == 1;
}

static void read_lease(struct reading *r, void *target)
{
    uint32_t line = r->piece.line, column = r->piece.column;
    int64_t ms = piece_duration(r, 0);
    (void)target;
    if (ms && (ms < FLOW_LEASE_MIN_MS || ms > FLOW_LEASE_MAX_MS))
        flow_problem(r->flow, line, column, "flow_lease", NULL);
    r->flow->lease_ms = ms;
}

static void read_files(struct reading *r, void *target)
{
    uint32_t line = r->piece.line, column = r->piece.column;
    (void)target;
    r->flow->files = piece_strings(r, &r->flow->files_count);
    const char *path = flow_string(r->flow, r->flow->files);
    for (uint32_t i = 0; i < r->flow->files_count; i++, path += strlen(path) + 1)
        if (!pack_path_is_inside(path))
            flow_problem(r->flow, line, column, "files_path", "path", path, NULL);
}

static void read_exclusive(struct reading *r, void *target)
{
    static const char *const choices[] = {"true", "false", NULL};
    (void)target;
    r->flow->exclusive = piece_choice(r, choices, 0) == 0 ? EXCLUSIVE_ALWAYS : EXCLUSIVE_NEVER;
}

static void read_name(struct reading *r, void *target)
{
    const char *text = piece_scalar(r, "flow_want_text");
    (void)target;
    if (!text)
        return;
    if (!id_is_valid(text))
        flow_problem(r->flow, r->piece.line, r->piece.column, "flow_name", "value", text, NULL);
    free(r->flow->name);
    r->flow->name = strdup(text);
}

/* The byte at which a line and column stand. */
static size_t offset_of(const struct reading *r, unsigned line, unsigned column)
{
    size_t at = 0;
    for (; line > 1 && at < r->len; line--) {
        const char *newline = memchr(r->text + at, '\n', r->len - at);
        at = newline ? (size_t)(newline - r->text) + 1 : r->len;
    }
    for (; column > 1 && at < r->len; column--)
        for (at++; at < r->len && utf8_is_inside(r->text[at]);)
            at++;
    return at;
}

/* Read later, when the tasks are known; from the file itself, so that its words have exact places. */
static void read_flow(struct reading *r, void *target)
{
    (void)target;
    if (!piece_scalar(r, "flow_want_expression"))
        return;
    struct flow_place *place = &r->expression;
    *place = (struct flow_place){.text = r->text, .len = r->len, .line = r->piece.line, .column = r->piece.column};
    place->from = offset_of(r, r->piece.line, r->piece.column);
    place->to = offset_of(r, r->piece.end_line, r->piece.end_column);
    if (r->piece.is_quoted) {
        place->from++;
        place->column++;
        place->to--;
    }
    if (r->piece.is_block) { /* behind the line with the | or > */
        const char *newline = memchr(r->text + place->from, '\n', place->to - place->from);
        place->from = newline ? (size_t)(newline - r->text) + 1 : place->to;
        place->line++;
        place->column = 1;
    }
}

static const struct key_rule file_keys[] = {{"name", read_name},
                                            {"flow", read_flow},
                                            {"tasks", read_tasks},
                                            {"groups", read_groups},
                                            {"channel", read_channel},
                                            {"limits", read_limits},
                                            {"journal", read_journal},
                                            {"exclusive", read_exclusive},
                                            {"params", flow_read_params},
                                            {"lease", read_lease},
                                            {"files", read_files},
                                            {"shell", flow_read_shell},
                                            {0}};

/* ---- loading -------------------------------------------------------------------------------------------- */

static void read_file(struct reading *r)
{
    if (!piece_next(r))
        return;
    if (r->piece.type == YAML_PIECE_END_OF_FILE) {
        flow_problem(r->flow, 1, 1, "flow_empty", NULL);
        return;
    }
    piece_map(r, file_keys, NULL);
    if (!r->is_broken)
        piece_next(r); /* a second document is a problem */
    if (r->flow->tasks.count == 0 && !r->is_broken && r->flow->problem_count == 0)
        flow_problem(r->flow, 1, 1, "flow_empty", NULL);
}

bool flow_read_file(struct flow *flow, const char *text, size_t len, struct flow_place *ret_expression,
                    struct tsk_error *err)
{
    struct reading r = {.flow = flow, .text = text, .len = len, .run_text = {.max = FLOW_SIZE_MAX}};
    if (yaml_reader_open(text, len, &r.reader, err) < 0)
        return false;
    read_file(&r);
    flow_settle_commands(flow);
    buf_clear(&r.run_text);
    yaml_reader_close(r.reader);
    *ret_expression = r.expression;
    return !r.is_broken;
}
