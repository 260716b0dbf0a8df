/* What a memo may trust when clocks and files behave as no other test can make them (proc/memo.h, M3). */
#include "base/clock.h"
#include "proc/memo.h"
#include "proc/registry.h"
#include "unit/scene.h"

#include <malloc.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

static int64_t clock_step_ns;   /* how far somebody has set the wall clock */
static int64_t clock_stands_ns; /* the time at which it stands; 0: it goes */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int result = __real_clock_gettime(clock, ret);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        int64_t ns = clock_stands_ns ? clock_stands_ns : ret->tv_sec * SECOND_NS + ret->tv_nsec + clock_step_ns;
        *ret = (struct timespec){.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};
    }
    return result;
}

/* A file system whose times have whole seconds. */
static int fstatat_coarse(int dir, const char *path, struct stat *st, int flags)
{
    int result = fs_system_calls.fstatat(dir, path, st, flags);
    st->st_ctim.tv_nsec = st->st_mtim.tv_nsec = 0;
    return result;
}

/* This process as a process that runs, with the files that a look reads. */
struct memo_scene {
    struct tsk_workspace *ws;
    int dir, holder;
    struct proc p;
};

static void memo_scene_make(struct memo_scene *scene, const char *id, size_t most)
{
    char path[64];
    static const char *const files[] = {"status.json", "want", "history", "holder.lock"};
    if (!scene->ws)
        scene->ws = scene_open();
    ASSERT(scene->ws->memo || memo_begin(scene->ws, most));
    ASSERT_INT(fs_make_dirs(AT_FDCWD, id), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", id, files[i]);
        scene_write(path, files[i]);
    }
    scene->dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scene->holder = open(path, O_RDWR | O_CLOEXEC);
    ASSERT_INT(fs_lock_try(scene->holder, F_WRLCK, 0, 1), 0);
    scene->p =
        (struct proc){.row = BUF_INIT,
                      .spec = json_object(),
                      .dir = open(id, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                      .is_synced = true,
                      .history_offset = (int64_t)strlen("history"),
                      .view = {.state = PROC_RUNNING, .n = 1, .has_holder = true, .has_usage = true, .log = "direct"}};
    snprintf(scene->p.id, sizeof scene->p.id, "%s", id);
    buf_puts(&scene->p.row, "row");
    ASSERT_INT(proc_id_of(getpid(), &scene->p.view.child), 0);
}

/* When the last of its files was changed. */
static int64_t changed_ns(const struct memo_scene *scene)
{
    struct memo_stamps stamps;
    int64_t last = 0;
    memo_stamp(scene->ws->memo, scene->dir, scene->p.id, &stamps);
    for (size_t i = 0; i < 4; i++)
        last = stamps.files[i].changed_ns > last ? stamps.files[i].changed_ns : last;
    return last;
}

static bool may_stamp(const struct memo_scene *scene, int64_t at_ns)
{
    struct memo_stamps stamps;
    clock_stands_ns = at_ns;
    memo_stamp(scene->ws->memo, scene->dir, scene->p.id, &stamps);
    clock_stands_ns = 0;
    return stamps.is_usable;
}

static void keep(const struct memo_scene *scene)
{
    struct memo_stamps stamps;
    json_t *record CLEANUP_JSON = json_pack("{s:{}}", "log");
    memo_stamp(scene->ws->memo, scene->dir, scene->p.id, &stamps);
    memo_keep(scene->ws->memo, &stamps, &scene->p, record);
}

static bool is_recalled(const struct memo_scene *scene)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1, .row = BUF_INIT};
    snprintf(p.id, sizeof p.id, "%s", scene->p.id);
    buf_put(&p.row, scene->p.row.data, scene->p.row.len);
    return memo_recall(scene->ws->memo, scene->dir, &p);
}

static void memo_scene_end(struct memo_scene *scene)
{
    proc_clear(&scene->p);
    fs_close(&scene->dir);
    fs_close(&scene->holder);
}

TEST(a_time_of_change_is_trusted_only_when_the_kernels_clock_is_past_it)
{
    struct memo_scene scene = {.ws = NULL};
    memo_scene_make(&scene, "p", 4);
    clock_step_ns = 10 * SECOND_NS; /* so that all of them are read */
    int64_t last = changed_ns(&scene);
    ASSERT(!may_stamp(&scene, last + SECOND_NS / 100));
    ASSERT(may_stamp(&scene, last + SECOND_NS / 10));
    ASSERT(!may_stamp(&scene, last - SECOND_NS)); /* the clock was set back since */
    memo_scene_end(&scene);
    tsk_workspace_close(scene.ws);
}

TEST(where_times_have_whole_seconds_two_seconds_must_be_past)
{
    struct fs_calls calls = fs_system_calls;
    struct memo_scene scene = {.ws = NULL};
    calls.fstatat = fstatat_coarse;
    memo_scene_make(&scene, "p", 4);
    fs = &calls;
    clock_step_ns = 10 * SECOND_NS;
    int64_t last = changed_ns(&scene);
    ASSERT(!may_stamp(&scene, last + SECOND_NS));
    ASSERT(may_stamp(&scene, last + 3 * SECOND_NS));
    fs = &fs_system_calls;
    memo_scene_end(&scene);
    tsk_workspace_close(scene.ws);
}

