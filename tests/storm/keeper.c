/* storm-keeper DIR ID ROLE SEED - waits for one lock in bounded calls, again and again, until it is killed.
 *
 * Its calls of the kernel are written to DIR/log as they happen, so that test_line.py can say who was in the line when
 * another one took the lock:
 *
 *   call        it is about to call; the wait is shorter than a second
 *   in ticket   it has the byte of that ticket: it is in the line
 *   out ticket  it is about to drop that byte
 *   guard       it has byte 0 of the guard file
 *   took        its file is at the lock's path
 *   back kept   the call was refused; whether the place is kept
 *   hold, end   as in witness.h
 *   die         it is about to kill itself, which it does at any of these calls, and at every other that changes a file
 */
#include "base/fs.h"
#include "lock/guard.h"
#include "tasuki.h"
#include "witness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static struct witness witness;
static struct tsk_workspace *ws;
static char lock_file[256];
static uint64_t random_state;
static off_t ticket; /* 0: not in the line */
static pid_t main_thread;

static unsigned draw(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % below;
}

static void nap_us(unsigned us)
{
    struct timespec t = {.tv_nsec = us * 1000L};
    nanosleep(&t, NULL);
}

/* Between two steps; not in the thread that waits for a byte, which the main thread waits for. */
static void maybe_die(void)
{
    if (gettid() != main_thread || draw(1500))
        return;
    witness_log(&witness, "die", "ticket=%lld", (long long)ticket);
    kill(getpid(), SIGKILL);
}

static void before_lock(const struct flock *range)
{
    off_t end = range->l_len ? range->l_start + range->l_len : INT64_MAX;
    off_t byte = GUARD_TICKET_BASE + ticket;
    if (range->l_type != F_UNLCK || !ticket || byte < range->l_start || byte >= end)
        return;
    witness_log(&witness, "out", "ticket=%lld", (long long)ticket);
    ticket = 0;
}

static void after_lock(const struct flock *range)
{
    if (range->l_type != F_WRLCK)
        return;
    if (range->l_start > GUARD_TICKET_BASE) {
        ticket = range->l_start - GUARD_TICKET_BASE;
        witness_log(&witness, "in", "ticket=%lld", (long long)ticket);
    } else if (range->l_start == 0) {
        witness_log(&witness, "guard", "ticket=%lld", (long long)ticket);
    }
}

static int storm_lock(int fd, int cmd, struct flock *range)
{
    if (cmd == F_OFD_GETLK)
        return fs_system_calls.ofd_lock(fd, cmd, range);
    maybe_die();
    before_lock(range);
    int result = fs_system_calls.ofd_lock(fd, cmd, range);
    if (result == 0)
        after_lock(range);
    maybe_die();
    return result;
}

static int step(int result, const char *new)
{
    if (result == 0 && strcmp(new, lock_file) == 0)
        witness_log(&witness, "took", "ticket=%lld", (long long)ticket);
    maybe_die();
    return result;
}

static int storm_linkat(int from, const char *old, int to, const char *new, int flags)
{
    maybe_die();
    return step(fs_system_calls.linkat(from, old, to, new, flags), new);
}

static int storm_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    maybe_die();
    return step(fs_system_calls.renameat2(from, old, to, new, flags), new);
}

static int storm_unlinkat(int dir, const char *path, int flags)
{
    maybe_die();
    return step(fs_system_calls.unlinkat(dir, path, flags), "");
}

static ssize_t storm_pwrite(int fd, const void *data, size_t len, off_t offset)
{
    maybe_die();
    ssize_t result = fs_system_calls.pwrite(fd, data, len, offset);
    maybe_die();
    return result;
}

static void log_error(const char *call, const struct tsk_error *err)
{
    char text[256];
    tsk_error_message(err, "en", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    witness_log(&witness, "error", "call=%s code=%s text=%s", call, tsk_code_name(err->code), text);
}

static void work(struct tsk_lock *lock)
{
    struct tsk_error err;
    witness_log(&witness, "hold", "fence=%llu", (unsigned long long)tsk_lock_fence(lock));
    pid_t other = witness_enter(&witness);
    nap_us(draw(4) ? draw(3000) : draw(40000));
    if (!other)
        witness_leave(&witness);
    bool is_released = tsk_lock_release(lock, &err) == 0;
    if (!is_released)
        log_error("release", &err);
    witness_log(&witness, "end", "status=%s", is_released ? "ok" : "error");
}

static void turn(const char *id)
{
    static const int64_t waits_ms[] = {1, 5, 20, 60, 150, 900};
    struct tsk_lock_options options = {.size = sizeof options};
    struct tsk_lock *lock;
    struct tsk_error err;
    options.ttl_ms = 1800000;
    options.wait_ms = waits_ms[draw(sizeof waits_ms / sizeof *waits_ms)];
    witness_log(&witness, "call", "wait=%lld", (long long)options.wait_ms);
    if (tsk_lock_acquire(ws, TSK_LOCK_NAME, id, &options, &lock, &err) == 0)
        work(lock);
    else if (err.code == TSK_LOCK_HELD)
        witness_log(&witness, "back", "kept=%d", tsk_error_context(&err, "place_kept_ms") != NULL);
    else
        log_error("acquire", &err);
    if (draw(3))
        nap_us(draw(8000));
}

int main(int argc, char **argv)
{
    struct tsk_error err;
    if (argc != 5) {
        fprintf(stderr, "usage: storm-keeper DIR ID ROLE SEED\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    main_thread = gettid();
    random_state = strtoull(argv[4], NULL, 10) * 2654435761u + 88172645463325252u;
    snprintf(lock_file, sizeof lock_file, "name.%s.lock.json", argv[2]);
    witness_open(&witness, argv[1], argv[2], argv[3]);
    if (tsk_workspace_open(NULL, &ws, &err) < 0) {
        log_error("open", &err);
        return 1;
    }
    struct fs_calls calls = fs_system_calls;
    calls.ofd_lock = storm_lock;
    calls.linkat = storm_linkat;
    calls.renameat2 = storm_renameat2;
    calls.unlinkat = storm_unlinkat;
    calls.pwrite = storm_pwrite;
    fs = &calls;
    for (;;)
        turn(argv[2]);
}
