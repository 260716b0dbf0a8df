/* url.h - the address of a Redis server, and the user to log in as.
 *
 *     redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]      rediss:// the same over TLS      unix://PATH
 *
 * More comes from the environment, which a task never sees: TASUKI_REDIS_PREFIX, _POOL, _USER, _PASSWORD_FILE, _CA, _CERT, _KEY, _KEY_FILE. A
 * password is never part of a message: redis_show leaves it out. */
#ifndef REDIS_URL_H
#define REDIS_URL_H

#include "base/error.h"

#define REDIS_NAME_MAX 128

struct redis_settings {
    bool is_tls;
    char host[256], port[8];
    char path[108]; /* of a socket on this machine; "": host and port */
    char user[REDIS_NAME_MAX], password[512];
    char db[8];
    char prefix[REDIS_NAME_MAX], pool[REDIS_NAME_MAX];
    const char *ca, *cert, *key; /* files; NULL: the system's, none */
    char sign_key[512];          /* sign.h */
    size_t sign_key_len;         /* 0: nothing is signed */
};

/* INVALID_INPUT: it is no such URL; a Sentinel's is refused in words. ENVIRONMENT: the file of the password or of the key cannot be
 * read, or others could read the key. */
int redis_settings_read(struct redis_settings *ret, const char *url, struct tsk_error *err);
/* The URL without user and password. */
#define REDIS_SHOWN_MAX 320
void redis_show(const struct redis_settings *settings, char text[REDIS_SHOWN_MAX]);

#endif
