/* flow_load.c - a flow from its text: reading, checking, and the report of everything that is wrong with it. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/json.h"
#include "base/utf8.h"
#include "base/word.h"
#include "graph/flow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of tasks ------------------------------------------------------------------------------------- */

static uint32_t *name_slot(const struct flow *flow, const char *name)
{
    uint64_t hash = text_hash(HASH_BEGIN, name);
    uint32_t mask = (uint32_t)flow->slots.count - 1;
    for (uint32_t at = (uint32_t)(hash ^ hash >> 32) & mask;; at = (at + 1) & mask) {
        uint32_t *slot = REGION_AT(&flow->slots, uint32_t, at);
        if (!*slot || strcmp(flow_string(flow, flow_task(flow, *slot - 1)->name), name) == 0)
            return slot;
    }
}

static void flow_slots_grow(struct flow *flow)
{
    struct region old = flow->slots;
    flow->slots = (struct region)REGION_OF(uint32_t);
    BUG(!region_add(&flow->slots, old.count ? old.count * 2 : 64));
    for (uint32_t i = 0; i < flow->tasks.count; i++)
        *name_slot(flow, flow_string(flow, flow_task(flow, i)->name)) = i + 1;
    region_clear(&old);
}

uint32_t flow_find(const struct flow *flow, const char *name)
{
    uint32_t found = flow->slots.count ? *name_slot(flow, name) : 0;
    return found ? found - 1 : NO_NODE;
}

struct flow_task *flow_task_add(struct flow *flow, const char *text, size_t len, uint32_t line, uint32_t column)
{
    if ((flow->tasks.count + 1) * 2 > flow->slots.count)
        flow_slots_grow(flow);
    uint32_t name = flow_string_add(flow, text, len);
    struct flow_task *task = region_add(&flow->tasks, 1);
    BUG(!task);
    *task = (struct flow_task){.name = name, .line = line, .column = column};
    *name_slot(flow, flow_string(flow, name)) = (uint32_t)flow->tasks.count;
    return task;
}

int flow_add_node(struct flow *flow, uint32_t scope, uint32_t index, struct tsk_error *err)
{
    struct flow_task *task = flow_task(flow, index);
    if (graph_add_task(&flow->graph, scope, flow_string(flow, task->name), NULL, NULL, &task->node, err) < 0)
        return -1;
    size_t missing = task->node + 1 - flow->task_of_node.count;
    BUG(!region_add(&flow->task_of_node, missing));
    *REGION_AT(&flow->task_of_node, uint32_t, task->node) = index;
    return 0;
}

uint32_t flow_string_add(struct flow *flow, const char *text, size_t len)
{
    size_t offset = flow->strings.count;
    char *copy = region_add(&flow->strings, len + 1);
    BUG(!copy || offset > UINT32_MAX);
    memcpy(copy, text, len);
    copy[len] = '\0';
    return (uint32_t)offset;
}

/* ---- problems ------------------------------------------------------------------------------------------- */

void flow_problem(struct flow *flow, uint32_t line, uint32_t column, const char *key, ...)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    flow->problem_count++;
    if (flow->problems.count >= FLOW_PROBLEMS_MAX)
        return;
    va_list pairs;
    va_start(pairs, key);
    const char *names[4] = {NULL}, *values[4] = {NULL};
    for (size_t i = 0; i < 4 && (names[i] = va_arg(pairs, const char *)); i++)
        values[i] = va_arg(pairs, const char *);
    va_end(pairs);
    text_put(&message, flow->lang, key, names[0], values[0], names[1], values[1], names[2], values[2], names[3],
             values[3], NULL);
    struct flow_problem *problem = region_add(&flow->problems, 1);
    BUG(!problem);
    *problem = (struct flow_problem){.line = line, .column = column, .message = buf_take(&message)};
    BUG(!problem->message);
}

static void free_problem(struct flow_problem *problem)
{
    free(problem->message);
    free(problem->wrong);
}

