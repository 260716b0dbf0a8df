/* The public API: what a program that links libtasuki relies on. */
#include "base/fs.h"
#include "harness/test.h"
#include "lock/lock.h"
#include "unit/scene.h"

#include <ftw.h>
#include <pthread.h>
#include <spawn.h>

#define LOCK_PATH  ".aiflow/locks/name.x.lock.json"
#define GUARD_PATH ".aiflow/locks/.guard/name.x"

extern char **environ;

static int acquire(struct tsk_workspace *ws, int64_t wait_ms, struct tsk_lock **ret, struct tsk_error *err)
{
    struct tsk_lock_options options = {.size = sizeof options, .wait_ms = wait_ms};
    return tsk_lock_acquire(ws, TSK_LOCK_NAME, "x", &options, ret, err);
}

static struct tsk_lock *take(struct tsk_workspace *ws)
{
    struct tsk_error err;
    struct tsk_lock *lock = NULL;
    ASSERT_OK(acquire(ws, 0, &lock, &err));
    return lock;
}

static struct tsk_workspace *open_again(void)
{
    struct tsk_error err;
    struct tsk_workspace *ws;
    ASSERT_OK(tsk_workspace_open(".", &ws, &err));
    return ws;
}

TEST(a_lock_is_taken_verified_renewed_and_released)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    ASSERT(scene_exists(LOCK_PATH));
    ASSERT_OK(tsk_lock_verify(lock, &err));
    ASSERT_OK(tsk_lock_renew(lock, &err));
    ASSERT_OK(tsk_lock_renew(lock, &err));
    ASSERT_OK(tsk_lock_verify(lock, &err));
    ASSERT_INT(strlen(tsk_lock_token(lock)), 32);
    ASSERT_OK(tsk_lock_release(lock, &err));
    ASSERT(!scene_exists(LOCK_PATH));
    tsk_workspace_close(ws);
}

TEST(two_handles_of_one_process_exclude_each_other)
{
    struct tsk_workspace *ws = scene_open(), *other = open_again();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws), *second = (struct tsk_lock *)&err;
    ASSERT_CODE(acquire(ws, 0, &second, &err), TSK_LOCK_HELD);
    ASSERT_CODE(acquire(other, 0, &second, &err), TSK_LOCK_HELD);
    ASSERT(second == (struct tsk_lock *)&err); /* untouched */
    ASSERT_OK(tsk_lock_verify(lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    second = take(other);
    ASSERT_CODE(acquire(ws, 0, &lock, &err), TSK_LOCK_HELD);
    ASSERT_OK(tsk_lock_release(second, &err));
    tsk_workspace_close(other);
    tsk_workspace_close(ws);
}

TEST(fences_grow_and_tokens_differ_from_one_acquisition_to_the_next)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    uint64_t last = 0;
    char token[TOKEN_SIZE] = "";
    for (int i = 0; i < 50; i++) {
        struct tsk_lock *lock = take(ws);
        ASSERT(tsk_lock_fence(lock) > last);
        ASSERT(strcmp(token, tsk_lock_token(lock)) != 0);
        last = tsk_lock_fence(lock);
        snprintf(token, sizeof token, "%s", tsk_lock_token(lock));
        ASSERT_OK(tsk_lock_release(lock, &err));
    }
    tsk_workspace_close(ws);
}

