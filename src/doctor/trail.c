/* trail.c - the event trail: readable from its first line to its last. */
#include "doctor/check.h"
#include "store/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIL_CHUNK (256u << 10)

/* What a walk over the lines of a segment has seen. */
struct trail_look {
    uint64_t offset; /* of the line that begins in `line` */
    struct buf line;
    size_t lines, broken, torn; /* torn: closed by the next append (E4) */
    uint64_t first_broken;
    int64_t newest_ms;
};

static void trail_look_clear(struct trail_look *look)
{
    buf_clear(&look->line);
}
#define CLEANUP_TRAIL CLEANUP(trail_look_clear)

static void trail_look_at_line(struct trail_look *look)
{
    json_t *event CLEANUP_JSON = json_loadb(buf_str(&look->line), look->line.len, 0, NULL);
    bool is_header = look->offset == 0 && json_object_get(event, "segment");
    bool is_event = json_is_string(json_object_get(event, "type")) && json_is_string(json_object_get(event, "time"));
    int64_t time;
    look->lines++;
    if (!is_header && !is_event && strncmp(buf_str(&look->line), "{\"time\":", 8) == 0)
        look->torn++;
    else if (!is_header && !is_event && look->broken++ == 0)
        look->first_broken = look->offset;
    if (is_event && time_parse(json_get_string(event, "time", ""), &time) == 0 && time > look->newest_ms)
        look->newest_ms = time;
}

/* Keeps at most EVENT_LINE_MAX bytes of a line: a damaged line can have any length. */
static void trail_keep(struct trail_look *look, const char *data, size_t len)
{
    size_t room = look->line.len < EVENT_LINE_MAX ? EVENT_LINE_MAX - look->line.len : 0;
    buf_put(&look->line, data, len < room ? len : room);
}

static int trail_walk(int fd, struct trail_look *look, bool *ret_is_torn)
{
    char *chunk = malloc(TRAIL_CHUNK);
    off_t at = 0;
    ssize_t n = -1;
    while (chunk && (n = fs->pread(fd, chunk, TRAIL_CHUNK, at)) > 0) {
        const char *from = chunk, *end = chunk + n;
        for (const char *newline; (newline = memchr(from, '\n', (size_t)(end - from)));) {
            trail_keep(look, from, (size_t)(newline - from));
            trail_look_at_line(look);
            buf_reset(&look->line);
            from = newline + 1;
            look->offset = (uint64_t)at + (uint64_t)(from - chunk);
        }
        trail_keep(look, from, (size_t)(end - from));
        at += n;
    }
    free(chunk);
    *ret_is_torn = look->line.len > 0;
    return n < 0 ? -1 : 0;
}

/* The next append closes what is open and puts aside what is no segment: make one. */
static bool append_something(struct finding *f)
{
    struct tsk_error err;
    struct event event = {.type = "doctor.fixed", .data = "{\"check\":\"events\"}"};
    return finding_fixes(f) && workspace_event(f->doctor->ws, &f->doctor->now, &event, &err) == 0;
}

static void tell_torn(struct finding *f, const char *key, const char *key_fixed)
{
    if (append_something(f)) {
        finding_recovered(f, key_fixed, NULL);
        return;
    }
    finding_add(f, DOCTOR_WARN, key, NULL);
    finding_fix_ours(f, "doctor --fix");
}

/* Nothing can be fixed: an event's id is its position, so no line may be removed. */
static void suggest_looking(struct finding *f, uint64_t place)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    finding_fix(f, "tail -c +%llu %s | head -n 1 | cat -v", (unsigned long long)place + 1,
                state_word(f->doctor, TRAIL_NAME, &word));
}

void check_events(struct finding *f)
{
    struct stat st;
    uint64_t base;
    bool is_torn;
    struct trail_look look CLEANUP_TRAIL = {.line = {.max = EVENT_LINE_MAX + TRAIL_CHUNK}, .newest_ms = -1};
    finding_summary(f, "doctor_events_none", NULL);
    int fd CLEANUP_FD = segment_open(f->doctor->ws->state_dir, TRAIL_NAME, O_RDONLY, &st);
    if (fd < 0) {
        if (errno != ENOENT) /* the check of the workspace reports what it is instead of a file */
            finding_add(f, DOCTOR_FAIL, "doctor_access", "path", TRAIL_NAME, "reason", strerrordesc_np(errno), NULL);
        return;
    }
    if (trail_walk(fd, &look, &is_torn) < 0) {
        finding_add(f, DOCTOR_FAIL, "doctor_access", "path", TRAIL_NAME, "reason", strerrordesc_np(errno), NULL);
        return;
    }
    f->doctor->newest_event_ms = look.newest_ms;
    finding_summary(f, "doctor_events_good", "count", DIGITS(look.lines), NULL);
    if (look.broken) {
        finding_add(f, DOCTOR_WARN, "doctor_events_broken", "count", DIGITS(look.broken), "place",
                    DIGITS(look.first_broken), NULL);
        suggest_looking(f, look.first_broken);
    }
    if (look.torn)
        finding_add(f, DOCTOR_PASS, "doctor_events_cut", "count", DIGITS(look.torn), NULL);
    if (segment_base(fd, &base) == 0)
        tell_torn(f, "doctor_events_headless", "doctor_events_headless_fixed");
    else if (is_torn)
        tell_torn(f, "doctor_events_torn", "doctor_events_torn_fixed");
}
