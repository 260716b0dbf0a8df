/* op_watch.c - the whole workspace, live. */
#include "base/fs.h"
#include "ops/lookout.h"
#include "ops/ops.h"
#include "ops/overview.h"

#include <poll.h>
#include <stdalign.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define WATCH_TICK_MS  1000 /* ages grow, and what nothing announces is seen */
#define CALM_MS        40   /* a burst of events is shown once */
#define WATCH_SHARE    40   /* a look that took 1 ms is repeated after 40 ms at the earliest */
#define WATCH_PAUSE_MS 2000 /* but not later than that */

/* What changes by itself: nobody has done anything when only these differ. */
static const char *const passing[] = {"time",      "age_ms", "expires_in_ms", "expires_at",
                                      "uptime_ms", "cpu_ms", "rss_bytes",     NULL};

/* A copy without what passes by itself. */
static json_t *lasting_part(const json_t *value)
{
    if (json_is_array(value)) {
        json_t *copy = json_array();
        json_each (value, i, member)
            json_array_append_new(copy, lasting_part(member));
        return copy;
    }
    if (!json_is_object(value))
        return json_incref((json_t *)value);
    json_t *copy = json_object();
    json_each_pair (value, key, member) {
        bool passes = false;
        for (size_t i = 0; passing[i] && !passes; i++)
            passes = strcmp(key, passing[i]) == 0;
        if (!passes)
            json_object_set_new(copy, key, lasting_part(member));
    }
    return copy;
}

/* -1 where it is not available (a user's inotify instances may be used up): then the ticks have to do. */
static int watch_open(const struct tsk_workspace *ws)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, ws->state_path, IN_MODIFY | IN_MOVED_TO | IN_CREATE) < 0)
        fs_close(&fd);
    return fd;
}

/* Whether the trail was among what has changed: looking at the workspace touches the database, and must not wake us. */
static bool has_trail(const char *notes, ssize_t len)
{
    bool found = false;
    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *note = (const void *)(notes + at);
        found |= note->len && strcmp(note->name, "events.ndjson") == 0;
        at += (ssize_t)(sizeof *note + note->len);
    }
    return found;
}

/* Until something has happened, at most `until`. A signal ends the wait, too. */
static bool wait_for_trail(int fd, int64_t until)
{
    alignas(struct inotify_event) char notes[4096];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (int64_t left; (left = until - clock_now().boot_ms) > 0;) {
        if (poll(&ready, 1, (int)left) <= 0)
            return false;
        ssize_t len = read(fd, notes, sizeof notes);
        if (len > 0 && has_trail(notes, len))
            return true;
    }
    return false;
}

/* Processor time of this thread. */
static int64_t thread_ms(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000 + spent.tv_nsec / 1000000;
}

/* What comes in a burst is shown once; what nothing announces (a request was edited, a runner died) with the next tick. The last look
 * began at `begin_ms`. A look at much takes long, and is repeated the later: the share of a processor stays the same. */
static void watch_wait(int fd, int64_t begin_ms, int64_t spent_ms)
{
    int64_t pause_ms = spent_ms * WATCH_SHARE < WATCH_PAUSE_MS ? spent_ms * WATCH_SHARE : WATCH_PAUSE_MS;
    if (!wait_for_trail(fd, begin_ms + (pause_ms > WATCH_TICK_MS ? pause_ms : WATCH_TICK_MS)))
        return;
    int64_t left_ms = begin_ms + pause_ms - clock_now().boot_ms;
    poll(NULL, 0, (int)(left_ms > CALM_MS ? left_ms : CALM_MS));
}

static json_t *trouble_document(const struct op_call *call, const struct tsk_error *err)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    const char *time = TIME_LOCAL(clock_now().wall_ms);
    text_put_error(&message, call->lang, err);
    return json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s}}", "version", TASUKI_VERSION, "root", call->ws->root, "state",
                     call->ws->state_path, "time", time, "error", "code", tsk_code_name(err->code), "message",
                     buf_str(&message));
}

static int run_watch(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *before CLEANUP_JSON = NULL;
    struct lookout lookout CLEANUP(lookout_clear);
    int64_t looked_ms = 0;
    int fd CLEANUP_FD = watch_open(call->ws);
    (void)ret;
    lookout_init(&lookout, call->ws, call->root);
    for (;;) {
        int64_t begin_ms = clock_now().boot_ms, begin_cpu_ms = thread_ms();
        if (begin_ms - looked_ms >= LOOKOUT_MS) {
            lookout_look(&lookout);
            looked_ms = begin_ms;
        }
        json_t *status CLEANUP_JSON = NULL;
        if (overview_make(call, &status, err) < 0) {
            if (!before)
                return -1;
            status = trouble_document(call, err); /* it may pass: somebody edits a file */
        }
        json_t *now = lasting_part(status);
        bool is_new = !before || !json_equal(before, now);
        json_decref(before);
        before = now;
        if ((is_new || call->wants_ticks) && !call->emit(call, status))
            return 0;
        watch_wait(fd, begin_ms, thread_ms() - begin_cpu_ms);
    }
}

const struct op op_watch = {
    NAMES("watch", NULL, "watch"),
    .summary = "Show the whole workspace on one screen, live, until q.",
    .detail =
        "Failures and questions come first, then processes, runs, locks, the queue and events. Keys: "
        "arrows choose and scroll; Enter shows the details with the log; s starts, x stops, r restarts; a answers "
        "a question; l shows the log; / filters; ? shows help; q quits. In a pipe, on a terminal that cannot "
        "draw (TERM=dumb) and with --json there is one snapshot per change.",
    .examples = "tasuki watch  # keep an eye on it\n"
                "tasuki watch --json | jq -c '.runs[] | [.run_id, .status]'  # a document per change",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_STREAMS,
    .params = PARAMS(),
    .result = FIELDS({"status", "object", "as in status, one document per change"}),
    .errors = ERRORS(TSK_NOT_FOUND, TSK_ENVIRONMENT),
    .http.absent = "GET /api/events follows, too",
    .mcp.absent = "agents subscribe to the resource tasuki://status",
    .run = run_watch,
};
