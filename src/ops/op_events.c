/* op_events.c - reading the audit trail, and following it. */
#include "base/fs.h"
#include "ops/event_filter.h"
#include "ops/lookout.h"
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
#define DISORDER_MS    (60 * 60 * 1000) /* how much later than it happened an event may be noted */
#define BINS_DEFAULT   120
#define COUNTS_SPAN_MS (60 * 60 * 1000)
#define COUNTS_MAX     100000

/* Reads what is there from `from` on, `limit` wanted ones at most (0: all). */
static int read_first(int state_dir, uint64_t from, const struct event_filter *filter, size_t limit, json_t *list,
                      uint64_t *ret_next, struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    if (event_reader_init(&reader, state_dir, from, err) < 0)
        return -1;
    int more = 1;
    json_t *event;
    while ((!limit || json_array_size(list) < limit) && (more = event_read(&reader, &event, err)) == 1) {
        if (event_filter_wants(filter, event))
            json_array_append(list, event);
        json_decref(event);
    }
    *ret_next = reader.next_id;
    return more < 0 ? -1 : 0;
}

/* Times along the trail are not strictly in order: what happened to a process is noted when somebody looks. */
static bool is_before(const json_t *event, int64_t since_ms)
{
    int64_t time_ms;
    return since_ms >= 0 && time_parse(json_get_string(event, "time", ""), &time_ms) == 0 &&
           time_ms < since_ms - DISORDER_MS;
}

