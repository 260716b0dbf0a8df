#include "mcp/identity.h"
#include "base/clock.h"
#include "base/listing.h"
#include "base/log.h"
#include "base/word.h"
#include "lock/wait.h"
#include "own/who.h"
#include "own/workflow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SERVE        MCP_FOLDER "/serve."
#define GRACE_MAX_MS 3600000
#define OLD_S        7200 /* a file that nobody has locked and that is older is of no use: longer than any grace period */

#define ALONE_MAX_MS 5000 /* a process that has a serve file alone longer is stopped or hangs */

enum { BYTE_FIRST, BYTE_SERVED, BYTES }; /* of a serve file: see identity.h */

/* ---- who ---- */

/* npx and its like start us and stay in between; they are not the agent. */
static bool is_runner(pid_t pid)
{
    static const char *const runners[] = {"npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "uv", "pipx", NULL};
    static const char *const scripts[] = {"npx-cli.js", "npm-cli.js", "npx", "npm", "pnpm.cjs", "yarn.js", NULL};
    char path[64], words[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t len = fd < 0 ? -1 : fs->pread(fd, words, sizeof words - 1, 0);
    if (len <= 0)
        return false;
    words[len] = '\0';
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(path_name(words), " "),
             path_name(words)); /* "npm exec tasuki" */
    const char *second = words + strlen(words) + 1;
    bool is_node = strcmp(first, "node") == 0 || strcmp(first, "bun") == 0;
    return word_is_in(first, runners) || (is_node && second < words + len && word_is_in(path_name(second), scripts));
}

static int find_agent(struct proc_id *ret)
{
    if (proc_guess_holder(ret) < 0)
        return -1;
    for (pid_t parent; is_runner(ret->pid);)
        if (proc_parent(ret->pid, &parent) < 0 || parent <= 1 || proc_guess_holder_from(parent, ret) < 0)
            return -1;
    return 0;
}

/* The id that the process has in the workspace, from now on if it had none. */
static int name_process(struct tsk_workspace *ws, const struct proc_id *process, char *name, size_t size)
{
    struct instance instance = {.id = ""};
    struct tsk_error ignored;
    if (!ws || instance_register(ws, process, &instance, &ignored) < 0)
        if (instance_of_process(NULL, process, &instance, &ignored) < 0)
            return -1;
    snprintf(name, size, "%s", instance.id);
    return 0;
}

/* Whether it lives, and the process behind its name; pid 0 if it is no process of this machine, or it is gone. */
static enum liveness instance_look(struct tsk_workspace *ws, const char *instance, struct proc_id *ret)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct instance_state state = {.alive = LIVE_UNKNOWN};
    struct tsk_error ignored;
    struct now now = clock_now();
    if (!ws || owners_open(&owners, ws, &ignored) < 0 ||
        instance_judge(&owners.db, instance, &now, &state, &ignored) < 0)
        instance_judge_form(instance, &now, &state);
    *ret = state.alive == LIVE_ALIVE ? state.process : (struct proc_id){0};
    return state.alive;
}

static struct proc_id process_of(struct tsk_workspace *ws, const char *instance)
{
    struct proc_id process;
    instance_look(ws, instance, &process);
    return process;
}

/* ---- serving ---- */

/* A process by its identity: its start in ms is computed again each time, and may come out a millisecond off. */
static void serve_name(const struct proc_id *process, const char *instance, char name[64])
{
    if (process->pid) {
        snprintf(name, 64, SERVE "%d.%llu", (int)process->pid, (unsigned long long)process->start_ticks);
        return;
    }
    snprintf(name, 64, SERVE "%016llx", (unsigned long long)text_hash(HASH_BEGIN, instance));
}

/* Whether a serve file's process is gone; a file of a name has none, and becomes old. */
static bool serve_is_left(int dir, const char *name)
{
    struct proc_id process = {.pid_ns = pid_namespace()};
    char *dot;
    process.pid = (pid_t)strtol(name + strlen(SERVE), &dot, 10);
    if (*dot == '.') {
        process.start_ticks = strtoull(dot + 1, NULL, 10);
        snprintf(process.boot_id, sizeof process.boot_id, "%s", boot_id());
        return proc_id_liveness(&process) == LIVE_DEAD;
    }
    struct stat st;
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
    return fd >= 0 && fs->fstat(fd, &st) == 0 && clock_now().wall_ms / 1000 - st.st_mtim.tv_sec > OLD_S &&
           fs_lock_try(fd, F_WRLCK, 0, BYTES) == 0;
}

