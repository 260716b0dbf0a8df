/* link_steps.c - what a link says to the server, and what follows from the answers. */
#include "base/clock.h"
#include "redis/cluster.h"
#include "redis/link.h"
#include "redis/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUSH_MAX        256
#define PUSH_BYTES      (4 << 20)
#define TRIM_COUNT      64
#define LOOK_MAX_MS     500
#define LINK_LIVE_MS    10000
#define LIVE_OLD_MS     3600000 /* a run whose runner has died without a word is no hint any more */
#define WAKE_MS         1000
#define WAKES_MAX       64
#define WORKERS_SOON_MS 1000
#define WORKERS_LATE_MS 5000
#define NOBODY_MS       2000
#define FORGETS_MAX     200   /* sessions and versions */
#define KEYS_MS         60000 /* how often the keys of a run begin their week again */

static bool ask(struct link *l, const struct redis_command *command, redisReply **ret)
{
    struct tsk_error err;
    enum steps_answer answer = steps_ask(&l->calls, &l->steps, command, ret, &err);
    if (answer == STEPS_AWAY)
        link_away(l, &err);
    else if (answer == STEPS_STALE || answer == STEPS_ENDED)
        link_stale(l);
    else if (answer == STEPS_FOREIGN) {
        link_away(l, &err);
        l->is_over = true;
    } else
        link_here(l);
    return answer == STEPS_OK;
}

static void step(struct link *l, struct redis_command *command, const char *name)
{
    steps_begin(command, &l->calls, &l->steps, name);
    command_puts(command, l->owner);
}

/* L2. */
void link_stale(struct link *l)
{
    link_tell(l, "stale", NULL);
    l->phase = LINK_BEGINS;
    l->steps.seen = 0;
    l->epoch++;
    l->was_interrupted = true;
    snprintf(l->owner + strlen(l->owner) - 4, 5, "%04x", (unsigned)(l->epoch & 0xffff));
    redis_close(&l->results);
    snprintf(l->last, sizeof l->last, "0-0");
}

/* ---- beginning ------------------------------------------------------------------------------------------ */

/* Tells workers to end the attempts of an earlier runner of this run. The server has recorded them, so we will see
 * their end. */
static bool revoke_page(struct link *l, const redisReply *page)
{
    char order[300];
    struct tsk_error err;
    for (size_t i = 3; i + 1 < page->elements; i += 2) {
        const char *id = reply_text(page, i), *state = reply_text(page, i + 1), *worker = strchr(state, ' ');
        if (!worker)
            continue;
        snprintf(order, sizeof order, "revoke %s %s %.*s", l->root, id, (int)(worker - state), state);
        if (pool_order(&l->calls, &l->settings, worker + 1, order, &err) < 0)
            return false;
    }
    return true;
}

static bool revoke_all(struct link *l)
{
    for (;;) {
        struct redis_command command CLEANUP(command_clear) = {.count = 0};
        redisReply *reply CLEANUP_REPLY = NULL;
        step(l, &command, "holders");
        if (!ask(l, &command, &reply) || !revoke_page(l, reply))
            return false;
        if (strcmp(reply_text(reply, 2), "1") != 0)
            return true;
    }
}

static bool sweep(struct link *l, const char *how)
{
    for (;;) {
        struct redis_command command CLEANUP(command_clear) = {.count = 0};
        redisReply *reply CLEANUP_REPLY = NULL;
        step(l, &command, "sweep");
        command_puts(&command, how);
        if (!ask(l, &command, &reply))
            return false;
        if (strcmp(reply_text(reply, 1), "1") != 0)
            return true;
    }
}

/* R5 of graph/remote.h: the list that wakes the runner's own worker. */
static void local_list(const struct link *l, char name[KEY_MAX / 2])
{
    snprintf(name, KEY_MAX / 2, POOL_WAKE ":%s", l->root);
}

bool link_sweep_all(struct link *l)
{
    char key[KEY_MAX], name[KEY_MAX / 2];
    struct tsk_error err;
    if (l->calls.fd < 0 || l->phase == LINK_BEGINS || !sweep(l, "end"))
        return false;
    key_of_pool(&l->settings, "live", key);
    redis_say(&l->calls, NULL, &err, "ZREM", key, l->root, NULL);
    local_list(l, name);
    key_of_pool(&l->settings, name, key);
    if (l->is_local && l->calls.fd >= 0)
        redis_say(&l->calls, NULL, &err, "DEL", key, NULL);
    return true;
}

