/* link_results.c - what workers report, in the order in which it happened. */
#include "base/clock.h"
#include "graph/wire.h"
#include "redis/cluster.h"
#include "redis/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULTS_COUNT "256"

void link_lose(struct link *l, struct out *out, const char *why)
{
    link_tell(l, "lost", out->id, why, out->worker, NULL);
    link_ack(l, out->id, out->session);
    out_drop(l, out);
}

/* A field of an entry. */
static struct piece field_of(const redisReply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(reply_text(fields, i), name) == 0)
            return (struct piece){fields->element[i + 1]->str, fields->element[i + 1]->len};
    return (struct piece){"", 0};
}

static void tell_bytes(struct link *l, const char *word, const struct out *out, const char *more, struct piece bytes)
{
    size_t began = frame_begin(&l->outgoing);
    parcel_puts(&l->outgoing, word);
    parcel_puts(&l->outgoing, out->id);
    parcel_puts(&l->outgoing, out->fence);
    parcel_puts(&l->outgoing, more);
    parcel_put(&l->outgoing, bytes.data, bytes.len);
    frame_end(&l->outgoing, began);
}

static void take_claim(struct link *l, struct out *out, const char *fence, const redisReply *fields)
{
    if (out->state == OUT_ENDED)
        return;
    out->state = OUT_CLAIMED;
    out->is_unsure = false;
    out->is_stopping = false; /* it was in the queue when it was to be stopped */
    out->tick = -1;
    snprintf(out->fence, sizeof out->fence, "%s", fence);
    snprintf(out->worker, sizeof out->worker, "%s", field_of(fields, "w").data);
    char name[REDIS_NAME_MAX];
    const char *told = field_of(fields, "n").data; /* NAME, a tab, COMMIT */
    snprintf(name, sizeof name, "%.*s", (int)strcspn(told, "\t"), told);
    const char *tab = strchr(told, '\t');
    link_tell(l, "claimed", out->id, out->fence, name, tab ? tab + 1 : "", out->worker, NULL);
}

static void result_take_end(struct link *l, struct out *out, const char *entry, const char *worker, struct piece result)
{
    if (out->state == OUT_ENDED)
        return;
    out->state = OUT_ENDED;
    snprintf(out->entry, sizeof out->entry, "%s", entry);
    *l->ends_last = out;
    l->ends_last = &out->next_end;
    tell_bytes(l, "end", out, worker, result);
}

/* What one call of a worker has done, in order: `e ID b RESULT` and `c ID f FENCE`. */
static void take_work(struct link *l, const char *entry, const redisReply *fields)
{
    for (size_t i = 0; i + 3 < fields->elements; i += 2) {
        const char *what = reply_text(fields, i);
        bool is_end = strcmp(what, "e") == 0;
        struct out *out = is_end || strcmp(what, "c") == 0 ? out_find(l, reply_text(fields, i + 1)) : NULL;
        const redisReply *value = fields->element[i + 3];
        if (out && is_end)
            result_take_end(l, out, entry, field_of(fields, "w").data, (struct piece){value->str, value->len});
        else if (out)
            take_claim(l, out, reply_text(fields, i + 3), fields);
    }
}

/* What is returned could not be read by its worker, perhaps: the server may have dropped it. It is sent again before the attempt is. */
static void doubt_what_it_reads(struct link *l, const struct out *out)
{
    for (struct values *values = l->values; values; values = values->next)
        values->is_sent = values->is_sent && strcmp(values->session, out->values) != 0;
    l->has_files = false;
}

static void take_entry(struct link *l, const char *entry, const redisReply *fields)
{
    const char *what = field_of(fields, "t").data;
    struct out *out = out_find(l, field_of(fields, "i").data);
    snprintf(l->last, sizeof l->last, "%s", entry);
    l->untrimmed++;
    if (strcmp(what, "work") == 0)
        take_work(l, entry, fields);
    else if (!out)
        return;
    else if (strcmp(what, "log") == 0)
        tell_bytes(l, "log", out, field_of(fields, "o").data, field_of(fields, "b"));
    else if ((strcmp(what, "back") == 0 || strcmp(what, "lease") == 0 || strcmp(what, LOST_VERSION) == 0) &&
             out->state != OUT_ENDED) {
        doubt_what_it_reads(l, out);
        link_lose(l, out, what);
    }
}

static void take_entries(struct link *l, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 || reply->element[0]->elements < 2)
        return;
    const redisReply *entries = reply->element[0]->element[1];
    for (size_t i = 0; i < entries->elements; i++)
        if (entries->element[i]->elements == 2)
            take_entry(l, reply_text(entries->element[i], 0), entries->element[i]->element[1]);
}

static bool read_on(struct link *l, struct tsk_error *err)
{
    char key[KEY_MAX], wait[16];
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    key_of_run(&l->settings, l->root, "results", key);
    snprintf(wait, sizeof wait, "%d", REDIS_BLOCK_S * 1000);
    command_begin(&command, "XREAD");
    const char *const words[] = {"COUNT", RESULTS_COUNT, "BLOCK", wait, "STREAMS", key, l->last};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        command_puts(&command, words[i]);
    l->is_reading = redis_send(&l->results, &command, NULL, err) == 0;
    return l->is_reading;
}

void link_results(struct link *l)
{
    struct tsk_error err;
    if (l->results.fd < 0) {
        l->is_reading = false;
        if (cluster_connect(&l->results, &l->settings, l->steps.meta, &err) < 0)
            return;
    }
    while (l->results.fd >= 0 && l->outgoing.len < LINK_FULL) {
        redisReply *reply CLEANUP_REPLY = NULL;
        if (!l->is_reading && !read_on(l, &err))
            return;
        int result = redis_receive(&l->results, 0, &reply, &err);
        if (result <= 0)
            return;
        l->is_reading = false;
        if (reply->type == REDIS_REPLY_ERROR) { /* MOVED: the next connection finds it; or refused for now */
            redis_close(&l->results);
            return;
        }
        take_entries(l, reply);
    }
}
