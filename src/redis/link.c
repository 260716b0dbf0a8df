#include "redis/link.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/text.h"
#include "redis/sign.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_TURN_MS   200
#define LINK_RETRY_MS  300
#define LINK_LOOK_MS   50
#define LINK_FINISH_MS 5000 /* how long the end waits for a server that does not answer */

/* ---- attempts ------------------------------------------------------------------------------------------- */

struct out *out_find(const struct link *l, const char *id)
{
    const json_t *place = json_object_get(l->index, id);
    return place ? l->outs[json_integer_value(place)] : NULL;
}

static void out_add(struct link *l, struct parcel words)
{
    struct piece spec = {"", 0};
    struct out *out = memory_zeroed(1, sizeof *out);
    snprintf(out->id, sizeof out->id, "%s", parcel_text(&words));
    out->session = strdup(parcel_text(&words));
    out->tags = strdup(parcel_text(&words));
    parcel_next(&words, &spec);
    out->values = strdup(parcel_text(&words));
    struct buf item = {.max = FRAME_MAX};
    sign_put(&item, &l->settings, l->root, out->id, &spec);
    BUG(!out->session || !out->tags || !out->values || item.failed);
    out->spec = item.data;
    out->spec_len = item.len;
    LIST_GROW(l->outs, l->out_count, l->out_room, 64);
    json_object_set_new(l->index, out->id, json_integer((json_int_t)l->out_count));
    l->outs[l->out_count++] = out;
    l->has_new = true;
}

/* The last one takes its place. */
void out_drop(struct link *l, struct out *out)
{
    size_t place = (size_t)json_integer_value(json_object_get(l->index, out->id));
    struct out *last = l->outs[--l->out_count];
    l->outs[place] = last;
    json_object_set_new(l->index, last->id, json_integer((json_int_t)place));
    json_object_del(l->index, out->id);
    free(out->session);
    free(out->tags);
    free(out->values);
    free(out->spec);
    free(out);
}

void link_ack(struct link *l, const char *id, const char *session)
{
    json_array_append_new(l->acks, json_string(id));
    json_array_append_new(l->acks, json_string(session));
}

/* The runner has the end in its journal. */
static void take_ack(struct link *l, const char *id)
{
    struct out *out = out_find(l, id);
    if (!out)
        return;
    for (struct out **at = &l->ends; *at; at = &(*at)->next_end)
        if (*at == out) {
            *at = out->next_end;
            if (!*at)
                l->ends_last = at;
            break;
        }
    link_ack(l, id, out->session);
    out_drop(l, out);
}

/* ---- the runner ----------------------------------------------------------------------------------------- */

void link_tell(struct link *l, const char *word, ...)
{
    va_list words;
    size_t began = frame_begin(&l->outgoing);
    parcel_puts(&l->outgoing, word);
    va_start(words, word);
    for (const char *text; (text = va_arg(words, const char *));)
        parcel_puts(&l->outgoing, text);
    va_end(words);
    frame_end(&l->outgoing, began);
}

void link_away(struct link *l, const struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (!l->is_away) {
        text_put_error(&text, LANG_EN, err);
        link_tell(l, "away", buf_str(&text), NULL);
    }
    l->is_away = true;
    l->away = *err;
}

void link_here(struct link *l)
{
    if (l->is_away)
        link_tell(l, "here", NULL);
    l->is_away = false;
}

static void take_stop(struct link *l, const char *id)
{
    struct out *out = out_find(l, id);
    if (out)
        out->must_stop = true;
    else
        link_tell(l, "gone", id, NULL);
}

static void link_take_open(struct link *l, struct parcel words)
{
    snprintf(l->root, sizeof l->root, "%s", parcel_text(&words));
    l->epoch = parcel_int(&words);
    l->lease_ms = parcel_int(&words);
    l->was_interrupted = parcel_int(&words) != 0;
    l->is_local = parcel_int(&words) != 0;
    key_of_run(&l->settings, l->root, "meta", l->steps.meta);
}

