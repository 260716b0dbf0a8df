#include "ops/task_args.h"
#include "base/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct op_field task_no_result[] = {{0}};
const enum tsk_code task_errors[] = {TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_ENVIRONMENT, TSK_STORAGE_FULL, TSK_OK};

int task_args_check(struct tsk_error *err)
{
    if (getenv("TASUKI_OUTPUT") && getenv("TASUKI_CHANNEL"))
        return 0;
    return error_set(err, TSK_INVALID_INPUT, "not_in_task", NULL);
}

int task_args_tell_take(json_t *line, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = OUTPUT_MAX};
    json_t *owned CLEANUP_JSON = line;
    if (task_args_check(err) < 0)
        return -1;
    if (!owned)
        return error_set(err, TSK_INVALID_INPUT, "param_not_utf8", "param", "value", NULL);
    json_write(&text, owned, false);
    buf_puts(&text, "\n");
    const char *path = getenv("TASUKI_OUTPUT");
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || text.failed || fs_write_all(fd, text.data, text.len) < 0)
        return error_errno(err, "write", path);
    return 0;
}

static int apply_own(struct channel *channel, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = OUTPUT_MAX};
    struct output output;
    if (fs_read_file(AT_FDCWD, getenv("TASUKI_OUTPUT"), OUTPUT_MAX - 1, &text) < 0)
        return errno == ENOENT ? 0 : error_errno(err, "read", getenv("TASUKI_OUTPUT"));
    if (output_parse(&output, buf_str(&text), text.len, err) < 0)
        return -1;
    int result = channel_apply(channel, &output.effects, err);
    output_clear(&output);
    return result;
}

int task_args_values(json_t **ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = 1u << 30};
    struct channel channel;
    if (task_args_check(err) < 0)
        return -1;
    if (fs_read_file(AT_FDCWD, getenv("TASUKI_CHANNEL"), (1u << 30) - 1, &text) < 0)
        return error_errno(err, "read", getenv("TASUKI_CHANNEL"));
    if (channel_init(&channel, false, err) < 0)
        return -1;
    json_t *values CLEANUP_JSON = json_loadb(buf_str(&text), text.len, 0, NULL);
    json_object_update(channel.values, values);
    int result = apply_own(&channel, err);
    if (result == 0)
        *ret = channel_values(&channel);
    channel_clear(&channel);
    return result;
}
