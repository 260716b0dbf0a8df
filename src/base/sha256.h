/* sha256.h - SHA-256 (FIPS 180-4), for secrets of which only a hash may be stored. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>

#define SHA256_HEX_SIZE 65

/* Lower-case hex digits and a NUL. */
void sha256_hex(const void *data, size_t len, char ret[SHA256_HEX_SIZE]);

#endif