static void take_words(struct link *l, struct parcel words)
{
    const char *what = parcel_text(&words);
    if (strcmp(what, "open") == 0)
        link_take_open(l, words);
    else if (strcmp(what, "push") == 0)
        out_add(l, words);
    else if (strcmp(what, "files") == 0) {
        snprintf(l->files_hash, sizeof l->files_hash, "%s", parcel_text(&words));
        free(l->files_path);
        l->files_path = strdup(parcel_text(&words));
    } else if (strcmp(what, "channel") == 0)
        link_channel(l, words);
    else if (strcmp(what, "forget") == 0)
        link_forget(l, words);
    else if (strcmp(what, "ack") == 0)
        take_ack(l, parcel_text(&words));
    else if (strcmp(what, "stop") == 0)
        take_stop(l, parcel_text(&words));
    else if (strcmp(what, "end") == 0) {
        l->must_end = true;
        l->end_ms = clock_now().boot_ms + LINK_FINISH_MS;
    }
}

static void link_read(struct link *l)
{
    struct parcel words;
    for (;;) {
        char *room = buf_reserve(&l->in, 65536);
        BUG(!room);
        ssize_t len = recv(l->fd, room, 65536, MSG_DONTWAIT);
        if (len < 0 && errno == EINTR)
            continue;
        if (len == 0 || (len < 0 && errno != EAGAIN))
            l->is_over = true; /* the runner is gone; its attempts wait for the next resume */
        if (len <= 0)
            break;
        l->in.len += (size_t)len;
    }
    while (!l->is_over && frame_take(&l->in, &l->in_at, &words) == 1)
        take_words(l, words);
    if (l->in_at) {
        memmove(l->in.data, l->in.data + l->in_at, l->in.len - l->in_at);
        l->in.len -= l->in_at;
        l->in_at = 0;
    }
}

