#include "graph/remote_mark.h"
#include "base/fs.h"

#include <errno.h>
#include <stdio.h>

static void mark_path(const char *run_id, char path[RUN_ID_MAX + 32])
{
    snprintf(path, RUN_ID_MAX + 32, REMOTE_MARKS "/%s", run_id);
}

/* M1: the file, its name, and the names above it, because a run may be the workspace's first. A file system that cannot sync a directory
 * (EINVAL) has nothing to be asked for. */
static int mark_sync(int state_dir, const char *path)
{
    const char *const names[] = {path, REMOTE_MARKS, "runs", "."};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int fd CLEANUP_FD = fs->openat(state_dir, names[i], O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0 || (fs->fdatasync(fd) < 0 && errno != EINVAL))
            return -1;
    }
    return 0;
}

int remote_mark_make(const struct runner *runner, int64_t epoch, int64_t lease_ms, struct tsk_error *err)
{
    char path[RUN_ID_MAX + 32];
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *mark CLEANUP_JSON =
        json_pack("{s:s, s:I, s:I, s:s, s:s}", "redis", runner->options.remote_shown, "epoch", (json_int_t)epoch,
                  "lease_ms", (json_int_t)lease_ms, "request_id", runner->request_id, "exclusive", runner->exclusive);
    mark_path(runner->run.id, path);
    json_write(&text, mark, false);
    return fs_make_dirs(runner->ws->state_dir, REMOTE_MARKS) < 0 ||
                   fs_replace_file(runner->ws->state_dir, path, 0600, text.data, text.len) < 0 ||
                   mark_sync(runner->ws->state_dir, path) < 0
               ? fs_error(err, "write", runner->ws->state_dir, path)
               : 0;
}

void remote_mark_drop(struct tsk_workspace *ws, const char *run_id)
{
    char path[RUN_ID_MAX + 32];
    mark_path(run_id, path);
    fs->unlinkat(ws->state_dir, path, 0);
}
