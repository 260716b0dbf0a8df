/* The tree is built from libyaml's events without recursion. Nodes and strings live in chunks that go as one.
 */
#include "base/yaml.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/word.h"
#include "base/yaml_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum {
    CHUNK_SIZE = 64 * 1024,
    YAML_EXCERPT_MAX = 160,
    SMALL_MAP = 16, /* a power of two; up to here comparing with every key is cheaper than hashing */
};

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(struct yaml_node) char data[];
};

struct yaml {
    const char *source;
    const char *text; /* a copy, for excerpts */
    size_t len;
    struct chunk *chunks;
    const struct yaml_node *root;
    unsigned count;
};

static void *arena_take(struct yaml *doc, size_t size)
{
    struct chunk *chunk = doc->chunks;
    size = (size + _Alignof(struct yaml_node) - 1) & ~(_Alignof(struct yaml_node) - 1);
    if (!chunk || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK_SIZE / 4 ? size : CHUNK_SIZE - sizeof *chunk;
        chunk = malloc(sizeof *chunk + room);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = doc->chunks, .size = room};
        doc->chunks = chunk;
    }
    void *data = chunk->data + chunk->used;
    chunk->used += size;
    return data;
}

static const char *arena_copy(struct yaml *doc, const void *data, size_t len)
{
    char *copy = arena_take(doc, len + 1);
    if (copy) {
        memcpy(copy, data, len);
        copy[len] = '\0';
    }
    return copy;
}

