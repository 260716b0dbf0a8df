#include "proc/launch.h"

#include "base/fs.h"
#include "base/word.h"
#include "hold/protocol.h"
#include "proc/failure.h"
#include "proc/spawn.h"
#include "proc/words.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TASUKI_LIBEXECDIR
#define TASUKI_LIBEXECDIR "/usr/local/libexec"
#endif
#define REPORT_WAIT_MS 30000
#define TTY_TERM       "xterm-256color" /* where the starter has no terminal */
#define HOLDERS_MAX    1024             /* living ones at a time that are collected; more stay until the server ends */

extern char **environ;

void launch_clear(struct launch *launch)
{
    fs_close(&launch->report);
    fs_close(&launch->holder_fd);
    launch->report = launch->holder_fd = -1;
}

/* ---- the holder's arguments ----------------------------------------------------------------------------------- */

static int self_find(char self[PATH_MAX], struct tsk_error *err)
{
    if (self_path(self) == 0)
        return 0;
    return errno == ENOENT ? error_set(err, TSK_ENVIRONMENT, "program_gone", "path", self, NULL)
                           : error_errno(err, "read", "/proc/self/exe");
}

int launch_find_program(const char *name, char path[PATH_MAX], struct tsk_error *err)
{
    static const char *const places[] = {"", "/../libexec", NULL};
    char dir[PATH_MAX];
    if (self_find(dir, err) < 0)
        return -1;
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; places[i]; i++)
        if (snprintf(path, PATH_MAX, "%s%s/%s", dir, places[i], name) < PATH_MAX && access(path, X_OK) == 0)
            return 0;
    snprintf(path, PATH_MAX, "%s/%s", TASUKI_LIBEXECDIR, name);
    if (access(path, X_OK) == 0)
        return 0;
    return error_set(err, TSK_ENVIRONMENT, "program_missing", "name", name, "path", dir, NULL);
}

static int find_holder(char path[PATH_MAX], char self[PATH_MAX], struct tsk_error *err)
{
    if (!*boot_id() || !pid_namespace()) /* without them nobody could tell later who the process was */
        return error_set(err, TSK_ENVIRONMENT, "system_call", "what", "read", "path", "/proc", "reason",
                         "boot id or pid namespace unknown", NULL);
    return self_find(self, err) < 0 ? -1 : launch_find_program("tasuki-hold", path, err);
}

static bool uses_notify(const json_t *spec)
{
    struct proc_probe ready, health;
    proc_spec_probe(spec, "ready", &ready);
    proc_spec_probe(spec, "health", &health);
    return ready.kind == PROBE_NOTIFY || health.kind == PROBE_NOTIFY;
}

static bool has_probe(const json_t *spec)
{
    struct proc_probe ready, health;
    proc_spec_probe(spec, "ready", &ready);
    proc_spec_probe(spec, "health", &health);
    return ready.kind != PROBE_NONE || health.kind != PROBE_NONE;
}

static void put_policy(struct words *argv, const json_t *spec)
{
    const json_t *retries = json_object_get(spec, "max_retries");
    words_printf(argv, "restart=%s", proc_restart_names[proc_spec_restart(spec)]);
    words_printf(argv, "max_retries=%" PRId64, json_is_integer(retries) ? (int64_t)json_integer_value(retries) : -1);
    words_printf(argv, "backoff_ms=%" PRId64, json_get_int(spec, "backoff_ms", HOLD_BACKOFF_MS));
    words_printf(argv, "backoff_max_ms=%" PRId64, json_get_int(spec, "backoff_max_ms", HOLD_BACKOFF_MAX_MS));
    words_printf(argv, "healthy_ms=%" PRId64, json_get_int(spec, "healthy_after_ms", HOLD_HEALTHY_MS));
    words_printf(argv, "log_max=%" PRId64, json_get_int(spec, "log_max", HOLD_LOG_MAX));
}

static void put_command_words(struct words *argv, const json_t *spec)
{
    words_add(argv, "--");
    words_add(argv, json_get_string(spec, "command", ""));
    json_each (json_object_get(spec, "args"), i, arg)
        words_add(argv, json_string_value(arg));
}

/* A directory. One below the root is named from processes/<id>/, where the holder is: a restart then survives that somebody
 * renames the workspace. */
static void put_place(struct words *argv, const char *key, const struct tsk_workspace *ws, const char *path)
{
    struct stat above, root;
    size_t len = strlen(ws->root);
    bool is_below = strncmp(path, ws->root, len) == 0 && (path[len] == '/' || !path[len]) &&
                    fs->fstatat(ws->state_dir, "..", &above, 0) == 0 &&
                    fs->fstatat(AT_FDCWD, ws->root, &root, 0) == 0 && above.st_dev == root.st_dev &&
                    above.st_ino == root.st_ino;
    words_printf(argv, "%s=%s%s", key, is_below ? HOLD_UP_TO_ROOT : "", is_below ? path + len : path);
}

