/* clock.h - time, taken once per operation and passed on as a value.
 *
 * There are two clocks. `wall_ms` (Unix time) is for records that people and other tools read. `boot_ms` (CLOCK_BOOTTIME,
 * which counts during suspend and never jumps) is for every comparison. Inside a time namespace the
 * kernel shifts that clock and the start times in /proc; both are shifted back, so that a record means the same in every
 * namespace. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tasuki.h"

#define SECOND_LOOK_MS 1000 /* between two looks for a change that nothing announces */
#define CANCEL_LOOK_MS 500  /* how soon a wait sees that its caller has gone */

struct now {
    int64_t wall_ms;
    int64_t boot_ms;
};

/* The clock calls, in a table that a test replaces. */
struct clock_calls {
    struct now (*now)(void);
};
extern const struct clock_calls clock_system_calls;
extern const struct clock_calls *clock_source;

/* How far this process's time namespace shifts CLOCK_BOOTTIME, in nanoseconds; 0 outside of one. Returns false if the
 * shift is unknown; a different start time then proves nothing. */
bool clock_boot_shift(int64_t *ret_ns);

/* The Unix time at which CLOCK_BOOTTIME was 0, rounded to 10 ms, the precision of start times in /proc. Unlike the difference
 * of two looks at the clocks, it is the same each time until the wall clock is set. */
int64_t clock_boot_moment(void);

static inline struct now clock_now(void)
{
    return clock_source->now();
}

/* Sleeps; a signal may end it earlier. */
void clock_nap(int64_t ms);
/* The time that `clock` will show in `ms`, for calls with a deadline such as pthread_cond_timedwait. */
struct timespec clock_deadline(clockid_t clock, int64_t ms);

#define TIME_TEXT_MAX 40
/* 2026-02-07T22:30:00+09:00 (local offset) and 2026-02-07T22:30:00Z. */
const char *time_format_local(int64_t wall_ms, char text[TIME_TEXT_MAX]);
const char *time_format_utc(int64_t wall_ms, char text[TIME_TEXT_MAX]);
/* 2026-02-07T22:30:00.123Z, where the exact instant matters. */
const char *time_format_exact(int64_t wall_ms, char text[TIME_TEXT_MAX]);
/* The same as expressions. Each text lasts as long as the block in which the macro stands. */
#define TIME_LOCAL(wall_ms)  time_format_local((wall_ms), (char[TIME_TEXT_MAX]){0})
#define TIME_IN_UTC(wall_ms) time_format_utc((wall_ms), (char[TIME_TEXT_MAX]){0})
#define TIME_EXACT(wall_ms)  time_format_exact((wall_ms), (char[TIME_TEXT_MAX]){0})
/* Parses an ISO 8601 date and time with `Z` or an offset; fractions are allowed. Returns 0, or -1 if `text` is not one. */
int time_parse(const char *text, int64_t *ret_wall_ms);

/* Parses "30s", "5m", "1h30m", "250ms", "2d"; a bare number is seconds. Returns 0 or -1. */
int duration_parse(const char *text, int64_t *ret_ms);
/* The two largest units: "2 h 5 min", "41 s", "120 ms". */
const char *duration_format(int64_t ms, char text[TIME_TEXT_MAX]);
/* The same of a time that is left: in whole seconds, rounded up, so that a back-off of 2 s is "2 s" a moment later. At least 1 s. */
const char *duration_format_left(int64_t ms, char text[TIME_TEXT_MAX]);
#define DURATION(ms)      duration_format((ms), (char[TIME_TEXT_MAX]){0}) /* as expressions, like TIME_LOCAL */
#define DURATION_LEFT(ms) duration_format_left((ms), (char[TIME_TEXT_MAX]){0})

#endif
