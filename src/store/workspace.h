/* workspace.h - finding, creating and opening a workspace: the directory that has `.aiflow/`.
 *
 * The workspace is `root` if given (--root), else TASUKI_ROOT, else the nearest one upwards from the working directory. In a
 * linked git worktree it is always the main worktree's, although git has checked out a copy of the git-managed part there:
 * agents in worktrees must share locks. A bare repository keeps its state in `<git common dir>/tasuki/`. */
#ifndef STORE_WORKSPACE_H
#define STORE_WORKSPACE_H

#include "store/events.h"

#include <limits.h>
#include <pthread.h>

struct tsk_workspace {
    char root[PATH_MAX];       /* the directory that people call the project */
    char state_path[PATH_MAX]; /* `.aiflow/`, or `<common>/tasuki/` */
    int state_dir;
    int locks_dir, guard_dir; /* -1 until workspace_lock_dirs */
    pthread_mutex_t mutex;    /* of what follows, and of the lazily opened directories */
    struct event_trail trail;
    struct timespec config_seen;                /* ctime of the config.yaml that workspace_locks_are_local accepted */
    bool fs_is_checked;                         /* the file system of locks_dir supports the lock protocol */
    void (*on_close)(struct tsk_workspace *ws); /* set by a layer that keeps something for this workspace */
    struct memo *memo;                          /* proc/memo.h; NULL: looks are not remembered */
    void (*memo_free)(struct memo *memo);
};

/* Finds without opening: the directory that holds the state and its root. 0, or -1 with NOT_FOUND. */
struct workspace_place {
    char root[PATH_MAX];
    char state_path[PATH_MAX];
};
int workspace_find(const char *root, struct workspace_place *ret, struct tsk_error *err);

/* tsk_workspace_open, but for a known place. */
int workspace_open_at(const struct workspace_place *place, struct tsk_workspace **ret, struct tsk_error *err);
void workspace_cleanup(struct tsk_workspace **ws); /* for CLEANUP */

/* Creates a workspace in `root` (NULL: the working directory; in a linked worktree, its main worktree). Idempotent;
 * *ret_created says whether there was none before. */
int workspace_init(const char *root, struct workspace_place *ret, bool *ret_created, struct tsk_error *err);

/* Creates only the state directory with its .gitignore and touches no other file of the project: for a sprint lock in a
 * project that was never initialised. */
int workspace_make_state(const struct workspace_place *place, struct tsk_error *err);

/* Opens (creates) `locks/` and `locks/.guard/`. */
int workspace_lock_dirs(struct tsk_workspace *ws, struct tsk_error *err);

/* Appends an event to the trail; safe from several threads. */
int workspace_event(struct tsk_workspace *ws, const struct now *now, const struct event *event, struct tsk_error *err);
/* Several lines of event_put_line with one write, at most EVENT_LINE_MAX in all. */
int workspace_event_lines(struct tsk_workspace *ws, const char *lines, size_t len, struct tsk_error *err);

/* The same for what has happened already: if the trail cannot be written now, the event goes to the outbox, from where it comes
 * to the trail later. */
int workspace_event_later(struct tsk_workspace *ws, const struct now *now, const struct event *event,
                          struct tsk_error *err);
/* workspace_event_later for a caller that can undo nothing: a problem is logged. Takes `data`. */
void workspace_report(struct tsk_workspace *ws, struct event event, json_t *data);

/* db_flush_outbox to this trail; safe from several threads. Not inside a transaction. */
struct db;
int workspace_flush_outbox(struct tsk_workspace *ws, struct db *db, struct tsk_error *err);

/* config.yaml: 1 parsed (the caller frees it, yaml.h), 0 there is none, -1. */
struct yaml;
int workspace_config(struct tsk_workspace *ws, struct yaml **ret, struct tsk_error *err);
/* The boolean `key` of config.yaml; false when the file or the key is absent. A broken file is an error. */
int workspace_config_bool(struct tsk_workspace *ws, const char *key, bool *ret, struct tsk_error *err);

struct yaml_node;
/* INVALID_INPUT with the place, unless the section of config.yaml is absent, empty, or a map that has only these keys (the last is
 * NULL). */
int config_need_keys(const struct yaml *doc, const struct yaml_node *section, const char *const *keys,
                     struct tsk_error *err);
/* The word `section: {key: WORD}` of config.yaml as its place in `choices` (ends with NULL); *ret stays when the file or the key is
 * absent. Another word, or a broken file, is an error. */
int workspace_config_word(struct tsk_workspace *ws, const char *section, const char *key, const char *const *choices,
                          unsigned *ret, struct tsk_error *err);

/* Refuses (INVALID_INPUT) a config.yaml that has the key `locks`. All our locks are local to this machine. A workspace that asks for
 * another kind must get no lock, or two machines could both be granted it. A file that cannot be read or parsed may have
 * the key, so it is an error. Reads the file once, and again when it changed. */
int workspace_locks_are_local(struct tsk_workspace *ws, struct tsk_error *err);

/* The project root that a sprint lock belongs to: the nearest directory upwards from `start` (NULL: the working
 * directory) that has .git, .aiflow or .sprint-running; else `start` itself. */
int workspace_project_root(const char *start, char root[PATH_MAX], struct tsk_error *err);

#endif
