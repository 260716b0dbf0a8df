/* record.c - the record of a process as every skin shows it, and waiting for it to change. */
#include "base/fs.h"
#include "hold/protocol.h"
#include "proc/log.h"
#include "proc/memo.h"
#include "proc/reconcile.h"
#include "proc/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_EXITS     5
#define HISTORY_WINDOW 8192

static json_t *raw_status_json(int raw)
{
    if (raw == -1)
        return json_null();
    if (!WIFSIGNALED(raw))
        return json_pack("{s:i}", "code", WEXITSTATUS(raw));
    char name[32];
    const char *abbreviation = sigabbrev_np(WTERMSIG(raw));
    snprintf(name, sizeof name, "SIG%s", abbreviation ? abbreviation : "?");
    return json_pack("{s:s, s:i}", "signal", name, "number", WTERMSIG(raw));
}

/* ---- what it uses ---------------------------------------------------------------------------------------------- */

static json_t *usage_json(const struct proc_view *view)
{
    int64_t uptime = clock_now().wall_ms - view->started_at_ms;
    json_t *usage = json_object();
    json_object_set_new(usage, "cpu_ms", json_integer((json_int_t)(view->usage.cpu_ticks * 1000 / ticks_per_second())));
    json_object_set_new(usage, "rss_bytes",
                        json_integer((json_int_t)view->usage.rss_pages * (json_int_t)sysconf(_SC_PAGESIZE)));
    json_object_set_new(usage, "uptime_ms", json_integer((json_int_t)(uptime > 0 ? uptime : 0)));
    return usage;
}

/* ---- earlier ends ---------------------------------------------------------------------------------------------- */

static json_t *exit_json(int64_t n, int raw, const char *by, int64_t time_ms)
{
    int code = raw == -1 ? -1 : WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    json_t *entry = json_pack("{s:I, s:i}", "run", (json_int_t)n, "exit_code", strcmp(by, "stop") == 0 ? 0 : code);
    json_t *status CLEANUP_JSON = raw_status_json(raw);
    json_object_set(entry, "raw_status", status);
    if (json_object_get(status, "signal"))
        json_object_set(entry, "signal", json_object_get(status, "signal"));
    json_object_set_new(entry, "stopped_at", json_of_time(time_ms));
    json_object_set_new(entry, "by", json_string(by));
    return entry;
}

/* The last end is in the status record; the history may not have heard of it (its holder was killed), or has forgotten it. */
json_t *proc_last_exits(const struct proc *p)
{
    struct tsk_error ignored; /* the last end is known without the history */
    const struct proc_view *view = &p->view;
    json_t *facts CLEANUP_JSON = NULL, *list = json_array();
    int64_t next, read = p->history_offset;
    bool has_ended = view->state == PROC_STOPPED || view->state == PROC_FAILED;
    if (has_ended)
        json_array_append_new(list, exit_json(view->n, view->raw_status, view->by, view->stopped_at_ms));
    if (p->dir < 0 || view->n <= 1 || /* no start was before this one */
        proc_history_read(p->dir, read > HISTORY_WINDOW ? read - HISTORY_WINDOW : 0, &facts, &next, &ignored) < 0)
        return list;
    for (size_t i = json_array_size(facts); i-- > 0 && json_array_size(list) < LAST_EXITS;) {
        const json_t *fact = json_array_get(facts, i);
        const char *what = json_get_string(fact, "what", "");
        int64_t n = json_get_int(fact, "n", 0);
        bool is_end = strcmp(what, "exited") == 0 || strcmp(what, "lost") == 0;
        if (is_end && (n < view->n || !has_ended))
            json_array_insert_new(list, 0,
                                  exit_json(n, (int)json_get_int(fact, "status", -1),
                                            json_get_string(fact, "by", "unknown"), json_get_int(fact, "time", 0)));
    }
    return list;
}

json_t *proc_starts_since(const struct proc *p, int64_t n)
{
    struct tsk_error ignored; /* then nothing is known of them */
    json_t *facts CLEANUP_JSON = NULL, *list = json_array();
    int64_t next, read = p->history_offset;
    if (p->dir < 0 ||
        proc_history_read(p->dir, read > HISTORY_WINDOW ? read - HISTORY_WINDOW : 0, &facts, &next, &ignored) < 0)
        return list;
    json_each (facts, i, fact)
        if (json_text_is(fact, "what", "started") && json_get_int(fact, "n", 0) > n)
            json_array_append(list, fact);
    return list;
}

