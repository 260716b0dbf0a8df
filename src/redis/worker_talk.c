/* worker_talk.c - a worker and Redis: which calls it makes, and what follows from their answers. */
#include "base/fs.h"
#include "base/listing.h"
#include "base/log.h"
#include "base/sha256.h"
#include "redis/cluster.h"
#include "redis/pool.h"
#include "redis/sign.h"
#include "redis/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVE_MS     20000
#define LIVE_S      "60"
#define DEAD_LAST   "99"
#define DEAD_S      "604800"
#define CLAIM_BYTES (4 << 20)
#define RESULTS_MAX 64
#define LOG_PIECE   (64 << 10)
#define RETRY_MS    300          /* the server does not know the run: its runner has to begin again */
#define ACKED_MS    300          /* after which the runner should have a result */
#define RESULT_MS   (15 * 60000) /* how long a result is kept that nobody takes */
#define FORGET_MS   60000        /* a run without work is forgotten after this time */

void worker_say(const struct worker *w, const char *root, const char *task, const char *session, const char *what)
{
    if (w->only[0])
        return;
    const char *time = TIME_EXACT(clock_now().wall_ms);
    fprintf(stderr, "%s worker=%s run=%s session=%s task=%s %s\n", time, w->name, root, session, task, what);
}

/* A problem is reported when it begins, not each time it is met. */
static void talk_away(struct worker *w, const struct tsk_error *err)
{
    if (!w->is_away)
        log_problem(err);
    w->is_away = true;
}

/* ---- runs and results ----------------------------------------------------------------------------------- */

struct worker_run *worker_run_of(struct worker *w, const char *root)
{
    struct worker_run *run = w->runs;
    while (run && strcmp(run->root, root) != 0)
        run = run->next;
    if (run)
        return run;
    run = memory_zeroed(1, sizeof *run);
    snprintf(run->root, sizeof run->root, "%s", root);
    key_of_run(&w->settings, root, "meta", run->steps.meta);
    run->run = (struct rundir){.dir = -1, .life_fd = -1, .runner_fd = -1};
    snprintf(run->run.id, sizeof run->run.id, "%s", root);
    executor_init(&run->executor, &run->run);
    run->executor.mask = &w->mask;
    run->executor.is_exact = run->executor.no_pidfd = true;
    run->executor.null_fd = dup(w->null_fd);
    run->look_ms = clock_now().boot_ms;
    run->next = w->runs;
    w->runs = run;
    return run;
}

void result_free(struct worker *w, struct worker_result *result)
{
    struct worker_result **at = &w->results;
    while (*at != result)
        at = &(*at)->next;
    *at = result->next;
    buf_clear(&result->result);
    buf_clear(&result->log);
    free(result);
}

static bool is_run_used(const struct worker *w, const struct worker_run *run)
{
    for (size_t i = 0; i < w->place_count; i++)
        if (w->places[i].run == run)
            return true;
    for (const struct worker_result *result = w->results; result; result = result->next)
        if (result->run == run)
            return true;
    return run->has_work || run->is_asked || clock_now().boot_ms < run->look_ms + FORGET_MS;
}

/* Results of a run that is over, or that nobody continues with. */
void forget_results(struct worker *w)
{
    int64_t now = clock_now().boot_ms;
    for (struct worker_result *result = w->results, *next; result; result = next) {
        next = result->next;
        if (now > result->made_ms + RESULT_MS)
            result_free(w, result);
    }
}

void worker_run_dir(const struct worker *w, const struct worker_run *run, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.3000s/%s", w->scratch, run->root);
}

static void forget_runs(struct worker *w)
{
    char dir[PATH_MAX];
    forget_results(w);
    for (struct worker_run **at = &w->runs; *at;) {
        struct worker_run *run = *at;
        if (is_run_used(w, run)) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        executor_clear(&run->executor);
        worker_run_dir(w, run, dir);
        listing_remove_tree(AT_FDCWD, dir);
        free(run);
    }
}

