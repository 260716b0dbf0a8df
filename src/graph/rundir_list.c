/* rundir_list.c - which runs there are, and which of them may continue. */
#include "base/fs.h"
#include "graph/run_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int mark_run(int dir, const char *folder, const char *id, bool is_open)
{
    char name[RUN_ID_MAX + 16];
    snprintf(name, sizeof name, "%s/%s", folder, id);
    if (!is_open)
        return fs->unlinkat(dir, name, 0);
    int fd CLEANUP_FD = fs->openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT && fs_make_dirs(dir, folder) == 0)
        fd = fs->openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : 0;
}

int rundir_mark_open(const struct rundir *run, bool is_open)
{
    return mark_run(run->dir, "../.open", run->id, is_open);
}

int rundir_mark_new(struct tsk_workspace *ws, const char *id, bool is_open)
{
    return mark_run(ws->state_dir, "runs/.open", id, is_open);
}

static int list_folder(struct tsk_workspace *ws, const char *folder, json_t **ret, struct tsk_error *err)
{
    struct run_names names CLEANUP(run_names_clear);
    if (run_names_open(ws, folder, &names, err) < 0)
        return -1;
    *ret = json_array();
    for (const char *id; (id = run_names_next(&names));)
        json_array_append_new(*ret, json_string(id));
    return 0;
}

int rundir_list(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err)
{
    return list_folder(ws, RUNS_FOLDER, ret, err);
}

int rundir_list_open(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err)
{
    /* Without marks every run may be open. */
    return list_folder(ws, fs_may_exist(ws->state_dir, "runs/.open") ? "runs/.open" : RUNS_FOLDER, ret, err);
}
