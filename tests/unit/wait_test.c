/* Waiting: in arrival order, until its time is up, woken by what happens and not by polling. */
#include "harness/test.h"
#include "lock/lock.h"
#include "lock/wait.h"
#include "unit/scene.h"

#include <pthread.h>

#define GUARD_PATH ".aiflow/locks/.guard/name.x"

static int open_bytes(void)
{
    int fd = open("bytes", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT(fd >= 0);
    return fd;
}

TEST(a_free_byte_is_locked_at_once)
{
    int a CLEANUP_FD = open_bytes(), b CLEANUP_FD = open_bytes();
    ASSERT_INT(wait_for_byte(a, F_WRLCK, 3, SCENE_DEADLINE_MS), 0);
    ASSERT_INT(fs_lock_probe(b, F_WRLCK, 3, 1, NULL), 1);
    ASSERT_INT(wait_for_byte(a, F_WRLCK, 4, -1), 0);
}

TEST(a_byte_that_stays_locked_times_out_and_is_not_locked_afterwards)
{
    int a CLEANUP_FD = open_bytes(), b CLEANUP_FD = open_bytes(), c CLEANUP_FD = open_bytes();
    ASSERT_INT(fs_lock_try(a, F_WRLCK, 3, 1), 0);
    for (int64_t timeout_ms = 0; timeout_ms < 40; timeout_ms += 13) {
        int64_t began = clock_now().boot_ms;
        ASSERT_INT(wait_for_byte(b, F_WRLCK, 3, timeout_ms), -1);
        ASSERT_INT(errno, ETIMEDOUT);
        ASSERT(clock_now().boot_ms - began >= timeout_ms);
    }
    ASSERT_INT(fs_lock_try(a, F_UNLCK, 3, 1), 0);
    ASSERT_INT(fs_lock_probe(c, F_WRLCK, 3, 1, NULL), 0);
}

static void hold_byte(const struct child *me, void *arg)
{
    int fd = open_bytes();
    (void)arg;
    ASSERT_INT(fs_lock_try(fd, F_WRLCK, 3, 1), 0);
    child_say(me, 'r');
    child_hear(me);
}

TEST(the_death_of_the_one_who_has_the_byte_ends_the_wait)
{
    static const int64_t timeouts[] = {-1, SCENE_DEADLINE_MS};
    for (size_t i = 0; i < 2; i++) {
        struct child child = child_start(hold_byte, NULL);
        int fd CLEANUP_FD = open_bytes();
        ASSERT_INT(child_hear(&child), 'r');
        kill(child.pid, SIGKILL);
        ASSERT_INT(wait_for_byte(fd, F_WRLCK, 3, timeouts[i]), 0);
        child_wait(&child);
    }
}

static void ignore_signal(int number)
{
    (void)number;
}

/* Sends itself signals until it is stopped: one of them meets the wait. */
static void *pester(void *arg)
{
    pthread_t waiter = *(pthread_t *)arg;
    for (;;) {
        pthread_testcancel();
        pthread_kill(waiter, SIGUSR1);
        usleep(2000);
    }
    return NULL;
}

static int wait_pestered(int (*wait_for_it)(void *arg), void *arg)
{
    pthread_t self = pthread_self(), thread;
    struct sigaction action = {.sa_handler = ignore_signal};
    ASSERT_INT(sigaction(SIGUSR1, &action, NULL), 0);
    ASSERT_INT(pthread_create(&thread, NULL, pester, &self), 0);
    int result = wait_for_it(arg);
    int saved = errno;
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    errno = saved;
    return result;
}

static int wait_for_third_byte(void *arg)
{
    return wait_for_byte(*(int *)arg, F_WRLCK, 3, SCENE_DEADLINE_MS);
}

TEST(a_signal_handler_interrupts_a_wait_for_a_byte)
{
    int a CLEANUP_FD = open_bytes(), b CLEANUP_FD = open_bytes();
    ASSERT_INT(fs_lock_try(a, F_WRLCK, 3, 1), 0);
    ASSERT_INT(wait_pestered(wait_for_third_byte, &b), -1);
    ASSERT_INT(errno, EINTR);
}

TEST(the_turn_comes_when_no_smaller_ticket_is_there_any_more)
{
    int early CLEANUP_FD = open_bytes(), middle CLEANUP_FD = open_bytes(), late CLEANUP_FD = open_bytes();
    ASSERT_INT(fs_lock_try(early, F_WRLCK, GUARD_TICKET_BASE + 2, 1), 0);
    ASSERT_INT(fs_lock_try(middle, F_WRLCK, GUARD_TICKET_BASE + 5, 1), 0);
    ASSERT_INT(fs_lock_try(late, F_WRLCK, GUARD_TICKET_BASE + 9, 1), 0);
    ASSERT_INT(wait_for_turn(early, 2, 1000, NULL, NULL), 0);
    ASSERT_INT(wait_for_turn(middle, 5, 10, NULL, NULL), -1);
    ASSERT_INT(errno, ETIMEDOUT);
    ASSERT_INT(wait_for_turn(late, 9, 0, NULL, NULL), -1);
    ASSERT_INT(fs_lock_try(early, F_UNLCK, 0, 0), 0);
    ASSERT_INT(wait_for_turn(middle, 5, 1000, NULL, NULL), 0);
    ASSERT_INT(wait_for_turn(late, 9, 10, NULL, NULL), -1);
    ASSERT_INT(fs_lock_try(middle, F_UNLCK, 0, 0), 0);
    ASSERT_INT(wait_for_turn(late, 9, -1, NULL, NULL), 0);
    ASSERT_INT(fs_lock_probe(early, F_RDLCK, GUARD_TICKET_BASE + 9, 1, NULL), 1); /* its own ticket stays */
}

/* ---- through the public API ---- */

static int acquire(struct tsk_workspace *ws, int64_t wait_ms, struct tsk_lock **ret, struct tsk_error *err)
{
    struct tsk_lock_options options = {.size = sizeof options, .wait_ms = wait_ms};
    return tsk_lock_acquire(ws, TSK_LOCK_NAME, "x", &options, ret, err);
}

static struct tsk_workspace *open_again(void)
{
    struct tsk_error err;
    struct tsk_workspace *ws;
    ASSERT_OK(tsk_workspace_open(".", &ws, &err));
    return ws;
}

/* Waits until the byte of that ticket is locked: somebody has taken his place in the line. */
static void await_ticket(uint64_t ticket)
{
    int64_t deadline = clock_now().boot_ms + SCENE_DEADLINE_MS;
    int fd CLEANUP_FD = open(GUARD_PATH, O_RDWR | O_CLOEXEC);
    ASSERT(fd >= 0);
    while (fs_lock_probe(fd, F_RDLCK, GUARD_TICKET_BASE + (off_t)ticket, 1, NULL) != 1) {
        ASSERT(clock_now().boot_ms < deadline);
        usleep(500);
    }
}

struct waiter {
    int64_t wait_ms;
    const char *log; /* gets a letter per event, appended */
    char letter;
};

static void note(const char *log, char letter)
{
    int fd CLEANUP_FD = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_INT(write(fd, &letter, 1), 1);
}

static void wait_and_note(const struct child *me, void *arg)
{
    const struct waiter *waiter = arg;
    struct tsk_error err;
    struct tsk_lock *lock;
    struct tsk_workspace *ws = open_again();
    (void)me;
    if (acquire(ws, waiter->wait_ms, &lock, &err) == 0) {
        note(waiter->log, waiter->letter);
        ASSERT_OK(tsk_lock_release(lock, &err));
    } else {
        ASSERT_INT(err.code, TSK_LOCK_HELD);
        note(waiter->log, (char)(waiter->letter - 'a' + 'A'));
    }
}

static void assert_log(const char *log, const char *want)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(fs_read_file(AT_FDCWD, log, 100, &b), 0);
    ASSERT_STR(buf_str(&b), want);
}