/* ---- being there ---------------------------------------------------------------------------------------- */

void talk_live(struct worker *w)
{
    char key[KEY_MAX], number[32], name[WORKER_ID_MAX + 8], places[16], used[16], signs[16];
    struct tsk_error err;
    struct buf about CLEANUP(buf_clear) = BUF_INIT;
    redisReply *reply CLEANUP_REPLY = NULL;
    commit_of(w->dir, w->commit);
    sign_name(&w->settings, signs);
    snprintf(places, sizeof places, "%zu", w->place_count);
    snprintf(used, sizeof used, "%zu", w->used);
    const char *const words[] = {
        w->id,          w->name, w->host,   w->tags, places,      used, w->ends ? "draining" : "up",
        TASUKI_VERSION, w->only, w->commit, signs,   STEPS_LAYOUT};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        buf_printf(&about, "%s%s", i ? "\t" : "", words[i]);
    w->live_ms = clock_now().boot_ms + LIVE_MS;
    snprintf(name, sizeof name, "w:%s", w->id);
    key_of_pool(&w->settings, name, key);
    snprintf(number, sizeof number, "%lld", (long long)clock_now().wall_ms);
    if (redis_say(&w->calls, NULL, &err, "SET", key, buf_str(&about), "EX", LIVE_S, NULL) < 0)
        return;
    key_of_pool(&w->settings, "w", key);
    bool is_added = redis_say(&w->calls, &reply, &err, "ZADD", key, number, w->id, NULL) == 0 && reply->integer == 1;
    bool is_due = clock_now().boot_ms >= w->register_ms;
    if (is_added || is_due) /* the workers that are killed do not leave it */
        redis_say(&w->calls, NULL, &err, "EXPIRE", key, POOL_S, NULL);
    if (is_due && (w->only[0] || pool_register(&w->calls, &w->settings, &err) == 0))
        w->register_ms = clock_now().boot_ms + POOL_REGISTER_MS;
    forget_runs(w);
}

void talk_connect(struct worker *w)
{
    struct tsk_error err;
    int64_t now = clock_now().boot_ms;
    if (w->calls.fd >= 0 || now < w->connect_ms)
        return;
    w->connect_ms = now + RECONNECT_MS;
    if (redis_connect(&w->calls, &w->settings, &err) < 0) {
        talk_away(w, &err);
        return;
    }
    w->is_away = false;
    talk_live(w);
    look_at_runs(w);
    w->renew_ms = 0;
}

/* ---- claims and ends ------------------------------------------------------------------------------------ */

/* What an answer says about the run itself. */
static void run_heard(struct worker_run *run, enum steps_answer answer)
{
    if (answer == STEPS_ENDED)
        run->is_over = true;
    else if (answer != STEPS_OK && answer != STEPS_AWAY)
        run->retry_ms = clock_now().boot_ms + RETRY_MS;
}

static bool may_send(const struct worker_run *run)
{
    return !run->is_over && clock_now().boot_ms >= run->retry_ms;
}

/* What was printed is sent before the end. false: not now. */
static bool send_log(struct worker *w, struct worker_run *run, const char *id, const char *fence, int64_t at,
                     const char *data, size_t len, bool is_rest)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    struct tsk_error err;
    steps_begin(&command, &w->calls, &run->steps, "log");
    command_puts(&command, w->id);
    command_puts(&command, id);
    command_puts(&command, fence);
    command_put_int(&command, at);
    command_put(&command, data, len);
    command_puts(&command, is_rest ? "1" : "");
    enum steps_answer answer = steps_ask(&w->calls, &run->steps, &command, &reply, &err);
    run_heard(run, answer);
    return answer == STEPS_OK && strcmp(reply_text(reply, 2), "f") != 0;
}