/* All that was out is put there again, so that results are taken; who had it is not known any more. */
static void doubt_outs(struct link *l)
{
    for (size_t i = 0; i < l->out_count; i++) {
        struct out *out = l->outs[i];
        if (out->state == OUT_ENDED)
            continue;
        out->is_unsure = out->was_sent;
        out->state = OUT_NEW;
        out->is_stopping = false;
    }
    for (struct values *values = l->values; values; values = values->next)
        values->is_sent = false;
    json_array_clear(l->forgets); /* nothing is there any more */
    l->has_files = false;
    l->has_new = l->out_count > 0;
}

void link_begin(struct link *l)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    if (!l->root[0])
        return;
    steps_begin(&command, &l->calls, &l->steps, "begin");
    command_put_int(&command, l->epoch);
    command_put_int(&command, l->lease_ms);
    command_puts(&command, l->owner);
    l->steps.seen = 0;
    if (!ask(l, &command, &reply))
        return;
    l->epoch = strtoll(reply_text(reply, 1), NULL, 10);
    l->steps.seen = strtoll(reply_text(reply, 2), NULL, 10);
    const char *was = reply_text(reply, 3);
    bool is_same = strcmp(was, "SAME") == 0, is_new = strcmp(was, "NEW") == 0;
    if ((!l->has_begun && is_same && !revoke_all(l)) || !sweep(l, ""))
        return;
    bool must_wait = l->has_begun || l->was_interrupted || !is_new;
    l->may_be_early = !l->has_begun && is_same;
    l->settled_ms = must_wait ? clock_now().boot_ms + l->lease_ms : 0;
    doubt_outs(l);
    l->phase = LINK_SETTLES;
    l->keys_ms = 0;
}

static bool is_settled(struct link *l)
{
    char key[KEY_MAX];
    struct tsk_error err;
    redisReply *reply CLEANUP_REPLY = NULL;
    if (clock_now().boot_ms >= l->settled_ms)
        return true;
    if (!l->may_be_early)
        return false;
    key_of_run(&l->settings, l->root, "revoked", key);
    return redis_say(&l->calls, &reply, &err, "HLEN", key, NULL) == 0 && reply->integer == 1; /* the step's own mark */
}

void link_settle(struct link *l)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    if (!is_settled(l))
        return;
    step(l, &command, "open");
    if (!ask(l, &command, &reply))
        return;
    l->phase = LINK_OPEN;
    l->has_begun = true;
    for (size_t i = l->out_count; i > 0; i--) {
        struct out *out = l->outs[i - 1];
        if (out->state == OUT_ENDED)
            continue;
        if (out->is_unsure)
            link_lose(l, out, out->fence[0] ? "server" : "unsure");
        else
            out->state = OUT_NEW;
    }
    l->has_new = true;
    link_tell(l, "open", NULL);
}

/* ---- attempts ------------------------------------------------------------------------------------------- */

static void put_trim(struct link *l, struct redis_command *command)
{
    char entry[64], *dash;
    if (l->ends)
        command_puts(command, l->ends->entry);
    else if (strtoull(l->last, &dash, 10) && *dash == '-') {
        snprintf(entry, sizeof entry, "%.*s-%llu", (int)(dash - l->last), l->last, strtoull(dash + 1, NULL, 10) + 1);
        command_puts(command, entry);
    } else
        command_puts(command, "");
}

/* What is pushed now. *ret_again: the server may have some of it already. *ret_full: there may be more. */
static size_t find_pushes(struct link *l, struct out *list[PUSH_MAX], bool *ret_again, bool *ret_full)
{
    size_t count = 0, bytes = 0;
    *ret_again = false;
    for (size_t i = 0; i < l->out_count && count < PUSH_MAX && bytes < PUSH_BYTES; i++) {
        if (l->outs[i]->state != OUT_NEW)
            continue;
        list[count++] = l->outs[i];
        *ret_again = *ret_again || l->outs[i]->was_sent;
        l->outs[i]->was_sent = true;
        bytes += l->outs[i]->spec_len;
    }
    *ret_full = count == PUSH_MAX || bytes >= PUSH_BYTES;
    return count;
}

static void put_pushes(struct redis_command *command, struct out *const *list, size_t count)
{
    command_put_int(command, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        command_puts(command, list[i]->id);
        command_puts(command, list[i]->session);
        command_puts(command, list[i]->tags);
        command_put(command, list[i]->spec, list[i]->spec_len);
    }
}

