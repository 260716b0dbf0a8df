#include "base/clock.h"
#include "base/fs.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t read_clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t read_clock(clockid_t id)
{
    return read_clock_ns(id) / 1000000;
}

/* Fixed for a process when its program begins, read once. */
static struct {
    pthread_once_t once;
    int64_t ns;
    bool is_known;
} boot_shift = {.once = PTHREAD_ONCE_INIT};

/* timens_offsets is about the namespace of the children. It is ours, too, unless this process has asked for another one for
 * them. Kernels without time namespaces have neither file. */
static void boot_shift_read(void)
{
    struct stat ours, children;
    char storage[8192], *at;
    struct buf text;
    buf_init_fixed(&text, storage, sizeof storage);
    bool has_own = fs->fstatat(AT_FDCWD, "/proc/self/ns/time", &ours, 0) == 0;
    boot_shift.is_known = !has_own || (fs->fstatat(AT_FDCWD, "/proc/self/ns/time_for_children", &children, 0) == 0 &&
                                       children.st_ino == ours.st_ino && children.st_dev == ours.st_dev);
    if (!boot_shift.is_known || !has_own || fs_read_file(AT_FDCWD, "/proc/self/timens_offsets", 4096, &text) < 0)
        return;
    at = strstr(buf_str(&text), "boottime");
    if (!at)
        return;
    int64_t seconds = strtoll(at + strlen("boottime"), &at, 10);
    boot_shift.ns = seconds * 1000000000 + strtoll(at, NULL, 10);
}

bool clock_boot_shift(int64_t *ret_ns)
{
    pthread_once(&boot_shift.once, boot_shift_read);
    *ret_ns = boot_shift.ns;
    return boot_shift.is_known;
}

/* A process that is preempted between its looks at the clocks looks again. */
#define MOMENT_LOOKS   16
#define MOMENT_NEAR_NS 20000
#define MOMENT_STEP_NS 10000000

int64_t clock_boot_moment(void)
{
    int64_t shift, best = INT64_MAX, moment = 0;
    clock_boot_shift(&shift);
    for (int i = 0; i < MOMENT_LOOKS && best > MOMENT_NEAR_NS; i++) {
        int64_t before = read_clock_ns(CLOCK_BOOTTIME), wall = read_clock_ns(CLOCK_REALTIME);
        int64_t took = read_clock_ns(CLOCK_BOOTTIME) - before;
        if (took >= best)
            continue;
        best = took;
        moment = wall - (before + took / 2 - shift);
    }
    return (moment + MOMENT_STEP_NS / 2) / MOMENT_STEP_NS * (MOMENT_STEP_NS / 1000000);
}

static struct now system_now(void)
{
    int64_t shift;
    clock_boot_shift(&shift);
    return (struct now){.wall_ms = read_clock(CLOCK_REALTIME), .boot_ms = read_clock(CLOCK_BOOTTIME) - shift / 1000000};
}

const struct clock_calls clock_system_calls = {.now = system_now};
const struct clock_calls *clock_source = &clock_system_calls;

