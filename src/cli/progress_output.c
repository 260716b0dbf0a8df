#include "base/fs.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "ops/run_args.h"
#include "proc/log_text.h"
#include "run/run_log.h"

#include <string.h>
#include <unistd.h>

#define LINES_AT_ONCE  (1 << 20) /* bytes of a task that runs, between two looks at the others */
#define LAST_LINE_LOOK 1024      /* bytes at the end of a log in which its last line is looked for */

void shown_log_path(const struct shown_run *run, const struct shown_task *task, char path[RUN_LOG_NAME + 80])
{
    char name[RUN_LOG_NAME];
    rundir_log_name(task->session, task->task, task->attempt, name);
    snprintf(path, RUN_LOG_NAME + 80, "runs/%s/%s", run->id, name);
}

/* A descriptor, or -1: it has printed nothing, or so little time has gone by that its log has no name yet. */
static int log_open(const struct op_call *call, const struct shown_run *run, const struct shown_task *task)
{
    char path[RUN_LOG_NAME + 80];
    shown_log_path(run, task, path);
    return fs->openat(call->ws->state_dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
}

void shown_last_line(const struct op_call *call, const struct shown_run *run, const struct shown_task *task,
                     struct buf *line)
{
    char end[LAST_LINE_LOOK];
    struct stat st;
    int fd CLEANUP_FD = log_open(call, run, task);
    if (fd < 0 || fs->fstat(fd, &st) < 0 || st.st_size <= task->at)
        return;
    int64_t from = st.st_size - task->at > LAST_LINE_LOOK ? st.st_size - LAST_LINE_LOOK : task->at;
    ssize_t got = fs->pread(fd, end, sizeof end, from);
    size_t stop = got > 0 ? (size_t)got : 0;
    while (stop && strchr(" \t\r\n", end[stop - 1]))
        stop--;
    for (size_t i = 0; i < stop; i++)
        if (end[i] == '\t')
            end[i] = ' ';
    const char *newline = stop ? memrchr(end, '\n', stop) : NULL, *begin = newline ? newline + 1 : end;
    size_t len = (size_t)(end + stop - begin);
    begin = log_text_last_part(begin, &len);
    struct buf plain CLEANUP(buf_clear) = BUF_INIT;
    log_text_strip(&plain, begin, len);
    utf8_put_visible(line, buf_str(&plain), false);
}

bool shown_lines(const struct op_call *call, const struct shown_run *run, struct shown_task *task, bool is_over,
                 void (*put)(const struct op_call *call, const struct shown_run *run, const struct shown_task *task,
                             const char *line, size_t len))
{
    char text[RUN_LOG_PIECE];
    struct stat st;
    bool has_lines = false;
    int fd CLEANUP_FD = log_open(call, run, task);
    if (fd < 0 || fs->fstat(fd, &st) < 0)
        return false;
    /* Not more than there is now: a task that prints without end does not keep the runner from its work. */
    int64_t end_at = is_over || st.st_size - task->at < LINES_AT_ONCE ? st.st_size : task->at + LINES_AT_ONCE;
    for (ssize_t got; task->at < end_at && (got = fs->pread(fd, text, sizeof text, task->at)) > 0;) {
        const char *at = text, *end = text + got, *newline;
        for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1)
            put(call, run, task, at, (size_t)(newline - at));
        if (at < end && is_over && got < (ssize_t)sizeof text) {
            put(call, run, task, at, (size_t)(end - at));
            at = end;
        }
        if (at == text && got == (ssize_t)sizeof text) { /* a line that is longer than this comes in pieces */
            put(call, run, task, text, (size_t)got);
            at = end;
        }
        if (at == text)
            break; /* the rest of the line comes */
        task->at += at - text;
        has_lines = true;
    }
    return has_lines;
}
