/* vector_generic.h - four floats at a time with nothing but the compiler's vectors: any machine. */
#ifndef SC_VECTOR_H
#define SC_VECTOR_H

enum { SC_LANES = 4, SC_TILE = 4 };

typedef float vec __attribute__((vector_size(16)));
typedef int ivec __attribute__((vector_size(16)));

/* Two roundings: not every machine has a fused one, and -ffp-contract=off keeps it so. */
static inline vec vec_fma(vec a, vec b, vec c) { return a * b + c; }

static inline vec vec_load_bf16(const unsigned short *p) {
    return (vec)(ivec){ (int)((unsigned)p[0] << 16), (int)((unsigned)p[1] << 16),
                        (int)((unsigned)p[2] << 16), (int)((unsigned)p[3] << 16) };
}

/* The bits moved to a float's places are 2^112 too small; infinity and NaN get its exponent. */
static inline vec vec_load_f16(const unsigned short *p) {
    const ivec half = { p[0], p[1], p[2], p[3] }, rest = half & 0x7fff;
    const vec x = (vec)(rest << 13) * 0x1p112f;
    return (vec)((half ^ rest) << 16 | (ivec)x | ((rest > 0x7bff) & 0x7f800000));
}

static inline vec vec_interleave_low(vec a, vec b) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}

static inline vec vec_interleave_high(vec a, vec b) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

/* v folded onto itself by op until every lane holds all: halves, neighbours. */
#define SC_FOLD(v, op)                                                                             \
    do {                                                                                           \
        v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));                                      \
        v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));                                      \
    } while (0)

#include "vector_math.h"

#endif
