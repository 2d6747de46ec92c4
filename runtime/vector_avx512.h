/* vector_avx512.h - sixteen floats at a time: x86-64-v4. */
#ifndef SC_VECTOR_H
#define SC_VECTOR_H

#include <immintrin.h>

enum { SC_LANES = 16, SC_TILE = 12 }; /* SC_TILE rows * 2 vectors of sums fit the 32 registers */

typedef float vec __attribute__((vector_size(64)));
typedef int ivec __attribute__((vector_size(64)));

static inline vec vec_fma(vec a, vec b, vec c) {
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

static inline vec vec_load_bf16(const unsigned short *p) {
    const __m256i half = _mm256_loadu_si256((const __m256i_u *)p);
    return (vec)_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline vec vec_load_f16(const unsigned short *p) {
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)p));
}

static inline vec vec_interleave_low(vec a, vec b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline vec vec_interleave_high(vec a, vec b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

/* v folded onto itself by op until every lane holds all: halves, quarters, pairs, neighbours. */
#define SC_FOLD(v, op)                                                                             \
    do {                                                                                           \
        v = op(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, \
                                          7));                                                     \
        v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10,  \
                                          11));                                                    \
        v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12,  \
                                          13));                                                    \
        v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15,  \
                                          14));                                                    \
    } while (0)

#include "vector_math.h"

#endif
