/* runner_files.c - the files between a run and its tasks: what they read (channel, answer), what they write (output, logs). */
#include "base/fs.h"
#include "base/log.h"
#include "base/word.h"
#include "graph/output.h"
#include "graph/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_MS            1000
#define TASK_STAMP_SLACK_MS 40

static void io_name(char name[64], const char *what, uint64_t number)
{
    snprintf(name, 64, "%s.%llu", what, (unsigned long long)number);
}

static int write_file(struct runner *runner, const char *name, const void *data, size_t len, struct tsk_error *err)
{
    int fd CLEANUP_FD = fs->openat(runner->run.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 || fs_write_all(fd, data, len) < 0 ? fs_error(err, "write", runner->run.dir, name) : 0;
}

/* What there is to read as long as nobody has written: one file for all runs. */
static int empty_channel(struct runner *runner, struct tsk_error *err)
{
    struct stat st;
    if (runner->has_empty_channel ||
        fs->fstatat(runner->ws->state_dir, RUNNER_EMPTY_CHANNEL, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        runner->has_empty_channel = true;
        return 0;
    }
    if (fs_replace_file(runner->ws->state_dir, RUNNER_EMPTY_CHANNEL, 0600, "{}", 2) < 0)
        return fs_error(err, "write", runner->ws->state_dir, RUNNER_EMPTY_CHANNEL);
    runner->has_empty_channel = true;
    return 0;
}

uint32_t task_values_scope(const struct runner *runner, const struct running *slot)
{
    const struct plan *plan = memory_plan(runner->memory);
    uint32_t scope = slot->scope, around;
    for (; scope != GRAPH_ROOT; scope = around) {
        around = graph_scope(plan->graph, scope)->parent;
        if (session_of(plan, around)->channel.version != session_of(plan, scope)->channel.version)
            break;
    }
    return scope;
}

/* The values that the task may read: a file that all tasks of a session share as long as nothing changes. */
int task_channel(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    slot->values_scope = task_values_scope(runner, slot);
    struct channel_file *file = &runner->files[slot->values_scope];
    const void *session = session_of(memory_plan(runner->memory), slot->values_scope);
    uint64_t version;
    json_t *values CLEANUP_JSON = memory_values(runner->memory, &slot->claim, &version);
    char name[64];
    if (json_object_size(values) == 0)
        return empty_channel(runner, err);
    if (!file->number || file->session != session || file->version != version) {
        struct buf text CLEANUP(buf_clear) = {.max = 1u << 30};
        if (file->number && !file->users) {
            io_name(name, "channel", file->number);
            fs->unlinkat(runner->run.dir, name, 0);
        }
        *file = (struct channel_file){.session = session, .version = version, .number = ++runner->file_number};
        io_name(name, "channel", file->number);
        json_write(&text, values, false);
        if (text.failed || write_file(runner, name, text.data, text.len, err) < 0)
            return -1;
    }
    file->users++;
    slot->channel_file = file->number;
    return 0;
}

void task_channel_done(struct runner *runner, struct running *slot)
{
    struct channel_file *file = &runner->files[slot->values_scope];
    char name[64];
    if (slot->channel_file && slot->channel_file == file->number) {
        file->users--;
    } else if (slot->channel_file) { /* there is a newer one; who else reads this one is not counted, so see */
        for (size_t i = 0; i < runner->parallel; i++)
            if (&runner->running[i] != slot && runner->running[i].is_used &&
                runner->running[i].channel_file == slot->channel_file)
                return;
        io_name(name, "channel", slot->channel_file);
        fs->unlinkat(runner->run.dir, name, 0);
    }
}

static struct slot_log *log_of(struct runner *runner, const struct running *slot)
{
    return &runner->logs[slot - runner->running];
}

/* A task that runs again in a later cycle, or after a resume, continues in its log, and so does one that was added with a name that
 * another had before. The rest need not look for one. */
bool task_log_goes_on(struct runner *runner, struct running *slot)
{
    struct slot_log *log = log_of(runner, slot);
    struct stat st;
    if (!runner->epoch && slot->claim.cycle <= 1 && !(slot->claim.node & PLAN_DYNAMIC))
        return false;
    rundir_log_name(slot->claim.session, slot->claim.task, slot->claim.attempt, slot->log);
    int fd = fs->openat(runner->run.dir, slot->log, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    fs_close(&log->fd);
    log->fd = fd;
    slot->is_log_named = true;
    slot->log_from = fs->fstat(fd, &st) == 0 ? st.st_size : 0;
    return true;
}

int task_log_open(struct runner *runner, struct running *slot, struct tsk_error *err)
{
    struct slot_log *log = log_of(runner, slot);
    char name[64];
    if (task_log_goes_on(runner, slot) || log->fd >= 0)
        return 0;
    snprintf(name, sizeof name, "slot.%zu", (size_t)(slot - runner->running));
    log->fd = fs->openat(runner->run.dir, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return log->fd < 0 ? fs_error(err, "open", runner->run.dir, name) : 0;
}

/* Only where nobody writes any more: what a runner that was killed has left. */
static int join_logs(struct runner *runner, const char *from, const char *to)
{
    struct buf text CLEANUP(buf_clear) = {.max = 1u << 30};
    int fd CLEANUP_FD = fs->openat(runner->run.dir, to, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_file(runner->run.dir, from, (1u << 30) - 1, &text) < 0 ||
        fs_write_all(fd, buf_str(&text), text.len) < 0)
        return -1;
    return fs->unlinkat(runner->run.dir, from, 0);
}

int runner_keep_output(struct runner *runner, size_t place, const char *session, const char *task, unsigned attempt,
                       char path[512])
{
    char folder[RUN_SESSION + 16], from[64];
    snprintf(from, sizeof from, "slot.%zu", place);
    snprintf(folder, sizeof folder, "tasks/%.*s", RUN_SESSION, session);
    rundir_log_name(session, task, attempt, path);
    int result = fs->renameat2(runner->run.dir, from, runner->run.dir, path, RENAME_NOREPLACE);
    if (result < 0 && errno == ENOENT && fs_make_dirs(runner->run.dir, folder) == 0)
        result = fs->renameat2(runner->run.dir, from, runner->run.dir, path, RENAME_NOREPLACE);
    if (result < 0 && errno == EEXIST)
        result = join_logs(runner, from, path);
    return result;
}

void task_name_log(struct runner *runner, struct running *slot)
{
    struct tsk_error err;
    if (slot->is_log_named || log_of(runner, slot)->fd < 0)
        return;
    if (runner_keep_output(runner, (size_t)(slot - runner->running), slot->claim.session, slot->claim.task,
                           slot->claim.attempt, slot->log) < 0) {
        fs_error(&err, "name", runner->run.dir, slot->log);
        log_problem(&err);
    }
    slot->is_log_named = true;
}

/* At the end: a file that was written to, or that somebody may still write to, belongs to this task. */
void task_log_close(struct runner *runner, struct running *slot, bool must_stay)
{
    struct slot_log *log = log_of(runner, slot);
    struct stat st;
    if (log->fd < 0)
        return;
    bool is_used = must_stay || slot->is_log_named || fs->fstat(log->fd, &st) < 0 || st.st_size > 0 ||
                   (slot->process.pid > 0 && kill(-slot->process.pid, 0) == 0);
    if (!is_used)
        return;
    task_name_log(runner, slot);
    fs_close(&log->fd);
    log->fd = -1;
}

int task_answer(struct runner *runner, const struct running *slot, bool *ret_has_answer, struct tsk_error *err)
{
    char name[64];
    *ret_has_answer = false;
    if (!json_object_size(runner->answers))
        return 0;
    const json_t *answers = json_object_get(runner->answers, DIGITS(slot->claim.node));
    *ret_has_answer = json_array_size(answers) > 0;
    if (!*ret_has_answer)
        return 0;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *last = json_array_get(answers, json_array_size(answers) - 1);
    json_t *document CLEANUP_JSON = json_pack("{s:O, s:O, s:O}", "question", json_object_get(last, "question"),
                                              "answer", json_object_get(last, "answer"), "all", answers);
    json_write(&text, document, false);
    io_name(name, "answer", slot->claim.fence);
    return write_file(runner, name, buf_str(&text), text.len, err);
}

/* Most tasks write nothing, and looking for a name that was never there costs 2 % of a short task. Nothing was made in the run's
 * directory while the task ran if the directory was last changed well before: by more than a tick of the clock that files are
 * stamped with. Only for short tasks, as long as nobody sets the clock meanwhile, and where stamps are the kernel's own and not
 * whole seconds. */
static bool may_have_written(struct runner *runner, const struct running *slot)
{
    struct stat st;
    struct now now = clock_now();
    int64_t ran_ms = now.boot_ms - slot->started_ms, by_wall_ms = now.wall_ms - slot->started_wall_ms;
    if (!runner->has_exact_stamps || runner->options.remote_program || ran_ms > SHORT_MS ||
        llabs(by_wall_ms - ran_ms) > TASK_STAMP_SLACK_MS / 2)
        return true;
    if (fs->fstat(runner->run.dir, &st) < 0 || st.st_mtim.tv_nsec == 0)
        return true;
    return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 + TASK_STAMP_SLACK_MS >=
           slot->started_wall_ms;
}

static int too_large(const struct running *slot, const char *text, const char *max, struct tsk_error *err)
{
    return error_set(err, TSK_INVALID_INPUT, text, "task", slot->claim.task, "max", max, NULL);
}

/* Whether the journal can keep it, and be read afterwards. Encoded, a line grows by less than WORST. */
static int output_fits(struct runner *runner, const struct running *slot, const struct output *output, size_t len,
                       struct tsk_error *err)
{
    enum { WORST = 32, REST = 64 << 10 };
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_LINE_MAX - REST};
    struct stat st;
    size_t most = len * WORST;
    if (len >= JOURNAL_LINE_MAX / WORST - REST) {
        const json_t *const parts[] = {output->effects.list, output->requests, output->question};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            if (parts[i])
                json_write(&text, parts[i], false);
        if (text.failed)
            return too_large(slot, "output_too_large_json", "32 MiB", err);
        most = text.len;
    }
    if (fs->fstat(runner->journal.fd, &st) == 0 && (size_t)st.st_size + most > JOURNAL_MAX - 4 * JOURNAL_LINE_MAX)
        return too_large(slot, "journal_too_large", "1 GiB", err);
    return 0;
}

/* What it wrote; an absent file is an empty one. */
int task_output(struct runner *runner, const struct running *slot, struct output *ret, struct tsk_error *err)
{
    char name[64];
    struct buf text CLEANUP(buf_clear) = {.max = OUTPUT_MAX};
    *ret = (struct output){0};
    if (!may_have_written(runner, slot))
        return 0;
    io_name(name, "output", slot->claim.fence);
    if (fs_read_file(runner->run.dir, name, OUTPUT_MAX - 1, &text) < 0)
        return errno == ENOENT  ? 0
               : errno == EFBIG ? too_large(slot, "output_too_large", "16 MiB", err)
                                : fs_error(err, "read", runner->run.dir, name);
    fs->unlinkat(runner->run.dir, name, 0);
    if (output_parse(ret, buf_str(&text), text.len, err) < 0)
        return -1;
    if (output_fits(runner, slot, ret, text.len, err) == 0)
        return 0;
    output_clear(ret);
    return -1;
}
