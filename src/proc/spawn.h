/* spawn.h - starting a program: clone(CLONE_VM|CLONE_VFORK|CLONE_PIDFD), so that the cost depends neither on our memory nor on
 * the number of children. The child borrows our memory until its exec, which is also how its errno comes back.
 *
 * All signals are blocked across the clone; the child resets the handlers before it unblocks. */
#ifndef PROC_SPAWN_H
#define PROC_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define SPAWN_MARK_MIN (UINT64_C(1) << 62) /* limits from here on are marks: 150,000 years */

struct spawn_fd {
    int from, to; /* dup2 in the child, without CLOEXEC; `from` may equal `to`. -1: /dev/null */
};

struct spawn {
    const char *path; /* program; NULL: argv[0] by PATH of `envp` */
    char *const *argv;
    char *const *envp; /* NULL: ours */
    const char *cwd;   /* NULL: ours */
    const struct spawn_fd *fds;
    size_t fd_count;
    const sigset_t *mask;  /* the child's; NULL: as ours was before */
    bool new_session;      /* setsid */
    bool new_group;        /* setpgid(0, 0) */
    bool dies_with_parent; /* PR_SET_PDEATHSIG SIGKILL */
    uint64_t mark;      /* its soft limit of RLIMIT_RTTIME, by which it and whatever it starts are known; 0: as ours */
    bool keeps_signals; /* leave ignored signals ignored (a command of the user's terminal) */
    /* For a caller that starts thousands: the signals that are not at their default, from spawn_look (NULL: looked up in the child),
     * and a stack that is used again, from spawn_stack (NULL: a new one). */
    const sigset_t *changed_signals;
    char *stack;
    bool no_pidfd; /* it costs a tenth of the start; for a caller that waits in another way */
    /* out */
    pid_t pid;
    int pidfd;         /* CLOEXEC, owned by the caller; -1 where there is none */
    const char *stage; /* on failure: "clone" "cwd" "descriptors" "exec" */
};

/* From now on every program starts with this limit of descriptors: a server that raises its own must not hand that on. */
void spawn_keep_limit(const struct rlimit *descriptors);

void spawn_look(sigset_t *ret_changed);
/* Enough for commands of up to SPAWN_ARGS_MAX words; NULL: out of memory. */
#define SPAWN_ARGS_MAX 4096
char *spawn_stack(void);
void spawn_stack_free(char *stack);

/* 0 when the exec succeeded; -1 with errno and stage otherwise (the child is already reaped). */
int spawn_run(struct spawn *s);

#endif
