/* leftovers.c - temporary files of commands that died between writing a file and giving it its name. */
#include "base/listing.h"
#include "doctor/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLD_MS (10 * 60 * 1000) /* nobody writes a file that long */

struct leftover_count {
    size_t found, removed;
};

static bool file_is_old(const struct stat *st, const struct now *now)
{
    return now->wall_ms - (int64_t)st->st_mtim.tv_sec * 1000 > OLD_MS;
}

/* In one directory. Private names of locks are removed with the guard held (locks.c). */
static void look_in(struct finding *f, const char *path, struct leftover_count *count)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, f->doctor->ws->state_dir, path, LISTING_NO_LINK);
    for (const char *name; (name = listing_next(&names));) {
        struct stat st;
        if (!fs_is_private_name(name) || fs->fstatat(names.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode) || !file_is_old(&st, &f->doctor->now))
            continue;
        if (finding_fixes(f) && fs->unlinkat(names.fd, name, 0) == 0) {
            count->removed++;
            continue;
        }
        count->found++;
        finding_add(f, DOCTOR_WARN, "doctor_temp", "dir", path, "file", name, NULL);
    }
}

/* In each directory of a directory. */
static void look_below(struct finding *f, const char *parent, struct leftover_count *count)
{
    struct listing names CLEANUP(listing_close);
    listing_open(&names, f->doctor->ws->state_dir, parent, LISTING_SORTED | LISTING_NO_LINK);
    for (const char *name; (name = listing_next(&names));) {
        char path[512];
        if (name[0] != '.' && snprintf(path, sizeof path, "%s/%s", parent, name) < (int)sizeof path)
            look_in(f, path, count);
    }
}

void check_leftovers(struct finding *f)
{
    struct leftover_count count = {0};
    finding_summary(f, "doctor_temp_none", NULL);
    look_in(f, ".", &count);
    look_in(f, "requests", &count);
    look_in(f, "flows", &count);
    look_below(f, "runs", &count);
    look_below(f, "processes", &count);
    if (count.removed)
        finding_fixed(f, "doctor_temp_fixed", "count", DIGITS(count.removed), NULL);
    if (count.found)
        finding_fix_ours(f, "doctor --fix");
}
