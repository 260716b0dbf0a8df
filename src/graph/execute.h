/* execute.h - executes one attempt: a specification goes in, a process of this machine executes it, a result comes out. The
 * runner uses it for attempts of its own run; a worker uses it for attempts of runs on other machines. Nothing here knows a
 * plan, a channel or a journal. */
#ifndef GRAPH_EXECUTE_H
#define GRAPH_EXECUTE_H

#include "graph/attempt.h"
#include "graph/memory.h"
#include "graph/rundir.h"

#include <signal.h>

#define RUN_LOCK_FD 63 /* in a task: where it has the descriptor of the request's lock */

/* What to execute. All strings are borrowed. */
struct attempt_spec {
    const struct claim *claim; /* task, session, attempt and fence */
    char **argv;               /* ends with NULL */
    const char *cwd;           /* NULL: ours */
    const char *env;           /* env_count strings KEY=value, one behind the other */
    size_t env_count;
    const char *channel, *output; /* paths of files */
    const char *answer;           /* the same; NULL: there is none */
    const char *root, *chain;     /* TASUKI_ROOT, TASUKI_RUN_CHAIN */
    const char *worker;           /* TASUKI_WORKER; NULL: the runner itself */
    int log_fd;
};

/* What attempts of one run share. */
struct executor {
    const struct rundir *run; /* its id, its life */
    int lock_fd;              /* goes to the tasks as well; 0: none */
    int null_fd;
    const sigset_t *mask; /* of the tasks */
    bool no_pidfd;
    bool is_exact; /* other attempts of the same task may live on this machine: only this fence is meant (leftover.h) */
    int64_t grace_ms; /* between SIGTERM and SIGKILL */
    uint64_t mark;    /* of the run (leftover.h) */
    sigset_t changed_signals;
    char *stack; /* of spawn.h */
    struct buf env_text;
    char **env;
    size_t env_base, env_room;
};

/* An attempt that is executed. */
struct attempt_process {
    pid_t pid; /* 0: it has not started */
    int pidfd;
    siginfo_t end;       /* how its process ended, once it is reaped (si_pid) */
    int64_t deadline_ms; /* of the timeout; 0: none */
    int64_t kill_at_ms;  /* SIGKILL is due; 0: not stopping */
    int64_t look_at_ms;  /* it has exited, what it started has not: when to look again; 0: it has not exited */
    enum stop stops;
};

/* `run` is borrowed; null_fd, mask and lock_fd are the caller's to set. */
void executor_init(struct executor *executor, const struct rundir *run);
void executor_clear(struct executor *executor);
/* One more variable of all tasks, KEY=value (borrowed); before the first start. */
void executor_add_env(struct executor *executor, const char *pair);

/* TASK_FAILED: the step of its start, "cwd" or another one, has failed with that errno. -1. */
int execution_not_started(const char *task, const char *command, const char *cwd, const char *stage, int number,
                          struct tsk_error *err);
/* Starts it. -1: TASK_FAILED with the step that failed, sys_errno is its reason. */
int execution_start(struct executor *executor, const struct attempt_spec *spec, struct attempt_process *execution,
                    struct tsk_error *err);
/* SIGTERM for all of it the first time, SIGKILL once the grace time is over. */
void execution_stop(struct executor *executor, const struct claim *claim, struct attempt_process *execution,
                    enum stop why);
/* Kills what is left of it, and waits until it is gone. */
void execution_kill(struct executor *executor, const struct claim *claim, const struct attempt_process *execution);
/* Whether it has exited. One that was not stopped is reaped by the same call; one that was stays a zombie until the rest of it is gone. */
bool execution_has_exited(struct attempt_process *execution);
/* The process has exited (look_at_ms: it is time to look again). false: it was stopped, and others of it still live. */
bool execution_ended(struct executor *executor, const struct claim *claim, struct attempt_process *execution);
/* 128 + n after signal n. */
int execution_exit_code(const struct attempt_process *execution);
bool execution_was_killed(const struct attempt_process *execution);

#endif
