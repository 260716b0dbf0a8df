/* worker.h - claims attempts, executes them with the code of the local runner (execute.h), and sends their results.
 *
 *  W1  A lease is counted from before the request was sent, on CLOCK_BOOTTIME. An attempt that could not be renewed is killed,
 *      whole tree, before its lease ends: by the worker or by its guard (guard.h), whichever can.
 *  W2  A lease that is over by the worker's own clock is never renewed, and its process gives no result, whatever the server
 *      says. So a worker that was frozen checks the clock first. It checks the clock again after it has told the guard about a
 *      renewal, because the guard may have killed the process just before, and that is no result either.
 *  W3  A claim has a number, which is used again until its answer has come. The answer to a number is always the same.
 *  W4  A result is kept, and sent again on request, until the runner has it in its journal.
 *  W5  A drained worker (SIGTERM) claims nothing more and finishes its attempts. A stopped worker (a second signal) ends its
 *      attempts and returns them. Both leave only when each claim was answered: an attempt in a lost answer is theirs, too. While
 *      the server cannot be reached, a drained worker keeps its results and waits; a stopped one leaves after GOODBYE_MS.
 *  W6  A worker that a runner has started (--run) works for that run only and is silent. It is stopped when the runner is gone: its
 *      descriptor WORKER_RUNNER_FD is closed then.
 *  W7  A worker that cannot make the files of an attempt (its disk is full, say), or does not know the version of its
 *      specification, returns it, and claims nothing for a while. Otherwise it would be the first to take it again, and an attempt
 *      that is returned three times has failed. One of another version has never begun, and may be returned any number of times.
 *
 * One thread. Calls are made one at a time, each with a time limit; none waits past the time at which an attempt must be killed. */
#ifndef REDIS_WORKER_H
#define REDIS_WORKER_H

#include "base/sha256.h"
#include "graph/execute.h"
#include "graph/wire.h"
#include "redis/guard.h"
#include "redis/scratch.h"
#include "redis/steps.h"
#include "store/commit.h"

#define WORKER_ID_MAX    160
#define WORKER_RUNNER_FD 3
#define PACKS_MAX        4
#define RECONNECT_MS     500

/* A run that the worker has to do with. */
struct worker_run {
    char root[RUN_ID_MAX];
    struct steps steps;
    struct rundir run;
    struct executor executor;
    int64_t number;        /* of the claim (W3) */
    bool is_asked;         /* a claim with that number was sent, and not answered */
    bool has_work;         /* a claim may find something */
    int64_t lease_ms;      /* of the last claim */
    int64_t retry_ms;      /* the server does not know the run now: nothing is sent until then */
    bool has_said_version; /* that it is of another version */
    bool is_over;          /* the server said so: what the worker has of it is dropped */
    int64_t look_ms;       /* when it was last of use */
    struct worker_run *next;
};

struct worker_place {
    struct worker_run *run; /* NULL: free */
    char id[GUARD_ID_MAX], fence[GUARD_ID_MAX];
    struct claim claim; /* task and session are owned copies */
    struct attempt_process process;
    int64_t started_ms, lease_until_ms, kill_at_ms;
    int log_fd; /* of a place that is free, too, if nothing was printed there */
    int64_t log_sent;
    bool is_lost;               /* its lease is over, or was given to somebody else: no result counts */
    bool is_back;               /* stopped by the worker's own end: it goes back */
    bool is_unknown;            /* it goes back, because its specification has another version */
    bool has_no_output;         /* it has written nothing for the run */
    bool has_files, has_answer; /* it has a directory of its own, or a file with an answer */
    bool tells;                 /* the guard has not heard of it yet */
    int64_t renewed_ms; /* W2: when it would have ended without the renewal of which the guard is to hear; 0: none */
};

/* W4. */
struct worker_result {
    struct worker_run *run;
    char id[GUARD_ID_MAX], fence[GUARD_ID_MAX];
    struct buf result, log; /* the log: what was not sent yet, from log_at on */
    int64_t log_at, made_ms;
    bool is_sent, is_back, is_unknown;
    struct worker_result *next;
};

