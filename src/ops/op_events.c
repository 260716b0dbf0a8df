/* op_events.c - reading the audit trail, and following it. */
#include "base/fs.h"
#include "ops/ops.h"
#include "proc/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LIMIT_DEFAULT  50
#define LOOK_PERIOD_MS 1000 /* how soon the end of a process is seen while nobody else looks */

static bool is_wanted(const json_t *event, const char *type)
{
    return !type || strcmp(json_get_string(event, "type", ""), type) == 0;
}

/* Reads what is there from `from` on, `limit` wanted ones at most (0: all). */
static int read_first(int state_dir, uint64_t from, const char *type, size_t limit, json_t *list, uint64_t *ret_next,
                      struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    if (event_reader_init(&reader, state_dir, from, err) < 0)
        return -1;
    int more = 1;
    json_t *event;
    while ((!limit || json_array_size(list) < limit) && (more = event_read(&reader, &event, err)) == 1) {
        if (is_wanted(event, type))
            json_array_append(list, event);
        json_decref(event);
    }
    *ret_next = reader.next_id;
    return more < 0 ? -1 : 0;
}

/* Reads what is there from `from` on, up to `until`, and puts the last `limit` wanted ones before those in the list. */
static int read_last(int state_dir, uint64_t from, uint64_t until, const char *type, size_t limit, json_t *list,
                     uint64_t *ret_next, struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    if (event_reader_init(&reader, state_dir, from, err) < 0)
        return -1;
    int more = 1;
    size_t seen = 0;
    json_t *event, **ring = calloc(limit, sizeof(json_t *)), *found CLEANUP_JSON = json_array();
    BUG(!ring);
    while (reader.next_id < until && (more = event_read(&reader, &event, err)) == 1) {
        bool is_due = (uint64_t)json_get_int(event, "id", 0) < until && is_wanted(event, type);
        if (is_due) {
            json_decref(ring[seen % limit]);
            ring[seen++ % limit] = event;
        } else {
            json_decref(event);
        }
    }
    for (size_t i = seen > limit ? seen - limit : 0; i < seen; i++)
        json_array_append_new(found, ring[i % limit]);
    free(ring);
    json_array_extend(found, list);
    json_array_clear(list);
    json_array_extend(list, found);
    *ret_next = reader.next_id;
    return more < 0 ? -1 : 0;
}

/* The end of a long trail is read from near its end: guess a starting point, and as long as that was too late read what is before
 * it. Nothing is read twice. */
static int read_tail(int state_dir, const char *type, size_t limit, json_t *list, uint64_t *ret_next,
                     struct tsk_error *err)
{
    struct event_reader end;
    if (event_reader_init(&end, state_dir, EVENT_FROM_END, err) < 0)
        return -1;
    uint64_t last = end.next_id, until = UINT64_MAX, ignored;
    event_reader_clear(&end);
    for (uint64_t span = limit * 512;; span *= 8) {
        uint64_t from = span < last ? last - span : 0;
        if (read_last(state_dir, from, until, type, limit - json_array_size(list), list,
                      until == UINT64_MAX ? ret_next : &ignored, err) < 0)
            return -1;
        if (json_array_size(list) >= limit || from == 0)
            return 0;
        until = from;
    }
}

/* What their holders noted becomes events when somebody looks; without a server that is us. */
static void look_at_processes(struct tsk_workspace *ws)
{
    struct tsk_error ignored;
    json_t *processes = NULL;
    if (proc_overview(ws, &processes, &ignored) == 0)
        json_decref(processes);
}

/* -1 where it is not available (a user's inotify instances may be used up): then a look once a second has to do. */
static int watch_open(const struct tsk_workspace *ws)
{
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd >= 0 && inotify_add_watch(fd, ws->state_path, IN_MODIFY | IN_MOVED_TO | IN_CREATE) < 0)
        fs_close(&fd);
    return fd;
}

static int follow(struct op_call *call, uint64_t from, const char *type, struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    int watch CLEANUP_FD = watch_open(call->ws);
    if (event_reader_init(&reader, call->ws->state_dir, from, err) < 0)
        return -1;
    for (;;) {
        json_t *event;
        int more;
        while ((more = event_read(&reader, &event, err)) == 1) {
            bool go_on = !is_wanted(event, type) || call->emit(call, event);
            json_decref(event);
            if (!go_on)
                return 0;
        }
        if (more < 0)
            return -1;
        char notes[4096];
        struct pollfd ready = {.fd = watch, .events = POLLIN};
        int woken = poll(&ready, 1, LOOK_PERIOD_MS);
        if (woken == 0)
            look_at_processes(call->ws);
        else if (woken < 0 || read(watch, notes, sizeof notes) < 0)
            return errno == EINTR ? 0 : error_errno(err, "watch", call->ws->state_path);
    }
}

static int run_events(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    const char *type = json_get_string(call->args, "type", NULL);
    bool has_after = json_object_get(call->args, "after") != NULL;
    int64_t limit = json_get_int(call->args, "limit", has_after && !call->is_brief ? 0 : LIMIT_DEFAULT);
    uint64_t next = 0;
    json_t *list CLEANUP_JSON = json_array();
    look_at_processes(call->ws);
    int result = has_after ? read_first(call->ws->state_dir, (uint64_t)json_get_int(call->args, "after", 0) + 1, type,
                                        (size_t)limit, list, &next, err)
                           : read_tail(call->ws->state_dir, type, (size_t)limit, list, &next, err);
    if (result < 0)
        return -1;
    if (!json_get_bool(call->args, "follow", false)) {
        *ret = json_pack("{s:O, s:I}", "events", list, "next", (json_int_t)next);
        return 0;
    }
    size_t i;
    json_t *event;
    json_array_foreach (list, i, event)
        if (!call->emit(call, event))
            return 0;
    return follow(call, next, type, err);
}

static const struct op_param params[] = {
    {.name = "follow",
     .type = OP_BOOL,
     .flags = OP_CLI_ONLY,
     .letter = 'f',
     .help = "Go on and print new events as they happen."},
    {.name = "limit",
     .type = OP_INT,
     .letter = 'n',
     .value = "N",
     .help = "How many of the newest events to show; with --after, of the first ones behind it.",
     .agent_help = "How many.",
     .min = 1,
     .max = 100000,
     .fallback = "50"},
    {.name = "after", .type = OP_INT, .value = "ID", .help = "Only events after this id.", .min = 0, .max = INT64_MAX},
    {.name = "type",
     .type = OP_STRING,
     .value = "TYPE",
     .help = "Only events of this type, such as lock.acquired.",
     .max = 128},
    {0},
};
static const struct op_field result_fields[] = {{"events", "array", "id time type session_id? run_id? task_id? data"},
                                                {"next", "integer", "where what was read ends"},
                                                {0}};
static const enum tsk_code errors[] = {TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_OK};

const struct op op_events = {
    .name = "events",
    .verb = "events",
    .summary = "Show what happened in this workspace, and follow it live with -f.",
    .examples = "tasuki events  # the last 50\n"
                "tasuki events -f --json  # one JSON document per line, as it happens\n"
                "tasuki events --type LOCK_STALE_RECOVERED  # locks that were taken from dead holders",
    .flags = OP_READ_ONLY | OP_STREAMS,
    .params = params,
    .result = result_fields,
    .errors = errors,
    .http = {.method = "GET", .path = "/api/events"},
    .mcp = {.tool = "events",
            .group = "workspace",
            .text =
                "Read what happened in this workspace, the newest last. It changes nothing; to read on, pass the id "
                "of the last event as after."},
    .run = run_events,
};
