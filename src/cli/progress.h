/* progress.h - the progress of a run, for a person or a pipe: which tasks run, what they print, how they end.
 *
 *  G1  The output of tasks is shown between a begin and an end, so that GitHub takes nothing in it for a workflow command.
 *  G2  Everything else is printed after cli_end_progress, so that the block of running tasks is always the last on the
 *      screen. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/cli.h"
#include "graph/rundir.h"

struct shown_task {
    char *task, *session;
    int64_t attempt, since_ms;
    int64_t at; /* of its log: the first byte that was not shown yet */
};

struct shown_run {
    char id[RUN_ID_MAX];
    struct shown_task *tasks; /* those that run, the first started first */
    size_t count, max;
    int64_t began_ms, done, total;
    bool has_lines_above; /* what tasks print is shown above: the block does not repeat it */
    bool is_of_one;       /* the flow has one task: its name need not be said */
};

/* ---- progress_block.c: the block on a terminal, on stderr. What it shows lives as long as the program, as the terminal does ---- */

/* Draws it again in its place, never higher than the terminal. */
void block_draw(const struct op_call *call, const struct cli_options *options, const struct shown_run *run);
void block_clear(void);

/* ---- progress_output.c: what a task has printed ---- */

/* The log of the attempt, below the workspace's state. */
void shown_log_path(const struct shown_run *run, const struct shown_task *task, char path[RUN_LOG_NAME + 80]);
/* The last line that is not empty; nothing if there is none. */
void shown_last_line(const struct op_call *call, const struct shown_run *run, const struct shown_task *task,
                     struct buf *line);
/* Gives each line from task->at on to `put`, also one without an end if the attempt is over. Returns whether there were some. */
bool shown_lines(const struct op_call *call, const struct shown_run *run, struct shown_task *task, bool is_over,
                 void (*put)(const struct op_call *call, const struct shown_run *run, const struct shown_task *task,
                             const char *line, size_t len));

#endif
