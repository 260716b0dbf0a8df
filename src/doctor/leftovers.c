/* leftovers.c - temporary files of commands that died between writing a file and giving it its name. */
#include "doctor/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLD_MS (10 * 60 * 1000) /* nobody writes a file that long */

struct leftover_count {
    size_t found, removed;
};

static bool is_old(const struct stat *st, const struct now *now)
{
    return now->wall_ms - (int64_t)st->st_mtim.tv_sec * 1000 > OLD_MS;
}

/* In one directory. Private names of locks are removed with the guard held (locks.c). */
static void look_in(struct finding *f, int dir, const char *shown, struct leftover_count *count)
{
    DIR *listing = dir < 0 ? NULL : fdopendir(dir);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        struct stat st;
        if (!fs_is_private_name(entry->d_name) ||
            fs->fstatat(dirfd(listing), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            !is_old(&st, &f->doctor->now))
            continue;
        if (finding_fixes(f) && fs->unlinkat(dirfd(listing), entry->d_name, 0) == 0) {
            count->removed++;
            continue;
        }
        count->found++;
        finding_add(f, DOCTOR_WARN, "doctor_temp", "dir", shown, "file", entry->d_name, NULL);
    }
    if (listing)
        closedir(listing);
    else
        fs_close(&dir);
}

static int open_at(const struct doctor *d, const char *name)
{
    return fs->openat(d->ws->state_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* In each directory of a directory. */
static void look_below(struct finding *f, const char *parent, struct leftover_count *count)
{
    struct dirent **names = NULL;
    int dir CLEANUP_FD = open_at(f->doctor, parent);
    int entries = dir < 0 ? 0 : scandirat(dir, ".", &names, NULL, alphasort);
    for (int i = 0; i < entries; i++) {
        char path[512];
        bool is_id = names[i]->d_name[0] != '.' &&
                     snprintf(path, sizeof path, "%s/%s", parent, names[i]->d_name) < (int)sizeof path;
        if (is_id)
            look_in(f, open_at(f->doctor, path), path, count);
        free(names[i]);
    }
    free(names);
}

void check_leftovers(struct finding *f)
{
    struct leftover_count count = {0};
    char removed[24];
    finding_summary(f, "doctor_temp_none", NULL);
    look_in(f, open_at(f->doctor, "."), ".", &count);
    look_in(f, open_at(f->doctor, "requests"), "requests", &count);
    look_in(f, open_at(f->doctor, "flows"), "flows", &count);
    look_below(f, "runs", &count);
    look_below(f, "processes", &count);
    if (count.removed)
        finding_fixed(f, "doctor_temp_fixed", "count", number_text((int64_t)count.removed, removed), NULL);
    if (count.found)
        finding_fix_ours(f, "doctor --fix");
}
