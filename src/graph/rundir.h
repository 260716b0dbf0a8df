/* rundir.h - the directory of a run, `.aiflow/runs/RUN-…/`, and which of its processes are alive.
 *
 *   journal      what happened, for resume (journal.h)
 *   flow.yaml    the flow as it was when the run began
 *   stage.json   the state for readers, atomically replaced
 *   life         two bytes that are locked, never written:
 *                  0  by the runner and by every process of its tasks: they inherit one descriptor. Free: nothing of the run lives
 *                  1  by the runner only. Free: nobody executes the run
 *   tasks/<session>/<task>.<attempt>.log
 *   channel.* output.* answer.* slot.*   what tasks read and write while the run is executed
 *
 * A run is interrupted when its stage says RUNNING, byte 1 is free and the journal has no end. A process that executes it takes
 * byte 1 first, then ends the processes that still hold byte 0.
 *
 *  D1  `life` appears with both bytes locked. Without it the run has not begun. With it, a free byte 1 means that no process
 *      executes the run at the moment.
 *  D2  Runners lock byte 1 for writing. A process that waits for their end locks it for reading, for a moment. A reader is not
 *      a runner: a process that wants to become the runner tries again.
 *  D3  Processes are ended only for a run that was interrupted, that is, if a task has started since its last `done`. If the
 *      run ended in good order, or asks a question, its tasks left their processes running on purpose.
 *  D4  Only a process that holds byte 1 and has read the journal after taking it knows whether a run is over; earlier reads are
 *      guesses.
 *  D5  If stage and journal differ, the journal is right: a run has ended as its last record says, even if the stage could not
 *      be written any more. Questions are open only while a run is executed or asks (NEEDS_INPUT). A run can continue as soon
 *      as an answer is in its directory.
 *  D6  A run is removed by a process that holds both bytes: it renames the directory to `runs/.gone/<id>`, so that the run
 *      exists as a whole or not at all, and then removes its content, `life` last. A process that takes byte 1 checks
 *      afterwards that the directory is still in its place. */
#ifndef GRAPH_RUNDIR_H
#define GRAPH_RUNDIR_H

#include "base/ident.h"
#include "base/json.h"
#include "store/workspace.h"

#include <sys/stat.h>

#define BEING_MADE_MS 10000 /* an empty directory that is older than this and that nobody holds was left by a crash */
#define RUN_ID_MAX    64
#define RUN_LOG_NAME  512 /* bytes of the path of a log */
#define RUN_SESSION   200 /* of a session's id in it; longer ones are cut */
#define RUN_LIFE_FD   62  /* in a task: where it has the descriptor with byte 0, out of the way of what shells use */

enum { RUN_BYTE_LIFE = 0, RUN_BYTE_RUNNER = 1 }; /* of `life` */

struct rundir {
    char id[RUN_ID_MAX];
    char path[PATH_MAX];
    int dir;
    int life_fd;   /* holds byte 0; children get a duplicate of it */
    int runner_fd; /* holds byte 1 */
};

/* RUN-<time>-<milliseconds and random>: they sort as they were made. */
void rundir_new_id(char id[RUN_ID_MAX]);
/* The log of an attempt, below the run's directory. */
void rundir_log_name(const char *session, const char *task, int64_t attempt, char path[RUN_LOG_NAME]);
/* rundir_make.c: a new run, both bytes taken, that nobody sees before it is published. `id` NULL: a new one. A run is seen for the
 * first time with everything in it that a resume needs, and with its runner. */
int rundir_create(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err);
int rundir_publish(struct tsk_workspace *ws, const struct rundir *run, struct tsk_error *err);
void rundir_drop(struct tsk_workspace *ws, const struct rundir *run); /* one that was not published */
/* Between the two files: the directory `name` of the run `id`; its life file. */
int rundir_open_dir(struct tsk_workspace *ws, const char *name, const char *id, struct rundir *ret,
                    struct tsk_error *err);
int rundir_open_life(struct rundir *run, int flags, int *ret);
/* An existing one, for reading. RUN_NOT_FOUND. `id` is an id, a part of one that no other run has, "" or @1 for the latest run, @2
 * for the one before. */