/* Removes what nobody needs any more. */
static void sweep_sessions(int dir)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, dir, MCP_FOLDER, 0);
    for (const char *name; (name = listing_next(&names));) {
        char path[300];
        snprintf(path, sizeof path, MCP_FOLDER "/%s", name);
        if (strncmp(path, SERVE, strlen(SERVE)) == 0 && serve_is_left(dir, path))
            fs->unlinkat(dir, path, 0);
    }
}

/* Opens and locks the serve file. With `alone` it locks the whole file and fails with EAGAIN if a server serves the
 * instance; otherwise it shares BYTE_SERVED with the other servers, after waiting for a process that has the file alone
 * (for a moment). If the file was removed between open and lock, it starts again. */
static int serve_open(int state_dir, const struct proc_id *process, const char *instance, bool alone)
{
    char name[64];
    struct stat st;
    serve_name(process, instance, name);
    if (fs_make_dirs(state_dir, MCP_FOLDER) < 0)
        return -1;
    for (;;) {
        int fd = fs->openat(state_dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        int result = alone ? fs_lock_try(fd, F_WRLCK, 0, BYTES) : fs_lock_try(fd, F_RDLCK, BYTE_SERVED, 1);
        if (result < 0 && !alone)
            result = wait_for_byte(fd, F_RDLCK, BYTE_SERVED, ALONE_MAX_MS);
        int problem = errno;
        bool is_swept = fs->fstat(fd, &st) == 0 && st.st_nlink == 0;
        if (result == 0 && !is_swept)
            return fd;
        fs_close(&fd);
        errno = problem;
        if (!is_swept)
            return -1;
    }
}

/* `is_first`: there must be no other server for it. A name, on the other hand, may be served by several. */
static int serve_begin(int state_dir, const struct proc_id *process, const char *instance, bool is_first)
{
    int fd = serve_open(state_dir, process, instance, false);
    if (fd >= 0 && is_first && fs_lock_try(fd, F_WRLCK, BYTE_FIRST, 1) < 0)
        fs_close(&fd);
    return fd;
}

/* When the last server for it ended: boot clock and wall clock, 0: not known. */
struct ending {
    int64_t boot_ms, wall_ms;
};

static void write_ending(int fd)
{
    char text[64];
    struct now now = clock_now();
    int len = snprintf(text, sizeof text, "%20lld %20lld\n", (long long)now.boot_ms, (long long)now.wall_ms);
    if (fs->pwrite(fd, text, (size_t)len, 0) < 0)
        return; /* then the grace period is that of an earlier end */
    /* Files have their times from a clock that is some milliseconds late. Before it has passed the end, nothing is over: what is
     * locked from then on has a later time (is_later). A clock that is set back is not waited for. */
    struct timespec late;
    for (int i = 0; i < 20 && clock_gettime(CLOCK_REALTIME_COARSE, &late) == 0 &&
                    late.tv_sec * 1000 + late.tv_nsec / 1000000 <= now.wall_ms;
         i++)
        clock_nap(1);
}

static struct ending read_ending(int fd)
{
    char text[64] = "", *word[2];
    if (fs->pread(fd, text, sizeof text - 1, 0) <= 0 || words_split(text, word, 2) < 2)
        return (struct ending){0};
    struct ending ending = {strtoll(word[0], NULL, 10), strtoll(word[1], NULL, 10)};
    return ending.boot_ms <= clock_now().boot_ms ? ending : (struct ending){0};
}

/* This server itself, when nobody else can be named, or the one who can is served already. */
static void be_own(struct mcp_identity *ret, struct tsk_workspace *ws)
{
    fs_close(&ret->serve_fd);
    if (proc_id_of(getpid(), &ret->process) < 0 ||
        name_process(ws, &ret->process, ret->instance, sizeof ret->instance) < 0)
        ret->instance[0] = '\0';
    else if (ws)
        ret->serve_fd = serve_begin(ws->state_dir, &ret->process, ret->instance, true);
}

void identity_find(struct mcp_identity *ret, const char *given, const char *root)
{
    struct tsk_workspace *ws CLEANUP(workspace_cleanup) = NULL;
    struct tsk_error ignored;
    const char *named = given && *given ? given : getenv("TASUKI_INSTANCE_ID");
    *ret = (struct mcp_identity){.serve_fd = -1};
    if (tsk_workspace_open(root, &ws, &ignored) == 0)
        sweep_sessions(ws->state_dir);
    bool has_agent = find_agent(&ret->process) == 0, is_named = named && *named;
    if (is_named) {
        struct proc_id agent = ret->process;
        snprintf(ret->instance, sizeof ret->instance, "%s", named);
        ret->process = process_of(ws, named);
        /* A client of the server has no process, and is never our agent: it gave work to it. */
        ret->is_borrowed =
            instance_is_http(named) || (ret->process.pid && !(has_agent && agent.pid == ret->process.pid &&
                                                              agent.start_ticks == ret->process.start_ticks));
    } else if (!has_agent) {
        be_own(ret, ws);
        return;
    }
    /* The byte first: it tells others that the agent is back. */
    if (ws)
        ret->serve_fd = serve_begin(ws->state_dir, &ret->process, ret->instance, !is_named);
    bool is_served = ws && ret->serve_fd < 0 && (errno == EAGAIN || errno == EACCES) && !is_named;
    if (is_served || (!ret->instance[0] && name_process(ws, &ret->process, ret->instance, sizeof ret->instance) < 0))
        be_own(ret, ws);
}

void identity_clear(struct mcp_identity *identity)
{
    fs_close(&identity->serve_fd);
    identity->serve_fd = -1;
}

/* ---- its locks ---- */

static const char *instance_of(const json_t *lock)
{
    return json_get_string(json_object_get(lock, "holder"), "instance", "");
}

/* NULL when that is unknown; the log says why. */
static json_t *locks_of(struct mcp_server *server, const char *instance)
{
    struct tsk_error problem = {0};
    json_t *answer CLEANUP_JSON = mcp_run_op(server, "lock.list", json_object(), &problem);
    if (!answer) {
        log_problem(&problem);
        return NULL;
    }
    json_t *mine = json_array();
    json_each (json_object_get(answer, "locks"), i, lock)
        if (instance_is_same_id(instance_of(lock), instance))
            json_array_append(mine, lock);
    return mine;
}

int identity_count_locks(struct mcp_server *server, const char *instance)
{
    json_t *mine CLEANUP_JSON = locks_of(server, instance);
    return mine ? (int)json_array_size(mine) : -1;
}

/* Whether a lock was taken after the end. Records have seconds; within one, the file knows. */
static bool is_later(const json_t *lock, const struct ending *ending)
{
    int64_t taken_ms;
    struct stat st;
    if (!ending->wall_ms || time_parse(json_get_string(lock, "created_at", ""), &taken_ms) < 0)
        return false;
    if (taken_ms / 1000 != ending->wall_ms / 1000)
        return taken_ms > ending->wall_ms;
    return fs->fstatat(AT_FDCWD, json_get_string(lock, "path", ""), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 > ending->wall_ms;
}

static void release_locks(struct mcp_server *server, const char *instance, const struct ending *ending)
{
    json_t *mine CLEANUP_JSON = locks_of(server, instance);
    json_each (mine, i, lock) {
        struct tsk_error problem = {0};
        if (is_later(lock, ending))
            continue;
        json_t *args =
            json_pack("{s:s, s:s}", "kind", json_get_string(lock, "kind", "name"), "instance", instance_of(lock));
        const char *id = json_get_string(lock, "id", NULL);
        if (id && !json_text_is(lock, "kind", "sprint"))
            json_object_set_new(args, "id", json_string(id));
        json_t *released CLEANUP_JSON = mcp_run_op(server, "lock.release", args, &problem);
        if (!released)
            log_problem(&problem);
    }
}

/* ---- its claims ---- */

/* Whether it owns a workflow, or that is unknown: then it is tried later, and the release says why. */
static bool may_have_claims(struct tsk_workspace *ws, const char *instance)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct tsk_error problem;
    json_t *mine CLEANUP_JSON = NULL;
    return owners_open(&owners, ws, &problem) < 0 || workflow_list(&owners, instance, true, &mine, &problem) < 0 ||
           json_array_size(mine) > 0;
}

static void release_claims(struct tsk_workspace *ws, const char *instance)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct tsk_error problem;
    if (may_have_claims(ws, instance) &&
        (owners_open(&owners, ws, &problem) < 0 || workflow_release_all(&owners, instance, false, NULL, &problem) < 0))
        log_problem(&problem);
}