void yaml_doc_free(struct yaml *doc)
{
    if (!doc)
        return;
    for (struct chunk *chunk = doc->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(doc);
}

void yaml_cleanup(struct yaml **doc)
{
    yaml_doc_free(*doc);
    *doc = NULL;
}

const struct yaml_node *yaml_root(const struct yaml *doc)
{
    return doc->root;
}

/* ---- errors ------------------------------------------------------------------------------------------- */

struct place {
    size_t line, column; /* 1-based */
};

/* The line with that number, without its end, cut at a character boundary. */
static void copy_excerpt(const char *text, size_t len, size_t line, char excerpt[YAML_EXCERPT_MAX + 1])
{
    const char *at = text, *end = text + len;
    for (size_t i = 1; i < line && at < end; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    size_t n = 0;
    while (at + n < end && n < YAML_EXCERPT_MAX && at[n] != '\n' && at[n] != '\r' && at[n] != '\0')
        n++;
    if (n == YAML_EXCERPT_MAX)
        while (n > YAML_EXCERPT_MAX - 4 && utf8_is_inside(at[n]))
            n--;
    memcpy(excerpt, at, n);
    excerpt[n] = '\0';
}

static int fail_at(const struct yaml *doc, struct place place, struct tsk_error *err, const char *reason)
{
    char excerpt[YAML_EXCERPT_MAX + 1];
    copy_excerpt(doc->text, doc->len, place.line, excerpt);
    error_set(err, TSK_INVALID_INPUT, "yaml_invalid", "source", doc->source, NULL);
    error_add_int(err, "line", (int64_t)place.line);
    error_add_int(err, "column", (int64_t)place.column);
    error_add(err, "reason", reason);
    return error_add(err, "excerpt", excerpt);
}

static int fail_memory(const struct yaml *doc, struct tsk_error *err)
{
    return error_no_memory(err, "read", doc->source);
}

int yaml_error(const struct yaml *doc, const struct yaml_node *node, struct tsk_error *err, const char *key, ...)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    va_list pairs;
    va_start(pairs, key);
    text_put_list(&reason, LANG_EN, key, &pairs);
    va_end(pairs);
    return fail_at(doc, (struct place){node->line, node->column}, err, buf_str(&reason));
}

#define CONTROL_PROBLEM "control characters are not allowed"

/* libyaml speaks of tokens and productions; people want to know what to change. */
static const struct {
    const char *theirs, *ours;
} reasons[] = {
    {"mapping values are not allowed in this context", "yaml_why_colon"},
    {"found character that cannot start any token", "yaml_why_token"},
    {"did not find expected key", "yaml_why_key"},
    {"did not find expected '-' indicator", "yaml_why_item"},
    {"did not find expected ',' or ']'", "yaml_why_bracket"},
    {"did not find expected ',' or '}'", "yaml_why_brace"},
    {"could not find expected ':'", "yaml_why_no_colon"},
    {"found unexpected end of stream", "yaml_why_quote"},
    {"found unexpected document indicator", "yaml_why_marker"},
    {"did not find expected <document start>", "yaml_why_rest"},
    {"block sequence entries are not allowed in this context", "yaml_why_no_item"},
    {"block mapping entries are not allowed in this context", "yaml_why_no_key"},
    {"mapping keys are not allowed in this context", "yaml_why_no_key"},
    {"found unknown escape character", "yaml_why_escape"},
    {"found a tab character that violates indentation", "yaml_why_tab"},
    {"found a tab character where an indentation space is expected", "yaml_why_tab"},
    {"did not find expected node content", "yaml_why_value"},
    {"did not find expected alphabetic or numeric character", "yaml_why_name"},
    {"did not find expected comment or line break", "yaml_why_block"},
    {CONTROL_PROBLEM, "yaml_why_control"},
};

/* A reason in English; text_put_reason says it in other languages. */
static const char *why(const char *key)
{
    return text_get(key, LANG_EN);
}

const char *yaml_parser_reason(const struct yaml_parser_s *parser)
{
    static _Thread_local char other[256];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    if (parser->error == YAML_READER_ERROR && parser->problem && strcmp(parser->problem, CONTROL_PROBLEM) != 0)
        return why("yaml_why_utf8");
    for (size_t i = 0; parser->problem && i < sizeof reasons / sizeof reasons[0]; i++)
        if (strcmp(parser->problem, reasons[i].theirs) == 0)
            return why(reasons[i].ours);
    text_put(&b, LANG_EN, "yaml_why_other", "problem", parser->problem ? parser->problem : "?", NULL);
    snprintf(other, sizeof other, "%s", buf_str(&b));
    return other;
}

yaml_mark_t yaml_parser_mark(const struct yaml_parser_s *parser)
{
    bool is_open_quote = parser->problem && strcmp(parser->problem, "found unexpected end of stream") == 0;
    return is_open_quote && parser->context ? parser->context_mark : parser->problem_mark;
}

static struct place place_of_mark(yaml_mark_t mark)
{
    return (struct place){mark.line + 1, mark.column + 1};
}

static struct place place_of_offset(const struct yaml *doc, size_t offset)
{
    struct place place = {1, 1};
    for (size_t i = 0; i < offset && i < doc->len; i++) {
        bool is_newline = doc->text[i] == '\n';
        place.line += is_newline;
        place.column = is_newline ? 1 : place.column + (!utf8_is_inside(doc->text[i]));
    }
    return place;
}

static int fail_parser(const struct yaml *doc, const yaml_parser_t *parser, struct tsk_error *err)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(doc, err);
    struct place place = parser->error == YAML_READER_ERROR ? place_of_offset(doc, parser->problem_offset)
                                                            : place_of_mark(yaml_parser_mark(parser));
    return fail_at(doc, place, err, yaml_parser_reason(parser));
}

/* ---- building ----------------------------------------------------------------------------------------- */

/* A list or map that is still open. */
struct frame {
    struct yaml_node *node;
    struct yaml_node *last;
    const char *key; /* of the value that comes next; NULL: a key comes next */
    struct place key_place;
    unsigned count;
    const struct yaml_node **slots; /* hash of the keys once there are more than SMALL_MAP */
    size_t slot_count;              /* a power of two, at most half full */
};

struct builder {
    struct yaml *doc;
    struct tsk_error *err;
    yaml_parser_t parser;
    struct frame frames[YAML_DEPTH_MAX];
    unsigned depth;
};

/* Seeded with an address, so that nobody can prepare keys that all meet in one slot. */
static size_t hash_key(const struct yaml *doc, const char *key)
{
    uint64_t hash = (uintptr_t)doc * 0x9e3779b97f4a7c15u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3u;
    return (size_t)(hash ^ hash >> 29);
}

static const struct yaml_node **anchor_slot(const struct yaml *doc, const struct frame *frame, const char *key)
{
    size_t at = hash_key(doc, key) & (frame->slot_count - 1);
    while (frame->slots[at] && strcmp(frame->slots[at]->key, key) != 0)
        at = (at + 1) & (frame->slot_count - 1);
    return &frame->slots[at];
}

