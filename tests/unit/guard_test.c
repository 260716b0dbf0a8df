#include "base/fs.h"
#include "base/ident.h"
#include "harness/test.h"
#include "lock/guard.h"
#include "lock/line.h"
#include "unit/scene.h"

#include <sys/time.h>

#define NAME "guard"

static struct guard open_guard(void)
{
    struct guard guard;
    struct tsk_error err;
    ASSERT_OK(guard_open(&guard, AT_FDCWD, NAME, &err));
    return guard;
}

static uint64_t next_fence(struct guard *guard, uint64_t at_least)
{
    struct tsk_error err;
    struct now now = clock_now();
    uint64_t fence = 0;
    ASSERT_OK(guard_lock(guard, &err));
    ASSERT_OK(guard_next_fence(guard, &now, at_least, false, &fence, &err));
    guard_unlock(guard);
    return fence;
}

/* One fence by a guard that is opened and closed for it. */
static uint64_t fence_of_new_guard(uint64_t at_least)
{
    struct guard guard = open_guard();
    uint64_t fence = next_fence(&guard, at_least);
    guard_close(&guard);
    return fence;
}

static struct guard_state read_state(void)
{
    struct guard_state state;
    int fd CLEANUP_FD = open(NAME, O_RDONLY | O_CLOEXEC);
    memset(&state, 0, sizeof state);
    ASSERT(pread(fd, &state, sizeof state, 0) > 0);
    return state;
}

static void write_state(const void *data, size_t len)
{
    int fd CLEANUP_FD = open(NAME, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_INT(write(fd, data, len), (ssize_t)len);
}

TEST(fences_grow_and_survive_closing)
{
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        struct guard guard = open_guard();
        for (int j = 0; j < 5; j++) {
            uint64_t fence = next_fence(&guard, last);
            ASSERT(fence > last);
            last = fence;
        }
        guard_close(&guard);
    }
    ASSERT_INT(last, (1LL << 40) + 100);
}

TEST(the_first_fence_after_a_reboot_is_in_the_next_boot_number)
{
    uint64_t before = fence_of_new_guard(0);
    struct guard_state state = read_state();
    state.boot_id[3] ^= 0x55;
    write_state(&state, sizeof state);
    uint64_t after = fence_of_new_guard(before);
    ASSERT_INT(before >> 40, 1);
    ASSERT_INT(after, (2LL << 40) + 1);
    ASSERT_INT(fence_of_new_guard(after), (2LL << 40) + 2);
}

TEST(a_damaged_guard_recovers_and_never_gives_a_fence_up_to_the_lock_files)
{
    static const char garbage[64] = "this is no guard file, not one of ours, and it is quite long....";
    struct guard_state state;
    uint64_t last = (5ULL << 40) + 17;
    fence_of_new_guard(0);
    state = read_state();
    for (int damage = 0; damage < 5; damage++) {
        if (damage == 0)
            write_state("", 0);
        else if (damage == 1)
            write_state(&state, sizeof state / 2);
        else if (damage == 2)
            write_state(garbage, sizeof garbage);
        else if (damage == 3)
            ASSERT_INT(unlink(NAME), 0);
        else
            write_state(memset(&state, 0, sizeof state), sizeof state);
        uint64_t fence = fence_of_new_guard(last);
        ASSERT(fence > last);
        last = fence;
    }
}

/* What else is written to a guard before the next fence must not make it forget what the lock file says. */
TEST(a_note_in_a_damaged_guard_does_not_lower_the_next_fence)
{
    const uint64_t last = (5ULL << 40) + 17;
    struct guard guard = open_guard();
    struct tsk_error err;
    struct now now = clock_now();
    ASSERT_OK(guard_lock(&guard, &err));
    ASSERT_OK(guard_note_private(&guard, &now, 0, &err));
    guard_unlock(&guard);
    uint64_t fence = next_fence(&guard, last);
    guard_close(&guard);
    if (fence <= last)
        test_fail(__FILE__, __LINE__, "fence %llx was given although the lock file has %llx", (unsigned long long)fence,
                  (unsigned long long)last);
}

TEST(an_older_guard_that_was_put_back_gives_no_fence_up_to_the_lock_files)
{
    fence_of_new_guard(0);
    struct guard_state old = read_state();
    uint64_t last = 0;
    for (int i = 0; i < 10; i++)
        last = fence_of_new_guard(last);
    write_state(&old, sizeof old);
    ASSERT(fence_of_new_guard(last) > last);
}

