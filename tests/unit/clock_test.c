#include "base/clock.h"
#include "base/error.h"
#include "harness/test.h"

#include <stdlib.h>
#include <time.h>

static int64_t utc_ms(int year, int month, int day, int hour, int minute, int second)
{
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month - 1,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second};
    return (int64_t)timegm(&tm) * 1000;
}

TEST(every_day_of_eight_centuries_is_written_as_the_c_library_writes_it_and_read_back)
{
    for (int64_t s = utc_ms(1600, 1, 1, 0, 0, 0) / 1000; s < utc_ms(2400, 1, 1, 0, 0, 0) / 1000; s += 86400 + 13) {
        char ours[TIME_TEXT_MAX], theirs[TIME_TEXT_MAX];
        struct tm tm;
        time_t seconds = (time_t)s;
        int64_t back;
        time_format_utc(s * 1000, ours);
        ASSERT(gmtime_r(&seconds, &tm) && strftime(theirs, sizeof theirs, "%Y-%m-%dT%H:%M:%SZ", &tm));
        ASSERT_STR(ours, theirs);
        ASSERT_INT(time_parse(ours, &back), 0);
        ASSERT_INT(back, s * 1000);
    }
}

TEST(a_local_time_denotes_the_same_instant_in_every_zone)
{
    static const char *const zones[] = {
        "UTC0",  "JST-9",      "NST3:30NDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0", "CHADT-12:45", "LINT-14",
        "BIT12", "AMT-0:19:32"};
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        setenv("TZ", zones[i], 1);
        tzset();
        for (int64_t day = 0; day < 800; day++) {
            int64_t ms = utc_ms(2024, 1, 1, 0, 0, 0) + day * 86400000 + day * 61000, back;
            char text[TIME_TEXT_MAX];
            time_format_local(ms, text);
            ASSERT_INT(time_parse(text, &back), 0);
            if (back != ms)
                test_fail(__FILE__, __LINE__, "%s: %s is off by %lld ms", zones[i], text, (long long)(back - ms));
        }
    }
}

TEST(a_local_time_has_an_offset_and_never_a_letter)
{
    char text[TIME_TEXT_MAX];
    setenv("TZ", "JST-9", 1);
    tzset();
    time_format_local(utc_ms(2026, 2, 7, 13, 30, 0), text);
    ASSERT_STR(text, "2026-02-07T22:30:00+09:00");
    setenv("TZ", "UTC0", 1);
    tzset();
    time_format_local(utc_ms(2026, 2, 7, 13, 30, 0), text);
    ASSERT_STR(text, "2026-02-07T13:30:00+00:00");
}

TEST(offsets_and_fractions_are_understood)
{
    static const struct {
        const char *text;
        int64_t offset_ms; /* from 2026-02-07T13:30:00Z */
    } rows[] = {
        {"2026-02-07T22:30:00+09:00", 0}, {"2026-02-07T22:30:00+0900", 0},   {"2026-02-07T22:30:00+09", 0},
        {"2026-02-07t13:30:00z", 0},      {"2026-02-07 13:30:00Z", 0},       {"2026-02-07T04:00:00-09:30", 0},
        {"2026-02-07T13:30:00.5Z", 500},  {"2026-02-07T13:30:00,250Z", 250}, {"2026-02-07T13:30:00.123456789Z", 123},
        {"2026-02-07T13:30:00.001Z", 1},  {"2026-02-07T13:30:00-00:00", 0},  {"2026-02-07T13:29:60Z", 0},
        {"2026-02-06T24:00:00-13:30", 0}, {"2026-02-08T13:29:00+23:59", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ms = 0;
        if (time_parse(rows[i].text, &ms) < 0)
            test_fail(__FILE__, __LINE__, "refused: %s", rows[i].text);
        ASSERT_INT(ms - utc_ms(2026, 2, 7, 13, 30, 0), rows[i].offset_ms);
    }
}

TEST(leap_days_exist_in_leap_years_only)
{
    int64_t ms;
    ASSERT_INT(time_parse("2024-02-29T00:00:00Z", &ms), 0);
    ASSERT_INT(time_parse("2000-02-29T00:00:00Z", &ms), 0);
    ASSERT_INT(time_parse("2023-02-29T00:00:00Z", &ms), -1);
    ASSERT_INT(time_parse("1900-02-29T00:00:00Z", &ms), -1);
}

TEST(what_is_no_time_is_refused_and_leaves_the_result_untouched)
{
    static const char *const garbage[] = {
        "",
        "Z",
        "now",
        "2026",
        "2026-02-07",
        "2026-02-07T13:30",
        "2026-02-07T13:30:00",
        "2026-02-07T13:30:00Zx",
        "2026-2-7T13:30:00Z",
        "2026-02-07T13:30:00 Z",
        " 2026-02-07T13:30:00Z",
        "2026-13-07T13:30:00Z",
        "2026-00-07T13:30:00Z",
        "2026-02-00T13:30:00Z",
        "2026-02-32T13:30:00Z",
        "2026-02-07T25:00:00Z",
        "2026-02-07T13:60:00Z",
        "2026-02-07T13:30:61Z",
        "2026-02-07T13:30:00.Z",
        "2026-02-07T13:30:00+",
        "2026-02-07T13:30:00+9",
        "2026-02-07T13:30:00+24:00",
        "2026-02-07T13:30:00+09:60",
        "2026-02-07T13:30:00+09:0",
        "-026-02-07T13:30:00Z",
        "12026-02-07T13:30:00Z",
        "1770471000",
        "2026-02-07T13:30:00\n",
        /* dates and times that the calendar does not have */
        "2026-02-30T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-02-07T24:30:00Z",
        "2026-02-07T13:30:00+09:",
    };
    int accepted = 0;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int64_t ms = 42;
        if (time_parse(garbage[i], &ms) == 0)
            accepted += fprintf(stderr, "accepted: \"%s\" as %lld\n", garbage[i], (long long)ms) > 0;
        else
            ASSERT_INT(ms, 42);
    }
    ASSERT_INT(accepted, 0);
}