void flow_problem_fix(struct flow *flow, const char *wrong, const char *right)
{
    struct flow_problem *problems = flow->problems.data;
    if (flow->problem_count > FLOW_PROBLEMS_MAX)
        return; /* it was not kept */
    struct flow_problem *last = &problems[flow->problems.count - 1];
    size_t len = strlen(wrong) + 1, right_len = strlen(right) + 1;
    if (!(last->wrong = malloc(len + right_len)))
        return;
    memcpy(last->wrong, wrong, len);
    last->right = memcpy(last->wrong + len, right, right_len);
}

enum {
    FLOW_EXCERPT_MAX = 160,
    EXCERPT_PLACE_MAX = 120,
    EXCERPT_BEFORE = 60
}; /* bytes: what is shown must reach the place */

static const char *next_character(const char *at, const char *end)
{
    for (at++; at < end && utf8_is_inside(*at);)
        at++;
    return at;
}

/* Errors quote lines of flows only: a caller may name any file, such as one that has a token. A path with `../` may leave the folder
 * `flows` again. */
static bool may_quote(const char *source)
{
    size_t len = strlen(source);
    bool is_yaml =
        (len > 5 && strcmp(source + len - 5, ".yaml") == 0) || (len > 4 && strcmp(source + len - 4, ".yml") == 0);
    bool is_below_flows = (strncmp(source, "flows/", 6) == 0 || strstr(source, "/flows/")) && !strstr(source, "../");
    return is_yaml || strcmp(source, "stdin") == 0 || is_below_flows;
}

/* Of a long line the part around the column. Returns the column in it. */
static uint32_t problem_excerpt(const struct flow *flow, const char *text, size_t len,
                                const struct flow_problem *problem, char out[FLOW_EXCERPT_MAX + 8])
{
    out[0] = '\0';
    if (!may_quote(flow->source))
        return problem->column;
    const char *at = text, *end = text + len;
    uint32_t column = problem->column;
    for (uint32_t line = problem->line; line > 1 && at < end; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : end;
    }
    const char *place = at;
    for (uint32_t i = 1; i < column && place < end && *place != '\n'; i++)
        place = next_character(place, end);
    for (bool is_far = place - at > EXCERPT_PLACE_MAX; is_far && place - at > EXCERPT_BEFORE; column--)
        at = next_character(at, end);
    size_t n = 0;
    while (at + n < end && n < FLOW_EXCERPT_MAX && at[n] != '\n' && at[n] != '\r' && at[n])
        n++;
    while (n && at + n < end && utf8_is_inside(at[n])) /* whole characters only */
        n--;
    memcpy(out, at, n);
    out[n] = '\0';
    return column;
}

/* The excerpt with the right word, if the wrong one is in it as it is (a quoted one does not). */
static bool corrected_line(const struct flow_problem *problem, const char *line, uint32_t column, struct buf *out)
{
    const char *place = line, *end = line + strlen(line);
    while (--column && place < end)
        place = next_character(place, end);
    if (!problem->right || strncmp(place, problem->wrong, strlen(problem->wrong)) != 0)
        return false;
    buf_put(out, line, (size_t)(place - line));
    buf_printf(out, "%s%s", problem->right, place + strlen(problem->wrong));
    return true;
}

static int compare_problems(const void *a, const void *b)
{
    const struct flow_problem *x = a, *y = b;
    return x->line != y->line ? (x->line < y->line ? -1 : 1) : x->column < y->column ? -1 : x->column > y->column;
}

