#include "graph/pack.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/parcel.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PACK_HEAD "tasuki-files 1"

struct packing {
    struct buf *out; /* NULL: sizes are counted */
    int64_t total, largest;
    char largest_path[PATH_MAX];
    struct tsk_error *err;
};

/* ---- F1 ------------------------------------------------------------------------------------------------- */

static bool part_is_plain(const char *part, size_t len)
{
    return len > 0 && !(len == 1 && part[0] == '.') && !(len == 2 && part[0] == '.' && part[1] == '.');
}

bool pack_path_is_inside(const char *path)
{
    if (strcmp(path, ".") == 0)
        return true;
    if (strlen(path) >= PATH_MAX / 2)
        return false;
    for (;; path++) {
        size_t len = strcspn(path, "/");
        if (!part_is_plain(path, len))
            return false;
        path += len;
        if (!*path)
            return true;
    }
}

static bool link_is_inside(const char *path, const char *target)
{
    int above = 0;
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++)
        above++;
    while (strncmp(target, "../", 3) == 0 || strcmp(target, "..") == 0) {
        target += target[2] ? 3 : 2;
        above--;
    }
    return above >= 0 && (!*target || (pack_path_is_inside(target) && strcmp(target, ".") != 0));
}

/* ---- F2 ------------------------------------------------------------------------------------------------- */

/* The directory that the last part of the path is in; *ret_name is that part. -1 with errno. */
static int open_around(int dir, const char *path, bool makes, const char **ret_name)
{
    char part[NAME_MAX + 1];
    int at = dup(dir);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (makes && fs->mkdirat(at, part, 0700) < 0 && errno != EEXIST) {
            fs_close(&at);
            return -1;
        }
        int next = fs->openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
        fs_close(&at);
        at = next;
    }
    *ret_name = path;
    return at;
}

/* ---- packing -------------------------------------------------------------------------------------------- */

static void put_entry(struct packing *p, const char *kind, const char *path, const void *data, size_t len)
{
    if (!p->out) {
        p->total += (int64_t)(strlen(path) + len) + 16;
        return;
    }
    parcel_puts(p->out, kind);
    parcel_puts(p->out, path);
    parcel_put(p->out, data, len);
}

static int pack_file(struct packing *p, int dir, const char *name, const char *path, const struct stat *st)
{
    struct buf text CLEANUP(buf_clear) = {.max = PACK_MAX + PACK_SPARE};
    if (st->st_size > p->largest) {
        p->largest = st->st_size;
        snprintf(p->largest_path, sizeof p->largest_path, "%s", path);
    }
    if (!p->out) {
        p->total += st->st_size;
    } else if (fs_read_file(dir, name, PACK_MAX, &text) < 0) {
        return fs_error(p->err, "read", dir, name);
    }
    put_entry(p, st->st_mode & 0111 ? "x" : "f", path, text.data, text.len);
    return 0;
}

static int pack_link(struct packing *p, int dir, const char *name, const char *path)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(dir, name, target, sizeof target - 1);
    if (len < 0)
        return fs_error(p->err, "read", dir, name);
    target[len] = '\0';
    if (!link_is_inside(path, target))
        return error_set(p->err, TSK_INVALID_INPUT, "files_link", "path", path, "target", target, NULL);
    put_entry(p, "l", path, target, (size_t)len);
    return 0;
}

static int pack_walk(struct packing *p, int dir, const char *name, const char *path);

static int pack_below(struct packing *p, int dir, const char *name, const char *path)
{
    struct listing names CLEANUP(listing_close);
    char below[PATH_MAX];
    bool is_top = strcmp(path, ".") == 0;
    if (listing_open(&names, dir, name, LISTING_SORTED | LISTING_NO_LINK) < 0)
        return fs_error(p->err, "read", dir, name);
    for (const char *one; (one = listing_next(&names));) {
        if (strcmp(one, ".git") == 0 || strcmp(one, ".aiflow") == 0)
            continue;
        snprintf(below, sizeof below, "%s%s%.255s", is_top ? "" : path, is_top ? "" : "/", one);
        if (pack_walk(p, names.fd, one, below) < 0)
            return -1;
    }
    return 0;
}

