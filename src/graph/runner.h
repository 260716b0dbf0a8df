/* runner.h - executes a flow: tasks as processes, a loop that waits for them, a journal of what happened.
 *
 *  X1  A task's end is in the journal before anything that depends on it is started (N1), and the start of a task before its
 *      process.
 *  X2  A task is a process group of its own and dies with its runner. Its processes inherit the run's life byte, TASUKI_RUN_ID
 *      and the task's mark (leftover.h), so that stopping the task or resuming the run finds what is left of it.
 *  X3  What a task writes is applied when it has exited with 0; a question counts in any case.
 *  X4  A task that must stop (timeout, fail_fast, cancel) gets SIGTERM, with everything that it started; what is left of it after
 *      the grace time gets SIGKILL. It has ended when all of that is gone. What a task leaves running that ends by itself, well
 *      or not, lives on: it was left on purpose.
 *  X5  The replay of a journal makes the same calls of memory.h in the same order as the run it was written by. What
 *      failed is not replayed, so it runs again, unless a group passed in spite of it before the next resume, or the run only goes
 *      on with an answer.
 *  X6  A run whose lock is lost is cancelled with LOCK_LOST, unless nothing was left to do: what is complete is DONE.
 *
 * One thread, though there may be others in the process. Signals: SIGTERM, SIGINT and SIGHUP cancel in good order, the second
 * one at once; SIGUSR1 at once. SIGINT and SIGHUP are left alone if our starter ignores them (nohup, `&` in a script).
 * The runner that a stage names has its signals blocked: none of them kills it. After a run that was cancelled they
 * stay blocked: its process is about to end. */
#ifndef GRAPH_RUNNER_H
#define GRAPH_RUNNER_H

#include "graph/attempt.h"
#include "graph/flow.h"
#include "graph/journal.h"
#include "graph/memory.h"
#include "graph/rundir.h"

#include <poll.h>
#include <signal.h>

#define LOG_NAME_MS   30
#define RUN_DEPTH_MAX 16 /* runs within runs */
#define RUN_LOCK_FD   63 /* in a task: where it has the descriptor of the request's lock */

enum view_state {
    VIEW_WAITING,
    VIEW_RUNNING,
    VIEW_RETRY,
    VIEW_OK,
    VIEW_FAILED,
    VIEW_SKIPPED,
    VIEW_BLOCKED,
    VIEW_STOPPED,
    VIEW_ASKS,
    VIEW_COUNT
};
extern const char *const view_state_names[];

/* What readers see of a task. */
struct task_view {
    uint8_t state; /* enum view_state */
    uint16_t attempt;
    int exit_code; /* 128 + n: by signal n; -1: not known */
    int64_t started_ms, ended_ms;
};

/* Receives the facts of a run: events in the form of store/events.h, without an id. It returns nothing: a run does not stop
 * because its output is not read. */
typedef void runner_tell(void *data, const json_t *document);

struct runner_options {
    int64_t parallel;                    /* 0: the flow's, or one per processor */
    const char *start;                   /* task to begin with, or NULL */
    bool refuses_cancelled;              /* resumed without being asked for: one that was given up stays so */
    const char *id;                      /* of a new run; NULL: a new one */
    const char *flow_source, *flow_text; /* resumed: another flow for it (reflow.h); NULL: its own copy */
    size_t flow_len;
    const char *request_id, *request_updated_at; /* a new run of a request; they stay with the run */
    const char *request_sha256;                  /* of its file's text */
    const json_t *lock;                          /* of its request, for the stage; may change in `beat` */
    int lock_fd;                                 /* its life goes to the tasks as well; 0: none */
    const char *workflow;                        /* that a new run is for; it stays with the run. May be NULL */
    /* A new run: puts more files into its directory before its first record, so that who resumes it finds them. May be NULL. */
    int (*prepare)(void *data, int run_dir, struct tsk_error *err);
    void *prepare_data;
    /* Called every beat_ms, and when a task has ended (at most once a second). false: what the run stands on is lost (X6); *why, if
     * it is set, is the reason, else the lock. */
    bool (*beat)(void *data, bool has_progress, struct tsk_error *why);
    void *beat_data;
    int64_t beat_ms;
    runner_tell *tell;
    void *tell_data;
    bool wants_ticks; /* also a `run.progress` about once a second: who shows it draws the time that went by */
};

/* A task's process. */
struct running {
    bool is_used;
    struct claim claim; /* task and session are owned copies */
    uint32_t scope;
    pid_t pid;
    int pidfd;
    siginfo_t end;     /* how its process ended, once it is reaped (si_pid) */
    char log[512];     /* path below the run's directory, once it is there */
    bool is_log_named; /* the log has that path; before, it is the slot's file */
    int64_t started_ms, started_wall_ms;
    int64_t deadline_ms; /* of the timeout; 0: none */
    int64_t kill_at_ms;  /* SIGKILL is due; 0: not stopping */
    int64_t look_at_ms;  /* it has exited, what it started has not: when to look again; 0: it has not exited */
    enum stop stops;
    uint32_t channel_file;
    bool is_passed;   /* before --start: counts as done, is shown as skipped */
    bool is_unwanted; /* its condition is false: it is skipped, and its successors run */
    bool is_over;     /* not one of the running ones any more */
};

