/* journals.c - whether what resume goes by can be read to its end, and what readers go by at all. */
#include "doctor/runs.h"
#include "graph/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL_CHUNK (256u << 10)

/* How far a journal can be read. */
struct journal_look {
    size_t records;
    uint64_t end;      /* behind the last good record */
    bool is_damaged;   /* a whole line there is no record */
    uint64_t torn_len; /* bytes behind the last newline */
    char status[24];   /* of its last "done"; "" if something came after it */
};

static bool journal_take_line(struct journal_look *look, const char *line, size_t len)
{
    json_t *record CLEANUP_JSON = json_loadb(line, len, 0, NULL);
    if (!json_is_string(json_object_get(record, "e"))) {
        look->is_damaged = true;
        return false;
    }
    bool is_done = json_text_is(record, "e", "done");
    snprintf(look->status, sizeof look->status, "%s", is_done ? json_get_string(record, "status", "") : "");
    look->records++;
    look->end += len + 1;
    return true;
}

/* Reads as journal_read does: up to the first line that is no record. */
static int journal_read_lines(int fd, struct journal_look *look)
{
    struct buf rest CLEANUP(buf_clear) = {.max = JOURNAL_LINE_MAX + JOURNAL_CHUNK};
    off_t at = 0;
    for (;;) {
        char *room = buf_reserve(&rest, JOURNAL_CHUNK);
        ssize_t n = room ? fs->pread(fd, room, JOURNAL_CHUNK, at) : 0;
        if (n < 0)
            return -1;
        if (!room)
            look->is_damaged = true; /* longer than any record */
        if (n == 0)
            break;
        rest.len += (size_t)n;
        at += n;
        size_t taken = 0;
        for (char *newline; (newline = memchr(rest.data + taken, '\n', rest.len - taken));) {
            size_t len = (size_t)(newline - rest.data) - taken;
            if (!journal_take_line(look, rest.data + taken, len))
                return 0;
            taken += len + 1;
        }
        memmove(rest.data, rest.data + taken, rest.len - taken);
        rest.len -= taken;
    }
    look->torn_len = look->is_damaged ? 0 : rest.len;
    return 0;
}

static void tell_journal(struct finding *f, const struct run_look *run, const struct journal_look *look)
{
    const char *place = DIGITS(look->end);
    if (look->is_damaged) {
        finding_add(f, DOCTOR_FAIL, "doctor_journal_damaged", "run", run->run.id, "place", place, "count",
                    DIGITS(look->records), NULL);
        run_suggest_aside(f, run);
    } else if (look->torn_len && !run->has_runner) {
        finding_add(f, DOCTOR_PASS, "doctor_journal_torn", "run", run->run.id, "place", place, NULL);
    }
}

static void look_at_journal(struct finding *f, const struct run_look *run, struct journal_look *look)
{
    char path[PATH_MAX];
    int fd CLEANUP_FD = fs->openat(run->run.dir, "journal", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    struct stat st;
    if (fd >= 0 && fs->fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EINVAL;
    else if (fd >= 0 && journal_read_lines(fd, look) == 0) {
        tell_journal(f, run, look);
        return;
    }
    int reason = errno;
    snprintf(path, sizeof path, "runs/%s/journal", run->run.id);
    finding_add(f, DOCTOR_FAIL, "doctor_access", "path", path, "reason", strerrordesc_np(reason), NULL);
    if (reason == EINVAL || reason == ELOOP)
        run_suggest_aside(f, run);
}

/* stage.json is made from the journal. Not by resume, which would start cancelled and failed work again. */
static void look_at_stage(struct finding *f, struct run_look *run, const struct journal_look *journal)
{
    struct tsk_error err;
    if (!run->has_stage || (rundir_read_stage(&run->run, &run->stage, &err) == 0 && json_is_object(run->stage)))
        return;
    if (finding_fixes(f) && rundir_rebuild_stage(&run->run, &err) == 0) {
        finding_fixed(f, "doctor_stage_fixed", "run", run->run.id, NULL);
        return;
    }
    finding_add(f, DOCTOR_WARN, "doctor_stage_broken", "run", run->run.id, "status",
                journal->status[0] ? journal->status : "?", NULL);
    if (journal->records > 0)
        finding_fix_ours(f, "doctor --fix");
    else
        run_suggest_aside(f, run); /* there is nothing to make it from */
}

static void journal_look_at(struct finding *f, const char *id, size_t *counts)
{
    struct run_look run CLEANUP(run_look_clear);
    struct journal_look journal = {.records = 0};
    if (run_look_open(f, id, &run) < 0)
        return; /* reported by the check of the runs */
    if (run.has_journal)
        look_at_journal(f, &run, &journal);
    if (!run.has_runner)
        look_at_stage(f, &run, &journal);
    counts[0] += run.has_journal;
}

void check_journals(struct finding *f)
{
    size_t counts[1] = {0};
    runs_each(f, journal_look_at, counts);
    finding_summary(f, "doctor_journals_good", "count", DIGITS(counts[0]), NULL);
    f->is_absent = counts[0] == 0 && f->status == DOCTOR_PASS;
}
