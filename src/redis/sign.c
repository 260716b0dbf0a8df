#include "redis/sign.h"
#include "graph/wire.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

static void hex_of(const unsigned char *digest, size_t len, char *ret)
{
    for (size_t i = 0; i < len; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

static void sign_parcel(const struct redis_settings *settings, const struct buf *text, char ret[SIGN_HEX_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    BUG(!HMAC(EVP_sha256(), settings->sign_key, (int)settings->sign_key_len, (const unsigned char *)text->data,
              text->len, digest, &len));
    hex_of(digest, len < 32 ? len : 32, ret);
}

static void sign_spec(const struct redis_settings *settings, const char *root, const char *id, const struct piece *spec,
                      char ret[SIGN_HEX_SIZE])
{
    struct buf text CLEANUP(buf_clear) = {.max = FRAME_MAX};
    ret[0] = '\0';
    if (!settings->sign_key_len)
        return;
    parcel_puts(&text, "tasuki attempt");
    parcel_puts(&text, root);
    parcel_puts(&text, id);
    parcel_put(&text, spec->data, spec->len);
    BUG(text.failed);
    sign_parcel(settings, &text, ret);
}

void sign_put(struct buf *out, const struct redis_settings *settings, const char *root, const char *id,
              const struct piece *spec)
{
    char signature[SIGN_HEX_SIZE];
    sign_spec(settings, root, id, spec, signature);
    parcel_put(out, spec->data, spec->len);
    parcel_puts(out, signature);
}

const char *sign_check(const struct redis_settings *settings, const char *root, const char *id, struct parcel item,
                       struct parcel *ret_spec)
{
    struct piece spec, given;
    char signature[SIGN_HEX_SIZE];
    if (!parcel_next(&item, &spec) || !parcel_next(&item, &given) || item.len)
        return settings->sign_key_len ? WIRE_UNSIGNED : WIRE_UNREADABLE;
    *ret_spec = (struct parcel){spec.data, spec.len};
    if (!settings->sign_key_len)
        return NULL;
    sign_spec(settings, root, id, &spec, signature);
    if (given.len == 0)
        return WIRE_UNSIGNED;
    return given.len == strlen(signature) && CRYPTO_memcmp(given.data, signature, given.len) == 0 ? NULL
                                                                                                  : WIRE_SIGNATURE;
}

void sign_name(const struct redis_settings *settings, char ret[16])
{
    char signature[SIGN_HEX_SIZE];
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    ret[0] = '\0';
    if (!settings->sign_key_len)
        return;
    parcel_puts(&text, "tasuki key");
    sign_parcel(settings, &text, signature);
    snprintf(ret, 16, "%.12s", signature);
}