TEST(what_is_remembered_is_not_used_after_the_clock_was_set_back)
{
    struct memo_scene scene = {.ws = NULL};
    memo_scene_make(&scene, "p", 4);
    clock_step_ns = SECOND_NS;
    keep(&scene);
    ASSERT(is_recalled(&scene));
    clock_step_ns = SECOND_NS / 2;
    ASSERT(!is_recalled(&scene));
    clock_step_ns = SECOND_NS;
    ASSERT(!is_recalled(&scene)); /* it was dropped, not only passed over */
    memo_scene_end(&scene);
    tsk_workspace_close(scene.ws);
}

TEST(a_row_a_lock_and_an_exit_in_the_history_each_end_what_is_remembered)
{
    struct memo_scene scene = {.ws = NULL};
    memo_scene_make(&scene, "p", 4);
    clock_step_ns = SECOND_NS;
    keep(&scene);
    buf_puts(&scene.p.row, "?");
    ASSERT(!is_recalled(&scene));
    keep(&scene);
    ASSERT(is_recalled(&scene));
    ASSERT_INT(fs_lock_try(scene.holder, F_UNLCK, 0, 1), 0);
    ASSERT(!is_recalled(&scene));
    ASSERT_INT(fs_lock_try(scene.holder, F_WRLCK, 0, 1), 0);
    scene.p.is_synced = false;
    keep(&scene);
    ASSERT(!is_recalled(&scene)); /* M6 */
    memo_scene_end(&scene);
    tsk_workspace_close(scene.ws);
}

TEST(a_full_memo_keeps_no_more_and_a_list_drops_what_it_has_not_seen)
{
    struct memo_scene first = {.ws = NULL}, second = {.ws = NULL};
    memo_scene_make(&first, "p", 1);
    second.ws = first.ws;
    memo_scene_make(&second, "q", 1);
    clock_step_ns = SECOND_NS;
    keep(&first);
    keep(&second);
    ASSERT(is_recalled(&first) && !is_recalled(&second));
    uint64_t list = memo_begin_look(first.ws->memo);
    memo_end_list(first.ws->memo, list);
    ASSERT(!is_recalled(&first));
    keep(&second);
    ASSERT(is_recalled(&second));
    memo_scene_end(&first);
    memo_scene_end(&second);
    tsk_workspace_close(first.ws);
}

TEST(in_a_full_memo_what_was_seen_longest_ago_makes_room_for_a_later_look)
{
    struct memo_scene scenes[3] = {{.ws = NULL}};
    memo_scene_make(&scenes[0], "q", 2);
    struct memo *memo = scenes[0].ws->memo;
    scenes[1].ws = scenes[2].ws = scenes[0].ws;
    memo_scene_make(&scenes[1], "p", 2);
    memo_scene_make(&scenes[2], "o", 2);
    clock_step_ns = SECOND_NS;
    keep(&scenes[0]);
    keep(&scenes[1]);
    memo_begin_look(memo);
    ASSERT(is_recalled(&scenes[0]));
    keep(&scenes[2]);
    ASSERT(is_recalled(&scenes[0]) && is_recalled(&scenes[2]) && !is_recalled(&scenes[1]));
    memo_forget(memo, "q");
    ASSERT(is_recalled(&scenes[2]) && !is_recalled(&scenes[0]));
    for (size_t i = 0; i < 3; i++)
        memo_scene_end(&scenes[i]);
    tsk_workspace_close(scenes[0].ws);
}

static int lowest_fd(void)
{
    int fd CLEANUP_FD = open("/", O_RDONLY | O_CLOEXEC);
    return fd;
}

TEST(a_memo_that_has_ended_lets_go_of_its_locks_and_keeps_nothing)
{
    struct memo_scene scene = {.ws = NULL};
    memo_scene_make(&scene, "p", 4);
    clock_step_ns = SECOND_NS;
    int before = lowest_fd();
    keep(&scene);
    ASSERT(is_recalled(&scene) && lowest_fd() > before);
    memo_end(scene.ws->memo);
    memo_begin_look(scene.ws->memo);
    keep(&scene);
    ASSERT(!is_recalled(&scene));
    ASSERT_INT(lowest_fd(), before);
    memo_scene_end(&scene);
    tsk_workspace_close(scene.ws);
}

TEST(a_list_that_fails_at_a_row_keeps_none_of_its_memory)
{
    enum { ROUNDS = 100, ROW = 20000 };
    struct tsk_error err;
    struct proc_registry reg;
    struct tsk_workspace *ws = scene_open();
    char *command = memory_zeroed(1, ROW + 1);
    size_t in_use = 0;
    memset(command, 'x', ROW);
    ASSERT(memo_begin(ws, 4));
    ASSERT_OK(proc_registry_open(&reg, ws, &err));
    ASSERT_OK(db_exec(&reg.db, &err,
                      "INSERT INTO process (id, command, args, env, auto_start_on_restore, settings, state, created_at,"
                      " updated_at) VALUES ('p', ?1, '[]', '{}', 0, 'none', '\"NotStarted\"', 0, 0)",
                      DB_TEXT(command)));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        struct proc *list;
        size_t count;
        if (i == ROUNDS)
            in_use = mallinfo2().uordblks;
        ASSERT_INT(proc_list_to_show(&reg, &list, &count, &err), -1);
    }
    size_t after = mallinfo2().uordblks;
    ASSERT(after < in_use + ROUNDS * ROW / 2);
    proc_registry_close(&reg);
    free(command);
    tsk_workspace_close(ws);
}
