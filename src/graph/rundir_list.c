/* rundir_list.c - which runs there are, and which of them may go on. */
#include "base/fs.h"
#include "graph/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int mark(int dir, const char *folder, const char *id, bool is_open)
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
    return mark(run->dir, "../.open", run->id, is_open);
}

int rundir_mark_new(struct tsk_workspace *ws, const char *id, bool is_open)
{
    return mark(ws->state_dir, "runs/.open", id, is_open);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

static int list_folder(struct tsk_workspace *ws, const char *folder, json_t **ret, struct tsk_error *err)
{
    char **ids = NULL;
    size_t count = 0, room = 0;
    int fd = fs->openat(ws->state_dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    if (!listing && errno != ENOENT)
        return fs_error(err, "read", ws->state_dir, folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (strncmp(entry->d_name, "RUN-", 4) != 0 || strlen(entry->d_name) >= RUN_ID_MAX)
            continue;
        if (count == room) {
            room = room ? room * 2 : 64;
            ids = realloc(ids, room * sizeof *ids);
            BUG(!ids);
        }
        ids[count++] = strdup(entry->d_name);
    }
    if (listing)
        closedir(listing);
    if (count)
        qsort(ids, count, sizeof *ids, compare_ids); /* the time is in the id */
    *ret = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(*ret, json_string(ids[i]));
        free(ids[i]);
    }
    free(ids);
    return 0;
}

int rundir_list(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err)
{
    return list_folder(ws, "runs", ret, err);
}

int rundir_list_open(struct tsk_workspace *ws, json_t **ret, struct tsk_error *err)
{
    struct stat st;
    bool has_marks = fs->fstatat(ws->state_dir, "runs/.open", &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
    return list_folder(ws, has_marks ? "runs/.open" : "runs", ret, err); /* without marks every run may be open */
}
