/* page.h - limit and cursor, the same for every list.
 *
 * A list is sorted by the keys of its items (bytes), and a cursor is the key of the last item on the page. So an item that is
 * added or removed between two pages does not shift the others: no item is shown twice and none is left out, even if the item
 * that the cursor names is gone. If the list is sorted by id, the key is the id; otherwise the key encodes the order.
 *
 *     struct page page = page_begin(call, PAGE_ALL);
 *     for (… in order …)
 *         if (page_takes(&page, key))
 *             page_put(&page, json);
 *     *ret = page_end(&page, "locks");    {"locks": […], "total": 7, "cursor": "name/deploy" or null} */
#ifndef OPS_PAGE_H
#define OPS_PAGE_H

#include "ops/ops.h"

#define PAGE_ALL     INT64_MAX
#define PAGE_BRIEF   50 /* for an agent, which pays for every byte; other callers get all */
#define PAGE_KEY_MAX 1024

#define PAGE_LIMIT(text, most, otherwise)                                                                              \
    PARAM("limit", OP_INT, OP_OPTIONAL, "N", text, .fallback = otherwise, .min = 1, .max = 100000, .letter = 'n',      \
          .agent_help = most)
#define PAGE_CURSOR                                                                                                    \
    PARAM("cursor", OP_STRING, OP_OPTIONAL, "C", "Continue after the page that gave this cursor.",                     \
          .max = PAGE_KEY_MAX - 1, .agent_help = "Continue after it.")
#define PAGE_PARAMS       PAGE_LIMIT("At most N.", "At most N (50).", "all"), PAGE_CURSOR
#define PAGE_CURSOR_FIELD FIELD("cursor", "string?", "for the next page; null: this is the last one")
#define PAGE_FIELDS       FIELD("total", "integer", "the number of all entries"), PAGE_CURSOR_FIELD

struct page {
    const char *after; /* the cursor that was given; NULL: from the beginning */
    int64_t limit, total;
    bool is_descending; /* the newest first */
    bool is_partial;    /* not all entries were read: there is no total */
    bool has_more;
    json_t *items;
    char last[PAGE_KEY_MAX];
};

/* `limit` unless the arguments say so. */
struct page page_begin(const struct op_call *call, int64_t limit);
/* Whether an item with this key is behind the cursor. */
bool page_is_due(const struct page *page, const char *key);
bool page_is_full(const struct page *page);
/* Counts an item of the list. Returns whether it belongs to this page and must be put. */
bool page_takes(struct page *page, const char *key);
void page_put(struct page *page, json_t *item_take);
/* The answer, owned; the page is over. */
json_t *page_end(struct page *page, const char *name);
void page_clear(struct page *page); /* for CLEANUP: what was not ended */

/* Sorts an array of objects by what `key` writes for each of them, and gives the page of it. */
json_t *page_sorted(const struct op_call *call, const char *name, const json_t *items,
                    void (*key)(const json_t *item, char text[PAGE_KEY_MAX]));

#endif
