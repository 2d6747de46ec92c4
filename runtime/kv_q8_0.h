/*
 * kv_q8_0.h - how the cache keeps a row: int8 in blocks of 32 along the row, each after its float16
 * scale; callers pass float32. See kv_float32.h.
 *
 * x[i] = scale * q[i], scale = max |x| / 127: an element is off by at most scale / 2, and by what
 * the scale loses as float16: 2^-11 of the element, or 127 * 2^-25 where the scale is below 2^-14.
 * A block above 127 * 65504 is cut off there. Source: ggml's block_q8_0.
 */
#ifndef SC_KV_H
#define SC_KV_H

#include <math.h>

#include "half.h"

typedef unsigned char kv;
typedef float kv_value;

enum { KV_BLOCK = 32, KV_BLOCK_BYTES = 2 + KV_BLOCK };

static inline int64_t kv_units(int64_t dim) { return dim / KV_BLOCK * KV_BLOCK_BYTES; }

static inline void kv_put(kv *restrict to, const kv_value *restrict from, int64_t dim) {
    for (int64_t at = 0; at < dim; at += KV_BLOCK, from += KV_BLOCK, to += KV_BLOCK_BYTES) {
        float largest = 0;
        for (int i = 0; i < KV_BLOCK; i++)
            largest = fmaxf(largest, fabsf(from[i]));
        const uint16_t half = sc_to_f16(fminf(largest / 127, 65504));
        const float scale = sc_from_f16(half), inverse = scale > 0 ? 1 / scale : 0;
        memcpy(to, &half, sizeof half);
        for (int i = 0; i < KV_BLOCK; i++)
            to[2 + i] =
                (unsigned char)(signed char)fmaxf(-127, fminf(127, rintf(from[i] * inverse)));
    }
}

static inline void kv_load(float *restrict to, const kv *restrict from, int64_t dim) {
    for (int64_t at = 0; at < dim; at += KV_BLOCK, to += KV_BLOCK, from += KV_BLOCK_BYTES) {
        uint16_t half;
        memcpy(&half, from, sizeof half);
        const float scale = sc_from_f16(half);
        for (int i = 0; i < KV_BLOCK; i++)
            to[i] = scale * (float)(signed char)from[2 + i];
    }
}

#include "kv_coded.h"

#endif