static void wake_list(struct link *l, const char *name, size_t count)
{
    char key[KEY_MAX];
    struct tsk_error err;
    struct redis_command command CLEANUP(command_clear) = {.count = 0}, life CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    key_of_pool(&l->settings, name, key);
    command_begin(&command, "RPUSH");
    command_puts(&command, key);
    for (size_t i = 0; i < count && i < WAKES_MAX; i++)
        command_puts(&command, l->root);
    command_begin(&life, "EXPIRE");
    command_puts(&life, key);
    command_puts(&life, "86400");
    if (cluster_ask_two(&l->calls, key, &command, &life, &reply, &err) == 0 && reply->integer > 1024)
        redis_say(&l->calls, NULL, &err, "LTRIM", key, "-1024", "-1", NULL);
}

/* Hints for attempts with these tags. Workers without the first of them do not wait at its list, so they do not use its hints up. */
static void wake(struct link *l, const char *tags, size_t count)
{
    char name[KEY_MAX / 2];
    if (l->calls.fd < 0)
        return;
    snprintf(name, sizeof name, "%s%.*s", *tags ? POOL_WAKE_TAG : POOL_WAKE, (int)strcspn(tags, ","), tags);
    wake_list(l, name, count);
    local_list(l, name);
    if (l->is_local && !*tags && l->calls.fd >= 0)
        wake_list(l, name, 1);
    l->wake_ms = clock_now().boot_ms + WAKE_MS;
}

/* Hints for what was pushed: one call for each list. */
static void wake_pushed(struct link *l, struct out *const *list, size_t count)
{
    bool is_done[PUSH_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        const char *tags = list[i]->tags;
        size_t len = strcspn(tags, ","), alike = 0;
        for (size_t j = i; j < count && !is_done[i]; j++) {
            bool is_alike = strcspn(list[j]->tags, ",") == len && strncmp(list[j]->tags, tags, len) == 0;
            alike += is_alike;
            is_done[j] = is_done[j] || (is_alike && j > i);
        }
        if (alike)
            wake(l, tags, alike);
    }
}

/* The versions up to `old` are not kept any more. */
static void values_drop(struct link *l, const char *session, int64_t old)
{
    for (struct values **at = &l->values; *at;) {
        struct values *one = *at;
        if (strcmp(one->session, session) != 0 || one->version > old) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
}

/* The session of a branch has ended. */
void link_forget(struct link *l, struct parcel words)
{
    const char *session = parcel_text(&words);
    int64_t old = parcel_int(&words);
    values_drop(l, session, old);
    json_array_append_new(l->forgets, json_string(session));
    json_array_append_new(l->forgets, json_integer(old));
}

/* A hundred sessions at a time. */
static bool step_forget(struct link *l)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    size_t count = json_array_size(l->forgets);
    count = count > FORGETS_MAX ? FORGETS_MAX : count;
    if (!count)
        return true;
    step(l, &command, "forget");
    for (size_t i = 0; i < count; i += 2) {
        command_puts(&command, json_string_value(json_array_get(l->forgets, i)));
        command_put_int(&command, json_integer_value(json_array_get(l->forgets, i + 1)));
    }
    if (!ask(l, &command, &reply))
        return false;
    for (size_t i = 0; i < count; i++)
        json_array_remove(l->forgets, 0);
    return true;
}

void link_channel(struct link *l, struct parcel words)
{
    struct piece text = {"", 0};
    const char *session = parcel_text(&words);
    int64_t version = parcel_int(&words), old = parcel_int(&words);
    parcel_next(&words, &text);
    values_drop(l, session, old);
    struct values *values = malloc(sizeof *values + text.len + strlen(session) + 1);
    BUG(!values);
    *values = (struct values){.version = version, .old = old, .len = text.len, .next = l->values};
    values->session = memcpy(values->text + text.len, session, strlen(session) + 1);
    memcpy(values->text, text.data, text.len);
    l->values = values;
    l->has_new = true;
}

/* What an attempt may read is there before the attempt. */
static bool step_put_values(struct link *l)
{
    for (struct values *values = l->values; values; values = values->next) {
        struct redis_command command CLEANUP(command_clear) = {.count = 0};
        redisReply *reply CLEANUP_REPLY = NULL;
        if (values->is_sent)
            continue;
        step(l, &command, "channel");
        command_puts(&command, values->session);
        command_put_int(&command, values->version);
        command_put(&command, values->text, values->len);
        command_put_int(&command, values->old);
        if (!ask(l, &command, &reply))
            return false;
        values->is_sent = true;
    }
    return true;
}

