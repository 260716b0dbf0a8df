#include "proc/memo.h"

#include "base/fs.h"
#include "hold/protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* M3: of a file system that has fractions of a second, and of one that has whole seconds. */
#define TICK_NS    INT64_C(20000000)
#define COARSE_NS  INT64_C(2100000000)
#define STEP_NS    (TICK_NS / 2)
#define SECOND_NS  INT64_C(1000000000)
#define MEMO_FILES (sizeof((struct memo_stamps *)0)->files / sizeof(struct memo_stamp))

static const char *const memo_files[MEMO_FILES] = {"", "/" HOLD_STATUS_NAME, "/" HOLD_WANT_NAME, "/" HOLD_HISTORY_NAME,
                                                   "/" HOLD_PHASE_NAME};

struct memo_entry {
    char id[ID_LENGTH_MAX + 1];
    struct buf row;
    struct memo_stamps stamps;
    struct proc_view view;
    struct proc_known *known;
    int lock_fd;
    uint64_t look; /* the latest one that has seen it */
};

struct memo {
    pthread_mutex_t mutex;       /* of what follows */
    struct memo_entry **entries; /* by id */
    size_t count, room, most;
    uint64_t looks;
};

/* ---- entries ---------------------------------------------------------------------------------------------------- */

void proc_known_drop(struct proc_known *known)
{
    if (!known || atomic_fetch_sub(&known->users, 1) > 1)
        return;
    free(known->record);
    free(known->cwd);
    free(known);
}

static struct proc_known *known_new(const struct proc *p, const json_t *record)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct proc_probe ready, health;
    struct proc_known *known = memory_zeroed(1, sizeof *known);
    const char *cwd = json_get_string(p->spec, "cwd", NULL);
    proc_spec_probe(p->spec, "ready", &ready);
    proc_spec_probe(p->spec, "health", &health);
    json_write(&text, record, false);
    known->users = 1;
    known->len = text.len;
    known->record = buf_take(&text);
    known->cwd = cwd ? strdup(cwd) : NULL;
    known->port = proc_port(p);
    known->has_probe = ready.kind != PROBE_NONE || health.kind != PROBE_NONE;
    BUG(!known->record || (cwd && !known->cwd));
    return known;
}

static void entry_free(struct memo_entry *entry)
{
    buf_clear(&entry->row);
    proc_known_drop(entry->known);
    fs_close(&entry->lock_fd);
    free(entry);
}