static bool send_rest(struct worker *w, struct worker_result *result)
{
    size_t at = 0;
    while (at < result->log.len) {
        size_t len = result->log.len - at < LOG_PIECE ? result->log.len - at : LOG_PIECE;
        if (!send_log(w, result->run, result->id, result->fence, result->log_at + (int64_t)at, result->log.data + at,
                      len, true))
            break;
        at += len;
    }
    bool is_all = at == result->log.len;
    if (at) {
        memmove(result->log.data, result->log.data + at, result->log.len - at);
        result->log.len -= at;
        result->log_at += (int64_t)at;
    }
    return is_all;
}

/* A server that does not know the run has no lease of it: nothing has to be returned there (L2 of link.h). */
static void give_back(struct worker *w, struct worker_result *result)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    struct tsk_error err;
    steps_begin(&command, &w->calls, &result->run->steps, "give_back");
    command_puts(&command, w->id);
    command_puts(&command, "1");
    command_puts(&command, result->id);
    command_puts(&command, result->fence);
    if (result->is_unknown)
        command_puts(&command, LOST_VERSION);
    enum steps_answer answer = steps_ask(&w->calls, &result->run->steps, &command, &reply, &err);
    run_heard(result->run, answer);
    if (answer != STEPS_AWAY && answer != STEPS_ENDED)
        result_free(w, result);
}

/* The results of a run that can be sent now; at most RESULTS_MAX. */
static size_t sendable(struct worker *w, struct worker_run *run, struct worker_result *list[RESULTS_MAX])
{
    size_t count = 0;
    for (struct worker_result *result = w->results, *next; result && count < RESULTS_MAX && may_send(run);
         result = next) {
        next = result->next;
        if (result->run != run || result->is_sent || !send_rest(w, result))
            continue;
        if (result->is_back)
            give_back(w, result);
        else
            list[count++] = result;
    }
    return count;
}

static void put_next(struct worker *w, struct worker_run *run, size_t max, struct worker_result **list, size_t count,
                     struct redis_command *command)
{
    char name[REDIS_NAME_MAX + COMMIT_MAX];
    steps_begin(command, &w->calls, &run->steps, "next");
    command_puts(command, w->id);
    command_put_int(command, run->number);
    snprintf(name, sizeof name, "%s\t%s", w->name, w->commit);
    command_puts(command, name);
    command_puts(command, w->tags);
    command_put_int(command, (int64_t)max);
    command_put_int(command, CLAIM_BYTES);
    command_put_int(command, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        command_puts(command, list[i]->id);
        command_puts(command, list[i]->fence);
        command_put(command, list[i]->result.data, list[i]->result.len);
    }
}

static void take_claims(struct worker *w, struct worker_run *run, const redisReply *reply, int64_t before_ms)
{
    run->lease_ms = strtoll(reply_text(reply, 2), NULL, 10);
    if (before_ms + run->lease_ms / 5 < w->renew_ms) /* it was chosen for longer leases */
        w->renew_ms = before_ms + run->lease_ms / 5;
    size_t count = (reply->elements - 5) / 4;
    struct worker_place **places = memory_zeroed(count + 1, sizeof *places);
    for (size_t i = 0; i < count; i++)
        places[i] = place_take(w, run, reply_text(reply, 5 + 4 * i), reply_text(reply, 6 + 4 * i), before_ms);
    for (size_t i = 0; i < count; i++) {
        const redisReply *spec = reply->element[8 + 4 * i];
        place_begin(w, places[i], (struct parcel){spec->str, spec->len});
    }
    free(places);
}

/* Whether there may be more of what was claimed: it was as much as we asked for, in attempts or in bytes. */
static bool is_claim_full(const redisReply *reply, size_t max)
{
    size_t count = (reply->elements - 5) / 4, bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += reply->element[8 + 4 * i]->len;
    return max > 0 && (count >= max || bytes >= CLAIM_BYTES);
}

