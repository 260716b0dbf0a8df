/* sweep.c - finding every living descendant of the child, and signalling it.
 *
 * We are a subreaper: whatever the child leaves behind becomes our child, so everything that belongs to it is below us.
 * If an earlier holder has died (is_foreign), some of them may be elsewhere. They are recognised by the name of the
 * start in their environment, or by the life lock among their descriptors; their descendants belong to the start, too.
 *
 *  W1  A process of another start is not ours, nor is what is below it: another holder, and whatever has that start's name in
 *      its environment (the child of a holder that died came to us as an orphan; it is adopted, not ended). The name
 *      alone proves nothing: a process that has our life lock open is ours, whatever name is in its environment.
 *  W2  A process is counted as long as it lives; a zombie does not. When nothing below us is counted, there is nothing: whatever
 *      a process leaves behind is in the list of our children before it is a zombie itself.
 *  W3  Nothing reports when a process outside our tree forks or moves, so a process that was found once stays on the
 *      list, by pid and start time.
 *  W4  In the middle of an exec a process has no environment, or half of one. An answer counts only when the whole environment of
 *      one program was read. A process that gives no such answer is counted, so that the stop continues, but gets no signal. */
#include "hold/hold.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HERD_MAX ((int)(sizeof((struct holder *)0)->herd / sizeof(pid_t)))
#define LIFE_FD  100
#define OUR_COMM "(tasuki-hold)"

#define STRAYS_MS        60000 /* how old what another process found may be */
#define SWEEP_EXEC_LOOKS 2000  /* the program may come from a slow disk */

/* The next numbered entry of a directory of /proc, 0 at the end. */
static pid_t dir_next_pid(struct dir_reader *dir)
{
    const char *name;
    while ((name = dir_next(dir)) && !(name[0] >= '1' && name[0] <= '9'))
        ;
    return name ? (pid_t)strtol(name, NULL, 10) : 0;
}

static bool stat_is_holder(const char *line)
{
    const char *name = strchr(line, '(');
    return name && strncmp(name, OUR_COMM, strlen(OUR_COMM)) == 0;
}

enum belonging { UNKNOWN, OURS, OTHERS, DOUBT };

/* Reading an environment byte by byte: how much of the mark the present variable has matched. */
struct env_match {
    size_t matched;
    bool is_past; /* it is another variable */
};

static enum belonging env_match_step(const struct holder *h, struct env_match *m, char c)
{
    const size_t name_len = sizeof HOLD_ENV_START; /* with the = */
    enum belonging answer = UNKNOWN;
    if (c == '\0') {
        if (!m->is_past && m->matched >= name_len)
            answer = h->env_mark[m->matched] ? OTHERS : OURS;
        *m = (struct env_match){0};
    } else if (!m->is_past && c == h->env_mark[m->matched]) {
        m->matched++;
    } else if (!m->is_past && m->matched >= name_len) {
        answer = OTHERS;
    } else {
        m->is_past = true;
    }
    return answer;
}

/* Returns the number of bytes read, -1 if we may not read it. *ret is what the environment says. */
static ssize_t environment_read(struct holder *h, pid_t pid, enum belonging *ret)
{
    struct env_match match = {0};
    ssize_t len, total = 0;
    *ret = UNKNOWN;
    snprintf(h->text, sizeof h->text, "/proc/%d/environ", (int)pid);
    int fd = open(h->text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (*ret == UNKNOWN && (len = read(fd, h->text, sizeof h->text)) > 0) {
        total += len;
        for (ssize_t i = 0; i < len && *ret == UNKNOWN; i++)
            *ret = env_match_step(h, &match, h->text[i]);
    }
    close(fd);
    if (*ret == UNKNOWN)
        *ret = env_match_step(h, &match, '\0');
    return total;
}

/* W4. Whether `len` bytes are all of the environment. The kernel sets the bounds of the environment step by step, also to an
 * empty range for an instant, and the place of the code after all of them: where that is 0, the exec is still under way. A
 * thread of the kernel has no memory and no environment. */
enum env_reading { READ_WHOLE, READ_TORN, READ_IN_EXEC };

static enum env_reading environment_check(pid_t pid, ssize_t len)
{
    char line[STAT_SIZE];
    if (stat_read(pid, line, sizeof line) < 0 || !stat_is_living(line) || !stat_field(line, STAT_MEMORY))
        return READ_WHOLE;
    if (!stat_field(line, STAT_CODE_START))
        return READ_IN_EXEC;
    return (uint64_t)len == stat_field(line, STAT_ENV_END) - stat_field(line, STAT_ENV_START) ? READ_WHOLE : READ_TORN;
}

/* Which start a process belongs to, as its environment says. */
static enum belonging environment_ask(struct holder *h, pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 100000};
    enum env_reading reading = READ_WHOLE;
    enum belonging answer;
    for (int i = 0; i < SWEEP_EXEC_LOOKS; i++) {
        ssize_t len = environment_read(h, pid, &answer);
        if (len < 0 || answer != UNKNOWN)
            return answer;
        reading = environment_check(pid, len);
        if (reading == READ_WHOLE)
            return answer;
        nanosleep(&pause, NULL);
    }
    return reading == READ_IN_EXEC ? DOUBT : answer;
}