/* Also while no task ends: what was read is removed, because logs have no room in long results; and the keys live on. */
static bool must_advance(const struct link *l, size_t acks, int64_t now)
{
    return l->has_new || acks || json_array_size(l->forgets) || l->untrimmed >= TRIM_COUNT ||
           (l->phase == LINK_OPEN && now >= l->keys_ms);
}

void link_advance(struct link *l)
{
    struct out *list[PUSH_MAX];
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    size_t acks = json_array_size(l->acks);
    bool is_again, is_full;
    int64_t now = clock_now().boot_ms;
    if (!must_advance(l, acks, now) || !link_files(l) || !step_forget(l) || !step_put_values(l))
        return;
    bool is_live = now >= l->keys_ms;
    size_t count = find_pushes(l, list, &is_again, &is_full);
    step(l, &command, "advance");
    command_puts(&command, is_live ? is_again ? "al" : "l" : is_again ? "a" : "");
    put_trim(l, &command);
    command_put_int(&command, (int64_t)acks / 2);
    for (size_t i = 0; i < acks; i++)
        command_puts(&command, json_string_value(json_array_get(l->acks, i)));
    put_pushes(&command, list, count);
    if (!ask(l, &command, &reply))
        return;
    json_array_clear(l->acks);
    l->untrimmed = 0;
    l->keys_ms = is_live ? now + KEYS_MS : l->keys_ms;
    now = clock_now().boot_ms;
    for (size_t i = 0; i < count; i++) {
        list[i]->state = OUT_PUSHED;
        list[i]->pushed_ms = now;
    }
    l->has_new = is_full;
    if (count && l->phase == LINK_OPEN) {
        l->workers_ms = now + NOBODY_MS < l->workers_ms ? now + NOBODY_MS : l->workers_ms;
        wake_pushed(l, list, count);
    }
}

static void stop_answered(struct link *l, struct out *out, const char *answer)
{
    char order[300];
    struct tsk_error err;
    if (strcmp(answer, "gone") == 0) {
        link_tell(l, "gone", out->id, NULL);
        link_ack(l, out->id, out->session);
        out_drop(l, out);
        return;
    }
    out->is_stopping = true;
    if (strncmp(answer, "at ", 3) != 0 || !out->fence[0]) {
        out->is_stopping = strncmp(answer, "at ", 3) != 0; /* its claim is about to be read */
        return;
    }
    snprintf(order, sizeof order, "stop %s %s %s", l->root, out->id, out->fence);
    pool_order(&l->calls, &l->settings, answer + 3, order, &err);
}

void link_stop(struct link *l)
{
    for (size_t i = l->out_count; i > 0 && l->calls.fd >= 0; i--) {
        struct out *out = l->outs[i - 1];
        struct redis_command command CLEANUP(command_clear) = {.count = 0};
        redisReply *reply CLEANUP_REPLY = NULL;
        if (!out->must_stop || out->is_stopping || out->state == OUT_ENDED)
            continue;
        step(l, &command, "stop");
        command_puts(&command, "1");
        command_puts(&command, out->id);
        command_puts(&command, out->session);
        command_puts(&command, out->tags);
        if (!ask(l, &command, &reply))
            return;
        stop_answered(l, out, reply_text(reply, 2));
    }
}

/* ---- leases --------------------------------------------------------------------------------------------- */

static void reclaim(struct link *l, struct out *out)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    step(l, &command, "reclaim");
    command_puts(&command, "1");
    command_puts(&command, out->id);
    command_put_int(&command, out->tick);
    ask(l, &command, &reply); /* the results say whether it was taken back */
}

/* L3. `now` is from before the ticks were asked for. The next look is not later than the moment at which this lease is over. */
static void look_at_lease(struct link *l, const char *id, int64_t tick, int64_t now)
{
    struct out *out = out_find(l, id);
    if (!out || out->state == OUT_ENDED)
        return;
    if (out->tick != tick) {
        out->tick = tick;
        out->tick_ms = clock_now().boot_ms;
    } else if (now - out->tick_ms >= l->lease_ms) {
        reclaim(l, out);
        return;
    }
    if (out->tick_ms + l->lease_ms < l->look_ms)
        l->look_ms = out->tick_ms + l->lease_ms;
}

