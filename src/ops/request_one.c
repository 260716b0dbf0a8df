/* request_one.c - the request that an operation is about: the one that is named, or the only one that it can be. */
#include "base/word.h"
#include "ops/request_args.h"
#include "ops/short_id.h"

#include <stdio.h>
#include <string.h>

#define CHOICES_SHOWN 5

int request_named(struct op_call *call, struct tsk_error *err)
{
    char id[LOCK_ID_MAX];
    const char *name = json_get_string(call->args, "request", NULL);
    if (!name)
        return 0;
    if (request_resolve(call->ws, name, !(call->op->flags & OP_READ_ONLY), id, err) < 0)
        return -1;
    json_object_set_new(call->args, "request", json_string(id));
    return 0;
}

/* Whether the request can be meant by a command that names none. */
static bool can_be_meant(const struct book_entry *entry, bool runs)
{
    const char *status = book_status(entry);
    return runs ? entry->reason == BOOK_MAY_RUN : strcmp(status, "done") == 0 || strcmp(status, "failed") == 0;
}

static int refuse_none(bool runs, struct tsk_error *err)
{
    error_set(err, TSK_REQUEST_NOT_FOUND, runs ? "request_none_may_run" : "request_none_ended", NULL);
    return error_add_next(err, "%s", runs ? "tasuki queue next" : "tasuki request list");
}

/* The first few of them, in the queue's order, with their titles; the first is the next command. */
static int refuse_several(struct op_call *call, const struct book *book, bool runs, size_t count, struct tsk_error *err)
{
    struct buf list CLEANUP(buf_clear) = BUF_INIT;
    json_t *ids CLEANUP_JSON = json_array();
    const char *first = NULL;
    size_t i, shown = 0;
    for (i = 0; i < book->count; i++)
        json_array_append_new(ids, json_string(book->entries[i].request.id));
    for (i = 0; i < book->count && shown < CHOICES_SHOWN; i++) {
        const struct request *request = &book->entries[i].request;
        if (!can_be_meant(&book->entries[i], runs))
            continue;
        first = first ? first : request->id;
        buf_printf(&list, "%s%s (%s)", shown++ ? ", " : "", short_id_of(short_ids_of_texts(ids), request->id),
                   json_get_string(request->json, "title", ""));
    }
    buf_puts(&list, count > shown ? ", …" : "");
    error_set(err, TSK_INVALID_INPUT, runs ? "request_several_may_run" : "request_several_ended", "count",
              DIGITS(count), "requests", buf_str(&list), NULL);
    return error_add_next(err, "tasuki request %s %s", call->op->verb, first);
}

int request_named_or_only(struct op_call *call, bool runs, struct tsk_error *err)
{
    struct book book CLEANUP(book_clear) = {.entries = NULL};
    const struct book_entry *only = NULL;
    size_t count = 0;
    if (json_get_string(call->args, "request", NULL))
        return request_named(call, err);
    if (book_open(call->ws, false, call->lang, &book, err) < 0)
        return -1;
    for (size_t i = 0; i < book.count; i++)
        if (can_be_meant(&book.entries[i], runs)) {
            only = &book.entries[i];
            count++;
        }
    if (count != 1)
        return count ? refuse_several(call, &book, runs, count, err) : refuse_none(runs, err);
    json_object_set_new(call->args, "request", json_string(only->request.id));
    return 0;
}
