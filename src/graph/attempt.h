/* attempt.h - the decisions about one attempt of a task: how its exit is judged, whether it is tried again, and after which pause.
 * Pure: no clock, no process, no file. The runner and the thread pool decide by the same functions. */
#ifndef GRAPH_ATTEMPT_H
#define GRAPH_ATTEMPT_H

#include "graph/model.h"

/* Why an attempt had to stop. */
enum stop { STOP_NONE, STOP_TIMEOUT, STOP_GROUP, STOP_RUN };

enum attempt_end { ATTEMPT_OK, ATTEMPT_FAILED, ATTEMPT_STOPPED, ATTEMPT_ASKS };

/* The verdict of an exit. `is_output_good`: what it wrote can be read and applied. An attempt that was stopped did not succeed,
 * whatever its exit code says; a question counts with any exit code. */
enum attempt_end attempt_verdict(enum stop stop, int exit_code, bool is_output_good, bool has_question);

/* Whether an attempt that failed is followed by another one: `retries` allows 1 + retries of them. */
bool attempt_is_last(enum stop stop, bool is_cancelled, unsigned attempt, int32_t retries);

/* The pause behind an attempt that failed, in ms: initial × factor^(attempt - 1), spread by ± jitter, between 0 and max. `detail`
 * NULL: the default. The jitter depends on the session, the task and the attempt only, so that tasks that fail together do not try
 * again together, and a test can tell it in advance. */
int64_t attempt_pause(const struct task_detail *detail, const char *session, const char *task, unsigned attempt);

#endif
