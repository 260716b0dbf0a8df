#include "proc/holder.h"

#include "base/listing.h"
#include "hold/protocol.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls `take` for each holder of the machine until it says true. -1 if /proc cannot be read. */
static int each_holder(bool (*take)(pid_t pid, void *data), void *data)
{
    struct listing processes CLEANUP(listing_close);
    if (listing_open(&processes, AT_FDCWD, "/proc", 0) < 0)
        return -1;
    bool found = false;
    for (const char *entry; !found && (entry = listing_next(&processes));) {
        char name[32];
        pid_t pid = (pid_t)strtol(entry, NULL, 10);
        found =
            pid > 0 && proc_name(pid, name, sizeof name) == 0 && strcmp(name, "tasuki-hold") == 0 && take(pid, data);
    }
    return found;
}

struct search {
    struct stat dir;
    struct proc_id *ret;
};

static bool works_there(pid_t pid, void *data)
{
    struct search *search = data;
    char link[64];
    struct stat st;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, HOLD_FD_DIR);
    return fs->fstatat(AT_FDCWD, link, &st, 0) == 0 && st.st_dev == search->dir.st_dev &&
           st.st_ino == search->dir.st_ino && proc_id_of(pid, search->ret) == 0;
}

int holder_find(int dir, struct proc_id *ret)
{
    struct search search = {.ret = ret};
    if (dir < 0 || fs->fstat(dir, &search.dir) < 0)
        return -1;
    return each_holder(works_there, &search);
}

static bool add_removed(pid_t pid, void *data)
{
    static const char mark[] = " (deleted)"; /* as the kernel says it */
    char link[64], target[PATH_MAX + 16];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, HOLD_FD_DIR);
    ssize_t len = readlink(link, target, sizeof target - 1), path_len = len - (ssize_t)strlen(mark);
    target[len < 0 ? 0 : len] = '\0';
    if (path_len > 0 && strcmp(target + path_len, mark) == 0) {
        target[path_len] = '\0';
        json_object_set_new(data, target, json_integer(pid));
    }
    return false;
}

json_t *holder_list_removed(void)
{
    json_t *list = json_object();
    each_holder(add_removed, list);
    return list;
}
