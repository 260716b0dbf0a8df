#include "redis/url.h"
#include "base/fs.h"
#include "graph/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGN_KEY_MIN 16

static int url_refuse(const char *why, struct tsk_error *err)
{
    return error_set(err, TSK_INVALID_INPUT, why, NULL);
}

static int percent_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Copies a part of the URL with %XX decoded. false: it is too long, or not decodable. */
static bool url_decode(const char *from, size_t len, char *to, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)from[i];
        if (c == '%') {
            int high = i + 2 < len ? percent_digit(from[i + 1]) : -1, low = high < 0 ? -1 : percent_digit(from[i + 2]);
            if (low < 0)
                return false;
            c = high * 16 + low;
            i += 2;
        }
        if (at + 1 >= size || c == 0)
            return false;
        to[at++] = (char)c;
    }
    to[at] = '\0';
    return true;
}

static bool url_user(struct redis_settings *s, const char *text, size_t len)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon ? (size_t)(colon - text) : len;
    return url_decode(text, user_len, s->user, sizeof s->user) &&
           (!colon || url_decode(colon + 1, len - user_len - 1, s->password, sizeof s->password));
}

static bool url_place(struct redis_settings *s, const char *text, size_t len)
{
    const char *end = text + len, *colon = NULL;
    const char *host = text;
    size_t host_len = len;
    if (len && text[0] == '[') { /* an IPv6 address */
        const char *close = memchr(text, ']', len);
        if (!close)
            return false;
        host = text + 1;
        host_len = (size_t)(close - host);
        colon = close + 1 < end ? close + 1 : NULL;
    } else if ((colon = memchr(text, ':', len))) {
        host_len = (size_t)(colon - text);
    }
    if (colon && (*colon != ':' || !url_decode(colon + 1, (size_t)(end - colon - 1), s->port, sizeof s->port)))
        return false;
    if (strspn(s->port, "0123456789") != strlen(s->port) || !s->port[0])
        return false;
    return host_len && url_decode(host, host_len, s->host, sizeof s->host);
}

static bool url_read(struct redis_settings *s, const char *rest)
{
    size_t place_len = strcspn(rest, "/?");
    const char *at = memrchr(rest, '@', place_len), *tail = rest + place_len;
    if (at && !url_user(s, rest, (size_t)(at - rest)))
        return false;
    const char *place = at ? at + 1 : rest;
    if (!url_place(s, place, (size_t)(tail - place)))
        return false;
    if (*tail == '/')
        tail++;
    snprintf(s->db, sizeof s->db, "%.7s", *tail ? tail : "0");
    return strspn(s->db, "0123456789") == strlen(s->db) && strlen(tail) < sizeof s->db;
}

static int read_password(struct redis_settings *s, const char *path, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = 16 * sizeof s->password};
    if (fs_read_file(AT_FDCWD, path, sizeof s->password - 1, &text) < 0)
        return fs_error(err, "read", AT_FDCWD, path);
    snprintf(s->password, sizeof s->password, "%.*s", (int)strcspn(buf_str(&text), "\r\n"), buf_str(&text));
    return 0;
}

/* A key that others could read may have been read. */
static int read_key(struct redis_settings *s, const char *path, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = 32 * sizeof s->sign_key};
    struct stat st;
    if (fs->fstatat(AT_FDCWD, path, &st, 0) < 0 || fs_read_file(AT_FDCWD, path, sizeof s->sign_key - 1, &text) < 0)
        return fs_error(err, "read", AT_FDCWD, path);
    if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 077)) {
        error_set(err, TSK_ENVIRONMENT, "redis_key_open", "path", path, NULL);
        return error_add_next(err, "chmod 600 %s", path);
    }
    s->sign_key_len = text.len;
    while (s->sign_key_len && strchr("\r\n", text.data[s->sign_key_len - 1]))
        s->sign_key_len--;
    if (s->sign_key_len < SIGN_KEY_MIN)
        return error_set(err, TSK_ENVIRONMENT, "redis_key_short", "path", path, NULL);
    memcpy(s->sign_key, text.data, s->sign_key_len);
    return 0;
}

static void put_variable(char *to, size_t size, const char *name, const char *fallback)
{
    const char *value = getenv(name);
    if (value && *value)
        snprintf(to, size, "%s", value);
    else if (fallback)
        snprintf(to, size, "%s", fallback);
}

int redis_settings_read(struct redis_settings *ret, const char *url, struct tsk_error *err)
{
    const char *file = getenv("TASUKI_REDIS_PASSWORD_FILE"), *key_file = getenv("TASUKI_REDIS_KEY_FILE");
    *ret = (struct redis_settings){.port = REDIS_PORT, .db = "0"};
    if (strstr(url, "sentinel") == url || strstr(url, "redis+sentinel:") == url)
        return url_refuse("redis_sentinel", err);
    if (strncmp(url, "unix://", 7) == 0) {
        if (!url_decode(url + 7, strlen(url + 7), ret->path, sizeof ret->path) || !ret->path[0])
            return url_refuse("redis_url_bad", err);
    } else {
        ret->is_tls = strncmp(url, "rediss://", 9) == 0;
        size_t skip = ret->is_tls ? 9 : 8;
        if ((!ret->is_tls && strncmp(url, "redis://", 8) != 0) || !url_read(ret, url + skip))
            return url_refuse("redis_url_bad", err);
    }
    put_variable(ret->prefix, sizeof ret->prefix, "TASUKI_REDIS_PREFIX", "tasuki");
    put_variable(ret->pool, sizeof ret->pool, "TASUKI_REDIS_POOL", "default");
    put_variable(ret->user, sizeof ret->user, "TASUKI_REDIS_USER", NULL);
    ret->ca = getenv("TASUKI_REDIS_CA");
    ret->cert = getenv("TASUKI_REDIS_CERT");
    ret->key = getenv("TASUKI_REDIS_KEY");
    if (file && *file && read_password(ret, file, err) < 0)
        return -1;
    return key_file && *key_file ? read_key(ret, key_file, err) : 0;
}

void redis_show(const struct redis_settings *settings, char text[REDIS_SHOWN_MAX])
{
    if (settings->path[0])
        snprintf(text, REDIS_SHOWN_MAX, "unix://%s", settings->path);
    else
        snprintf(text, REDIS_SHOWN_MAX, "redis%s://%s:%s/%s", settings->is_tls ? "s" : "", settings->host,
                 settings->port, settings->db);
}
