/* log.h - problems beside an operation that itself succeeded: an event that could not be recorded, a lock that was
 * lost while its command ran. The operation's own failure is its error, not a log line.
 *
 * The program decides where log lines go, and in which language. The library prints nothing: until log_to is called, log
 * lines are dropped. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

typedef void log_sink(const struct tsk_error *problem, void *data);

/* Called once, at the start of a program. */
void log_to(log_sink *sink, void *data);
void log_problem(const struct tsk_error *problem);

#endif
