/* kv_coded.h - the part of kv_q8_0.h and kv_fp8_e4m3.h: callers pass floats, kv_put
 * encodes them, kv_load decodes (both defined before). */
#ifndef SC_KV_CODED_H
#define SC_KV_CODED_H

#include <stdint.h>
#include <string.h>

static inline void kv_get(kv_value *restrict to, const kv *restrict from, int64_t dim) {
    kv_load(to, from, dim);
}

static inline void kv_store(kv_value *restrict to, const float *restrict from, int64_t dim) {
    memcpy(to, from, (size_t)dim * sizeof *to);
}

#endif
