/* remote_files.c - the files of a run that goes elsewhere: packed when it begins, kept in its directory, named by their hash. */
#include "base/fs.h"
#include "base/parcel.h"
#include "graph/pack.h"
#include "graph/remote.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define FILES_PACK "files.pack"

static int files_make(struct runner *runner, struct buf *ret, struct tsk_error *err)
{
    const struct flow *flow = runner->flow;
    int here CLEANUP_FD = fs->openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (here < 0)
        return fs_error(err, "read", AT_FDCWD, ".");
    if (pack_make(here, flow_string(flow, flow->files), flow->files_count, ret, err) < 0)
        return -1;
    return fs_replace_file(runner->run.dir, FILES_PACK, 0600, ret->data, ret->len) < 0
               ? fs_error(err, "write", runner->run.dir, FILES_PACK)
               : 0;
}

int remote_files_keep(struct runner *runner, struct tsk_error *err)
{
    struct buf pack CLEANUP(buf_clear) = BUF_INIT;
    return runner->options.remote_program && runner->flow->files_count ? files_make(runner, &pack, err) : 0;
}

int remote_files_begin(struct runner *runner, struct tsk_error *err)
{
    struct buf pack CLEANUP(buf_clear) = {.max = PACK_MAX + PACK_SPARE};
    char cwd[PATH_MAX];
    commit_of(getcwd(cwd, sizeof cwd) ? cwd : "/", runner->remote.commit);
    if (!runner->flow->files_count)
        return 0;
    bool is_kept = !runner->options.flow_text && fs_read_file(runner->run.dir, FILES_PACK, PACK_MAX, &pack) == 0;
    if (!is_kept && files_make(runner, &pack, err) < 0)
        return -1;
    sha256_hex(pack.data, pack.len, runner->remote.files);
    return 0;
}

void remote_files_say(struct runner *runner)
{
    struct buf *out = &runner->remote.out;
    char path[FS_PATH_MAX];
    if (!runner->remote.files[0])
        return;
    fs_path(runner->run.dir, FILES_PACK, path);
    size_t began = frame_begin(out);
    parcel_puts(out, "files");
    parcel_puts(out, runner->remote.files);
    parcel_puts(out, path);
    frame_end(out, began);
}
