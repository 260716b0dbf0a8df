/* log.h - what went wrong beside an operation that itself succeeded: an event that could not be recorded, a
 * lock that was lost while its command ran. The operation's own failure is its error, not a log line.
 *
 * The program that prints decides where it goes, and in which language; a library prints nothing, so until
 * log_to is called everything is dropped. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

typedef void log_sink(const struct tsk_error *problem, void *data);

/* Once, at the start of a program. */
void log_to(log_sink *sink, void *data);
void log_problem(const struct tsk_error *problem);

#endif
