/* yaml.h - a small YAML tree (libyaml) with the position of every node.
 *
 * For files that people write: every node has its line and column (1-based), so that an error can say
 * `file:line:column`. Duplicate keys are refused; so are aliases and anchors (billion laughs), tags, several
 * documents, more than YAML_DEPTH_MAX levels, YAML_NODES_MAX nodes or YAML_SIZE_MAX bytes.
 *
 *     struct yaml *doc;
 *     if (yaml_parse(text, len, "config.yaml", &doc, err) < 0) return -1;
 *     const struct yaml_node *ttl = yaml_get(yaml_root(doc), "ttl");
 *     ...
 *     yaml_doc_free(doc);   // all nodes and strings go with it */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/buf.h"
#include "base/error.h"

#define YAML_DEPTH_MAX 64
#define YAML_SIZE_MAX  (16u << 20)
#define YAML_NODES_MAX 1000000u
#define YAML_BOM       "\xef\xbb\xbf" /* may precede the text; positions do not count it */

enum yaml_type { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_type type;
    unsigned line, column;
    bool is_plain;    /* an unquoted scalar: the only kind that can be a number, a boolean or null */
    const char *text; /* scalars: NUL-terminated (a scalar that contains NUL is refused) */
    const char *key;  /* this node's key in its parent map, or NULL */
    unsigned key_line, key_column;
    const struct yaml_node *first, *next; /* children of a list or map, in file order */
};

struct yaml;

/* `source` (borrowed until yaml_doc_free) is the name used in errors: code INVALID_INPUT, text "yaml_invalid",
 * context: source, line, column, reason, excerpt (the offending line). An empty document is an empty map. */
int yaml_parse(const char *text, size_t len, const char *source, struct yaml **ret, struct tsk_error *err);
void yaml_doc_free(struct yaml *doc); /* not yaml_free: libyaml exports that name */
void yaml_cleanup(struct yaml **doc); /* for CLEANUP */

const struct yaml_node *yaml_root(const struct yaml *doc);
/* The child of a map with that key, or NULL (also when `map` is NULL or no map). */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

/* Typed reading of a scalar: 0 and the value, or -1 when it is not one. */
int yaml_int(const struct yaml_node *node, int64_t *ret);
int yaml_bool(const struct yaml_node *node, bool *ret); /* true/false/yes/no/on/off */
bool yaml_is_null(const struct yaml_node *node);        /* plain, and empty, ~ or null */
/* The text of a scalar that is not null, or NULL. */
const char *yaml_text(const struct yaml_node *node);

/* Sets `err` to INVALID_INPUT with the place of `node`: "{source}:{line}:{column}: {reason}" and the line. The reason is a text
 * with a key `yaml_why_…`, with (name, value) pairs as for text_put; the skin that shows the error says it in the reader's language. */
int yaml_error(const struct yaml *doc, const struct yaml_node *node, struct tsk_error *err, const char *key, ...)
    __attribute__((sentinel));

/* Writing (yaml_write.c). Whether a YAML reader takes the word for null or a boolean when it has no quotes. */
bool yaml_is_reserved(const char *text);
/* Whether it has a character that libyaml does not read back as it stands, even in a block: a control character from U+007F on, a
 * line break that other programs do not know, a BOM. */
bool yaml_needs_escapes(const char *text);
/* The text (valid UTF-8) in double quotes. */
void yaml_put_quoted(struct buf *b, const char *text);

#endif