TEST(those_who_wait_get_the_lock_in_the_order_in_which_they_came)
{
    enum { COUNT = 6 };
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    struct child children[COUNT];
    ASSERT_OK(acquire(ws, 0, &lock, &err));
    for (int i = 0; i < COUNT; i++) {
        struct waiter waiter = {i % 2 ? TSK_WAIT_FOREVER : SCENE_DEADLINE_MS, "log", (char)('a' + i)};
        children[i] = child_start(wait_and_note, &waiter);
        await_ticket((uint64_t)i + 1);
    }
    ASSERT_OK(tsk_lock_release(lock, &err));
    for (int i = 0; i < COUNT; i++)
        ASSERT_INT(child_wait(&children[i]), 0);
    assert_log("log", "abcdef");
    tsk_workspace_close(ws);
}

TEST(a_waiter_whose_time_is_up_leaves_and_a_dead_one_is_passed_over)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    ASSERT_OK(acquire(ws, 0, &lock, &err));
    struct waiter waiters[] = {{TSK_WAIT_FOREVER, "log", 'a'}, {100, "log", 'b'}, {TSK_WAIT_FOREVER, "log", 'c'}};
    struct child children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = child_start(wait_and_note, &waiters[i]);
        if (i != 1)
            await_ticket((uint64_t)i + 1);
        else
            ASSERT_INT(child_wait(&children[1]), 0); /* it gives up although the one before it waits on */
    }
    child_kill(&children[0]);
    ASSERT_OK(tsk_lock_release(lock, &err));
    ASSERT_INT(child_wait(&children[2]), 0);
    assert_log("log", "Bc");
    tsk_workspace_close(ws);
}

