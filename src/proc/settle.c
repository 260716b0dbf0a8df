#include "proc/settle.h"

#include "base/fs.h"
#include "proc/condition.h"
#include "proc/files.h"
#include "proc/registry.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>

enum {
    SETTLE_GATHER_MS = 10, /* changes that come together are looked at together */
    SETTLE_CANCEL_MS = 250,
};

struct settling {
    const char *id;
    int watch;          /* of its directory; -1: none */
    bool is_dirty;      /* to be looked at */
    int64_t n, seen_ms; /* the start that was seen first at that time (boot clock) */
    int64_t due_ms;     /* when to look again though nothing says so; INT64_MAX: never */
    int64_t give_up_ms; /* 0: not known yet */
    enum proc_settled settled;
};

/* Of one that does not run. A restart of the policy that is due now is waited for. */
static enum proc_settled settled_ended(const struct proc_view *view, int64_t now_wall_ms)
{
    bool is_due = strcmp(view->phase, "backoff") == 0 && view->next_start_ms <= now_wall_ms;
    if (is_due || strcmp(view->phase, "starting") == 0)
        return SETTLED_PENDING;
    return view->state == PROC_FAILED ? SETTLED_FAILED : SETTLED_WELL;
}

/* Of one that runs without a probe. */
static enum proc_settled settled_alive(struct settling *one, const struct proc_view *view, int64_t now_ms)
{
    if (view->n != one->n) {
        one->n = view->n;
        one->seen_ms = now_ms;
    }
    one->due_ms = one->seen_ms + PROC_SETTLE_MS;
    return now_ms >= one->due_ms ? SETTLED_WELL : SETTLED_PENDING;
}

static enum proc_settled settled_now(struct settling *one, const struct proc *p)
{
    const struct proc_view *view = &p->view;
    struct now now = clock_now();
    struct proc_probe probe;
    struct reason why = {.span = ""};
    one->due_ms = now.boot_ms + SECOND_LOOK_MS;
    if (view->state != PROC_RUNNING)
        return settled_ended(view, now.wall_ms);
    if (strcmp(view->phase, "stopping") == 0)
        return SETTLED_WELL; /* somebody stops it: that is its end */
    if (view->child.pid && proc_id_liveness(&view->child) == LIVE_DEAD)
        return SETTLED_PENDING; /* its holder has not recorded it yet */
    proc_spec_probe(p->spec, "ready", &probe);
    if (probe.kind == PROBE_NONE)
        return settled_alive(one, view, now.boot_ms);
    one->give_up_ms = one->give_up_ms ? one->give_up_ms : condition_give_up(p);
    enum verdict verdict = condition_judge(p, PROC_DEP_READY, one->give_up_ms, &why);
    return verdict == HOLDS ? SETTLED_WELL : verdict == FAILS ? SETTLED_FAILED : SETTLED_PENDING;
}

static void settle_look(struct proc_registry *reg, struct settling *one)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    struct tsk_error ignored; /* the answer's own look says it */
    one->is_dirty = false;
    one->settled = proc_load(reg, one->id, &p, &ignored) < 0 ? SETTLED_WELL : settled_now(one, &p);
}

static int watch_directory(struct proc_registry *reg, int notes, const char *id)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", reg->dir, id);
    return notes < 0
               ? -1
               : inotify_add_watch(notes, path, IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR);
}

static void settle_mark(int notes, struct settling *list, size_t count)
{
    _Alignas(struct inotify_event) char text[4096];
    ssize_t len;
    while ((len = read(notes, text, sizeof text)) > 0) {
        const struct inotify_event *note;
        for (char *at = text; at < text + len; at += sizeof *note + note->len) {
            note = (const struct inotify_event *)at;
            for (size_t i = 0; i < count; i++)
                if (list[i].watch == note->wd || (note->mask & IN_Q_OVERFLOW))
                    list[i].is_dirty = true;
        }
    }
}

/* Until one of them may have settled, or it is `until_ms` (boot clock). */
static void settle_wait(int notes, struct settling *list, size_t count, int64_t until_ms)
{
    static const struct timespec gather = {.tv_nsec = SETTLE_GATHER_MS * 1000000L};
    int64_t due_ms = until_ms, now_ms = clock_now().boot_ms;
    for (size_t i = 0; i < count; i++)
        if (list[i].settled == SETTLED_PENDING && list[i].due_ms < due_ms)
            due_ms = list[i].due_ms;
    int64_t wait_ms = due_ms > now_ms ? due_ms - now_ms : 0;
    if (notes < 0 && wait_ms > RECORD_POLL_MS)
        wait_ms = RECORD_POLL_MS;
    struct pollfd fd = {.fd = notes, .events = POLLIN};
    int found = poll(&fd, 1, (int)wait_ms);
    if (found > 0) {
        nanosleep(&gather, NULL);
        settle_mark(notes, list, count);
    }
    for (size_t i = 0; i < count; i++)
        list[i].is_dirty = list[i].is_dirty || notes < 0 || list[i].due_ms <= clock_now().boot_ms;
}

static size_t settle_round(struct proc_registry *reg, struct settling *list, size_t count)
{
    size_t pending = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].settled == SETTLED_PENDING && list[i].is_dirty)
            settle_look(reg, &list[i]);
        pending += list[i].settled == SETTLED_PENDING;
    }
    return pending;
}

void proc_settle(struct proc_registry *reg, const char *const *ids, size_t count, const struct proc_settle *how,
                 enum proc_settled *ret)
{
    int notes CLEANUP_FD = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int64_t deadline_ms = how->timeout_ms < 0 ? INT64_MAX : clock_now().boot_ms + how->timeout_ms;
    struct settling *list = memory_zeroed(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) /* watched before they are looked at, so that nothing falls in between */
        list[i] = (struct settling){.id = ids[i],
                                    .is_dirty = true,
                                    .watch = ids[i] ? watch_directory(reg, notes, ids[i]) : -1,
                                    .due_ms = INT64_MAX,
                                    .settled = ids[i] ? SETTLED_PENDING : SETTLED_WELL};
    while (settle_round(reg, list, count) > 0 && !(how->is_cancelled && how->is_cancelled(how->data))) {
        int64_t now_ms = clock_now().boot_ms, until_ms = deadline_ms;
        if (now_ms >= deadline_ms)
            break;
        if (how->is_cancelled && until_ms > now_ms + SETTLE_CANCEL_MS)
            until_ms = now_ms + SETTLE_CANCEL_MS;
        settle_wait(notes, list, count, until_ms);
    }
    for (size_t i = 0; i < count; i++)
        ret[i] = list[i].settled;
    free(list);
}
