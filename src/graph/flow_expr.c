/* flow_expr.c - `a >> (b | c) >> d`: >> is sequence and binds tighter than |, parallel. Parentheses nest, `name( … )` names a
 * group. Read into a small tree first, because only the `|` tells whether a parenthesis is a group. */
#include "base/utf8.h"
#include "graph/flow.h"

#include <stdio.h>
#include <string.h>

#define NESTING_MAX 256 /* a thread with 512 KiB of stack reads it: what recurses keeps its frames small */

enum expr_kind { EXPR_TASK, EXPR_SEQUENCE, EXPR_PARALLEL };

struct expr {
    enum expr_kind kind;
    uint32_t name; /* of a task, or of a named group; 0: none */
    uint32_t line, column;
    uint32_t first, last, next; /* index + 1 */
};

enum word_kind { WORD_END, WORD_NAME, WORD_THEN, WORD_OR, WORD_OPEN, WORD_CLOSE, WORD_WRONG };

struct word {
    enum word_kind kind;
    size_t from, len;
    uint32_t line, column;
};

struct parsing {
    struct flow *flow;
    const char *text;
    size_t at, to;
    uint32_t line, column; /* of `at` */
    struct word word;      /* the current one */
    struct region nodes;
    unsigned depth;
    struct tsk_error err; /* too large for a frame of what recurses */
    unsigned anonymous;   /* groups without a name so far */
    size_t failed_at;     /* the end of the last word that was wrong */
    bool has_failed;
};

/* ---- words ---------------------------------------------------------------------------------------------- */

