/* runner.h - executes a flow: tasks as processes, a loop that waits for them, a journal of what happened.
 *
 *  X1  A task's end is in the journal before anything that depends on it is started (N1). Its start is in the journal before
 *      its process exists.
 *  X2  A task is a process group of its own and dies with its runner. Its processes inherit the run's life byte, TASUKI_RUN_ID
 *      and the task's mark (leftover.h), so that they are found when the task is stopped or the run is resumed.
 *  X3  The writes of a task are applied when it has exited with 0; a question counts in any case.
 *  X4  A task that must stop (timeout, fail_fast, cancel) gets SIGTERM, with everything that it started; what is left after the
 *      grace time gets SIGKILL. It has ended when all of that is gone. If a task ends by itself, with success or not, the
 *      processes that it leaves keep running: they were left on purpose.
 *  X5  The replay of a journal makes the same calls of memory.h in the same order as the run that wrote it. A failure is not
 *      replayed, so the task runs again, unless its group passed in spite of the failure before the next resume, or the run
 *      only continues with an answer.
 *  X6  A run that loses its lock is cancelled with LOCK_LOST, unless nothing was left to do: a complete run is DONE.
 *
 * One thread, though there may be others in the process. Signals: SIGTERM, SIGINT and SIGHUP cancel in good order, the second
 * one at once; SIGUSR1 at once. SIGINT and SIGHUP stay ignored if the starter ignores them (nohup, `&` in a script). From the
 * moment at which a stage names the runner, these signals are blocked, so that none of them kills it. After a cancelled run
 * they stay blocked, because the process is about to end. */
#ifndef GRAPH_RUNNER_H
#define GRAPH_RUNNER_H

#include "base/sha256.h"
#include "graph/execute.h"
#include "graph/flow.h"
#include "graph/journal.h"
#include "graph/memory.h"
#include "graph/rundir.h"
#include "lock/record.h"
#include "store/commit.h"

#include <poll.h>
#include <signal.h>

#define LOG_NAME_MS   30
#define RUN_DEPTH_MAX 16 /* runs within runs */

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
    uint8_t state;     /* enum view_state */
    uint8_t takeovers; /* workers that were lost with it */
    uint16_t attempt;
    int16_t exit_code; /* 128 + n: by signal n; -1: not known */
    uint16_t worker;   /* view_worker; 0: it ran here */
    int64_t started_ms, ended_ms;
};

/* Receives the facts of a run: events in the form of store/events.h, without an id. It returns nothing: a run does not stop
 * because its output is not read. */
typedef void runner_tell(void *data, const json_t *document);

struct runner_options {
    int64_t parallel;                    /* 0: the flow's, or one per processor */
    const char *start;                   /* task to begin with, or NULL */
    const json_t *only;                  /* names of tasks: these, and what they need; NULL: all */
    bool refuses_cancelled;              /* resumed without being asked for: one that was given up stays so */
    const char *id;                      /* of a new run; NULL: a new one */
    const char *flow_source, *flow_text; /* resumed: another flow for it (reflow.h); NULL: its own copy */
    size_t flow_len;
    const char *request_id, *request_updated_at; /* a new run of a request; they stay with the run */
    const char *request_sha256;                  /* of its file's text */
    const json_t *lock;                          /* of its request, for the stage; may change in `beat` */
    int lock_fd;                                 /* its life goes to the tasks as well; 0: none */
    const char *workflow;                        /* that a new run is for; it stays with the run. May be NULL */
    const json_t *params;  /* the variables of the flow's parameters, KEY=text; they stay with the run. May be NULL */
    const char *exclusive; /* the lock that a new run needs, as its flow is exclusive; it stays with the run */
    /* Called for a new run before its first record: adds files to its directory that a resume will need. May be
     * NULL. */
    int (*prepare)(void *data, int run_dir, struct tsk_error *err);
    void *prepare_data;
    /* Called every beat_ms, and when a task has ended (at most once a second). false: what the run stands on is lost (X6); *why, if
     * it is set, is the reason, else the lock. */
    bool (*beat)(void *data, bool has_progress, struct tsk_error *why);
    void *beat_data;
    int64_t beat_ms;
    runner_tell *tell;
    void *tell_data;
    /* Attempts go elsewhere (remote.h): the program of the link; what its environment says beside ours, [KEY=value]; how the place is
     * shown to people, without secrets; the note that stays with the run, so that a resume goes there, too. NULL: they do not. */
    const char *remote_program;
    const json_t *remote_env;
    const char *remote_shown;
    bool is_local; /* and one more executor is here */
    /* A run that continues where its attempts went before: sets the three. May be NULL: it has none. */
    int (*find_remote)(void *data, const char *shown, struct runner_options *options, struct tsk_error *err);
    void *find_remote_data;
    bool wants_ticks; /* also a `run.progress` some times a second: the caller draws what has changed */
};

