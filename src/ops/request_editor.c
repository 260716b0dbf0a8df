/* request_editor.c - a request in the user's own editor: a copy, so that what is half written is never seen by others. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/listing.h"
#include "ops/request_args.h"
#include "proc/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EDIT_FOLDER "edit"
#define KEPT_DAYS   30

static const char *editor_command(void)
{
    const char *visual = getenv("VISUAL"), *plain = getenv("EDITOR");
    return visual && *visual ? visual : plain && *plain ? plain : "vi";
}

/* The variable may have options in it, so a shell splits it; the path is no part of the script. */
static int run_editor(const char *path, struct tsk_error *err)
{
    char script[1024];
    int status;
    snprintf(script, sizeof script, "%s \"$1\"", editor_command());
    char *argv[] = {"sh", "-c", script, "tasuki", (char *)path, NULL};
    struct spawn spawn = {.argv = argv, .keeps_signals = true};
    if (spawn_run(&spawn) < 0)
        return error_errno(err, "start", editor_command());
    close(spawn.pidfd);
    while (waitpid(spawn.pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, "wait for", editor_command());
    return status == 0 ? 0 : error_set(err, TSK_ENVIRONMENT, "editor_failed", "editor", editor_command(), NULL);
}

/* Texts that were not taken, and that nobody has looked for. */
static void sweep_old(struct tsk_workspace *ws)
{
    struct listing names CLEANUP(listing_close);
    int64_t now_s = clock_now().wall_ms / 1000;
    listing_open(&names, ws->state_dir, EDIT_FOLDER, 0);
    for (const char *name; (name = listing_next(&names));) {
        struct stat st;
        if (fs->fstatat(names.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now_s - st.st_mtim.tv_sec > KEPT_DAYS * 86400)
            fs->unlinkat(names.fd, name, 0);
    }
}

/* A copy of the file in .aiflow/edit/; its path in `path`, its name below .aiflow/ in `name`. */
static int copy_out(struct op_call *call, const struct request *request, char name[LOCK_ID_MAX + 32],
                    char path[PATH_MAX * 2], struct tsk_error *err)
{
    char random[7];
    random_hex(random, 6);
    snprintf(name, LOCK_ID_MAX + 32, EDIT_FOLDER "/%s.%s.yaml", request->id, random);
    snprintf(path, (size_t)PATH_MAX * 2, "%s/%s", call->ws->state_path, name);
    if (fs_make_dirs(call->ws->state_dir, EDIT_FOLDER) < 0)
        return fs_error(err, "make", call->ws->state_dir, EDIT_FOLDER);
    sweep_old(call->ws);
    int fd CLEANUP_FD = fs->openat(call->ws->state_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 || fs_write_all(fd, buf_str(&request->text), request->text.len) < 0 ? error_errno(err, "write", path)
                                                                                      : 0;
}

static bool wants_again(struct op_call *call, const struct tsk_error *err)
{
    struct buf question CLEANUP(buf_clear) = BUF_INIT;
    text_put_error(&question, call->lang, err);
    buf_puts(&question, "\n");
    text_put(&question, call->lang, "request_edit_again", NULL);
    return call->confirm(call, buf_str(&question));
}

static int take_in(struct op_call *call, const struct request *before, const char *name, struct request *ret,
                   struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    if (fs_read_file(call->ws->state_dir, name, REQUEST_SIZE_MAX - 1, &text) < 0)
        return fs_error(err, "read", call->ws->state_dir, name);
    return request_replace(call->ws, before->id, buf_str(&text), text.len, before->updated_at, call->lang, ret, err);
}

/* What was written is not lost: the error says where it is. What was not changed is not kept. */
static int not_taken(struct op_call *call, const struct request *before, const char *name, const char *path,
                     struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX}, reason CLEANUP(buf_clear) = BUF_INIT;
    if (fs_read_file(call->ws->state_dir, name, REQUEST_SIZE_MAX - 1, &text) == 0 && text.len == before->text.len &&
        memcmp(buf_str(&text), buf_str(&before->text), text.len) == 0) {
        fs->unlinkat(call->ws->state_dir, name, 0);
        return -1;
    }
    text_put_error(&reason, call->lang, err);
    error_set(err, err->code, "request_not_taken", "reason", buf_str(&reason), "kept", path, NULL);
    return error_add(err, "request_id", before->id);
}

int request_edit_in_editor(struct op_call *call, const char *id, struct request *ret, struct tsk_error *err)
{
    char name[LOCK_ID_MAX + 32], path[PATH_MAX * 2];
    struct request before CLEANUP(request_clear) = {.json = NULL};
    if (request_read(call->ws, id, call->lang, &before, err) < 0 ||
        request_check_time(&before, json_get_string(call->args, "expected_updated_at", NULL), err) < 0)
        return -1;
    if (before.read_errno) /* there is no text that could be edited */
        return request_need_whole(&before, err);
    if (copy_out(call, &before, name, path, err) < 0)
        return -1;
    do {
        if (run_editor(path, err) < 0)
            break;
        if (take_in(call, &before, name, ret, err) == 0) {
            fs->unlinkat(call->ws->state_dir, name, 0);
            return 0;
        }
    } while (err->code == TSK_INVALID_INPUT && wants_again(call, err));
    return not_taken(call, &before, name, path, err);
}
