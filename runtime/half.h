/*
 * half.h - bfloat16 and float16 <-> float32, rounded to nearest even; NaN stays NaN.
 */
#ifndef SC_HALF_H
#define SC_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint16_t sc_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float sc_from_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Subnormal halves are whole multiples of 2^-24, and floats of 1.5 * 2^-1 have that as their last
 * bit. */
static inline uint16_t sc_to_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* below 2^-14 */
        float magic;
        memcpy(&magic, &rest, sizeof magic);
        magic += 0.5f;
        memcpy(&bits, &magic, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    return (uint16_t)(sign | ((rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13));
}

static inline float sc_from_f16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    float x;
    if (rest < 0x400) { /* zero and subnormal */
        x = (float)rest * 0x1p-24f;
        return sign ? -x : x;
    }
    const uint32_t bits = sign | ((rest << 13) + (rest < 0x7c00 ? 0x38000000 : 0x70000000));
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
