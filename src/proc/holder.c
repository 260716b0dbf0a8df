#include "proc/holder.h"

#include "base/fs.h"
#include "hold/protocol.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wanted {
    const struct stat *dir; /* or */
    const char *path;       /* as the kernel names a removed directory */
};

static bool works_there(pid_t pid, const struct wanted *wanted)
{
    char name[32], link[64], target[PATH_MAX + 16];
    struct stat st;
    if (proc_name(pid, name, sizeof name) < 0 || strcmp(name, "tasuki-hold") != 0)
        return false;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, HOLD_FD_DIR);
    if (wanted->dir)
        return fs->fstatat(AT_FDCWD, link, &st, 0) == 0 && st.st_dev == wanted->dir->st_dev &&
               st.st_ino == wanted->dir->st_ino;
    ssize_t len = readlink(link, target, sizeof target - 1);
    if (len < 0)
        return false;
    target[len] = '\0';
    return strcmp(target, wanted->path) == 0;
}

static int search(const struct wanted *wanted, struct proc_id *ret)
{
    int proc = fs->openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = proc < 0 ? NULL : fdopendir(proc);
    if (!listing) {
        fs_close(&proc);
        return -1;
    }
    int found = 0;
    for (struct dirent *entry; !found && (entry = readdir(listing));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = pid > 0 && works_there(pid, wanted) && proc_id_of(pid, ret) == 0;
    }
    closedir(listing);
    return found;
}

int holder_find(int dir, struct proc_id *ret)
{
    struct stat st;
    if (dir < 0 || fs->fstat(dir, &st) < 0)
        return -1;
    return search(&(struct wanted){.dir = &st}, ret);
}

int holder_find_removed(const char *path, struct proc_id *ret)
{
    char name[PATH_MAX + 16];
    snprintf(name, sizeof name, "%s (deleted)", path);
    return search(&(struct wanted){.path = name}, ret);
}
