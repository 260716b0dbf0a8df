/* ident.h - the identity of a process. A pid alone never identifies a process: (boot id, pid, start ticks) does. */
#ifndef BASE_IDENT_H
#define BASE_IDENT_H

#include "base/clock.h"

#include <limits.h>

#define ID_LENGTH_MAX 128        /* characters of an id: of a process, a request, a lock, a workflow */
#define ENVIRON_MAX   (4u << 20) /* bytes of a process's environment that are read */

#define BOOT_ID_SIZE  37
#define HOSTNAME_SIZE 256

struct proc_id {
    pid_t pid;
    uint64_t
        start_ticks; /* clock ticks between boot and the start: field 22 of /proc/<pid>/stat, without the shift of a time
                             namespace */
    uint64_t pid_ns; /* inode of the pid namespace in which `pid` counts */
    char boot_id[BOOT_ID_SIZE];
};

/* Whether a process is alive. LIVE_UNKNOWN counts as alive. */
enum liveness { LIVE_DEAD, LIVE_ALIVE, LIVE_UNKNOWN };

const char *boot_id(void); /* this boot's, cached; "" if it cannot be read */
/* The path of this program. If the file was replaced while the program runs, the path of the new file. Returns -1 with ENOENT
 * if there is no executable file any more. */
int self_path(char path[PATH_MAX]);
uint64_t pid_namespace(void); /* of this process, cached; 0 if it cannot be read */
const char *host_name(void);  /* cached */

/* Fills *ret for a process that exists now; returns -1 with errno ESRCH if it does not. A zombie counts as gone. */
int proc_id_of(pid_t pid, struct proc_id *ret);
/* Whether exactly that process still runs. */
enum liveness proc_id_liveness(const struct proc_id *id);
/* Whether it does not run because of a signal (Ctrl-Z) or a debugger. False also if that cannot be found out. */
bool process_is_stopped(pid_t pid);
/* The same, and what the process uses, from one look at it; *ret_usage is of that process only with LIVE_ALIVE. */
struct proc_usage {
    uint64_t cpu_ticks; /* user and system time */
    uint64_t rss_pages;
};
enum liveness proc_id_look(const struct proc_id *id, struct proc_usage *ret_usage);
/* A pidfd, close-on-exec, of the process that has this pid now; -1 with ESRCH when there is none. */
int pid_open(pid_t pid);
/* From now on keeps the descriptors of at most `count` processes that were looked at, because opening one costs as much as reading
 * it. For a server; 0: no more. Such a descriptor means the process that had the pid when it was opened, and never one that gets the pid later:
 * as long as it can be read, that process has the pid. */
void proc_keep_looks(size_t count);
/* A pidfd of exactly that process (its identity is compared after opening); -1 with ESRCH when it is gone. */
int proc_id_open(const struct proc_id *id);
int proc_id_signal(const struct proc_id *id, int number);
/* The same with a word for its handler (si_value, with SI_QUEUE); 0: without one. */
int proc_id_send(const struct proc_id *id, int number, int word);
/* Wall-clock time at which a process of this boot started, computed from the clocks. */
int64_t proc_id_start_wall(const struct proc_id *id, const struct now *now);
/* The same of a pid; -1 with ESRCH. */
int proc_start_wall(pid_t pid, const struct now *now, int64_t *ret_wall_ms);
/* The id of a process as an instance: HOST-PID-MS, with its start time. The same for every program that makes it. */
void proc_instance_id(const struct proc_id *id, char *ret, size_t size);
/* Clock ticks per second, the unit of start_ticks. */
uint64_t ticks_per_second(void);
/* Parent and short name ("comm"); -1 with ESRCH. */
int proc_parent(pid_t pid, pid_t *ret_parent);
int proc_name(pid_t pid, char *name, size_t size);

/* Finds the process that should hold a lock for a command that returns at once: the nearest ancestor that is not a wrapper
 * (a shell started with -c, sudo, timeout, xargs, env, nice, ...). Returns -1 with ESRCH if only pid 1 is left. */
int proc_guess_holder(struct proc_id *ret);
/* The same, upwards from `pid` (itself included). */
int proc_guess_holder_from(pid_t pid, struct proc_id *ret);
/* The name of the program that a process executes; of an interpreter, its script's. -1: unknown. */
int proc_program(pid_t pid, char *name, size_t size);
/* The same of the nearest program upwards from `pid` (itself included) that is no shell, no wrapper and no tasuki. -1: there is
 * none below the terminal or the login, so a person acts. */
int proc_program_above(pid_t pid, char *name, size_t size);
/* Whether `id` is this process or one of its ancestors. */
bool proc_is_ancestor(const struct proc_id *id);

/* The pid in an instance id `{hostname}-{pid}-{start in ms}`, split from the right; 0 when it has another form. */
pid_t instance_pid(const char *instance);

/* Blocks the signals of a terminal in this thread, so that a process is not stopped or interrupted while it holds a lock. */
void signals_hold(sigset_t *saved);
/* Writes `digits` random lower-case hex digits and a NUL. Aborts if the kernel has no random numbers. */
void random_hex(char *text, size_t digits);
/* PREFIX20260207T223000-1f4ab: UTC, the milliseconds and `digits` random digits, in hexadecimal. Ids sort in the order in which they were made. */
void time_id(char *id, size_t size, const char *prefix, size_t digits);
/* The time in such an id, in ms; -1: it has none. */
int64_t time_of_id(const char *id);
/* [A-Za-z0-9][A-Za-z0-9._-]{0,127}: safe as a file name. */
bool id_is_valid(const char *id);

#endif
