/* stats.c - /metrics, in Prometheus's text format: what this server did since its start, and how the workspace is now. */
#include "base/clock.h"
#include "http/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SERIES_MAX = 512, TYPES_MAX = 128 };
/* A question to Redis takes milliseconds, or some seconds where it cannot be reached: then it is not asked for each scrape. */
enum { WORKERS_SLOW_MS = 1000, WORKERS_LATER_MS = 60000 };

/* Upper ends of the latencies' classes. */
static const int64_t classes_us[] = {100,   250,   500,    1000,   2500,    5000,    10000,
                                     25000, 50000, 100000, 250000, 1000000, 10000000};
#define CLASSES (sizeof classes_us / sizeof classes_us[0])

struct http_stats {
    pthread_mutex_t mutex;
    struct {
        const struct op *op; /* NULL: no operation */
        int status;
        uint64_t count;
    } requests[SERIES_MAX];
    unsigned request_count;
    struct {
        char type[64];
        uint64_t count;
    } events[TYPES_MAX];
    unsigned type_count;
    uint64_t latency[CLASSES + 1];
    int64_t latency_us;
    unsigned connections, streams; /* as the loop last said */
    struct buf workers;            /* what was last said of them, until */
    int64_t workers_until_ms;      /* on the boot clock */
};

struct http_stats *stats_new(void)
{
    struct http_stats *stats = memory_zeroed(1, sizeof *stats);
    pthread_mutex_init(&stats->mutex, NULL);
    return stats;
}

void stats_free(struct http_stats *stats)
{
    pthread_mutex_destroy(&stats->mutex);
    buf_clear(&stats->workers);
    free(stats);
}

static void count_request(struct http_stats *stats, const struct op *op, int status)
{
    unsigned i = 0;
    while (i < stats->request_count && !(stats->requests[i].op == op && stats->requests[i].status == status))
        i++;
    if (i == SERIES_MAX)
        return;
    if (i == stats->request_count) {
        stats->requests[i].op = op;
        stats->requests[i].status = status;
        stats->request_count++;
    }
    stats->requests[i].count++;
}

void stats_request(struct http_stats *stats, const struct op *op, int status, int64_t began_us)
{
    struct timespec now;
    unsigned class = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t us = now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000 - began_us;
    while (class < CLASSES && us > classes_us[class])
        class ++;
    pthread_mutex_lock(&stats->mutex);
    count_request(stats, op, status);
    stats->latency[class]++;
    stats->latency_us += us;
    pthread_mutex_unlock(&stats->mutex);
}

void stats_event(struct http_stats *stats, const char *type)
{
    unsigned i = 0;
    pthread_mutex_lock(&stats->mutex);
    while (i < stats->type_count && strcmp(stats->events[i].type, type) != 0)
        i++;
    if (i < TYPES_MAX && strlen(type) < sizeof stats->events[i].type) {
        if (i == stats->type_count)
            snprintf(stats->events[stats->type_count++].type, sizeof stats->events[i].type, "%s", type);
        stats->events[i].count++;
    }
    pthread_mutex_unlock(&stats->mutex);
}

void stats_open(struct http_stats *stats, unsigned connections, unsigned streams)
{
    pthread_mutex_lock(&stats->mutex);
    stats->connections = connections;
    stats->streams = streams;
    pthread_mutex_unlock(&stats->mutex);
}

/* ---- writing ---- */

static void put_metric_head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: what is not plain is left out, and cannot break the line. */
static void stats_put_label(struct buf *b, const char *value)
{
    for (; *value; value++)
        if (*value >= ' ' && *value != '"' && *value != '\\' && *value < 127)
            buf_put(b, value, 1);
}

