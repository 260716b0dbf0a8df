/* sign.h - specifications that are signed: a program that can write to the server cannot make workers execute something else.
 *
 *  K1  With a key file a runner signs each specification (HMAC-SHA256) together with the ids of its run and its attempt: the
 *      signature counts for that attempt only. The specification has the hash of the run's files.
 *  K2  A worker with a key file executes nothing that is not signed with the same key. A refused attempt becomes a dead letter:
 *      a line in a list of the pool, which is bounded and expires. The attempt ends, and its task fails with the reason.
 *
 * Specification and signature travel in one parcel; the signature is in hex ("": none). */
#ifndef REDIS_SIGN_H
#define REDIS_SIGN_H

#include "base/parcel.h"
#include "redis/url.h"

#define SIGN_HEX_SIZE 65

void sign_put(struct buf *out, const struct redis_settings *settings, const char *root, const char *id,
              const struct piece *spec);
/* The specification that may be executed; NULL, or the reason for a refusal (wire.h). */
const char *sign_check(const struct redis_settings *settings, const char *root, const char *id, struct parcel item,
                       struct parcel *ret_spec);
/* By which people see whether two have the same key; "": no key. */
void sign_name(const struct redis_settings *settings, char ret[16]);

#endif
