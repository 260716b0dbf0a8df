#include "mcp/identity.h"
#include "base/fs.h"
#include "base/log.h"
#include "own/workflow.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER  "mcp"
#define SERVE   FOLDER "/serve."
#define SAME_MS 2000 /* spec 4: how far two times of one start may be apart */

/* ---- who ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

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
    snprintf(first, sizeof first, "%.*s", (int)strcspn(base_name(words), " "),
             base_name(words)); /* "npm exec tasuki" */
    const char *second = words + strlen(words) + 1;
    bool is_node = strcmp(first, "node") == 0 || strcmp(first, "bun") == 0;
    return is_one_of(first, runners) || (is_node && second < words + len && is_one_of(base_name(second), scripts));
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

/* ---- serving ---- */

/* A process by its identity: its start in ms is computed anew each time, and may come out a millisecond off. */
static void serve_name(const struct proc_id *process, const char *instance, char name[64])
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    if (process->pid) {
        snprintf(name, 64, SERVE "%d.%llu", (int)process->pid, (unsigned long long)process->start_ticks);
        return;
    }
    for (; *instance; instance++)
        hash = (hash ^ (unsigned char)*instance) * 1099511628211u;
    snprintf(name, 64, SERVE "%016llx", (unsigned long long)hash);
}

/* Removes what processes that are gone have left. */
static void sweep(int dir)
{
    struct dirent **names = NULL;
    int count = scandirat(dir, FOLDER, &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        struct proc_id process = {.pid_ns = pid_namespace()};
        char path[300], *dot = NULL;
        if (strncmp(names[i]->d_name, "serve.", 6) == 0)
            process.pid = (pid_t)strtol(names[i]->d_name + 6, &dot, 10);
        if (dot && *dot == '.') {
            process.start_ticks = strtoull(dot + 1, NULL, 10);
            snprintf(process.boot_id, sizeof process.boot_id, "%s", boot_id());
            snprintf(path, sizeof path, FOLDER "/%s", names[i]->d_name);
            if (proc_id_liveness(&process) == LIVE_DEAD)
                fs->unlinkat(dir, path, 0);
        }
        free(names[i]);
    }
    free(names);
}

/* The locked file; -1 with EAGAIN when another server has it. */
static int serve_begin(int state_dir, const struct proc_id *process, const char *instance)
{
    char name[64];
    serve_name(process, instance, name);
    if (fs_make_dirs(state_dir, FOLDER) < 0)
        return -1;
    int fd = fs->openat(state_dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && fs_lock_try(fd, F_WRLCK, 0, 1) < 0)
        fs_close(&fd);
    return fd;
}

/* This server itself, when nobody else can be named, or the one who can is served already. */
static void be_own(struct mcp_identity *ret, struct tsk_workspace *ws)
{
    fs_close(&ret->serve_fd);
    if (proc_id_of(getpid(), &ret->process) < 0 ||
        name_process(ws, &ret->process, ret->instance, sizeof ret->instance) < 0)
        ret->instance[0] = '\0';
    else if (ws)
        ret->serve_fd = serve_begin(ws->state_dir, &ret->process, ret->instance);
}