TEST(shorter_waits_end_before_longer_ones_whatever_the_order_in_the_line)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    ASSERT_OK(acquire(ws, 0, &lock, &err));
    struct waiter waiters[] = {{1500, "log", 'a'}, {900, "log", 'b'}, {300, "log", 'c'}};
    struct child children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = child_start(wait_and_note, &waiters[i]);
        await_ticket((uint64_t)i + 1);
    }
    for (int i = 0; i < 3; i++)
        ASSERT_INT(child_wait(&children[i]), 0);
    assert_log("log", "CBA");
    ASSERT_OK(tsk_lock_release(lock, &err));
    tsk_workspace_close(ws);
}

TEST(a_wait_that_times_out_says_who_holds_the_lock)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock, *second;
    ASSERT_OK(acquire(ws, 0, &lock, &err));
    int64_t began = clock_now().boot_ms;
    ASSERT_CODE(acquire(ws, 50, &second, &err), TSK_LOCK_HELD);
    ASSERT(clock_now().boot_ms - began >= 50);
    ASSERT(tsk_error_context(&err, "holder"));
    ASSERT_OK(tsk_lock_release(lock, &err));
    tsk_workspace_close(ws);
}

struct interrupted_call {
    struct tsk_workspace *ws;
    struct tsk_error *err;
};

static int acquire_for_ever(void *arg)
{
    const struct interrupted_call *call = arg;
    struct tsk_lock *lock;
    return acquire(call->ws, TSK_WAIT_FOREVER, &lock, call->err);
}

TEST(a_signal_handler_ends_a_waiting_call_with_conflict)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    ASSERT_OK(acquire(ws, 0, &lock, &err));
    ASSERT_CODE(wait_pestered(acquire_for_ever, &(struct interrupted_call){ws, &err}), TSK_CONFLICT);
    ASSERT_INT(err.sys_errno, EINTR);
    ASSERT_OK(tsk_lock_release(lock, &err));
    ASSERT_OK(acquire(ws, 0, &lock, &err)); /* no ticket is left behind */
    ASSERT_OK(tsk_lock_release(lock, &err));
    tsk_workspace_close(ws);
}

/* Holds another tool's lock: a plain file with its pid. */
static void hold_as_another_tool(const struct child *me, void *arg)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    char created[TIME_TEXT_MAX], expires[TIME_TEXT_MAX];
    struct now now = clock_now();
    time_format_utc(now.wall_ms, created);
    time_format_utc(now.wall_ms + *(int64_t *)arg, expires);
    buf_printf(&b, "{\"pid\": %d, \"created_at\": \"%s\", \"expires_at\": \"%s\"}", (int)getpid(), created, expires);
    scene_write(".aiflow/locks/name.x.lock.json", buf_str(&b));
    child_say(me, 'r');
    child_hear(me);
    unlink(".aiflow/locks/name.x.lock.json");
    child_say(me, 'd');
    child_hear(me);
}

TEST(another_tools_release_wakes_those_who_wait)
{
    struct tsk_workspace *ws = scene_open();
    int64_t ttl = 3600000;
    struct child tool = child_start(hold_as_another_tool, &ttl);
    ASSERT_INT(child_hear(&tool), 'r');
    struct child waiter = child_start(wait_and_note, &(struct waiter){TSK_WAIT_FOREVER, "log", 'a'});
    int64_t deadline = clock_now().boot_ms + SCENE_DEADLINE_MS;
    while (!scene_exists(GUARD_PATH) && clock_now().boot_ms < deadline)
        usleep(500);
    await_ticket(1);
    child_say(&tool, 'x');
    ASSERT_INT(child_hear(&tool), 'd');
    ASSERT_INT(child_wait(&waiter), 0);
    assert_log("log", "a");
    child_kill(&tool);
    tsk_workspace_close(ws);
}

TEST(another_tools_death_lets_those_who_wait_in_when_its_lock_has_expired)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    int64_t ttl = -1000;
    struct child tool = child_start(hold_as_another_tool, &ttl);
    ASSERT_INT(child_hear(&tool), 'r');
    ASSERT_CODE(acquire(ws, 0, &lock, &err), TSK_LOCK_HELD);
    child_kill(&tool);
    ASSERT_OK(acquire(ws, SCENE_DEADLINE_MS, &lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    tsk_workspace_close(ws);
}
