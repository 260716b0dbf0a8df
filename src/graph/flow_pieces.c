#include "graph/flow_pieces.h"
#include "base/clock.h"
#include "base/word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool piece_next(struct reading *r)
{
    const char *reason;
    if (r->is_broken)
        return false;
    if (yaml_reader_next(r->reader, &r->piece, &reason) == 0)
        return true;
    r->is_broken = true;
    flow_problem(r->flow, r->piece.line, r->piece.column, "flow_yaml", "reason", reason, NULL);
    return false;
}

/* Behind the value that begins with the current piece. */
void piece_skip(struct reading *r)
{
    unsigned depth = 0;
    do {
        if (r->piece.type == YAML_PIECE_LIST || r->piece.type == YAML_PIECE_MAP)
            depth++;
        else if (r->piece.type == YAML_PIECE_END)
            depth--;
    } while (depth && piece_next(r));
}

void piece_wrong(struct reading *r, const char *want)
{
    flow_problem(r->flow, r->piece.line, r->piece.column, "flow_want", "want", text_get(want, r->flow->lang), NULL);
    piece_skip(r);
}

const char *piece_scalar(struct reading *r, const char *want)
{
    if (r->piece.type == YAML_PIECE_SCALAR && r->piece.len)
        return r->piece.text;
    piece_wrong(r, want);
    return NULL;
}

int64_t piece_number(struct reading *r, int64_t min, int64_t max, int64_t fallback)
{
    char *end;
    const char *text = piece_scalar(r, "flow_want_number");
    if (!text)
        return fallback;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!errno && !*end && r->piece.is_plain && value >= min && value <= max)
        return value;
    char range[64];
    snprintf(range, sizeof range, "%lld … %lld", (long long)min, (long long)max);
    flow_problem(r->flow, r->piece.line, r->piece.column, "flow_number", "value", text, "range", range, NULL);
    return fallback;
}

double piece_fraction(struct reading *r, double min, double max, double fallback)
{
    char *end, range[64];
    const char *text = piece_scalar(r, "flow_want_number");
    if (!text)
        return fallback;
    double value = strtod(text, &end);
    if (!*end && value >= min && value <= max)
        return value;
    snprintf(range, sizeof range, "%g … %g", min, max);
    flow_problem(r->flow, r->piece.line, r->piece.column, "flow_number", "value", text, "range", range, NULL);
    return fallback;
}

int64_t piece_duration(struct reading *r, int64_t fallback)
{
    int64_t ms;
    const char *text = piece_scalar(r, "flow_want_duration");
    if (!text)
        return fallback;
    if (duration_parse(text, &ms) == 0)
        return ms;
    flow_problem(r->flow, r->piece.line, r->piece.column, "flow_duration", "value", text, NULL);
    return fallback;
}

size_t piece_choice(struct reading *r, const char *const *choices, size_t fallback)
{
    char want[128] = "";
    size_t at = 0;
    const char *text = piece_scalar(r, "flow_want_text");
    for (size_t i = 0; text && choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0)
            return i;
        at += (size_t)snprintf(want + at, sizeof want - at, "%s%s", at ? ", " : "", choices[i]);
    }
    if (text)
        flow_problem(r->flow, r->piece.line, r->piece.column, "flow_choice", "value", text, "want", want, NULL);
    return fallback;
}

uint32_t piece_string(struct reading *r)
{
    const char *text = piece_scalar(r, "flow_want_text");
    return text ? flow_string_add(r->flow, text, r->piece.len) : 0;
}

/* The strings of a list, one behind the other; *ret_count of them. */
uint32_t piece_strings(struct reading *r, uint32_t *ret_count)
{
    uint32_t first = 0;
    *ret_count = 0;
    if (r->piece.type != YAML_PIECE_LIST) {
        piece_wrong(r, "flow_want_list");
        return 0;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        if (r->piece.type != YAML_PIECE_SCALAR) {
            piece_wrong(r, "flow_want_text");
            continue;
        }
        uint32_t offset = flow_string_add(r->flow, r->piece.text, r->piece.len);
        first = first ? first : offset;
        ++*ret_count;
    }
    return first;
}

/* What other tools call a key of ours. */
static const struct {
    const char *foreign, *ours;
} known_elsewhere[] = {
    {"depends_on", "needs"},
    {"depends", "needs"},
    {"dependencies", "needs"},
    {"deps", "needs"},
    {"after", "needs"},
    {"requires", "needs"},
    {"command", "run"},
    {"cmd", "run"},
    {"commands", "run"},
    {"script", "run"},
    {"exec", "run"},
    {"environment", "env"},
    {"working_dir", "cwd"},
    {"workdir", "cwd"},
    {"dir", "cwd"},
    {"directory", "cwd"},
    {"working-directory", "cwd"},
    {"retry", "retries"},
    {"max_retries", "retries"},
    {"if", "when"},
    {"condition", "when"},
    {"timeout-minutes", "timeout"},
    {"steps", "tasks"},
    {"jobs", "tasks"},
    {"stages", "tasks"},
    {"max-parallel", "parallel"},
    {"params", "channel"},
    {"parameters", "params"},
    {"inputs", "params"},
};