/* `adopt` is the living start, or NULL. */
static void put_argv(struct words *argv, const struct proc_registry *reg, const struct proc *p,
                     const struct launch_options *options, const char *start_id, const struct proc_status *adopt,
                     const char *program)
{
    const char *cwd = json_get_string(p->spec, "cwd", NULL);
    words_add(argv, "tasuki-hold");
    words_add(argv, p->id);
    words_printf(argv, "n=%" PRId64, options->n);
    words_printf(argv, "start_id=%s", start_id);
    words_printf(argv, "boot_id=%s", boot_id());
    words_printf(argv, "pid_ns=%" PRIu64, pid_namespace());
    put_place(argv, "cwd", reg->ws, cwd ? cwd : reg->ws->root);
    words_printf(argv, "log=%s", options->log_mode);
    words_printf(argv, "restarts=%" PRId64, options->restarts);
    put_policy(argv, p->spec);
    bool probes = has_probe(p->spec), tells = proc_failure_is_told(reg->ws);
    if (probes)
        words_printf(argv, "probe=%s", program);
    if (tells)
        words_printf(argv, "tell=%s", program);
    if (probes || tells)
        put_place(argv, "root", reg->ws, reg->ws->root);
    if (uses_notify(p->spec))
        words_add(argv, "notify=1");
    if (adopt)
        words_printf(argv, "adopt=%d:%" PRIu64 ":%" PRId64, (int)adopt->child.pid, adopt->child.start_ticks,
                     adopt->started_at_ms);
    put_command_words(argv, p->spec);
}

/* Variables that belong to our starter, not to the new process. */
static void drop_foreign(struct words *env)
{
    static const char *const names[] = {"NOTIFY_SOCKET",     "LISTEN_FDS",        "LISTEN_PID",     "LISTEN_FDNAMES",
                                        "WATCHDOG_PID",      "WATCHDOG_USEC",     "TASUKI_LOCK",    "TASUKI_LOCK_FENCE",
                                        "TASUKI_RUN_ID",     "TASUKI_SESSION_ID", "TASUKI_TASK_ID", "TASUKI_ATTEMPT",
                                        "TASUKI_CHANNEL",    "TASUKI_FENCE",      "TASUKI_OUTPUT",  "TASUKI_ANSWER",
                                        "TASUKI_INSTANCE_ID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        words_unset(env, names[i]);
}

static void put_env(struct words *env, const struct proc *p, const char *start_id)
{
    char mark[PROC_MARK_SIZE];
    for (char **at = environ; *at; at++)
        words_add(env, *at);
    drop_foreign(env);
    const char *term = getenv("TERM");
    if (proc_spec_log(p->spec) == PROC_LOG_TTY && (!term || !*term || strcmp(term, "dumb") == 0))
        words_set(env, "TERM", TTY_TERM);
    json_each_pair (json_object_get(p->spec, "env"), key, value)
        words_set(env, key, json_string_value(value));
    words_set(env, HOLD_ENV_ID, p->id);
    words_set(env, HOLD_ENV_START, start_id);
    proc_mark(p->dir, mark);
    words_set(env, HOLD_ENV_MARK, mark);
    if (uses_notify(p->spec)) {
        char name[64];
        snprintf(name, sizeof name, "@tasuki-%s", start_id);
        words_set(env, "NOTIFY_SOCKET", name);
    }
}

/* The environment that a living process was started with; restarts by policy shall get the same. */
static bool put_env_of(struct words *env, pid_t pid, const char *start_id)
{
    char path[64], mark[64];
    bool is_whole = false; /* a program may write its title over it */
    struct buf text CLEANUP(buf_clear) = {.max = ENVIRON_MAX};
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_fd(fd, ENVIRON_MAX - 1, &text) < 0 || text.len == 0)
        return false;
    snprintf(mark, sizeof mark, HOLD_ENV_START "=%s", start_id);
    for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1)
        is_whole = is_whole || strcmp(text.data + at, mark) == 0;
    for (size_t at = 0; is_whole && at < text.len; at += strlen(text.data + at) + 1)
        if (text.data[at])
            words_add(env, text.data + at);
    return is_whole;
}

/* ---- holders that are our children ----------------------------------------------------------------------------- */

/* A holder outlives a command, but not a server: the next start reaps the holders that have ended. */
static struct {
    pthread_mutex_t mutex;
    pid_t pids[HOLDERS_MAX]; /* 0: free */
} children = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Only here: a number that was collected elsewhere may be another child's by now. `started`: one more, or 0. */
static void children_collect(pid_t started)
{
    size_t place = HOLDERS_MAX;
    pthread_mutex_lock(&children.mutex);
    for (size_t i = 0; i < HOLDERS_MAX; i++) {
        if (children.pids[i] && waitpid(children.pids[i], NULL, WNOHANG) != 0)
            children.pids[i] = 0;
        if (!children.pids[i])
            place = i;
    }
    if (started && place < HOLDERS_MAX)
        children.pids[place] = started;
    pthread_mutex_unlock(&children.mutex);
}

