/* times.c - times and spans for people: local, short, relative, in their language. --verbose has them exactly as they were. */
#include "base/clock.h"
#include "cli/cli.h"

#include <string.h>
#include <time.h>

#define RECENT_MS 3600000 /* within an hour, the distance says more than the clock */

const char *cli_span(enum lang lang, int64_t ms, char text[TIME_TEXT_MAX])
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    text_put_span(&b, lang, DURATION(ms));
    snprintf(text, TIME_TEXT_MAX, "%s", buf_str(&b));
    return text;
}

const char *cli_whole_span(enum lang lang, int64_t ms, char text[TIME_TEXT_MAX])
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    text_put_span(&b, lang, ms >= 1000 ? DURATION(ms) : "0 s");
    snprintf(text, TIME_TEXT_MAX, "%s", buf_str(&b));
    return text;
}

/* The day stands before the clock unless it is today, the year unless it is this one. */
static void clock_format(int64_t wall_ms, bool has_seconds, char text[TIME_TEXT_MAX])
{
    const char *whole = TIME_LOCAL(wall_ms), *today = TIME_LOCAL(clock_now().wall_ms);
    bool is_today = strncmp(whole, today, 10) == 0, is_this_year = strncmp(whole, today, 5) == 0;
    snprintf(text, TIME_TEXT_MAX, "%.*s%s%.*s",
             is_today       ? 0
             : is_this_year ? 5
                            : 10,
             whole + (is_this_year ? 5 : 0), is_today ? "" : " ", has_seconds ? 8 : 5, whole + 11);
}

/* Local time with its offset, and the milliseconds if they were recorded. */
static void exact_format(const char *time, int64_t wall_ms, char text[TIME_TEXT_MAX])
{
    const char *local = TIME_LOCAL(wall_ms);
    if (strchr(time, '.'))
        snprintf(text, TIME_TEXT_MAX, "%.19s.%03d%.6s", local, (int)(wall_ms % 1000), local + 19);
    else
        snprintf(text, TIME_TEXT_MAX, "%s", local);
}

static const char *time_put(const struct cli_options *options, const char *time, bool has_seconds,
                            char text[TIME_TEXT_MAX])
{
    int64_t wall_ms;
    if (time_parse(time, &wall_ms) < 0)
        snprintf(text, TIME_TEXT_MAX, "%s", time);
    else if (options->verbose)
        exact_format(time, wall_ms, text);
    else
        clock_format(wall_ms, has_seconds, text);
    return text;
}

const char *cli_clock(const struct cli_options *options, const char *time, char text[TIME_TEXT_MAX])
{
    return time_put(options, time, false, text);
}

const char *cli_clock_seconds(const struct cli_options *options, const char *time, char text[TIME_TEXT_MAX])
{
    return time_put(options, time, true, text);
}

/* The largest unit alone: "2 min", not "2 min 5 s". */
static void largest_unit(int64_t ms, char text[TIME_TEXT_MAX])
{
    int64_t unit = ms < 60000 ? 1000 : 60000;
    duration_format(ms < 1000 ? 0 : ms - ms % unit, text);
    if (ms < 1000)
        snprintf(text, TIME_TEXT_MAX, "0 s");
}

const char *cli_when(const struct cli_options *options, const char *time, char text[TIME_TEXT_MAX])
{
    int64_t wall_ms, age;
    char span[TIME_TEXT_MAX];
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    bool is_time = time_parse(time, &wall_ms) == 0;
    age = is_time ? clock_now().wall_ms - wall_ms : 0;
    if (!is_time || options->verbose || age < 0 || age >= RECENT_MS)
        return cli_clock(options, time, text);
    largest_unit(age, span);
    text_put(&b, options->lang, "time_ago", "span", span, NULL);
    snprintf(text, TIME_TEXT_MAX, "%s", buf_str(&b));
    return text;
}

void cli_since(const struct cli_options *options, const char *time, int64_t age_ms, struct buf *b)
{
    int64_t wall_ms;
    if (age_ms < 0 && time_parse(time, &wall_ms) == 0)
        age_ms = clock_now().wall_ms - wall_ms;
    const char *clock = CLI_CLOCK(options, time);
    if (age_ms < 0)
        buf_puts(b, clock);
    else
        text_put(b, options->lang, "since_ago", "time", clock, "span", CLI_WHOLE_SPAN(options->lang, age_ms), NULL);
}

void cli_put_time(struct buf *b, const struct cli_options *options, const char *key, const char *time)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    if (!time)
        return;
    cli_since(options, time, -1, &line);
    cli_put_line(b, options, stdout, key, buf_str(&line));
}
