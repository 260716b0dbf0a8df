#include "graph/runner.h"
#include "base/listing.h"
#include "base/log.h"
#include "graph/leftover.h"
#include "graph/remote.h"
#include "graph/reply.h"
#include "hold/protocol.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASK_BEAT_MS   1000
#define TICK_MS        200 /* a person sees what a task prints soon enough */
#define FIRST_STAGE_MS 20  /* a run that is over sooner writes its stage once */

/* ---- the loop ------------------------------------------------------------------------------------------- */

/* A task that ends without a process still takes a place for a moment. Only `never` keeps its successors from running. */
static void runner_pass_over(struct runner *runner, const struct claim *claim, enum pass why)
{
    struct running *slot = running_take(runner, claim);
    memory_pass(runner->memory, claim);
    slot->is_passed = why == PASS_START;
    slot->is_unwanted = why == PASS_WHEN;
    task_complete(runner, slot, why == PASS_NEVER ? OUTCOME_SKIPPED : OUTCOME_OK, 0, NULL, NULL);
}

static void journal_start(struct runner *runner, const struct claim *claim, size_t place)
{
    struct buf *record = journal_begin(&runner->journal, "start");
    buf_json_pair_int(record, "n", claim->node);
    buf_json_pair(record, "k", claim->task);
    buf_json_pair(record, "s", claim->session);
    buf_json_pair_int(record, "a", claim->attempt);
    buf_json_pair_int(record, "p", (int64_t)place);
    journal_end(&runner->journal);
}

/* Fills the free places. X1: the journal first, then the processes. */
static int start_ready(struct runner *runner, struct tsk_error *err)
{
    struct claim claim;
    size_t before = runner->running_count;
    while (runner->running_count < remote_window(runner) && !runner->cancels &&
           memory_claim(runner->memory, clock_now().boot_ms, &claim)) {
        enum pass why = task_passes(runner, &claim);
        if (why != PASS_NOT) {
            runner_pass_over(runner, &claim, why);
            continue;
        }
        if (!memory_execute(runner->memory, &claim))
            continue;
        journal_start(runner, &claim, (size_t)(running_take(runner, &claim) - runner->running));
    }
    runner_write_late(runner);
    if (journal_flush(&runner->journal, err) < 0)
        return -1;
    for (size_t i = 0; runner->running_count > before && i < runner->parallel; i++)
        if (runner->running[i].is_used && runner->running[i].process.pid == 0)
            task_start(runner, &runner->running[i]);
    remote_flush(runner);
    return 0;
}

static void tell_cancelling(struct runner *runner, const struct tsk_error *why)
{
    struct buf message CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&message, runner->flow->lang, why);
    runner_fact(runner, "run.cancelling", runner->run.id, NULL,
                json_pack("{s:s, s:s}", "reason_code", tsk_code_name(why->code), "reason", buf_str(&message)), true);
}

static void cancel_because(struct runner *runner, const struct tsk_error *reason)
{
    if (runner->cancels++) {
        runner->executor.grace_ms = 0;
    } else {
        tell_cancelling(runner, reason);
        memory_stop(runner->memory, reason);
    }
    for (size_t i = 0; i < runner->parallel; i++)
        if (runner->running[i].is_used)
            task_stop(runner, &runner->running[i], STOP_RUN);
}

void runner_cancel(struct runner *runner)
{
    struct tsk_error reason;
    error_set(&reason, TSK_RUN_FAILED, "run_cancelled", NULL);
    cancel_because(runner, &reason);
}

/* X6. */
static void runner_lose(struct runner *runner, struct tsk_error *reason)
{
    struct memory_status status;
    memory_status(runner->memory, &status);
    bool is_complete = runner->running_count == 0 && status.ready == 0 && status.state != RUN_ACTIVE;
    if (!reason->code)
        error_set(reason, TSK_LOCK_LOST, "run_lock_lost", NULL);
    if (!is_complete && !runner->cancels)
        cancel_because(runner, reason);
}

void runner_beat(struct runner *runner, bool task_ended)
{
    const struct runner_options *options = &runner->options;
    if (!options->beat || runner->is_replaying || runner->cancels)
        return;
    runner->has_progress |= task_ended;
    int64_t now = clock_now().boot_ms;
    if (now < runner->last_beat_ms + (task_ended ? TASK_BEAT_MS : options->beat_ms))
        return;
    runner->last_beat_ms = now;
    bool has_progress = runner->has_progress;
    struct tsk_error why = {.code = TSK_OK};
    runner->has_progress = false;
    if (!options->beat(options->beat_data, has_progress, &why))
        runner_lose(runner, &why);
}