/* ---- starting it ----------------------------------------------------------------------------------------------- */

/* If we are a task's, the holder is not: the limit by which a task is known (graph/leftover.h) is taken back. */
static uint64_t no_mark(void)
{
    struct rlimit limit;
    bool is_marked =
        getrlimit(RLIMIT_RTTIME, &limit) == 0 && limit.rlim_cur >= SPAWN_MARK_MIN && limit.rlim_cur != RLIM_INFINITY;
    return is_marked ? RLIM_INFINITY : 0;
}

static int run_holder(const char *path, const struct words *argv, const struct words *env, int dir, int holder_lock,
                      int run_lock, int pass, struct launch *ret, struct tsk_error *err)
{
    int report[2];
    sigset_t none;
    if (argv->failed || env->failed)
        return error_no_memory(err, "start", "tasuki-hold");
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_errno(err, "start", "tasuki-hold");
    struct spawn_fd fds[] = {{-1, 0},
                             {-1, 1},
                             {-1, 2},
                             {dir, HOLD_FD_DIR},
                             {holder_lock, HOLD_FD_LOCK},
                             {run_lock, HOLD_FD_RUN},
                             {report[1], HOLD_FD_REPORT},
                             {pass, HOLD_FD_PASS}};
    sigemptyset(&none);
    struct spawn spawn = {.path = path,
                          .argv = argv->items,
                          .envp = env->items,
                          .fds = fds,
                          .fd_count = sizeof fds / sizeof fds[0] - (pass < 0),
                          .mask = &none,
                          .mark = no_mark(),
                          .new_session = true};
    int result = spawn_run(&spawn);
    int number = errno;
    fs_close(&report[1]);
    if (result < 0) {
        fs_close(&report[0]);
        errno = number;
        return error_errno(err, "start", path);
    }
    children_collect(spawn.pid);
    ret->report = report[0];
    ret->holder = spawn.pid;
    ret->holder_fd = spawn.pidfd;
    return 0;
}

static void launch_init(struct launch *launch, const struct proc *p, const struct proc_registry *reg)
{
    *launch = (struct launch){.command = json_get_string(p->spec, "command", ""),
                              .cwd = json_get_string(p->spec, "cwd", reg->ws->root),
                              .report = -1,
                              .holder_fd = -1};
    memcpy(launch->id, p->id, sizeof launch->id);
}

int launch_start(struct proc_registry *reg, const struct proc *p, const struct launch_options *options,
                 int *holder_lock, struct launch *ret, struct tsk_error *err)
{
    char path[PATH_MAX], self[PATH_MAX], start_id[33], name[40];
    struct words argv CLEANUP(words_clear) = {.items = NULL}, env CLEANUP(words_clear) = {.items = NULL};
    int lock CLEANUP_FD = *holder_lock;
    *holder_lock = -1;
    launch_init(ret, p, reg);
    if (find_holder(path, self, err) < 0)
        return -1;
    random_hex(start_id, 32);
    put_argv(&argv, reg, p, options, start_id, NULL, self);
    put_env(&env, p, start_id);
    int run_lock CLEANUP_FD = proc_start_lock(p->dir, options->n, err); /* H1 */
    if (run_lock < 0)
        return -1;
    if (run_holder(path, &argv, &env, p->dir, lock, run_lock, -1, ret, err) == 0)
        return 0;
    proc_start_name(options->n, name);
    fs->unlinkat(p->dir, name, 0);
    return -1;
}

