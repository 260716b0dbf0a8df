#include "proc/leftover.h"

#include "base/fs.h"
#include "hold/protocol.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STARTS_MAX     512
#define ENVIRON_MAX    (1u << 20)
#define KILL_WAIT_MS   5000
#define LOOK_PERIOD_MS 5

/* By what a leftover of this process is known. */
struct marks {
    size_t count;
    struct {
        dev_t dev;
        ino_t ino;
    } locks[STARTS_MAX];   /* run.<n>.lock of ended starts that are held */
    char environ_word[96]; /* TASUKI_PROCESS_MARK=…; "" while it runs: then it has it too */
};

static void marks_of(const struct proc *p, struct marks *ret)
{
    int64_t starts[STARTS_MAX];
    bool is_running = p->view.state == PROC_RUNNING;
    *ret = (struct marks){.count = 0};
    if (p->dir < 0)
        return;
    size_t count = proc_starts_list(p->dir, starts, STARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        char name[40];
        struct stat st;
        proc_start_name(starts[i], name);
        if (starts[i] > p->view.n || (is_running && starts[i] == p->view.n))
            continue; /* it runs, or is just being started */
        int fd CLEANUP_FD = fs->openat(p->dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd < 0 || fs_lock_probe(fd, F_WRLCK, 0, 1, NULL) != 1 || fs->fstat(fd, &st) < 0)
            continue;
        ret->locks[ret->count].dev = st.st_dev;
        ret->locks[ret->count++].ino = st.st_ino;
    }
    if (!is_running && p->view.n > 0) {
        char mark[PROC_MARK_SIZE];
        proc_mark(p->dir, mark);
        snprintf(ret->environ_word, sizeof ret->environ_word, HOLD_ENV_MARK "=%s", mark);
    }
}

bool leftovers_hold_a_lock(const struct proc *p)
{
    struct marks marks;
    marks_of(p, &marks);
    return marks.count > 0;
}

static bool has_word(const struct buf *environ_text, const char *word)
{
    for (size_t at = 0; at < environ_text->len; at += strlen(environ_text->data + at) + 1)
        if (strcmp(environ_text->data + at, word) == 0)
            return true;
    return false;
}

static bool environ_matches(int proc_dir, const struct marks *marks)
{
    struct buf text CLEANUP(buf_clear) = {.max = ENVIRON_MAX};
    if (!*marks->environ_word)
        return false;
    int fd CLEANUP_FD = fs->openat(proc_dir, "environ", O_RDONLY | O_CLOEXEC, 0);
    return fd >= 0 && fs_read_fd(fd, ENVIRON_MAX - 1, &text) == 0 && has_word(&text, marks->environ_word);
}

static bool is_a_mark(const struct marks *marks, const struct stat *st)
{
    for (size_t i = 0; i < marks->count; i++)
        if (marks->locks[i].dev == st->st_dev && marks->locks[i].ino == st->st_ino)
            return true;
    return false;
}

/* Inherited, not opened: by its number. */
static bool has_lock_open(int proc_dir, const struct marks *marks)
{
    char name[24];
    struct stat st;
    snprintf(name, sizeof name, "fd/%d", HOLD_FD_LIFE);
    return marks->count && fs->fstatat(proc_dir, name, &st, 0) == 0 && is_a_mark(marks, &st);
}

/* A holder is not a descendant: it belongs to a process of its own (or is the pump of an ended one). */
static bool is_holder(pid_t pid)
{
    char name[32];
    return proc_name(pid, name, sizeof name) == 0 && strcmp(name, "tasuki-hold") == 0;
}

static void consider(int proc, const char *name, const struct marks *marks, struct leftovers *ret)
{
    pid_t pid = (pid_t)strtol(name, NULL, 10);
    if (pid <= 0 || pid == getpid() || ret->count == LEFTOVER_MAX)
        return;
    int dir CLEANUP_FD = fs->openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0 || (!environ_matches(dir, marks) && !has_lock_open(dir, marks)) || is_holder(pid))
        return;
    if (proc_id_of(pid, &ret->ids[ret->count]) == 0)
        ret->count++;
}

int leftovers_find(const struct proc *p, struct leftovers *ret, struct tsk_error *err)
{
    struct marks marks;
    ret->count = 0;
    marks_of(p, &marks);
    if (!marks.count && !*marks.environ_word)
        return 0;
    int proc = fs->openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = proc < 0 ? NULL : fdopendir(proc);
    if (!listing) {
        fs_close(&proc);
        return error_errno(err, "read", "/proc");
    }
    for (struct dirent *entry; (entry = readdir(listing));)
        consider(proc, entry->d_name, &marks, ret);
    closedir(listing);
    return 0;
}

int leftovers_end(const struct proc *p, int64_t grace_ms, struct tsk_error *err)
{
    struct leftovers *found = malloc(sizeof *found);
    int64_t begin = clock_now().boot_ms, told = 0;
    BUG(!found);
    int result = 0;
    for (;;) {
        int64_t waited = clock_now().boot_ms - begin;
        result = leftovers_find(p, found, err);
        if (result < 0 || found->count == 0)
            break;
        if (waited > grace_ms + KILL_WAIT_MS) {
            result = error_set(err, TSK_PROCESS_STOP_FAILED, NULL, "id", p->id, "reason",
                               "descendants are alive after SIGKILL", NULL);
            break;
        }
        for (size_t i = 0; i < found->count; i++)
            if (waited >= grace_ms)
                proc_id_signal(&found->ids[i], SIGKILL);
            else if (!told)
                proc_id_signal(&found->ids[i], SIGTERM);
        told = 1;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_PERIOD_MS * 1000000}, NULL);
    }
    free(found);
    return result;
}

int proc_leftovers(const struct proc *p, json_t **ret, struct tsk_error *err)
{
    struct leftovers *found = malloc(sizeof *found);
    BUG(!found);
    int result = leftovers_find(p, found, err);
    json_t *list = json_array();
    for (size_t i = 0; result == 0 && i < found->count; i++) {
        char name[32] = "";
        proc_name(found->ids[i].pid, name, sizeof name);
        json_array_append_new(list, json_pack("{s:i, s:s}", "pid", (int)found->ids[i].pid, "name", name));
    }
    free(found);
    if (result < 0)
        json_decref(list);
    else
        *ret = list;
    return result;
}
