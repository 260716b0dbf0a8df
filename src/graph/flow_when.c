/* flow_when.c - the language of `when`, read and evaluated in one pass:
 *
 *     condition  = any { "or" any }            any     = one { "and" one }
 *     one        = "not" one | "(" condition ")" | KEY operator value
 *     operator   = "==" "!=" "<" "<=" ">" ">=" "in"
 *     value      = number | true | false | a text in quotes | word      behind "in": "[" value { "," value } "]"
 *
 * A key that is not in the channel equals nothing and is in no list. */
#include "base/json.h"
#include "graph/flow.h"

#include <string.h>

#define WHEN_DEPTH_MAX 64
#define BLANKS         " \t\n"
#define STOPS          BLANKS "=!<>()[],'\"&|"

enum sort { SORT_END, SORT_WORD, SORT_TEXT, SORT_SIGN };

struct piece {
    enum sort sort;
    const char *at; /* where it stands */
    const char *text;
    size_t len;
};

struct reader {
    const char *at;
    struct piece next;
    const json_t *values; /* NULL: only whether it is a condition */
    const char *problem, *place;
    unsigned depth;
};

static bool when_fail(struct reader *r, const char *problem, const char *place)
{
    if (!r->problem) {
        r->problem = problem;
        r->place = place;
    }
    return false;
}

static void when_advance(struct reader *r)
{
    const char *at = r->at + strspn(r->at, BLANKS);
    struct piece *piece = &r->next;
    *piece = (struct piece){.sort = SORT_SIGN, .at = at, .text = at, .len = 1};
    if (!*at) {
        piece->sort = SORT_END;
        piece->len = 0;
    } else if (strchr("\"'", *at)) {
        const char *end = strchr(at + 1, *at);
        if (!end)
            when_fail(r, "flow_when_quote", at);
        piece->sort = SORT_TEXT;
        piece->text = at + 1;
        piece->len = end ? (size_t)(end - at) - 1 : strlen(at + 1);
        r->at = end ? end + 1 : at + strlen(at);
        return;
    } else if (strchr("=!<>", *at)) {
        piece->len = at[1] == '=' ? 2 : 1;
    } else if (!strchr(STOPS, *at)) {
        piece->sort = SORT_WORD;
        piece->len = strcspn(at, STOPS);
    }
    r->at = at + piece->len;
}

static bool piece_is(const struct piece *piece, enum sort sort, const char *text)
{
    return piece->sort == sort && piece->len == strlen(text) && memcmp(piece->text, text, piece->len) == 0;
}

/* Takes the next piece if it is that one. */
static bool when_take(struct reader *r, enum sort sort, const char *text)
{
    if (!piece_is(&r->next, sort, text))
        return false;
    when_advance(r);
    return true;
}

static bool piece_is_reserved(const struct piece *piece)
{
    return piece_is(piece, SORT_WORD, "and") || piece_is(piece, SORT_WORD, "or") || piece_is(piece, SORT_WORD, "not") ||
           piece_is(piece, SORT_WORD, "in");
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

/* A number, or a text that is one; NULL: neither. Owned. */
static json_t *number_of_value(const json_t *value)
{
    if (json_is_string(value))
        return json_number_of_text(json_string_value(value));
    return json_is_number(value) ? json_incref((json_t *)value) : NULL;
}

/* A word that is a number; NULL: it is none, or it is in quotes. Owned. */
static json_t *number_of_piece(const struct piece *piece)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (piece->sort != SORT_WORD)
        return NULL;
    buf_put(&text, piece->text, piece->len);
    return json_number_of_text(buf_str(&text));
}

static int order_of(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) /* above 2^53 two of them are the same double */
        return (json_integer_value(a) > json_integer_value(b)) - (json_integer_value(a) < json_integer_value(b));
    return (json_number_value(a) > json_number_value(b)) - (json_number_value(a) < json_number_value(b));
}

/* Two numbers as numbers, everything else as it is printed. */
static bool when_is_equal(const json_t *value, const struct piece *piece)
{
    json_t *left CLEANUP_JSON = number_of_value(value), *right CLEANUP_JSON = number_of_piece(piece);
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!value)
        return false;
    if (left && right)
        return order_of(left, right) == 0;
    if (json_is_string(value))
        buf_puts(&text, json_string_value(value));
    else
        json_write(&text, value, false);
    return text.len == piece->len && memcmp(buf_str(&text), piece->text, piece->len) == 0;
}