static int frame_grow(const struct yaml *doc, struct frame *frame)
{
    free(frame->slots);
    frame->slot_count = frame->slot_count ? frame->slot_count * 4 : 4 * SMALL_MAP;
    frame->slots = calloc(frame->slot_count, sizeof frame->slots[0]);
    if (!frame->slots)
        return -1;
    for (const struct yaml_node *child = frame->node->first; child; child = child->next)
        *anchor_slot(doc, frame, child->key) = child;
    return 0;
}

static const struct yaml_node *frame_find(const struct yaml *doc, const struct frame *frame, const char *key)
{
    return frame->slots ? *anchor_slot(doc, frame, key) : yaml_get(frame->node, key);
}

static void frame_clear(struct frame *frame)
{
    free(frame->slots);
    frame->slots = NULL;
}

static int builder_fail(struct builder *b, const yaml_event_t *event, const char *reason)
{
    return fail_at(b->doc, place_of_mark(event->start_mark), b->err, reason);
}

/* A key was read: it waits in the frame for its value. */
static int take_key(struct builder *b, struct frame *frame, const yaml_event_t *event)
{
    if (event->type != YAML_SCALAR_EVENT)
        return builder_fail(b, event, why("yaml_why_key_text"));
    size_t len = event->data.scalar.length;
    if (len == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return builder_fail(b, event, why("yaml_why_key_missing"));
    frame->key = arena_copy(b->doc, event->data.scalar.value, len);
    if (!frame->key)
        return fail_memory(b->doc, b->err);
    frame->key_place = place_of_mark(event->start_mark);
    const struct yaml_node *same = frame_find(b->doc, frame, frame->key);
    if (!same)
        return 0;
    char key[104];
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    utf8_copy(key, sizeof key, frame->key);
    text_put(&reason, LANG_EN, "yaml_why_key_twice", "key", key, "first", DIGITS(same->key_line), NULL);
    return builder_fail(b, event, buf_str(&reason));
}

/* Hangs a new node into the open list or map. */
static int builder_attach(struct builder *b, struct yaml_node *node)
{
    if (!b->depth) {
        b->doc->root = node;
        return 0;
    }
    struct frame *frame = &b->frames[b->depth - 1];
    if (frame->last)
        frame->last->next = node;
    else
        frame->node->first = node;
    frame->last = node;
    frame->count++;
    if (frame->node->type != YAML_MAP)
        return 0;
    node->key = frame->key;
    node->key_line = (unsigned)frame->key_place.line;
    node->key_column = (unsigned)frame->key_place.column;
    frame->key = NULL;
    if (frame->slots && frame->count * 2 < frame->slot_count) {
        *anchor_slot(b->doc, frame, node->key) = node;
        return 0;
    }
    if (frame->count > SMALL_MAP && frame_grow(b->doc, frame) < 0)
        return fail_memory(b->doc, b->err);
    return 0;
}

static int node_new(struct builder *b, const yaml_event_t *event, enum yaml_type type, struct yaml_node **ret)
{
    if (++b->doc->count > YAML_NODES_MAX)
        return builder_fail(b, event, why("yaml_why_values"));
    struct yaml_node *node = arena_take(b->doc, sizeof *node);
    if (!node)
        return fail_memory(b->doc, b->err);
    struct place place = place_of_mark(event->start_mark);
    *node = (struct yaml_node){.type = type, .line = (unsigned)place.line, .column = (unsigned)place.column};
    *ret = node;
    return builder_attach(b, node);
}

static int take_scalar(struct builder *b, const yaml_event_t *event)
{
    struct yaml_node *node;
    if (node_new(b, event, YAML_SCALAR, &node) < 0)
        return -1;
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = arena_copy(b->doc, event->data.scalar.value, event->data.scalar.length);
    return node->text ? 0 : fail_memory(b->doc, b->err);
}

static int take_open(struct builder *b, const yaml_event_t *event, enum yaml_type type)
{
    struct yaml_node *node;
    if (b->depth == YAML_DEPTH_MAX)
        return builder_fail(b, event, why("yaml_why_depth"));
    if (node_new(b, event, type, &node) < 0)
        return -1;
    b->frames[b->depth++] = (struct frame){.node = node};
    return 0;
}

const char *yaml_event_refusal(const struct yaml_event_s *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return why("yaml_why_alias");
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (memchr(event->data.scalar.value, '\0', event->data.scalar.length))
            return why("yaml_why_nul");
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    return anchor ? why("yaml_why_anchor") : tag ? why("yaml_why_tag") : NULL;
}

static int take_value(struct builder *b, const yaml_event_t *event)
{
    const char *refusal = yaml_event_refusal(event);
    if (refusal)
        return builder_fail(b, event, refusal);
    struct frame *frame = b->depth ? &b->frames[b->depth - 1] : NULL;
    if (frame && frame->node->type == YAML_MAP && !frame->key)
        return take_key(b, frame, event);
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
        return take_open(b, event, YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        return take_open(b, event, YAML_MAP);
    default:
        return take_scalar(b, event);
    }
}

static int take_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return b->doc->root ? builder_fail(b, event, why("yaml_why_second")) : 0;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        frame_clear(&b->frames[--b->depth]);
        return 0;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return take_value(b, event);
    default:
        return 0;
    }
}

