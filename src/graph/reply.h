/* reply.h - answers on their way to a run.
 *
 * An answer is the file `reply.<question>` in the run's directory; <question> is the id of the question, `<node>.<n>`: the n-th
 * answer that this node gets. The process that executes the run, or that resumes it, copies the answer into the journal.
 *
 *  A1  The file appears complete, and only if there is none: of two answers to one question exactly one is accepted. It is
 *      never removed while the run exists, so that a later answer is always refused.
 *  A2  An answer is recorded as soon as its file exists. A runner checks for files before it ends a run that asks; a process
 *      that takes the run's byte later finds them in runner_replay. */
#ifndef GRAPH_REPLY_H
#define GRAPH_REPLY_H

#include "graph/rundir.h"

#define REPLY_ID_MAX 32

/* The id of the question that a node asks after it got `answers` answers. */
void reply_id(uint32_t node, int64_t answers, char id[REPLY_ID_MAX]);
/* Records the answer to a question (an object with `id`, `task`, `session_id`). ALREADY_ANSWERED. */
int reply_put(const struct rundir *run, const json_t *question, const json_t *answer, struct tsk_error *err);
/* The answer to a question; owned, NULL: there is none. */
json_t *reply_get(const struct rundir *run, const json_t *question);
/* Removes the questions with an answer from an array; returns how many. */
size_t reply_filter(const struct rundir *run, json_t *questions);
/* The open questions of a journal as the stage has them, {id task session_id question}: those without an answer; owned array. */
json_t *reply_questions(const struct rundir *run, const json_t *records);
/* Whether one of its questions has an answer that is not in the journal yet. */
bool reply_is_there(const struct rundir *run, const json_t *records);
/* Whether the answer to the question is in the journal. */
bool reply_is_taken(const json_t *records, const json_t *question);
/* The refusal of an answer that no question is open for: it was answered, or nothing was ever asked. `task` NULL: any. */
int reply_refuse(const char *run, const json_t *records, const char *task, struct tsk_error *err);
/* Whether the question is the one of `task`: a name, or BRANCH/NAME for copies that ask in several branches. The branch is its
 * session's id, with or without the run's before it. */
bool reply_is_for(const char *run_id, const json_t *question, const char *task);

#endif
