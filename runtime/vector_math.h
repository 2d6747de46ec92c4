/*
 * vector_math.h - what the kernels need beyond arithmetic, over the vec of vector_*.h.
 *
 * Every function has one fixed order of operations, so equal inputs give equal bits in whatever
 * lane, thread or chunk they are computed.
 */
#ifndef SC_VECTOR_MATH_H
#define SC_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "half.h"

enum { SC_PANEL = 2 * SC_LANES }; /* outputs that one weight panel makes, keys in one block */

#ifdef __clang__
#define SC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SC_UNROLL _Pragma("GCC unroll 32")
#endif

static inline vec vec_load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(float *p, vec v) { memcpy(p, &v, sizeof v); }

/* The first count of them, which may be more than there are; zeros behind. */
static inline vec vec_load_part(const float *p, long count) {
    vec v = { 0 };
    memcpy(&v, p, count < SC_LANES ? (size_t)count * sizeof *p : sizeof v);
    return v;
}

static inline void vec_store_part(float *p, vec v, long count) {
    memcpy(p, &v, count < SC_LANES ? (size_t)count * sizeof *p : sizeof v);
}

static inline vec vec_set(float x) { return x - (vec){ 0 }; }

static inline vec vec_max(vec a, vec b) {
    const ivec a_wins = a > b;
    return (vec)((a_wins & (ivec)a) | (~a_wins & (ivec)b));
}

static inline vec vec_add(vec a, vec b) { return a + b; }

/* Sum and maximum of the lanes. */
static inline float vec_sum(vec v) {
    SC_FOLD(v, vec_add);
    return v[0];
}

static inline float vec_top(vec v) {
    SC_FOLD(v, vec_max);
    return v[0];
}

/*
 * e^x, relative error below 2e-7; 0 below -87, so a masked score of -1e30 weighs nothing.
 * n = round(x / ln 2) by adding 1.5 * 2^23, e^r on [-ln2/2, ln2/2] by a Taylor polynomial.
 */
static inline vec vec_exp(vec x) {
    const vec magic = vec_set(12582912.0f), low = vec_set(-87.0f), high = vec_set(88.0f);
    const ivec alive = x > low;
    x = vec_max(x, low);
    x = -vec_max(-x, -high);
    const vec shifted = vec_fma(x, vec_set(1.44269504f), magic);
    const vec n = shifted - magic;
    vec r = vec_fma(n, vec_set(-0.693145752f), x);
    r = vec_fma(n, vec_set(-1.42860677e-6f), r);
    vec p = vec_set(1.0f / 720);
    p = vec_fma(p, r, vec_set(1.0f / 120));
    p = vec_fma(p, r, vec_set(1.0f / 24));
    p = vec_fma(p, r, vec_set(1.0f / 6));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    const ivec power = ((ivec)shifted - (ivec)magic + 127) << 23;
    return (vec)((ivec)(p * (vec)power) & alive);
}

/* x * sigmoid(x). */
static inline vec vec_silu(vec x) { return x / (vec_set(1.0f) + vec_exp(-x)); }

/* Gaussian error linear unit: by erf, and its approximation by tanh, x * sigmoid(2 sqrt(2 / pi) (x
 * + 0.044715 x^3)). Hendrycks and Gimpel 2016. */
static inline vec vec_gelu(vec x) {
    for (int i = 0; i < SC_LANES; i++)
        x[i] *= 0.5f * (1.0f + erff(x[i] * 0.707106781f));
    return x;
}

static inline vec vec_gelu_tanh(vec x) {
    const vec u = x * (vec_set(1.59576912f) + vec_set(0.0713548163f) * x * x);
    return x / (vec_set(1.0f) + vec_exp(-u));
}

static inline vec vec_relu(vec x) { return vec_max(x, vec_set(0)); }

static inline vec vec_relu2(vec x) { return vec_relu(x) * vec_relu(x); }

/* cap * tanh(x / cap). */
static inline vec vec_softcap(vec x, vec cap) {
    const vec e = vec_exp(x / cap * vec_set(2.0f));
    return cap - cap * vec_set(2.0f) / (e + vec_set(1.0f));
}

/* SC_LANES rows become columns: log2(SC_LANES) rounds of perfect shuffles. */
static inline void vec_transpose(vec v[SC_LANES]) {
    SC_UNROLL
    for (int round = 1; round < SC_LANES; round *= 2) {
        vec next[SC_LANES];
        SC_UNROLL
        for (int i = 0; i < SC_LANES / 2; i++) {
            next[2 * i] = vec_interleave_low(v[i], v[i + SC_LANES / 2]);
            next[2 * i + 1] = vec_interleave_high(v[i], v[i + SC_LANES / 2]);
        }
        SC_UNROLL
        for (int i = 0; i < SC_LANES; i++)
            v[i] = next[i];
    }
}

#endif
