#include "ops/flow_args.h"
#include "base/fs.h"
#include "base/ident.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_stdin(const struct op_call *call)
{
    return strcmp(json_get_string(call->args, "flow", ""), "-") == 0;
}

static bool is_stream(const struct stat *st)
{
    return !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode);
}

bool flow_args_is_stream(const struct op_call *call)
{
    struct stat st;
    return is_stdin(call) ||
           (fs->fstatat(AT_FDCWD, json_get_string(call->args, "flow", ""), &st, 0) == 0 && is_stream(&st));
}

/* A command of a terminal may read a pipe, `-` or <(…); who serves others waits for none. */
static bool may_read_pipe(const struct op_call *call)
{
    return call->is_cli && !call->decided;
}

/* The file itself, or one in .aiflow/flows/. */
static int open_file(struct op_call *call, struct flow_file *file, struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "flow", "");
    bool is_input = may_read_pipe(call) && is_stdin(call);
    snprintf(file->path, sizeof file->path, "%s", is_input ? "stdin" : given);
    int fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                      : fs->openat(AT_FDCWD, given, O_RDONLY | O_CLOEXEC | (may_read_pipe(call) ? 0 : O_NONBLOCK), 0);
    if (fd < 0 && errno == ENOENT && call->ws && id_is_valid(given)) {
        char name[256];
        flow_kept_path(given, name, sizeof name);
        fd = fs->openat(call->ws->state_dir, name, O_RDONLY | O_CLOEXEC, 0);
        if (fd >= 0)
            snprintf(file->path, sizeof file->path, ".aiflow/%s", name);
    }
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return error_errno(err, "open", given);
    return error_set(err, TSK_NOT_FOUND, "flow_not_found", "flow", given, NULL);
}

static int read_text(const struct op_call *call, int fd, struct buf *text)
{
    struct stat st;
    bool is_pipe = may_read_pipe(call) && fs->fstat(fd, &st) == 0 && is_stream(&st);
    return is_pipe ? fs_read_stream(fd, FLOW_SIZE_MAX, text) : fs_read_fd(fd, FLOW_SIZE_MAX, text);
}

static int load(struct op_call *call, int fd, struct flow_file *file, struct tsk_error *err)
{
    if (read_text(call, fd, &file->text) < 0) {
        error_errno(err, "read", file->path);
    } else if (flow_load(&file->flow, file->path, buf_str(&file->text), file->text.len, call->lang, err) == 0) {
        if (!call->ws ||
            flow_settle_agents(&file->flow, call->ws, NULL, buf_str(&file->text), file->text.len, err) == 0)
            return 0;
        flow_clear(&file->flow);
    }
    buf_clear(&file->text);
    return -1;
}

int flow_args_load(struct op_call *call, struct flow_file *file, struct tsk_error *err)
{
    *file = (struct flow_file){.text = {.max = FLOW_SIZE_MAX}};
    int fd CLEANUP_FD = open_file(call, file, err);
    return fd < 0 ? -1 : load(call, fd, file, err);
}

int flow_args_load_at(struct op_call *call, int dir, const char *name, struct flow_file *file, struct tsk_error *err)
{
    *file = (struct flow_file){.text = {.max = FLOW_SIZE_MAX}};
    fs_path(dir, name, file->path);
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    return fd < 0 ? fs_error(err, "open", dir, name) : load(call, fd, file, err);
}

void flow_file_clear(struct flow_file *file)
{
    flow_clear(&file->flow);
    buf_clear(&file->text);
}
