#include "redis/tls.h"
#include "base/clock.h"
#include "redis/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#define TLS_OPEN_MS 3000

static int tls_refuse(const struct redis_settings *settings, SSL *tls, struct tsk_error *err)
{
    char shown[REDIS_SHOWN_MAX], reason[256];
    unsigned long code = ERR_get_error();
    long verdict = tls ? SSL_get_verify_result(tls) : X509_V_OK;
    redis_show(settings, shown);
    ERR_error_string_n(code, reason, sizeof reason);
    ERR_clear_error();
    return error_set(err, TSK_REDIS_UNAVAILABLE, "redis_unreachable", "server", shown, "reason",
                     verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                     : code               ? reason
                                          : "TLS",
                     NULL);
}

static bool context_load(SSL_CTX *context, const struct redis_settings *settings)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        return false;
    if ((settings->ca ? SSL_CTX_load_verify_locations(context, settings->ca, NULL)
                      : SSL_CTX_set_default_verify_paths(context)) != 1)
        return false;
    return !settings->cert || (SSL_CTX_use_certificate_chain_file(context, settings->cert) == 1 &&
                               SSL_CTX_use_PrivateKey_file(context, settings->key ? settings->key : settings->cert,
                                                           SSL_FILETYPE_PEM) == 1);
}

static bool name_is_set(SSL *tls, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    bool is_number = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    if (is_number)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
    return SSL_set_tlsext_host_name(tls, host) == 1 && SSL_set1_host(tls, host) == 1;
}

/* 0 again, 1 done, -1 not possible. */
static int tls_turn(SSL *tls, int result, short *ret_events)
{
    int problem = SSL_get_error(tls, result);
    *ret_events = problem == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    return result > 0 ? 1 : problem == SSL_ERROR_WANT_READ || problem == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static bool tls_greet(SSL *tls, int fd)
{
    int64_t until = clock_now().boot_ms + TLS_OPEN_MS;
    for (;;) {
        short events;
        int turn = tls_turn(tls, SSL_connect(tls), &events);
        if (turn != 0 || !redis_wait(fd, events, until))
            return turn > 0;
    }
}

int tls_open(int fd, const struct redis_settings *settings, SSL **ret, SSL_CTX **ret_context, struct tsk_error *err)
{
    *ret_context = SSL_CTX_new(TLS_client_method());
    if (!*ret_context || !context_load(*ret_context, settings))
        return tls_refuse(settings, NULL, err);
    *ret = SSL_new(*ret_context);
    if (!*ret || SSL_set_fd(*ret, fd) != 1 || !name_is_set(*ret, settings->host) || !tls_greet(*ret, fd))
        return tls_refuse(settings, *ret, err);
    return 0;
}

void tls_close(SSL **tls, SSL_CTX **context)
{
    SSL_free(*tls);
    SSL_CTX_free(*context);
    *tls = NULL;
    *context = NULL;
}

static ssize_t tls_moved(SSL *tls, int result, short *ret_events)
{
    int turn = tls_turn(tls, result, ret_events);
    if (turn > 0)
        return result;
    if (SSL_get_error(tls, result) == SSL_ERROR_ZERO_RETURN)
        return 0;
    ERR_clear_error();
    errno = turn == 0 ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t tls_read(SSL *tls, void *data, size_t size, short *ret_events)
{
    return tls_moved(tls, SSL_read(tls, data, size > INT_MAX ? INT_MAX : (int)size), ret_events);
}

ssize_t tls_write(SSL *tls, const void *data, size_t len, short *ret_events)
{
    return tls_moved(tls, SSL_write(tls, data, len > INT_MAX ? INT_MAX : (int)len), ret_events);
}
