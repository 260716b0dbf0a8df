/* contended.c - several processes take the same lock in turn, with a witness.
 *
 * The witness is memory that all share: each holder adds itself on entry and must find nobody, and changes a
 * plain counter that loses counts if two are inside. So the benchmark is a test of exclusion as well. */
#include "bench.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCESSES 64
#define MAX_SAMPLES   (1L << 18) /* of each process; later acquisitions are counted, not timed */

struct witness {
    atomic_int ready;
    atomic_int go;
    atomic_int inside;
    atomic_long doubles;
    volatile long plain; /* not atomic on purpose */
    int last;            /* the holder before this one; written by holders only */
    long handovers;      /* acquisitions by another process than the last one */
    int64_t end_ns;
    long count[MAX_PROCESSES];
};

struct run {
    const struct method *method;
    const char *root;
    int processes;
    struct witness *witness;
    int64_t *samples; /* processes x MAX_SAMPLES */
};

static void *map_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    return memory;
}

static void hold(struct witness *w, int self)
{
    if (atomic_fetch_add(&w->inside, 1) != 0)
        atomic_fetch_add(&w->doubles, 1);
    w->plain = w->plain + 1;
    w->handovers += w->last != self;
    w->last = self;
    atomic_fetch_sub(&w->inside, 1);
}

static void contend(const struct run *run, int self)
{
    struct witness *w = run->witness;
    int64_t *samples = run->samples + self * MAX_SAMPLES;
    struct bench bench = {.fd = -1};
    run->method->open(&bench, run->root);
    atomic_fetch_add(&w->ready, 1);
    while (!atomic_load(&w->go))
        usleep(100);
    long count = 0;
    for (int64_t asked; (asked = now_ns()) < w->end_ns; count++) {
        run->method->acquire(&bench, true);
        if (count < MAX_SAMPLES)
            samples[count] = now_ns() - asked;
        hold(w, self);
        run->method->release(&bench);
    }
    w->count[self] = count;
}

static void start_all(const struct run *run, pid_t *pids)
{
    for (int i = 0; i < run->processes; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            die("fork");
        if (pids[i] == 0) {
            contend(run, i);
            _exit(0);
        }
    }
}

/* True if all ended well; the others are ended as soon as one did not, they might wait for ever. */
static bool reap_all(const pid_t *pids, int processes)
{
    bool good = true;
    for (int left = processes; left > 0; left--) {
        int status = 0;
        if (wait(&status) < 0)
            die("wait");
        if (status && good)
            for (int i = 0; i < processes; i++)
                kill(pids[i], SIGKILL);
        good = good && status == 0;
    }
    return good;
}

/* Gathers all samples at the front of run->samples and sorts them. */
static long merge_samples(const struct run *run)
{
    long total = 0;
    for (int i = 0; i < run->processes; i++) {
        long count = run->witness->count[i] < MAX_SAMPLES ? run->witness->count[i] : MAX_SAMPLES;
        for (long k = 0; k < count; k++)
            run->samples[total++] = run->samples[i * MAX_SAMPLES + k];
    }
    sort_ns(run->samples, total);
    return total;
}

static int print_result(const struct run *run, double seconds)
{
    struct witness *w = run->witness;
    long total = 0, least = w->count[0], most = 0;
    for (int i = 0; i < run->processes; i++) {
        total += w->count[i];
        least = w->count[i] < least ? w->count[i] : least;
        most = w->count[i] > most ? w->count[i] : most;
    }
    long samples = merge_samples(run);
    if (!samples)
        die("no acquisition");
    const int64_t *ns = run->samples;
    printf("{\"method\": \"%s\", \"processes\": %d, \"per_second\": %.1f, \"handovers_per_second\": %.1f, \"p50_us\": "
           "%.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f, \"least\": %ld, \"most\": %ld, \"double_holds\": %ld, \"lost_counts\": %ld}\n",
           run->method->name, run->processes, (double)total / seconds, (double)w->handovers / seconds,
           (double)ns[samples / 2] / 1e3, (double)ns[(samples - 1) * 99 / 100] / 1e3, (double)ns[samples - 1] / 1e3,
           least, most, atomic_load(&w->doubles), total - w->plain);
    return atomic_load(&w->doubles) || total != w->plain ? 1 : 0;
}

int contended_main(int argc, char **argv)
{
    const struct method *method = argc == 5 ? method_find(argv[1]) : NULL;
    if (!method)
        return 2;
    struct run run = {.method = method, .root = argv[2], .processes = (int)parse_count(argv[3])};
    int64_t duration_ns = parse_count(argv[4]) * 1000000;
    if (run.processes > MAX_PROCESSES)
        return 2;
    run.witness = map_shared(sizeof *run.witness);
    run.witness->last = -1;
    run.samples = map_shared((size_t)run.processes * MAX_SAMPLES * sizeof *run.samples);
    pid_t pids[MAX_PROCESSES];
    start_all(&run, pids);
    while (atomic_load(&run.witness->ready) < run.processes)
        if (waitpid(-1, NULL, WNOHANG) == 0)
            usleep(100);
        else
            die("a contender did not start");
    int64_t start = now_ns();
    run.witness->end_ns = start + duration_ns;
    atomic_store(&run.witness->go, 1);
    if (!reap_all(pids, run.processes))
        return 1;
    return print_result(&run, (double)(now_ns() - start) / 1e9);
}