TEST(a_fence_beyond_all_bounds_in_the_lock_file_does_not_break_the_guard_for_ever)
{
    struct guard guard = open_guard();
    struct tsk_error err;
    uint64_t fence = next_fence(&guard, INT64_MAX);
    ASSERT_OK(guard_life_take(&guard, fence, &err));
    ASSERT(GUARD_LIFE_BASE + fence < (uint64_t)GUARD_TICKET_BASE);
    guard_close(&guard);
}

TEST(byte_0_excludes_other_descriptors_and_is_dropped_by_unlock_and_by_close)
{
    struct guard a = open_guard(), b = open_guard();
    struct tsk_error err;
    ASSERT_OK(guard_lock(&a, &err));
    ASSERT_INT(fs_lock_try(b.fd, F_WRLCK, 0, 1), -1);
    guard_unlock(&a);
    ASSERT_OK(guard_lock(&b, &err));
    ASSERT_INT(fs_lock_probe(a.fd, F_WRLCK, 0, 1, NULL), 1);
    guard_close(&b);
    ASSERT_OK(guard_lock(&a, &err));
    guard_close(&a);
}

static bool is_blocked(int number)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, number) == 1;
}

TEST(the_terminals_signals_wait_while_the_guard_is_held_and_the_mask_comes_back)
{
    struct guard guard = open_guard();
    struct tsk_error err;
    sigset_t usr;
    sigemptyset(&usr);
    sigaddset(&usr, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr, NULL);
    ASSERT_OK(guard_lock(&guard, &err));
    ASSERT(is_blocked(SIGINT) && is_blocked(SIGTERM) && is_blocked(SIGTSTP) && is_blocked(SIGUSR1));
    guard_unlock(&guard);
    ASSERT(!is_blocked(SIGINT) && !is_blocked(SIGTERM) && !is_blocked(SIGTSTP) && is_blocked(SIGUSR1));
    ASSERT_OK(guard_lock(&guard, &err));
    guard_close(&guard);
    ASSERT(!is_blocked(SIGINT));
}

TEST(a_life_byte_is_seen_by_others_until_it_is_dropped)
{
    struct guard a = open_guard(), b = open_guard();
    struct tsk_error err;
    uint64_t fence = next_fence(&a, 0);
    ASSERT_INT(guard_life_probe(&b, fence), 0);
    ASSERT_OK(guard_life_take(&a, fence, &err));
    ASSERT_INT(guard_life_probe(&b, fence), 1);
    ASSERT_INT(guard_life_probe(&b, fence + 1), 0);
    ASSERT_INT(guard_life_probe(&b, fence - 1), 0);
    ASSERT_INT(guard_life_take(&b, fence, &err), -1);
    guard_life_drop(&a, fence);
    ASSERT_INT(guard_life_probe(&b, fence), 0);
    ASSERT_OK(guard_life_take(&b, fence, &err));
    guard_close(&b);
    ASSERT_INT(guard_life_probe(&a, fence), 0);
    guard_close(&a);
}

TEST(a_waiting_readers_lock_on_a_life_byte_is_no_holder)
{
    struct guard a = open_guard(), b = open_guard();
    ASSERT_INT(fs_lock_try(a.fd, F_RDLCK, GUARD_LIFE_BASE + 5, 1), 0);
    ASSERT_INT(guard_life_probe(&b, 5), 0);
    guard_close(&a);
    guard_close(&b);
}

static uint64_t take_ticket(struct guard *guard)
{
    struct tsk_error err;
    uint64_t ticket = 0;
    ASSERT_OK(line_enter(guard, "", &ticket, &err));
    return ticket;
}

TEST(tickets_grow_are_locked_and_do_not_touch_the_fence)
{
    struct guard a = open_guard(), b = open_guard();
    uint64_t fence = next_fence(&a, 0), first = take_ticket(&a), second = take_ticket(&b);
    ASSERT(second > first);
    ASSERT_INT(fs_lock_probe(a.fd, F_RDLCK, GUARD_TICKET_BASE + (off_t)second, 1, NULL), 1);
    ASSERT_INT(fs_lock_probe(b.fd, F_RDLCK, GUARD_TICKET_BASE + (off_t)first, 1, NULL), 1);
    guard_close(&b);
    ASSERT_INT(fs_lock_probe(a.fd, F_RDLCK, GUARD_TICKET_BASE + (off_t)second, 1, NULL), 0);
    b = open_guard();
    ASSERT(take_ticket(&b) > second);
    ASSERT_INT(next_fence(&a, fence), fence + 1);
    guard_close(&a);
    guard_close(&b);
}

TEST(tickets_that_are_still_held_are_not_given_again_when_their_counter_was_lost)
{
    struct guard a = open_guard(), b = open_guard();
    uint64_t first = take_ticket(&a);
    ASSERT_INT(ftruncate(a.fd, 0), 0);
    ASSERT(take_ticket(&b) != first);
    guard_close(&a);
    guard_close(&b);
}