static void check_times(struct runner *runner, int64_t now)
{
    for (size_t i = 0; i < runner->parallel; i++) {
        struct running *slot = &runner->running[i];
        if (slot->is_used && slot->process.deadline_ms && slot->process.deadline_ms <= now)
            task_stop(runner, slot, STOP_TIMEOUT);
        else if (slot->is_used && slot->process.kill_at_ms && slot->process.kill_at_ms <= now)
            task_stop(runner, slot, slot->process.stops);
        if (slot->is_used && slot->process.look_at_ms && slot->process.look_at_ms <= now)
            task_exited(runner, slot);
        if (slot->is_used && slot->process.pid > 0 && !slot->is_log_named && slot->started_ms + LOG_NAME_MS <= now)
            task_name_log(runner, slot);
    }
    runner_beat(runner, false);
    if (runner->next_stage_ms <= now)
        runner_save_stage(runner);
    if (runner->options.wants_ticks && runner->next_tick_ms <= now) {
        runner->next_tick_ms = now + TICK_MS;
        runner_fact(runner, "run.progress", runner->run.id, NULL, NULL, false);
    }
}

/* Until when nothing can happen by itself. */
static int wait_time(struct runner *runner, const struct memory_status *status, int64_t now)
{
    int64_t at = runner->next_stage_ms;
    at = status->next_due_ms < at ? status->next_due_ms : at;
    if (runner->options.wants_ticks && runner->next_tick_ms < at)
        at = runner->next_tick_ms;
    if (runner->options.beat && runner->last_beat_ms + runner->options.beat_ms < at)
        at = runner->last_beat_ms + runner->options.beat_ms;
    if (runner->trail.len && runner->trail_due_ms < at)
        at = runner->trail_due_ms;
    for (size_t i = 0; i < runner->parallel; i++) {
        const struct running *slot = &runner->running[i];
        if (slot->is_used && slot->process.deadline_ms && slot->process.deadline_ms < at)
            at = slot->process.deadline_ms;
        if (slot->is_used && slot->process.kill_at_ms && slot->process.kill_at_ms < at)
            at = slot->process.kill_at_ms;
        if (slot->is_used && slot->process.look_at_ms && slot->process.look_at_ms < at)
            at = slot->process.look_at_ms;
        if (slot->is_used && slot->process.pid > 0 && !slot->is_log_named && slot->started_ms + LOG_NAME_MS < at)
            at = slot->started_ms + LOG_NAME_MS;
    }
    return at <= now ? 0 : at - now > 60000 ? 60000 : (int)(at - now);
}

static int runner_loop(struct runner *runner, struct tsk_error *err)
{
    struct memory_status status;
    for (;;) {
        if (runner_take_replies(runner, err) < 0 || start_ready(runner, err) < 0)
            return -1;
        memory_status(runner->memory, &status);
        if (runner->running_count == 0 && status.ready == 0 && status.state != RUN_ACTIVE)
            return journal_flush(&runner->journal, err);
        if (runner->running_count < remote_window(runner) && status.ready && !runner->cancels)
            continue; /* a start that failed at once has freed a place */
        int64_t now = clock_now().boot_ms;
        if (runner->trail_due_ms <= now)
            runner_write_trail(runner);
        runner_wait(runner, wait_time(runner, &status, now));
        check_times(runner, clock_now().boot_ms);
        if (runner->running_count && remote_leaves(runner, err))
            return -1;
    }
}

/* ---- the end -------------------------------------------------------------------------------------------- */

static const char *status_word(struct runner *runner)
{
    struct memory_status status;
    memory_status(runner->memory, &status);
    if (status.state == RUN_WAITING)
        return "NEEDS_INPUT";
    if (runner->cancels)
        return "CANCELLED";
    return status.has_failed ? "FAILED" : "DONE";
}

/* Channel, output and answer files, and the output of places that nobody used. */
void runner_remove_io(struct runner *runner)
{
    static const char *const starts[] = {"channel.", "output.", "answer.", "slot."};
    struct listing names CLEANUP(listing_close);
    listing_open(&names, runner->run.dir, ".", 0);
    for (const char *name; (name = listing_next(&names));)
        for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
            if (strncmp(name, starts[i], strlen(starts[i])) == 0)
                fs->unlinkat(runner->run.dir, name, 0);
}