static int builder_run(struct builder *b)
{
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&b->parser, &event))
            return fail_parser(b->doc, &b->parser, b->err);
        bool is_end = event.type == YAML_STREAM_END_EVENT;
        int rc = take_event(b, &event);
        yaml_event_delete(&event);
        if (rc < 0 || is_end)
            return rc;
    }
}

/* Nothing, or only comments: an empty map. `---` alone is a plain empty scalar, which means the same. */
static int settle_root(struct yaml *doc, struct tsk_error *err)
{
    if (doc->root && !(yaml_is_null(doc->root) && !doc->root->text[0]))
        return 0;
    struct yaml_node *root = arena_take(doc, sizeof *root);
    if (!root)
        return fail_memory(doc, err);
    *root = (struct yaml_node){.type = YAML_MAP, .line = 1, .column = 1};
    doc->root = root;
    return 0;
}

static int parse_into(struct yaml *doc, struct tsk_error *err)
{
    struct builder b = {.doc = doc, .err = err};
    if (!yaml_parser_initialize(&b.parser))
        return fail_memory(doc, err);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)doc->text, doc->len);
    int rc = builder_run(&b);
    while (b.depth)
        frame_clear(&b.frames[--b.depth]);
    yaml_parser_delete(&b.parser);
    return rc < 0 ? -1 : settle_root(doc, err);
}

int yaml_parse(const char *text, size_t len, const char *source, struct yaml **ret, struct tsk_error *err)
{
    if (len >= 3 && memcmp(text, YAML_BOM, 3) == 0) { /* no part of the text; libyaml would count it as a column */
        text += 3;
        len -= 3;
    }
    struct yaml outside = {.source = source, .text = text, .len = len};
    if (len > YAML_SIZE_MAX)
        return fail_at(&outside, (struct place){1, 1}, err, why("yaml_why_size"));
    struct yaml *doc CLEANUP(yaml_cleanup) = malloc(sizeof *doc);
    if (!doc)
        return fail_memory(&outside, err);
    *doc = (struct yaml){.source = source, .len = len};
    doc->text = arena_copy(doc, text, len);
    if (!doc->text)
        return fail_memory(doc, err);
    if (parse_into(doc, err) < 0)
        return -1;
    *ret = doc;
    doc = NULL;
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (!map || map->type != YAML_MAP)
        return NULL;
    for (const struct yaml_node *child = map->first; child; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

static bool is_plain_scalar(const struct yaml_node *node)
{
    return node && node->type == YAML_SCALAR && node->is_plain;
}

int yaml_int(const struct yaml_node *node, int64_t *ret)
{
    if (!is_plain_scalar(node))
        return -1;
    const char *digits = node->text + (node->text[0] == '-');
    if (!*digits || digits[strspn(digits, "0123456789")])
        return -1;
    errno = 0;
    long long value = strtoll(node->text, NULL, 10);
    if (errno)
        return -1;
    *ret = value;
    return 0;
}

int yaml_bool(const struct yaml_node *node, bool *ret)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    if (!is_plain_scalar(node))
        return -1;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(node->text, words[i]) == 0) {
            *ret = i % 2;
            return 0;
        }
    return -1;
}

bool yaml_is_null(const struct yaml_node *node)
{
    return is_plain_scalar(node) &&
           (!node->text[0] || strcmp(node->text, "~") == 0 || strcasecmp(node->text, "null") == 0);
}

const char *yaml_text(const struct yaml_node *node)
{
    return node && node->type == YAML_SCALAR && !yaml_is_null(node) ? node->text : NULL;
}