void clock_nap(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

struct timespec clock_deadline(clockid_t clock, int64_t ms)
{
    struct timespec now;
    clock_gettime(clock, &now);
    int64_t ns = now.tv_nsec + ms % 1000 * 1000000;
    return (struct timespec){.tv_sec = now.tv_sec + ms / 1000 + ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days since 1970-01-01 of a date of the Gregorian calendar, and back. Years are counted from 1 March, so
 * that the leap day is the last of its year. */
static int64_t days_of_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = floor_div(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void date_of_days(int64_t days, int *year, int *month, int *day)
{
    days += 719468;
    int64_t era = floor_div(days, 146097);
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = (int)(yoe + era * 400 + (*month <= 2));
}

static char *put_digits(char *at, int value, int digits, char after)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
    at[digits] = after;
    return at + digits + 1;
}

/* By hand: lock files and events are written on a path where snprintf would be a tenth of the time. */
static char *format_at_offset(int64_t wall_ms, int offset_s, char text[TIME_TEXT_MAX])
{
    int64_t seconds = floor_div(wall_ms, 1000) + offset_s;
    int64_t days = floor_div(seconds, 86400);
    int rest = (int)(seconds - days * 86400);
    int year, month, day;
    date_of_days(days, &year, &month, &day);
    char *at = put_digits(text, year < 0 ? 0 : year > 9999 ? 9999 : year, 4, '-');
    at = put_digits(at, month, 2, '-');
    at = put_digits(at, day, 2, 'T');
    at = put_digits(at, rest / 3600, 2, ':');
    at = put_digits(at, rest / 60 % 60, 2, ':');
    return put_digits(at, rest % 60, 2, '\0') - 1;
}

const char *time_format_utc(int64_t wall_ms, char text[TIME_TEXT_MAX])
{
    char *end = format_at_offset(wall_ms, 0, text);
    end[0] = 'Z';
    end[1] = '\0';
    return text;
}

const char *time_format_exact(int64_t wall_ms, char text[TIME_TEXT_MAX])
{
    char *end = format_at_offset(wall_ms, 0, text);
    *end++ = '.';
    *put_digits(end, (int)(wall_ms - floor_div(wall_ms, 1000) * 1000), 3, 'Z') = '\0';
    return text;
}

const char *time_format_local(int64_t wall_ms, char text[TIME_TEXT_MAX])
{
    time_t seconds = (time_t)floor_div(wall_ms, 1000);
    struct tm tm;
    int offset = localtime_r(&seconds, &tm) ? (int)tm.tm_gmtoff : 0;
    offset -= offset % 60; /* the format has no seconds for it; the instant must stay the same */
    char *end = format_at_offset(wall_ms, offset, text);
    *end++ = offset < 0 ? '-' : '+';
    end = put_digits(end, abs(offset) / 3600 % 100, 2, ':');
    put_digits(end, abs(offset) / 60 % 60, 2, '\0');
    return text;
}

/* Reads exactly `digits` digits. */
static bool scan_digits(const char **at, int digits, int *ret)
{
    int value = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (!isdigit((unsigned char)**at))
            return false;
        value = value * 10 + (**at - '0');
    }
    *ret = value;
    return true;
}

static bool skip_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

static bool scan_fraction(const char **at, int *ret_ms)
{
    *ret_ms = 0;
    if (!skip_char(at, '.') && !skip_char(at, ','))
        return true;
    int scale = 100;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++, scale /= 10)
        *ret_ms += (**at - '0') * scale;
    return true;
}

static bool scan_offset(const char **at, int *ret_s)
{
    int hours, minutes = 0;
    *ret_s = 0;
    if (skip_char(at, 'Z') || skip_char(at, 'z'))
        return true;
    int sign = **at == '-' ? -1 : 1;
    if (!skip_char(at, '+') && !skip_char(at, '-'))
        return false;
    if (!scan_digits(at, 2, &hours))
        return false;
    bool has_colon = skip_char(at, ':');
    if ((has_colon || **at) && !scan_digits(at, 2, &minutes))
        return false;
    *ret_s = sign * (hours * 3600 + minutes * 60);
    return hours < 24 && minutes < 60;
}

static int days_in_month(int year, int month)
{
    return (int)(days_of_date(year + month / 12, month % 12 + 1, 1) - days_of_date(year, month, 1));
}

int time_parse(const char *text, int64_t *ret_wall_ms)
{
    int year, month, day, hour, minute, second, ms, offset;
    const char *at = text;
    bool ok = scan_digits(&at, 4, &year) && skip_char(&at, '-') && scan_digits(&at, 2, &month) && skip_char(&at, '-') &&
              scan_digits(&at, 2, &day) && (skip_char(&at, 'T') || skip_char(&at, 't') || skip_char(&at, ' ')) &&
              scan_digits(&at, 2, &hour) && skip_char(&at, ':') && scan_digits(&at, 2, &minute) &&
              skip_char(&at, ':') && scan_digits(&at, 2, &second) && scan_fraction(&at, &ms) &&
              scan_offset(&at, &offset) && *at == '\0';
    if (!ok || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return -1;
    if (hour > 24 || minute > 59 || second > 60 || (hour == 24 && (minute || second || ms)))
        return -1;
    int64_t seconds = days_of_date(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - (int64_t)offset;
    *ret_wall_ms = seconds * 1000 + ms;
    return 0;
}

static const struct {
    const char *suffix;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"ms", 1}, {"m", 60000}, {"s", 1000}};

enum { UNIT_COUNT = sizeof units / sizeof units[0] };

int duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t total = 0;
    if (!isdigit((unsigned char)*text))
        return -1;
    while (*text) {
        int64_t value = 0;
        if (!isdigit((unsigned char)*text))
            return -1;
        for (; isdigit((unsigned char)*text); text++) {
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value))
                return -1;
        }
        size_t i = 0;
        while (i < UNIT_COUNT && strncmp(text, units[i].suffix, strlen(units[i].suffix)) != 0)
            i++;
        if (i == UNIT_COUNT && *text)
            return -1;
        int64_t part;
        if (__builtin_mul_overflow(value, i == UNIT_COUNT ? 1000 : units[i].ms, &part) ||
            __builtin_add_overflow(total, part, &total))
            return -1;
        text += i == UNIT_COUNT ? 0 : strlen(units[i].suffix);
    }
    *ret_ms = total;
    return 0;
}

const char *duration_format(int64_t ms, char text[TIME_TEXT_MAX])
{
    if (ms < 0)
        ms = 0;
    static const struct {
        int64_t ms, sub_ms;
        const char *unit, *sub;
    } steps[] = {{86400000, 3600000, "d", "h"}, {3600000, 60000, "h", "min"}, {60000, 1000, "min", "s"}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (ms >= steps[i].ms) {
            long long whole = ms / steps[i].ms;
            unsigned char rest = (unsigned char)(ms % steps[i].ms / steps[i].sub_ms); /* below 60 */
            if (rest)
                snprintf(text, TIME_TEXT_MAX, "%lld %s %u %s", whole, steps[i].unit, rest, steps[i].sub);
            else
                snprintf(text, TIME_TEXT_MAX, "%lld %s", whole, steps[i].unit);
            return text;
        }
    if (ms >= 1000)
        snprintf(text, TIME_TEXT_MAX, "%lld s", (long long)(ms / 1000));
    else
        snprintf(text, TIME_TEXT_MAX, "%lld ms", (long long)ms);
    return text;
}

const char *duration_format_left(int64_t ms, char text[TIME_TEXT_MAX])
{
    int64_t seconds = ms / 1000 + (ms % 1000 > 0);
    return duration_format(seconds > 1 ? seconds * 1000 : 1000, text);
}
