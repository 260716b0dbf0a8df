/* bench.h - what the parts of the lock benchmark share.
 *
 * bench-locks is started by bench/run.py, once for each measurement; run.py interleaves the methods and
 * compares. Every part prints one JSON object on stdout. A failure of anything measured ends the process with
 * status 1: a number from a broken run is worse than none. */
#ifndef TASUKI_BENCH_LOCKS_H
#define TASUKI_BENCH_LOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <tasuki.h>

/* One process's view of the one lock that a method locks. */
struct bench {
    char path[4096]; /* the lock's file, for the methods that have one of their own */
    int fd;
    int guard_fd; /* of flock */
    struct tsk_workspace *workspace;
    struct tsk_lock *lock;
};

/* A way to lock. `open` is called in the process that will lock; `acquire` with `wait` returns when it holds.
 */
struct method {
    const char *name;
    const char *about;
    void (*open)(struct bench *bench, const char *root);
    void (*acquire)(struct bench *bench, bool wait);
    void (*release)(struct bench *bench);
};

/* NULL: there is no method of that name. */
const struct method *method_find(const char *name);
void method_print_all(void);

/* Prints what failed and why, and ends the process. */
_Noreturn void die(const char *what);
_Noreturn void die_tasuki(const char *what, const struct tsk_error *err);

/* CLOCK_MONOTONIC: the same clock in all processes. */
int64_t now_ns(void);
/* A decimal number of at least 1, or the end of the process. */
long parse_count(const char *text);
/* Sorts; then value[(count - 1) * permille / 1000] is the quantile. */
void sort_ns(int64_t *value, long count);

/* The parts: argv[0] is the part's name. */
int uncontended_main(int argc, char **argv);
int contended_main(int argc, char **argv);
int death_main(int argc, char **argv);
int fill_main(int argc, char **argv);
int spawn_main(int argc, char **argv);

#endif