static int pack_walk(struct packing *p, int dir, const char *name, const char *path)
{
    struct stat st;
    if (!pack_path_is_inside(path))
        return error_set(p->err, TSK_INVALID_INPUT, "files_path", "path", path, NULL);
    if (fs->fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fs_error(p->err, "read", dir, name);
    if (S_ISREG(st.st_mode))
        return pack_file(p, dir, name, path, &st);
    if (S_ISLNK(st.st_mode))
        return pack_link(p, dir, name, path);
    if (!S_ISDIR(st.st_mode))
        return error_set(p->err, TSK_INVALID_INPUT, "files_kind", "path", path, NULL);
    if (strcmp(path, ".") != 0)
        put_entry(p, "d", path, "", 0);
    return pack_below(p, dir, name, path);
}

static int pack_all(struct packing *p, int dir, const char *paths, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, paths += strlen(paths) + 1) {
        const char *name;
        int around CLEANUP_FD = open_around(dir, paths, false, &name);
        if (around < 0)
            return fs_error(p->err, "read", dir, paths);
        if (pack_walk(p, around, name, paths) < 0)
            return -1;
    }
    return 0;
}

static int refuse_size(const struct packing *p)
{
    error_set(p->err, TSK_INVALID_INPUT, "files_too_large", "path", p->largest_path, NULL);
    error_add_int(p->err, "bytes", p->total);
    error_add_int(p->err, "largest", p->largest);
    return error_add_int(p->err, "max", PACK_MAX);
}

int pack_make(int dir, const char *paths, uint32_t count, struct buf *ret, struct tsk_error *err)
{
    struct packing p = {.err = err};
    if (pack_all(&p, dir, paths, count) < 0)
        return -1;
    if (p.total > PACK_MAX)
        return refuse_size(&p);
    *ret = (struct buf){.max = PACK_MAX * 2};
    parcel_puts(ret, PACK_HEAD);
    p.out = ret;
    if (pack_all(&p, dir, paths, count) < 0)
        return -1;
    return ret->failed || ret->len > PACK_MAX ? refuse_size(&p) : 0; /* it has grown meanwhile */
}

/* ---- unpacking ------------------------------------------------------------------------------------------ */

static int unpack_entry(int dir, const char *kind, const char *path, const struct piece *content)
{
    const char *name;
    int around CLEANUP_FD = open_around(dir, path, true, &name);
    if (around < 0)
        return -1;
    if (*kind == 'd')
        return fs->mkdirat(around, name, 0700) < 0 && errno != EEXIST ? -1 : 0;
    if (*kind == 'l')
        return symlinkat(content->data, around, name) < 0 && errno != EEXIST ? -1 : 0;
    int fd CLEANUP_FD =
        fs->openat(around, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, *kind == 'x' ? 0700 : 0600);
    return fd < 0 ? -1 : fs_write_all(fd, content->data, content->len);
}

static bool entry_is_good(const char *kind, const char *path, const struct piece *content)
{
    if (strlen(kind) != 1 || !strchr("dfxl", *kind) || !pack_path_is_inside(path) || strcmp(path, ".") == 0)
        return false;
    return *kind != 'l' || (strlen(content->data) == content->len && link_is_inside(path, content->data));
}

static int unpack_turn(struct parcel p, int dir, bool is_for_links)
{
    struct piece kind, path, content;
    while (parcel_next(&p, &kind)) {
        if (!parcel_next(&p, &path) || !parcel_next(&p, &content) || !entry_is_good(kind.data, path.data, &content)) {
            errno = EBADMSG;
            return -1;
        }
        if ((*kind.data == 'l') == is_for_links && unpack_entry(dir, kind.data, path.data, &content) < 0)
            return -1;
    }
    return 0;
}

int pack_unpack(const char *data, size_t len, int dir)
{
    struct parcel p = {data, len};
    if (strcmp(parcel_text(&p), PACK_HEAD) != 0) {
        errno = EBADMSG;
        return -1;
    }
    return unpack_turn(p, dir, false) < 0 || unpack_turn(p, dir, true) < 0 ? -1 : 0;
}
