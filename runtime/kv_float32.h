/*
 * kv_float32.h - how the cache keeps a row: as float32. Exact.
 *
 * Every kv_*.h defines
 *   kv            a unit of storage; a row of dim elements takes kv_units(dim) of them
 *   kv_value      an element as callers of update, visible and read pass it
 *   kv_put        stores a caller's row          kv_get   a row as callers get it
 *   kv_store      a row of floats as a caller would pass it
 *   kv_load       a stored row as floats
 */
#ifndef SC_KV_H
#define SC_KV_H

#include <stdint.h>
#include <string.h>

typedef float kv;

#include "kv_plain.h"

static inline void kv_store(kv_value *restrict to, const float *restrict from, int64_t dim) {
    memcpy(to, from, (size_t)dim * sizeof *to);
}

static inline void kv_load(float *restrict to, const kv *restrict from, int64_t dim) {
    memcpy(to, from, (size_t)dim * sizeof *to);
}

#endif
