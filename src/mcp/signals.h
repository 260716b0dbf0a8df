/* signals.h - being told to end. A signal to the program (SIGTERM, SIGINT) says that it should: it is counted, and wakes whoever
 * waits for the eventfd. One to a single thread (pthread_kill) only ends the system call in which its operation waits (M5).
 *
 * Handlers are the program's: there is one such wish, whoever serves. */
#ifndef MCP_SIGNALS_H
#define MCP_SIGNALS_H

#include <stdbool.h>

/* SIGHUP is such a wish, too, if `hangup_ends`; else it is ignored, as SIGPIPE is. */
void signals_take(int wake_fd, bool hangup_ends);
/* How often it was said. */
int signals_seen(void);

#endif
