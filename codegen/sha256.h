/*
 * sha256.h - SHA-256 (FIPS 180-4) of files and of bytes at hand, as 64 lower-case hex digits.
 *
 * SC_EENV  libcrypto has no memory, or no SHA-256; the only failure.
 */
#ifndef SC_SHA256_H
#define SC_SHA256_H

#include <stddef.h>

#include "../runtime/error.h"

enum { SC_SHA256_HEX = 65 }; /* the digits and a NUL */

/* A digest in the making. */
typedef struct sc_sha256 sc_sha256;

/* End it with sc_sha256_finish or sc_sha256_drop. */
int sc_sha256_begin(sc_sha256 **digest, sc_error *err);
int sc_sha256_update(sc_sha256 *digest, const void *bytes, size_t size, sc_error *err);

/* Writes the digits and releases the digest, after a failure too. */
int sc_sha256_finish(sc_sha256 *digest, char hex[SC_SHA256_HEX], sc_error *err);

/* Releases a digest that nobody wants. NULL is fine. */
void sc_sha256_drop(sc_sha256 *digest);

/* All at once. */
int sc_sha256_hex(char hex[SC_SHA256_HEX], const void *bytes, size_t size, sc_error *err);

#endif