/* The file with a session's values, shared by its tasks until they change. */
struct channel_file {
    const void *session;
    uint64_t version;
    uint32_t number, users;
};

/* Where the output of a place goes: `slot.<i>`, opened once and used again as long as tasks print nothing. A task that
 * prints, fails, or runs longer than LOG_NAME_MS gets the file under its own name; a silent one costs no file at all. */
struct slot_log {
    int fd; /* -1: none yet */
};

struct runner {
    struct tsk_workspace *ws;
    struct rundir run;
    struct journal journal;
    struct flow *flow;
    struct memory *memory;
    struct runner_options options;
    struct running *running; /* `parallel` of them */
    size_t running_count, parallel;
    size_t parallel_wanted;     /* if it is more than the limit of descriptors allows; 0 otherwise */
    struct slot_log *logs;      /* per place */
    struct channel_file *files; /* per scope */
    uint32_t file_number;
    int null_fd;
    struct pollfd
        *polls; /* a signalfd, then a pidfd per place, -1 where there is nothing to wait for (runner_wait.c) */
    bool has_threads, is_waiting;
    bool
        stays_deaf; /* set before runner_close: signals stay blocked until runner_hear, because there is a lock to release */
    bool is_deaf;
    sigset_t caught;
    struct sigaction saved_action; /* of SIGCHLD */
    sigset_t saved_mask, changed_signals;
    char *stack;               /* of spawn.h */
    struct region views;       /* per node of the graph, then per dynamic one */
    size_t counts[VIEW_COUNT]; /* tasks by state, without those that wait since the beginning */
    json_t *failures;          /* for the end: task, session, reason, log */
    json_t *questions;         /* open ones: node -> {id, task, session_id, question} */
    json_t *answers;           /* node -> array of {question, answer} */
    json_t *answer_counts;     /* node -> how many answers the journal has: questions are numbered by it (reply.h) */
    uint8_t *is_wanted;        /* --start: nodes that are to run; NULL: all */
    unsigned cancels;
    char chain[RUN_DEPTH_MAX * RUN_ID_MAX];                  /* for its tasks: the runs that it runs in, and itself */
    char request_id[129], request_updated_at[TIME_TEXT_MAX]; /* "": of no request */
    char request_sha256[65];
    json_t *history;    /* what happened to the run: [{time, what, …}] */
    char workflow[129]; /* "": for none */
    int64_t last_beat_ms;
    bool has_progress; /* a task has ended since */
    int64_t grace_ms, began_wall_ms, next_stage_ms;
    bool is_replaying, has_empty_channel, has_exact_stamps;
    uint64_t mark;           /* of the run (leftover.h) */
    uint64_t epoch;          /* how often the run was resumed */
    const char *status;      /* of the run at its end */
    char *source;            /* resumed: the file that the flow came from */
    json_t *held_facts;      /* see runner_facts_hold; NULL: they are reported at once */
    struct buf late_records; /* of groups: they belong behind the end of the task that ended them */
    struct buf trail;        /* events that wait for the next write */
    struct buf env_text;
    char **env;
    size_t env_base, env_room;
    char empty_channel[PATH_MAX + 64];
};

/* A new run of a loaded flow (borrowed until runner_close); `flow_text` is kept with it, `values` (may be NULL) go into the
 * channel. */
int runner_begin(struct runner *runner, struct tsk_workspace *ws, struct flow *flow, const char *flow_text,
                 size_t flow_len, const json_t *values, const struct runner_options *options, struct tsk_error *err);
/* An existing run that nobody executes: reads the flow that it was begun with into *flow, replays its journal. */
int runner_resume(struct runner *runner, struct tsk_workspace *ws, const char *id, struct flow *flow,
                  struct buf *flow_text, enum lang lang, const struct runner_options *options, struct tsk_error *err);
/* Executes it until it has ended or waits for an answer; the stage in *ret_stage. */
int runner_execute(struct runner *runner, json_t **ret_stage, struct tsk_error *err);
void runner_close(struct runner *runner);
/* Copies the answers that are there (reply.h) into the journal, and makes their tasks ready again. */
int runner_take_replies(struct runner *runner, struct tsk_error *err);

/* ---- between the files of the runner ---- */