static bool has_life_lock(struct holder *h, pid_t pid)
{
    struct stat st;
    snprintf(h->text, sizeof h->text, "/proc/%d/fd/%d", (int)pid, LIFE_FD);
    return stat(h->text, &st) == 0 && st.st_dev == h->life_dev && st.st_ino == h->life_inode;
}

/* The session that the adopted child began. Its number is not used again as long as it has members. Nobody watches these when the child
 * has ended and no stop is in progress: a later session of that number, whose leader is dead too, belongs to others. The price: what was
 * forked after the child's end, without our variables and our descriptor, is not found. */
static bool has_session(const struct holder *h, const char *line)
{
    char leader[STAT_SIZE];
    return (pid_t)stat_field(line, STAT_SESSION) == h->foreign_session &&
           (stat_read(h->foreign_session, leader, sizeof leader) < 0
                ? stat_field(line, STAT_TICKS) <= h->session_until
                : ticks_are_same(stat_field(leader, STAT_TICKS), h->first_ticks));
}

static bool herd_has(const struct holder *h, pid_t pid)
{
    for (int i = 0; i < h->herd_count; i++) {
        if (h->herd[i] == pid)
            return true;
    }
    return false;
}

/* `pid` is below us, or below one of the herd. SIGKILL is sent at once: some live for microseconds only. */
static void herd_add(struct holder *h, pid_t pid)
{
    char line[STAT_SIZE];
    if (h->herd_count == HERD_MAX || stat_read(pid, line, sizeof line) < 0 || !stat_is_living(line))
        return;
    enum belonging whose = stat_is_holder(line) ? OTHERS : environment_ask(h, pid);
    if ((whose == OTHERS || whose == DOUBT) && !has_life_lock(h, pid)) {
        h->herd_doubts += whose == DOUBT;
        return;
    }
    if (h->is_foreign && herd_has(h, pid))
        return;
    if (h->herd_signal == SIGKILL)
        kill(pid, SIGKILL);
    h->herd_ticks[h->herd_count] = stat_field(line, STAT_TICKS);
    h->herd[h->herd_count++] = pid;
}

/* W3. */
static void herd_keep(struct holder *h, int count)
{
    char line[STAT_SIZE];
    for (int i = 0; i < count; i++) {
        pid_t pid = h->herd[i];
        if (stat_read(pid, line, sizeof line) == 0 && ticks_are_same(stat_field(line, STAT_TICKS), h->herd_ticks[i]))
            herd_add(h, pid);
    }
}

/* The children of one thread: "123 456 ". */
static bool herd_add_listed(struct holder *h, const char *path)
{
    char text[256];
    pid_t pid = 0;
    ssize_t len;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while ((len = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < len; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid) {
                herd_add(h, pid);
                pid = 0;
            }
        }
    }
    close(fd);
    return true;
}

