/* run_stream.c - a run while it is executed: its stage, then each record of its journal in the words of `runs tasks`.
 *
 *  J1  A record's id is the place behind its line in the journal, so a reader that comes back misses nothing and sees nothing twice.
 *      The stage comes first in each stream, whatever the reader has seen: it may be newer than the records that follow.
 *  J2  The journal is watched from before it is read. Whether the run has a runner is asked before the read: what was written before
 *      its end is delivered.
 *  J3  Only whole lines are delivered. Of a long value (a channel's, an agent's) nothing is: it is in the run's other answers. */
#include "base/fs.h"
#include "graph/journal.h"
#include "ops/run_args.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define JOURNAL_FILE   "journal"
#define JOURNAL_PIECE  (64 << 10)
#define JOURNAL_WAY_MS 250 /* between two looks where nothing announces a change */

struct run_stream {
    struct op_call *call;
    const struct rundir *run;
    int fd, watch;
    int64_t at;       /* the next record */
    struct buf ahead; /* bytes from there on, not a whole line yet */
};

/* journal key -> the word of `runs tasks` */
static const char *const words[][2] = {
    {"n", "node"},      {"k", "task"}, {"s", "session_id"},         {"a", "attempt"},  {"o", "outcome"},
    {"x", "exit_code"}, {"ms", "ms"},  {"pause", "next_try_in_ms"}, {"q", "question"}, {"status", "status"},
};

json_t *run_record_json(const json_t *record)
{
    json_t *json =
        json_pack("{s:I, s:s}", "t", (json_int_t)json_get_int(record, "t", 0), "e", json_get_string(record, "e", "?"));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (json_object_get(record, words[i][0]))
            json_object_set(json, words[i][1], json_object_get(record, words[i][0]));
    return json;
}

static bool emit_record(struct run_stream *s, const char *line, size_t len, int64_t behind)
{
    json_t *record CLEANUP_JSON = json_loadb(line, len, 0, NULL);
    if (!json_is_object(record))
        return true;
    json_t *document CLEANUP_JSON = run_record_json(record);
    json_object_set_new(document, "cursor", json_sprintf("%lld", (long long)behind));
    return s->call->emit(s->call, document);
}

/* Gives out the whole lines that are ahead; false: nobody takes them. */
static bool give_lines(struct run_stream *s)
{
    size_t from = 0;
    bool goes_on = true;
    for (const char *end;
         goes_on && s->ahead.len > from && (end = memchr(s->ahead.data + from, '\n', s->ahead.len - from));) {
        size_t len = (size_t)(end - s->ahead.data) - from;
        s->at += (int64_t)len + 1;
        goes_on = emit_record(s, s->ahead.data + from, len, s->at);
        from += len + 1;
    }
    if (from)
        memmove(s->ahead.data, s->ahead.data + from, s->ahead.len - from);
    s->ahead.len -= from;
    return goes_on;
}

/* 1, 0: nobody takes more, -1. */
static int give_new(struct run_stream *s, struct tsk_error *err)
{
    for (;;) {
        char *room = buf_reserve(&s->ahead, JOURNAL_PIECE);
        if (!room)
            return rundir_damaged(s->run, JOURNAL_FILE, err);
        ssize_t got = fs->pread(s->fd, room, JOURNAL_PIECE, s->at + (int64_t)s->ahead.len);
        if (got < 0)
            return fs_error(err, "read", s->run->dir, JOURNAL_FILE);
        if (got == 0)
            return 1;
        s->ahead.len += (size_t)got;
        if (!give_lines(s))
            return 0;
    }
}

static bool emit_stage(struct run_stream *s, const json_t *stage)
{
    json_t *document CLEANUP_JSON = json_copy((json_t *)stage);
    json_object_set_new(document, "event", json_string("run"));
    return s->call->emit(s->call, document);
}

static void watch_journal(struct run_stream *s)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d/" JOURNAL_FILE, s->run->dir);
    s->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (s->watch >= 0 && inotify_add_watch(s->watch, path, IN_MODIFY) < 0)
        fs_close(&s->watch);
}

static void wait_for_record(const struct run_stream *s)
{
    char notes[4096];
    struct pollfd ready = {.fd = s->watch, .events = POLLIN};
    poll(&ready, 1, s->watch < 0 ? JOURNAL_WAY_MS : CANCEL_LOOK_MS);
    while (ready.revents && read(s->watch, notes, sizeof notes) > 0)
        ;
}

static int follow_records(struct run_stream *s, struct tsk_error *err)
{
    for (;;) {
        bool has_runner = rundir_has_runner(s->run); /* J2 */
        int more = give_new(s, err);
        if (more <= 0 || !has_runner)
            return more < 0 ? -1 : 0;
        if (s->call->is_cancelled && s->call->is_cancelled(s->call))
            return 0;
        wait_for_record(s);
    }
}

int run_stream(struct op_call *call, const struct rundir *run, const json_t *stage, struct tsk_error *err)
{
    const char *cursor = json_get_string(call->args, "cursor", NULL);
    struct run_stream s = {.call = call, .run = run, .watch = -1, .ahead = {.max = JOURNAL_LINE_MAX + JOURNAL_PIECE}};
    s.at = cursor ? strtoll(cursor, NULL, 10) : 0;
    s.fd = fs->openat(run->dir, JOURNAL_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (s.fd < 0)
        return fs_error(err, "read", run->dir, JOURNAL_FILE);
    watch_journal(&s);
    int result = emit_stage(&s, stage) ? follow_records(&s, err) : 0;
    fs_close(&s.watch);
    fs_close(&s.fd);
    buf_clear(&s.ahead);
    return result;
}
