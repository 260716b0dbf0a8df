/* attempts.c - attempts without processes, by the steps that runners and workers call: the driver of `bench redis`. The server is
 * named by TASUKI_REDIS. Prints one JSON document.
 *
 *     bench-redis attempts N DEPTH SHARED WORKERS    N attempts; SHARED 1: the ends of a turn share a call, 0: a call each
 *     bench-redis diamonds N                         fetch, two, store: one after another
 *     bench-redis queued N                           N attempts wait: memory, and how long a claim takes
 *     bench-redis calls N WRITES                     a function that does nothing; WRITES 1: that writes one key */
#include "base/clock.h"
#include "graph/wire.h"
#include "redis/steps.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH      256
#define SPEC_SIZE  300
#define DEPTH_MAX  64
#define READ_MAX   512 /* entries, each with at most DEPTH_MAX ends */
#define READ_COUNT "512"
#define CLAIMS     20000

extern const char steps_text_hash[];

static struct redis_settings settings;
static struct redis_conn conn;
static struct steps steps;
static char root[32], fcall[32], results_key[KEY_MAX], wake_key[KEY_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "bench-redis: %s\n", what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void open_conn(struct redis_conn *c)
{
    struct tsk_error err;
    if (redis_connect(c, &settings, &err) < 0)
        fail("no connection");
}

static void say(redisReply **reply, struct redis_command *command)
{
    struct tsk_error err;
    if (steps_ask(&conn, &steps, command, reply, &err) != STEPS_OK)
        fail(tsk_error_context(&err, "reason") ? tsk_error_context(&err, "reason") : "a step");
}

static void say_words(const char *step, const char *const *words)
{
    struct redis_command command = {.count = 0};
    redisReply *reply = NULL;
    steps_begin(&command, &conn, &steps, step);
    for (; *words; words++)
        command_puts(&command, *words);
    say(&reply, &command);
    reply_free(&reply);
    command_clear(&command);
}

static void run_open(void)
{
    snprintf(root, sizeof root, "bench-%d", (int)getpid());
    key_of_run(&settings, root, "meta", steps.meta);
    key_of_run(&settings, root, "results", results_key);
    key_of_pool(&settings, "wake", wake_key);
    say_words("begin", (const char *const[]){"1", "60000", "owner", NULL});
    say_words("open", (const char *const[]){"owner", NULL});
}

static void run_end(void)
{
    say_words("sweep", (const char *const[]){"owner", "end", NULL});
}

/* ---- the runner ----------------------------------------------------------------------------------------- */

/* Acknowledges `acks` ends (ids from first on), pushes `pushes` attempts. */
static void advance(char (*acked)[24], size_t acks, const char *trim, long from, size_t pushes)
{
    static char spec[SPEC_SIZE];
    char id[24];
    struct redis_command command = {.count = 0};
    redisReply *reply = NULL;
    memset(spec, 's', sizeof spec);
    steps_begin(&command, &conn, &steps, "advance");
    command_puts(&command, "owner");
    command_puts(&command, from ? "" : "l");
    command_puts(&command, trim);
    command_put_int(&command, (int64_t)acks);
    for (size_t i = 0; i < acks; i++) {
        command_puts(&command, acked[i]);
        command_puts(&command, "s");
    }
    command_put_int(&command, (int64_t)pushes);
    for (size_t i = 0; i < pushes; i++) {
        snprintf(id, sizeof id, "%ld.0.1", from + (long)i);
        command_puts(&command, id);
        command_puts(&command, "s");
        command_puts(&command, "");
        command_put(&command, spec, sizeof spec);
    }
    say(&reply, &command);
    reply_free(&reply);
    command_clear(&command);
}

/* Ends that came; their ids. `last` continues. */
static size_t read_ends(struct redis_conn *c, char last[48], char (*ids)[24])
{
    struct redis_command command = {.count = 0};
    redisReply *reply = NULL;
    struct tsk_error err;
    size_t count = 0;
    const char *const words[] = {"COUNT", READ_COUNT, "BLOCK", "2000", "STREAMS", results_key, last};
    command_begin(&command, "XREAD");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        command_puts(&command, words[i]);
    if (redis_ask(c, &command, &reply, &err) < 0)
        fail("XREAD");
    const redisReply *entries = reply->elements ? reply->element[0]->element[1] : NULL;
    for (size_t i = 0; entries && i < entries->elements; i++) {
        const redisReply *fields = entries->element[i]->element[1];
        snprintf(last, 48, "%s", reply_text(entries->element[i], 0));
        for (size_t k = 6; k + 3 < fields->elements; k += 4)
            if (strcmp(reply_text(fields, k), "e") == 0)
                snprintf(ids[count++], 24, "%s", reply_text(fields, k + 1));
    }
    reply_free(&reply);
    command_clear(&command);
    return count;
}

/* ---- the worker ----------------------------------------------------------------------------------------- */

struct taken {
    char id[24], fence[24];
};

static void put_next(struct redis_command *command, const char *name, int64_t number, const struct taken *ends,
                     size_t count, size_t max)
{
    static char result[64];
    steps_begin(command, &conn, &steps, "next");
    command_puts(command, name);
    command_put_int(command, number);
    command_puts(command, name);
    command_puts(command, "");
    command_put_int(command, (int64_t)max);
    command_puts(command, "4194304");
    command_put_int(command, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        command_puts(command, ends[i].id);
        command_puts(command, ends[i].fence);
        command_put(command, result, sizeof result);
    }
}

static size_t take_claims(const redisReply *reply, struct taken *list)
{
    size_t count = 0;
    for (size_t i = 5; i + 3 < reply->elements; i += 4, count++) {
        snprintf(list[count].id, 24, "%s", reply_text(reply, i));
        snprintf(list[count].fence, 24, "%s", reply_text(reply, i + 1));
    }
    return count;
}

static size_t work_shared(const char *name, int64_t *number, struct taken *list, size_t count, size_t depth)
{
    struct redis_command command = {.count = 0};
    redisReply *reply = NULL;
    put_next(&command, name, ++*number, list, count, depth);
    say(&reply, &command);
    size_t claimed = take_claims(reply, list);
    reply_free(&reply);
    command_clear(&command);
    return claimed;
}

/* Each end in a call of its own, which also claims one; the calls of a turn are under way together. */
static size_t work_single(const char *name, int64_t *number, struct taken *list, size_t count)
{
    struct redis_command front = {.count = 0};
    struct taken fresh[DEPTH_MAX];
    struct tsk_error err;
    size_t claimed = 0;
    command_begin(&front, "FCALL");
    command_puts(&front, fcall);
    command_puts(&front, "1");
    for (size_t i = 0; i < count; i++) {
        struct redis_command command = {.count = 0};
        put_next(&command, name, ++*number, &list[i], 1, 1);
        if (redis_send(&conn, &command, &front, &err) < 0)
            fail("send");
        command_clear(&command);
    }
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = NULL;
        if (redis_receive(&conn, 5000, &reply, &err) != 1)
            fail("receive");
        claimed += take_claims(reply, fresh + claimed);
        reply_free(&reply);
    }
    command_clear(&front);
    memcpy(list, fresh, claimed * sizeof *list);
    return claimed;
}