TEST(a_refusal_says_who_holds_it_and_what_can_be_done)
{
    static const struct {
        enum tsk_lock_kind kind;
        enum tsk_code code;
        const char *id;
    } rows[] = {{TSK_LOCK_REQUEST, TSK_RUN_IN_PROGRESS, "RQ-1"},
                {TSK_LOCK_QUEUE, TSK_QUEUE_IN_PROGRESS, NULL},
                {TSK_LOCK_NAME, TSK_LOCK_HELD, "x"},
                {TSK_LOCK_SPRINT, TSK_SPRINT_BLOCKED, NULL}};
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock_options options = {
        .size = sizeof options, .session_id = "s-1", .epic_spec = "e", .run_id = "RUN-1"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tsk_lock *lock, *second;
        ASSERT_OK(tsk_lock_acquire(ws, rows[i].kind, rows[i].id, &options, &lock, &err));
        ASSERT_CODE(tsk_lock_acquire(ws, rows[i].kind, rows[i].id, &options, &second, &err), rows[i].code);
        ASSERT(tsk_error_context(&err, "holder") && strstr(tsk_error_context(&err, "holder"), "s-1"));
        ASSERT(tsk_error_next(&err, 0));
        ASSERT_OK(tsk_lock_release(lock, &err));
    }
    tsk_workspace_close(ws);
}

TEST(bad_input_is_refused_before_anything_is_written)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    static const char *const ids[] = {NULL, "", "..", "a/b", "-x", "a b"}, *const names[] = {NULL, "", "a\nb", "\xff"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        ASSERT_CODE(tsk_lock_acquire(ws, TSK_LOCK_REQUEST, ids[i], NULL, &lock, &err), TSK_INVALID_INPUT);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ASSERT_CODE(tsk_lock_acquire(ws, TSK_LOCK_NAME, names[i], NULL, &lock, &err), TSK_INVALID_INPUT);
    ASSERT_CODE(tsk_lock_acquire(ws, TSK_LOCK_QUEUE, "x", NULL, &lock, &err), TSK_INVALID_INPUT);
    ASSERT_CODE(tsk_lock_acquire(ws, TSK_LOCK_SPRINT, NULL, NULL, &lock, &err), TSK_INVALID_INPUT);
    ASSERT_CODE(tsk_lock_acquire(ws, (enum tsk_lock_kind)77, "x", NULL, &lock, &err), TSK_INVALID_INPUT);
    tsk_workspace_close(ws);
}

/* Bytes of a text that become six characters each in the file. */
TEST(texts_of_full_length_that_need_escaping_do_not_end_the_process)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    char text[257], run[129];
    memset(text, 1, sizeof text - 1);
    memset(run, 1, sizeof run - 1);
    text[256] = run[128] = '\0';
    struct tsk_lock_options options = {.size = sizeof options, .session_id = text, .epic_spec = text, .run_id = run};
    if (tsk_lock_acquire(ws, TSK_LOCK_SPRINT, NULL, &options, &lock, &err) == 0)
        ASSERT_OK(tsk_lock_release(lock, &err));
    else
        ASSERT_INT(err.code, TSK_INVALID_INPUT);
    tsk_workspace_close(ws);
}

TEST(a_ttl_of_any_length_is_no_overflow)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    struct tsk_lock_options options = {.size = sizeof options, .ttl_ms = INT64_MAX};
    if (tsk_lock_acquire(ws, TSK_LOCK_NAME, "x", &options, &lock, &err) == 0)
        ASSERT_OK(tsk_lock_release(lock, &err));
    else
        ASSERT_INT(err.code, TSK_INVALID_INPUT);
    tsk_workspace_close(ws);
}

enum { THREADS = 8, CYCLES = 200 };

static struct {
    struct tsk_workspace *ws;
    long count; /* plain on purpose: only the lock protects it */
    int inside;
} shared;

static void *count_up(void *arg)
{
    struct tsk_error err;
    (void)arg;
    for (int i = 0; i < CYCLES; i++) {
        struct tsk_lock *lock;
        ASSERT_OK(acquire(shared.ws, TSK_WAIT_FOREVER, &lock, &err));
        ASSERT_INT(__atomic_add_fetch(&shared.inside, 1, __ATOMIC_SEQ_CST), 1);
        shared.count++;
        ASSERT_INT(__atomic_sub_fetch(&shared.inside, 1, __ATOMIC_SEQ_CST), 0);
        ASSERT_OK(tsk_lock_release(lock, &err));
    }
    return NULL;
}