/* The first problem is the error's sentence; all of them are in its context. */
int flow_refuse(struct flow *flow, const char *text, size_t len, struct tsk_error *err)
{
    char line[FLOW_EXCERPT_MAX + 8] = "";
    struct buf all CLEANUP(buf_clear) = BUF_INIT, fix CLEANUP(buf_clear) = BUF_INIT;
    struct flow_problem *problems = flow->problems.data;
    qsort(problems, flow->problems.count, sizeof *problems, compare_problems);
    uint32_t column = problem_excerpt(flow, text, len, &problems[0], line);
    error_set(err, TSK_FLOW_INVALID, "flow_problem", "source", flow->source, NULL);
    error_add_int(err, "line", problems[0].line);
    error_add_int(err, "column", problems[0].column);
    error_add(err, "reason", problems[0].message);
    error_add(err, "excerpt", line);
    if (column != problems[0].column)
        error_add_int(err, "excerpt_column", column);
    if (corrected_line(&problems[0], line, column, &fix))
        error_add(err, "corrected", buf_str(&fix));
    error_add_int(err, "count", (int64_t)flow->problem_count);
    buf_puts(&all, "[");
    for (size_t i = 0; i < flow->problems.count && all.len < 4000; i++) {
        column = problem_excerpt(flow, text, len, &problems[i], line);
        buf_puts(&all, i ? ",{" : "{");
        buf_json_pair_int(&all, "line", problems[i].line);
        buf_json_pair_int(&all, "column", problems[i].column);
        buf_json_pair(&all, "message", problems[i].message);
        buf_json_pair(&all, "excerpt", line);
        if (column != problems[i].column)
            buf_json_pair_int(&all, "excerpt_column", column);
        buf_reset(&fix);
        if (corrected_line(&problems[i], line, column, &fix))
            buf_json_pair(&all, "corrected", buf_str(&fix));
        buf_puts(&all, "}");
    }
    buf_puts(&all, "]");
    return error_add_json(err, "problems", buf_str(&all));
}

int flow_load(struct flow *flow, const char *source, const char *text, size_t len, enum lang lang,
              struct tsk_error *err)
{
    *flow = (struct flow){.source = source,
                          .lang = lang,
                          .max_cycles = 10,
                          .tasks = REGION_OF(struct flow_task),
                          .needs = REGION_OF(struct flow_need),
                          .groups = REGION_OF(struct flow_group),
                          .details = REGION_OF(struct task_detail),
                          .strings = REGION_OF(char),
                          .agents = REGION_OF(struct flow_agent),
                          .slots = REGION_OF(uint32_t),
                          .task_of_node = REGION_OF(uint32_t),
                          .problems = REGION_OF(struct flow_problem)};
    struct flow_place expression = {0};
    if (graph_init(&flow->graph, err) < 0)
        return -1;
    region_add(&flow->strings, 1); /* offset 0 is none */
    err->code = TSK_OK;
    if (flow_read_file(flow, text, len, &expression, err)) {
        bool has_expression = expression.text && flow_read_expression(flow, &expression);
        flow_check(flow, has_expression);
    } else if (err->code) {
        flow_clear(flow);
        return -1;
    }
    if (!flow->problem_count)
        return 0;
    flow_refuse(flow, text, len, err);
    flow_clear(flow);
    return -1;
}

void flow_clear(struct flow *flow)
{
    for (size_t i = 0; i < flow->problems.count; i++)
        free_problem(REGION_AT(&flow->problems, struct flow_problem, i));
    free(flow->name);
    flow->name = NULL;
    json_decref(flow->params);
    flow->params = NULL;
    graph_clear(&flow->graph);
    struct region *const all[] = {&flow->tasks,   &flow->needs, &flow->groups,   &flow->details,     &flow->agents,
                                  &flow->strings, &flow->slots, &flow->problems, &flow->task_of_node};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        region_clear(all[i]);
}

int flow_open_kept(int state_dir, const char *word, char *path, size_t size)
{
    const char *dot = strrchr(word, '.');
    bool has_ending = dot && strcmp(dot, ".yaml") == 0;
    errno = ENOENT;
    if (!id_is_valid(word))
        return -1;
    snprintf(path, size, "flows/%s%s", word, has_ending ? "" : ".yaml");
    return fs->openat(state_dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
}
