#include "ops/lookout.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/log.h"
#include "proc/failure.h"
#include "proc/process.h"
#include "run/notify.h"
#include "run/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define WATCH_LOCK "watch.lock"
#define WATCH_FILE "watch.json"

enum {
    WATCH_FILE_MAX = 4 << 20,
    ENDS_MAX = 256,  /* descriptors of processes; the ends of others are seen by the looks */
    SETTLE_MS = 100, /* an editor writes a file in several steps, and an operation its event after the file */
};

/* What makes the key of an event (V2), by type. */
static const struct death {
    const char *type;
    const char *keys[4]; /* of its data */
} deaths[] = {
    {"lock.holder_died", {"kind", "id", "fence", "created_at"}},
    {"queue.interrupted", {"fence", NULL}},
    {"run.interrupted", {"run_id", "pid", "start_ticks", NULL}},
    {"workflow.owner_died", {"workflow", "fence", NULL}},
    {"instance.ended", {"instance", NULL}},
    {"confirm.expired", {"confirmation", NULL}},
};

/* False: the event is no death. */
static bool key_of_event(const json_t *event, struct buf *key)
{
    const char *type = json_get_string(event, "type", "");
    const json_t *data = json_object_get(event, "data");
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        if (strcmp(type, deaths[i].type) != 0)
            continue;
        buf_puts(key, type);
        for (size_t k = 0; k < 4 && deaths[i].keys[k]; k++) {
            const json_t *value = json_object_get(data, deaths[i].keys[k]);
            buf_puts(key, " ");
            json_write(key, value ? value : json_null(), false);
        }
        return !key->failed;
    }
    return false;
}

/* ---- begin and end ---- */

static void watch_descriptor(const struct lookout *lookout, int fd, uint64_t what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = what};
    if (lookout->fd >= 0 && fd >= 0)
        epoll_ctl(lookout->fd, EPOLL_CTL_ADD, fd, &event);
}

static int watch_requests(const struct tsk_workspace *ws)
{
    struct buf path CLEANUP(buf_clear) = BUF_INIT;
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    buf_printf(&path, "%s/" REQUEST_FOLDER, ws->state_path);
    if (fd >= 0 && inotify_add_watch(fd, buf_str(&path), IN_CLOSE_WRITE | IN_MOVE | IN_DELETE | IN_CREATE) < 0)
        fs_close(&fd);
    return fd;
}

void lookout_init(struct lookout *lookout, struct tsk_workspace *ws, const char *root)
{
    struct event_reader end;
    struct tsk_error ignored; /* without a trail there is nothing to read again */
    *lookout = (struct lookout){.ws = ws, .root = root, .lock_fd = -1, .reported = json_object()};
    lookout->instances = json_object();
    lookout->ends = json_object();
    lookout->fd = epoll_create1(EPOLL_CLOEXEC);
    lookout->notes_fd = watch_requests(ws);
    watch_descriptor(lookout, lookout->notes_fd, 0);
    if (event_reader_init(&end, ws->state_dir, EVENT_FROM_END, &ignored) == 0) {
        lookout->event_id = end.next_id;
        event_reader_clear(&end);
    }
    lookout->requests = lookout_requests(ws);
}

static void forget_ends(struct lookout *lookout)
{
    json_each_pair (lookout->ends, pid, value) {
        int fd = (int)json_integer_value(value);
        fs_close(&fd);
    }
    json_object_clear(lookout->ends);
}

void lookout_rest(struct lookout *lookout)
{
    forget_ends(lookout);
    fs_close(&lookout->lock_fd); /* V1: with it goes the lock */
    lookout->is_first = false;
}

void lookout_clear(struct lookout *lookout)
{
    if (!lookout->ws)
        return;
    lookout_rest(lookout);
    fs_close(&lookout->notes_fd);
    fs_close(&lookout->fd);
    json_decref(lookout->reported);
    json_decref(lookout->instances);
    json_decref(lookout->requests);
    json_decref(lookout->ends);
    lookout->ws = NULL;
}

/* ---- memory ---- */

/* V6. A report of a lookout has the version that was seen. Of an operation's change the version is the present one, if that is not
 * newer than the event: the file is written before its event. */
static void take_version(struct lookout *lookout, const json_t *files, const char *id, const json_t *event)
{
    const char *version = json_get_string(json_object_get(event, "data"), "version", NULL);
    json_t *looks = json_object_get(files, id);
    int64_t event_ms = 0;
    if (version) {
        json_object_set_new(lookout->requests, id, json_string(version));
        return;
    }
    if (!looks) {
        json_object_del(lookout->requests, id);
        return;
    }
    if (time_parse(json_get_string(event, "time", ""), &event_ms) == 0 &&
        strtoll(json_string_value(looks), NULL, 10) <= event_ms)
        json_object_set(lookout->requests, id, looks);
}