/* ---- the end ---- */

static void release_everything(struct mcp_server *server, const char *instance, const struct ending *ending)
{
    release_locks(server, instance, ending);
    if (mcp_server_workspace(server))
        release_claims(mcp_server_workspace(server), instance);
}

/* In a program of its own, because this one ends at once. */
static void start_let_go(const struct mcp_server *server, const char *instance, int64_t grace_ms)
{
    char grace[32];
    const char *root = server->options.root;
    snprintf(grace, sizeof grace, "%lldms", (long long)grace_ms);
    char *const argv[] = {"tasuki",         "mcp",     "--let-go", "--instance",
                          (char *)instance, "--grace", grace,      root ? "--root" : NULL,
                          (char *)root,     NULL};
    int null_fd CLEANUP_FD = fs->openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    if (null_fd < 0 || fork() != 0)
        return;
    setsid();
    for (int fd = 0; fd < 3; fd++)
        dup2(null_fd, fd);
    execv("/proc/self/exe", argv);
    _exit(127);
}

void identity_end(struct mcp_identity *identity, struct mcp_server *server, int64_t grace_ms)
{
    struct tsk_workspace *ws = mcp_server_workspace(server);
    bool is_alive =
        identity->process.pid && identity->process.pid != getpid() && proc_id_liveness(&identity->process) != LIVE_DEAD;
    bool is_named = !identity->process.pid; /* given by name: its process is not ours to judge */
    if (identity->serve_fd >= 0)
        write_ending(identity->serve_fd);
    identity_clear(identity);
    /* What belongs to who delegated the work to our agent ends with that one, not with us. */
    if (!identity->instance[0] || !ws || (identity->is_borrowed && (is_alive || instance_is_http(identity->instance))))
        return;
    int served CLEANUP_FD = serve_open(ws->state_dir, &identity->process, identity->instance, true);
    if (served < 0)
        return; /* another server of the same name continues */
    if (grace_ms == 0 || (!is_alive && !is_named))
        release_everything(server, identity->instance, &(struct ending){0});
    else if (identity_count_locks(server, identity->instance) != 0 || may_have_claims(ws, identity->instance))
        start_let_go(server, identity->instance, grace_ms);
}