TEST(durations_are_sums_of_units)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {{"0", 0},       {"30", 30000},          {"30s", 30000},    {"250ms", 250},
                {"5m", 300000}, {"1h30m", 5400000},     {"2d", 172800000}, {"1d1h1m1s1ms", 90061001},
                {"007s", 7000}, {"9000000", 9000000000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ms = -1;
        ASSERT_INT(duration_parse(rows[i].text, &ms), 0);
        ASSERT_INT(ms, rows[i].ms);
    }
}

TEST(what_is_no_duration_is_refused)
{
    static const char *const garbage[] = {"",
                                          " ",
                                          "-1",
                                          "-5s",
                                          "+5s",
                                          "s",
                                          "5x",
                                          "5 s",
                                          "5s ",
                                          "1.5h",
                                          "1h-5m",
                                          "5ss",
                                          "forever",
                                          "0x10",
                                          "5S",
                                          "99999999999999999999",
                                          "9223372036854775807d",
                                          "m5"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int64_t ms = 42;
        if (duration_parse(garbage[i], &ms) == 0)
            test_fail(__FILE__, __LINE__, "accepted: \"%s\" as %lld", garbage[i], (long long)ms);
        ASSERT_INT(ms, 42);
    }
}

TEST(a_duration_never_overflows_however_many_parts_it_has)
{
    enum { PARTS = 2000, PART_LEN = 9 };
    static char text[PARTS * PART_LEN + 1];
    for (int i = 0; i < PARTS; i++)
        memcpy(text + (size_t)i * PART_LEN, "92233720d", PART_LEN + 1);
    int64_t ms = 42;
    ASSERT_INT(duration_parse(text, &ms), -1);
    ASSERT_INT(ms, 42);
}

TEST(durations_are_shown_in_their_two_largest_units)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{0, "0 ms"},      {-5, "0 ms"},      {999, "999 ms"},       {1000, "1 s"},
                {41999, "41 s"},  {60000, "1 min"},  {61000, "1 min 1 s"},  {7500000, "2 h 5 min"},
                {3600000, "1 h"}, {86400000, "1 d"}, {90000000, "1 d 1 h"}, {INT64_MAX, "106751991167 d 7 h"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TIME_TEXT_MAX];
        duration_format(rows[i].ms, text);
        ASSERT_STR(text, rows[i].text);
    }
}

TEST(a_time_that_is_left_is_rounded_up_to_the_second)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{-5, "1 s"},   {0, "1 s"},    {1, "1 s"},       {1000, "1 s"},        {1001, "2 s"},
                {1999, "2 s"}, {2000, "2 s"}, {59001, "1 min"}, {61500, "1 min 2 s"}, {7999, "8 s"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TIME_TEXT_MAX];
        duration_format_left(rows[i].ms, text);
        ASSERT_STR(text, rows[i].text);
    }
}

TEST(extreme_times_are_written_without_overrunning)
{
    char text[TIME_TEXT_MAX];
    time_format_utc(INT64_MAX, text);
    ASSERT(strlen(text) < TIME_TEXT_MAX);
    time_format_local(INT64_MIN + 1, text);
    ASSERT(strlen(text) < TIME_TEXT_MAX);
    time_format_utc(-1, text);
    ASSERT_STR(text, "1969-12-31T23:59:59Z");
}

static struct now frozen(void)
{
    return (struct now){.wall_ms = 7, .boot_ms = 3};
}

TEST(the_clock_can_be_replaced)
{
    static const struct clock_calls calls = {.now = frozen};
    struct now real = clock_now();
    ASSERT(real.wall_ms > utc_ms(2024, 1, 1, 0, 0, 0) && real.boot_ms > 0);
    clock_source = &calls;
    ASSERT_INT(clock_now().wall_ms, 7);
    ASSERT_INT(clock_now().boot_ms, 3);
}