/* Records the final values in the journal, for readers that find no final stage (rundir_look). Large values are left
 * out, because that rare case does not justify writing them twice. */
static void put_values(struct runner *runner, struct buf *record)
{
    struct buf text CLEANUP(buf_clear) = {.max = JOURNAL_VALUES_MAX};
    json_t *values CLEANUP_JSON = memory_result(runner->memory);
    json_write(&text, values, false);
    if (text.failed)
        return;
    buf_json_key(record, "v");
    buf_put(record, text.data, text.len);
}

static int runner_finish(struct runner *runner, json_t **ret_stage, struct tsk_error *err)
{
    struct memory_status status;
    runner->status = status_word(runner);
    memory_status(runner->memory, &status);
    struct buf *record = journal_begin(&runner->journal, "done");
    buf_json_pair(record, "status", runner->status);
    put_values(runner, record);
    journal_end(&runner->journal);
    runner_note(runner, clock_now().wall_ms, "ended", "status", runner->status);
    if (journal_flush(&runner->journal, err) < 0)
        return -1;
    remote_end(runner);
    runner_remove_io(runner);
    runner_save_stage(runner);
    *ret_stage = runner_stage(runner);
    runner_fact(
        runner, "run.ended", runner->run.id, NULL,
        json_pack("{s:s, s:s?}", "status", runner->status, "reason_code",
                  status.failure && strcmp(runner->status, "DONE") != 0 ? tsk_code_name(status.failure->code) : NULL),
        true);
    runner_write_trail(runner);
    return 0;
}

int runner_execute(struct runner *runner, json_t **ret_stage, struct tsk_error *err)
{
    runner->executor.null_fd = fs->openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    if (runner->executor.null_fd < 0)
        return error_errno(err, "open", "/dev/null");
    if (!runner->is_waiting && runner_wait_begin(runner, err) < 0)
        return -1;
    if (remote_begin(runner, err) < 0)
        return -1;
    runner->executor.mask = &runner->task_mask;
    runner->executor.no_pidfd = !runner->has_threads;
    runner->last_beat_ms = clock_now().boot_ms;
    runner->next_stage_ms = runner->last_beat_ms + FIRST_STAGE_MS;
    json_t *about = json_pack("{s:s?, s:s, s:I, s:I}", "flow", runner->flow->name, "source", runner->flow->source,
                              "tasks", (json_int_t)runner->flow->tasks.count, "parallel", (json_int_t)runner->parallel);
    if (runner->parallel_wanted)
        json_object_set_new(about, "parallel_wanted", json_integer((json_int_t)runner->parallel_wanted));
    runner_fact(runner, "run.started", runner->run.id, NULL, about, true);
    if (runner_loop(runner, err) == 0 && runner_finish(runner, ret_stage, err) == 0)
        return 0;
    /* The journal cannot be written: the tasks die with us, resume continues. Or what is out was left there (R6 in remote.h). */
    error_add(err, "run_id", runner->run.id);
    return error_add_next(err, "tasuki resume %s", runner->run.id);
}

void runner_close(struct runner *runner)
{
    for (size_t i = 0; runner->running && i < runner->parallel; i++)
        if (runner->running[i].is_used) {
            if (runner->running[i].process.pid > 0)
                execution_kill(&runner->executor, &runner->running[i].claim, &runner->running[i].process);
            running_free(runner, &runner->running[i]);
        }
    remote_close(runner);
    runner_write_trail(runner);
    buf_clear(&runner->trail);
    if (runner->memory)
        memory_free(runner->memory);
    runner_wait_end(runner);
    executor_clear(&runner->executor);
    journal_close(&runner->journal);
    rundir_clear(&runner->run);
    region_clear(&runner->views);
    json_decref(runner->failures);
    json_decref(runner->questions);
    json_decref(runner->answer_counts);
    json_decref(runner->history);
    json_decref(runner->answers);
    json_decref(runner->workers);
    json_decref(runner->params);
    for (size_t i = 0; runner->logs && i < runner->parallel; i++)
        fs_close(&runner->logs[i].fd);
    free(runner->logs);
    free(runner->polls);
    free(runner->running);
    free(runner->files);
    free(runner->is_wanted);
    free(runner->source);
    buf_clear(&runner->late_records);
}
