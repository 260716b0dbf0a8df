/* adopt.c - taking charge of a child that a dead holder has started. It is not our child: a pidfd reports its end, and the kernel
 * reports its exit status where it can (PIDFD_GET_INFO, Linux 6.15), once its parent has reaped it. Before that, /proc has the
 * status of the zombie.
 *
 *  A1  The pidfd is opened first, then the start ticks are compared: from then on the descriptor is that process.
 *  A2  An exit status is known or said to be unknown, with the reason; never guessed. */
#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAP_MS       1000
#define ADOPT_POLL_MS 200

/* As in linux/pidfd.h, which the C library's headers need not have. */
struct pidfd_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT (1u << 3)
#define PIDFD_GET_INFO  _IOWR(0xFF, 11, struct pidfd_info)

_Static_assert(sizeof(struct pidfd_info) == 64, "PIDFD_INFO_SIZE_VER0");

static int64_t line_number(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : 0;
}

/* Where its output began, as it wrote itself before its exec. */
static void adopt_read_identity(struct holder *h)
{
    ssize_t len = pread(HOLD_FD_RUN, h->text, sizeof h->text - 1, 0);
    h->text[len < 0 ? 0 : len] = '\0';
    h->run.offset[0] = line_number(h->text, "\"stdout_offset\":");
    h->run.offset[1] = line_number(h->text, "\"stderr_offset\":");
}

static bool adopt_has_ticks(struct holder *h)
{
    char line[STAT_SIZE];
    return stat_read(h->run.pid, line, sizeof line) == 0 && ticks_are_same(stat_field(line, STAT_TICKS), h->run.ticks);
}

static bool adopt_is_alive(struct holder *h)
{
    h->pidfd = (int)syscall(SYS_pidfd_open, h->run.pid, 0);
    if (h->pidfd < 0 && errno == ESRCH)
        return false;
    bool is_alive = adopt_has_ticks(h);
    if (is_alive && h->pidfd < 0)
        holder_timer(h, TIMER_REAP, ADOPT_POLL_MS); /* no pidfd available: poll */
    if (!is_alive && h->pidfd >= 0) {
        close(h->pidfd);
        h->pidfd = -1;
    }
    return is_alive;
}

static void adopt_record(struct holder *h)
{
    h->phase = "running";
    h->state = RUNNING;
    if (record_status(h, RECORD_NORMAL) < 0)
        holder_timer(h, TIMER_RECORD, 0);
    if (!history_has_start(h, h->run.n))
        history_add_start(h);
}

/* Child and holder were dead at the same time: what the pipes held is gone with the last who had them open. */
static void adopt_tell_gaps(struct holder *h)
{
    if (h->mode == LOG_DIRECT)
        return;
    pump_drain(h);
    for (int i = 0; i < 2; i++) {
        if (h->files[i].name && h->inputs[i].is_mute)
            history_add(h, "gap", h->run.n, ",\"stream\":\"%s\"", h->files[i].name);
    }
}

int adopt_begin(struct holder *h)
{
    char *at = (char *)h->opt.adopt;
    h->run.n = h->opt.n;
    h->run.lock = HOLD_FD_RUN;
    h->run.pid = (pid_t)strtol(at, &at, 10);
    h->run.ticks = strtoull(*at ? at + 1 : at, &at, 10);
    h->run.started_ms = strtoll(*at ? at + 1 : at, &at, 10);
    h->first_ticks = h->run.ticks;
    h->foreign_session = h->run.pid;
    run_lock_remember(h);
    h->is_adopted = h->is_foreign = true;
    /* Its running time so far counts. */
    h->started_boot_ms = clock_boot_ms() - (clock_wall_ms() - h->run.started_ms);
    h->is_alive = adopt_is_alive(h);
    h->session_until = h->is_alive ? UINT64_MAX : 0;
    if (output_open(h) < 0)
        return -1;
    h->opt.adopt = NULL;
    adopt_read_identity(h);
    adopt_record(h);
    if (h->is_alive) {
        history_add(h, "adopted", h->run.n, ",\"pid\":%d", (int)h->run.pid);
        if (h->mode == LOG_TTY) /* T2 of tty.c */
            history_add(h, "gap", h->run.n, ",\"stream\":\"%s\"", h->files[0].name);
        output_begin(h);
        probe_start(h);
    } else {
        adopt_tell_gaps(h);
        holder_child_ended(h, -1, "unknown", "it ended while nobody watched");
    }
    holder_started(h);
    return 0;
}

static void adopt_end(struct holder *h, int status, const char *by, const char *reason)
{
    holder_timer(h, TIMER_REAP, -1);
    if (h->pidfd >= 0)
        close(h->pidfd);
    h->pidfd = -1;
    holder_child_ended(h, status, by, reason);
    holder_check_stop(h);
}

/* As long as its parent has not reaped it, /proc has its status, on any kernel. The pid cannot be another's meanwhile: a
 * zombie keeps it, and the ticks are compared. For a process of somebody else (sudo) it has 0 there whatever it was; reading
 * a link, which needs the same permission, tells. */
static bool adopt_read_zombie(struct holder *h, int *ret_status)
{
    char line[STAT_SIZE];
    snprintf(line, sizeof line, "/proc/%d/exe", (int)h->run.pid);
    if (readlink(line, h->text, sizeof h->text) < 0 && errno == EACCES)
        return false;
    if (stat_read(h->run.pid, line, sizeof line) < 0 || !ticks_are_same(stat_field(line, STAT_TICKS), h->run.ticks))
        return false;
    if (stat_is_living(line))
        return false;
    *ret_status = (int)stat_field(line, STAT_EXIT_CODE);
    return true;
}

void adopt_look(struct holder *h, short revents)
{
    struct pidfd_info info = {.mask = PIDFD_INFO_EXIT};
    int status, answer = ioctl(h->pidfd, PIDFD_GET_INFO, &info);
    bool can_tell = answer == 0 || errno == ESRCH; /* ESRCH: it has just been reaped */
    if (answer == 0 && (info.mask & PIDFD_INFO_EXIT))
        adopt_end(h, info.exit_code, "itself", "");
    else if (adopt_read_zombie(h, &status))
        adopt_end(h, status, "itself", "");
    else if (!can_tell)
        adopt_end(h, -1, "unknown", "it was not a child of the holder");
    else if (revents & POLLHUP)
        adopt_end(h, -1, "unknown", "the kernel does not tell");
    else if (h->due[TIMER_REAP] == 0)
        holder_timer(h, TIMER_REAP, REAP_MS);
}

void adopt_timer(struct holder *h)
{
    int status;
    if (adopt_read_zombie(h, &status))
        adopt_end(h, status, "itself", "");
    else if (h->pidfd >= 0)
        adopt_end(h, -1, "unknown", "its parent does not reap it");
    else if (adopt_has_ticks(h))
        holder_timer(h, TIMER_REAP, ADOPT_POLL_MS);
    else
        adopt_end(h, -1, "unknown", "it was not a child of the holder");
}