TEST(threads_that_wait_for_ever_exclude_each_other)
{
    pthread_t threads[THREADS];
    shared.ws = scene_open();
    for (int i = 0; i < THREADS; i++)
        ASSERT_INT(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ASSERT_INT(pthread_join(threads[i], NULL), 0);
    ASSERT_INT(shared.count, (long)THREADS * CYCLES);
    tsk_workspace_close(shared.ws);
}

static void use_parents_lock(const struct child *me, void *arg)
{
    struct tsk_error err;
    struct tsk_lock *lock = arg;
    (void)me;
    ASSERT_CODE(tsk_lock_verify(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_renew(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_release(lock, &err), TSK_LOCK_LOST);
}

TEST(the_child_of_a_fork_holds_nothing_and_can_take_nothing_away)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    struct child child = child_start(use_parents_lock, lock);
    ASSERT_INT(child_wait(&child), 0);
    ASSERT_OK(tsk_lock_verify(lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    tsk_workspace_close(ws);
}

static void linger(const struct child *me, void *arg)
{
    (void)arg;
    child_hear(me); /* until the test closes the pipe */
}

/* Takes the lock, forks a child that lives on, and waits to be killed. */
static void hold_and_fork(const struct child *me, void *arg)
{
    struct tsk_lock *lock = take(open_again());
    (void)arg, (void)lock;
    pid_t pid = fork();
    if (pid == 0) {
        linger(me, NULL);
        _exit(0);
    }
    child_say(me, 'r');
    for (;;)
        pause();
}

static void reap_all(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
}

TEST(the_death_of_a_holder_frees_the_lock_although_its_forked_child_lives)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    struct child holder = child_start(hold_and_fork, NULL);
    ASSERT_INT(child_hear(&holder), 'r');
    ASSERT_CODE(acquire(ws, 0, &lock, &err), TSK_LOCK_HELD);
    kill(holder.pid, SIGKILL);
    ASSERT_OK(acquire(ws, SCENE_DEADLINE_MS, &lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    child_wait(&holder);
    reap_all();
    tsk_workspace_close(ws);
}

static void *wait_for_lock(void *arg)
{
    struct tsk_error err;
    ASSERT_OK(acquire(arg, TSK_WAIT_FOREVER, &(struct tsk_lock *){NULL}, &err));
    return NULL;
}

static bool somebody_waits(void)
{
    int fd CLEANUP_FD = open(GUARD_PATH, O_RDWR | O_CLOEXEC);
    return fs_lock_probe(fd, F_RDLCK, GUARD_TICKET_BASE, 0, NULL) == 1;
}

static void await_waiter(void)
{
    int64_t deadline = clock_now().boot_ms + SCENE_DEADLINE_MS;
    while (!somebody_waits() && clock_now().boot_ms < deadline)
        usleep(1000);
    ASSERT(somebody_waits());
}

/* One thread waits for the lock while another forks; then it gets the lock. */
static void fork_while_waiting(const struct child *me, void *arg)
{
    struct tsk_workspace *ws = open_again();
    pthread_t thread;
    (void)arg;
    pthread_create(&thread, NULL, wait_for_lock, ws);
    await_waiter();
    pid_t pid = fork();
    if (pid == 0) {
        linger(me, NULL);
        _exit(0);
    }
    child_say(me, 'r');
    pthread_join(thread, NULL);
    child_say(me, 'h');
    for (;;)
        pause();
}

TEST(a_fork_while_another_thread_waits_does_not_give_the_child_its_lock)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    struct child holder = child_start(fork_while_waiting, NULL);
    ASSERT_INT(child_hear(&holder), 'r');
    ASSERT_OK(tsk_lock_release(lock, &err));
    ASSERT_INT(child_hear(&holder), 'h');
    ASSERT_CODE(acquire(ws, 0, &lock, &err), TSK_LOCK_HELD);
    kill(holder.pid, SIGKILL);
    int result = acquire(ws, 3000, &lock, &err);
    if (result == 0)
        ASSERT_OK(tsk_lock_release(lock, &err));
    child_wait(&holder);
    reap_all();
    if (result < 0)
        scene_fail(__FILE__, __LINE__, "the holder is dead, its forked child holds on", &err);
    tsk_workspace_close(ws);
}

/* Takes the lock, hands its descriptor to a program that reads its standard input, and waits to be killed. */
static void hand_over(const struct child *me, void *arg)
{
    struct tsk_lock *lock = take(open_again());
    int fd = tsk_lock_fd(lock);
    char *argv[] = {"cat", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, me->hear, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, 100);
    if (posix_spawnp(&pid, "cat", &actions, NULL, argv, environ) != 0)
        _exit(1);
    child_say(me, 'r');
    if (arg) {
        struct tsk_error err;
        ASSERT_OK(tsk_lock_release(lock, &err));
        child_say(me, 'd');
    }
    for (;;)
        pause();
}

TEST(a_child_that_was_handed_the_descriptor_keeps_the_lock_after_the_holders_death)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock;
    struct child holder = child_start(hand_over, NULL);
    ASSERT_INT(child_hear(&holder), 'r');
    kill(holder.pid, SIGKILL);
    ASSERT_INT(waitpid(holder.pid, NULL, 0), holder.pid);
    ASSERT_CODE(acquire(ws, 0, &lock, &err), TSK_LOCK_HELD);
    close(holder.say); /* the program ends */
    ASSERT_OK(acquire(ws, SCENE_DEADLINE_MS, &lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    close(holder.hear);
    reap_all();
    tsk_workspace_close(ws);
}

TEST(a_release_is_a_release_even_if_a_child_still_has_the_descriptor)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct child holder = child_start(hand_over, ws);
    ASSERT_INT(child_hear(&holder), 'r');
    ASSERT_INT(child_hear(&holder), 'd');
    struct tsk_lock *lock = take(ws);
    ASSERT_OK(tsk_lock_release(lock, &err));
    child_kill(&holder);
    reap_all();
    tsk_workspace_close(ws);
}

TEST(a_lock_whose_file_was_removed_by_hand_is_lost_and_nothing_is_touched)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    ASSERT_INT(unlink(LOCK_PATH), 0);
    ASSERT_CODE(tsk_lock_verify(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_renew(lock, &err), TSK_LOCK_LOST);
    ASSERT(!scene_exists(LOCK_PATH));
    scene_write(LOCK_PATH, "{\"pid\": 1}");
    ASSERT_CODE(tsk_lock_verify(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_release(lock, &err), TSK_LOCK_LOST);
    ASSERT(scene_exists(LOCK_PATH));
    tsk_workspace_close(ws);
}

TEST(a_lock_whose_file_was_rewritten_in_place_is_lost)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    scene_write(LOCK_PATH, "{\"pid\": 1, \"fence\": 3}");
    ASSERT_CODE(tsk_lock_verify(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_release(lock, &err), TSK_LOCK_LOST);
    tsk_workspace_close(ws);
}

TEST(a_lock_that_was_forced_away_is_lost_and_its_successor_is_not_touched)
{
    struct tsk_workspace *ws = scene_open(), *other = open_again();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws), *forced;
    struct tsk_lock_options options = {.size = sizeof options, .force = true};
    ASSERT_OK(tsk_lock_acquire(other, TSK_LOCK_NAME, "x", &options, &forced, &err));
    ASSERT(tsk_lock_fence(forced) > tsk_lock_fence(lock));
    ASSERT_CODE(tsk_lock_verify(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_renew(lock, &err), TSK_LOCK_LOST);
    ASSERT_CODE(tsk_lock_release(lock, &err), TSK_LOCK_LOST);
    ASSERT_OK(tsk_lock_verify(forced, &err));
    ASSERT_OK(tsk_lock_release(forced, &err));
    tsk_workspace_close(other);
    tsk_workspace_close(ws);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Both of them may fail; both must not succeed. */
static void assert_not_both(struct tsk_workspace *ws)
{
    struct tsk_workspace *other = open_again();
    struct tsk_error err;
    struct tsk_lock *a = NULL, *b = NULL;
    int first = acquire(ws, 0, &a, &err), second = acquire(other, 0, &b, &err);
    bool both = first == 0 && second == 0 && tsk_lock_verify(a, &err) == 0 && tsk_lock_verify(b, &err) == 0;
    if (first == 0)
        tsk_lock_release(a, &err);
    if (second == 0)
        tsk_lock_release(b, &err);
    tsk_workspace_close(other);
    ASSERT(!both);
    ASSERT(first == 0 || second == 0);
}

TEST(a_guard_directory_that_was_removed_while_descriptors_were_warm_lets_no_two_in)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    ASSERT_OK(tsk_lock_release(take(ws), &err));
    ASSERT_INT(nftw(".aiflow/locks/.guard", remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    assert_not_both(ws);
    assert_not_both(ws);
    tsk_workspace_close(ws);
}

TEST(a_guard_file_that_was_removed_while_descriptors_were_warm_lets_no_two_in)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    ASSERT_OK(tsk_lock_release(take(ws), &err));
    ASSERT_INT(unlink(GUARD_PATH), 0);
    assert_not_both(ws);
    tsk_workspace_close(ws);
}

TEST(a_guard_directory_that_was_moved_away_while_descriptors_were_warm_lets_no_two_in)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    ASSERT_OK(tsk_lock_release(take(ws), &err));
    ASSERT_INT(rename(".aiflow/locks/.guard", "elsewhere"), 0);
    assert_not_both(ws);
    tsk_workspace_close(ws);
}

TEST(a_warm_descriptor_is_not_used_for_another_workspace_or_another_lock)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *x, *y;
    ASSERT_OK(tsk_lock_release(take(ws), &err));
    ASSERT_OK(tsk_lock_acquire(ws, TSK_LOCK_NAME, "y", NULL, &y, &err));
    x = take(ws);
    ASSERT_OK(tsk_lock_verify(x, &err));
    ASSERT_OK(tsk_lock_verify(y, &err));
    ASSERT_OK(tsk_lock_release(y, &err));
    tsk_lock_release(x, &err);
    tsk_workspace_close(ws);
}

TEST(a_renewal_by_another_process_keeps_the_lock_ours)
{
    struct tsk_workspace *ws = scene_open(), *other = open_again();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    struct lock_target target;
    struct lock_outcome outcome;
    struct lock_proof proof = {.token = tsk_lock_token(lock)};
    ASSERT_OK(lock_target_init(&target, other, lock_kind_get(TSK_LOCK_NAME), "x", NULL, &err));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lock_renew_by(&target, &proof, 3600000, &outcome, &err));
        ASSERT_OK(tsk_lock_verify(lock, &err));
    }
    ASSERT_OK(lock_renew_by(&target, &proof, 3600000, &outcome, &err));
    ASSERT_OK(tsk_lock_renew(lock, &err));
    ASSERT_OK(lock_renew_by(&target, &proof, 3600000, &outcome, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    ASSERT(!scene_exists(LOCK_PATH));
    ASSERT_OK(tsk_lock_release(take(ws), &err)); /* what was adopted does not spoil the next acquisition */
    lock_target_clear(&target);
    tsk_workspace_close(other);
    tsk_workspace_close(ws);
}

TEST(without_a_proof_a_lock_is_neither_renewed_nor_released)
{
    static const struct lock_proof proofs[] = {
        {0}, {.token = ""}, {.token = "0123"}, {.instance = "other"}, {.session_id = "s"}};
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock = take(ws);
    struct lock_target target;
    struct lock_outcome outcome;
    ASSERT_OK(lock_target_init(&target, ws, lock_kind_get(TSK_LOCK_NAME), "x", NULL, &err));
    for (size_t i = 0; i < sizeof proofs / sizeof proofs[0]; i++) {
        ASSERT_CODE(lock_release_by(&target, &proofs[i], &outcome, &err), TSK_LOCK_LOST);
        ASSERT_CODE(lock_renew_by(&target, &proofs[i], 0, &outcome, &err), TSK_LOCK_LOST);
    }
    ASSERT_OK(tsk_lock_verify(lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    ASSERT_OK(lock_release_by(&target, &proofs[0], &outcome, &err)); /* releasing a free lock succeeds */
    ASSERT(!outcome.existed);
    ASSERT_CODE(lock_renew_by(&target, &proofs[0], 0, &outcome, &err), TSK_LOCK_NOT_FOUND);
    lock_target_clear(&target);
    tsk_workspace_close(ws);
}

TEST(a_live_lock_past_half_of_its_ttl_is_renewed_by_whoever_meets_it)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock, *second;
    struct judgement found;
    struct lock_target target;
    struct tsk_lock_options options = {.size = sizeof options, .ttl_ms = 1};
    ASSERT_OK(tsk_lock_acquire(ws, TSK_LOCK_NAME, "x", &options, &lock, &err));
    ASSERT_OK(lock_target_init(&target, ws, lock_kind_get(TSK_LOCK_NAME), "x", NULL, &err));
    int64_t until = clock_now().boot_ms + 5;
    while (clock_now().boot_ms < until)
        usleep(1000);
    ASSERT_OK(lock_inspect(&target, &found, &err));
    ASSERT_INT(found.verdict, VERDICT_HELD);
    ASSERT(found.record.expires_boot_ms >= until);
    ASSERT_CODE(acquire(ws, 0, &second, &err), TSK_LOCK_HELD);
    ASSERT_OK(tsk_lock_verify(lock, &err));
    ASSERT_OK(tsk_lock_release(lock, &err));
    lock_target_clear(&target);
    tsk_workspace_close(ws);
}

static int unlink_too_late(int dir, const char *name, int flags)
{
    return fs_system_calls.unlinkat(dir, name, flags) < 0 ? -1 : fs_system_calls.unlinkat(dir, name, flags);
}

TEST(a_tool_that_deletes_the_file_during_the_release_took_the_lock_away)
{
    static struct fs_calls calls;
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct lock_target target;
    struct lock_outcome outcome;
    struct tsk_lock *lock = take(ws);
    calls = fs_system_calls;
    calls.unlinkat = unlink_too_late;
    fs = &calls;
    ASSERT_CODE(tsk_lock_release(lock, &err), TSK_LOCK_LOST);
    fs = &fs_system_calls;
    lock = take(ws);
    struct lock_proof proof = {.token = tsk_lock_token(lock)};
    ASSERT_OK(lock_target_init(&target, ws, lock_kind_get(TSK_LOCK_NAME), "x", NULL, &err));
    fs = &calls;
    ASSERT_OK(lock_release_by(&target, &proof, &outcome, &err));
    ASSERT(!outcome.existed);
    fs = &fs_system_calls;
    ASSERT_CODE(tsk_lock_release(lock, &err), TSK_LOCK_LOST);
    lock_target_clear(&target);
    tsk_workspace_close(ws);
}

static void hold_until_killed(const struct child *me, void *arg)
{
    (void)arg;
    take(open_again());
    child_say(me, 'r');
    child_hear(me);
    _exit(9); /* without releasing */
}

TEST(a_dead_holders_lock_is_taken_over_at_once_and_by_exactly_one)
{
    struct tsk_workspace *ws = scene_open();
    struct tsk_error err;
    struct tsk_lock *lock, *second;
    struct child holder = child_start(hold_until_killed, NULL);
    ASSERT_INT(child_hear(&holder), 'r');
    ASSERT_CODE(acquire(ws, 0, &lock, &err), TSK_LOCK_HELD);
    child_kill(&holder);
    ASSERT(scene_exists(LOCK_PATH));
    lock = take(ws);
    ASSERT_CODE(acquire(ws, 0, &second, &err), TSK_LOCK_HELD);
    ASSERT_OK(tsk_lock_release(lock, &err));
    tsk_workspace_close(ws);
}