static void work(int who, size_t depth, bool is_shared, bool waits)
{
    struct taken list[DEPTH_MAX];
    char name[24], seconds[] = "1";
    int64_t number = 0;
    size_t count = 0;
    struct tsk_error err;
    snprintf(name, sizeof name, "w%d", who);
    open_conn(&conn);
    for (;;) {
        count = is_shared || count < depth ? work_shared(name, &number, list, count, depth)
                                           : work_single(name, &number, list, count);
        if (count == 0 && waits)
            redis_say(&conn, NULL, &err, "BLPOP", wake_key, seconds, NULL);
        else if (count == 0)
            usleep(200);
    }
}

static pid_t start_worker(int who, size_t depth, bool is_shared, bool waits)
{
    pid_t pid = fork();
    if (pid == 0)
        work(who, depth, is_shared, waits);
    return pid;
}

/* ---- the measurements ----------------------------------------------------------------------------------- */

static void end_workers(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

static void measure_attempts(long total, size_t depth, bool is_shared, int workers)
{
    static char ids[READ_MAX * DEPTH_MAX][24];
    struct redis_conn reads = {.fd = -1};
    char last[48] = "0-0";
    pid_t pids[16];
    long pushed = 0, done = 0;
    run_open();
    open_conn(&reads);
    for (int i = 0; i < 8; i++, pushed += BATCH) /* enough that nobody waits */
        advance(NULL, 0, "", pushed, BATCH);
    double began = now_s();
    for (int i = 0; i < workers; i++)
        pids[i] = start_worker(i, depth, is_shared, false);
    while (done < total) {
        size_t count = read_ends(&reads, last, ids);
        done += (long)count;
        for (size_t at = 0, some; at < count; at += some) {
            some = count - at < BATCH ? count - at : BATCH;
            size_t more = pushed < total ? some : 0;
            advance(ids + at, some, last, pushed, more);
            pushed += (long)more;
        }
        if (count < 64 && done < total)
            usleep(1000);
    }
    printf("{\"seconds\": %.6f, \"attempts\": %ld}\n", now_s() - began, done);
    end_workers(pids, workers);
    run_end();
}

static int by_value(const void *a, const void *b)
{
    double one = *(const double *)a, two = *(const double *)b;
    return one < two ? -1 : one > two;
}

static void print_times(double *times, long count, const char *more)
{
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("{\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f%s}\n", times[count / 2] * 1e3,
           times[count * 99 / 100] * 1e3, times[count * 999 / 1000] * 1e3, times[count - 1] * 1e3, more);
}

static void measure_diamonds(long total)
{
    static char ids[1024][24];
    static const size_t layers[] = {1, 2, 1};
    struct redis_conn reads = {.fd = -1};
    struct tsk_error err;
    char last[48] = "0-0";
    long pushed = 0;
    double *times = calloc((size_t)total, sizeof *times);
    run_open();
    open_conn(&reads);
    pid_t pid = start_worker(0, 2, true, true);
    for (long i = 0; i < total; i++) {
        double began = now_s();
        size_t acks = 0;
        for (size_t k = 0; k < 3; k++) {
            advance(ids, acks, k ? last : "", pushed, layers[k]);
            redis_say(&conn, NULL, &err, "RPUSH", wake_key, root, NULL);
            pushed += (long)layers[k];
            for (acks = 0; acks < layers[k];)
                acks += read_ends(&reads, last, ids + acks);
        }
        times[i] = now_s() - began;
        advance(ids, acks, last, pushed, 0);
    }
    print_times(times, total, "");
    end_workers(&pid, 1);
    run_end();
}

static long used_memory(void)
{
    redisReply *info = NULL;
    struct tsk_error err;
    if (redis_say(&conn, &info, &err, "INFO", "memory", NULL) < 0)
        fail("INFO");
    const char *at = strstr(info->str, "used_memory:");
    long used = at ? strtol(at + strlen("used_memory:"), NULL, 10) : 0;
    reply_free(&info);
    return used;
}

static void measure_queued(long total)
{
    double *times = calloc(CLAIMS, sizeof *times), slowest = 0;
    struct taken list[DEPTH_MAX];
    int64_t number = 0;
    char more[160];
    run_open();
    long before = used_memory();
    for (long pushed = 0; pushed < total; pushed += BATCH) {
        double began = now_s();
        advance(NULL, 0, "", pushed, BATCH);
        slowest = now_s() - began > slowest ? now_s() - began : slowest;
    }
    long queued = used_memory();
    for (long i = 0; i < CLAIMS; i++) {
        double began = now_s();
        work_shared("w", &number, list, i ? 1 : 0, 1);
        times[i] = now_s() - began;
    }
    run_end();
    usleep(500000);
    snprintf(more, sizeof more, ", \"bytes_each\": %.1f, \"bytes_left\": %ld, \"push_max_ms\": %.3f",
             (double)(queued - before) / (double)total, used_memory() - before, slowest * 1e3);
    print_times(times, CLAIMS, more);
}

static void measure_calls(long total, bool is_writing)
{
    struct tsk_error err;
    const char *name = is_writing ? "bench_write" : "bench_nothing";
    redis_say(&conn, NULL, &err, "FUNCTION", "LOAD", "REPLACE",
              "#!lua name=bench_calls\nredis.register_function('bench_nothing', function() return 'OK' end)\n"
              "redis.register_function('bench_write', function(keys) return redis.call('SET', keys[1], 'x') end)",
              NULL);
    double began = now_s();
    for (long i = 0; i < total; i++)
        if (redis_say(&conn, NULL, &err, "FCALL", name, "1", "bench:written", NULL) < 0)
            fail("FCALL");
    printf("{\"seconds\": %.6f, \"calls\": %ld}\n", now_s() - began, total);
}

int main(int argc, char **argv)
{
    struct tsk_error err;
    const char *url = getenv("TASUKI_REDIS"), *mode = argc > 2 ? argv[1] : "";
    if (!url || redis_settings_read(&settings, url, &err) < 0)
        fail("TASUKI_REDIS names no server");
    open_conn(&conn);
    snprintf(fcall, sizeof fcall, "%s%.12s", STEPS_NAME, steps_text_hash);
    long total = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (strcmp(mode, "attempts") == 0 && argc == 6)
        measure_attempts(total, (size_t)strtol(argv[3], NULL, 10), argv[4][0] == '1', (int)strtol(argv[5], NULL, 10));
    else if (strcmp(mode, "diamonds") == 0)
        measure_diamonds(total);
    else if (strcmp(mode, "queued") == 0)
        measure_queued(total);
    else if (strcmp(mode, "calls") == 0)
        measure_calls(total, argc > 3 && argv[3][0] == '1');
    else
        fail("what is to be measured?");
    return 0;
}
