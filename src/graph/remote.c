#include "graph/remote.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/word.h"
#include "graph/output.h"
#include "graph/remote_mark.h"
#include "graph/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REMOTE_READ    65536
#define EPOCHS_PER_RUN 1024 /* the epochs of one runner; a resume begins with the next 1024 */
#define REMOTE_END_MS  8000
#define SUCCESSORS_MAX 2    /* links that are started because one was killed at the end */
#define LINK_MOMENT_MS 1000 /* a link that did not live longer has a successor only after a pause */
#define LINK_PAUSE_MS  200

/* ---- the socket ----------------------------------------------------------------------------------------- */

static void remote_write(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    size_t at = 0;
    while (at < remote->out.len && remote->fd >= 0) {
        ssize_t len = send(remote->fd, remote->out.data + at, remote->out.len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            break;
        at += (size_t)len;
    }
    memmove(remote->out.data, remote->out.data + at, at ? remote->out.len - at : 0);
    remote->out.len -= at;
    runner->polls[runner->parallel + 1].events = (short)(POLLIN | (remote->out.len ? POLLOUT : 0));
}

void remote_say(struct runner *runner, const char *word, const char *text)
{
    struct buf *out = &runner->remote.out;
    size_t began = frame_begin(out);
    parcel_puts(out, word);
    if (text)
        parcel_puts(out, text);
    frame_end(out, began);
}

int64_t remote_lease_ms(const struct runner *runner)
{
    return runner->flow->lease_ms ? runner->flow->lease_ms : LEASE_MS;
}

static void say_open(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    size_t began = frame_begin(&remote->out);
    parcel_puts(&remote->out, "open");
    parcel_puts(&remote->out, runner->run.id);
    parcel_put_int(&remote->out, (int64_t)runner->epoch * EPOCHS_PER_RUN + remote->starts);
    parcel_put_int(&remote->out, remote_lease_ms(runner));
    parcel_put_int(&remote->out, runner->was_interrupted || remote->starts > 1);
    parcel_put_int(&remote->out, runner->options.is_local);
    frame_end(&remote->out, began);
    remote_files_say(runner);
}

static int link_start(struct runner *runner, struct tsk_error *err)
{
    struct remote *remote = &runner->remote;
    int pair[2];
    char *argv[] = {(char *)runner->options.remote_program, "link", NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "start", argv[0]);
    remote->pid = remote_child(runner, argv, pair[1], 2, err);
    fs_close(&pair[1]);
    if (remote->pid <= 0) {
        fs_close(&pair[0]);
        return -1;
    }
    remote->fd = pair[0];
    remote->starts++;
    remote->start_ms = clock_now().boot_ms;
    remote->in.max = remote->out.max = 1u << 30;
    buf_reset(&remote->in);
    buf_reset(&remote->out);
    remote->in_at = 0;
    remote->away[0] = '\0';
    runner->polls[runner->parallel + 1] = (struct pollfd){.fd = remote->fd, .events = POLLIN};
    say_open(runner);
    return 0;
}

int remote_begin(struct runner *runner, struct tsk_error *err)
{
    runner->remote.fd = runner->remote.local_fd = -1;
    runner->remote.places = -1;
    if (!runner->options.remote_program)
        return 0;
    int64_t last_epoch = ((int64_t)runner->epoch + 1) * EPOCHS_PER_RUN - 1;
    if (remote_files_begin(runner, err) < 0 || remote_mark_make(runner, last_epoch, remote_lease_ms(runner), err) < 0 ||
        link_start(runner, err) < 0)
        return -1;
    return runner->options.is_local ? local_start(runner, err) : 0;
}

static void link_reap(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    runner->polls[runner->parallel + 1].fd = -1;
    fs_close(&remote->fd);
    remote->fd = -1;
    if (remote->pid > 0)
        kill(remote->pid, SIGKILL); /* it ends by itself now, unless somebody has stopped it */
    while (remote->pid > 0 && waitpid(remote->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    remote->pid = 0;
}

void remote_close(struct runner *runner)
{
    if (!runner->options.remote_program || !runner->polls)
        return;
    link_reap(runner);
    local_end(runner);
    buf_clear(&runner->remote.in);
    buf_clear(&runner->remote.out);
    buf_clear(&runner->remote.acks);
    json_decref(runner->remote.other_versions);
}

/* The link has closed its socket: it has removed what the run had on the server, or could not; or somebody has killed it before that. */
static bool link_was_killed(struct remote *remote)
{
    int status = 0;
    while (waitpid(remote->pid, &status, 0) < 0 && errno == EINTR)
        ;
    remote->pid = 0;
    return WIFSIGNALED(status);
}

void remote_end(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    struct tsk_error err;
    int64_t until = clock_now().boot_ms + REMOTE_END_MS;
    char data[REMOTE_READ];
    int successors = 0;
    if (remote->fd < 0)
        return;
    remote_flush(runner);
    remote_say(runner, "end", NULL);
    while (clock_now().boot_ms < until) {
        struct pollfd one = {.fd = remote->fd, .events = POLLIN};
        remote_write(runner);
        if (poll(&one, 1, remote->out.len ? 10 : 500) <= 0)
            continue;
        ssize_t len = recv(remote->fd, data, sizeof data, MSG_DONTWAIT);
        if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
            continue;
        bool was_killed = link_was_killed(remote);
        link_reap(runner);
        if (!was_killed || successors++ == SUCCESSORS_MAX || link_start(runner, &err) < 0)
            break;
        remote_say(runner, "end", NULL);
    }
    link_reap(runner);
    local_end(runner);
    remote_mark_drop(runner->ws, runner->run.id);
}

size_t remote_window(const struct runner *runner)
{
    int64_t places = runner->remote.places;
    if (!runner->options.remote_program || runner->has_parallel_option || places < 0)
        return runner->parallel;
    return places < 1 ? 1 : (size_t)places < runner->parallel ? (size_t)places : runner->parallel;
}

/* ---- what waits to be sent ------------------------------------------------------------------------------- */

void remote_flush(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    if (remote->fd < 0)
        return;
    if (remote->acks.len) {
        buf_put(&remote->out, remote->acks.data, remote->acks.len);
        buf_reset(&remote->acks);
    }
    if (remote->out.len)
        remote_write(runner);
}

/* ---- what comes back ------------------------------------------------------------------------------------ */

/* NULL: it is about an attempt that is not out any more. */
static struct running *slot_of(struct runner *runner, const char *id)
{
    char *end;
    uint64_t fence = strtoull(id, &end, 10);
    size_t place = *end == '.' ? strtoull(end + 1, &end, 10) : SIZE_MAX;
    unsigned pushes = *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    if (place >= runner->parallel)
        return NULL;
    struct running *slot = &runner->running[place];
    return slot->is_used && slot->claim.fence == fence && slot->remote.pushes == pushes ? slot : NULL;
}

static void ack_later(struct runner *runner, const char *id)
{
    struct buf *acks = &runner->remote.acks;
    acks->max = BUF_MAX_DEFAULT;
    size_t began = frame_begin(acks);
    parcel_puts(acks, "ack");
    parcel_puts(acks, id);
    frame_end(acks, began);
}

/* The worker's checkout is not ours: said once for each. Files that travel with the run make that meaningless. */
static void take_commit(struct runner *runner, struct running *slot, const char *worker, const char *commit)
{
    size_t known = json_object_size(runner->workers);
    const char *ours = runner->remote.commit;
    bool is_other = *commit && *ours && strcmp(commit, ours) != 0 && !runner->remote.files[0];
    snprintf(slot->remote.commit, sizeof slot->remote.commit, "%s", is_other ? commit : "");
    view_worker(runner, worker, slot->remote.commit);
    if (is_other && json_object_size(runner->workers) > known)
        runner_fact(runner, "run.other_commit", runner->run.id, NULL,
                    json_pack("{s:s, s:s, s:s}", "worker", worker, "commit", commit, "runner_commit", ours), true);
}

static void say_started(struct runner *runner, struct running *slot)
{
    slot->remote.is_unsaid = false;
    runner_fact(runner, "task.started", slot->claim.session, slot->claim.task,
                json_pack("{s:i, s:s, s:s, s:o*}", "attempt", (int)slot->claim.attempt, "worker", slot->remote.worker,
                          "fence", slot->remote.fence, "log_from",
                          slot->log_from ? json_integer((json_int_t)slot->log_from) : NULL),
                true);
}

/* It executes the task after all. */
static void version_is_ours(struct runner *runner, struct running *slot)
{
    if (!slot->remote.is_unsaid)
        return;
    json_object_del(runner->remote.other_versions, slot->remote.process);
    say_started(runner, slot);
}

static void take_claimed(struct runner *runner, struct running *slot, struct parcel words)
{
    struct now now = clock_now();
    const char *fence = parcel_text(&words), *worker = parcel_text(&words);
    take_commit(runner, slot, worker, parcel_text(&words));
    const char *process = parcel_text(&words);
    slot->remote.is_claimed = true;
    slot->remote.log_at = 0;
    if (!slot->is_log_named)
        task_log_goes_on(runner, slot);
    snprintf(slot->remote.worker, sizeof slot->remote.worker, "%s", worker);
    snprintf(slot->remote.process, sizeof slot->remote.process, "%s", process);
    snprintf(slot->remote.fence, sizeof slot->remote.fence, "%s", fence);
    slot->started_ms = now.boot_ms;
    slot->started_wall_ms = now.wall_ms;
    view_set(runner, slot->claim.node,
             &(struct task_view){.state = VIEW_RUNNING,
                                 .attempt = (uint16_t)slot->claim.attempt,
                                 .exit_code = -1,
                                 .worker = view_worker(runner, worker, slot->remote.commit),
                                 .takeovers = (uint8_t)slot->remote.takeovers,
                                 .started_ms = now.wall_ms});
    slot->remote.is_unsaid = json_object_get(runner->remote.other_versions, process) != NULL;
    if (!slot->remote.is_unsaid)
        say_started(runner, slot);
}

/* Bytes that are there already are not written twice. */
static void take_log(struct runner *runner, struct running *slot, struct parcel words)
{
    struct tsk_error err;
    struct piece bytes;
    parcel_text(&words);
    int64_t at = parcel_int(&words);
    if (!parcel_next(&words, &bytes) || bytes.len == 0 || at + (int64_t)bytes.len <= slot->remote.log_at)
        return;
    size_t skip = at < slot->remote.log_at ? (size_t)(slot->remote.log_at - at) : 0;
    slot->remote.log_at = at + (int64_t)bytes.len;
    if (!slot->is_log_named && task_log_open(runner, slot, &err) < 0) {
        log_problem(&err);
        return;
    }
    task_name_log(runner, slot);
    if (fs_write_all(runner->logs[slot - runner->running].fd, bytes.data + skip, bytes.len - skip) < 0) {
        fs_error(&err, "write", runner->run.dir, slot->log);
        log_problem(&err);
    }
}

static int remote_keep_output(struct runner *runner, const struct running *slot, const struct wire_result *result,
                              struct tsk_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "output.%llu", (unsigned long long)slot->claim.fence);
    if (result->is_output_too_large)
        return error_set(err, TSK_INVALID_INPUT, "output_too_large", "task", slot->claim.task, "max", "16 MiB", NULL);
    if (!result->output_len)
        return 0;
    int fd CLEANUP_FD = fs->openat(runner->run.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 || fs_write_all(fd, result->output, result->output_len) < 0
               ? fs_error(err, "write", runner->run.dir, name)
               : 0;
}

static void end_not_started(struct runner *runner, struct running *slot, const struct wire_result *result)
{
    struct tsk_error err;
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    char **argv = task_argv(runner, slot);
    execution_not_started(slot->claim.task, argv[0], task ? flow_string(runner->flow, task->cwd) : NULL, result->output,
                          result->status, &err);
    free(argv);
    bool is_stopped = slot->process.stops != STOP_NONE;
    task_complete(runner, slot, is_stopped ? OUTCOME_STOPPED : OUTCOME_FAILED, result->status == ENOENT ? 127 : 126,
                  NULL, is_stopped ? NULL : &err);
}

static void end_refused(struct runner *runner, struct running *slot, const struct wire_result *result)
{
    static const char *const reasons[][2] = {{WIRE_FILES, "task_refused_files"},
                                             {WIRE_UNSIGNED, "task_refused_unsigned"},
                                             {WIRE_SIGNATURE, "task_refused_signature"},
                                             {WIRE_UNREADABLE, "task_refused_unreadable"}};
    struct tsk_error err;
    const char *key = "task_result_unknown";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strcmp(result->output, reasons[i][0]) == 0)
            key = reasons[i][1];
    error_set(&err, TSK_TASK_FAILED, key, "task", slot->claim.task, "worker", slot->remote.worker, NULL);
    task_complete(runner, slot, OUTCOME_FAILED, -1, NULL, &err);
}

static void take_end(struct runner *runner, struct running *slot, struct parcel words)
{
    struct tsk_error err;
    struct wire_result result;
    struct piece bytes = {"", 0};
    parcel_text(&words);
    parcel_text(&words);
    parcel_next(&words, &bytes);
    if (wire_read_result((struct parcel){bytes.data, bytes.len}, &result) < 0) {
        error_set(&err, TSK_TASK_FAILED, "task_result_unknown", "task", slot->claim.task, NULL);
        task_complete(runner, slot, OUTCOME_FAILED, -1, NULL, &err);
        return;
    }
    if (result.end == WIRE_NOT_STARTED || result.end == WIRE_REFUSED) {
        (result.end == WIRE_REFUSED ? end_refused : end_not_started)(runner, slot, &result);
        return;
    }
    slot->process.end.si_code = result.end == WIRE_EXITED ? CLD_EXITED : CLD_KILLED;
    slot->process.end.si_status = result.status;
    if (result.has_timed_out && slot->process.stops == STOP_NONE)
        slot->process.stops = STOP_TIMEOUT;
    if (remote_keep_output(runner, slot, &result, &err) < 0)
        task_complete(runner, slot, OUTCOME_FAILED, execution_exit_code(&slot->process), NULL, &err);
    else
        task_judge(runner, slot);
}

static void say_problem(const struct runner *runner, const char *key, const char *why)
{
    struct tsk_error err;
    error_set(&err, TSK_ENVIRONMENT, key, "run", runner->run.id, "reason", why, NULL);
    log_problem(&err);
}

/* The first worker that cannot execute tasks of our version. `id`: of its process. */
static void name_version(struct runner *runner, const char *id)
{
    struct tsk_error err;
    if (runner->remote.has_said_version)
        return;
    error_set(&err, TSK_ENVIRONMENT, "remote_version", "run", runner->run.id, "worker", id, NULL);
    error_add_next(&err, "tasuki workers list --redis %s", runner->options.remote_shown);
    log_problem(&err);
    runner->remote.has_said_version = true;
}

/* A worker that has returned a task because of its version returns each one: it has an event once. */
static bool say_version(struct runner *runner, const char *id)
{
    struct remote *remote = &runner->remote;
    if (json_object_get(remote->other_versions, id))
        return false;
    if (!remote->other_versions)
        remote->other_versions = json_object();
    json_object_set_new(remote->other_versions, id, json_true());
    name_version(runner, id);
    return true;
}

/* R2. */
static void take_lost(struct runner *runner, struct running *slot, const char *why, const char *worker)
{
    struct tsk_error err;
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    uint8_t on_interrupt = task ? task->on_interrupt : INTERRUPT_RERUN;
    bool is_sure = strcmp(why, "unsure") != 0, has_begun = strcmp(why, LOST_VERSION) != 0;
    slot->remote.takeovers += is_sure && has_begun;
    if (is_sure && has_begun && slot->remote.is_unsaid)
        say_started(runner, slot);
    if (is_sure && (has_begun || say_version(runner, worker)))
        runner_fact(runner, "task.lost", slot->claim.session, slot->claim.task,
                    json_pack("{s:i, s:s, s:s, s:i}", "attempt", (int)slot->claim.attempt, "worker", worker, "why", why,
                              "times", (int)slot->remote.takeovers),
                    true);
    if (slot->process.stops != STOP_NONE) {
        task_complete(runner, slot, OUTCOME_STOPPED, -1, NULL, NULL);
    } else if (slot->remote.takeovers >= TAKEOVERS_MAX) {
        error_set(&err, TSK_TASK_FAILED, "task_poison", "task", slot->claim.task, "times",
                  DIGITS(slot->remote.takeovers), NULL);
        task_complete(runner, slot, OUTCOME_FAILED, -1, NULL, &err);
    } else if (on_interrupt == INTERRUPT_RERUN || !has_begun) {
        remote_push(runner, slot);
    } else {
        task_interrupted(runner, slot, on_interrupt);
    }
}

/* `others`: where workers are that another prefix or pool separates from this run. */
static void say_nobody(const struct runner *runner, const char *others)
{
    struct tsk_error err;
    error_set(&err, TSK_ENVIRONMENT, *others ? "remote_nobody_here" : "remote_nobody", "run", runner->run.id, "others",
              others, NULL);
    error_add_next(&err, "tasuki worker --redis %s", runner->options.remote_shown);
    log_problem(&err);
}

static void take_about_slot(struct runner *runner, const char *what, struct parcel words)
{
    const char *id = parcel_text(&words);
    struct running *slot = slot_of(runner, id);
    if (strcmp(what, "end") == 0)
        ack_later(runner, id);
    if (!slot)
        return;
    if (strcmp(what, "log") == 0 || strcmp(what, "end") == 0)
        version_is_ours(runner, slot);
    if (strcmp(what, "claimed") == 0)
        take_claimed(runner, slot, words);
    else if (strcmp(what, "log") == 0)
        take_log(runner, slot, words);
    else if (strcmp(what, "end") == 0)
        take_end(runner, slot, words);
    else if (strcmp(what, "gone") == 0)
        task_complete(runner, slot, OUTCOME_STOPPED, -1, NULL, NULL);
    else if (strcmp(what, "lost") == 0) {
        const char *why = parcel_text(&words);
        take_lost(runner, slot, why, parcel_text(&words));
    }
}

static void take_frame(struct runner *runner, struct parcel words)
{
    const char *what = parcel_text(&words);
    if (strcmp(what, "places") == 0)
        runner->remote.places = parcel_int(&words);
    else if (strcmp(what, "nobody") == 0)
        say_nobody(runner, parcel_text(&words));
    else if (strcmp(what, "away") == 0) {
        snprintf(runner->remote.away, sizeof runner->remote.away, "%s", parcel_text(&words));
        say_problem(runner, "remote_away", runner->remote.away);
    } else if (strcmp(what, "here") == 0)
        runner->remote.away[0] = '\0';
    else if (strcmp(what, "version") == 0)
        name_version(runner, parcel_text(&words));
    else if (strcmp(what, "stale") == 0)
        say_problem(runner, "remote_stale", "");
    else
        take_about_slot(runner, what, words);
}

/* R4. */
static void link_died(struct runner *runner)
{
    struct tsk_error err;
    link_reap(runner);
    if (clock_now().boot_ms - runner->remote.start_ms < LINK_MOMENT_MS) /* it may end at once each time */
        nanosleep(&(struct timespec){.tv_nsec = LINK_PAUSE_MS * 1000000}, NULL);
    if (link_start(runner, &err) < 0) {
        log_problem(&err);
        runner_cancel(runner);
    }
    for (size_t i = 0; i < runner->flow->graph.scopes.count; i++)
        runner->files[i].number = 0; /* the values have to travel again */
    for (size_t i = 0; i < runner->parallel; i++) {
        struct running *slot = &runner->running[i];
        if (!slot->is_used || slot->process.pid != -1)
            continue;
        slot->channel_file = 0;
        take_lost(runner, slot, slot->remote.is_claimed ? "link" : "unsure", slot->remote.worker);
    }
}

void remote_read(struct runner *runner)
{
    struct remote *remote = &runner->remote;
    struct parcel words;
    bool is_dead = false;
    while (remote->fd >= 0 && !is_dead) {
        char *room = buf_reserve(&remote->in, REMOTE_READ);
        BUG(!room);
        ssize_t len = recv(remote->fd, room, REMOTE_READ, MSG_DONTWAIT);
        if (len < 0 && errno == EINTR)
            continue;
        is_dead = len == 0 || (len < 0 && errno != EAGAIN);
        if (len <= 0)
            break;
        remote->in.len += (size_t)len;
    }
    while (frame_take(&remote->in, &remote->in_at, &words) == 1)
        take_frame(runner, words);
    memmove(remote->in.data, remote->in.data + remote->in_at, remote->in_at ? remote->in.len - remote->in_at : 0);
    remote->in.len -= remote->in_at;
    remote->in_at = 0;
    if (is_dead)
        link_died(runner);
    else
        remote_write(runner);
}
