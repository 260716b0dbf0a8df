/* journal.h - what happened in a run: one JSON object per line, only ever appended. `resume` replays it.
 *
 *  N1  A record is one line. Lines are gathered and written with one write(2) by journal_flush (earlier, if they are many),
 *      before anything that follows from them is started. So if the end of a task is not in the journal, no successor of it has
 *      run.
 *  N2  A journal that was cut at any byte is read up to the last whole line. An append first cuts off the rest.
 *  N3  Nothing is synced unless the flow has `journal: sync`. Then each flush is followed by one sync.
 *
 * Records: {"e":"run",…} begins it; "start" and "end" of a task's attempt; "group" the end of a group; "ask" and "answer";
 * "resume"; "done" the run's status, and v its values. Keys: t time (ms), n node, k name, s session, a attempt, p place, o outcome, x exit status,
 * ms duration, w writes, r requests. */
#ifndef GRAPH_JOURNAL_H
#define GRAPH_JOURNAL_H

#include "base/clock.h"
#include "base/json.h"

/* A task that writes what would be a longer line, or a longer journal than can be read again, fails (task_output). */
#define JOURNAL_MAX        (1u << 30)
#define JOURNAL_LINE_MAX   (32u << 20)
#define JOURNAL_VALUES_MAX (64u << 10) /* of the values in the record of the run's end */

struct journal {
    int fd;
    bool is_synced;
    bool is_dirty; /* written, and not yet synced */
    int failure;   /* errno of the write that failed; 0: none */
    struct buf pending;
};

/* Opens the journal for appending; creates it if it is missing. */
int journal_open(struct journal *journal, int run_dir, bool is_synced, struct tsk_error *err);
void journal_close(struct journal *journal);
/* Begins a record: `{"t":…,"e":event`; the caller adds pairs (buf_json_pair) to the buffer that is returned. */
struct buf *journal_begin(struct journal *journal, const char *event);
void journal_end(struct journal *journal);
int journal_flush(struct journal *journal, struct tsk_error *err);

/* All whole records, in order; owned array. */
int journal_read(int run_dir, json_t **ret, struct tsk_error *err);
/* Those behind the first `from` bytes, which are whole lines; none if they are not. */
int journal_read_behind(int run_dir, int64_t from, json_t **ret, struct tsk_error *err);
/* The same for a caller that will append: cuts the journal at the first damaged line and keeps a copy of the whole file
 * as `journal.damaged`. Without the cut, readers would stop at the damaged line and never see later records. */
int journal_read_whole(int run_dir, json_t **ret, struct tsk_error *err);

#endif