/* The end of a process. A holder that lives tells it, too: once for both (proc/failure.h). */
static void notify_end(struct tsk_workspace *ws, const json_t *event)
{
    const char *type = json_get_string(event, "type", "");
    const json_t *data = json_object_get(event, "data");
    if (strcmp(type, "process.exited") == 0 || strcmp(type, "process.lost") == 0)
        proc_failure_tell(ws, json_get_string(data, "process_id", ""), json_get_int(data, "run", 0), false);
}

/* V3, V6: what the trail says since. */
static void lookout_take_event(struct lookout *lookout, const json_t *files, const json_t *event)
{
    struct buf key CLEANUP(buf_clear) = BUF_INIT;
    const json_t *data = json_object_get(event, "data");
    const char *request = json_get_string(data, "request_id", NULL);
    if (key_of_event(event, &key)) {
        json_object_set_new(lookout->reported, buf_str(&key), json_true());
        if (json_text_is(event, "type", "instance.ended"))
            json_object_del(lookout->instances, json_get_string(data, "instance", ""));
    }
    if (request && strncmp(json_get_string(event, "type", ""), "request.", 8) == 0)
        take_version(lookout, files, request, event);
}

static int read_since(struct lookout *lookout, const json_t *files, bool was_first, struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    json_t *event;
    int more;
    if (event_reader_init(&reader, lookout->ws->state_dir, lookout->event_id, err) < 0)
        return -1;
    while ((more = event_read(&reader, &event, err)) == 1) {
        lookout_take_event(lookout, files, event);
        if (was_first) /* what was before is not new */
            notify_end(lookout->ws, event);
        json_decref(event);
    }
    lookout->event_id = reader.next_id;
    return more;
}

/* V3. A file that is missing or not whole: all of the trail is read. */
static void recall(struct lookout *lookout)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored;
    json_t *kept CLEANUP_JSON = NULL;
    if (fs_read_file(lookout->ws->state_dir, WATCH_FILE, WATCH_FILE_MAX, &text) == 0 &&
        json_parse(buf_str(&text), text.len, WATCH_FILE, &kept, &ignored) < 0)
        kept = NULL;
    uint64_t from = (uint64_t)json_get_int(kept, "event_id", 0);
    if (from < lookout->event_id)
        lookout->event_id = from;
    json_object_clear(lookout->reported);
    json_object_clear(lookout->instances);
    json_object_update(lookout->reported, json_object_get(kept, "reported"));
    json_object_update(lookout->instances, json_object_get(kept, "instances"));
}

static void remember(struct lookout *lookout)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!lookout->is_stale)
        return;
    json_t *kept CLEANUP_JSON = json_pack("{s:I, s:O, s:O}", "event_id", (json_int_t)lookout->event_id, "reported",
                                          lookout->reported, "instances", lookout->instances);
    json_write(&text, kept, false);
    /* A failure costs a longer read by the next one. */
    if (!text.failed && fs_replace_file(lookout->ws->state_dir, WATCH_FILE, 0600, text.data, text.len) == 0)
        lookout->is_stale = false;
}

/* ---- reporting ---- */

static int append_event(const struct lookout *lookout, const json_t *fact, struct tsk_error *err)
{
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    struct now now = clock_now();
    json_write(&data, json_object_get(fact, "data"), false);
    struct event event = {.type = json_get_string(fact, "type", ""),
                          .session_id = json_get_string(fact, "session_id", NULL),
                          .run_id = json_get_string(fact, "run_id", NULL),
                          .data = buf_str(&data),
                          .actor = "null"};
    return workspace_event(lookout->ws, &now, &event, err);
}

/* V2: what is dead and not reported yet. Keys of what is not there any more are forgotten: a fence does not come back. */
/* Work that stands still now: `notify:` in config.yaml. */
static void notify_death(struct tsk_workspace *ws, const json_t *fact)
{
    const char *type = json_get_string(fact, "type", "");
    const json_t *data = json_object_get(fact, "data");
    if (strcmp(type, "run.interrupted") == 0) {
        json_t *stage CLEANUP_JSON = json_copy((json_t *)data);
        json_object_set_new(stage, "run_id", json_string(json_get_string(fact, "run_id", "")));
        json_object_set_new(stage, "status", json_string("INTERRUPTED"));
        notify_run(ws, stage);
    } else if (strcmp(type, "queue.interrupted") == 0) {
        notify_queue(ws, (uint64_t)json_get_int(data, "fence", 0), "INTERRUPTED");
    }
}

static int report_deaths(struct lookout *lookout, const json_t *dead, struct tsk_error *err)
{
    json_t *still = json_object();
    int result = 0;
    json_each (dead, i, fact) {
        struct buf key CLEANUP(buf_clear) = BUF_INIT;
        bool is_new = key_of_event(fact, &key) && !json_object_get(lookout->reported, buf_str(&key));
        if (is_new && result == 0)
            result = append_event(lookout, fact, err);
        if (is_new && result == 0)
            notify_death(lookout->ws, fact);
        if (result < 0 && is_new)
            continue;
        lookout->is_stale |= is_new;
        json_object_set_new(still, buf_str(&key), json_true());
        if (json_text_is(fact, "type", "instance.ended"))
            json_object_del(lookout->instances, json_get_string(json_object_get(fact, "data"), "instance", ""));
    }
    json_decref(lookout->reported);
    lookout->reported = still;
    return result;
}

