#include "http/cache.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Path and query as they were sent: the query follows the path, behind a `?`. */
static struct http_text target_of(const struct http_head *head)
{
    size_t len = head->query.len ? (size_t)(head->query.at + head->query.len - head->path.at) : head->path.len;
    return (struct http_text){head->path.at, len};
}

bool cache_answer(struct http_cache *cache, struct http_conn *conn, enum lang lang)
{
    struct http_text target = target_of(conn->head);
    for (unsigned i = 0; i < CACHE_COUNT; i++) {
        if (!cache->entries[i].target || cache->entries[i].lang != lang ||
            !http_text_is(&target, cache->entries[i].target))
            continue;
        feed_notice(&conn->server->feed);
        if (cache->entries[i].changes != conn->server->feed.changes ||
            clock_now().boot_ms - cache->entries[i].made_ms > CACHE_MS)
            return false;
        conn->op = cache->entries[i].op;
        conn_answer(conn, 200, "application/json", NULL, cache->entries[i].body.data, cache->entries[i].body.len);
        return true;
    }
    return false;
}

void cache_mark(struct http_job *job, const struct http_conn *conn)
{
    const unsigned wanted = OP_READ_ONLY | OP_IDEMPOTENT, unwanted = OP_INTERRUPTIBLE | OP_STREAMS | OP_NO_WORKSPACE;
    struct http_text target = target_of(conn->head);
    if ((job->op->flags & wanted) != wanted || (job->op->flags & unwanted) || conn->body.len || job->caller.secret)
        return;
    feed_notice(&conn->server->feed);
    job->seen = conn->server->feed.changes;
    job->made_ms = clock_now().boot_ms;
    job->target = strndup(target.at, target.len);
}

void cache_keep(struct http_cache *cache, struct http_job *job)
{
    unsigned at = 0;
    if (!job->target || job->status != 200)
        return;
    while (at < CACHE_COUNT && !(cache->entries[at].target && cache->entries[at].lang == job->lang &&
                                 strcmp(cache->entries[at].target, job->target) == 0))
        at++;
    at = at < CACHE_COUNT ? at : cache->next++ % CACHE_COUNT;
    free(cache->entries[at].target);
    buf_clear(&cache->entries[at].body);
    cache->entries[at].op = job->op;
    cache->entries[at].lang = job->lang;
    cache->entries[at].changes = job->seen;
    cache->entries[at].made_ms = job->made_ms;
    cache->entries[at].target = job->target;
    cache->entries[at].body = (struct buf)BUF_INIT;
    buf_put(&cache->entries[at].body, job->body.data, job->body.len);
    job->target = NULL;
    if (cache->entries[at].body.failed) {
        free(cache->entries[at].target);
        cache->entries[at].target = NULL;
    }
}

void cache_clear(struct http_cache *cache)
{
    for (unsigned i = 0; i < CACHE_COUNT; i++) {
        free(cache->entries[i].target);
        buf_clear(&cache->entries[i].body);
    }
}
