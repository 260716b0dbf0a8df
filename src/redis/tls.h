/* tls.h - rediss://: TLS over a socket that does not block, by OpenSSL. The server's certificate must fit the name in the URL. */
#ifndef REDIS_TLS_H
#define REDIS_TLS_H

#include "redis/url.h"

#include <sys/types.h>

struct ssl_st;
struct ssl_ctx_st;

int tls_open(int fd, const struct redis_settings *settings, struct ssl_st **ret, struct ssl_ctx_st **ret_context,
             struct tsk_error *err);
void tls_close(struct ssl_st **tls, struct ssl_ctx_st **context);
/* As read(2) and write(2); with EAGAIN, *ret_events says what to wait for. */
ssize_t tls_read(struct ssl_st *tls, void *data, size_t size, short *ret_events);
ssize_t tls_write(struct ssl_st *tls, const void *data, size_t len, short *ret_events);

#endif