void identity_find(struct mcp_identity *ret, const char *given, const char *root)
{
    struct tsk_workspace *ws CLEANUP(workspace_cleanup) = NULL;
    struct tsk_error ignored;
    const char *named = given && *given ? given : getenv("TASUKI_INSTANCE_ID");
    *ret = (struct mcp_identity){.serve_fd = -1};
    if (tsk_workspace_open(root, &ws, &ignored) == 0)
        sweep(ws->state_dir);
    if (named && *named)
        snprintf(ret->instance, sizeof ret->instance, "%s", named);
    else if (find_agent(&ret->process) < 0) {
        be_own(ret, ws);
        return;
    }
    /* First the byte: whoever looks whether the agent is back looks there. */
    if (ws)
        ret->serve_fd = serve_begin(ws->state_dir, &ret->process, ret->instance);
    bool is_served = ws && ret->serve_fd < 0 && (errno == EAGAIN || errno == EACCES) && ret->process.pid;
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

/* The same text, or the same start of the same process: a shell command of the agent has computed it anew. */
static bool is_held_by(const json_t *lock, const char *instance)
{
    const char *other = instance_of(lock), *a = strrchr(instance, '-'), *b = strrchr(other, '-');
    if (strcmp(other, instance) == 0)
        return true;
    if (!instance_pid(instance) || !instance_pid(other) || a - instance != b - other ||
        strncmp(instance, other, (size_t)(a - instance)) != 0)
        return false;
    int64_t apart = strtoll(a + 1, NULL, 10) - strtoll(b + 1, NULL, 10);
    return apart <= SAME_MS && apart >= -SAME_MS;
}

static json_t *locks_of(struct mcp_server *server, const char *instance)
{
    struct tsk_error ignored = {0};
    json_t *answer CLEANUP_JSON = mcp_run_op(server, "lock.list", json_object(), &ignored), *lock, *mine = json_array();
    size_t i;
    json_array_foreach (json_object_get(answer, "locks"), i, lock)
        if (is_held_by(lock, instance))
            json_array_append(mine, lock);
    return mine;
}

int identity_count_locks(struct mcp_server *server, const char *instance)
{
    json_t *mine CLEANUP_JSON = locks_of(server, instance);
    return (int)json_array_size(mine);
}

void identity_release_locks(struct mcp_server *server, const char *instance)
{
    json_t *mine CLEANUP_JSON = locks_of(server, instance), *lock;
    size_t i;
    json_array_foreach (mine, i, lock) {
        struct tsk_error ignored = {0};
        json_t *args =
            json_pack("{s:s, s:s}", "kind", json_get_string(lock, "kind", "name"), "instance", instance_of(lock));
        const char *id = json_get_string(lock, "id", NULL);
        if (id && strcmp(json_get_string(lock, "kind", ""), "sprint") != 0)
            json_object_set_new(args, "id", json_string(id));
        json_decref(mcp_run_op(server, "lock.release", args, &ignored));
    }
}

/* ---- its claims ---- */

/* Whether it owns a workflow; false when that cannot be told. */
static bool has_claims(struct tsk_workspace *ws, const char *instance)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct tsk_error ignored;
    json_t *mine CLEANUP_JSON = NULL;
    return owners_open(&owners, ws, &ignored) == 0 && workflow_list(&owners, instance, true, &mine, &ignored) == 0 &&
           json_array_size(mine) > 0;
}

static void release_claims(struct tsk_workspace *ws, const char *instance)
{
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct tsk_error problem;
    if (has_claims(ws, instance) &&
        (owners_open(&owners, ws, &problem) < 0 || workflow_release_all(&owners, instance, &problem) < 0))
        log_problem(&problem);
}

/* ---- the end ---- */

static void release_everything(struct mcp_server *server, const char *instance)
{
    identity_release_locks(server, instance);
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
    bool is_alive =
        identity->process.pid && identity->process.pid != getpid() && proc_id_liveness(&identity->process) != LIVE_DEAD;
    bool is_named = !identity->process.pid; /* given by name: its process is not ours to judge */
    identity_clear(identity);
    if (!identity->instance[0] || !mcp_server_workspace(server))
        return;
    if (grace_ms == 0 || (!is_alive && !is_named))
        release_everything(server, identity->instance);
    else if (identity_count_locks(server, identity->instance) > 0 ||
             has_claims(mcp_server_workspace(server), identity->instance))
        start_let_go(server, identity->instance, grace_ms);
}

void identity_let_go(struct mcp_server *server, const char *given, int64_t grace_ms)
{
    struct tsk_workspace *ws = mcp_server_workspace(server);
    struct proc_id process = {0};
    pid_t pid = instance_pid(given);
    int agent CLEANUP_FD = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    struct pollfd end = {.fd = agent, .events = POLLIN};
    poll(&end, 1, grace_ms > 3600000 ? 3600000 : (int)grace_ms);
    if (!ws)
        return;
    bool is_gone = pid && proc_id_of(pid, &process) < 0;
    int serve_fd CLEANUP_FD = is_gone ? -1 : serve_begin(ws->state_dir, &process, given);
    if (is_gone || serve_fd >= 0) /* else it is back */
        release_everything(server, given);
}
