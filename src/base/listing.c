#include "base/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int listing_open(struct listing *ret, int dir, const char *path, unsigned flags)
{
    int link_flag = flags & LISTING_NO_LINK ? O_NOFOLLOW : 0;
    *ret = (struct listing){.fd = fs->openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | link_flag, 0)};
    if (ret->fd < 0)
        return -1;
    if (flags & LISTING_SORTED)
        ret->count = scandirat(ret->fd, ".", &ret->sorted, NULL, compare_entries);
    else
        ret->stream = fdopendir(ret->fd);
    if (ret->stream || (ret->sorted && ret->count >= 0))
        return 0;
    fs_close(&ret->fd);
    ret->count = 0;
    return -1;
}

static const struct dirent *next_entry(struct listing *listing)
{
    if (listing->stream)
        return readdir(listing->stream);
    return listing->next < listing->count ? listing->sorted[listing->next++] : NULL;
}

const char *listing_next(struct listing *listing)
{
    for (const struct dirent *entry; (entry = next_entry(listing));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            listing->type = entry->d_type;
            return entry->d_name;
        }
    return NULL;
}

void listing_close(struct listing *listing)
{
    for (int i = 0; i < listing->count; i++)
        free(listing->sorted[i]);
    free(listing->sorted);
    if (listing->stream)
        closedir(listing->stream);
    else
        fs_close(&listing->fd);
    *listing = (struct listing){.fd = -1};
}

int listing_remove_tree(int parent, const char *name)
{
    struct listing names CLEANUP(listing_close);
    if (listing_open(&names, parent, name, LISTING_NO_LINK) < 0)
        return errno == ENOENT ? 0 : errno == ENOTDIR || errno == ELOOP ? fs->unlinkat(parent, name, 0) : -1;
    int result = 0;
    for (const char *entry; result == 0 && (entry = listing_next(&names));)
        result = names.type == DT_DIR ? listing_remove_tree(names.fd, entry) : fs->unlinkat(names.fd, entry, 0);
    return result < 0 ? -1 : fs->unlinkat(parent, name, AT_REMOVEDIR);
}