int rundir_open(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err);
/* The same for a command that changes nothing: a part may be as short as one likes. */
int rundir_open_to_look(struct tsk_workspace *ws, const char *id, struct rundir *ret, struct tsk_error *err);
/* Takes byte 1: RUN_IN_PROGRESS while a runner lives. */
int rundir_take(struct rundir *run, struct tsk_error *err);
/* After it: byte 0; leftovers of a runner that has died are ended first (D3). */
int rundir_take_life(struct rundir *run, bool was_interrupted, struct tsk_error *err);
/* What the journal says of it (D3), and of the run's end: DONE, FAILED, CANCELLED, NEEDS_INPUT; "": it has not ended. */
bool rundir_was_interrupted(const json_t *records);
const char *rundir_end_of(const json_t *records);
bool rundir_is_over(const char *status); /* DONE, FAILED or CANCELLED */
void rundir_clear(struct rundir *run);
/* Whether somebody executes it. */
bool rundir_has_runner(const struct rundir *run);
/* The runner that a stage names; false: none. */
bool rundir_runner(const json_t *stage, struct proc_id *ret);
/* errno of `what` with the run's flow.yaml, as an error. A run that failed before its flow was read has none: NOT_FOUND. */
int rundir_flow_error(const struct rundir *run, const char *what, struct tsk_error *err);
/* An error about a run names the party that started it. */
void rundir_add_starter(const json_t *stage, struct tsk_error *err);

/* Whether the directory that is open is still `runs/<id>`: false with ENOENT after a removal (D6), with another errno when that
 * is unknown. */
bool rundir_is_in_place(const struct rundir *run);
/* The error for either. */
int rundir_refuse_gone(const struct rundir *run, struct tsk_error *err);

/* ---- rundir_gone.c ---- */

/* Takes both bytes of a run that is to be removed. RUN_IN_PROGRESS while a runner or a process of its tasks lives, or another
 * process removes it; RUN_NOT_FOUND when it is gone. Nothing is changed. */
int rundir_take_for_removal(struct rundir *run, struct tsk_error *err);
/* D6. After it; rundir_clear is still due. 0 as soon as nobody sees the run any more. */
int rundir_remove(struct tsk_workspace *ws, struct rundir *run, struct tsk_error *err);
/* What crashes have left of removals: at most `max` of them. */
void rundir_sweep_gone(struct tsk_workspace *ws, size_t max);

/* -1: a file of the run is not what it should be; doctor says what can be done. */
int rundir_damaged(const struct rundir *run, const char *file, struct tsk_error *err);
int rundir_read_stage(const struct rundir *run, json_t **ret, struct tsk_error *err);
int rundir_write_stage(const struct rundir *run, const json_t *stage, struct tsk_error *err);
/* stage.json with `status` INTERRUPTED where that is the truth. */
int rundir_look(const struct rundir *run, json_t **ret, struct tsk_error *err);
/* The same, and of a run that is executed what its runner has recorded since it wrote the stage. */
int rundir_look_exactly(const struct rundir *run, json_t **ret, struct tsk_error *err);
/* Whether there is anything to continue with: a first record. */
bool rundir_has_begun(const struct rundir *run);
/* Removes a run that nobody executes and that has not begun; one with anything else in it stays. */
bool rundir_remove_unbegun(struct tsk_workspace *ws, const struct rundir *run);
/* Writes stage.json again from the journal, what was there becomes stage.json.damaged; takes the runner's byte. */
int rundir_rebuild_stage(struct rundir *run, struct tsk_error *err);
/* The ids of the runs that may continue: those without a final stage. `runs/.open/<id>` is made before the run appears or is taken
 * again, and removed with the final stage; a crash may leave one too many, never one too few. Newest first; owned. */
int rundir_mark_open(const struct rundir *run, bool is_open);
int rundir_mark_new(struct tsk_workspace *ws, const char *id,
                    bool is_open); /* for a directory that is not in runs/ yet */
int rundir_list_open(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err);
/* RUN_NOT_FOUND with the text `key`. */
int rundir_refuse_name(const char *name, const char *key, struct tsk_error *err);
/* The ids of all runs, newest first; owned array of strings. */
int rundir_list(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err);

#endif
