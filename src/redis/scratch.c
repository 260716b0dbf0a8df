#include "redis/scratch.h"
#include "base/fs.h"
#include "base/listing.h"
#include "redis/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH_NAME "tasuki-worker-"
#define SCRATCH_LIFE "life"

void scratch_log_name(const char *path, int place, uint64_t fence, const char *root, char name[PATH_MAX])
{
    snprintf(name, PATH_MAX, "%.3900s/log.%d.%llu.%s", path, place, (unsigned long long)fence, root);
}

/* S2; other names are left alone. */
static void end_attempt_of(const char *name)
{
    char *rest;
    if (strncmp(name, "log.", 4) != 0)
        return;
    strtoul(name + 4, &rest, 10);
    uint64_t fence = *rest == '.' ? strtoull(rest + 1, &rest, 10) : 0;
    if (fence && *rest == '.')
        guard_end_tree(rest + 1, fence);
}

void scratch_end(int parent, const char *name)
{
    struct stat st;
    struct listing names CLEANUP(listing_close) = {.fd = -1};
    int dir CLEANUP_FD = fs->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (dir < 0 || fs->fstat(dir, &st) < 0 || st.st_uid != geteuid())
        return;
    int life CLEANUP_FD = fs->openat(dir, SCRATCH_LIFE, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    if (life < 0 || fs_lock_try(life, F_WRLCK, 0, 1) < 0 || listing_open(&names, dir, ".", LISTING_SORTED) < 0)
        return;
    for (const char *one; (one = listing_next(&names));)
        end_attempt_of(one);
    listing_remove_tree(parent, name);
}

static void scratch_end_others(const char *base)
{
    struct listing names CLEANUP(listing_close) = {.fd = -1};
    if (listing_open(&names, AT_FDCWD, base, LISTING_SORTED) < 0)
        return; /* what is wrong with it, the new one shows */
    for (const char *name; (name = listing_next(&names));)
        if (strncmp(name, SCRATCH_NAME, strlen(SCRATCH_NAME)) == 0)
            scratch_end(names.fd, name);
}

int scratch_make(char path[PATH_MAX], struct tsk_error *err)
{
    const char *base = getenv("TMPDIR");
    base = base && *base ? base : "/tmp";
    scratch_end_others(base);
    snprintf(path, PATH_MAX, "%.3000s/" SCRATCH_NAME "XXXXXX", base);
    if (!mkdtemp(path))
        return error_errno(err, "make", path);
    int dir CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int life = dir < 0 ? -1 : fs->openat(dir, SCRATCH_LIFE ".new", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (life >= 0 && fs_lock_try(life, F_WRLCK, 0, 1) == 0 &&
        fs->renameat2(dir, SCRATCH_LIFE ".new", dir, SCRATCH_LIFE, 0) == 0)
        return life;
    error_errno(err, "make", path);
    fs_close(&life);
    return -1;
}