struct output;
/* runner_task.c: starts what was claimed; the result of a start that failed is a failed task. */
void task_start(struct runner *runner, struct running *slot);
/* The process of a slot has exited; or, if the task was stopped, it is time to see whether the rest has. */
void task_exited(struct runner *runner, struct running *slot);
/* runner_files.c: the file with the values that a task may read (slot->channel_file; 0: RUNNER_EMPTY_CHANNEL, for all runs). */
#define RUNNER_EMPTY_CHANNEL "runs/.empty.json"
int task_channel(struct runner *runner, struct running *slot, struct tsk_error *err);
void task_channel_done(struct runner *runner, struct running *slot);
int task_answer(struct runner *runner, const struct running *slot, bool *ret_has_answer, struct tsk_error *err);
/* What it wrote; an absent file is an empty one. */
int task_output(struct runner *runner, const struct running *slot, struct output *ret, struct tsk_error *err);
int task_log_open(struct runner *runner, struct running *slot, struct tsk_error *err);
void task_log_close(struct runner *runner, struct running *slot, bool must_stay);
/* The log of a task that still runs gets its name. */
void task_name_log(struct runner *runner, struct running *slot);
/* The output of a place becomes the log of that attempt, or goes on in it. */
int runner_keep_output(struct runner *runner, size_t place, const char *session, const char *task, unsigned attempt,
                       char path[512]);
void runner_remove_io(struct runner *runner);
void task_stop(struct runner *runner, struct running *slot, enum stop why);
/* Kills whatever is left of it, and waits until it is gone. */
void task_end_processes(struct runner *runner, const struct running *slot);
/* Tells the memory and the journal how a task ended. `output` may be NULL. */
void task_complete(struct runner *runner, struct running *slot, enum outcome outcome, int exit_code,
                   struct output *output, struct tsk_error *reason);
/* Whether and why a claimed task needs no process. */
enum pass { PASS_NOT, PASS_START /* lies before --start */, PASS_WHEN /* its condition is false */, PASS_NEVER };
enum pass task_passes(struct runner *runner, const struct claim *claim);
void runner_write_late(struct runner *runner);
struct running *running_take(struct runner *runner, const struct claim *claim);
void running_free(struct runner *runner, struct running *slot);
const struct flow_task *runner_flow_task(const struct runner *runner, uint32_t node); /* NULL: a dynamic one */
/* runner.c: the options' beat, if it is due; `task_ended` makes it due earlier. */
void runner_beat(struct runner *runner, bool task_ended);
/* SIGINT and the like: the first time in good order, then at once. `why` NULL: somebody wanted it. */
void runner_cancel(struct runner *runner);
/* runner_wait.c: until something has happened, or the time is over; tells task_exited and runner_cancel. */
int runner_wait_begin(struct runner *runner, struct tsk_error *err);
void runner_wait(struct runner *runner, int timeout_ms);
void runner_wait_end(struct runner *runner);
void runner_hear(struct runner *runner); /* also after runner_close */
/* runner_view.c */
struct task_view *view_of(struct runner *runner, uint32_t node);
void view_set(struct runner *runner, uint32_t node, const struct task_view *view);
void view_set_state(struct runner *runner, uint32_t node, uint8_t state);
size_t runner_done(const struct runner *runner); /* tasks that have ended, each once however often it ran */
json_t *runner_stage(struct runner *runner);
void runner_save_stage(struct runner *runner);
/* A line of the run's history: started resumed asked answered ended; one more pair, or NULL. */
void runner_note(struct runner *runner, int64_t wall_ms, const char *what, const char *key, const char *value);
/* A fact for the caller that watches the run, and for the trail. Events are appended with one write per turn of the loop (runner_write_trail). */
void runner_fact(struct runner *runner, const char *type, const char *session, const char *task, json_t *data_take,
                 bool is_for_trail);
void runner_trail(struct runner *runner, const char *type, const char *session, const char *task, const json_t *data);
void runner_write_trail(struct runner *runner);
/* Facts that follow from the end of a task (the end of its branch, a conflict) are reported after it. While this is true, facts are
 * held until they are taken and reported. */
bool runner_facts_hold(struct runner *runner);
json_t *runner_facts_take(struct runner *runner);
void runner_facts_tell_take(struct runner *runner, json_t *held);
extern const struct memory_watcher runner_watcher;
/* The open question of a node, whose record is being written or replayed. */
void runner_put_question(struct runner *runner, uint32_t node, const char *task, const char *session, json_t *question);
/* replay.c: the records that decide about the failures before them: groups that passed, resumes. `at` is to be freed. */
struct deciding {
    const json_t *records;
    size_t *at;
    size_t count, next; /* the first behind the record that was asked for last: indexes grow */
};
void deciding_find(struct deciding *d, const json_t *records);
/* Whether the failure at `index`, of a task of that scope, stands: a group around the task passed in spite of it, or nobody has asked
 * for another try. A pass behind the resume that ran the task again says nothing about this failure. */
bool deciding_is_final(struct deciding *d, const struct graph *graph, uint32_t scope, size_t index,
                       bool keeps_failures);
int runner_replay(struct runner *runner, const json_t *records, struct tsk_error *err);

#endif
