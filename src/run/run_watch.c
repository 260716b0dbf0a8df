#include "run/run_watch.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/listing.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define PIECE_MAX         (64 << 10)
#define LOGS_POLL_MS      250
#define WATCH_SESSION_MAX 256
#define RUN_TASKS         "tasks"

struct watch {
    const struct rundir *run;
    int fd;          /* inotify, -1: none (V3) */
    int tasks_wd;    /* of tasks/ */
    char **sessions; /* by watch descriptor */
    int session_count;
    json_t *logs; /* SESSION/TASK.N.log: how much of it was delivered */
    int64_t first_offset;
    bool is_last; /* the run has ended: a line without an end is delivered, too */
    bool (*take)(void *data, const struct run_piece *piece);
    void *data;
};

/* Where to continue in a log. */
static int64_t log_place(const struct watch *w, const char *path)
{
    bool is_first = json_object_size(w->logs) == 0;
    return json_get_int(w->logs, path, is_first ? w->first_offset : 0);
}

/* "TASK.N.log"; false: it is another file. */
static bool parse_name(const char *name, char task[NAME_MAX + 1], int64_t *ret_attempt)
{
    size_t len = strlen(name);
    if (len < 7 || len > NAME_MAX || strcmp(name + len - 4, ".log") != 0)
        return false;
    memcpy(task, name, len - 4);
    task[len - 4] = '\0';
    char *dot = strrchr(task, '.');
    if (!dot || dot == task)
        return false;
    *dot = '\0';
    *ret_attempt = strtoll(dot + 1, NULL, 10);
    return *ret_attempt > 0;
}

/* What the log has got since the last time. False: `take` wants no more. */
static bool give_log(struct watch *w, const char *session, const char *name)
{
    char path[WATCH_SESSION_MAX + NAME_MAX + 2], whole[sizeof path + sizeof RUN_TASKS], task[NAME_MAX + 1],
        text[PIECE_MAX];
    struct run_piece piece = {.task = task, .session = session, .text = text};
    if (!parse_name(name, task, &piece.attempt))
        return true;
    snprintf(path, sizeof path, "%s/%s", session, name);
    snprintf(whole, sizeof whole, RUN_TASKS "/%s", path);
    int fd CLEANUP_FD = fs->openat(w->run->dir, whole, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return true; /* it was renamed or removed meanwhile */
    int64_t at = log_place(w, path);
    for (ssize_t got; (got = fs->pread(fd, text, sizeof text, at)) > 0;) {
        const char *newline = memrchr(text, '\n', (size_t)got);
        piece.from = at;
        if (!newline && (size_t)got < sizeof text && !w->is_last)
            break; /* the rest of the line comes */
        piece.len = newline && !w->is_last ? (size_t)(newline + 1 - text) : (size_t)got;
        at += (int64_t)piece.len;
        json_object_set_new(w->logs, path, json_integer(at));
        if (!w->take(w->data, &piece))
            return false;
    }
    return true;
}

/* The session's folder is watched from now on, then read. */
static bool give_session(struct watch *w, const char *session)
{
    char path[WATCH_SESSION_MAX + 32], proc[64];
    snprintf(path, sizeof path, RUN_TASKS "/%.*s", WATCH_SESSION_MAX - 1, session);
    struct listing logs CLEANUP(listing_close);
    if (listing_open(&logs, w->run->dir, path, LISTING_NO_LINK) < 0)
        return true;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", logs.fd);
    int wd = w->fd < 0 ? -1 : inotify_add_watch(w->fd, proc, IN_CREATE | IN_MODIFY | IN_MOVED_TO);
    if (wd >= 0 && wd >= w->session_count) {
        w->sessions = realloc(w->sessions, ((size_t)wd + 1) * sizeof *w->sessions);
        BUG(!w->sessions);
        while (w->session_count <= wd)
            w->sessions[w->session_count++] = NULL;
    }
    if (wd >= 0 && !w->sessions[wd])
        w->sessions[wd] = strdup(session);
    bool goes_on = true;
    for (const char *name; goes_on && (name = listing_next(&logs));)
        goes_on = give_log(w, session, name);
    return goes_on;
}

static bool give_all(struct watch *w)
{
    struct listing sessions CLEANUP(listing_close);
    bool goes_on = true;
    listing_open(&sessions, w->run->dir, RUN_TASKS, LISTING_NO_LINK); /* there is none before a task has started */
    for (const char *name; goes_on && (name = listing_next(&sessions));)
        if (name[0] != '.')
            goes_on = give_session(w, name);
    return goes_on;
}

/* Reads the next event of inotify. False: there is no more. */
static bool give_changed(struct watch *w)
{
    char notes[16 << 10] __attribute__((aligned(8)));
    ssize_t got = read(w->fd, notes, sizeof notes);
    for (ssize_t at = 0; at < got;) {
        const struct inotify_event *event = (const struct inotify_event *)(notes + at);
        const char *session = event->wd > 0 && event->wd < w->session_count ? w->sessions[event->wd] : NULL;
        at += (ssize_t)sizeof *event + event->len;
        if (event->mask & IN_Q_OVERFLOW || !session) /* tasks/ itself has a new folder, or much was missed */
            return give_all(w);
        if (event->len && !give_log(w, session, event->name))
            return false;
    }
    return true;
}

static void run_watch_open(struct watch *w)
{
    char path[64];
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d/" RUN_TASKS, w->run->dir);
    w->tasks_wd = w->fd < 0 ? -1 : inotify_add_watch(w->fd, path, IN_CREATE | IN_MOVED_TO);
    if (w->tasks_wd < 0)
        fs_close(&w->fd);
}

static void watch_clear(struct watch *w)
{
    fs_close(&w->fd);
    for (int i = 0; i < w->session_count; i++)
        free(w->sessions[i]);
    free(w->sessions);
    json_decref(w->logs);
}

int run_watch_logs(const struct rundir *run, int64_t offset, bool (*take)(void *data, const struct run_piece *piece),
                   bool (*is_left)(void *data), void *data, struct tsk_error *err)
{
    struct watch w = {.run = run, .fd = -1, .logs = json_object(), .first_offset = offset, .take = take, .data = data};
    bool goes_on = true;
    (void)err;
    run_watch_open(&w);
    for (bool is_first = true; goes_on; is_first = false) {
        bool was_running = rundir_has_runner(run); /* V2 */
        w.is_last = !was_running;
        goes_on = is_first || w.fd < 0 || !was_running ? give_all(&w) : give_changed(&w);
        if (!was_running || !goes_on || is_left(data))
            break;
        struct pollfd poller = {.fd = w.fd, .events = POLLIN};
        poll(&poller, 1, w.fd < 0 ? LOGS_POLL_MS : CANCEL_LOOK_MS);
    }
    watch_clear(&w);
    return 0;
}
