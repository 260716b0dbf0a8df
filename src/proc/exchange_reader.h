/* exchange_reader.h - shared by the readers of the formats: a file being read, and its content so far. */
#ifndef PROC_EXCHANGE_READER_H
#define PROC_EXCHANGE_READER_H

#include "base/yaml.h"
#include "proc/exchange.h"

struct exchange_reader {
    const struct exchange_source *from;
    struct exchange *to;
    bool has_secrets; /* "***" means itself */
};

/* A place in the file; line 0: unknown. */
struct exchange_place {
    unsigned line, column;
};
struct exchange_place exchange_place_of(const struct yaml_node *node); /* NULL: unknown */
struct exchange_place exchange_place_of_key(const struct yaml_node *node);

/* One found process or template, while it is made. `place` finds the value, or the key, at a path of its spec
 * ("ready.port"). */
struct exchange_entry {
    const char *name;
    bool is_template;
    struct exchange_place where;
    struct exchange_place (*place)(const struct exchange_entry *entry, const char *path, bool is_key);
    const struct yaml_node *node; /* for `place`; may be NULL */
};
/* Checks the name and the spec `input`, and takes both or the problems. */
void exchange_take(struct exchange_reader *r, const struct exchange_entry *entry, const json_t *input);

/* The problem's sentence, after `owner` (NULL: nobody's). */
void exchange_problem(struct exchange_reader *r, struct exchange_place where, const char *owner,
                      const struct tsk_error *problem);
/* error_set and exchange_problem in one. */
#define EXCHANGE_PROBLEM(reader, where, owner, ...)                                                                    \
    do {                                                                                                               \
        struct tsk_error problem_;                                                                                     \
        error_set(&problem_, TSK_INVALID_INPUT, __VA_ARGS__, NULL);                                                    \
        exchange_problem(reader, where, owner, &problem_);                                                             \
    } while (0)
void exchange_ignore(struct exchange_reader *r, const char *owner, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The sentence `text` about {param}. */
void exchange_warn(struct exchange_reader *r, const char *text, const char *param);

/* The error with all problems. Returns -1. */
int exchange_fail(const struct exchange_source *from, const json_t *problems, struct tsk_error *err);

/* The node at a dotted path below `node`: keys of maps, indexes of lists; a key may itself contain dots if it is the last.
 * The nearest ancestor that exists if there is none. */
const struct yaml_node *exchange_node_at(const struct yaml_node *node, const char *path);

/* Readers. The document ones get the tree (`node`, NULL if only JSON's own parser could read it) and the same as JSON. */
void exchange_read_own(struct exchange_reader *r, const json_t *root, const struct yaml_node *node);
void exchange_read_vantage(struct exchange_reader *r, const json_t *root, const struct yaml_node *node);
void exchange_read_compose(struct exchange_reader *r, const struct yaml_node *root);
void exchange_read_procfile(struct exchange_reader *r, const char *text);
/* Vantage's SurrealQL: its lines `CREATE process CONTENT {JSON};`. */
void exchange_read_surql(struct exchange_reader *r, const char *text);
bool exchange_is_surql(const char *text);
/* Whether all lines look like those of a Procfile. */
bool exchange_is_procfile(const char *text);

/* The tree as JSON. Scalars become what the keys of a spec want: `restart: no` is a text, `port: 80` a number. */
json_t *exchange_json_of(const struct yaml_node *root);

/* A command line as a shell would read it. SHELL_PLAIN: its words are in `words` (array, appended). SHELL_SYNTAX: only a shell
 * can run it. SHELL_UNFINISHED: a quote is not closed. */
enum shell_line { SHELL_PLAIN, SHELL_SYNTAX, SHELL_UNFINISHED };
enum shell_line shell_split(const char *line, json_t *words);

#endif