/* A task's process. */
struct running {
    bool is_used;
    struct claim claim; /* task and session are owned copies */
    uint32_t scope;
    struct attempt_process process;
    char log[512];     /* path below the run's directory, once it is there */
    bool is_log_named; /* the log has that path; before, it is the slot's file */
    int64_t log_from;  /* where its output begins in a log that continues */
    int64_t started_ms, started_wall_ms;
    uint32_t channel_file, values_scope; /* values_scope: whose file it is (task_values_scope) */
    bool is_passed;                      /* before --start: counts as done, is shown as skipped */
    bool is_unwanted;                    /* its condition is false: it is skipped, and its successors run */
    bool is_over;                        /* not one of the running ones any more */
    struct {
        unsigned pushes, takeovers;
        bool is_claimed, is_unsaid; /* is_unsaid: that it was claimed, by a worker that will return it, perhaps */
        char fence[24];
        int64_t log_at;                       /* bytes of its log that are here */
        char worker[128], commit[COMMIT_MAX]; /* commit: only if it is another one than here */
        char process[160];                    /* of the worker: many may have one name */
    } remote;
};

/* The link (remote.h). */
struct remote {
    int fd; /* -1: none */
    pid_t pid;
    int starts;
    int64_t start_ms;         /* of the present link */
    pid_t local_pid;          /* R5; 0: none */
    int local_fd;             /* closed: it ends */
    struct buf in, out, acks; /* acks: of ends that the journal does not have yet */
    size_t in_at;
    int64_t places;         /* of all workers; -1: not known */
    bool has_said_version;  /* that there is a worker of another version */
    char away[256];         /* why the link cannot reach the server; "": it can */
    json_t *other_versions; /* workers that have returned a task because of its version: process → true; NULL: none */
    char files[SHA256_HEX_SIZE]; /* the hash of what travels with it; "": nothing */
    char commit[COMMIT_MAX];     /* that is checked out here; "": not known */
};

