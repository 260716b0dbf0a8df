/* probe_try.h - one attempt of a probe, a function per kind. Internal to probe.c.
 *
 * An attempt returns 1 (yes) or 0 (no), and says in `detail` what it found. It ends at its deadline (boot clock) or when the
 * process has ended, whatever the other side does. */
#ifndef PROC_PROBE_TRY_H
#define PROC_PROBE_TRY_H

#include "proc/probe.h"

#include <poll.h>
#include <regex.h>

struct probe_try {
    struct proc_probe probe;
    const struct proc *p;
    const char *cwd;
    int child_fd; /* pidfd of the process, -1 if it does not run */
    char detail[PROBE_DETAIL_MAX];
    /* PROBE_LOG: the part that was searched already, per stream */
    int64_t cursor[2];
    regex_t pattern;
    bool has_pattern;
    /* PROBE_NOTIFY: set by the reader of the socket */
    bool was_notified;
};

int try_log(struct probe_try *t, int64_t deadline_ms);
int try_port(struct probe_try *t, int64_t deadline_ms);
int try_http(struct probe_try *t, int64_t deadline_ms);
int try_command(struct probe_try *t, int64_t deadline_ms);
int try_notify(struct probe_try *t, int64_t deadline_ms);

/* Replaces the detail. Control characters and broken UTF-8 become harmless, what is too long is cut. */
void try_say(struct probe_try *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 1 something happened on fd, 0 the deadline (-1: none) has passed, -1 the process has ended. */
int try_wait(const struct probe_try *t, struct pollfd *fd, int64_t deadline_ms);
bool try_has_ended(const struct probe_try *t);

/* From offset[0] of stdout and offset[1] of stderr on. A pattern that does not compile: INVALID_INPUT. */
int try_log_init(struct probe_try *t, const int64_t offset[2], struct tsk_error *err);
void try_log_clear(struct probe_try *t);
/* Readable when the process has written something; -1 where no inotify instance is available. Owned. */
int try_log_watch(const struct proc *p);

/* The URL of PROBE_HTTP: `http://HOST[:PORT][/PATH]`, HOST being an address, localhost, or a name of /etc/hosts. -1: it is
 * not one. */
struct http_url {
    char host[256]; /* without brackets */
    char host_header[300];
    int port;
    const char *path; /* borrowed from the URL; may be empty; its fragment is not part of it */
    size_t path_len;
};
int http_url_parse(const char *url, struct http_url *ret);
/* The final status of an answer: 1 known, 0 more is needed, -1 this is not HTTP. */
int http_status(const char *data, size_t len, int *ret_status);

/* What an sd_notify datagram says. */
struct notify_words {
    bool ready, stopping, reloading, watchdog;
    bool has_status;
    char status[PROBE_DETAIL_MAX];
};
/* One datagram. Lines that mean nothing here are ignored. */
void notify_parse(const char *data, size_t len, struct notify_words *ret);
/* Asks the kernel for the senders' names and the times of what is sent from now on. -1: it is no such socket. */
int notify_init(int fd);
/* The next message that waits: 1, or 0 when there is none. Only this user's and root's count. The holder keeps the socket over
 * restarts: what a process that is gone had sent before `started_ms` (wall) was not about this start. */
int notify_receive(int fd, int64_t started_ms, struct notify_words *ret);

#endif