/* ---- the record ------------------------------------------------------------------------------------------------ */

static void put_state(json_t *record, const struct proc_view *view)
{
    bool has_ended = view->state == PROC_STOPPED || view->state == PROC_FAILED;
    bool is_running = view->state == PROC_RUNNING;
    json_object_set_new(record, "state_name", json_string(proc_state_names[view->state]));
    json_object_set_new(record, "phase", json_string(view->phase));
    if (*view->detail)
        json_object_set_new(record, "detail", json_string(view->detail));
    json_object_set_new(record, "pid", is_running ? json_integer(view->child.pid) : json_null());
    json_object_set_new(record, "restarts", json_integer(view->restarts));
    json_object_set_new(record, "run", json_integer(view->n));
    if (has_ended) {
        json_object_set_new(record, "exit_code", json_integer(view->exit_code));
        json_object_set_new(record, "raw_status", raw_status_json(view->raw_status));
    }
    if (view->state == PROC_FAILED)
        json_object_set_new(record, "error", json_string(view->error));
    if (view->next_start_ms)
        json_object_set_new(record, "next_start_at", json_of_time(view->next_start_ms));
    json_object_set_new(record, "holder_pid",
                        view->has_holder && view->holder.pid ? json_integer(view->holder.pid) : json_null());
}

struct log_files {
    const char *mode;
    char out[PATH_MAX + 200], errors[PATH_MAX + 200];
};

static void log_files_of(const struct proc_registry *reg, const struct proc *p, struct log_files *ret)
{
    ret->mode = *p->view.log ? p->view.log : proc_log_names[proc_spec_log(p->spec)];
    bool is_stamped = strcmp(ret->mode, "stamped") == 0, is_tty = strcmp(ret->mode, "tty") == 0;
    snprintf(ret->out, sizeof ret->out, "%s/processes/%s/" HOLD_LOG_DIR "/%s.log", reg->ws->state_path, p->id,
             is_stamped ? "output" : "stdout");
    snprintf(ret->errors, sizeof ret->errors, "%s/processes/%s/" HOLD_LOG_DIR "/%s.log", reg->ws->state_path, p->id,
             is_stamped ? "output"
             : is_tty   ? "stdout"
                        : "stderr");
}

static void put_log(json_t *record, const struct proc_registry *reg, const struct proc *p)
{
    struct log_files files;
    log_files_of(reg, p, &files);
    json_object_set_new(record, "log",
                        json_pack("{s:s, s:I, s:s, s:s}", "mode", files.mode, "max",
                                  (json_int_t)json_get_int(p->spec, "log_max", 0), "stdout", files.out, "stderr",
                                  files.errors));
}

