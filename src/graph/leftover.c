#include "proc/leftover.h"
#include "base/clock.h"
#include "graph/leftover.h"

#include "base/ident.h"
#include "base/listing.h"
#include "proc/spawn.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LEFTOVER_LOOK_MS 2

/* ---- marks ---------------------------------------------------------------------------------------------- */

/* 01, the run (38 bits), the start (24 bits). */
#define MARK_FIRST SPAWN_MARK_MIN
#define START_BITS 24
#define START_MASK ((UINT64_C(1) << START_BITS) - 1)
#define RUN_MASK   (MARK_FIRST - 1 - START_MASK)
#define NESTED_MAX 16

static bool is_mark(uint64_t number)
{
    return number >= MARK_FIRST && number < MARK_FIRST * 2;
}

static uint64_t run_part(uint64_t mark)
{
    return mark & ~START_MASK;
}

/* FNV-1a: the ids are not hostile, and 38 bits tell the runs of a machine apart. */
static uint64_t mark_of_run(const char *run_id)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *c = run_id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return MARK_FIRST | (hash & RUN_MASK);
}

uint64_t leftover_run_mark(const struct rundir *run)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_RTTIME, &now) < 0 || now.rlim_max != RLIM_INFINITY ||
        (now.rlim_cur != RLIM_INFINITY && !is_mark(now.rlim_cur)))
        return 0;
    return mark_of_run(run->id);
}

uint64_t leftover_start_mark(uint64_t run_mark, uint64_t fence)
{
    return run_mark ? run_mark | (fence & START_MASK) : 0;
}

/* By what the processes that are looked for are known. */
struct marks {
    const char *run, *task, *session; /* in their environment; NULL: any */
    char fence[24];                   /* the same; "": any */
    struct stat life;
    bool is_run;    /* all of the run, not one task */
    uint64_t start; /* of the task */
    uint64_t runs[1 + NESTED_MAX];
    size_t run_count;
};

static bool has_mark(uint64_t number, const struct marks *marks)
{
    if (!is_mark(number))
        return false;
    for (size_t i = 0; i < marks->run_count; i++)
        if (run_part(number) == marks->runs[i])
            return true;
    return number == marks->start;
}

static bool is_word(const char *word, const char *name, const char *value)
{
    size_t len = strlen(name);
    return value && strncmp(word, name, len) == 0 && strcmp(word + len, value) == 0;
}

static bool has_words(int proc_dir, const struct marks *marks)
{
    struct buf text CLEANUP(buf_clear) = {.max = ENVIRON_MAX};
    const char *fence = marks->fence[0] ? marks->fence : NULL;
    unsigned wanted = 1u + (marks->task != NULL) + (marks->session != NULL) + (fence != NULL), found = 0;
    int fd CLEANUP_FD = fs->openat(proc_dir, "environ", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_fd(fd, ENVIRON_MAX - 1, &text) < 0)
        return false;
    for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1) {
        const char *word = text.data + at;
        found += is_word(word, "TASUKI_RUN_ID=", marks->run) || is_word(word, "TASUKI_TASK_ID=", marks->task) ||
                 is_word(word, "TASUKI_SESSION_ID=", marks->session) || is_word(word, "TASUKI_FENCE=", fence);
    }
    return found == wanted;
}

/* Whether the process has the run's life file at RUN_LIFE_FD. At another descriptor, a process only reads the file, or
 * resumes the run as we do. All tasks of a run share the file, so it does not identify a task. */
static bool has_life(int proc_dir, const struct marks *marks)
{
    char name[24];
    struct stat st;
    snprintf(name, sizeof name, "fd/%d", RUN_LIFE_FD);
    return marks->is_run && fs->fstatat(proc_dir, name, &st, 0) == 0 && st.st_dev == marks->life.st_dev &&
           st.st_ino == marks->life.st_ino;
}

/* ---- looking -------------------------------------------------------------------------------------------- */

struct found {
    struct proc_id id;
    pid_t parent;
    uint64_t number; /* its limit */
    bool is_wanted, is_spared, is_held;
};

/* Everything that lives, by pid. */
struct herd {
    struct found *list;
    size_t count, room;
};

static void herd_clear(struct herd *herd)
{
    free(herd->list);
}

static int compare_pids(const void *a, const void *b)
{
    pid_t x = ((const struct found *)a)->id.pid, y = ((const struct found *)b)->id.pid;
    return x < y ? -1 : x > y;
}

static struct found *herd_find(const struct herd *herd, pid_t pid)
{
    struct found key = {.id.pid = pid};
    return herd->count ? bsearch(&key, herd->list, herd->count, sizeof key, compare_pids) : NULL;
}

static void marked_add(struct herd *herd, int proc, const char *name, const struct marks *marks)
{
    struct rlimit limit = {0};
    struct found one = {.is_wanted = false};
    pid_t pid = (pid_t)strtol(name, NULL, 10);
    if (pid <= 1 || proc_id_of(pid, &one.id) < 0 || proc_parent(pid, &one.parent) < 0)
        return;
    if (prlimit(pid, RLIMIT_RTTIME, NULL, &limit) == 0)
        one.number = limit.rlim_cur;
    int dir CLEANUP_FD = fs->openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    one.is_wanted = has_mark(one.number, marks) || (dir >= 0 && (has_words(dir, marks) || has_life(dir, marks)));
    LIST_GROW(herd->list, herd->count, herd->room, 256);
    herd->list[herd->count++] = one;
}

