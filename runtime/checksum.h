/*
 * checksum.h - XXH64 with seed 0: does a large file still hold what was written?
 *
 * It finds accidents, not attacks. The same bytes give the same sum however they are cut.
 * Source   the xxHash specification, "XXH64 algorithm description".
 */
#ifndef SC_CHECKSUM_H
#define SC_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t lane[4];
    uint64_t bytes; /* added so far */
    unsigned char rest[32];
    size_t rest_bytes; /* waiting in rest for a full stripe: 0..31 */
} sc_checksum;

void sc_checksum_begin(sc_checksum *sum);

/* data may be NULL when bytes is 0. */
void sc_checksum_add(sc_checksum *sum, const void *data, size_t bytes);

/* The sum of all bytes added so far; more may be added after. */
uint64_t sc_checksum_end(const sc_checksum *sum);

/* All in one call. */
uint64_t sc_checksum_of(const void *data, size_t bytes);

#endif
