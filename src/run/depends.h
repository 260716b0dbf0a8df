/* depends.h - which requests wait for themselves.
 *
 * The graph of what is not done yet is made once per book; its cycles are found in one pass (Tarjan), without recursion, in time
 * that grows with requests and dependencies. */
#ifndef RUN_DEPENDS_H
#define RUN_DEPENDS_H

#include "run/book.h"

struct depends {
    const struct book *book;
    uint32_t *first;        /* per entry and one more: where its edges begin in `to` */
    uint32_t *to;           /* entries that are not done */
    uint32_t *cycle;        /* the number of the cycle an entry is in; 0: in none */
    uint32_t *seen, *from;  /* of depends_put_path */
    uint32_t *queue, looks; /* likewise */
};

void depends_init(struct depends *d, const struct book *book);
void depends_clear(struct depends *d);
static inline bool depends_is_cyclic(const struct depends *d, size_t entry)
{
    return d->cycle[entry];
}
/* "A → B → A"; a way that is long is cut short: "A → B → … → A". */
void depends_put_path(struct depends *d, size_t entry, struct buf *path);

#endif