TEST(a_nonsense_ticket_counter_does_not_keep_waiters_out)
{
    static const uint64_t counters[] = {UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1, 1ULL << 62, (1ULL << 62) - 1};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        fence_of_new_guard(0);
        struct guard_state state = read_state();
        state.tickets = counters[i];
        write_state(&state, sizeof state);
        struct guard guard = open_guard();
        take_ticket(&guard);
        guard_close(&guard);
    }
}

TEST(the_note_of_a_private_name_stays_until_the_next_fence_says_otherwise)
{
    struct guard guard = open_guard();
    struct tsk_error err;
    struct now now = clock_now();
    ASSERT_OK(guard_lock(&guard, &err));
    ASSERT_OK(guard_note_private(&guard, &now, 0, &err));
    guard_unlock(&guard);
    ASSERT_INT(read_state().has_private, 1);
    next_fence(&guard, 0);
    ASSERT_INT(read_state().has_private, 0);
    guard_close(&guard);
}

TEST(a_step_of_the_wall_clock_is_seen_and_slow_drift_is_not)
{
    static const struct {
        int64_t step_ms;
        bool is_step;
    } rows[] = {{0, false}, {2000, false}, {-2000, false}, {2001, true}, {-2001, true}, {86400000, true}};
    struct guard guard = open_guard();
    struct tsk_error err;
    struct now now = {.wall_ms = 1000000, .boot_ms = 5000};
    ASSERT_OK(guard_lock(&guard, &err));
    ASSERT(!guard_clock_was_stepped(&guard, &now));
    ASSERT_OK(guard_meet_boot(&guard, &now, 0, &err));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct now later = {.wall_ms = 1000000 + 60000 + rows[i].step_ms, .boot_ms = 5000 + 60000};
        ASSERT_INT(guard_clock_was_stepped(&guard, &later), rows[i].is_step);
    }
    guard_close(&guard);
}

static void hold_life(const struct child *me, void *arg)
{
    struct guard guard = open_guard();
    struct tsk_error err;
    ASSERT_OK(guard_life_take(&guard, *(uint64_t *)arg, &err));
    child_say(me, 'r');
    child_hear(me);
}

TEST(the_process_that_holds_a_byte_is_found)
{
    uint64_t fence = 7;
    struct child child = child_start(hold_life, &fence);
    struct guard guard = open_guard();
    pid_t pids[4] = {0};
    ASSERT_INT(child_hear(&child), 'r');
    ASSERT_INT(guard_byte_holders(&guard, GUARD_LIFE_BASE + 7, pids, 4), 1);
    ASSERT_INT(pids[0], child.pid);
    ASSERT_INT(guard_byte_holders(&guard, GUARD_LIFE_BASE + 8, pids, 4), 0);
    ASSERT_INT(guard_byte_holders(&guard, 0, pids, 4), 0);
    child_kill(&child);
    ASSERT_INT(guard_byte_holders(&guard, GUARD_LIFE_BASE + 7, pids, 4), 0);
    ASSERT_INT(guard_life_probe(&guard, 7), 0);
    guard_close(&guard);
}

static void inherit(const struct child *me, void *arg)
{
    (void)arg;
    child_say(me, 'r');
    child_hear(me);
}

TEST(closing_a_guard_drops_its_bytes_even_if_a_child_has_inherited_it)
{
    struct guard guard = open_guard(), other = open_guard();
    struct tsk_error err;
    pid_t pids[4];
    ASSERT_OK(guard_life_take(&guard, 7, &err));
    int handed = dup(guard.fd); /* what is not handed over on purpose is closed in the child */
    struct child child = child_start(inherit, NULL);
    close(handed);
    ASSERT_INT(child_hear(&child), 'r');
    ASSERT_INT(guard_byte_holders(&other, GUARD_LIFE_BASE + 7, pids, 4), 1); /* this process does not count itself */
    ASSERT_INT(pids[0], child.pid);
    guard_close(&guard);
    ASSERT_INT(guard_life_probe(&other, 7), 0);
    child_kill(&child);
    guard_close(&other);
}

static const struct child *signal_teller;

static void tell(int number)
{
    (void)number;
    child_say(signal_teller, 's');
}

static void sit_on_the_guard(const struct child *me, void *arg)
{
    struct guard guard = open_guard();
    struct tsk_error err;
    (void)arg;
    ASSERT_OK(guard_lock(&guard, &err));
    child_say(me, 'r');
    for (int i = 0; i < 5; i++) /* the first signals may come before the wait */
        child_hear(me);
    guard_close(&guard);
    while (child_hear(me)) /* on a slow machine there are many more before the wait ends */
        ;
}

