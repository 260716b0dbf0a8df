/* spec_make.h - shared by spec.c and spec_probe.c: a spec being made, and the list of its problems. */
#ifndef PROC_SPEC_MAKE_H
#define PROC_SPEC_MAKE_H

#include "proc/spec.h"

struct spec_maker {
    const json_t *base; /* may be NULL */
    const char *cwd_base;
    void (*take)(void *data, const struct tsk_error *problem);
    void *data;
    unsigned problem_count;
    bool names_command; /* an unknown key stands for `command`, so `command` is not reported as missing */
};

#define SPEC_PATH_MAX 320 /* "env." and a name, cut to fit */
#define SPEC_WORD_MAX ((128u << 10) - 1)
#define SPEC_MS_MAX   (7 * 24 * 3600 * 1000ll)

/* Tells `take` that the value at `path` is wrong; `want` fills the sentence's {want}. Returns NULL for `return`. */
json_t *spec_problem(struct spec_maker *m, const char *text, const char *path, const json_t *value, const char *want);
/* "ready" and "port" make "ready.port". */
void spec_path(char path[SPEC_PATH_MAX], const char *parent, const char *name);

/* Checked copies, or NULL after spec_problem. */
json_t *spec_make_int(struct spec_maker *m, const char *path, const json_t *value, int64_t min, int64_t max);
json_t *spec_make_name(struct spec_maker *m, const char *path, const json_t *value, const char *const *names);
json_t *spec_make_words(struct spec_maker *m, const char *path, const json_t *value);
/* Reports an unknown key. Returns the known key with nearly the same name, or NULL. */
const char *spec_unknown_key(struct spec_maker *m, const char *path, const char *key, const char *const *known,
                             size_t count);

/* `key` is "ready" or "health"; value is a string or an object. */
json_t *spec_make_probe(struct spec_maker *m, const char *key, const json_t *value);
/* A copy without the settings that are as they are by default. */
json_t *spec_probe_minimal(const char *key, const json_t *probe);

#endif
