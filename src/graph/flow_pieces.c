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

static void unknown_key(struct reading *r, const struct key_rule *rules)
{
    const char *names[24];
    size_t count = 0;
    for (; rules[count].key && count < 24; count++)
        names[count] = rules[count].key;
    const char *near = nearest_word(r->piece.text, names, count);
    struct buf all CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < count; i++)
        buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
    flow_problem(r->flow, r->piece.line, r->piece.column, near ? "flow_key_near" : "flow_key", "key", r->piece.text,
                 near ? "near" : "want", near ? near : buf_str(&all), NULL);
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
        size_t i = 0;
        while (r->piece.type == YAML_PIECE_SCALAR && rules[i].key && strcmp(rules[i].key, r->piece.text) != 0)
            i++;
        bool is_known = r->piece.type == YAML_PIECE_SCALAR && rules[i].key;
        if (r->piece.type != YAML_PIECE_SCALAR)
            piece_wrong(r, "flow_want_text");
        else if (!is_known)
            unknown_key(r, rules);
        else if (seen & 1u << i)
            flow_problem(r->flow, r->piece.line, r->piece.column, "flow_key_twice", "key", r->piece.text, NULL);
        seen |= is_known ? 1u << i : 0;
        if (!piece_next(r))
            return;
        if (is_known)
            rules[i].read(r, target);
        else
            piece_skip(r);
    }
}
