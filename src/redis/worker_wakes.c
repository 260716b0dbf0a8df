/* worker_wakes.c - what a worker waits for: hints that a run has work, and orders. */
#include "redis/cluster.h"
#include "redis/pool.h"
#include "redis/worker.h"

#include <stdio.h>
#include <string.h>

#define LOOK_MS 1000
#define WAKES_S "86400"

/* All runs that are said to live may have work: hints can be lost. Those that were heard of last are first. */
void look_at_runs(struct worker *w)
{
    char key[KEY_MAX];
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL;
    if (w->only[0]) {
        worker_run_of(w, w->only)->has_work = true;
        return;
    }
    key_of_pool(&w->settings, "live", key);
    if (redis_say(&w->calls, &reply, &err, "ZREVRANGE", key, "0", "999", NULL) < 0)
        return;
    for (size_t i = 0; i < reply->elements; i++)
        worker_run_of(w, reply_text(reply, i))->has_work = true;
}

static struct worker_place *place_of(struct worker *w, const char *root, const char *id, const char *fence)
{
    for (size_t i = 0; i < w->place_count; i++)
        if (w->places[i].run && strcmp(w->places[i].run->root, root) == 0 && strcmp(w->places[i].id, id) == 0 &&
            strcmp(w->places[i].fence, fence) == 0)
            return &w->places[i];
    return NULL;
}

/* `stop ROOT ID FENCE`: in good order, its end is reported. `revoke ROOT ID FENCE`: at once, it goes back. `drain`, `end`. */
static void take_order(struct worker *w, const char *order)
{
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", order);
    const char *what = strsep(&rest, " "), *root = strsep(&rest, " "), *id = strsep(&rest, " ");
    struct worker_place *place = rest ? place_of(w, root, id, rest) : NULL;
    if (strcmp(what, "drain") == 0 || strcmp(what, "end") == 0)
        worker_end(w, what[0] == 'd' ? 1 : 2);
    else if (place && strcmp(what, "stop") == 0 && place->process.stops == STOP_NONE)
        place_stop(w, place, STOP_RUN);
    else if (place && strcmp(what, "revoke") == 0) {
        place->is_back = true;
        execution_kill(&place->run->executor, &place->claim, &place->process);
    }
}

#define TAGS_MAX (sizeof((struct worker *)0)->tags / 2)

/* The lists of our tags, which are between commas: where they begin. */
static size_t find_tags(const char *tags, const char *list[TAGS_MAX])
{
    size_t count = 0;
    for (const char *tag = tags + strspn(tags, ","); *tag && count < TAGS_MAX;) {
        list[count++] = tag;
        tag += strcspn(tag, ",");
        tag += strspn(tag, ",");
    }
    return count;
}

static void put_wait(const struct worker *w, const struct worker_wait *wait, const char *key, size_t most,
                     struct redis_command *command)
{
    bool is_many = most > 1 && wait->conn.has_functions && !wait->has_no_many; /* of the same version */
    char name[KEY_MAX / 2], tag_key[KEY_MAX];
    const char *tags[TAGS_MAX];
    size_t count = wait == &w->wakes && !w->only[0] ? find_tags(w->tags, tags) : 0;
    command_begin(command, is_many ? "BLMPOP" : "BLPOP");
    if (is_many) {
        command_put_int(command, REDIS_BLOCK_S);
        command_put_int(command, (int64_t)count + 1);
    }
    for (size_t i = 0; i < count; i++) { /* they are first: others take what is in the list of all */
        snprintf(name, sizeof name, POOL_WAKE_TAG "%.*s", (int)strcspn(tags[i], ","), tags[i]);
        key_of_pool(&w->settings, name, tag_key);
        command_puts(command, tag_key);
    }
    command_puts(command, key);
    if (!is_many) {
        command_put_int(command, REDIS_BLOCK_S);
        return;
    }
    command_puts(command, "LEFT");
    command_puts(command, "COUNT");
    command_put_int(command, (int64_t)most);
}

