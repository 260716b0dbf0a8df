/* remote_push.c - attempts that leave: what their worker has to know, and the values that they may read. */
#include "base/fs.h"
#include "graph/output.h"
#include "graph/remote.h"
#include "graph/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A worker keeps the values of a version, and a runner that continues with the run counts from the beginning: its epoch tells them apart. */
static int64_t version_of(const struct runner *runner, uint32_t number)
{
    return number ? (int64_t)runner->epoch << 32 | number : 0;
}

/* The values that the attempt may read travel once per version. */
static void push_channel(struct runner *runner, struct running *slot)
{
    slot->values_scope = task_values_scope(runner, slot);
    struct channel_file *file = &runner->files[slot->values_scope];
    const struct session *session = session_of(memory_plan(runner->memory), slot->values_scope);
    struct buf text CLEANUP(buf_clear) = {.max = FRAME_MAX / 2};
    uint64_t version;
    json_t *values CLEANUP_JSON = memory_values(runner->memory, &slot->claim, &version);
    if (json_object_size(values) == 0)
        return;
    if (!file->number || file->session != session || file->version != version) {
        uint32_t oldest = ++runner->file_number;
        *file = (struct channel_file){.session = session, .version = version, .number = oldest};
        for (size_t i = 0; i < runner->parallel; i++)
            if (runner->running[i].is_used && runner->running[i].values_scope == slot->values_scope &&
                runner->running[i].channel_file && runner->running[i].channel_file < oldest)
                oldest = runner->running[i].channel_file;
        json_write(&text, values, false);
        size_t began = frame_begin(&runner->remote.out);
        parcel_puts(&runner->remote.out, "channel");
        parcel_puts(&runner->remote.out, session->id);
        parcel_put_int(&runner->remote.out, version_of(runner, file->number));
        parcel_put_int(&runner->remote.out, version_of(runner, oldest - 1));
        parcel_put(&runner->remote.out, text.data, text.len);
        frame_end(&runner->remote.out, began);
    }
    file->users++;
    slot->channel_file = file->number;
}

void remote_values_end(struct runner *runner, uint32_t scope, const char *session)
{
    struct channel_file *file = &runner->files[scope];
    struct buf *out = &runner->remote.out;
    if (runner->remote.fd < 0 || !file->number)
        return;
    size_t began = frame_begin(out);
    parcel_puts(out, "forget");
    parcel_puts(out, session);
    parcel_put_int(out, version_of(runner, file->number));
    frame_end(out, began);
    file->number = 0;
}

/* The task's own variables, then the parameters of the run. */
static void remote_put_env(const struct runner *runner, const struct flow_task *task, struct buf *env,
                           size_t *ret_count)
{
    const char *pair = task ? flow_string(runner->flow, task->env) : NULL;
    *ret_count = 0;
    for (uint32_t k = 0; task && k < task->env_count; k++, pair += strlen(pair) + 1, ++*ret_count)
        buf_put(env, pair, strlen(pair) + 1);
    json_each (runner->params, i, param) {
        buf_put(env, json_string_value(param), json_string_length(param) + 1);
        ++*ret_count;
    }
}

/* Whose values it reads. A session around it has not ended before it. */
static const char *values_session(const struct runner *runner, const struct running *slot)
{
    return slot->channel_file ? session_of(memory_plan(runner->memory), slot->values_scope)->id : NULL;
}

static void put_spec(struct runner *runner, const struct running *slot, const char *answer, struct buf *out)
{
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    struct buf env CLEANUP(buf_clear) = {.max = 4u << 20};
    char **argv = task_argv(runner, slot);
    struct wire_spec spec = {.run = runner->run.id,
                             .session = slot->claim.session,
                             .task = slot->claim.task,
                             .chain = runner->chain,
                             .attempt = slot->claim.attempt,
                             .cwd = task ? flow_string(runner->flow, task->cwd) : NULL,
                             .argv = argv,
                             .timeout_ms = task ? task->timeout_ms : 0,
                             .grace_ms = runner->executor.grace_ms,
                             .channel = version_of(runner, slot->channel_file),
                             .values = values_session(runner, slot),
                             .answer = answer,
                             .files = runner->remote.files};
    while (argv[spec.argc])
        spec.argc++;
    remote_put_env(runner, task, &env, &spec.env_count);
    spec.env = buf_str(&env);
    wire_put_spec(out, &spec);
    free(argv);
}

static int remote_read_answer(struct runner *runner, const struct running *slot, struct buf *ret, struct tsk_error *err)
{
    char name[64];
    bool has_answer;
    if (task_answer(runner, slot, &has_answer, err) < 0)
        return -1;
    snprintf(name, sizeof name, "answer.%llu", (unsigned long long)slot->claim.fence);
    return has_answer && fs_read_file(runner->run.dir, name, OUTPUT_MAX, ret) < 0
               ? fs_error(err, "read", runner->run.dir, name)
               : 0;
}

static void remote_id(const struct runner *runner, const struct running *slot, char id[48])
{
    snprintf(id, 48, "%llu.%zu.%u", (unsigned long long)slot->claim.fence, (size_t)(slot - runner->running),
             slot->remote.pushes);
}

void remote_push(struct runner *runner, struct running *slot)
{
    char id[48];
    struct tsk_error err;
    struct buf spec CLEANUP(buf_clear) = {.max = FRAME_MAX / 2}, answer CLEANUP(buf_clear) = {.max = OUTPUT_MAX};
    slot->process.pid = -1; /* none here, but it has been started */
    slot->remote.is_claimed = false;
    slot->remote.pushes++;
    if (remote_read_answer(runner, slot, &answer, &err) < 0) {
        task_complete(runner, slot, OUTCOME_FAILED, 126, NULL, &err);
        return;
    }
    if (!slot->channel_file)
        push_channel(runner, slot);
    put_spec(runner, slot, answer.len ? buf_str(&answer) : NULL, &spec);
    remote_id(runner, slot, id);
    const struct flow_task *task = runner_flow_task(runner, slot->claim.node);
    struct buf *out = &runner->remote.out;
    size_t began = frame_begin(out);
    parcel_puts(out, "push");
    parcel_puts(out, id);
    parcel_puts(out, slot->claim.session);
    parcel_puts(out, task ? flow_string(runner->flow, task->tags) : NULL);
    parcel_put(out, spec.data, spec.len);
    parcel_puts(out, values_session(runner, slot));
    frame_end(out, began);
}

void remote_stop(struct runner *runner, struct running *slot, enum stop why)
{
    char id[48];
    if (slot->process.stops != STOP_NONE)
        return;
    slot->process.stops = why;
    remote_id(runner, slot, id);
    remote_say(runner, "stop", id);
}