/* K4. */
static void herd_spare_us(const struct herd *herd)
{
    struct found *one = herd_find(herd, getpid());
    for (size_t depth = 0; one && depth < herd->count; one = herd_find(herd, one->parent), depth++) {
        one->is_spared = true;
        one->is_wanted = false;
    }
}

static bool is_holder_program(const struct found *one)
{
    char name[32];
    return proc_name(one->id.pid, name, sizeof name) == 0 && strcmp(name, "tasuki-hold") == 0;
}

/* K5, one step; whether somebody was spared. */
static bool herd_spare_held(const struct herd *herd)
{
    bool has_grown = false;
    for (size_t i = 0; i < herd->count; i++) {
        struct found *one = &herd->list[i], *parent = herd_find(herd, one->parent);
        if (one->is_held || one->is_spared ||
            !((parent && parent->is_held) || (one->is_wanted && is_holder_program(one))))
            continue;
        has_grown = one->is_held = one->is_spared = true;
        one->is_wanted = false;
    }
    return has_grown;
}

/* K3, one step; whether somebody came to it. */
static bool herd_spread(const struct herd *herd, struct marks *marks)
{
    bool has_grown = false;
    for (size_t i = 0; i < herd->count; i++) {
        struct found *one = &herd->list[i], *parent = herd_find(herd, one->parent);
        if (!one->is_wanted && !one->is_spared && ((parent && parent->is_wanted) || has_mark(one->number, marks)))
            has_grown = one->is_wanted = true;
        if (one->is_wanted && is_mark(one->number) && run_part(one->number) != run_part(marks->start) &&
            !has_mark(one->number, marks) && marks->run_count < 1 + NESTED_MAX) {
            marks->runs[marks->run_count++] = run_part(one->number);
            has_grown = true;
        }
    }
    return has_grown;
}

static void herd_look(struct herd *herd, struct marks *marks)
{
    struct listing processes CLEANUP(listing_close);
    listing_open(&processes, AT_FDCWD, "/proc", 0);
    for (const char *name; (name = listing_next(&processes));)
        marked_add(herd, processes.fd, name, marks);
    if (herd->count)
        qsort(herd->list, herd->count, sizeof *herd->list, compare_pids);
    herd_spare_us(herd);
    while (herd_spare_held(herd))
        ;
    while (herd_spread(herd, marks))
        ;
}

/* ---- ending --------------------------------------------------------------------------------------------- */

/* Signals the processes that are found (0: none), except those of that process group. Returns their number. */
static size_t signal_found(struct marks *marks, int number, pid_t except_group)
{
    struct herd herd CLEANUP(herd_clear) = {.list = NULL};
    size_t count = 0;
    herd_look(&herd, marks);
    for (size_t i = 0; i < herd.count; i++) {
        if (!herd.list[i].is_wanted)
            continue;
        count++;
        if (number && (!except_group || getpgid(herd.list[i].id.pid) != except_group))
            proc_id_signal(&herd.list[i].id, number);
    }
    return count;
}

static int end_all(const struct rundir *run, struct marks *marks, struct tsk_error *err)
{
    int64_t began = clock_now().boot_ms;
    while (signal_found(marks, SIGKILL, 0)) {
        if (clock_now().boot_ms - began > KILL_WAIT_MS)
            return error_set(err, TSK_PROCESS_STOP_FAILED, "leftovers_stay", "run", run->id, NULL);
        clock_nap(LEFTOVER_LOOK_MS);
    }
    return 0;
}

int leftovers_end_run(const struct rundir *run, struct tsk_error *err)
{
    struct marks marks = {.run = run->id, .is_run = true, .runs[0] = mark_of_run(run->id), .run_count = 1};
    marks.start = marks.runs[0];
    if (fs->fstat(run->life_fd, &marks.life) < 0)
        return error_errno(err, "look at", run->path);
    return end_all(run, &marks, err);
}

/* A fence is the run's only once; without it task and session say which one it is. */
static struct marks marks_of_task(const struct rundir *run, const struct claim *claim, bool is_exact)
{
    struct marks marks = {.run = run->id,
                          .task = is_exact ? NULL : claim->task,
                          .session = is_exact ? NULL : claim->session,
                          .start = leftover_start_mark(mark_of_run(run->id), claim->fence)};
    if (is_exact)
        snprintf(marks.fence, sizeof marks.fence, "%llu", (unsigned long long)claim->fence);
    return marks;
}

size_t leftovers_signal_task(const struct rundir *run, const struct claim *claim, bool is_exact, int number,
                             pid_t except_group)
{
    struct marks marks = marks_of_task(run, claim, is_exact);
    return signal_found(&marks, number, except_group);
}

int leftovers_end_task(const struct rundir *run, const struct claim *claim, bool is_exact, struct tsk_error *err)
{
    struct marks marks = marks_of_task(run, claim, is_exact);
    return end_all(run, &marks, err);
}
