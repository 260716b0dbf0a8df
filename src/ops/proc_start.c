/* proc_start.c - what the answer to a start says: one wait for all that were started, and why some are not there. */
#include "base/word.h"
#include "ops/proc_args.h"
#include "proc/depend.h"
#include "proc/settle.h"

#include <stdlib.h>
#include <string.h>

static bool settle_is_cancelled(void *data)
{
    struct op_call *call = data;
    return call->is_cancelled && call->is_cancelled(call);
}

/* Tells the caller for which of them (NULL: it was not started) the call waits: those that have to become ready. */
static void say_settling(struct op_call *call, struct proc_registry *reg, const char *const *started, size_t count)
{
    struct buf names CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < count; i++) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        struct tsk_error ignored; /* the answer says it */
        if (started[i] && proc_load(reg, started[i], &p, &ignored) == 0 &&
            json_is_object(json_object_get(p.spec, "ready")))
            buf_printf(&names, "%s%s", names.len ? ", " : "", started[i]);
    }
    if (names.len)
        call->waits(call, "process", buf_str(&names), 0);
}

void proc_args_settle(struct op_call *call, struct proc_registry *reg, const char *const *ids, size_t count,
                      const struct tsk_error *results)
{
    struct proc_settle how = {.timeout_ms = wait_timeout(call), .is_cancelled = settle_is_cancelled, .data = call};
    if (json_get_bool(call->args, "no_wait", false))
        return;
    if (!call->is_cancelled)
        how.is_cancelled = NULL;
    const char **started = calloc(count + 1, sizeof *started);
    enum proc_settled *settled = calloc(count + 1, sizeof *settled);
    BUG(!started || !settled);
    for (size_t i = 0; i < count; i++)
        started[i] = results[i].code == TSK_OK ? ids[i] : NULL;
    if (call->waits)
        say_settling(call, reg, started, count);
    proc_settle(reg, started, count, &how, settled);
    if (call->waits)
        call->waits(call, NULL, NULL, 0);
    for (size_t i = 0; i < count; i++)
        if (settled[i] == SETTLED_FAILED && call->verdict == TSK_OK)
            call->verdict = TSK_PROCESS_START_FAILED;
    free(started);
    free(settled);
}

/* One that cannot be started is removed again. */
static int start_created(struct proc_registry *reg, const char *id, struct tsk_error *err)
{
    struct tsk_error result = {.code = TSK_OK}, ignored;
    if (proc_start_ordered(reg, &id, 1, true, &result, err) == 0 && result.code == TSK_OK)
        return 0;
    if (result.code != TSK_OK)
        *err = result;
    bool is_command =
        err->code == TSK_PROCESS_START_FAILED; /* otherwise another cause, such as the disk, and the error names it */
    if (proc_remove(reg, id, false, &ignored) == 0 && is_command) { /* the corrected command is the same one again */
        error_clear_next(err);
        error_add_next(err, "tasuki proc create --help");
    }
    return -1;
}

int proc_args_created(struct op_call *call, struct proc_registry *reg, const char *id, json_t **ret,
                      struct tsk_error *err)
{
    static const struct tsk_error started = {.code = TSK_OK};
    bool is_started = json_get_bool(call->args, "start", false);
    if (is_started && start_created(reg, id, err) < 0)
        return -1;
    if (is_started)
        proc_args_settle(call, reg, &id, 1, &started);
    *ret = proc_args_record_or_say(reg, id, false);
    proc_args_say_failure(call, *ret);
    return 0;
}

void proc_end_put(struct buf *b, enum lang lang, const json_t *process)
{
    const json_t *raw = json_object_get(process, "raw_status");
    const char *signal = json_get_string(raw, "signal", NULL);
    const char *key = signal ? "process_killed" : json_is_object(raw) ? "process_exit" : "process_end_unknown";
    text_put(b, lang, key, "code", DIGITS(json_get_int(raw, "code", 0)), "signal", signal ? signal : "", NULL);
}

void proc_reason_put(struct buf *b, enum lang lang, const json_t *process)
{
    struct buf what CLEANUP(buf_clear) = BUF_INIT, when CLEANUP(buf_clear) = BUF_INIT;
    const char *line = json_get_string(process, "last_stderr", NULL),
               *next = json_get_string(process, "next_start_at", NULL);
    int64_t at;
    proc_end_put(&what, lang, process);
    if (next && time_parse(next, &at) == 0) {
        text_put(&when, lang, "process_again", "reason", buf_str(&what), "span",
                 DURATION_LEFT(at - clock_now().wall_ms), NULL);
    }
    const char *reason = buf_str(when.len ? &when : &what);
    if (line)
        text_put(b, lang, "process_said", "reason", reason, "line", line, NULL);
    else
        buf_puts(b, reason);
}

/* The probe has given up, if the process runs. */
static void put_failure(struct buf *b, enum lang lang, const json_t *process)
{
    const char *detail = json_get_string(process, "detail", NULL);
    bool is_running = json_text_is(process, "state_name", "Running");
    if (!is_running)
        proc_reason_put(b, lang, process);
    else if (detail)
        text_put(b, lang, "process_said", "reason", text_get("process_not_ready", lang), "line", detail, NULL);
    else
        buf_puts(b, text_get("process_not_ready", lang));
}

static bool is_failure(const json_t *process)
{
    return json_text_is(process, "state_name", "Failed") || json_text_is(process, "phase", "starting");
}

void proc_args_say_failure(struct op_call *call, json_t *answer)
{
    const json_t *many = json_object_get(answer, "processes"), *process = many ? NULL : answer;
    struct buf reason CLEANUP(buf_clear) = BUF_INIT, message CLEANUP(buf_clear) = BUF_INIT;
    if (call->verdict != TSK_PROCESS_START_FAILED || json_array_size(json_object_get(answer, "errors")))
        return;
    json_each (many, i, one)
        if (!process && is_failure(one))
            process = one;
    if (!process)
        return;
    put_failure(&reason, call->lang, process);
    text_put(&message, call->lang, "process_start_failed", "id", json_get_string(process, "id", ""), "reason",
             buf_str(&reason), NULL);
    json_object_set_new(answer, "message", json_string(buf_str(&message)));
}