static int report_request(const struct lookout *lookout, const char *type, const char *id, const char *version,
                          struct tsk_error *err)
{
    json_t *fact CLEANUP_JSON =
        json_pack("{s:s, s:{s:s, s:s*}}", "type", type, "data", "request_id", id, "version", version);
    return append_event(lookout, fact, err);
}

/* V6 */
static int report_requests(struct lookout *lookout, json_t *files, struct tsk_error *err)
{
    json_each_pair (files, id, looks) {
        const json_t *before = json_object_get(lookout->requests, id);
        if (!(before && json_equal(before, looks)) &&
            report_request(lookout, before ? "request.changed" : "request.added", id, json_string_value(looks), err) <
                0)
            return -1;
    }
    json_each_key (lookout->requests, id)
        if (!json_object_get(files, id) && report_request(lookout, "request.removed", id, NULL, err) < 0)
            return -1;
    json_decref(lookout->requests);
    lookout->requests = json_incref(files);
    return 0;
}

/* ---- causes to look ---- */

/* Takes what `fd` has; whether requests/ has changed. */
static bool take_causes(struct lookout *lookout)
{
    struct epoll_event found[16];
    bool has_notes = lookout->notes_fd < 0; /* nothing announces a change: each look finds out */
    for (int n; lookout->fd >= 0 && (n = epoll_wait(lookout->fd, found, 16, 0)) > 0;)
        for (int i = 0; i < n; i++) {
            char notes[4096], pid[24];
            has_notes |= found[i].data.u64 == 0;
            while (found[i].data.u64 == 0 && read(lookout->notes_fd, notes, sizeof notes) > 0)
                ;
            if (found[i].data.u64 == 0)
                continue;
            snprintf(pid, sizeof pid, "%llu", (unsigned long long)found[i].data.u64);
            int fd = (int)json_get_int(lookout->ends, pid, -1);
            fs_close(&fd); /* epoll forgets it, too */
            json_object_set_new(lookout->ends, pid, json_integer(-1));
        }
    return has_notes;
}

static void await_ends(struct lookout *lookout, const json_t *living)
{
    const char *pid;
    json_t *value;
    void *next;
    json_object_foreach_safe(lookout->ends, next, pid, value)
    {
        int fd = (int)json_integer_value(value);
        if (json_object_get(living, pid))
            continue;
        fs_close(&fd);
        json_object_del(lookout->ends, pid);
    }
    json_each_key (living, living_pid) {
        if (json_object_get(lookout->ends, living_pid) || json_object_size(lookout->ends) >= ENDS_MAX)
            continue;
        long number = strtol(living_pid, NULL, 10);
        int fd = pid_open((pid_t)number);
        watch_descriptor(lookout, fd, (uint64_t)number);
        json_object_set_new(lookout->ends, living_pid, json_integer(fd));
    }
}

/* ---- a look ---- */

/* V1 */
static bool become_first(struct lookout *lookout)
{
    if (lookout->is_first)
        return true;
    if (lookout->lock_fd < 0)
        lookout->lock_fd =
            fs->openat(lookout->ws->state_dir, WATCH_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lookout->lock_fd < 0 || fs_lock_try(lookout->lock_fd, F_WRLCK, 0, 1) < 0)
        return false;
    recall(lookout);
    lookout->is_first = true;
    return true;
}

static int look_around(struct lookout *lookout, struct tsk_error *err)
{
    struct timespec settle = {.tv_nsec = SETTLE_MS * 1000000L};
    bool was_first = lookout->is_first;
    json_t *processes CLEANUP_JSON = NULL, *dead CLEANUP_JSON = NULL, *living CLEANUP_JSON = NULL;
    size_t total;
    if (proc_overview(lookout->ws, NULL, 0, &processes, &total, err) < 0) /* what their holders noted becomes events */
        return -1;
    bool has_notes = take_causes(lookout); /* also of one that does not report: fd must not stay readable */
    if (!become_first(lookout))
        return 0;
    if (has_notes && was_first)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &settle, NULL);
    json_t *files CLEANUP_JSON =
        has_notes || !was_first ? lookout_requests(lookout->ws) : json_incref(lookout->requests);
    if (read_since(lookout, files, was_first, err) < 0 || lookout_scene(lookout, &dead, &living, err) < 0)
        return -1;
    lookout->is_stale |= !was_first; /* the next one reads the trail from here on */
    await_ends(lookout, living);
    return report_requests(lookout, files, err) < 0 ? -1 : report_deaths(lookout, dead, err);
}

void lookout_look(struct lookout *lookout)
{
    struct tsk_error ignored; /* other views and operations report what is wrong with the workspace */
    look_around(lookout, &ignored);
    if (lookout->is_first)
        remember(lookout);
}
