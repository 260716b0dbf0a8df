#include "graph/attempt.h"
#include "base/word.h"

#include <math.h>

#define PAUSE_LONGEST_MS (INT64_C(10) * 366 * 24 * 3600 * 1000) /* a time that is added to it stays a time */

enum attempt_end attempt_verdict(enum stop stop, int exit_code, bool is_output_good, bool has_question)
{
    if (stop == STOP_GROUP || stop == STOP_RUN)
        return ATTEMPT_STOPPED;
    if (stop == STOP_TIMEOUT || !is_output_good)
        return ATTEMPT_FAILED;
    if (has_question)
        return ATTEMPT_ASKS;
    return exit_code == 0 ? ATTEMPT_OK : ATTEMPT_FAILED;
}

bool attempt_is_last(enum stop stop, bool is_cancelled, unsigned attempt, int32_t retries)
{
    return stop == STOP_GROUP || stop == STOP_RUN || is_cancelled || (int64_t)attempt > retries;
}

/* A hash, followed by the last steps of splitmix64, so that texts that differ in one character get very different numbers. */
static double jitter_of(const char *session, const char *task, unsigned attempt)
{
    uint64_t z = text_hash(text_hash(HASH_BEGIN, session), "\xff");
    z = text_hash(text_hash(z, task), "\xff") + attempt * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) / (double)(1ull << 52) - 1; /* -1 … 1 */
}

int64_t attempt_pause(const struct task_detail *detail, const char *session, const char *task, unsigned attempt)
{
    static const struct task_detail fallback = {
        .backoff_initial_ms = BACKOFF_INITIAL_MS, .backoff_max_ms = BACKOFF_MAX_MS, .backoff_factor = BACKOFF_FACTOR};
    const struct task_detail *d = detail ? detail : &fallback;
    int64_t most = d->backoff_max_ms < PAUSE_LONGEST_MS ? d->backoff_max_ms : PAUSE_LONGEST_MS;
    if (d->backoff_initial_ms <= 0 || most <= 0)
        return 0;
    /* A power that is too large is infinite, and then the most counts. */
    double pause = (double)d->backoff_initial_ms * pow(d->backoff_factor, attempt - 1);
    pause = pause > (double)most ? (double)most : pause;
    pause *= 1 + d->backoff_jitter * jitter_of(session, task, attempt);
    return pause > (double)most ? most : (int64_t)pause;
}
