/* op_channel.c - channel get, set, append, add: the run's values, from inside a task. */
#include "ops/ops.h"
#include "ops/task_args.h"

#include <string.h>

#define KEY_PARAM PARAM("key", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "KEY", "The key.", .max = CHANNEL_KEY_MAX)
#define VALUE_PARAM                                                                                                    \
    PARAM("value", OP_STRING, OP_REQUIRED | OP_POSITIONAL, "VALUE",                                                    \
          "JSON, or else a text. A number that would be printed differently stays a text (1.10 is a text).",           \
          .max = OUTPUT_MAX / 2)

static int run_get(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *values CLEANUP_JSON = NULL;
    const char *key = json_get_string(call->args, "key", "");
    if (task_args_values(&values, err) < 0)
        return -1;
    json_t *value = json_object_get(values, key);
    if (!value)
        return error_set(err, TSK_NOT_FOUND, "channel_no_key", "key", key, NULL);
    *ret = json_pack("{s:s, s:O}", "key", key, "value", value);
    return 0;
}

static int channel_tell(struct op_call *call, const char *what, struct tsk_error *err)
{
    const char *key = json_get_string(call->args, "key", "");
    if (!channel_key_is_valid(key))
        return error_set(err, TSK_INVALID_INPUT, "channel_key", "key", key, NULL);
    const char *text = json_get_string(call->args, "value", "");
    bool is_sum = strcmp(what, "add") == 0;
    json_t *value = is_sum ? json_number_of_text(text) : output_value(text);
    if (is_sum && !value)
        return error_set(err, TSK_INVALID_INPUT, "channel_add_value", "key", key, "value", text, NULL);
    return task_args_tell_take(json_pack("{s:s, s:s, s:o}", "do", what, "key", key, "value", value), err);
}

static int run_set(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    return channel_tell(call, "set", err);
}

static int run_append(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    return channel_tell(call, "append", err);
}

static int run_add(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    *ret = NULL;
    return channel_tell(call, "add", err);
}

static const struct op_param write_params[] = {KEY_PARAM, VALUE_PARAM, {0}};

const struct op op_channel_get = {
    NAMES("channel.get", "channel", "get"),
    .summary = "Inside a task: print a value of the channel, as this task sees it.",
    .examples = "rows=$(tasuki channel get rows)",
    .flags = OP_READ_ONLY | OP_IDEMPOTENT | OP_NO_WORKSPACE,
    .params = PARAMS(KEY_PARAM),
    .result = FIELDS({"key", "string", ""}, {"value", "any", "any JSON value"}),
    ONLY_IN_TASK,
    .run = run_get,
};

const struct op op_channel_set = {
    NAMES("channel.set", "channel", "set"),
    .summary = "Inside a task: set a value of the channel; it counts when the task has succeeded.",
    .examples = "tasuki channel set rows 42",
    .flags = OP_NO_WORKSPACE,
    .params = write_params,
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_set,
};

const struct op op_channel_append = {
    NAMES("channel.append", "channel", "append"),
    .summary = "Inside a task: append to a list or a text of the channel.",
    .examples = "tasuki channel append log '\"checked\"'",
    .flags = OP_NO_WORKSPACE,
    .params = write_params,
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_append,
};

const struct op op_channel_add = {
    NAMES("channel.add", "channel", "add"),
    .summary = "Inside a task: add a number to a value of the channel.",
    .examples = "tasuki channel add counter 1",
    .flags = OP_NO_WORKSPACE,
    .params = write_params,
    .result = task_no_result,
    ONLY_IN_TASK,
    .run = run_add,
};
