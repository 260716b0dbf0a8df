/* resolve.h - the addresses of a host, with a time limit.
 *
 * getaddrinfo has no time limit, so a child process calls it. A child that does not answer by redis_due is killed. */
#ifndef REDIS_RESOLVE_H
#define REDIS_RESOLVE_H

#include <sys/socket.h>

#define RESOLVED_MAX 8

struct resolved {
    struct sockaddr_storage address;
    socklen_t len;
};

/* Returns how many addresses there are. 0: none; *ret_why is the reason, a constant text. */
size_t resolve_host(const char *host, const char *port, struct resolved list[RESOLVED_MAX], const char **ret_why);

#endif
