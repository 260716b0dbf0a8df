#include "own/waiting.h"
#include "base/listing.h"

#include <stdio.h>
#include <string.h>

#define WAITING_FOLDER "waiting"

static int open_folder(struct tsk_workspace *ws)
{
    return fs->openat(ws->state_dir, WAITING_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* V1: whether its waiter lives. */
static bool is_ticket_locked(int dir, const char *name, struct buf *ret_text)
{
    int fd CLEANUP_FD = fs->openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    return fd >= 0 && fs_lock_probe(fd, F_WRLCK, 0, 1, NULL) == 1 &&
           (!ret_text || fs_read_fd(fd, 64 << 10, ret_text) == 0);
}

static bool is_waiting_file(const char *name)
{
    size_t len = strlen(name);
    return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".json") == 0;
}

static void sweep_waiting(int dir)
{
    struct listing files CLEANUP(listing_close);
    listing_open(&files, dir, ".", LISTING_SORTED);
    for (const char *name; (name = listing_next(&files));)
        if (is_waiting_file(name) && !is_ticket_locked(dir, name, NULL))
            fs->unlinkat(dir, name, 0);
}

static void put_waiting(struct buf *b, const char *kind, const char *id, int64_t since_ms)
{
    buf_puts(b, "{");
    buf_json_pair(b, "kind", kind);
    buf_json_pair(b, "id", id);
    buf_json_pair_int(b, "since_ms", since_ms);
    buf_json_key(b, "who");
    buf_puts(b, who_current_text());
    buf_puts(b, "}\n");
}

void waiting_begin(struct waiting *waiting, struct tsk_workspace *ws, const char *kind, const char *id)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    char digits[17], private_name[FS_PRIVATE_NAME_MAX] = "";
    *waiting = (struct waiting)WAITING_NONE;
    waiting->since_ms = clock_now().wall_ms;
    if (fs_make_dirs(ws->state_dir, WAITING_FOLDER) < 0 || (waiting->dir = open_folder(ws)) < 0)
        return;
    sweep_waiting(waiting->dir);
    put_waiting(&text, kind, id, waiting->since_ms);
    random_hex(digits, sizeof digits - 1);
    snprintf(waiting->name, sizeof waiting->name, "%s.json", digits);
    waiting->fd = fs_temp_open(waiting->dir, 0600, private_name);
    bool is_made = waiting->fd >= 0 && fs_lock_try(waiting->fd, F_WRLCK, 0, 1) == 0 &&
                   fs_write_all(waiting->fd, text.data, text.len) == 0 &&
                   fs_publish(waiting->fd, private_name, waiting->dir, waiting->name) == 0;
    if (private_name[0])
        fs->unlinkat(waiting->dir, private_name, 0);
    if (!is_made)
        fs_close(&waiting->fd);
}

void waiting_end(struct waiting *waiting)
{
    if (waiting->fd >= 0)
        fs->unlinkat(waiting->dir, waiting->name, 0);
    fs_close(&waiting->fd);
    fs_close(&waiting->dir);
    *waiting = (struct waiting)WAITING_NONE;
}

static void add_waiter(int dir, const char *name, json_t *list)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *one = is_ticket_locked(dir, name, &text) ? json_loadb(buf_str(&text), text.len, 0, NULL) : NULL;
    if (!json_is_object(one)) {
        json_decref(one);
        return;
    }
    const char *since = TIME_EXACT(json_get_int(one, "since_ms", 0));
    json_object_del(one, "since_ms");
    json_object_set_new(one, "since", json_string(since));
    json_array_append_new(list, one);
}

json_t *waiting_list(struct tsk_workspace *ws)
{
    struct listing files CLEANUP(listing_close);
    json_t *list = json_array();
    listing_open(&files, ws->state_dir, WAITING_FOLDER, LISTING_SORTED | LISTING_NO_LINK);
    for (const char *name; (name = listing_next(&files));)
        if (is_waiting_file(name))
            add_waiter(files.fd, name, list);
    return list;
}