/* Whether the value of another tool's key means the same under ours: minutes are no duration. */
static bool keeps_value(const char *foreign)
{
    return strcmp(foreign, "timeout-minutes") != 0;
}

static const struct key_rule *rule_of(const char *key, const struct key_rule *rules)
{
    for (; rules->key; rules++)
        if (strcmp(rules->key, key) == 0)
            return rules;
    return NULL;
}

/* What an unknown key means. */
struct meaning {
    const struct key_rule *rule; /* NULL: nothing that is known */
    const char *foreign;         /* another tool's name for it; NULL: a slip of the pen in our own */
    bool is_exact;               /* the foreign name is written as that tool writes it */
};

/* Our own keys come before those of other tools, unless one of these was written exactly. */
static struct meaning key_meant(const char *key, const struct key_rule *rules)
{
    enum { FOREIGN = sizeof known_elsewhere / sizeof known_elsewhere[0] };
    const char *names[24], *foreign[FOREIGN], *near;
    size_t count = 0, others = 0;
    for (size_t i = 0; i < FOREIGN; i++) {
        const struct key_rule *rule = rule_of(known_elsewhere[i].ours, rules);
        if (rule && strcmp(known_elsewhere[i].foreign, key) == 0)
            return (struct meaning){rule, key, true};
        if (rule)
            foreign[others++] = known_elsewhere[i].foreign;
    }
    for (; rules[count].key && count < 24; count++)
        names[count] = rules[count].key;
    if ((near = nearest_word(key, names, count)))
        return (struct meaning){rule_of(near, rules), NULL, false};
    near = nearest_word(key, foreign, others);
    for (size_t i = 0; near && i < FOREIGN; i++)
        if (known_elsewhere[i].foreign == near)
            return (struct meaning){rule_of(known_elsewhere[i].ours, rules), near, false};
    return (struct meaning){0};
}

/* Reports it. Returns the rule that it means, so that its value does not seem to be missing; NULL: none. */
static const struct key_rule *unknown_key(struct reading *r, const struct key_rule *rules)
{
    struct meaning meant = key_meant(r->piece.text, rules);
    struct buf all CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; rules[i].key; i++)
        buf_printf(&all, "%s%s", i ? ", " : "", rules[i].key);
    flow_problem(r->flow, r->piece.line, r->piece.column,
                 meant.is_exact ? "flow_key_called"
                 : meant.rule   ? "flow_key_near"
                                : "flow_key",
                 "key", r->piece.text, meant.rule ? "near" : "want", meant.rule ? meant.rule->key : buf_str(&all),
                 NULL);
    if (meant.rule && (!meant.foreign || keeps_value(meant.foreign)))
        flow_problem_fix(r->flow, r->piece.text, meant.rule->key);
    return meant.rule;
}

/* A map with fixed keys. The current piece is its beginning. */
void piece_map(struct reading *r, const struct key_rule *rules, void *target)
{
    uint32_t seen = 0;
    if (r->piece.type != YAML_PIECE_MAP) {
        piece_wrong(r, "flow_want_map");
        return;
    }
    while (piece_next(r) && r->piece.type != YAML_PIECE_END) {
        const struct key_rule *rule = rules;
        while (r->piece.type == YAML_PIECE_SCALAR && rule->key && strcmp(rule->key, r->piece.text) != 0)
            rule++;
        bool is_known = r->piece.type == YAML_PIECE_SCALAR && rule->key;
        const struct key_rule *meant = is_known ? rule : NULL;
        uint32_t bit = is_known ? 1u << (rule - rules) : 0;
        if (r->piece.type != YAML_PIECE_SCALAR)
            piece_wrong(r, "flow_want_text");
        else if (!is_known)
            meant = unknown_key(r, rules);
        else if (seen & bit)
            flow_problem(r->flow, r->piece.line, r->piece.column, "flow_key_twice", "key", r->piece.text, NULL);
        seen |= bit;
        if (!piece_next(r))
            return;
        if (meant)
            meant->read(r, target);
        else
            piece_skip(r);
    }
}

/* `- name: a`, as other tools have it: `a:` is the same here. Reads to the end of the list. */
void piece_refuse_task_list(struct reading *r)
{
    struct buf wrong CLEANUP(buf_clear) = BUF_INIT, right CLEANUP(buf_clear) = BUF_INIT;
    flow_problem(r->flow, r->piece.line, r->piece.column, "flow_tasks_list", NULL);
    for (int depth = 1, at = 1; depth > 0 && piece_next(r); at++) {
        bool is_scalar = r->piece.type == YAML_PIECE_SCALAR;
        depth += r->piece.type == YAML_PIECE_END ? -1 : is_scalar ? 0 : 1;
        if (at == 2 && depth == 2 && is_scalar)
            buf_printf(&wrong, "- %s: ", r->piece.text);
        if (at != 3 || !is_scalar || strcmp(buf_str(&wrong), "- name: ") != 0)
            continue;
        buf_puts(&wrong, r->piece.text);
        buf_printf(&right, "%s:", r->piece.text);
        flow_problem_fix(r->flow, buf_str(&wrong), buf_str(&right));
    }
}