/* What was dropped from it takes no room. */
static int64_t log_file_size(const char *path)
{
    struct stat st;
    if (fs->fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return st.st_blocks * 512 < st.st_size ? st.st_blocks * 512 : st.st_size;
}

static int64_t log_size(const struct proc_registry *reg, const struct proc *p)
{
    struct log_files files;
    log_files_of(reg, p, &files);
    return log_file_size(files.out) + (strcmp(files.out, files.errors) != 0 ? log_file_size(files.errors) : 0);
}

/* Of one that cannot be looked at: what its row says, as it is. */
static json_t *record_state(const struct proc *p)
{
    struct tsk_error ignored; /* then the view says that it cannot be read */
    json_t *state = NULL;
    if (strcmp(p->view.phase, PROC_UNREADABLE) == 0 &&
        json_parse(p->state_text, strlen(p->state_text), "state.db", &state, &ignored) == 0)
        return state;
    return proc_state_json(&p->view);
}

static char *worktree_text(const char *dir)
{
    char top[PATH_MAX];
    return strdup(worktree_of(dir, top) ? top : "");
}

/* Looks at the directory unless it is the one before. The caller's own is in the caller's worktree. */
static void record_look_at_place(struct proc_registry *reg, const char *dir)
{
    struct stat st;
    if (reg->place.dir && strcmp(reg->place.dir, dir) == 0)
        return;
    free(reg->place.dir);
    free(reg->place.top);
    reg->place.dir = strdup(dir);
    reg->place.top = NULL;
    reg->place.is_gone = fs->fstatat(AT_FDCWD, dir, &st, 0) < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (reg->place.is_gone || !reg->home || strcmp(reg->home, dir) == 0)
        return;
    if (!reg->worktree)
        reg->worktree = worktree_text(reg->home);
    char *top = worktree_text(dir);
    if (*top && *reg->worktree && worktree_is_sibling(top, reg->worktree))
        reg->place.top = top;
    else
        free(top);
}

const char *proc_directory(const struct proc_registry *reg, const struct proc *p)
{
    const char *cwd = p->known ? p->known->cwd : json_get_string(p->spec, "cwd", NULL);
    return cwd ? cwd : reg->ws->root;
}

static int probe_port(const json_t *spec, const char *key)
{
    struct proc_probe probe;
    proc_spec_probe(spec, key, &probe);
    if (probe.kind == PROBE_PORT)
        return probe.port;
    const char *host = probe.kind == PROBE_HTTP ? strstr(probe.text, "://") : NULL;
    const char *end = host ? strpbrk(host + 3, "/?#") : NULL, *colon = host ? strchr(host + 3, ':') : NULL;
    return colon && (!end || colon < end) ? (int)strtol(colon + 1, NULL, 10) : 0;
}

int proc_port(const struct proc *p)
{
    if (p->known)
        return p->known->port;
    int port = probe_port(p->spec, "ready");
    return port ? port : probe_port(p->spec, "health");
}

const char *proc_other_worktree(struct proc_registry *reg, const struct proc *p)
{
    record_look_at_place(reg, proc_directory(reg, p));
    return reg->place.top;
}

/* A directory that was removed under the process, as `git worktree remove` does, and one of another worktree. */
static void put_record_place(json_t *record, struct proc_registry *reg, const struct proc *p)
{
    const char *top = proc_other_worktree(reg, p);
    if (reg->place.is_gone)
        json_object_set_new(record, "directory_gone", json_true());
    else if (top)
        json_object_set_new(record, "other_worktree", json_string(top));
}

/* The reason of a failure, as the process said it. Others are not read: a list of thousands that run stays cheap. */
static void put_last_stderr(json_t *record, const struct proc *p)
{
    bool has_failed = p->view.state == PROC_FAILED || strcmp(p->view.phase, "backoff") == 0;
    json_t *words = has_failed && p->dir >= 0 ? log_last_stderr(p) : NULL;
    json_object_set_new(record, "last_stderr", words ? words : json_null());
}

static void put_starter(json_t *record, const struct proc *p)
{
    json_t *who = p->started_by && *p->started_by ? json_loads(p->started_by, 0, NULL) : NULL;
    json_object_set_new(record, "started_by", who ? who : json_null());
}

json_t *record_to_keep(const struct proc_registry *reg, const struct proc *p)
{
    static const char *const settings[] = {"restart",          "max_retries", "backoff_ms", "backoff_max_ms",
                                           "healthy_after_ms", "ready",       "health",     "depends_on"};
    json_t *record =
        json_pack("{s:s, s:O, s:O, s:o, s:O, s:o, s:O}", "id", p->id, "command", json_object_get(p->spec, "command"),
                  "args", json_object_get(p->spec, "args"), "env", proc_env_masked(json_object_get(p->spec, "env")),
                  "cwd", json_object_get(p->spec, "cwd"), "state", record_state(p), "auto_start_on_restore",
                  json_object_get(p->spec, "auto_start_on_restore"));
    json_object_set_new(record, "created_at", json_of_time(p->created_at_ms));
    json_object_set_new(record, "updated_at", json_of_time(p->updated_at_ms));
    put_state(record, &p->view);
    if (p->view.state == PROC_RUNNING && p->view.started_at_ms && p->updated_at_ms > p->view.started_at_ms)
        json_object_set_new(record, "needs_restart", json_true()); /* it runs with what it was before */
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        json_object_set(record, settings[i], json_object_get(p->spec, settings[i]));
    put_last_stderr(record, p);
    put_starter(record, p);
    put_log(record, reg, p); /* last: its size is put behind it */
    return record;
}

/* The rest of the record. */
static json_t *record_moving_part(struct proc_registry *reg, const struct proc *p)
{
    json_t *moving = json_object();
    if (p->view.has_usage)
        json_object_set_new(moving, "usage", usage_json(&p->view));
    put_record_place(moving, reg, p);
    return moving;
}

/* `size` -1: not wanted. */
static json_t *finish_known(const struct proc_known *known, int64_t size, const json_t *moving)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT, rest CLEANUP(buf_clear) = BUF_INIT;
    json_write(&rest, moving, false);
    buf_put(&text, known->record, known->len - strlen("}}"));
    if (size >= 0)
        buf_json_pair_int(&text, "size", size);
    buf_puts(&text, rest.len > strlen("{}") ? "}," : "}");
    buf_puts(&text, buf_str(&rest) + 1);
    return json_finished(&text);
}

