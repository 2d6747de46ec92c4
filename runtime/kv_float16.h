/* kv_float16.h - how the cache keeps a row: as float16, which is what callers pass. See
 * kv_float32.h. */
#ifndef SC_KV_H
#define SC_KV_H

#include "half.h"

typedef uint16_t kv;

#include "kv_plain.h"

static inline void kv_store(kv_value *restrict to, const float *restrict from, int64_t dim) {
    for (int64_t d = 0; d < dim; d++)
        to[d] = sc_to_f16(from[d]);
}

static inline void kv_load(float *restrict to, const kv *restrict from, int64_t dim) {
    for (int64_t d = 0; d < dim; d++)
        to[d] = sc_from_f16(from[d]);
}

#endif