/* Files that travelled with a run, in scratch. */
struct worker_pack {
    char hash[SHA256_HEX_SIZE]; /* "": none */
    int64_t used_ms;
};

/* A connection on which the server answers when there is something to do. */
struct worker_wait {
    struct redis_conn conn;
    bool is_asked;    /* an answer is due */
    int64_t try_ms;   /* before that it is not connected again */
    bool has_no_many; /* the server does not know BLMPOP */
};

struct worker {
    struct redis_settings settings;
    struct redis_conn calls;
    struct worker_wait wakes, orders;
    char id[WORKER_ID_MAX], name[REDIS_NAME_MAX], host[80], tags[512];
    char dir[PATH_MAX], scratch[PATH_MAX];
    int life_fd;             /* of scratch: open as long as the worker lives */
    int attempts_fd;         /* S2 of scratch.h */
    char only[RUN_ID_MAX];   /* W6: it works for this run only; "": for any */
    int runner_fd;           /* W6; -1: none */
    char commit[COMMIT_MAX]; /* of dir; "": none */
    struct worker_pack packs[PACKS_MAX];
    struct worker_place *places;
    size_t place_count, used;
    struct worker_run *runs;
    struct worker_result *results;
    int guard_fd;
    pid_t guard_pid;
    bool has_words; /* for the guard */
    int null_fd;
    sigset_t mask; /* of tasks */
    unsigned ends; /* signals: 1 drains, 2 stops */
    int64_t connect_ms, live_ms, renew_ms, log_ms, register_ms;
    int64_t rest_ms; /* nothing is claimed until then (W7) */
    int64_t look_ms; /* without `wakes`: when it looks for runs itself */
    bool is_away;
    struct buf env;
};

int worker_main(int argc, char **argv);

/* ---- worker_task.c ---- */
/* A place for what was claimed; the guard is to be told before it begins (G1). `before_ms`: when the claim was sent. */
struct worker_place *place_take(struct worker *w, struct worker_run *run, const char *id, const char *fence,
                                int64_t before_ms);
/* Begins it; what cannot be begun goes back. */
void place_begin(struct worker *w, struct worker_place *place, struct parcel item);
/* Looks at the processes: ends, timeouts, kills, leases. */
void places_look(struct worker *w);
void place_stop(struct worker *w, struct worker_place *place, enum stop why);
void place_lose(struct worker *w, struct worker_place *place); /* kills it; nothing is sent */
/* A lease was renewed: the guard is to be told, and then the clock looked at (W2). */
void place_renewed(struct worker *w, struct worker_place *place, int64_t before_ms);
void places_renewed(struct worker *w);
/* Tells the guard what it has not heard yet, in one message. */
void guard_words(struct worker *w);
/* ---- worker_talk.c ---- */
struct worker_run *worker_run_of(struct worker *w, const char *root);
void talk_connect(struct worker *w);
void talk_live(struct worker *w);
void talk_next(struct worker *w, struct worker_run *run);
void talk_renew(struct worker *w);
void talk_logs(struct worker *w);
/* K2 of sign.h. */
void talk_dead(struct worker *w, const struct worker_place *place, const char *reason);
/* ---- worker_wakes.c ---- */
void talk_wakes(struct worker *w);
void look_at_runs(struct worker *w);
/* ---- worker_files.c ---- */
/* Makes the directory with the run's files. -1: they are not there, or it cannot be made. 1: they are others than those that the hash means. */
int files_unpack(struct worker *w, const char *hash, const char *dir);
/* The values of a session; the file's path. -1: they are not there (errno 0), or could not be written. */
int talk_channel(struct worker *w, struct worker_run *run, const char *session, int64_t version, char path[PATH_MAX]);
void worker_say(const struct worker *w, const char *root, const char *task, const char *session, const char *what);
void result_free(struct worker *w, struct worker_result *result);
void forget_results(struct worker *w);
void worker_run_dir(const struct worker *w, const struct worker_run *run, char path[PATH_MAX]);
/* ---- worker.c ---- */
void worker_end(struct worker *w, unsigned level); /* W5: 1 drained, 2 stopped */

#endif
