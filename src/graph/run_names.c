#include "graph/run_names.h"
#include "base/fs.h"
#include "base/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TIME_END strlen("RUN-20260207T223000-")

/* The time is in the id. */
static bool is_newer(const char *a, const char *b)
{
    return strcmp(a, b) > 0;
}

static void heap_sink(struct run_names *names, size_t at)
{
    const char *id = names->ids[at];
    for (size_t child; (child = 2 * at + 1) < names->left; at = child) {
        if (child + 1 < names->left && is_newer(names->ids[child + 1], names->ids[child]))
            child++;
        if (!is_newer(names->ids[child], id))
            break;
        names->ids[at] = names->ids[child];
    }
    names->ids[at] = id;
}

static bool has_usual_form(const char *id)
{
    return strlen(id) > TIME_END && id[12] == 'T' && strcspn(id + 4, "abcdefghijklmnopqrstuvwxyz") >= TIME_END - 4 &&
           id[TIME_END - 1] == '-';
}

/* Reads the names into `text`; the places of the ids are known when it does not move any more. */
static void names_read(struct listing *runs, struct buf *text, struct run_names *ret)
{
    for (const char *name; (name = listing_next(runs));) {
        size_t len = strlen(name);
        if (strncmp(name, "RUN-", 4) != 0 || len >= RUN_ID_MAX)
            continue;
        buf_put(text, name, len + 1);
        ret->count++;
        ret->has_other = ret->has_other || !has_usual_form(name);
    }
}

int run_names_open(struct tsk_workspace *ws, const char *folder, struct run_names *ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    struct listing runs CLEANUP(listing_close);
    *ret = (struct run_names){0};
    if (listing_open(&runs, ws->state_dir, folder, 0) < 0 && errno != ENOENT)
        return fs_error(err, "read", ws->state_dir, folder);
    names_read(&runs, &text, ret);
    BUG(text.failed);
    if (!text.data) /* there is none */
        return 0;
    ret->ids = malloc((ret->count + 1) * sizeof *ret->ids);
    ret->text = malloc(text.len + 1);
    BUG(!ret->ids || !ret->text);
    memcpy(ret->text, text.data, text.len);
    const char *at = ret->text;
    for (; ret->left < ret->count; at += strlen(at) + 1)
        ret->ids[ret->left++] = at;
    for (size_t i = ret->count / 2; i-- > 0;)
        heap_sink(ret, i);
    return 0;
}

const char *run_names_next(struct run_names *names)
{
    if (names->left == 0)
        return NULL;
    const char *newest = names->ids[0];
    names->ids[0] = names->ids[--names->left];
    names->ids[names->left] = newest;
    if (names->left)
        heap_sink(names, 0);
    return newest;
}

/* A small letter is in no time: then only the end of an id of the usual form can have the text. */
static bool is_after_time(const char *text)
{
    return strlen(text) == strspn(text, "0123456789abcdef") && strpbrk(text, "abcdef");
}

static bool tail_has(const char *tail, const char *text, size_t len)
{
    return strncmp(tail, text, len) == 0 || (strlen(tail) > len && strstr(tail, text));
}

size_t run_names_with(const struct run_names *names, const char *text, const char **ret_one)
{
    size_t count = 0, len = strlen(text);
    bool is_in_tail = !names->has_other && is_after_time(text);
    for (size_t i = 0; i < names->count; i++) {
        const char *id = names->ids[i];
        if (is_in_tail ? tail_has(id + TIME_END, text, len) : strstr(id, text) != NULL) {
            *ret_one = id;
            count++;
        }
    }
    return count;
}

void run_names_clear(struct run_names *names)
{
    free(names->text);
    free(names->ids);
    *names = (struct run_names){0};
}