/* Nobody waits for anything of it any more. */
static void run_ended(struct worker *w, struct worker_run *run)
{
    for (size_t i = 0; i < w->place_count; i++)
        if (w->places[i].run == run && !w->places[i].is_lost)
            place_lose(w, &w->places[i]);
    for (struct worker_result *result = w->results, *next; result; result = next) {
        next = result->next;
        if (result->run == run)
            result_free(w, result);
    }
    run->has_work = run->is_asked = run->is_over = false;
}

/* The answer to the server's question: it forgot something, or cannot be reached. */
static void next_failed(struct worker *w, struct worker_run *run, enum steps_answer answer, const struct tsk_error *err)
{
    if (answer == STEPS_AWAY)
        talk_away(w, err);
    const char *reason = answer == STEPS_STALE ? tsk_error_context(err, "reason") : NULL;
    if (reason && strcmp(reason, "LAYOUT") == 0 && !run->has_said_version) {
        worker_say(w, run->root, "", "", "is a run of another version of tasuki, and is left to others");
        run->has_said_version = true;
    }
    run_heard(run, answer);
    if (run->is_over)
        run_ended(w, run);
    run->has_work = answer == STEPS_AWAY && run->has_work;
    run->is_asked = answer == STEPS_AWAY && run->is_asked;
}

void talk_next(struct worker *w, struct worker_run *run)
{
    struct worker_result *list[RESULTS_MAX];
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    struct tsk_error err;
    bool may_claim = !w->ends && clock_now().boot_ms >= w->rest_ms;
    size_t max = may_claim && run->has_work ? w->place_count - w->used : 0;
    size_t count = sendable(w, run, list);
    if (run->is_over) {
        run_ended(w, run);
        return;
    }
    bool asks = run->is_asked || max > 0;
    if ((!asks && count == 0) || w->calls.fd < 0 || clock_now().boot_ms < run->retry_ms)
        return;
    if (asks && !run->is_asked)
        run->number++;
    run->is_asked = asks;
    int64_t before = clock_now().boot_ms;
    put_next(w, run, max, list, count, &command);
    enum steps_answer answer = steps_ask(&w->calls, &run->steps, &command, &reply, &err);
    if (answer != STEPS_OK) {
        next_failed(w, run, answer, &err);
        return;
    }
    w->is_away = false;
    const char *letters = reply_text(reply, 3);
    for (size_t i = 0; i < count && letters[i]; i++) {
        list[i]->is_sent = true;
        w->renew_ms = before + ACKED_MS < w->renew_ms ? before + ACKED_MS : w->renew_ms;
        if (letters[i] == 'a')
            result_free(w, list[i]);
    }
    run->is_asked = false;
    if (asks) {
        run->has_work = is_claim_full(reply, max);
        take_claims(w, run, reply, before);
    }
}

/* ---- leases --------------------------------------------------------------------------------------------- */

struct renewal {
    struct worker_place **places;
    struct worker_result **results;
    size_t place_count, result_count;
};

/* W2: only what is not over by our own clock. */
static void renewal_find(struct worker *w, const struct worker_run *run, struct renewal *ret)
{
    size_t count = 0;
    int64_t now = clock_now().boot_ms;
    for (struct worker_result *result = w->results; result; result = result->next)
        count++;
    *ret = (struct renewal){.places = calloc(w->place_count + 1, sizeof *ret->places),
                            .results = calloc(count + 1, sizeof *ret->results)};
    BUG(!ret->places || !ret->results);
    for (size_t i = 0; i < w->place_count; i++)
        if (w->places[i].run == run && !w->places[i].is_lost && now < w->places[i].kill_at_ms)
            ret->places[ret->place_count++] = &w->places[i];
    for (struct worker_result *result = w->results; result; result = result->next)
        if (result->run == run && result->is_sent)
            ret->results[ret->result_count++] = result;
}

static void renewal_put(const struct renewal *r, struct redis_command *command)
{
    command_put_int(command, (int64_t)r->place_count);
    for (size_t i = 0; i < r->place_count; i++) {
        command_puts(command, r->places[i]->id);
        command_puts(command, r->places[i]->fence);
    }
    command_put_int(command, (int64_t)r->result_count);
    for (size_t i = 0; i < r->result_count; i++) {
        command_puts(command, r->results[i]->id);
        command_puts(command, r->results[i]->fence);
    }
}

