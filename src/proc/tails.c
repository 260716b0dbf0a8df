#include "proc/tails.h"

#include "base/fs.h"
#include "hold/protocol.h"
#include "proc/condition.h"
#include "proc/files.h"
#include "proc/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define TAILS_BEHIND_MS 5 /* until the next look, when there is output of a start that is not recorded yet */

/* ---- watching ------------------------------------------------------------------------------------------- */

static bool tail_is_live(const struct tail *tail)
{
    return !tail->is_gone && (tail->p.view.state == PROC_RUNNING || proc_is_coming(&tail->p.view));
}

/* log/ is made by the first start. */
static void tail_watch(const struct tails *tails, struct tail *tail)
{
    char path[64];
    if (tails->notes < 0 || tail->p.dir < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", tail->p.dir);
    tail->watch_dir = inotify_add_watch(tails->notes, path, IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF);
    snprintf(path, sizeof path, "/proc/self/fd/%d/" HOLD_LOG_DIR, tail->p.dir);
    if (tail->watch_log < 0)
        tail->watch_log = inotify_add_watch(tails->notes, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

static void tail_watch_child(struct tail *tail)
{
    fs_close(&tail->pid_fd);
    if (tail->p.view.state == PROC_RUNNING && tail->p.view.child.pid > 0)
        tail->pid_fd = proc_id_open(&tail->p.view.child);
}

static void note_take(struct tails *tails, const struct inotify_event *note)
{
    for (size_t i = 0; i < tails->count; i++) {
        struct tail *tail = &tails->list[i];
        bool is_all = note->mask & IN_Q_OVERFLOW; /* anything may have been lost */
        if (note->wd == tail->watch_log || is_all)
            tail->is_dirty = true;
        if (note->wd == tail->watch_log && (note->mask & IN_IGNORED))
            tail->watch_log = -1;
        bool is_first = note->wd == tails->watch_all && tail->p.dir < 0; /* its directory may have been made */
        if (note->wd == tail->watch_dir || is_first || is_all)
            tail->is_dirty = tail->is_changed = true;
    }
}

static void notes_read(struct tails *tails)
{
    _Alignas(struct inotify_event) char text[16384];
    ssize_t len;
    while ((len = read(tails->notes, text, sizeof text)) > 0) {
        const struct inotify_event *note;
        for (char *at = text; at < text + len; at += sizeof *note + note->len) {
            note = (const struct inotify_event *)at;
            note_take(tails, note);
        }
    }
}

/* ---- looking -------------------------------------------------------------------------------------------- */

/* Looks; a process whose directory is watched only from now on is looked at once more, because it may have changed in between. */
static int tail_look(struct tails *tails, struct proc_registry *reg, struct tail *tail, struct tsk_error *err)
{
    struct proc p = {.dir = -1};
    bool was_watched = tail->watch_dir >= 0;
    if (proc_load(reg, tail->p.id, &p, err) < 0) {
        if (err->code != TSK_PROCESS_NOT_FOUND)
            return -1;
        *err = (struct tsk_error){.code = TSK_OK};
        tail->is_gone = true;
        fs_close(&tail->pid_fd);
        return 0;
    }
    tail->is_gone = false;
    proc_clear(&tail->p);
    tail->p = p;
    tail_watch(tails, tail);
    if (!was_watched && tail->watch_dir >= 0)
        return tail_look(tails, reg, tail, err);
    tail_watch_child(tail);
    return 0;
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static int tail_begin(struct tails *tails, struct proc_registry *reg, struct tail *tail, const char *id,
                      const struct log_query *query, struct tsk_error *err)
{
    int64_t oldest;
    *tail = (struct tail){.p = {.dir = -1, .view.phase = ""},
                          .query = *query,
                          .watch_dir = -1,
                          .watch_log = -1,
                          .pid_fd = -1,
                          .is_dirty = true,
                          .is_changed = true};
    tail->query.seen = tail->seen;
    snprintf(tail->p.id, sizeof tail->p.id, "%s", id);
    if (proc_load(reg, id, &tail->p, err) < 0)
        return -1;
    tail->run = tail->p.view.n;
    tail->is_running = tail->p.view.state == PROC_RUNNING;
    tail->is_coming = proc_is_coming(&tail->p.view);
    snprintf(tail->phase, sizeof tail->phase, "%s", tail->p.view.phase);
    tail_watch(tails, tail);
    for (int k = 0; k < 2 && tail->query.cursor[k] < 0; k++)
        if (tail->p.dir < 0)
            tail->query.cursor[k] = 0;
        else if (log_extent(&tail->p, (enum log_stream)k, &oldest, &tail->query.cursor[k], err) < 0)
            return -1;
    return 0;
}

int tails_open(struct tails *tails, struct tsk_workspace *ws, const char *const *ids, size_t count,
               const struct log_query *query, struct tsk_error *err)
{
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    char path[64];
    *tails = (struct tails){.ws = ws, .watch_all = -1, .notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    tails->list = memory_zeroed(count + 1, sizeof *tails->list);
    if (proc_registry_open(&reg, ws, err) < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", reg.dir);
    tails->watch_all = tails->notes < 0 ? -1 : inotify_add_watch(tails->notes, path, IN_CREATE | IN_MOVED_TO);
    for (size_t i = 0; i < count; i++, tails->count++)
        if (tail_begin(tails, &reg, &tails->list[i], ids[i], query, err) < 0) {
            proc_clear(&tails->list[i].p);
            return -1;
        }
    return 0;
}

void tails_clear(struct tails *tails)
{
    for (size_t i = 0; i < tails->count; i++) {
        proc_clear(&tails->list[i].p);
        fs_close(&tails->list[i].pid_fd);
    }
    free(tails->list);
    tails->list = NULL;
    tails->count = 0;
    fs_close(&tails->notes);
}

void tails_set_cursor(struct tails *tails, size_t which, const int64_t cursor[2])
{
    memcpy(tails->list[which].query.cursor, cursor, sizeof tails->list[which].query.cursor);
}

/* ---- delivering ----------------------------------------------------------------------------------------- */

struct tail_giving {
    const struct tail_hooks *hooks;
    struct tail *tail;
    size_t which;
    bool is_stopped;
};

static bool give_missed(struct tail_giving *giving)
{
    int64_t missed = giving->tail->seen[0].missed + giving->tail->seen[1].missed;
    giving->tail->seen[0].missed = giving->tail->seen[1].missed = 0;
    return missed == 0 || giving->hooks->missed(giving->hooks->data, giving->which, missed);
}

static int give_change(struct tail_giving *giving, struct tail_change change)
{
    change.p = &giving->tail->p;
    giving->is_stopped = !giving->hooks->changed(giving->hooks->data, giving->which, &change);
    return giving->is_stopped ? -1 : 0;
}

static const json_t *exit_of_run(const json_t *exits, int64_t run)
{
    json_each (exits, i, one)
        if (json_get_int(one, "run", 0) == run)
            return one;
    return NULL;
}

/* The end of the start that was reported last. */
static int give_end(struct tail_giving *giving)
{
    struct tail *tail = giving->tail;
    bool is_newest = tail->p.view.n == tail->run;
    json_t *exits CLEANUP_JSON = proc_last_exits(&tail->p);
    tail->is_running = false;
    tail->is_coming = is_newest && tail->p.view.next_start_ms;
    return give_change(giving, (struct tail_change){.what = TAIL_ENDED,
                                                    .run = tail->run,
                                                    .exit = exit_of_run(exits, tail->run),
                                                    .again_ms = is_newest ? tail->p.view.next_start_ms : 0});
}

/* Without a probe it is ready from the beginning, which is no news. */
static bool tail_has_probe(const struct tail *tail)
{
    struct proc_probe probe;
    proc_spec_probe(tail->p.spec, "ready", &probe);
    return probe.kind != PROBE_NONE;
}

static int give_start(struct tail_giving *giving, int64_t n)
{
    struct tail *tail = giving->tail;
    const struct proc_view *view = &tail->p.view;
    bool runs = n == view->n && view->state == PROC_RUNNING;
    if (tail->is_running && give_end(giving) < 0)
        return -1;
    tail->run = n;
    tail->is_running = true;
    tail->is_coming = false;
    snprintf(tail->phase, sizeof tail->phase, "%s", tail_has_probe(tail) ? "starting" : "ready");
    return give_change(giving, (struct tail_change){.what = TAIL_STARTED, .run = n, .pid = runs ? view->child.pid : 0});
}

/* The starts that have not been reported yet, with the offsets where their output begins: [{"n", "stdout_offset", …}]. */
static json_t *new_starts(const struct tail *tail)
{
    const struct proc_view *view = &tail->p.view;
    json_t *facts CLEANUP_JSON = view->n > tail->run + 1 ? proc_starts_since(&tail->p, tail->run) : NULL;
    json_t *starts = json_array();
    json_each (facts, i, fact)
        if (json_get_int(fact, "n", 0) < view->n)
            json_array_append(starts, fact);
    if (view->n > tail->run)
        json_array_append_new(starts, json_pack("{s:I, s:I, s:I}", "n", (json_int_t)view->n, "stdout_offset",
                                                (json_int_t)view->stdout_offset, "stderr_offset",
                                                (json_int_t)view->stderr_offset));
    return starts;
}

/* The lines, and before the first line of each start that the one before has ended and this one has begun (T2). */
static int tails_give_lines(struct tail_giving *giving, struct log_reader *reader, struct tsk_error *err)
{
    static const char *const offsets[] = {[LOG_STDOUT] = "stdout_offset", [LOG_STDERR] = "stderr_offset"};
    json_t *starts CLEANUP_JSON = new_starts(giving->tail);
    size_t next = 0, count = json_array_size(starts);
    struct log_line line;
    int rc;
    while ((rc = reader ? log_reader_peek(reader, &line, err) : 0) > 0) {
        for (; next < count; next++) {
            const json_t *start = json_array_get(starts, next);
            if (line.offset < json_get_int(start, offsets[line.stream == LOG_STDERR], 0))
                break;
            if (give_start(giving, json_get_int(start, "n", 0)) < 0)
                return -1;
        }
        giving->is_stopped = !give_missed(giving) || !giving->hooks->line(giving->hooks->data, giving->which, &line);
        log_reader_skip(reader);
        if (giving->is_stopped)
            return -1;
    }
    for (; rc == 0 && next < count; next++)
        if (give_start(giving, json_get_int(json_array_get(starts, next), "n", 0)) < 0)
            return -1;
    return rc < 0 || !give_missed(giving) ? -1 : 0;
}

/* It was stopped before its restart came. */
static int give_stop(struct tail_giving *giving)
{
    struct tail *tail = giving->tail;
    if (!tail->is_coming || tail->p.view.n != tail->run || tail->p.view.state != PROC_STOPPED)
        return 0;
    tail->is_coming = false;
    return give_change(giving, (struct tail_change){.what = TAIL_STOPPED, .run = tail->run});
}

/* After the line that made it ready. */
static int give_phase(struct tail_giving *giving)
{
    struct tail *tail = giving->tail;
    const char *phase = tail->p.view.phase;
    bool is_ready = strcmp(phase, "ready") == 0, is_unhealthy = strcmp(phase, "unhealthy") == 0;
    bool is_news =
        strcmp(phase, tail->phase) != 0 && tail->is_running &&
        (is_unhealthy || (is_ready && (strcmp(tail->phase, "starting") == 0 || strcmp(tail->phase, "unhealthy") == 0)));
    snprintf(tail->phase, sizeof tail->phase, "%s", phase);
    return is_news ? give_change(giving,
                                 (struct tail_change){.what = is_ready ? TAIL_READY : TAIL_UNHEALTHY, .run = tail->run})
                   : 0;
}

static int report_gone_process(struct tail_giving *giving)
{
    bool was_running = giving->tail->is_running;
    giving->tail->is_running = false;
    return was_running ? give_change(giving, (struct tail_change){.what = TAIL_REMOVED, .run = giving->tail->run}) : 0;
}

/* Whether there may be output of a start that the last look does not know. Asked after the reader was opened, which reads no more
 * than what was there then: otherwise all of it is of starts that are known. */
static bool is_behind(struct tail *tail)
{
    struct proc_stamp stamps[2];
    struct stat st;
    char name[40];
    snprintf(name, sizeof name, HOLD_RUN_LOCK, (long long)tail->p.view.n + 1);
    proc_stamps(tail->p.dir, stamps);
    return memcmp(stamps, tail->p.seen, sizeof stamps) != 0 || fs->fstatat(tail->p.dir, name, &st, 0) == 0;
}

/* true: it is left for the next round, which looks again. Not for ever: a start that failed may have left its lock file. */
static bool tail_postpone(struct tails *tails, struct tail *tail)
{
    int64_t now_ms = clock_now().boot_ms;
    if (!is_behind(tail)) {
        tail->behind_ms = 0;
        return false;
    }
    tail->behind_ms = tail->behind_ms ? tail->behind_ms : now_ms;
    if (now_ms - tail->behind_ms >= TAILS_LINGER_MS)
        return false;
    tail->is_dirty = tail->is_changed = tails->is_behind = true;
    return true;
}

static int give_with(struct tails *tails, struct tail_giving *giving, struct log_reader *reader, struct tsk_error *err)
{
    struct tail *tail = giving->tail;
    tail->is_changed = tail->is_dirty = false;
    if (reader && tail_postpone(tails, tail))
        return 0;
    if (tails_give_lines(giving, reader, err) < 0)
        return -1;
    if (reader && log_reader_cursors(reader, tail->query.cursor, err) < 0)
        return -1;
    if (tail->is_running && tail->p.view.state != PROC_RUNNING && give_end(giving) < 0)
        return -1;
    return give_stop(giving) < 0 ? -1 : give_phase(giving);
}

static int tail_give(struct tails *tails, struct tail_giving *giving, struct tsk_error *err)
{
    struct tail *tail = giving->tail;
    struct log_reader *reader = NULL;
    if (tail->is_gone) {
        tail->is_changed = tail->is_dirty = false;
        return report_gone_process(giving);
    }
    tail->query.whole_lines = tail_is_live(tail);
    if (tail->p.dir >= 0 && log_reader_open(&tail->p, &tail->query, &reader, err) < 0)
        return -1;
    int result = give_with(tails, giving, reader, err);
    log_reader_close(reader);
    return result;
}

static int tails_look(struct tails *tails, struct tsk_error *err)
{
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    for (size_t i = 0; i < tails->count; i++) {
        if (!tails->list[i].is_changed)
            continue;
        if (!reg.ws && proc_registry_open(&reg, tails->ws, err) < 0)
            return -1;
        if (tail_look(tails, &reg, &tails->list[i], err) < 0)
            return -1;
    }
    return 0;
}

int tails_read(struct tails *tails, const struct tail_hooks *hooks, struct tsk_error *err)
{
    int can_grow = 0;
    *err = (struct tsk_error){.code = TSK_OK};
    tails->is_behind = false;
    if (tails_look(tails, err) < 0)
        return -1;
    for (size_t i = 0; i < tails->count; i++) {
        struct tail *tail = &tails->list[i];
        struct tail_giving giving = {.hooks = hooks, .tail = tail, .which = i};
        can_grow = can_grow || tail_is_live(tail);
        if ((tail->is_dirty || tail->is_changed) && tail_give(tails, &giving, err) < 0)
            return -1;
    }
    tails->read_ms = clock_now().boot_ms;
    tails->over_ms = can_grow ? 0 : tails->over_ms ? tails->over_ms : tails->read_ms;
    return can_grow;
}

bool tails_have_ended(const struct tails *tails)
{
    return tails->over_ms && clock_now().boot_ms - tails->over_ms >= TAILS_LINGER_MS;
}

/* ---- waiting -------------------------------------------------------------------------------------------- */

static bool tails_poll(struct tails *tails, struct pollfd *fds, size_t count, int timeout_ms)
{
    struct pollfd *all CLEANUP_FREE = memory_zeroed(count + tails->count + 1, sizeof *all);
    if (count)
        memcpy(all, fds, count * sizeof *fds);
    all[count] = (struct pollfd){.fd = tails->notes, .events = POLLIN};
    for (size_t i = 0; i < tails->count; i++)
        all[count + 1 + i] = (struct pollfd){.fd = tails->list[i].pid_fd, .events = POLLIN};
    int found = poll(all, count + tails->count + 1, timeout_ms);
    bool has_more = found < 0; /* a signal: the caller wants to see what it was */
    for (size_t i = 0; i < count && found >= 0; i++) {
        fds[i].revents = all[i].revents;
        has_more = has_more || fds[i].revents;
    }
    for (size_t i = 0; i < tails->count && found > 0; i++)
        if (all[count + 1 + i].revents) { /* once is enough: it stays readable */
            fs_close(&tails->list[i].pid_fd);
            tails->list[i].is_dirty = tails->list[i].is_changed = true;
        }
    return has_more;
}

void tails_wait(struct tails *tails, struct pollfd *fds, size_t count, int timeout_ms)
{
    int64_t left = tails->read_ms + TAILS_GATHER_MS - clock_now().boot_ms;
    for (size_t i = 0; i < count; i++)
        fds[i].revents = 0;
    if (left > 0 && left <= TAILS_GATHER_MS) { /* what comes meanwhile is read in one go */
        int notes = tails->notes;
        tails->notes = -1;
        bool has_more = tails_poll(tails, fds, count, (int)left);
        tails->notes = notes;
        if (has_more)
            return;
    }
    if (tails->over_ms && (timeout_ms < 0 || timeout_ms > TAILS_LINGER_MS))
        timeout_ms = TAILS_LINGER_MS;
    if (tails->is_behind && (timeout_ms < 0 || timeout_ms > TAILS_BEHIND_MS))
        timeout_ms = TAILS_BEHIND_MS;
    bool is_polling = tails->notes < 0 && (timeout_ms < 0 || timeout_ms > RECORD_POLL_MS);
    tails_poll(tails, fds, count, is_polling ? RECORD_POLL_MS : timeout_ms);
    if (tails->notes >= 0)
        notes_read(tails);
    for (size_t i = 0; i < tails->count && tails->notes < 0; i++)
        tails->list[i].is_dirty = tails->list[i].is_changed = true;
}