int launch_adopt(struct proc_registry *reg, const struct proc *p, const struct proc_status *status, int *holder_lock,
                 struct launch *ret, struct tsk_error *err)
{
    char path[PATH_MAX], self[PATH_MAX], name[40];
    struct words argv CLEANUP(words_clear) = {.items = NULL}, env CLEANUP(words_clear) = {.items = NULL};
    struct launch_options options = {.n = status->n, .restarts = status->restarts, .log_mode = status->log};
    int lock CLEANUP_FD = *holder_lock;
    *holder_lock = -1;
    launch_init(ret, p, reg);
    if (find_holder(path, self, err) < 0)
        return -1;
    put_argv(&argv, reg, p, &options, status->start_id, status, self);
    if (!put_env_of(&env, status->child.pid, status->start_id))
        put_env(&env, p, status->start_id);
    proc_start_name(status->n, name);
    int run_lock CLEANUP_FD = fs->openat(p->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (run_lock < 0)
        return fs_error(err, "open", p->dir, name);
    return run_holder(path, &argv, &env, p->dir, lock, run_lock, -1, ret, err);
}

/* Variables of a run's task, which mark its processes. A search for leftovers by these variables must not find the new process. */
static void drop_marks(struct words *env)
{
    static const char *const names[] = {HOLD_ENV_ID, HOLD_ENV_MARK, "TASUKI_ROOT"};
    drop_foreign(env);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        words_unset(env, names[i]);
}

int launch_self(const struct launch_self *what, struct launch *ret, struct tsk_error *err)
{
    char path[PATH_MAX], self[PATH_MAX], start_id[33];
    struct words argv CLEANUP(words_clear) = {.items = NULL}, env CLEANUP(words_clear) = {.items = NULL};
    *ret = (struct launch){.command = "tasuki", .cwd = what->cwd, .report = -1, .holder_fd = -1};
    snprintf(ret->id, sizeof ret->id, "%s", what->name);
    if (find_holder(path, self, err) < 0)
        return -1;
    random_hex(start_id, 32);
    words_add(&argv, "tasuki-hold");
    words_add(&argv, what->name);
    words_printf(&argv, "start_id=%s", start_id);
    words_printf(&argv, "boot_id=%s", boot_id());
    words_printf(&argv, "pid_ns=%" PRIu64, pid_namespace());
    words_printf(&argv, "cwd=%s", what->cwd);
    words_add(&argv, "n=1");
    words_add(&argv, "sweep=1");
    words_add(&argv, "pass=1");
    words_add(&argv, "--");
    words_add(&argv, self);
    for (const char *const *word = what->words; *word; word++)
        words_add(&argv, *word);
    for (char **at = environ; *at; at++)
        words_add(&env, *at);
    drop_marks(&env);
    words_set(&env, HOLD_ENV_START, start_id);
    int holder_lock CLEANUP_FD = proc_holder_lock(what->dir, 0);
    if (holder_lock < 0)
        return fs_error(err, "lock", what->dir, HOLD_LOCK_NAME);
    int run_lock CLEANUP_FD = proc_start_lock(what->dir, 1, err);
    if (run_lock < 0)
        return -1;
    return run_holder(path, &argv, &env, what->dir, holder_lock, run_lock, what->pass, ret, err);
}

/* ---- what became of it ----------------------------------------------------------------------------------------- */

/* One line, or nothing if the holder died. */
static size_t read_report(int fd, char *line, size_t size)
{
    size_t len = 0;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (len < size - 1 && poll(&wait, 1, REPORT_WAIT_MS) > 0) {
        ssize_t got = read(fd, line + len, size - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    line[len] = '\0';
    return len;
}

/* A program with a path is looked for in the process's directory: the reason names it. */
static void put_launch_reason(const struct launch *launch, const char *stage, int number, char reason[512])
{
    const char *why = strerrordesc_np(number), *what = launch->command;
    bool is_exec = strcmp(stage, "exec") == 0, is_relative = is_exec && what[0] != '/' && strchr(what, '/');
    if (strcmp(stage, "cwd") == 0)
        what = launch->cwd;
    else if (!is_exec)
        what = stage;
    snprintf(reason, 512, "%s: %s%s%s%s", what, why ? why : "?", is_relative ? " (in " : "",
             is_relative ? launch->cwd : "", is_relative ? ")" : "");
}

static int start_failed(const struct launch *launch, const char *stage, int number, struct tsk_error *err)
{
    char reason[512];
    bool is_line = strcmp(stage, "exec") == 0 && number == ENOENT && strpbrk(launch->command, " \t");
    put_launch_reason(launch, stage, number, reason);
    error_set(err, TSK_PROCESS_START_FAILED, is_line ? "process_command_is_line" : NULL, "id", launch->id, "reason",
              reason, "stage", stage, NULL);
    if (is_line)
        error_add_next(err, "tasuki proc update %s -- %s", launch->id, launch->command);
    error_add_next(err, "tasuki proc status %s", launch->id);
    err->sys_errno = number;
    return -1;
}

int launch_result(struct launch *launch, struct tsk_error *err)
{
    char line[128], *word[3];
    read_report(launch->report, line, sizeof line);
    if (strncmp(line, "ok ", 3) == 0)
        return 0;
    struct pollfd end = {.fd = launch->holder_fd, .events = POLLIN};
    if (poll(&end, 1, 1000) > 0)
        children_collect(0);
    if (words_split(line, word, 3) == 3 && strcmp(word[0], "error") == 0)
        return start_failed(launch, word[1], (int)strtol(word[2], NULL, 10), err);
    return error_set(err, TSK_PROCESS_START_FAILED, NULL, "id", launch->id, "reason",
                     "the holder process was killed while it started", "stage", "holder", NULL);
}
