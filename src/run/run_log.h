/* run_log.h - the output of the tasks of a run. */
#ifndef RUN_RUN_LOG_H
#define RUN_RUN_LOG_H

#include "base/json.h"
#include "base/text.h"
#include "store/workspace.h"

#define RUN_LOG_MAX   (16 << 20) /* bytes of a log in one answer */
#define RUN_LOG_PIECE (64 << 10) /* bytes that are read at once */
/* The last `lines` lines of a log below `dir`, which begin at *ret_offset. 1; 0: there is no log; -1. */
int run_log_tail(int dir, const char *path, int64_t lines, struct buf *text, off_t *ret_offset, struct tsk_error *err);
/* Bytes of a log as a JSON text. Owned. */
json_t *run_log_text(const char *data, size_t len);
/* The reasons of a stage in the reader's language: a runner keeps them in its own, and what they were made from. */
void run_read_reasons(json_t *stage, enum lang lang);
/* `lines` of each of a stage's failures: what the task printed last. */
void run_log_add_failures(struct tsk_workspace *ws, json_t *stage, bool is_brief);

#endif