TEST(a_signal_while_waiting_for_the_guard_is_not_mistaken_for_a_busy_guard)
{
    struct child child = child_start(sit_on_the_guard, NULL);
    struct guard guard = open_guard();
    struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
    struct itimerval soon = {.it_value = {.tv_usec = 20000}, .it_interval = {.tv_usec = 20000}};
    struct itimerval never = {0};
    struct tsk_error err;
    signal_teller = &child;
    ASSERT_INT(sigaction(SIGALRM, &action, NULL), 0);
    ASSERT_INT(child_hear(&child), 'r');
    ASSERT_INT(setitimer(ITIMER_REAL, &soon, NULL), 0);
    int result = guard_lock(&guard, &err);
    ASSERT_INT(setitimer(ITIMER_REAL, &never, NULL), 0);
    if (result < 0 && err.sys_errno != EINTR)
        scene_fail(__FILE__, __LINE__, "guard_lock", &err);
    guard_close(&guard);
    child_kill(&child);
}

TEST(a_guard_is_not_opened_through_a_symbolic_link)
{
    struct guard guard;
    struct tsk_error err;
    scene_write("elsewhere", "");
    ASSERT_INT(symlink("elsewhere", NAME), 0);
    ASSERT_CODE(guard_open(&guard, AT_FDCWD, NAME, &err), TSK_ENVIRONMENT);
    ASSERT_INT(err.sys_errno, ELOOP);
}

static ssize_t write_nothing(int fd, const void *data, size_t len, off_t offset)
{
    (void)fd, (void)data, (void)len, (void)offset;
    return 0;
}

TEST(a_state_that_cannot_be_written_gives_no_fence)
{
    static struct fs_calls calls;
    struct guard guard = open_guard();
    struct tsk_error err;
    struct now now = clock_now();
    uint64_t fence = 42;
    calls = fs_system_calls;
    calls.pwrite = write_nothing;
    ASSERT_OK(guard_lock(&guard, &err));
    fs = &calls;
    ASSERT_CODE(guard_next_fence(&guard, &now, 0, false, &fence, &err), TSK_STORAGE_FULL);
    ASSERT_INT(fence, 42);
    fs = &fs_system_calls;
    guard_close(&guard);
}

static ssize_t write_nothing_once(int fd, const void *data, size_t len, off_t offset)
{
    static bool was_full;
    if (was_full)
        return fs_system_calls.pwrite(fd, data, len, offset);
    was_full = true;
    return 0;
}

TEST(a_boot_that_could_not_be_noted_gives_no_fence_and_is_noted_by_the_next_call)
{
    static struct fs_calls calls;
    struct tsk_error err;
    struct guard guard = open_guard();
    struct now now = clock_now();
    uint64_t fence = 42;
    calls = fs_system_calls;
    calls.pwrite = write_nothing_once;
    ASSERT_OK(guard_lock(&guard, &err));
    fs = &calls;
    ASSERT_CODE(guard_next_fence(&guard, &now, 0, false, &fence, &err), TSK_STORAGE_FULL);
    ASSERT_INT(fence, 42);
    ASSERT_OK(guard_next_fence(&guard, &now, 0, false, &fence, &err));
    ASSERT(fence > 42);
    fs = &fs_system_calls;
    guard_close(&guard);
}

/* A place of that caller, entered and left. */
static uint64_t keep_place(struct guard *guard, const char *key, bool is_kept)
{
    struct tsk_error err;
    uint64_t ticket = 0;
    ASSERT_OK(line_enter(guard, key, &ticket, &err));
    ASSERT_INT(line_keep(guard, key, ticket), is_kept);
    return ticket;
}

TEST(a_place_is_kept_for_its_caller_until_the_table_is_full_and_each_guard_has_its_own)
{
    char key[LINE_KEY_SIZE], name[24];
    struct tsk_error err;
    struct guard one = open_guard(), other;
    ASSERT_OK(guard_open(&other, AT_FDCWD, "other", &err));
    line_key("the caller", key);
    uint64_t first = keep_place(&one, key, true);
    ASSERT_INT(keep_place(&one, key, true), first);
    for (int i = 1; i < 64; i++) {
        snprintf(name, sizeof name, "caller %d", i);
        line_key(name, key);
        ASSERT(keep_place(&one, key, true) > first);
    }
    line_key("one too many", key);
    keep_place(&one, key, false);
    keep_place(&other, key, true); /* a file that is shorter than its table: what another guard had is not in it */
    line_key("the caller", key);
    ASSERT_INT(keep_place(&one, key, true), first);
    keep_place(&one, "", false);
    guard_close(&one);
    guard_close(&other);
}