void identity_let_go(struct mcp_server *server, const char *given, int64_t grace_ms)
{
    struct tsk_workspace *ws = mcp_server_workspace(server);
    if (!ws)
        return;
    struct proc_id process;
    bool was_gone = instance_look(ws, given, &process) == LIVE_DEAD; /* it has ended before we were here */
    struct who who;
    who_look(ws, given, &who);
    if (who.label[0])
        who_set(&who); /* it is the agent's end, not ours */
    int agent CLEANUP_FD = process.pid > 1 ? (int)syscall(SYS_pidfd_open, process.pid, 0) : -1;
    struct pollfd end = {.fd = agent, .events = POLLIN};
    was_gone = was_gone || (process.pid > 1 && agent < 0 && errno == ESRCH);
    for (int64_t left = grace_ms;;) {
        bool is_gone = was_gone || poll(&end, 1, left > GRACE_MAX_MS ? GRACE_MAX_MS : (int)left) > 0;
        int serve_fd CLEANUP_FD = serve_open(ws->state_dir, &process, given, true);
        if (serve_fd < 0)
            return; /* it is back */
        struct ending ending = read_ending(serve_fd);
        left = ending.boot_ms + grace_ms - clock_now().boot_ms;
        if (is_gone || left <= 0 || grace_ms > GRACE_MAX_MS) {
            release_everything(server, given, is_gone ? &(struct ending){0} : &ending);
            return;
        }
    } /* it was back, and has ended again: its grace is not over */
}