/* The file with a session's values, shared until they change: by its tasks, and by branches that have the same values. */
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
    struct executor executor;
    struct pollfd
        *polls; /* a signalfd, then a pidfd per place, -1 where there is nothing to wait for (runner_wait.c) */
    struct remote remote;
    json_t *workers; /* name → number; NULL: none yet */
    bool has_parallel_option, was_interrupted;
    sigset_t caught;
    struct sigaction saved_action; /* of SIGCHLD */
    sigset_t saved_mask;
    sigset_t task_mask;  /* for the tasks: saved_mask without the caught signals, even if our caller had blocked them */
    struct region views; /* per node of the graph, then per dynamic one */
    size_t counts[VIEW_COUNT]; /* tasks by state, without those that wait since the beginning */
    json_t *failures;          /* for the end: task, session, reason, log */
    json_t *questions;         /* open ones: node -> {id, task, session_id, question} */
    json_t *answers;           /* node -> array of {question, answer} */
    json_t *answer_counts;     /* node -> how many answers the journal has: questions are numbered by it (reply.h) */
    uint8_t *is_wanted;        /* --start: nodes that are to run; NULL: all */
    json_t *history;           /* what happened to the run: [{time, what, …}] */
    json_t *params;            /* as in the options */
    int64_t last_beat_ms;
    int64_t began_wall_ms, paused_ms, next_stage_ms, next_tick_ms, trail_due_ms;
    uint64_t epoch;          /* how often the run was resumed */
    const char *status;      /* of the run at its end */
    char *source;            /* resumed: the file that the flow came from */
    json_t *held_facts;      /* see runner_facts_hold; NULL: they are reported at once */
    struct buf late_records; /* of groups: they belong behind the end of the task that ended them */
    struct buf trail;        /* events that wait for the next write */
    char empty_channel[PATH_MAX + 64];
    uint32_t file_number;
    unsigned cancels;
    bool has_threads, is_waiting;
    bool
        stays_deaf; /* set before runner_close: signals stay blocked until runner_hear, because there is a lock to release */
    bool is_deaf;
    bool has_progress; /* a task has ended since last_beat_ms */
    bool is_replaying, has_empty_channel, has_exact_stamps;
    char chain[RUN_DEPTH_MAX * RUN_ID_MAX];                  /* for its tasks: the runs that it runs in, and itself */
    char request_id[129], request_updated_at[TIME_TEXT_MAX]; /* "": of no request */
    char request_sha256[65];
    char workflow[129];             /* "": for none */
    char exclusive[LOCK_NAME_SIZE]; /* "": none */
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
/* How an attempt ended is known (slot->process): what follows from it. */
void task_judge(struct runner *runner, struct running *slot);
/* It was interrupted, and is not to run again without being asked for: it fails, or asks. */
void task_interrupted(struct runner *runner, struct running *slot, uint8_t on_interrupt);
/* The command of a task as an argument list; owned array of borrowed words. */
char **task_argv(const struct runner *runner, const struct running *slot);
/* runner_files.c: the file with the values that a task may read (slot->channel_file; 0: RUNNER_EMPTY_CHANNEL, for all runs). */
#define RUNNER_EMPTY_CHANNEL "runs/.empty.json"
/* The scope whose values the task reads: a branch that has written nothing has those of the session around it. */
uint32_t task_values_scope(const struct runner *runner, const struct running *slot);
int task_channel(struct runner *runner, struct running *slot, struct tsk_error *err);
void task_channel_done(struct runner *runner, struct running *slot);
int task_answer(struct runner *runner, const struct running *slot, bool *ret_has_answer, struct tsk_error *err);
/* What it wrote; an absent file is an empty one. */
int task_output(struct runner *runner, const struct running *slot, struct output *ret, struct tsk_error *err);
/* Opens the log that an earlier attempt of this name has written, if there is one. */
bool task_log_goes_on(struct runner *runner, struct running *slot);
int task_log_open(struct runner *runner, struct running *slot, struct tsk_error *err);
void task_log_close(struct runner *runner, struct running *slot, bool must_stay);
/* The log of a task that still runs gets its name. */
void task_name_log(struct runner *runner, struct running *slot);
/* The output of a place becomes the log of that attempt, or continues in it. */
int runner_keep_output(struct runner *runner, size_t place, const char *session, const char *task, unsigned attempt,
                       char path[512]);
void runner_remove_io(struct runner *runner);
void task_stop(struct runner *runner, struct running *slot, enum stop why);
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
/* Asks the runner in that process to cancel its run (is_now: at once). A run that has just ended stays as it ended, and so does the
 * process. -1 with errno. */
int runner_ask_cancel(const struct proc_id *id, bool is_now);
void runner_hear(struct runner *runner); /* also after runner_close */
/* runner_view.c */
struct task_view *view_of(struct runner *runner, uint32_t node);
void view_set(struct runner *runner, uint32_t node, const struct task_view *view);
void view_set_state(struct runner *runner, uint32_t node, uint8_t state);
/* The number of a worker's name and its other commit ("": none) in the views of this run; no name: 0. */
uint16_t view_worker(struct runner *runner, const char *name, const char *commit);
size_t runner_done(const struct runner *runner); /* tasks that have ended, each once however often it ran */
json_t *runner_stage(struct runner *runner);
void runner_save_stage(struct runner *runner);
/* A line of the run's history: started resumed asked answered ended; one more pair, or NULL. */
void runner_note(struct runner *runner, int64_t wall_ms, const char *what, const char *key, const char *value);
/* A failure of a task, for the stage and as a fact. Takes it. */
void runner_note_failure(struct runner *runner, const char *session, const char *task, json_t *failure);
/* A fact for the caller that watches the run, and for the trail. The events of a turn of the loop are appended with one write
 * (runner_write_trail), those of a turn right after another write together with the next ones: many short
 * tasks do not pay for an append each. */
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
/* replay.c: what is asked about a task that was interrupted (on_interrupt: ask); owned. */
json_t *question_of_interrupted(const char *task);
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
