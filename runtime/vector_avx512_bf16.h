/* vector_avx512_bf16.h - vector_avx512.h and the dot product of bfloat16 pairs: x86-64-v4-bf16. */
#ifndef SC_VECTOR_BF16_H
#define SC_VECTOR_BF16_H

#include "vector_avx512.h"

/* Sixteen pairs of bfloat16: 32 weights, or one pair of activations sixteen times. */
typedef __m512i pairs;

static inline pairs pairs_load(const unsigned short *p) { return _mm512_loadu_si512(p); }

static inline pairs pairs_set(const unsigned short *p) {
    int both;
    memcpy(&both, p, sizeof both);
    return _mm512_set1_epi32(both);
}

/* sum + w[1] * x[1] + w[0] * x[0], lane by lane. */
static inline vec pairs_dot(pairs w, pairs x, vec sum) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}

/* Rounded to nearest even. */
static inline void vec_store_bf16(unsigned short *p, vec v) {
    const __m256bh half = _mm512_cvtneps_pbh((__m512)v);
    memcpy(p, &half, sizeof half);
}

#endif
