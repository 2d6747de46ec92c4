/* vector_avx2.h - eight floats at a time, fused multiply-add: x86-64-v3. */
#ifndef SC_VECTOR_H
#define SC_VECTOR_H

#include <immintrin.h>

enum { SC_LANES = 8, SC_TILE = 6 }; /* SC_TILE rows * 2 vectors of sums fit the 16 registers */

typedef float vec __attribute__((vector_size(32)));
typedef int ivec __attribute__((vector_size(32)));

static inline vec vec_fma(vec a, vec b, vec c) {
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

static inline vec vec_load_bf16(const unsigned short *p) {
    const __m128i half = _mm_loadu_si128((const __m128i_u *)p);
    return (vec)_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

static inline vec vec_load_f16(const unsigned short *p) {
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)p));
}

static inline vec vec_interleave_low(vec a, vec b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline vec vec_interleave_high(vec a, vec b) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* v folded onto itself by op until every lane holds all: halves, pairs, neighbours. */
#define SC_FOLD(v, op)                                                                             \
    do {                                                                                           \
        v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));                          \
        v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));                          \
        v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));                          \
    } while (0)

#include "vector_math.h"

#endif
