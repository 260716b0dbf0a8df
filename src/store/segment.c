#include "store/segment.h"
#include "base/listing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CLOSED_PREFIX "events."
#define CLOSED_SUFFIX ".ndjson"

/* No trail gets that long; what claims to be is damaged, and its ids would overflow. */
#define BASE_MAX (UINT64_C(1) << 62)

enum { BASE_DIGITS = 20 };

void segment_name(uint64_t base, char name[SEGMENT_NAME_MAX])
{
    snprintf(name, SEGMENT_NAME_MAX, CLOSED_PREFIX "%0*" PRIu64 CLOSED_SUFFIX, BASE_DIGITS, base);
}

static bool closed_name_parse(const char *name, uint64_t *ret_base)
{
    size_t prefix = strlen(CLOSED_PREFIX);
    if (strlen(name) != prefix + BASE_DIGITS + strlen(CLOSED_SUFFIX) || strncmp(name, CLOSED_PREFIX, prefix) != 0 ||
        strspn(name + prefix, "0123456789") != BASE_DIGITS || strcmp(name + prefix + BASE_DIGITS, CLOSED_SUFFIX) != 0)
        return false;
    *ret_base = strtoull(name + prefix, NULL, 10);
    return *ret_base <= BASE_MAX;
}

int segment_each_closed(int state_dir, void (*visit)(void *context, uint64_t base), void *context)
{
    struct listing names CLEANUP(listing_close);
    uint64_t base;
    if (listing_open(&names, state_dir, ".", 0) < 0)
        return -1;
    for (const char *name; (name = listing_next(&names));)
        if (closed_name_parse(name, &base))
            visit(context, base);
    return 0;
}

int segment_base(int fd, uint64_t *ret_base)
{
    char text[SEGMENT_HEADER_MAX];
    ssize_t len = fs->pread(fd, text, sizeof text - 1, 0);
    if (len < 0)
        return -1;
    text[len] = '\0';
    size_t start = strlen(SEGMENT_HEADER_START);
    if (strncmp(text, SEGMENT_HEADER_START, start) != 0 || !strchr(text, '\n'))
        return 0;
    char *end;
    errno = 0;
    uint64_t base = strtoull(text + start, &end, 10);
    if (end == text + start || *end != ',' || errno || base > BASE_MAX)
        return 0;
    *ret_base = base;
    return 1;
}

int segment_open(int state_dir, const char *name, int flags, struct stat *ret_st)
{
    int fd = fs->openat(state_dir, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int problem = fs->fstat(fd, ret_st) < 0 ? errno : S_ISREG(ret_st->st_mode) ? 0 : EINVAL;
    if (!problem)
        return fd;
    fs_close(&fd);
    errno = problem;
    return -1;
}

uint64_t segment_end(uint64_t base, const struct stat *st)
{
    return base + (st->st_size > 0 ? (uint64_t)st->st_size : 1);
}
