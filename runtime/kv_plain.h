/* kv_plain.h - the part of kv_float32.h, kv_bfloat16.h and kv_float16.h: a row is kept as callers
 * pass it, kv (defined before) by kv. */
#ifndef SC_KV_PLAIN_H
#define SC_KV_PLAIN_H

#include <stdint.h>
#include <string.h>

typedef kv kv_value;

static inline int64_t kv_units(int64_t dim) { return dim; }

static inline void kv_put(kv *restrict to, const kv_value *restrict from, int64_t dim) {
    memcpy(to, from, (size_t)dim * sizeof *to);
}

static inline void kv_get(kv_value *restrict to, const kv *restrict from, int64_t dim) {
    memcpy(to, from, (size_t)dim * sizeof *to);
}

#endif