static void expr_advance(struct parsing *p)
{
    if (p->text[p->at] == '\n') {
        p->line++;
        p->column = 0;
    }
    p->at++;
    while (p->at < p->to && utf8_is_inside(p->text[p->at]))
        p->at++;
    p->column++;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

static enum word_kind kind_at(const struct parsing *p)
{
    switch (p->text[p->at]) {
    case '|':
        return WORD_OR;
    case '(':
        return WORD_OPEN;
    case ')':
        return WORD_CLOSE;
    case '>':
        return p->at + 1 < p->to && p->text[p->at + 1] == '>' ? WORD_THEN : WORD_WRONG;
    default:
        return is_name_byte(p->text[p->at]) ? WORD_NAME : WORD_WRONG;
    }
}

static void next_word(struct parsing *p)
{
    while (p->at < p->to && strchr(" \t\r\n", p->text[p->at]))
        expr_advance(p);
    p->word = (struct word){.kind = WORD_END, .from = p->at, .line = p->line, .column = p->column};
    if (p->at >= p->to)
        return;
    p->word.kind = kind_at(p);
    do
        expr_advance(p);
    while (p->at < p->to && ((p->word.kind == WORD_NAME && is_name_byte(p->text[p->at])) ||
                             (p->word.kind == WORD_THEN && p->at < p->word.from + 2)));
    p->word.len = p->at - p->word.from;
}

static void expr_fail(struct parsing *p, const char *key)
{
    char shown[64];
    size_t end = p->word.from + p->word.len;
    if (p->has_failed && p->failed_at >= end)
        return; /* a word is wrong once */
    p->has_failed = true;
    p->failed_at = end;
    snprintf(shown, sizeof shown, "%.*s", (int)(p->word.len < 60 ? p->word.len : 60), p->text + p->word.from);
    flow_problem(p->flow, p->word.line, p->word.column, p->word.kind == WORD_END ? "expr_ends" : key, "word", shown,
                 NULL);
}

/* ---- the tree ------------------------------------------------------------------------------------------- */

static struct expr *expr_at(const struct parsing *p, uint32_t index)
{
    return REGION_AT(&p->nodes, struct expr, index - 1);
}

static uint32_t expr_new(struct parsing *p, enum expr_kind kind)
{
    struct expr *made = region_add(&p->nodes, 1);
    BUG(!made);
    *made = (struct expr){.kind = kind, .line = p->word.line, .column = p->word.column};
    return (uint32_t)p->nodes.count;
}

static void expr_add(struct parsing *p, uint32_t parent, uint32_t child)
{
    struct expr *e = expr_at(p, parent);
    if (e->last)
        expr_at(p, e->last)->next = child;
    else
        e->first = child;
    e->last = child;
}

static uint32_t parse_parallel(struct parsing *p);

/* After a mistake the parser continues as if the unexpected word were absent, or the missing one present, so that all mistakes are
 * reported at once. The expression is then not built; only its names are looked up. */
static void skip_wrong(struct parsing *p)
{
    while (p->word.kind == WORD_WRONG)
        next_word(p);
}

static void expr_give_up(struct parsing *p, const char *key)
{
    expr_fail(p, key);
    p->failed_at = SIZE_MAX;
    p->at = p->to;
}

/* Behind the `(`. A parenthesis without | and without a name only groups words. */
static uint32_t parse_parenthesis(struct parsing *p, uint32_t name)
{
    if (++p->depth > NESTING_MAX)
        expr_give_up(p, "expr_deep");
    next_word(p);
    if (p->word.kind == WORD_CLOSE)
        expr_fail(p, "expr_empty");
    uint32_t inner = p->word.kind == WORD_CLOSE ? 0 : parse_parallel(p);
    if (p->word.kind != WORD_CLOSE)
        expr_fail(p, "expr_close");
    next_word(p);
    p->depth--;
    if (!inner)
        return expr_new(p, EXPR_TASK);
    if (!name && !expr_at(p, expr_at(p, inner)->first)->next)
        return expr_at(p, inner)->first;
    expr_at(p, inner)->name = name;
    return inner;
}

static uint32_t parse_item(struct parsing *p)
{
    if (p->word.kind != WORD_NAME && p->word.kind != WORD_OPEN) {
        expr_fail(p, "expr_item");
        skip_wrong(p);
    }
    if (p->word.kind == WORD_OPEN)
        return parse_parenthesis(p, 0);
    uint32_t item = expr_new(p, EXPR_TASK);
    if (p->word.kind != WORD_NAME)
        return item;
    uint32_t name = flow_string_add(p->flow, p->text + p->word.from, p->word.len);
    expr_at(p, item)->name = name;
    next_word(p);
    if (p->word.kind != WORD_OPEN)
        return item;
    uint32_t group = parse_parenthesis(p, name);
    expr_at(p, item)->name = 0; /* it was the group's */
    expr_at(p, group)->line = expr_at(p, item)->line;
    expr_at(p, group)->column = expr_at(p, item)->column;
    return group;
}

static uint32_t parse_sequence(struct parsing *p)
{
    uint32_t sequence = expr_new(p, EXPR_SEQUENCE);
    for (;;) {
        uint32_t item = parse_item(p);
        expr_add(p, sequence, item);
        bool has_none = p->word.kind == WORD_WRONG || p->word.kind == WORD_NAME || p->word.kind == WORD_OPEN;
        if (has_none) {
            expr_fail(p, p->depth ? "expr_close" : "expr_between");
            skip_wrong(p);
        }
        bool goes_on = p->word.kind == WORD_NAME || p->word.kind == WORD_OPEN;
        if (p->word.kind == WORD_THEN)
            next_word(p);
        else if (!has_none || !goes_on)
            return sequence;
    }
}

static uint32_t parse_parallel(struct parsing *p)
{
    uint32_t parallel = expr_new(p, EXPR_PARALLEL);
    for (;;) {
        uint32_t sequence = parse_sequence(p);
        expr_add(p, parallel, sequence);
        if (p->word.kind != WORD_OR)
            return parallel;
        next_word(p);
    }
}

/* All of it: what follows a `)` that closes nothing is looked at, too. */
static uint32_t parse_all(struct parsing *p)
{
    next_word(p);
    uint32_t root = parse_parallel(p);
    while (p->word.kind == WORD_CLOSE) {
        expr_fail(p, "expr_open");
        next_word(p);
        if (p->word.kind == WORD_THEN || p->word.kind == WORD_OR)
            next_word(p);
        if (p->word.kind != WORD_END && p->word.kind != WORD_CLOSE)
            parse_parallel(p);
    }
    return root;
}

/* ---- the graph ------------------------------------------------------------------------------------------ */

/* The first and the last node of what was built. */
struct ends {
    uint32_t first, last;
};

static struct ends expr_build(struct parsing *p, uint32_t scope, uint32_t index);

/* Its index; if there is none, that is reported. */
static uint32_t find_task(struct parsing *p, const struct expr *e)
{
    struct flow *flow = p->flow;
    const char *name = flow_string(flow, e->name);
    uint32_t index = flow_find(flow, name);
    if (index == NO_NODE) {
        const char *near = flow_nearest_task(flow, name);
        flow_problem(flow, e->line, e->column, near ? "flow_no_task_near" : "flow_no_task", "name", name, "near",
                     near ? near : "", NULL);
    }
    return index;
}

static uint32_t build_task(struct parsing *p, uint32_t scope, const struct expr *e)
{
    struct flow *flow = p->flow;
    const char *name = flow_string(flow, e->name);
    uint32_t index = find_task(p, e);
    if (index == NO_NODE)
        return NO_NODE;
    if (flow_task(flow, index)->is_in_expression) {
        flow_problem(flow, e->line, e->column, "expr_twice", "name", name, NULL);
        return NO_NODE;
    }
    BUG(flow_add_node(flow, scope, index, &p->err) < 0);
    flow_task(flow, index)->is_in_expression = true;
    return flow_task(flow, index)->node;
}

static bool is_taken(const struct parsing *p, const char *name)
{
    return flow_find(p->flow, name) != NO_NODE || graph_find(&p->flow->graph, name) != NO_NODE;
}

/* Its own, or the first of `group-1`, `group-2`, … that nobody else has; also when its own is taken, so that what is in it is
 * looked at as well. */
static void group_name(struct parsing *p, const struct expr *e, char name[140])
{
    if (e->name) {
        snprintf(name, 140, "%s", flow_string(p->flow, e->name));
        if (!is_taken(p, name))
            return;
        flow_problem(p->flow, e->line, e->column, "expr_group_name", "name", name, NULL);
        p->flow->has_taken_name = true;
    }
    do
        snprintf(name, 140, "group-%u", ++p->anonymous);
    while (is_taken(p, name));
}

static uint32_t build_group(struct parsing *p, uint32_t scope, uint32_t index)
{
    struct flow *flow = p->flow;
    const struct expr e = *expr_at(p, index);
    char name[140];
    uint32_t node, branch;
    group_name(p, &e, name);
    if (graph_add_group(&flow->graph, scope, name, TSK_POLICY_STRICT, &node, &p->err) < 0) {
        flow_problem(flow, e.line, e.column, "flow_name", "value", name, NULL);
        return NO_NODE;
    }
    for (uint32_t child = e.first; child; child = expr_at(p, child)->next) {
        BUG(graph_add_branch(&flow->graph, node, NULL, &branch, &p->err) < 0);
        expr_build(p, branch, child);
    }
    return node;
}

static struct ends expr_build(struct parsing *p, uint32_t scope, uint32_t index)
{
    struct ends ends = {NO_NODE, NO_NODE};
    const struct expr e = *expr_at(p, index);
    if (e.kind == EXPR_TASK)
        ends.first = ends.last = build_task(p, scope, &e);
    else if (e.kind == EXPR_PARALLEL)
        ends.first = ends.last = build_group(p, scope, index);
    for (uint32_t child = e.kind == EXPR_SEQUENCE ? e.first : 0; child; child = expr_at(p, child)->next) {
        struct ends step = expr_build(p, scope, child);
        if (ends.last != NO_NODE && step.first != NO_NODE)
            BUG(graph_add_edge(&p->flow->graph, ends.last, step.first, &p->err) < 0);
        ends.first = ends.first == NO_NODE ? step.first : ends.first;
        ends.last = step.last == NO_NODE ? ends.last : step.last;
    }
    return ends;
}

bool flow_read_expression(struct flow *flow, const struct flow_place *place)
{
    struct parsing p = {.flow = flow,
                        .text = place->text,
                        .at = place->from,
                        .to = place->to,
                        .line = place->line,
                        .column = place->column,
                        .nodes = REGION_OF(struct expr)};
    uint32_t root = parse_all(&p);
    for (uint32_t i = 1; p.has_failed && i <= p.nodes.count; i++)
        if (expr_at(&p, i)->kind == EXPR_TASK && expr_at(&p, i)->name)
            find_task(&p, expr_at(&p, i));
    if (!p.has_failed) {
        bool is_sequence = !expr_at(&p, expr_at(&p, root)->first)->next;
        expr_build(&p, GRAPH_ROOT, is_sequence ? expr_at(&p, root)->first : root);
    }
    region_clear(&p.nodes);
    return !p.has_failed;
}