static void link_write(struct link *l)
{
    size_t at = 0;
    while (at < l->outgoing.len) {
        ssize_t len = send(l->fd, l->outgoing.data + at, l->outgoing.len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            break;
        at += (size_t)len;
    }
    if (at) {
        memmove(l->outgoing.data, l->outgoing.data + at, l->outgoing.len - at);
        l->outgoing.len -= at;
    }
}

/* ---- the loop ------------------------------------------------------------------------------------------- */

static void link_connect(struct link *l)
{
    struct tsk_error err;
    int64_t now = clock_now().boot_ms;
    if (l->calls.fd >= 0 || now < l->connect_ms || !l->root[0])
        return;
    l->connect_ms = now + LINK_RETRY_MS;
    if (redis_connect(&l->calls, &l->settings, &err) < 0) {
        link_away(l, &err);
        return;
    }
    link_here(l);
}

static void link_turn(struct link *l)
{
    link_connect(l);
    if (l->calls.fd >= 0 && l->phase == LINK_BEGINS)
        link_begin(l);
    if (l->calls.fd >= 0 && l->phase != LINK_BEGINS) {
        link_advance(l);
        link_stop(l);
        link_results(l);
    }
    if (l->calls.fd >= 0 && l->phase == LINK_SETTLES)
        link_settle(l);
    if (l->calls.fd >= 0 && l->phase == LINK_OPEN) {
        link_leases(l);
        link_pool(l);
    }
    if (l->must_end && (link_sweep_all(l) || clock_now().boot_ms >= l->end_ms))
        l->is_over = true;
}

/* How long a turn waits if nothing comes. */
static int turn_ms(const struct link *l)
{
    int64_t left = l->look_ms - clock_now().boot_ms;
    if (l->phase != LINK_OPEN || l->is_away)
        return LINK_TURN_MS;
    return l->has_new || left < 0 ? 0 : left < LINK_TURN_MS ? (int)left + 1 : LINK_TURN_MS;
}

static void link_loop(struct link *l)
{
    while (!l->is_over) {
        struct pollfd list[] = {{.fd = l->fd, .events = (short)(POLLIN | (l->outgoing.len ? POLLOUT : 0))},
                                {.fd = l->outgoing.len < LINK_FULL ? l->results.fd : -1, .events = POLLIN}};
        poll(list, 2, turn_ms(l));
        link_read(l);
        if (l->is_over)
            break;
        link_turn(l);
        link_write(l);
    }
}

static void link_init(struct link *l, int fd)
{
    uint64_t number = 0;
    *l = (struct link){.fd = fd, .places = -1, .index = json_object(), .acks = json_array(), .forgets = json_array()};
    l->in.max = l->outgoing.max = 1u << 30;
    l->calls.fd = l->results.fd = -1;
    l->ends_last = &l->ends;
    signal(SIGPIPE, SIG_IGN);
    if (getrandom(&number, sizeof number, 0) < 0)
        number = (uint64_t)clock_now().boot_ms;
    snprintf(l->owner, sizeof l->owner, "%016llx", (unsigned long long)number);
    snprintf(l->last, sizeof l->last, "0-0");
}

int link_main(int fd)
{
    static struct link l;
    struct tsk_error err;
    const char *url = getenv("TASUKI_REDIS");
    link_init(&l, fd);
    if (redis_settings_read(&l.settings, url ? url : "", &err) < 0) {
        link_away(&l, &err);
        link_write(&l);
        return 2;
    }
    link_loop(&l);
    link_write(&l);
    redis_close(&l.calls);
    redis_close(&l.results);
    return 0;
}

/* So long a phase of link_end_run lasts at most. A server that answers and refuses is as good as away. */
static int64_t phase_ms(const struct link *l)
{
    return LINK_FINISH_MS + (l->phase == LINK_SETTLES ? l->lease_ms : 0);
}

static void end_connect(struct link *l)
{
    struct tsk_error err;
    if (l->calls.fd < 0 && redis_connect(&l->calls, &l->settings, &err) < 0)
        link_away(l, &err);
    if (l->calls.fd >= 0 && l->phase == LINK_BEGINS)
        link_begin(l);
}

static void end_step(struct link *l)
{
    end_connect(l);
    if (l->calls.fd >= 0 && l->phase == LINK_SETTLES)
        link_settle(l);
}

/* No attempt is left. false: the server cannot be reached any more, and has keys of the run. */
static bool end_sweep(struct link *l)
{
    int64_t until_ms = clock_now().boot_ms + LINK_FINISH_MS;
    for (;;) {
        end_connect(l);
        if (link_sweep_all(l))
            return true;
        if (l->is_over || clock_now().boot_ms >= until_ms)
            return false;
        poll(NULL, 0, LINK_LOOK_MS);
    }
}

int link_end_run(const struct redis_settings *settings, const char *root, int64_t epoch, int64_t lease_ms,
                 bool *ret_swept, struct tsk_error *err)
{
    static struct link l;
    int64_t since_ms = clock_now().boot_ms;
    link_init(&l, -1);
    l.settings = *settings;
    l.epoch = epoch;
    l.lease_ms = lease_ms;
    l.was_interrupted = true;
    snprintf(l.root, sizeof l.root, "%s", root);
    key_of_run(&l.settings, l.root, "meta", l.steps.meta);
    while (l.phase != LINK_OPEN && !l.is_over) {
        enum link_phase before = l.phase;
        end_step(&l);
        if (l.phase != before)
            since_ms = clock_now().boot_ms;
        if (clock_now().boot_ms > since_ms + phase_ms(&l)) {
            *err = l.away;
            return -1;
        }
        poll(NULL, 0, LINK_LOOK_MS);
    }
    *ret_swept = !l.is_over && end_sweep(&l);
    redis_close(&l.calls);
    return l.is_over ? error_set(err, TSK_RUN_IN_PROGRESS, "run_has_runner", "run", root, NULL) : 0;
}
