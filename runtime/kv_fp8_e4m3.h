/*
 * kv_fp8_e4m3.h - how the cache keeps a row (one head of one token): its float32 scale, then fp8
 * with 4 bits of exponent and 3 of mantissa; callers pass float32. See kv_float32.h.
 *
 * x[i] = scale * q[i], scale = max |x| / 448: an element is off by at most 2^-4 of itself, and by
 * scale * 2^-10 below scale * 2^-6. A row whose scale is below FLT_MIN is kept as zeros. Source:
 * Micikevicius et al. 2022, "FP8 formats for deep learning".
 */
#ifndef SC_KV_H
#define SC_KV_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char kv;
typedef float kv_value;

static inline int64_t kv_units(int64_t dim) { return (int64_t)sizeof(float) + dim; }

/* |x| <= 448, to nearest even. */
static inline unsigned char kv_to_e4m3(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (bits >> 24) & 0x80, rest = bits & 0x7fffffff;
    if (rest < 0x3c800000) /* below 2^-6: multiples of 2^-9 */
        return (unsigned char)(sign | (uint32_t)rintf(fabsf(x) * 0x1p9f));
    return (unsigned char)(sign | ((rest - 0x3c000000 + 0x7ffff + ((rest >> 20) & 1)) >> 20));
}

static inline float kv_from_e4m3(unsigned char q) {
    const uint32_t rest = q & 0x7f;
    float x;
    if (rest < 8)
        x = (float)rest * 0x1p-9f;
    else {
        const uint32_t bits = (rest << 20) + 0x3c000000;
        memcpy(&x, &bits, sizeof x);
    }
    return q & 0x80 ? -x : x;
}

static inline void kv_put(kv *restrict to, const kv_value *restrict from, int64_t dim) {
    float largest = 0;
    for (int64_t d = 0; d < dim; d++)
        largest = fmaxf(largest, fabsf(from[d]));
    const float scale = largest / 448, inverse = scale >= FLT_MIN ? 1 / scale : 0;
    memcpy(to, &scale, sizeof scale);
    for (int64_t d = 0; d < dim; d++)
        to[sizeof scale + (size_t)d] = kv_to_e4m3(fmaxf(-448, fminf(448, from[d] * inverse)));
}

static inline void kv_load(float *restrict to, const kv *restrict from, int64_t dim) {
    float scale;
    memcpy(&scale, from, sizeof scale);
    for (int64_t d = 0; d < dim; d++)
        to[d] = scale * kv_from_e4m3(from[sizeof scale + (size_t)d]);
}

#include "kv_coded.h"

#endif