/* What is no number is neither less nor greater. */
static bool is_ordered(const json_t *value, const struct piece *sign, const struct piece *piece)
{
    json_t *left CLEANUP_JSON = number_of_value(value), *right CLEANUP_JSON = number_of_piece(piece);
    if (!left || !right)
        return false;
    int order = order_of(left, right);
    return (sign->len == 2 && order == 0) || (sign->text[0] == '<' ? order < 0 : order > 0);
}

/* ---- reading -------------------------------------------------------------------------------------------- */

static bool when_take_value(struct reader *r, struct piece *ret)
{
    *ret = r->next;
    bool is_value = ret->sort == SORT_TEXT || (ret->sort == SORT_WORD && !piece_is_reserved(ret));
    if (!is_value)
        return when_fail(r, "flow_when_value", ret->at);
    when_advance(r);
    return true;
}

static bool in_list(struct reader *r, const json_t *value)
{
    bool found = false;
    struct piece piece;
    if (!when_take(r, SORT_SIGN, "["))
        return when_fail(r, "flow_when_list", r->next.at);
    do {
        if (!when_take_value(r, &piece))
            return false;
        found = when_is_equal(value, &piece) || found;
    } while (when_take(r, SORT_SIGN, ","));
    return when_take(r, SORT_SIGN, "]") ? found : when_fail(r, "flow_when_list", r->next.at);
}

static bool is_operator(const struct piece *piece)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (piece_is(piece, SORT_SIGN, signs[i]))
            return true;
    return false;
}

static bool when_comparison(struct reader *r)
{
    struct piece key = r->next, sign, piece;
    if (key.sort != SORT_WORD || piece_is_reserved(&key))
        return when_fail(r, "flow_when_key", key.at);
    when_advance(r);
    const json_t *value = json_object_getn(r->values, key.text, key.len);
    if (when_take(r, SORT_WORD, "in"))
        return in_list(r, value);
    sign = r->next;
    if (!is_operator(&sign))
        return when_fail(r, "flow_when_operator", sign.at);
    when_advance(r);
    if (!when_take_value(r, &piece))
        return false;
    if (sign.text[0] != '=' && sign.text[0] != '!') {
        json_t *number CLEANUP_JSON = number_of_piece(&piece);
        return number ? is_ordered(value, &sign, &piece) : when_fail(r, "flow_when_number", piece.at);
    }
    return when_is_equal(value, &piece) == (sign.text[0] == '=');
}

static bool when_condition(struct reader *r);

static bool when_one(struct reader *r)
{
    if (r->depth++ >= WHEN_DEPTH_MAX)
        return when_fail(r, "flow_when_deep", r->next.at);
    bool holds;
    if (when_take(r, SORT_WORD, "not")) {
        holds = !when_one(r);
    } else if (when_take(r, SORT_SIGN, "(")) {
        holds = when_condition(r);
        if (!when_take(r, SORT_SIGN, ")"))
            when_fail(r, "flow_when_close", r->next.at);
    } else {
        holds = when_comparison(r);
    }
    r->depth--;
    return holds;
}

static bool when_all(struct reader *r)
{
    bool holds = when_one(r);
    while (!r->problem && when_take(r, SORT_WORD, "and"))
        holds = when_one(r) && holds;
    return holds;
}

static bool when_condition(struct reader *r)
{
    bool holds = when_all(r);
    while (!r->problem && when_take(r, SORT_WORD, "or"))
        holds = when_all(r) || holds;
    return holds;
}

static bool when_evaluate(struct reader *r)
{
    when_advance(r);
    bool holds = when_condition(r);
    if (r->next.sort != SORT_END)
        when_fail(r, "flow_when_end", r->next.at);
    return holds && !r->problem;
}

const char *flow_condition_problem(const char *text, size_t *ret_at)
{
    struct reader r = {.at = text};
    if (strcmp(text, "never") == 0)
        return NULL;
    when_evaluate(&r);
    if (r.problem)
        *ret_at = (size_t)(r.place - text);
    return r.problem;
}

bool flow_condition_holds(const char *text, const struct json_t *values)
{
    struct reader r = {.at = text, .values = values};
    return strcmp(text, "never") != 0 && when_evaluate(&r);
}
