/* request.h - a request: a file `.aiflow/requests/RQ-….yaml` that describes work.
 *
 * People and agents write it and keep it in git; tasuki reads it and changes it only by request_edit. The progress of a request
 * (its runs, its lock) is never written into it.
 *
 *  Q1  A file that cannot be parsed is a broken request, with all of its problems and their positions. It is listed but never
 *      run, and it does not block other requests.
 *  Q2  A change replaces the file in one step, so that it is complete at every instant; changes wait for each other at
 *      `.aiflow/requests.lock`. The rest of the file is unchanged byte for byte, comments included (edit.c lists the
 *      exceptions).
 *
 * Keys: id (as the file's name, may be missing) title status priority depends_on, flow or run, body. */
#ifndef RUN_REQUEST_H
#define RUN_REQUEST_H

#include "base/clock.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "lock/record.h"
#include "store/workspace.h"

#define REQUEST_FOLDER      "requests"
#define REQUEST_PREFIX      "RQ-"
#define REQUEST_SUFFIX      ".yaml"
#define REQUEST_BODY_MAX    (512 << 10) /* the text of a request that an operation writes */
#define REQUEST_COMMAND_MAX (1 << 16)
#define REQUEST_SIZE_MAX    (1u << 20)
#define REQUEST_PART_MIN    4 /* an operation that changes something needs at least this many characters of an id */

enum request_status { REQUEST_DRAFT, REQUEST_READY, REQUEST_ARCHIVED, REQUEST_STATUS_COUNT };
extern const char *const request_status_names[REQUEST_STATUS_COUNT + 1]; /* ends with NULL */
extern const char *const request_priorities[];                           /* P0 … P3, NULL */
#define REQUEST_PRIORITY_DEFAULT 2
#define REQUEST_KEY_COUNT        8
extern const char *const request_keys[REQUEST_KEY_COUNT]; /* in their usual order */

struct request {
    char id[LOCK_ID_MAX];
    char source[NAME_MAX + 32]; /* ".aiflow/requests/RQ-….yaml" */
    enum request_status status;
    int priority;     /* 0 is the most urgent */
    json_t *json;     /* the file's keys, with what they are when they are missing; and path, updated_at */
    json_t *problems; /* [{line, column, reason, excerpt}]; empty: it can be run */
    int read_errno;   /* it could not be read; then that is its problem */
    bool is_map;      /* it is a map, so its keys are known; without that it must not be changed */
    bool is_stray;    /* its file has no id; `id` is its name */
    unsigned given;   /* bit i: request_keys[i] is in the file */
    char updated_at[TIME_TEXT_MAX];
    int64_t mtime_ns;
    struct buf text;
};

static inline bool request_is_broken(const struct request *request)
{
    return json_array_size(request->problems) > 0;
}

/* Reads the request of that whole id. REQUEST_NOT_FOUND. A broken one is read, too. */
int request_read(struct tsk_workspace *ws, const char *id, enum lang lang, struct request *ret, struct tsk_error *err);
/* There is no such request (any more). Returns -1. */
int request_refuse_unknown(const char *id, struct tsk_error *err);
/* The id that a name means: the id itself, with or without RQ-, or a part of it that no other has; @1 is the request that was added
 * last, @2 the one before. `may_change`: the caller changes something, so a name that looks like an id is that id and no other. A
 * name that fits none stays as it is; several: REQUEST_NOT_FOUND. */
int request_resolve(struct tsk_workspace *ws, const char *name, bool may_change, char id[LOCK_ID_MAX],
                    struct tsk_error *err);
/* A file whose name cannot be an id (`ret_strays` of request_list): broken, and shown with its name. */
void request_of_stray(const char *name, enum lang lang, struct request *ret);
/* Of the file's text: whether it is the same, whatever its time says. */
void request_hash(const struct request *request, char ret[SHA256_HEX_SIZE]);
void request_clear(struct request *request); /* for CLEANUP */
/* INVALID_INPUT with its problems, if it is broken; ENVIRONMENT if it could not be read. */
int request_need_whole(const struct request *request, struct tsk_error *err);
/* The ids of all of them, in the order of their names, and the names of files that were meant to be some; owned. */
int request_list(struct tsk_workspace *ws, json_t **ret, json_t **ret_strays, struct tsk_error *err);
/* What a text would be as the file of this id; `ret` to be cleared. For reading, and before a text is written. */
void request_parse(const char *id, const char *text, size_t len, enum lang lang, struct request *ret);

/* ---- edit.c ---- */

/* `values` has the file's keys (null: without it). A new file; its id in `values`, or RQ-<time>-<random>. CONFLICT when there is
 * one of that id. */
int request_add(struct tsk_workspace *ws, const json_t *values, enum lang lang, struct request *ret,
                struct tsk_error *err);
/* Only the keys in `values` change. CONFLICT when the file is not of `expected_updated_at` (NULL: any). */
int request_edit(struct tsk_workspace *ws, const char *id, const json_t *values, const char *expected_updated_at,
                 enum lang lang, struct request *ret, struct tsk_error *err);
/* CONFLICT when the file is not of `expected_updated_at` (NULL: any). */
int request_check_time(const struct request *request, const char *expected_updated_at, struct tsk_error *err);
/* Replaces the whole text, as an editor has left it. */
int request_replace(struct tsk_workspace *ws, const char *id, const char *text, size_t len,
                    const char *expected_updated_at, enum lang lang, struct request *ret, struct tsk_error *err);
/* Moves the file to `.aiflow/removed/`, whose path (below .aiflow/) is in `kept`. */
int request_remove(struct tsk_workspace *ws, const char *id, char kept[PATH_MAX], struct tsk_error *err);

#endif
