/* book.h - all requests of a workspace with their latest runs, their locks and their order in the queue.
 *
 * Nothing of this is stored: it follows from the request files, the runs' stages, the locks and the dependencies, and is
 * computed each time. The id of a request's latest run is written to `runs/.requests/<id>` before that run is made.
 *
 *  B1  Done: the latest run is DONE, and the file is the one that it was begun with: of the same time, or with the same text. For
 *      an archived request the file does not count: archiving what is done does not undo it.
 *  B2  A cancelled run leaves its request ready. So does an interrupted run, and the next run of the request continues it.
 *  B3  A lock that only leftovers of an interrupted run keep blocks nothing: the next run of the request ends them.
 *  B4  A run that cannot be read does not count as missing: its request is broken until the run can be read. */
#ifndef RUN_BOOK_H
#define RUN_BOOK_H

#include "graph/rundir.h"
#include "run/request.h"

/* Why the queue does not take a request. */
#define BOOK_REASONS                                                                                                   \
    X(NOT_READY)                                                                                                       \
    X(REQUEST_LOCKED)                                                                                                  \
    X(LATEST_RUN_NEEDS_INPUT)                                                                                          \
    X(LATEST_RUN_FAILED)                                                                                               \
    X(ALREADY_DONE)                                                                                                    \
    X(DEPENDS_NOT_FOUND)                                                                                               \
    X(DEPENDS_CYCLE)                                                                                                   \
    X(DEPENDS_NOT_DONE)
enum book_reason {
    BOOK_MAY_RUN,
#define X(name) BOOK_##name,
    BOOK_REASONS
#undef X
};
extern const char *const book_reason_names[];

/* What a file was when it was read; ino 0: there was none. */
struct book_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
    bool is_settled; /* a change after this look gets another time */
};

/* Its place in the queue, before its id. */
struct book_place {
    int priority;
    int64_t age_s, mtime_ns; /* the latter only where the id does not say when */
};

struct book_entry {
    struct request request;
    struct book_place place;
    json_t *run;  /* the latest: run_id status started_at ended_at reason_code questions; NULL: none */
    json_t *lock; /* as `lock check` shows it; NULL: free, or left by a dead holder */
    bool is_done; /* B1 */
    enum book_reason reason;
    struct buf detail; /* what blocks it: a request, a run, the path of a cycle; "" */
    bool was_run;      /* by this queue: never twice */
    struct book_stamp file, note, stage;
};

struct book {
    struct tsk_workspace *ws;
    struct book_entry *entries; /* in the queue's order: by priority, then the oldest first */
    size_t count;
    struct book_entry **by_id; /* for book_find */
};

/* `retries`: requests whose latest run has failed may run. */
int book_open(struct tsk_workspace *ws, bool retries, enum lang lang, struct book *ret, struct tsk_error *err);
/* The same for a book that was opened before (or is empty): only what has changed since is read again. The entries are others
 * afterwards; on failure the book is as it was. */
int book_update(struct tsk_workspace *ws, bool retries, enum lang lang, struct book *book, struct tsk_error *err);
void book_clear(struct book *book); /* for CLEANUP */
struct book_entry *book_find(const struct book *book, const char *id);
/* The first that may run; NULL: none. */
struct book_entry *book_next(const struct book *book);
/* Its place in the queue's order as a text that sorts (bytes) as the entries do, and stays as long as its file does. */
void book_put_place(const struct book_entry *entry, struct buf *b);
/* draft ready running blocked needs_input failed done archived, or broken. */
const char *book_status(const struct book_entry *entry);
/* The request as people and programs see it; owned. */
json_t *book_json(const struct book_entry *entry);

/* Whether a run has come to its first record. One that has not is no run: nothing of it was executed. */
bool book_has_begun(const json_t *stage);
/* B1: whether the run was begun with what the request's file says now. One that was only touched, or checked out again, is the same. */
bool book_is_same_file(const struct request *request, const json_t *stage);
/* rundir_look, but what a damaged stage does not say comes from the journal. */
int book_run_stage(const struct rundir *run, json_t **ret, struct tsk_error *err);
/* The same for a request's latest run; NULL: there is none, or it has not begun. */
int book_latest_stage(struct tsk_workspace *ws, const char *request_id, json_t **ret, struct tsk_error *err);
/* The id of a request's latest run, "" for none. Fails if that cannot be known: a caller that continues then begins a second run. */
int book_latest_run(struct tsk_workspace *ws, const char *request_id, char run_id[RUN_ID_MAX], struct tsk_error *err);
/* again.c: puts a request back whose latest run is DONE or has FAILED: it has no latest run then, and the queue may take it.
 * *ret_changed false: it is ready as it is. RUN_IN_PROGRESS, NEEDS_INPUT; CONFLICT for a draft or an archived one. */
int book_put_back(struct tsk_workspace *ws, const char *request_id, enum lang lang, bool *ret_changed,
                  struct tsk_error *err);
/* Forgets which run is the request's latest. The request's lock must be ours. */
int book_forget_run(struct tsk_workspace *ws, const char *request_id, struct tsk_error *err);
/* Records that `run_id` is the request's latest run. */
int book_note_run(struct tsk_workspace *ws, const char *request_id, const char *run_id, struct tsk_error *err);

#endif
