/* signals.h - ending by a signal. A signal to the program (SIGTERM, SIGINT) asks it to end: it is counted, and wakes the thread
 * that waits for the eventfd. One to a single thread (pthread_kill) only ends the system call in which its operation waits (M5).
 *
 * Handlers belong to the program: there is one such request for all servers in it. */
#ifndef MCP_SIGNALS_H
#define MCP_SIGNALS_H

#include <stdbool.h>

/* SIGHUP is such a wish, too, if `hangup_ends`; else it is ignored, as SIGPIPE is. */
void signals_take(int wake_fd, bool hangup_ends);
/* How often it was said. */
int signals_seen(void);

#endif