static void put_latency(struct buf *b, const struct http_stats *stats)
{
    uint64_t sum = 0;
    put_metric_head(b, "tasuki_http_request_seconds", "histogram", "Time from a complete request to its answer.");
    for (size_t i = 0; i < CLASSES; i++) {
        sum += stats->latency[i];
        buf_printf(b, "tasuki_http_request_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", (double)classes_us[i] / 1e6, sum);
    }
    sum += stats->latency[CLASSES];
    buf_printf(b, "tasuki_http_request_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
    buf_printf(b, "tasuki_http_request_seconds_sum %.6f\n", (double)stats->latency_us / 1e6);
    buf_printf(b, "tasuki_http_request_seconds_count %" PRIu64 "\n", sum);
}

static void put_counters(struct buf *b, const struct http_stats *stats)
{
    put_metric_head(b, "tasuki_http_requests_total", "counter", "Answers by operation and status.");
    for (unsigned i = 0; i < stats->request_count; i++)
        buf_printf(b, "tasuki_http_requests_total{operation=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                   stats->requests[i].op ? stats->requests[i].op->name : "", stats->requests[i].status,
                   stats->requests[i].count);
    put_latency(b, stats);
    put_metric_head(b, "tasuki_events_total", "counter", "Events of the workspace by type, since this server started.");
    for (unsigned i = 0; i < stats->type_count; i++) {
        buf_puts(b, "tasuki_events_total{type=\"");
        stats_put_label(b, stats->events[i].type);
        buf_printf(b, "\"} %" PRIu64 "\n", stats->events[i].count);
    }
    put_metric_head(b, "tasuki_http_connections", "gauge", "Open connections.");
    buf_printf(b, "tasuki_http_connections %u\n", stats->connections);
    put_metric_head(b, "tasuki_http_streams", "gauge", "Open event streams.");
    buf_printf(b, "tasuki_http_streams %u\n", stats->streams);
}

/* ---- how the workspace is now ---- */

/* What is counted: the lists of some operations, by one of their keys. */
static const struct {
    const char *op, *list, *by, *label, *metric, *help;
} gauges[] = {
    {"lock.list", "locks", "kind", "kind", "tasuki_locks", "Locks by kind."},
    {"process.list", "processes", "state_name", "state", "tasuki_processes", "Processes by state."},
    {"runs.list", "runs", "status", "status", "tasuki_runs", "The newest 1000 runs by status."},
    {"request.list", "requests", "status", "status", "tasuki_requests",
     "The first 1000 requests by what became of them."},
};

static json_t *stats_ask(struct http_job *job, const char *name)
{
    struct tsk_error ignored = {0};
    json_t *answer = NULL, *args CLEANUP_JSON = json_object();
    const struct op *op = op_by_name(name);
    if (!op)
        return NULL;
    if (op_param_find(op, "limit"))
        json_object_set_new(args, "limit", json_integer(1000));
    struct op_call call = {.op = op, .args = args, .ws = job->server->ws, .root = job->server->root, .skin = job};
    if (op_check_args(op, args, &ignored) < 0 || op_run(&call, &answer, &ignored) < 0)
        return NULL;
    json_decref(call.aside);
    return answer;
}

static void put_gauge(struct buf *b, const json_t *list, const char *by, const char *metric, const char *label)
{
    json_t *counts CLEANUP_JSON = json_object(), *count;
    const char *value;
    json_each (list, i, item) {
        value = json_get_string(item, by, "unknown");
        json_object_set_new(counts, value, json_integer(json_get_int(counts, value, 0) + 1));
    }
    json_object_foreach (counts, value, count) {
        buf_printf(b, "%s{%s=\"", metric, label);
        stats_put_label(b, value);
        buf_printf(b, "\"} %" PRId64 "\n", (int64_t)json_integer_value(count));
    }
}

/* The tasks of the runs that were counted. */
static void put_tasks(struct buf *b, const json_t *runs)
{
    json_t *sums CLEANUP_JSON = json_object();
    put_metric_head(b, "tasuki_tasks", "gauge", "Tasks of those runs.");
    json_each (runs, i, run)
        json_each_pair (json_object_get(run, "counts"), key, count)
            json_object_set_new(sums, key, json_integer(json_get_int(sums, key, 0) + json_integer_value(count)));
    json_each_pair (sums, key, count)
        buf_printf(b, "tasuki_tasks{count=\"%s\"} %" PRId64 "\n", key, (int64_t)json_integer_value(count));
}

/* Two workers may have the same name: their numbers are added. */
static void put_workers(struct buf *b, const json_t *workers, const char *key, const char *metric, const char *help)
{
    json_t *sums CLEANUP_JSON = json_object();
    put_metric_head(b, metric, "gauge", help);
    json_each (workers, i, worker) {
        const char *name = json_get_string(worker, "name", "");
        json_object_set_new(sums, name, json_integer(json_get_int(sums, name, 0) + json_get_int(worker, key, 0)));
    }
    json_each_pair (sums, name, sum) {
        buf_printf(b, "%s{worker=\"", metric);
        stats_put_label(b, name);
        buf_printf(b, "\"} %" PRId64 "\n", (int64_t)json_integer_value(sum));
    }
}

static void put_all_workers(struct http_job *job, struct buf *b)
{
    struct http_stats *stats = job->server->stats;
    int64_t began_ms = clock_now().boot_ms;
    pthread_mutex_lock(&stats->mutex);
    bool is_known = began_ms < stats->workers_until_ms;
    if (is_known)
        buf_put(b, stats->workers.data, stats->workers.len);
    pthread_mutex_unlock(&stats->mutex);
    if (is_known)
        return;
    size_t from = b->len;
    json_t *answer CLEANUP_JSON = stats_ask(job, "workers.list");
    const json_t *workers = json_object_get(answer, "workers");
    put_workers(b, workers, "places", "tasuki_worker_places", "Tasks that a worker executes at a time, at most.");
    put_workers(b, workers, "tasks", "tasuki_worker_tasks",
                "Tasks that a worker executed when it last gave a sign of life.");
    int64_t now_ms = clock_now().boot_ms;
    if (now_ms - began_ms < WORKERS_SLOW_MS)
        return;
    pthread_mutex_lock(&stats->mutex);
    buf_reset(&stats->workers);
    buf_put(&stats->workers, b->data + from, b->len - from);
    stats->workers_until_ms = now_ms + WORKERS_LATER_MS;
    pthread_mutex_unlock(&stats->mutex);
}

void stats_job(struct http_job *job)
{
    struct buf *b = &job->body;
    struct http_stats *stats = job->server->stats;
    job->type = "text/plain; version=0.0.4; charset=utf-8";
    job->status = 200;
    put_metric_head(b, "tasuki_build_info", "gauge", "This program.");
    buf_printf(b, "tasuki_build_info{version=\"%s\"} 1\n", TASUKI_VERSION);
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        json_t *answer CLEANUP_JSON = stats_ask(job, gauges[i].op);
        const json_t *list = json_object_get(answer, gauges[i].list);
        put_metric_head(b, gauges[i].metric, "gauge", gauges[i].help);
        put_gauge(b, list, gauges[i].by, gauges[i].metric, gauges[i].label);
        if (strcmp(gauges[i].list, "runs") == 0)
            put_tasks(b, list);
    }
    put_all_workers(job, b);
    pthread_mutex_lock(&stats->mutex);
    put_counters(b, stats);
    pthread_mutex_unlock(&stats->mutex);
}
