#include "ops/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page page_begin(const struct op_call *call, int64_t limit)
{
    if (limit == PAGE_ALL && call->is_brief)
        limit = PAGE_BRIEF;
    const char *after = json_get_string(call->args, "cursor", "");
    return (struct page){
        .after = *after ? after : NULL, .limit = json_get_int(call->args, "limit", limit), .items = json_array()};
}

bool page_is_due(const struct page *page, const char *key)
{
    if (!page->after)
        return true;
    int order = strcmp(key, page->after);
    return page->is_descending ? order < 0 : order > 0;
}

bool page_is_full(const struct page *page)
{
    return (int64_t)json_array_size(page->items) >= page->limit;
}

bool page_takes(struct page *page, const char *key)
{
    page->total++;
    if (!page_is_due(page, key))
        return false;
    if (page_is_full(page)) {
        page->has_more = true;
        return false;
    }
    snprintf(page->last, sizeof page->last, "%s", key);
    return true;
}

void page_put(struct page *page, json_t *item_take)
{
    json_array_append_new(page->items, item_take);
}

json_t *page_end(struct page *page, const char *name)
{
    json_t *json = json_pack("{s:o}", name, page->items);
    page->items = NULL;
    if (!page->is_partial)
        json_object_set_new(json, "total", json_integer(page->total));
    json_set_text(json, "cursor", page->has_more ? page->last : NULL);
    return json;
}

void page_clear(struct page *page)
{
    json_decref(page->items);
    page->items = NULL;
}

/* ---- lists that come in another order ---- */

struct keyed {
    char key[PAGE_KEY_MAX];
    json_t *item;
};

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct keyed *const *)a)->key, (*(const struct keyed *const *)b)->key);
}

json_t *page_sorted(const struct op_call *call, const char *name, const json_t *items,
                    void (*key)(const json_t *item, char text[PAGE_KEY_MAX]))
{
    size_t i, count = json_array_size(items);
    struct keyed *all = calloc(count + 1, sizeof *all), **sorted = calloc(count + 1, sizeof(void *));
    struct page page = page_begin(call, PAGE_ALL);
    BUG(!all || !sorted);
    for (i = 0; i < count; i++) {
        all[i].item = json_array_get(items, i);
        key(all[i].item, all[i].key);
        sorted[i] = &all[i];
    }
    qsort(sorted, count, sizeof(void *), by_key);
    for (i = 0; i < count; i++)
        if (page_takes(&page, sorted[i]->key))
            page_put(&page, json_incref(sorted[i]->item));
    free(sorted);
    free(all);
    return page_end(&page, name);
}
