/* probe_log.c - PROBE_LOG: a line of the output that matches. */
#include "base/fs.h"
#include "hold/protocol.h"
#include "proc/log.h"
#include "proc/probe_try.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>

#define LOOK_MAX (1u << 20) /* bytes at a time */

int try_log_init(struct probe_try *t, const int64_t offset[2], struct tsk_error *err)
{
    int rc = regcomp(&t->pattern, t->probe.text, REG_EXTENDED | REG_NOSUB);
    if (rc != 0) {
        char reason[128];
        regerror(rc, &t->pattern, reason, sizeof reason);
        return error_set(err, TSK_INVALID_INPUT, "probe_pattern", "value", t->probe.text, "reason", reason, NULL);
    }
    t->has_pattern = true;
    memcpy(t->cursor, offset, sizeof t->cursor);
    return 0;
}

void try_log_clear(struct probe_try *t)
{
    if (t->has_pattern)
        regfree(&t->pattern);
    t->has_pattern = false;
}

int try_log_watch(const struct proc *p)
{
    char path[64];
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(path, sizeof path, "/proc/self/fd/%d/" HOLD_LOG_DIR, p->dir);
    if (fd >= 0 && inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE) < 0)
        fs_close(&fd);
    return fd;
}

struct look {
    struct probe_try *t;
    bool is_found;
    int64_t partial; /* where a line begins that is not finished yet, or -1 */
};

static bool probe_look_at_line(void *data, const struct log_line *line)
{
    struct look *look = data;
    bool has_return = line->len && line->text[line->len - 1] == '\r';
    regmatch_t whole = {.rm_so = 0, .rm_eo = (regoff_t)(line->len - has_return)};
    look->partial = line->is_partial && line->len < LOG_PIECE_MAX ? line->offset : -1;
    look->is_found = regexec(&look->t->pattern, line->text, 1, &whole, REG_STARTEND) == 0;
    if (look->is_found)
        try_say(look->t, "%.*s", (int)(line->len < PROBE_DETAIL_MAX ? line->len : PROBE_DETAIL_MAX), line->text);
    return !look->is_found;
}

/* What one stream has had to say since the last look. An unfinished line counts if it matches, and is looked at again, longer,
 * if it does not. */
static int look_at_stream(struct probe_try *t, enum log_stream stream, int64_t deadline_ms)
{
    for (;;) {
        struct tsk_error err;
        struct look look = {.t = t, .partial = -1};
        struct log_query query = {.stream = stream,
                                  .lines = -1,
                                  .cursor = {-1, -1},
                                  .since_ms = -1,
                                  .until_ms = -1,
                                  .max_bytes = LOOK_MAX,
                                  .strip_ansi = true};
        int64_t next[2] = {-1, -1}, *cursor = &t->cursor[stream];
        query.cursor[stream] = *cursor;
        if (log_read(t->p, &query, probe_look_at_line, &look, next, &err) < 0)
            return 0;
        int64_t before = *cursor;
        *cursor = look.partial >= 0 ? look.partial : next[stream] > before ? next[stream] : before;
        if (look.is_found)
            return 1;
        if (*cursor == before || clock_now().boot_ms >= deadline_ms)
            return 0;
    }
}

int try_log(struct probe_try *t, int64_t deadline_ms)
{
    if (look_at_stream(t, LOG_STDOUT, deadline_ms) || look_at_stream(t, LOG_STDERR, deadline_ms))
        return 1;
    try_say(t, "no line matches %s", t->probe.text);
    return 0;
}
