/* The reading end of the trail. It takes no lock, so it costs writers nothing and can be stopped at will. */
#include "store/segment.h"

#include <errno.h>
#include <string.h>

enum {
    READ_CHUNK = 64 * 1024,
    RECALL_SPAN = 32 * 1024,
    READ_ATTEMPTS = 16, /* a segment may be closed, renamed or removed between looking and opening */
};

/* ---- finding a segment -------------------------------------------------------------------------------- */

/* The closed segment with the greatest base not above `id`, and the one with the smallest base above it. */
struct neighbours {
    uint64_t id;
    uint64_t floor, ceiling;
    bool has_floor, has_ceiling;
};

static void neighbours_visit(void *context, uint64_t base)
{
    struct neighbours *around = context;
    if (base <= around->id && (!around->has_floor || base > around->floor)) {
        around->floor = base;
        around->has_floor = true;
    }
    if (base > around->id && (!around->has_ceiling || base < around->ceiling)) {
        around->ceiling = base;
        around->has_ceiling = true;
    }
}

static void reader_take_segment(struct event_reader *reader, int *fd, uint64_t base)
{
    fs_close(&reader->fd);
    reader->fd = *fd;
    *fd = -1;
    reader->base = base;
    reader->is_inside_line = false;
    reader->taken = 0;
    buf_reset(&reader->pending);
}

/* 1: opened, 0: it went away, -1. */
static int open_closed(struct event_reader *reader, uint64_t base)
{
    char name[SEGMENT_NAME_MAX];
    struct stat st;
    segment_name(base, name);
    int fd CLEANUP_FD = segment_open(reader->state_dir, name, O_RDONLY, &st);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    reader_take_segment(reader, &fd, base);
    return 1;
}

enum wanted {
    WANTED_AT,    /* the segment that has `id` in it, else the first one after */
    WANTED_AFTER, /* the first one whose base is above `id` */
};

/* One attempt: 1: opened, 0: none there now, -1; sets *is_stale when it is worth another attempt.
 *
 * The current segment is opened before the directory is listed. Whatever has a smaller base was then closed
 * already and is certain to be listed; so a rotation in between cannot make us skip a segment. */
static int find_once(struct event_reader *reader, uint64_t id, enum wanted wanted, bool *is_stale)
{
    struct stat st;
    uint64_t current_base = 0;
    int current CLEANUP_FD = segment_open(reader->state_dir, TRAIL_NAME, O_RDONLY, &st);
    if (current < 0 && errno != ENOENT)
        return -1;
    int is_good = current < 0 ? 0 : segment_base(current, &current_base);
    if (is_good < 0)
        return -1;
    struct neighbours around = {.id = id};
    bool is_in_current = is_good && wanted == WANTED_AT && id >= current_base;
    if (!is_in_current && segment_each_closed(reader->state_dir, neighbours_visit, &around) < 0)
        return -1;
    if (is_good && current_base > id && (!around.has_ceiling || current_base < around.ceiling))
        around.has_ceiling = false; /* the current one is nearer */
    bool use_floor = wanted == WANTED_AT && around.has_floor && !is_in_current;
    if (use_floor || around.has_ceiling) {
        int rc = open_closed(reader, use_floor ? around.floor : around.ceiling);
        *is_stale = rc == 0;
        return rc;
    }
    if (!is_in_current && !(is_good && current_base > id))
        return 0;
    reader_take_segment(reader, &current, current_base);
    return 1;
}

static int reader_find(struct event_reader *reader, uint64_t id, enum wanted wanted)
{
    int rc = 0;
    bool is_stale = true;
    for (int i = 0; i < READ_ATTEMPTS && is_stale; i++) {
        is_stale = false;
        rc = find_once(reader, id, wanted, &is_stale);
    }
    return rc;
}

/* ---- starting ----------------------------------------------------------------------------------------- */

static int64_t outbox_id_of(const char *line, size_t len)
{
    json_t *stored CLEANUP_JSON = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    return json_get_int(json_object_get(stored, "data"), "outbox_id", 0);
}

/* E6 for a reader that continues from an offset: recalls the last outbox_id shortly before it. Looking back a short way
 * is enough, because the next flush writes a repetition close to its first copy. */
static void reader_recall(struct event_reader *reader, uint64_t offset)
{
    struct buf text CLEANUP(buf_clear) = {.max = 2 * EVENT_LINE_MAX};
    uint64_t from = offset > RECALL_SPAN ? offset - RECALL_SPAN : 0;
    size_t before = (size_t)(offset - from);
    char *room = buf_reserve(&text, before + RECALL_SPAN);
    if (!room)
        return;
    ssize_t n = fs->pread(reader->fd, room, before + RECALL_SPAN, (off_t)from);
    if (n < (ssize_t)before)
        return;
    /* The line in which he stopped belongs to what was read. */
    const char *end = reader->is_inside_line ? memchr(room + before, '\n', (size_t)n - before) : room + before;
    end = end ? end : room + before;
    while (end > room && reader->last_outbox_id == 0) {
        const char *line = memrchr(room, '\n', (size_t)(end - room));
        line = line ? line + 1 : room;
        if (memmem(line, (size_t)(end - line), "\"outbox_id\":", 12))
            reader->last_outbox_id = outbox_id_of(line, (size_t)(end - line));
        end = line > room ? line - 1 : room;
    }
}