static void renewal_take(struct worker *w, const struct renewal *r, const char *letters, int64_t before_ms)
{
    for (size_t i = 0; i < r->place_count && *letters; i++, letters++) {
        if (*letters == 'k' || *letters == 's')
            place_renewed(w, r->places[i], before_ms);
        if (*letters == 's' && r->places[i]->process.stops == STOP_NONE)
            place_stop(w, r->places[i], STOP_RUN);
        if (*letters == 'l')
            place_lose(w, r->places[i]);
    }
    places_renewed(w);
    for (size_t i = 0; i < r->result_count && *letters; i++, letters++) {
        if (*letters == 'a')
            result_free(w, r->results[i]);
        else if (*letters == 'w')
            r->results[i]->is_sent = false;
    }
}

static void renew_run(struct worker *w, struct worker_run *run)
{
    struct redis_command command CLEANUP(command_clear) = {.count = 0};
    redisReply *reply CLEANUP_REPLY = NULL;
    struct renewal renewal;
    struct tsk_error err;
    renewal_find(w, run, &renewal);
    if (renewal.place_count || renewal.result_count) {
        int64_t before = clock_now().boot_ms;
        steps_begin(&command, &w->calls, &run->steps, "renew");
        command_puts(&command, w->id);
        renewal_put(&renewal, &command);
        enum steps_answer answer = steps_ask(&w->calls, &run->steps, &command, &reply, &err);
        w->is_away = w->is_away && answer != STEPS_OK;
        if (answer == STEPS_OK)
            renewal_take(w, &renewal, reply_text(reply, 2), before);
        else if (answer == STEPS_AWAY)
            talk_away(w, &err);
        else if (answer == STEPS_ENDED)
            run_ended(w, run);
    }
    free(renewal.places);
    free(renewal.results);
}

void talk_renew(struct worker *w)
{
    int64_t shortest = LEASE_MS, now = clock_now().boot_ms;
    for (struct worker_run *run = w->runs; run && w->calls.fd >= 0; run = run->next) {
        if (run->lease_ms && run->lease_ms < shortest)
            shortest = run->lease_ms;
        renew_run(w, run);
    }
    w->renew_ms = now + (w->results ? ACKED_MS : shortest / 5);
}

/* ---- logs and refusals ------------------------------------------------------------------------------------ */

void talk_logs(struct worker *w)
{
    struct stat st;
    char data[LOG_PIECE];
    for (size_t i = 0; i < w->place_count && w->calls.fd >= 0; i++) {
        struct worker_place *place = &w->places[i];
        if (!place->run || place->is_lost || fs->fstat(place->log_fd, &st) < 0 || st.st_size <= place->log_sent)
            continue;
        ssize_t len = fs->pread(place->log_fd, data, sizeof data, place->log_sent);
        if (len > 0 && send_log(w, place->run, place->id, place->fence, place->log_sent, data, (size_t)len, false))
            place->log_sent += len;
    }
}

void talk_dead(struct worker *w, const struct worker_place *place, const char *reason)
{
    char key[KEY_MAX];
    struct tsk_error err;
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&line, "%s\t%s\t%s\t%s\t%s", TIME_EXACT(clock_now().wall_ms), place->run->root, place->id, w->name,
               reason);
    worker_say(w, place->run->root, place->id, "", reason);
    key_of_pool(&w->settings, "dead", key);
    if (redis_say(&w->calls, NULL, &err, "LPUSH", key, buf_str(&line), NULL) < 0 ||
        redis_say(&w->calls, NULL, &err, "LTRIM", key, "0", DEAD_LAST, NULL) < 0 ||
        redis_say(&w->calls, NULL, &err, "EXPIRE", key, DEAD_S, NULL) < 0)
        talk_away(w, &err);
}