/* false: this kernel does not tell who somebody's children are (CONFIG_PROC_CHILDREN). */
static bool herd_add_children(struct holder *h, pid_t pid)
{
    struct dir_reader dir;
    char path[64];
    bool is_told = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (dir_open(&dir, AT_FDCWD, path) < 0)
        return true; /* it is no more */
    for (pid_t thread; (thread = dir_next_pid(&dir)) != 0;) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)thread);
        is_told = herd_add_listed(h, path);
    }
    return is_told || pid != h->self;
}

/* Adds processes that are not below us, by asking all processes. With `by_parent`, also those below us or below the herd. */
static void herd_add_others(struct holder *h, bool by_parent)
{
    struct dir_reader dir;
    char line[STAT_SIZE];
    if (dir_open(&dir, AT_FDCWD, "/proc") < 0)
        return;
    for (pid_t pid; (pid = dir_next_pid(&dir)) != 0;) {
        if (pid == h->self || stat_read(pid, line, sizeof line) < 0 || herd_has(h, pid))
            continue;
        pid_t parent = (pid_t)stat_field(line, STAT_PARENT);
        bool is_below = by_parent && (parent == h->self || herd_has(h, parent));
        uint64_t ticks = stat_field(line, STAT_TICKS);
        bool can_be = ticks >= h->first_ticks || ticks_are_same(ticks, h->first_ticks);
        if (is_below || (h->is_foreign && can_be &&
                         (environment_ask(h, pid) == OURS || has_life_lock(h, pid) || has_session(h, line))))
            herd_add(h, pid);
    }
}

/* A thousand holders that look at all processes each would take minutes. A command that stops many looks once for all of them, and
 * once more when the holders have ended. */
void strays_take(struct holder *h)
{
    char *at = h->data;
    int fd = h->is_foreign ? openat(HOLD_FD_DIR, HOLD_STRAYS_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    ssize_t len = read(fd, h->data, sizeof h->data);
    close(fd);
    unlinkat(HOLD_FD_DIR, HOLD_STRAYS_NAME, 0);
    if (len <= 0 || len == sizeof h->data || h->data[len - 1] != '\n')
        return;
    h->data[len] = '\0';
    int64_t age_ms = clock_boot_ms() - strtoll(at, &at, 10);
    if (age_ms < 0 || age_ms > STRAYS_MS)
        return;
    h->has_strays = true;
    for (h->herd_count = 0; *at == ' ' && h->herd_count < HERD_MAX; h->herd_count++) {
        h->herd[h->herd_count] = (pid_t)strtol(at, &at, 10);
        h->herd_ticks[h->herd_count] = strtoull(*at ? at + 1 : at, &at, 10);
    }
}

static void herd_gather(struct holder *h)
{
    int count = h->herd_count;
    h->herd_count = h->herd_doubts = 0;
    if (h->is_foreign)
        herd_keep(h, count);
    bool is_told = herd_add_children(h, h->self);
    if (h->is_foreign && h->is_alive && h->is_adopted)
        herd_add(h, h->run.pid);
    if (h->is_foreign && !h->has_strays)
        herd_add_others(h, false);
    for (int i = 0; is_told && i < h->herd_count; i++)
        herd_add_children(h, h->herd[i]);
    for (int before = -1; !is_told && before < h->herd_count;) {
        before = h->herd_count;
        herd_add_others(h, true);
    }
}

int sweep(struct holder *h, int sig)
{
    /* The group first, at once: nobody in it can slip through by forking. The child leads it as long as it is not reaped. */
    bool has_group = sig && h->is_alive && getpgid(h->run.pid) == h->run.pid;
    if (has_group && sig == SIGKILL)
        kill(-h->run.pid, sig);
    h->herd_signal = sig;
    herd_gather(h);
    if (sig != SIGTERM)
        return h->herd_count + h->herd_doubts;
    has_group = has_group && kill(-h->run.pid, SIGTERM) == 0 && kill(-h->run.pid, SIGCONT) == 0;
    for (int i = 0; i < h->herd_count; i++) {
        /* Twice may mean something else than once. */
        if (has_group && getpgid(h->herd[i]) == h->run.pid)
            continue;
        kill(h->herd[i], SIGTERM);
        kill(h->herd[i], SIGCONT);
    }
    return h->herd_count + h->herd_doubts;
}