/* Puts the wanted id inside the segment that was found, and onto the beginning of a line. */
static int reader_settle(struct event_reader *reader)
{
    struct stat st;
    if (fs->fstat(reader->fd, &st) < 0)
        return -1;
    if (reader->next_id < reader->base)
        reader->next_id = reader->base;
    if (reader->next_id - reader->base > (uint64_t)st.st_size)
        reader->next_id = reader->base + (uint64_t)st.st_size;
    uint64_t offset = reader->next_id - reader->base;
    char byte;
    reader->is_inside_line = offset > 0 && fs->pread(reader->fd, &byte, 1, (off_t)offset - 1) == 1 && byte != '\n';
    if (offset > 0)
        reader_recall(reader, offset);
    return 0;
}

static int reader_start(struct event_reader *reader)
{
    int rc = reader_find(reader, reader->next_id, WANTED_AT);
    return rc <= 0 ? rc : reader_settle(reader) < 0 ? -1 : 1;
}

int event_reader_init(struct event_reader *reader, int state_dir, uint64_t from, struct tsk_error *err)
{
    *reader = (struct event_reader){
        .state_dir = state_dir, .fd = -1, .next_id = from, .pending = {.max = 2 * EVENT_LINE_MAX}};
    int rc = reader_start(reader);
    if (rc < 0)
        return fs_error(err, "read", reader->state_dir, TRAIL_NAME);
    if (rc == 0 && from == EVENT_FROM_END) /* no trail yet: all of it will be new */
        reader->next_id = 0;
    return 0;
}

void event_reader_clear(struct event_reader *reader)
{
    fs_close(&reader->fd);
    buf_clear(&reader->pending);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* More bytes into `pending`: how many, or -1. */
static ssize_t reader_fill(struct event_reader *reader)
{
    struct buf *pending = &reader->pending;
    if (reader->taken) {
        memmove(pending->data, pending->data + reader->taken, pending->len - reader->taken);
        pending->len -= reader->taken;
        reader->taken = 0;
    }
    if (pending->len > EVENT_LINE_MAX) { /* no line of ours is that long */
        reader->next_id += pending->len;
        reader->is_inside_line = true;
        buf_reset(pending);
    }
    char *at = buf_reserve(pending, READ_CHUNK);
    if (!at) {
        errno = ENOMEM;
        return -1;
    }
    off_t offset = (off_t)(reader->next_id - reader->base + pending->len);
    ssize_t n = fs->pread(reader->fd, at, READ_CHUNK, offset);
    if (n > 0)
        pending->len += (size_t)n;
    return n;
}

/* Takes one whole line: its id and its text (valid until the next fill). */
static bool reader_take_line(struct event_reader *reader, uint64_t *ret_id, const char **ret_line, size_t *ret_len)
{
    size_t left = reader->pending.len - reader->taken;
    const char *line = buf_str(&reader->pending) + reader->taken;
    const char *end = left ? memchr(line, '\n', left) : NULL;
    if (!end)
        return false;
    *ret_id = reader->next_id;
    *ret_line = line;
    *ret_len = (size_t)(end - line);
    reader->taken += *ret_len + 1;
    reader->next_id += *ret_len + 1;
    return true;
}

/* E6: whether the event is one that was seen before. */
static bool is_repeated(struct event_reader *reader, const json_t *event)
{
    int64_t outbox_id = json_get_int(json_object_get(event, "data"), "outbox_id", 0);
    if (outbox_id <= 0)
        return false;
    if (outbox_id <= reader->last_outbox_id)
        return true;
    reader->last_outbox_id = outbox_id;
    return false;
}

/* The event on that line, or NULL if there is none to show. */
static json_t *event_of_line(struct event_reader *reader, uint64_t id, const char *line, size_t len)
{
    if (len == 0 || line[0] != '{')
        return NULL;
    json_t *stored CLEANUP_JSON = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_get_string(stored, "type", NULL) || !json_get_string(stored, "time", NULL) ||
        !json_is_object(json_object_get(stored, "data")) || is_repeated(reader, stored))
        return NULL;
    json_t *event = json_object();
    json_object_set_new(event, "id", json_integer((json_int_t)id));
    json_object_update_missing(event, stored);
    return event;
}

/* The segment is read to its end. 1: there may be more now (it grew, or the next segment was opened), 0: no,
 * -1. */
static int reader_advance(struct event_reader *reader)
{
    struct stat ours, current;
    if (fs->fstat(reader->fd, &ours) < 0)
        return -1;
    if (fs->fstatat(reader->state_dir, TRAIL_NAME, &current, AT_SYMLINK_NOFOLLOW) == 0 &&
        current.st_ino == ours.st_ino && current.st_dev == ours.st_dev)
        return 0;
    /* Closed; but lines may have come between our last read and that. */
    ssize_t n = reader_fill(reader);
    if (n)
        return n < 0 ? -1 : 1;
    int rc = reader_find(reader, reader->base, WANTED_AFTER);
    if (rc == 1)
        reader->next_id = reader->base;
    return rc;
}

/* 1: `pending` has more, 0: nothing for now, -1. */
static int reader_more(struct event_reader *reader)
{
    if (reader->fd < 0)
        return reader_start(reader);
    ssize_t n = reader_fill(reader);
    return n > 0 ? 1 : n < 0 ? -1 : reader_advance(reader);
}

int event_read(struct event_reader *reader, json_t **ret, struct tsk_error *err)
{
    for (;;) {
        uint64_t id;
        const char *line;
        size_t len;
        while (reader_take_line(reader, &id, &line, &len)) {
            bool is_partial = reader->is_inside_line;
            reader->is_inside_line = false;
            json_t *event = is_partial ? NULL : event_of_line(reader, id, line, len);
            if (!event)
                continue;
            *ret = event;
            return 1;
        }
        int rc = reader_more(reader);
        if (rc < 0)
            return fs_error(err, "read", reader->state_dir, TRAIL_NAME);
        if (rc == 0)
            return 0;
    }
}
