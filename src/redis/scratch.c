#include "redis/scratch.h"
#include "base/fs.h"
#include "base/listing.h"
#include "redis/guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH_NAME     "tasuki-worker-"
#define SCRATCH_LIFE     "life"
#define SCRATCH_ATTEMPTS "attempts"

struct attempt_record {
    uint64_t fence;
    char root[64];
};

int scratch_note(int attempts, size_t place, uint64_t fence, const char *root)
{
    struct attempt_record record = {.fence = fence};
    snprintf(record.root, sizeof record.root, "%s", root);
    ssize_t len = fs->pwrite(attempts, &record, sizeof record, (off_t)(place * sizeof record));
    return len == (ssize_t)sizeof record ? 0 : -1;
}

/* S2 of the version before: the names of the logs. */
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

/* S2. A file that is cut off has nothing behind its end. */
static void end_attempts_of(int dir)
{
    struct attempt_record record;
    struct listing names CLEANUP(listing_close) = {.fd = -1};
    int fd CLEANUP_FD = fs->openat(dir, SCRATCH_ATTEMPTS, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT && listing_open(&names, dir, ".", LISTING_SORTED) == 0)
        for (const char *one; (one = listing_next(&names));)
            end_attempt_of(one);
    for (off_t at = 0; fd >= 0 && fs->pread(fd, &record, sizeof record, at) == (ssize_t)sizeof record;
         at += sizeof record) {
        record.root[sizeof record.root - 1] = '\0';
        if (record.fence)
            guard_end_tree(record.root, record.fence);
    }
}

void scratch_end(int parent, const char *name)
{
    struct stat st;
    int dir CLEANUP_FD = fs->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (dir < 0 || fs->fstat(dir, &st) < 0 || st.st_uid != geteuid())
        return;
    int life CLEANUP_FD = fs->openat(dir, SCRATCH_LIFE, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    if (life < 0 || fs_lock_try(life, F_WRLCK, 0, 1) < 0)
        return;
    end_attempts_of(dir);
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

static int make_attempts(int dir, size_t places)
{
    int fd = fs->openat(dir, SCRATCH_ATTEMPTS, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (size_t i = 0; fd >= 0 && i < places; i++)
        if (scratch_note(fd, i, 0, "") < 0)
            break; /* a disk that is full: who claims something learns that, and returns it (W7 of worker.h) */
    return fd;
}

int scratch_make(char path[PATH_MAX], size_t places, int *ret_attempts, struct tsk_error *err)
{
    const char *base = getenv("TMPDIR");
    base = base && *base ? base : "/tmp";
    scratch_end_others(base);
    snprintf(path, PATH_MAX, "%.3000s/" SCRATCH_NAME "XXXXXX", base);
    if (!mkdtemp(path))
        return error_errno(err, "make", path);
    int dir CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int life = dir < 0 ? -1 : fs->openat(dir, SCRATCH_LIFE ".new", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    *ret_attempts = dir < 0 ? -1 : make_attempts(dir, places);
    if (life >= 0 && *ret_attempts >= 0 && fs_lock_try(life, F_WRLCK, 0, 1) == 0 &&
        fs->renameat2(dir, SCRATCH_LIFE ".new", dir, SCRATCH_LIFE, 0) == 0)
        return life;
    error_errno(err, "make", path);
    fs_close(&life);
    return -1;
}