/* The place of the first entry that is not before `id`. */
static size_t memo_place(const struct memo *memo, const char *id)
{
    size_t from = 0, to = memo->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (strcmp(memo->entries[middle]->id, id) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool memo_has_at(const struct memo *memo, size_t place, const char *id)
{
    return place < memo->count && strcmp(memo->entries[place]->id, id) == 0;
}

static void memo_drop(struct memo *memo, size_t place)
{
    entry_free(memo->entries[place]);
    memo->count--;
    memmove(&memo->entries[place], &memo->entries[place + 1], (memo->count - place) * sizeof *memo->entries);
}

/* In a full memo, what was seen longest ago makes room for a later look. One list does not displace what it has seen itself. */
static bool memo_make_room(struct memo *memo, uint64_t look)
{
    size_t oldest = 0;
    if (memo->count < memo->most)
        return true;
    for (size_t i = 1; i < memo->count; i++)
        if (memo->entries[i]->look < memo->entries[oldest]->look)
            oldest = i;
    if (!memo->count || memo->entries[oldest]->look >= look)
        return false;
    memo_drop(memo, oldest);
    return true;
}

static void memo_put(struct memo *memo, struct memo_entry *entry)
{
    size_t place = memo_place(memo, entry->id);
    if (memo_has_at(memo, place, entry->id))
        memo_drop(memo, place);
    if (!memo_make_room(memo, entry->look)) {
        entry_free(entry);
        return;
    }
    place = memo_place(memo, entry->id);
    LIST_GROW(memo->entries, memo->count, memo->room, 16);
    memmove(&memo->entries[place + 1], &memo->entries[place], (memo->count - place) * sizeof *memo->entries);
    memo->entries[place] = entry;
    memo->count++;
}

static void memo_free(struct memo *memo)
{
    while (memo->count)
        memo_drop(memo, memo->count - 1);
    free(memo->entries);
    pthread_mutex_destroy(&memo->mutex);
    free(memo);
}

bool memo_begin(struct tsk_workspace *ws, size_t most)
{
    enum fs_class class;
    const char *ignored;
    if (!most || fs_classify(ws->state_dir, &class, &ignored) < 0 || class != FS_LOCAL)
        return false; /* M7 */
    struct memo *memo = memory_zeroed(1, sizeof *memo);
    pthread_mutex_init(&memo->mutex, NULL);
    memo->most = most;
    ws->memo = memo;
    ws->memo_free = memo_free;
    return true;
}

/* ---- how the files are ------------------------------------------------------------------------------------------ */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * SECOND_NS + time.tv_nsec;
}

static int64_t clock_distance(void)
{
    return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
}

/* False: it cannot be examined. */
static bool stamp_file(int processes, const char *id, size_t number, struct memo_stamp *ret)
{
    char path[ID_LENGTH_MAX + 32];
    struct stat st;
    size_t len = strnlen(id, ID_LENGTH_MAX);
    memcpy(path, id, len);
    memcpy(path + len, memo_files[number], strlen(memo_files[number]) + 1);
    *ret = (struct memo_stamp){.inode = 0};
    if (fs->fstatat(processes, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT;
    *ret = (struct memo_stamp){.device = (int64_t)st.st_dev,
                               .inode = (int64_t)st.st_ino,
                               .mode = st.st_mode,
                               .size = number ? st.st_size : 0,
                               .changed_ns = st.st_ctim.tv_sec * SECOND_NS + st.st_ctim.tv_nsec,
                               .written_ns = st.st_mtim.tv_sec * SECOND_NS + st.st_mtim.tv_nsec};
    return true;
}

/* M3. `now_ns` was read before the time of change. */
static bool has_passed(const struct memo_stamp *stamp, int64_t now_ns)
{
    bool is_coarse = stamp->changed_ns % SECOND_NS == 0;
    return !stamp->inode || stamp->changed_ns + (is_coarse ? COARSE_NS : TICK_NS) < now_ns;
}

void memo_stamp(const struct memo *memo, int processes, const char *id, struct memo_stamps *ret)
{
    ret->is_usable = memo != NULL;
    if (!memo)
        return;
    int64_t now_ns = clock_ns(CLOCK_REALTIME_COARSE); /* the clock that files have their times from */
    ret->clock_ns = clock_distance();
    for (size_t i = 0; i < MEMO_FILES && ret->is_usable; i++)
        ret->is_usable = stamp_file(processes, id, i, &ret->files[i]) && has_passed(&ret->files[i], now_ns);
}

/* M2; M3: a clock that is only adjusted may be a little behind. */
static bool is_as_stamped(const struct memo_entry *entry, int processes)
{
    size_t count = entry->view.state == PROC_NOT_STARTED ? 1 /* no directory */
                   : entry->known->has_probe             ? MEMO_FILES
                                                         : MEMO_FILES - 1; /* nobody reads its phase */
    if (clock_distance() < entry->stamps.clock_ns - STEP_NS)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct memo_stamp now;
        if (!stamp_file(processes, entry->id, i, &now) || memcmp(&now, &entry->stamps.files[i], sizeof now) != 0)
            return false;
    }
    return true;
}

/* ---- recalling -------------------------------------------------------------------------------------------------- */

/* In the order of look.h: who is in charge, the files, the child. */
static bool entry_holds(const struct memo_entry *entry, int processes, const struct buf *row,
                        struct proc_usage *ret_usage)
{
    bool is_running = entry->view.state == PROC_RUNNING;
    if (entry->row.len != row->len || memcmp(entry->row.data, row->data, row->len) != 0)
        return false;
    if (is_running && fs_lock_probe(entry->lock_fd, F_WRLCK, 0, 1, NULL) != 1)
        return false;
    return is_as_stamped(entry, processes) &&
           (!is_running || proc_id_look(&entry->view.child, ret_usage) == LIVE_ALIVE);
}

bool memo_recall(struct memo *memo, int processes, struct proc *p)
{
    struct proc_usage usage = {0};
    pthread_mutex_lock(&memo->mutex);
    size_t place = memo_place(memo, p->id);
    struct memo_entry *entry = memo_has_at(memo, place, p->id) ? memo->entries[place] : NULL;
    bool is_known = entry && entry_holds(entry, processes, &p->row, &usage);
    if (is_known) {
        entry->look = memo->looks;
        p->view = entry->view;
        p->view.usage = usage;
        p->known = entry->known;
        atomic_fetch_add(&p->known->users, 1);
    } else if (entry) {
        memo_drop(memo, place);
    }
    pthread_mutex_unlock(&memo->mutex);
    return is_known;
}

/* M6, M7. */
static bool may_be_kept(const struct memo_stamps *stamps, const struct proc *p)
{
    const struct proc_view *view = &p->view;
    if (!stamps->is_usable || !p->is_synced)
        return false;
    if (view->state == PROC_NOT_STARTED && p->dir < 0)
        return !stamps->files[0].inode;
    return stamps->files[0].inode && p->dir >= 0 && stamps->files[3].size == p->history_offset &&
           view->state == PROC_RUNNING && view->has_holder && view->has_usage && !view->is_foreign && !view->is_stuck &&
           *view->log;
}

void memo_keep(struct memo *memo, const struct memo_stamps *stamps, const struct proc *p, const json_t *record)
{
    if (!may_be_kept(stamps, p))
        return;
    struct memo_entry *entry = memory_zeroed(1, sizeof *entry);
    *entry = (struct memo_entry){.row = BUF_INIT, .stamps = *stamps, .view = p->view, .known = known_new(p, record)};
    snprintf(entry->id, sizeof entry->id, "%s", p->id);
    buf_put(&entry->row, p->row.data, p->row.len);
    bool is_running = p->view.state == PROC_RUNNING;
    entry->lock_fd = is_running ? fs->openat(p->dir, HOLD_LOCK_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0) : -1;
    if ((is_running && entry->lock_fd < 0) || entry->row.failed) {
        entry_free(entry);
        return;
    }
    pthread_mutex_lock(&memo->mutex);
    entry->look = memo->looks;
    memo_put(memo, entry);
    pthread_mutex_unlock(&memo->mutex);
}

void memo_forget(struct memo *memo, const char *id)
{
    pthread_mutex_lock(&memo->mutex);
    size_t place = memo_place(memo, id);
    if (memo_has_at(memo, place, id))
        memo_drop(memo, place);
    pthread_mutex_unlock(&memo->mutex);
}

void memo_end(struct memo *memo)
{
    pthread_mutex_lock(&memo->mutex);
    memo->most = 0;
    while (memo->count)
        memo_drop(memo, memo->count - 1);
    pthread_mutex_unlock(&memo->mutex);
}

uint64_t memo_begin_look(struct memo *memo)
{
    pthread_mutex_lock(&memo->mutex);
    uint64_t look = ++memo->looks;
    pthread_mutex_unlock(&memo->mutex);
    return look;
}

void memo_end_list(struct memo *memo, uint64_t look)
{
    pthread_mutex_lock(&memo->mutex);
    for (size_t i = memo->count; i-- > 0;)
        if (memo->entries[i]->look < look)
            memo_drop(memo, i);
    pthread_mutex_unlock(&memo->mutex);
}
