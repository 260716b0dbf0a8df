/* usage.c - CPU and memory of the processes for streams that ask for them.
 *
 *  G1  A worker samples every USAGE_MS while at least one stream asks. With the last of them sampling stops, and the samples are
 *      forgotten.
 *  G2  A sample is no event: it is not in the trail and has no id. A stream that is busy misses it. */
#include "base/clock.h"
#include "http/internal.h"
#include "proc/process.h"

#include <string.h>

/* In a worker: {id: {run, cpu_ms, rss_bytes}} of those that run. */
static void take_sample(struct http_job *job)
{
    json_t *processes CLEANUP_JSON = NULL;
    struct tsk_error ignored; /* without a sample there is no message */
    size_t total;
    job->args = json_object();
    if (proc_overview(job->server->ws, NULL, SIZE_MAX, &processes, &total, &ignored) < 0)
        return;
    json_each (processes, i, one) {
        const json_t *usage = json_object_get(one, "usage");
        if (usage && json_text_is(one, "state_name", "Running"))
            json_object_set_new(job->args, json_get_string(one, "id", ""),
                                json_pack("{s:I, s:I, s:I}", "run", (json_int_t)json_get_int(one, "run", 0), "cpu_ms",
                                          (json_int_t)json_get_int(usage, "cpu_ms", 0), "rss_bytes",
                                          (json_int_t)json_get_int(usage, "rss_bytes", 0)));
    }
}

/* The share of one processor since the sample before; null for a start that was not in it. */
static json_t *cpu_percent(const struct feed_usage *usage, const char *id, const json_t *sample, int64_t now_ms)
{
    const json_t *before = json_object_get(usage->before, id);
    int64_t span_ms = now_ms - usage->before_ms;
    if (!before || span_ms <= 0 || json_get_int(before, "run", 0) != json_get_int(sample, "run", -1))
        return json_null();
    double percent =
        100.0 * (double)(json_get_int(sample, "cpu_ms", 0) - json_get_int(before, "cpu_ms", 0)) / (double)span_ms;
    return json_real((double)(int64_t)(percent * 10 + 0.5) / 10);
}

static void put_usage(struct buf *b, const struct feed_usage *usage, json_t *samples, int64_t now_ms)
{
    json_t *processes CLEANUP_JSON = json_object();
    json_each_pair (samples, id, sample)
        json_object_set_new(processes, id,
                            json_pack("{s:o, s:O}", "cpu_percent", cpu_percent(usage, id, sample, now_ms), "rss_bytes",
                                      json_object_get(sample, "rss_bytes")));
    json_t *message CLEANUP_JSON =
        json_pack("{s:s, s:O}", "time", TIME_EXACT(clock_now().wall_ms), "processes", processes);
    buf_puts(b, "event: usage\ndata: ");
    json_write(b, message, false);
    buf_puts(b, "\n\n");
}

static void usage_sampled(struct http_job *job)
{
    struct http_feed *feed = &job->server->feed;
    struct feed_usage *usage = &feed->usage;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    int64_t now_ms = clock_now().boot_ms;
    usage->is_sampling = false;
    if (usage->streams == 0)
        return;
    put_usage(&b, usage, job->args, now_ms);
    json_decref(usage->before);
    usage->before = json_incref(job->args);
    usage->before_ms = now_ms;
    if (!b.failed)
        feed_send_usage(feed, b.data, b.len);
}

void usage_tick(struct http_feed *feed, int64_t now_ms)
{
    struct feed_usage *usage = &feed->usage;
    if (usage->is_sampling)
        return;
    if (usage->streams == 0) { /* G1 */
        json_decref(usage->before);
        usage->before = NULL;
        usage->sampled_ms = 0;
        return;
    }
    if (usage->sampled_ms && now_ms - usage->sampled_ms < USAGE_MS)
        return;
    usage->sampled_ms = now_ms;
    usage->is_sampling = true;
    struct http_job *job = job_new(feed->server, NULL, take_sample);
    job->done = usage_sampled;
    job_start(job);
}