/* Keeps one blocking wait under way on the connection, for up to `most` elements; 0: for none. What came, or NULL. */
static redisReply *wait_turn(struct worker *w, struct worker_wait *wait, const char *key, size_t most)
{
    struct tsk_error err;
    redisReply *reply = NULL;
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    int64_t now = clock_now().boot_ms;
    if (wait->conn.fd < 0) {
        wait->is_asked = false;
        if (w->calls.fd < 0 || now < wait->try_ms)
            return NULL;
        wait->try_ms = now + RECONNECT_MS;
        if (cluster_connect(&wait->conn, &w->settings, key, &err) < 0)
            return NULL;
    }
    if (wait->is_asked) {
        int result = redis_receive(&wait->conn, 0, &reply, &err);
        wait->is_asked = result == 0;
        if (reply && reply->type == REDIS_REPLY_ERROR) {
            wait->has_no_many = wait->has_no_many || strstr(reply->str, "unknown command");
            redis_close(&wait->conn); /* MOVED: the next connection finds the node */
        }
    }
    if (!wait->is_asked && most && wait->conn.fd >= 0) {
        put_wait(w, wait, key, most, &command);
        wait->is_asked = redis_send(&wait->conn, &command, NULL, &err) == 0;
    }
    return reply;
}

/* Each element is a run that has an attempt for somebody. Those that are more than we have room for are for others. */
static void take_wakes(struct worker *w, const redisReply *wake, size_t room)
{
    const char *key = reply_text(wake, 0);
    struct tsk_error err;
    struct redis_command command CLEANUP(command_clear) = {.count = 0}, life CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    const redisReply *list =
        wake->elements > 1 && wake->element[1]->type == REDIS_REPLY_ARRAY ? wake->element[1] : wake;
    size_t first = list == wake ? 1 : 0;
    command_begin(&command, "RPUSH");
    command_puts(&command, key);
    for (size_t i = first; i < list->elements; i++) {
        if (i == first || strcmp(reply_text(list, i), reply_text(list, i - 1)) != 0)
            worker_run_of(w, reply_text(list, i))->has_work = true;
        if (i - first >= room)
            command_puts(&command, reply_text(list, i));
    }
    command_begin(&life, "EXPIRE");
    command_puts(&life, key);
    command_puts(&life, WAKES_S);
    if (list->elements - first > room && w->calls.fd >= 0)
        cluster_ask_two(&w->calls, key, &command, &life, &reply, &err);
}

void talk_wakes(struct worker *w)
{
    char key[KEY_MAX], name[WORKER_ID_MAX + 8];
    size_t room = !w->ends && clock_now().boot_ms >= w->rest_ms ? w->place_count - w->used : 0;
    snprintf(name, sizeof name, "o:%s", w->id);
    key_of_pool(&w->settings, name, key);
    redisReply *order CLEANUP_REPLY = wait_turn(w, &w->orders, key, 1);
    if (order && order->type == REDIS_REPLY_ARRAY)
        take_order(w, reply_text(order, 1));
    snprintf(name, sizeof name, POOL_WAKE "%s%s", w->only[0] ? ":" : "", w->only);
    key_of_pool(&w->settings, name, key);
    redisReply *wake CLEANUP_REPLY = wait_turn(w, &w->wakes, key, room);
    bool is_deaf = room && w->wakes.conn.fd < 0 && w->calls.fd >= 0 && clock_now().boot_ms >= w->look_ms;
    if (is_deaf) /* the list is on its way to another node, say: nobody waits for that */
        w->look_ms = clock_now().boot_ms + LOOK_MS;
    if (is_deaf || (wake && wake->type == REDIS_REPLY_NIL))
        look_at_runs(w);
    if (!wake || wake->type != REDIS_REPLY_ARRAY)
        return;
    take_wakes(w, wake, room);
}