json_t *proc_to_json_with(struct proc_registry *reg, const struct proc *p, const json_t *more)
{
    json_t *moving CLEANUP_JSON = record_moving_part(reg, p), *record;
    int64_t size = more ? log_size(reg, p) : -1;
    json_object_update(moving, (json_t *)more);
    if (p->known) {
        json_t *finished CLEANUP_JSON = finish_known(p->known, size, moving);
        return reg->is_written ? json_incref(finished) : json_unfinished(finished);
    }
    record = record_to_keep(reg, p);
    if (more)
        json_object_set_new(json_object_get(record, "log"), "size", json_integer(size));
    json_object_update(record, moving);
    return record;
}

json_t *proc_to_json(struct proc_registry *reg, const struct proc *p)
{
    return proc_to_json_with(reg, p, NULL);
}

static int overview(struct tsk_workspace *ws, const char *home, bool is_written, size_t most, json_t **ret,
                    size_t *ret_total, struct tsk_error *err)
{
    struct proc *list = NULL;
    size_t count = 0;
    struct proc_registry reg CLEANUP(proc_registry_close) = {.dir = -1};
    bool has_any = fs_may_exist(ws->state_dir, "processes");
    if (has_any && (proc_registry_open(&reg, ws, err) < 0 || proc_list_to_show(&reg, &list, &count, err) < 0))
        return -1;
    reg.home = has_any && home ? strdup(home) : NULL; /* only a registry that is open frees it */
    reg.is_written = is_written;
    json_t *records = json_array();
    int passes = count > most ? 2 : 1; /* those that run, then the others */
    for (int pass = 0; pass < passes; pass++)
        for (size_t i = 0; i < count && json_array_size(records) < most; i++)
            if (passes == 1 || (list[i].view.state == PROC_RUNNING) == (pass == 0))
                json_array_append_new(records, proc_to_json(&reg, &list[i]));
    proc_list_free(list, count);
    *ret = records;
    *ret_total = count;
    return 0;
}

int proc_overview(struct tsk_workspace *ws, const char *home, size_t most, json_t **ret, size_t *ret_total,
                  struct tsk_error *err)
{
    return overview(ws, home, false, most, ret, ret_total, err);
}

int proc_overview_to_write(struct tsk_workspace *ws, const char *home, size_t most, json_t **ret, size_t *ret_total,
                           struct tsk_error *err)
{
    return overview(ws, home, true, most, ret, ret_total, err);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

static bool record_has_changed(const struct proc *p)
{
    struct proc_stamp now[2];
    proc_stamps(p->dir, now);
    return memcmp(now, p->seen, sizeof now) != 0;
}

/* inotify on the directory; -1 where it is not available. */
static int watch_exit(const struct proc *p)
{
    char path[64];
    int fd = p->dir < 0 ? -1 : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", p->dir);
    if (inotify_add_watch(fd, path, IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF) >= 0)
        return fd;
    fs_close(&fd);
    return -1;
}

int proc_wait_change(const struct proc *p, int64_t timeout_ms, struct tsk_error *err)
{
    int notes CLEANUP_FD = watch_exit(p);
    int child CLEANUP_FD = p->view.child.pid ? proc_id_open(&p->view.child) : -1;
    int64_t deadline = timeout_ms < 0 ? INT64_MAX : clock_now().boot_ms + timeout_ms;
    struct pollfd fds[] = {{.fd = notes, .events = POLLIN}, {.fd = child, .events = POLLIN}};
    /* A child that ended before we looked will be in the record at once; and what changed before the watch was there is in
     * the stamps. */
    for (;;) {
        if (record_has_changed(p))
            return 1;
        int64_t left = deadline == INT64_MAX ? 1000 : deadline - clock_now().boot_ms;
        if (left <= 0)
            return 0;
        if (notes < 0 && left > RECORD_POLL_MS)
            left = RECORD_POLL_MS;
        int ready = poll(fds, 2, (int)(left < 1000 ? left : 1000));
        if (ready < 0 && errno != EINTR)
            return error_errno(err, "wait for", p->id);
        if (ready > 0)
            return 1;
        if (ready < 0)
            return 0;
    }
}
