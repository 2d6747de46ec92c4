/*
 * kv_codec.h - the functions of every runtime/kv_*.h side by side, for tests. The headers define
 * the same names, so each is included in a file of its own, which ends with KV_CODEC(name).
 */
#ifndef SC_TEST_KV_CODEC_H
#define SC_TEST_KV_CODEC_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    size_t unit, value; /* bytes of a kv and of a kv_value */
    int64_t (*units)(int64_t dim);
    void (*put)(void *kv, const void *value, int64_t dim);
    void (*get)(void *value, const void *kv, int64_t dim);
    void (*store)(void *value, const float *from, int64_t dim);
    void (*load)(float *to, const void *kv, int64_t dim);
} kv_codec;

extern const kv_codec kv_codec_float32, kv_codec_bfloat16, kv_codec_float16, kv_codec_q8_0,
    kv_codec_fp8_e4m3;

#define KV_CODEC(NAME)                                                                             \
    static void put_row(void *to, const void *from, int64_t dim) { kv_put(to, from, dim); }        \
    static void get_row(void *to, const void *from, int64_t dim) { kv_get(to, from, dim); }        \
    static void store_row(void *to, const float *from, int64_t dim) { kv_store(to, from, dim); }   \
    static void load_row(float *to, const void *from, int64_t dim) { kv_load(to, from, dim); }     \
    const kv_codec kv_codec_##NAME = { #NAME,   sizeof(kv), sizeof(kv_value), kv_units,            \
                                       put_row, get_row,    store_row,        load_row };

#endif
