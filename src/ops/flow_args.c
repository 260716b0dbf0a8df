#include "ops/flow_args.h"
#include "base/ident.h"
#include "base/word.h"
#include "ops/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_stdin(const struct op_call *call)
{
    return json_text_is(call->args, "flow", "-");
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

/* ---- a flow that almost exists ---- */

/* A name in .aiflow/flows/, without .yaml. */
static bool nearest_kept(const struct op_call *call, const char *given, char near[256])
{
    char file[300];
    const char *end = strrchr(given, '.');
    bool has_end = end && (strcmp(end, ".yml") == 0 || strcmp(end, ".yaml") == 0);
    snprintf(file, sizeof file, "%.*s.yaml", has_end && end - given < 250 ? (int)(end - given) : 250, given);
    if (!place_nearest_name(call->ws->state_dir, "flows", file, near))
        return false;
    size_t len = strlen(near);
    bool is_flow = len > 5 && strcmp(near + len - 5, ".yaml") == 0;
    near[is_flow ? len - 5 : len] = '\0';
    return is_flow;
}

/* A file of that name in a directory above this one, not above the workspace. */
static bool path_above(const struct op_call *call, const char *given, char near[PATH_MAX])
{
    char here[PATH_MAX];
    struct buf way CLEANUP(buf_clear) = BUF_INIT;
    size_t root = call->ws ? strlen(call->ws->root) : 0;
    if (!call->is_cli || !root || given[0] == '/' || !getcwd(here, sizeof here) ||
        strncmp(here, call->ws->root, root) != 0)
        return false;
    for (const char *c = here + root; *c; c++) {
        struct stat st;
        if (*c != '/')
            continue;
        buf_puts(&way, "../");
        snprintf(near, PATH_MAX, "%.500s%.3500s", buf_str(&way), given);
        if (fs->fstatat(AT_FDCWD, near, &st, 0) == 0 && S_ISREG(st.st_mode))
            return true;
    }
    return false;
}

/* `run logs lint`: a verb of runs is meant, with what was typed behind it. */
static int refuse_verb(const struct op_call *call, const char *verb, struct tsk_error *err)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT, word CLEANUP(buf_clear) = BUF_INIT;
    json_t *tasks = json_object_get(call->args, "tasks");
    buf_printf(&line, "tasuki runs %s", verb);
    error_set(err, TSK_NOT_FOUND, "flow_not_found_near", "flow", verb, "near", buf_str(&line), NULL);
    if (json_is_string(tasks))
        buf_printf(&line, " %s", shell_word(&word, json_string_value(tasks)));
    json_each (tasks, i, one)
        buf_printf(&line, " %s", shell_word(&word, json_string_value(one)));
    return error_add_next(err, "%s", buf_str(&line));
}

static int refuse_unknown_flow(const struct op_call *call, const char *given, struct tsk_error *err)
{
    char near[PATH_MAX];
    bool is_near =
        path_above(call, given, near) || (call->ws && id_is_valid(given) && nearest_kept(call, given, near)) ||
        (call->is_cli && place_nearest(given, near)); /* callers from outside learn nothing about directories */
    bool is_verb = call->is_cli && strcmp(call->op->name, "run") == 0 && op_find("runs", given);
    if (is_verb && (!is_near || !strstr(near, given))) /* `show` is near slow.yaml, but that is no reason to run it */
        return refuse_verb(call, given, err);
    error_set(err, TSK_NOT_FOUND, is_near ? "flow_not_found_near" : "flow_not_found", "flow", given, NULL);
    if (!is_near)
        return error_add_next(err, "tasuki flow list");
    error_add(err, "near", near);
    if (strcmp(call->op->name, "resume") == 0) /* there the file is an option */
        return -1;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    json_t *meant CLEANUP_JSON = json_string(near);
    op_put_typed(&line, call, "flow", meant);
    return error_add_next(err, "%s", buf_str(&line));
}

/* The file itself, or one in .aiflow/flows/. */
static int flow_open_file(struct op_call *call, struct flow_file *file, struct tsk_error *err)
{
    const char *given = json_get_string(call->args, "flow", "");
    bool is_input = may_read_pipe(call) && is_stdin(call);
    snprintf(file->path, sizeof file->path, "%s", is_input ? "stdin" : given);
    int fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                      : fs->openat(AT_FDCWD, given, O_RDONLY | O_CLOEXEC | (may_read_pipe(call) ? 0 : O_NONBLOCK), 0);
    if (fd < 0 && errno == ENOENT && call->ws) {
        char name[256];
        fd = flow_open_kept(call->ws->state_dir, given, name, sizeof name);
        if (fd >= 0 || errno != ENOENT)
            snprintf(file->path, sizeof file->path, ".aiflow/%s", name);
    }
    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        return refuse_unknown_flow(call, given, err);
    return error_errno(err, "open", file->path);
}

static int flow_file_read(const struct op_call *call, int fd, struct flow_file *file)
{
    struct stat st;
    bool is_pipe = fs->fstat(fd, &st) < 0 || is_stream(&st);
    if (!is_pipe)
        fs_path(fd, NULL, file->real_path);
    is_pipe = is_pipe && may_read_pipe(call);
    return is_pipe ? fs_read_stream(fd, FLOW_SIZE_MAX, &file->text) : fs_read_fd(fd, FLOW_SIZE_MAX, &file->text);
}

static int refuse_directory(const struct flow_file *file, struct tsk_error *err)
{
    error_set(err, TSK_INVALID_INPUT, "flow_is_directory", "path", file->path, NULL);
    return error_add_next(err, "tasuki flow list");
}

static int flow_file_load(struct op_call *call, int fd, struct flow_file *file, struct tsk_error *err)
{
    if (flow_file_read(call, fd, file) < 0) {
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
    int fd CLEANUP_FD = flow_open_file(call, file, err);
    if (fd < 0)
        return -1;
    if (flow_file_load(call, fd, file, err) == 0)
        return 0;
    if (err->sys_errno == EISDIR)
        return refuse_directory(file, err);
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (err->code == TSK_FLOW_INVALID && strcmp(call->op->name, "flow.validate") != 0 && !flow_args_is_stream(call))
        error_add_next(err, "tasuki flow validate %s", shell_word(&word, json_get_string(call->args, "flow", "")));
    return -1;
}

int flow_args_load_at(struct op_call *call, int dir, const char *name, struct flow_file *file, struct tsk_error *err)
{
    *file = (struct flow_file){.text = {.max = FLOW_SIZE_MAX}};
    fs_path(dir, name, file->path);
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    return fd < 0 ? fs_error(err, "open", dir, name) : flow_file_load(call, fd, file, err);
}

void flow_file_clear(struct flow_file *file)
{
    flow_clear(&file->flow);
    buf_clear(&file->text);
}
