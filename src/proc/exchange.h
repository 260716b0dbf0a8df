/* exchange.h - processes and templates as files: tasuki's own YAML and JSON, and the formats of other tools.
 *
 * Reading and applying are two steps. exchange_read checks a whole file and collects all of its mistakes, each with its
 * position; exchange_apply then changes the registry in one transaction, or not at all. The formats:
 *
 *   yaml, json  {version: 1, secrets: false, processes: {ID: SPEC…}, templates: {NAME: SPEC…}}; SPEC as in spec.h, only what
 *               differs from the defaults
 *   vantage     what Vantage writes as YAML, JSON and SurrealQL (its older KDL is refused); found under yaml and json
 *   procfile    NAME: COMMAND LINE
 *   compose     the subset of process-compose that docs/protocol/process-files.md lists; what tasuki has nothing for is listed
 *               in `ignored`, never dropped silently
 *
 * Secrets: an export without them has "***" in their place. An import refuses such a value, unless the process exists already
 * and is replaced: then it keeps its old value. With `secrets: true` in the file, "***" is an ordinary value. */
#ifndef PROC_EXCHANGE_H
#define PROC_EXCHANGE_H

#include "base/text.h"
#include "proc/process.h"

enum exchange_format {
    EXCHANGE_AUTO,
    EXCHANGE_YAML,
    EXCHANGE_JSON,
    EXCHANGE_PROCFILE,
    EXCHANGE_COMPOSE,
    EXCHANGE_VANTAGE,
};
extern const char *const exchange_format_names[]; /* indexed by the enum, NULL at the end */

#define EXCHANGE_SIZE_MAX (4u << 20)
#define EXCHANGE_MASK     "***"

/* Where the text comes from. */
struct exchange_source {
    const char *name;            /* as the user knows it; in every message */
    const char *path;            /* the same if it is a file, else NULL */
    enum exchange_format format; /* EXCHANGE_AUTO: by name and content */
    const char *cwd_base;        /* relative directories begin here: absolute, usually the file's own directory */
    enum lang lang;              /* of the problems and warnings */
    bool is_up;                  /* for `up`, which has no --format */
};

/* What a file says. */
struct exchange {
    enum exchange_format format;
    json_t *processes, *templates; /* name -> canonical spec */
    json_t *ignored;               /* paths of keys that mean nothing to tasuki: "web.namespace" */
    json_t *warnings;              /* sentences */
    json_t *problems;              /* {"line", "column", "reason"}; sorted by place; line 0: unknown */
    json_t *masked;                /* {"name", "variable", "is_template", "line", "column"} */
    json_t *env_files; /* of a process-compose file, for `up`: name -> {"files": [path…], "no_dot_env": boolean} */
};
void exchange_clear(struct exchange *ex); /* for CLEANUP */

/* *ret is filled only on success. With problems: INVALID_INPUT, text import_invalid, context source, count, list, problems. */
int exchange_read(const struct exchange_source *from, const char *text, size_t len, struct exchange *ret,
                  struct tsk_error *err);

/* Whether the file describes process `id` as `spec` does. A masked value stands for the registered one. */
bool exchange_says(const struct exchange *ex, const char *id, const json_t *spec);

/* All or nothing. Names that exist are refused (ProcessAlreadyExists with all of them in `ids`) unless is_replacing.
 * *ret: {"format", "created", "updated", "unchanged", "running", "templates", "ignored", "warnings"}; `running` are updated
 * processes that continue with what they were started with. */
int exchange_apply(struct proc_registry *reg, const struct exchange_source *from, struct exchange *ex,
                   bool is_replacing, json_t **ret, struct tsk_error *err);

/* Writes what is registered: all, or the processes `ids` (array of strings; without templates then).
 * *ret: {"format", "content", "processes", "templates", "masked"}. */
int exchange_export(struct proc_registry *reg, const json_t *ids, enum exchange_format format, bool has_secrets,
                    json_t **ret, struct tsk_error *err);
/* The document {version, …} as text. Equal documents are equal texts; exchange_read returns exactly what was written. */
void exchange_write_yaml(struct buf *b, const json_t *document);

#endif
