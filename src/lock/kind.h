/* kind.h - the kinds of locks: rows of kinds.def over one lock core. */
#ifndef LOCK_KIND_H
#define LOCK_KIND_H

#include "lock/record.h"
#include "store/workspace.h"

#define LOCK_TTL_DEFAULT_MS (30 * 60 * 1000)
#define SPRINT_ZOMBIE_MS    (24 * 3600 * 1000)
#define SPRINT_FILE_DEFAULT ".sprint-running"
#define LOCK_FILE_NAME_MAX  224 /* an encoded name of 180 bytes, with what comes before and behind it */

struct lock_kind {
    enum tsk_lock_kind kind;
    const char *name;        /* "request": on the command line, in `lock_type`, in events */
    const char *file_prefix; /* of the lock file and the guard file */
    const char *file_suffix;
    bool has_id;
    bool is_sprint;          /* YAML, the zombie rule, and the fixed temporary name */
    enum tsk_code held_code; /* the refusal */
    int (*parse)(const char *text, size_t len, struct lock_record *ret);
};

const struct lock_kind *lock_kind_get(enum tsk_lock_kind kind);
const struct lock_kind *lock_kind_by_name(const char *name); /* NULL if there is none */
extern const char *const lock_kind_names[];                  /* in the order of the enum; ends with NULL */
/* The names in a row, for messages: "request, queue, …". */
extern const char lock_kind_list_text[];
#define LOCK_KIND_LIST (lock_kind_list_text + 2)
enum {
#define X(symbol, ...) LOCK_KIND_OF_##symbol,
#include "lock/kinds.def"
#undef X
    LOCK_KIND_COUNT
};
#define X(symbol, ...) _Static_assert((int)LOCK_KIND_OF_##symbol == (int)TSK_LOCK_##symbol, "tasuki.h: " #symbol);
#include "lock/kinds.def"
#undef X
/* The id of a lock file in the directory `dir` ("" for the queue). Returns false if the name is not one of this kind. A
 * long name is in the file itself. */
bool lock_kind_file_id(const struct lock_kind *kind, int dir, const char *file, char id[LOCK_NAME_SIZE]);

/* One lock: which, where. Made by lock_target_init, ended by lock_target_clear. */
struct lock_target {
    const struct lock_kind *kind;
    struct tsk_workspace *ws;                 /* borrowed; its trail gets the events */
    char id[LOCK_NAME_SIZE];                  /* "" for the queue; the file name for a sprint */
    char file[LOCK_FILE_NAME_MAX];            /* the lock file's name in `dir` */
    char guard_name[LOCK_FILE_NAME_MAX - 16]; /* the guard file's name in `guard_dir` */
    char dir_path[PATH_MAX];                  /* for people */
    const char *given_root, *given_project_root, *given_lock_file, *given_session,
        *given_epic;    /* for hints: options that the caller used; may be NULL */
    int dir, guard_dir; /* borrowed from ws, or our own (sprint) */
    bool owns_dirs;
};

/* `id`: the request id, or any printable text of at most 200 bytes as the name; for a sprint the lock file's name (NULL: .sprint-running). `project_root`: for a
 * sprint (NULL: the workspace's root). INVALID_INPUT for another id. Refuses file systems on
 * which the protocol does not hold. */
int lock_target_init(struct lock_target *target, struct tsk_workspace *ws, const struct lock_kind *kind, const char *id,
                     const char *project_root, struct tsk_error *err);
void lock_target_clear(struct lock_target *target);
/* The lock file's path, for people. */
void lock_target_path(const struct lock_target *target, char path[PATH_MAX]);
/* Appends "tasuki [--root R] lock acquire name demo" (or "tasuki sprint acquire …") for this target, ready to be typed. */
void lock_target_command(const struct lock_target *target, const char *verb, struct buf *b);
/* "name demo", "queue": as typed after `tasuki lock acquire`. */
void lock_target_words(const struct lock_target *target, char *words, size_t size);

#endif