/* Reads what is there from `from` on, up to `until`, and puts the last `limit` wanted ones before those in the list. */
static int events_read_last(int state_dir, uint64_t from, uint64_t until, const struct event_filter *filter,
                            size_t limit, json_t *list, uint64_t *ret_next, bool *ret_is_old, struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    if (event_reader_init(&reader, state_dir, from, err) < 0)
        return -1;
    int more = 1;
    size_t seen = 0;
    json_t *event, **ring = memory_zeroed(limit, sizeof(json_t *)), *found CLEANUP_JSON = json_array();
    while (reader.next_id < until && (more = event_read(&reader, &event, err)) == 1) {
        *ret_is_old = *ret_is_old || is_before(event, filter->since_ms);
        bool is_due = (uint64_t)json_get_int(event, "id", 0) < until && event_filter_wants(filter, event);
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

/* The end of a long trail (`before`: the part before that id) is read from near its end: guess a starting point, and as long as
 * that was too late read what is before it. Nothing is read twice. */
static int read_tail(int state_dir, uint64_t before, const struct event_filter *filter, size_t limit, json_t *list,
                     uint64_t *ret_next, struct tsk_error *err)
{
    struct event_reader end;
    if (event_reader_init(&end, state_dir, before, err) < 0)
        return -1;
    uint64_t last = end.next_id, until = before, ignored;
    bool is_old = false;
    event_reader_clear(&end);
    for (uint64_t span = limit * 512;; span *= 8) {
        uint64_t from = span < last ? last - span : 0;
        if (events_read_last(state_dir, from, until, filter, limit - json_array_size(list), list,
                             until == before ? ret_next : &ignored, &is_old, err) < 0)
            return -1;
        if (json_array_size(list) >= limit || from == 0 || is_old)
            return 0;
        until = from;
    }
}

/* ---- counts ---- */

/* How many events each of `bins` equal spans between `since` and now has, and how many of those tell of something bad. */
static int trail_count_events(struct op_call *call, struct event_filter *filter, json_t **ret, struct tsk_error *err)
{
    int64_t now_ms = clock_now().wall_ms, bins = json_get_int(call->args, "bins", BINS_DEFAULT), time_ms;
    json_t *list CLEANUP_JSON = json_array(), *counts = json_array();
    uint64_t next;
    if (filter->since_ms < 0)
        filter->since_ms = now_ms - COUNTS_SPAN_MS;
    int64_t span_ms = now_ms > filter->since_ms ? now_ms - filter->since_ms : 1;
    for (int64_t bin = 0; bin < bins; bin++)
        json_array_append_new(counts, json_pack("{s:i, s:i}", "all", 0, "bad", 0));
    *ret = json_pack("{s:s, s:s, s:o}", "from", TIME_EXACT(filter->since_ms), "to", TIME_EXACT(now_ms), "bins", counts);
    if (read_tail(call->ws->state_dir, EVENT_FROM_END, filter, COUNTS_MAX, list, &next, err) < 0)
        return -1;
    json_each (list, i, event) {
        if (time_parse(json_get_string(event, "time", ""), &time_ms) < 0 || time_ms > now_ms)
            continue;
        int64_t at = (time_ms - filter->since_ms) * bins / span_ms;
        json_t *bin = json_array_get(counts, (size_t)(at < bins ? at : bins - 1));
        json_object_set_new(bin, "all", json_integer(json_get_int(bin, "all", 0) + 1));
        json_object_set_new(bin, "bad", json_integer(json_get_int(bin, "bad", 0) + event_is_bad(event)));
    }
    return 0;
}

/* What their holders noted becomes events when somebody looks; without a server that is us. */
static void look_at_processes(struct tsk_workspace *ws)
{
    struct tsk_error ignored;
    json_t *none = NULL;
    size_t total;
    if (proc_overview(ws, NULL, 0, &none, &total, &ignored) == 0)
        json_decref(none);
}

/* -1 where it is not available (a user's inotify instances may be used up): then a look once a second has to do. */
static int trail_watch_open(const struct tsk_workspace *ws)
{
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd >= 0 && inotify_add_watch(fd, ws->state_path, IN_MODIFY | IN_MOVED_TO | IN_CREATE) < 0)
        fs_close(&fd);
    return fd;
}

static int events_follow(struct op_call *call, uint64_t from, const struct event_filter *filter, struct tsk_error *err)
{
    struct event_reader reader CLEANUP(event_reader_clear);
    struct lookout lookout CLEANUP(lookout_clear);
    int watch CLEANUP_FD = trail_watch_open(call->ws);
    lookout_init(&lookout, call->ws, call->root);
    int64_t look_ms = 0;
    if (event_reader_init(&reader, call->ws->state_dir, from, err) < 0)
        return -1;
    for (;;) {
        json_t *event;
        int more;
        while ((more = event_read(&reader, &event, err)) == 1) {
            bool go_on = !event_filter_wants(filter, event) || call->emit(call, event);
            json_decref(event);
            if (!go_on)
                return 0;
        }
        if (more < 0)
            return -1;
        char notes[4096];
        struct pollfd ready[] = {{.fd = watch, .events = POLLIN}, {.fd = lookout.fd, .events = POLLIN}};
        int64_t left_ms = look_ms - clock_now().boot_ms;
        int woken = poll(ready, 2, left_ms < 0 ? 0 : (int)left_ms);
        if (woken < 0 || (ready[0].revents && read(watch, notes, sizeof notes) < 0))
            return errno == EINTR ? 0 : error_errno(err, "watch", call->ws->state_path);
        if (woken > 0 && !ready[1].revents)
            continue;
        lookout_look(&lookout);
        look_ms = clock_now().boot_ms + LOOKOUT_MS;
    }
}

static int run_events(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    struct event_filter filter;
    uint64_t before = EVENT_FROM_END;
    bool has_after = json_object_get(call->args, "after") != NULL;
    int64_t limit = json_get_int(call->args, "limit", has_after && !call->is_brief ? 0 : LIMIT_DEFAULT);
    uint64_t next = 0;
    json_t *list CLEANUP_JSON = json_array();
    if (event_filter_take(call->args, &filter, err) < 0)
        return -1;
    if (json_object_get(call->args, "before"))
        before = (uint64_t)json_get_int(call->args, "before", 0);
    look_at_processes(call->ws);
    if (json_get_bool(call->args, "counts", false))
        return trail_count_events(call, &filter, ret, err);
    int result = has_after ? read_first(call->ws->state_dir, (uint64_t)json_get_int(call->args, "after", 0) + 1,
                                        &filter, (size_t)limit, list, &next, err)
                           : read_tail(call->ws->state_dir, before, &filter, (size_t)limit, list, &next, err);
    if (result < 0)
        return -1;
    if (!json_get_bool(call->args, "follow", false)) {
        *ret = json_pack("{s:O, s:I}", "events", list, "next", (json_int_t)next);
        return 0;
    }
    json_each (list, i, event)
        if (!call->emit(call, event))
            return 0;
    return events_follow(call, next, &filter, err);
}

static const struct op_route counts_route[] = {{"GET", "/api/events/counts", "counts=true"}, {0}};

const struct op op_events = {
    NAMES("events", NULL, "events"),
    .summary = "Show what happened in this workspace, and follow it live with -f.",
    .examples = "tasuki events  # the last 50\n"
                "tasuki events -f --json  # one JSON document per line, as it happens\n"
                "tasuki events --thing process:web --since 1h  # what happened to it\n"
                "tasuki events --type LOCK_STALE_RECOVERED  # locks that were taken from dead holders",
    .flags = OP_READ_ONLY | OP_STREAMS,
    .params = PARAMS(
        FLAG("follow", OP_CLI_ONLY, "Continue, and print new events as they happen.", .letter = 'f'),
        PARAM("limit", OP_INT, OP_OPTIONAL, "N",
              "How many of the newest events to show; with --after, how many of the first ones after it.",
              .fallback = "50", .min = 1, .max = 100000, .letter = 'n', .agent_help = "How many."),
        PARAM("after", OP_INT, OP_OPTIONAL, "ID", "Only events after this id.", .min = 0, .max = INT64_MAX),
        PARAM("type", OP_STRING, OP_OPTIONAL, "TYPE", "Only events of this type, such as lock.acquired or process.*.",
              .max = 128),
        PARAM("since", OP_STRING, OP_PAGE_ONLY, "T", "Only events since then: 10m (ago), 14:30, 2026-02-07T14:30:00Z.",
              .max = 64),
        PARAM("until", OP_STRING, OP_PAGE_ONLY, "T", "Only events until then.", .max = 64),
        PARAM("thing", OP_STRING, OP_PAGE_ONLY, "KIND:ID",
              "Only events of this thing: process:web, run:RUN-…, request:RQ-…, lock:deploy, workflow:W, agent:I.",
              .max = 300),
        PARAM("actor", OP_STRING, OP_PAGE_ONLY, "LABEL", "Only what this party did.", .max = 256),
        PARAM("before", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "ID", "The newest events before this id.", .min = 0,
              .max = INT64_MAX),
        FLAG("counts", OP_REMOTE_ONLY | OP_PAGE_ONLY, "The number of events in each interval, instead of the events."),
        PARAM("bins", OP_INT, OP_REMOTE_ONLY | OP_PAGE_ONLY, "N", "With counts: the number of intervals.", .min = 1,
              .max = 1000, .fallback = "120"),
        FLAG("beat", OP_REMOTE_ONLY | OP_PAGE_ONLY, "For a stream: the server's time at the beginning and every 5 s."),
        FLAG("usage", OP_REMOTE_ONLY | OP_PAGE_ONLY,
             "For a stream: CPU and memory of the running processes, every 2 s.")),
    .result = FIELDS({"events", "array?", "id time type session_id? run_id? task_id? actor data"},
                     {"next", "integer?", "the id after which to continue"},
                     {"bins", "array?", "counts: all bad, from `from` to `to`"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/events", .also = counts_route),
    .mcp = TOOL("events", "workspace",
                .text = "Read what happened in this workspace, the newest last. It changes nothing; to continue, pass "
                        "the id of the last event as after."),
    .run = run_events,
};