/* The attempt that nobody has claimed for longest; NULL: none waits. */
static const struct out *longest_waiting(const struct link *l)
{
    const struct out *longest = NULL;
    for (size_t i = 0; i < l->out_count; i++)
        if (l->outs[i]->state == OUT_PUSHED && (!longest || l->outs[i]->pushed_ms < longest->pushed_ms))
            longest = l->outs[i];
    return longest;
}

/* Also with nothing out: what the server has forgotten is to be noticed while the run waits for a timer, too. */
void link_leases(struct link *l)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    int64_t now = clock_now().boot_ms;
    if (now < l->look_ms)
        return;
    l->look_ms = now + (l->lease_ms / 5 < LOOK_MAX_MS ? l->lease_ms / 5 : LOOK_MAX_MS);
    const struct out *waiting = longest_waiting(l);
    bool is_late = waiting && now - waiting->pushed_ms >= WAKE_MS;
    step(l, &command, "leases");
    command_puts(&command, is_late ? waiting->id : "");
    command_puts(&command, is_late ? waiting->session : "");
    command_puts(&command, is_late ? waiting->tags : "");
    if (!ask(l, &command, &reply))
        return;
    for (size_t i = 2; i + 1 < reply->elements && l->phase == LINK_OPEN; i += 2)
        look_at_lease(l, reply_text(reply, i), strtoll(reply_text(reply, i + 1), NULL, 10), now);
}

/* ---- the pool ------------------------------------------------------------------------------------------- */

/* A worker whose program stores its data in another way takes nothing of this run: said of the first one. */
static bool is_of_our_version(struct link *l, const json_t *worker)
{
    bool is_ours = json_text_is(worker, "layout", STEPS_LAYOUT);
    if (!is_ours && !l->said_version)
        link_tell(l, "version", json_get_string(worker, "id", ""), NULL);
    l->said_version = l->said_version || !is_ours;
    return is_ours;
}

static void count_places(struct link *l, int64_t waited)
{
    struct tsk_error err;
    json_t *workers CLEANUP_JSON = NULL;
    char number[32];
    int64_t places = 0;
    if (pool_workers(&l->calls, &l->settings, &workers, &err) < 0)
        return;
    json_each (workers, i, worker) {
        const char *only = json_get_string(worker, "run", "");
        if (json_text_is(worker, "state", "up") && (!*only || strcmp(only, l->root) == 0) &&
            is_of_our_version(l, worker))
            places += json_get_int(worker, "places", 0);
    }
    snprintf(number, sizeof number, "%lld", (long long)places);
    if (places != l->places)
        link_tell(l, "places", number, NULL);
    l->places = places;
    if (places == 0 && waited >= NOBODY_MS && !l->said_nobody) {
        struct buf others CLEANUP(buf_clear) = BUF_INIT;
        l->said_nobody = true;
        pool_others(&l->calls, &l->settings, &others);
        link_tell(l, "nobody", buf_str(&others), NULL);
    }
    l->said_nobody = l->said_nobody && places == 0;
}

void link_pool(struct link *l)
{
    char key[KEY_MAX], wall[32], old[32];
    struct tsk_error err;
    int64_t now = clock_now().boot_ms;
    if (now < l->workers_ms && now < l->wake_ms && now < l->live_ms)
        return;
    const struct out *waiting = longest_waiting(l);
    int64_t waited = waiting ? now - waiting->pushed_ms : -1;
    if (now >= l->wake_ms && waited >= WAKE_MS)
        wake(l, waiting->tags, 1);
    if (now >= l->wake_ms)
        l->wake_ms = now + WAKE_MS;
    if (l->calls.fd >= 0 && now >= l->workers_ms) {
        count_places(l, waited);
        l->workers_ms = now + (waited >= 0 ? WORKERS_SOON_MS : WORKERS_LATE_MS);
    }
    if (l->calls.fd < 0 || now < l->live_ms)
        return;
    l->live_ms = now + LINK_LIVE_MS;
    link_files_live(l);
    key_of_pool(&l->settings, "live", key);
    snprintf(wall, sizeof wall, "%lld", (long long)clock_now().wall_ms);
    snprintf(old, sizeof old, "%lld", (long long)(clock_now().wall_ms - LIVE_OLD_MS));
    if (redis_say(&l->calls, NULL, &err, "ZADD", key, wall, l->root, NULL) == 0 &&
        redis_say(&l->calls, NULL, &err, "EXPIRE", key, POOL_S, NULL) == 0)
        redis_say(&l->calls, NULL, &err, "ZREMRANGEBYSCORE", key, "-inf", old, NULL);
}
