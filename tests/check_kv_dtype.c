/* check_kv_dtype.c - how keys and values are kept: the error of each type, its bytes, its logits.
 */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "../codegen/plan.h"
#include "../codegen/safetensors.h"
#include "support/run.h"

Suite *kv_dtype_suite(void);

/* Every header under names of its own. */
#define kv f32_kv
#define kv_value f32_value
#define kv_units f32_units
#define kv_put f32_put
#define kv_get f32_get
#define kv_store f32_store
#define kv_load f32_load
#include "../runtime/kv_float32.h"
#undef SC_KV_H
#undef kv
#undef kv_value
#undef kv_units
#undef kv_put
#undef kv_get
#undef kv_store
#undef kv_load
#define kv bf16_kv
#define kv_value bf16_value
#define kv_units bf16_units
#define kv_put bf16_put
#define kv_get bf16_get
#define kv_store bf16_store
#define kv_load bf16_load
#include "../runtime/kv_bfloat16.h"
#undef SC_KV_H
#undef kv
#undef kv_value
#undef kv_units
#undef kv_put
#undef kv_get
#undef kv_store
#undef kv_load
#define kv f16_kv
#define kv_value f16_value
#define kv_units f16_units
#define kv_put f16_put
#define kv_get f16_get
#define kv_store f16_store
#define kv_load f16_load
#include "../runtime/kv_float16.h"
#undef SC_KV_H
#undef kv
#undef kv_value
#undef kv_units
#undef kv_put
#undef kv_get
#undef kv_store
#undef kv_load
#define kv q8_kv
#define kv_value q8_value
#define kv_units q8_units
#define kv_put q8_put
#define kv_get q8_get
#define kv_store q8_store
#define kv_load q8_load
#include "../runtime/kv_q8_0.h"
#undef SC_KV_H
#undef kv
#undef kv_value
#undef kv_units
#undef kv_put
#undef kv_get
#undef kv_store
#undef kv_load
#define kv fp8_kv
#define kv_value fp8_value
#define kv_units fp8_units
#define kv_put fp8_put
#define kv_get fp8_get
#define kv_store fp8_store
#define kv_load fp8_load
#include "../runtime/kv_fp8_e4m3.h"
#undef kv
#undef kv_value
#undef kv_units
#undef kv_put
#undef kv_get
#undef kv_store
#undef kv_load

enum { DIM = 96 };

/* A row as it comes back: floats in, stored, floats out. */
static void through(const char *dtype, float *out, const float *in) {
    unsigned char stored[DIM * 4 + 64];
    unsigned char value[DIM * 4];
#define THROUGH(name, store, put, load, kv_type, value_type)                                       \
    if (!strcmp(dtype, name)) {                                                                    \
        store((value_type *)(void *)value, in, DIM);                                               \
        put((kv_type *)(void *)stored, (value_type *)(void *)value, DIM);                          \
        load(out, (kv_type *)(void *)stored, DIM);                                                 \
    }
    THROUGH("float32", f32_store, f32_put, f32_load, f32_kv, f32_value)
    THROUGH("bfloat16", bf16_store, bf16_put, bf16_load, bf16_kv, bf16_value)
    THROUGH("float16", f16_store, f16_put, f16_load, f16_kv, f16_value)
    THROUGH("q8_0", q8_store, q8_put, q8_load, q8_kv, q8_value)
    THROUGH("fp8_e4m3", fp8_store, fp8_put, fp8_load, fp8_kv, fp8_value)
}

static const char *const dtypes[] = { "float32", "bfloat16", "float16", "q8_0", "fp8_e4m3" };
enum { DTYPES = 5 };

/* What may be off, from the definition of each type: half a unit in the last place of 8, 11 or 4
 * bits of mantissa, and below the smallest normal number half a step; of q8_0 half a step of 127 in
 * the block's largest, and what the float16 scale is off (2^-11 of the element). One part in 2^20
 * is for the arithmetic of scales. */
static double allowed(const char *dtype, const float *row, int i) {
    const double x = fabs((double)row[i]);
    double largest = 0;
    const int from = strcmp(dtype, "q8_0") ? 0 : i / 32 * 32;
    const int to = strcmp(dtype, "q8_0") ? DIM : from + 32;
    for (int d = from; d < to; d++)
        largest = fmax(largest, fabs((double)row[d]));
    if (!strcmp(dtype, "float32"))
        return 0;
    if (!strcmp(dtype, "bfloat16"))
        return x * 0x1p-8;
    if (!strcmp(dtype, "float16"))
        return fmax(x * 0x1p-11, 0x1p-25);
    if (!strcmp(dtype, "q8_0")) /* a scale below 2^-14 has fewer bits: steps of 2^-24 */
        return largest / 254 * (1 + 0x1p-10) + fmax(x * 0x1p-11, 127 * 0x1p-25) + x * 0x1p-20;
    return fmax(x * 0x1p-4, largest / 448 * 0x1p-10) * (1 + 0x1p-20) + 0x1p-149;
}

/* Rows of many sizes: random, all zero, one element, powers of two, what lies between two steps. */
START_TEST(a_row_comes_back_within_the_bound) {
    const char *dtype = dtypes[_i];
    float row[DIM], out[DIM];
    uint32_t seed = 12345;
    for (int trial = 0; trial < 4000; trial++) {
        const double size = ldexp(1, trial % 41 - 20);
        for (int i = 0; i < DIM; i++) {
            seed = seed * 1664525 + 1013904223;
            const double unit = (double)(int32_t)seed / 0x1p31;
            row[i] = (float)(trial % 7 == 0   ? 0
                             : trial % 7 == 1 ? (i == trial % DIM ? size : 0)
                             : trial % 7 == 2 ? ldexp(unit < 0 ? -size : size, -(i % 12))
                             : trial % 7 == 3 ? size * (i % 17 + 0.5) / 16
                                              : size * unit);
        }
        if (!strcmp(dtype, "float16") && size > 60000)
            continue; /* beyond its numbers */
        through(dtype, out, row);
        for (int i = 0; i < DIM; i++) {
            const double off = fabs((double)out[i] - (double)row[i]);
            ck_assert_msg(off <= allowed(dtype, row, i),
                          "%s, trial %d, element %d: %.9g came back as %.9g (allowed %.3g)", dtype,
                          trial, i, (double)row[i], (double)out[i], allowed(dtype, row, i));
        }
    }
}
END_TEST

/* Every half as a float by its definition, and back to itself. */
START_TEST(a_half_is_what_ieee_says) {
    for (uint32_t half = 0; half < 65536; half++) {
        const int exponent = half >> 10 & 31, mantissa = half & 1023;
        const float x = sc_from_f16((uint16_t)half);
        double wanted = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        wanted = half & 0x8000 ? -wanted : wanted;
        if (exponent == 31) {
            ck_assert(mantissa ? isnan(x) : isinf(x) && !signbit(x) == !(half & 0x8000));
            ck_assert(mantissa || sc_to_f16(x) == half);
            ck_assert(!mantissa || (sc_to_f16(x) & 0x7fff) > 0x7c00);
            continue;
        }
        ck_assert(!((double)x < wanted) && !((double)x > wanted));
        ck_assert_uint_eq(sc_to_f16(x), half);
        /* Half way to the next one goes to the even one, a little more goes up. */
        if (half & 0x8000 || exponent == 30)
            continue;
        const double next = (double)sc_from_f16((uint16_t)(half + 1)), middle = (wanted + next) / 2;
        ck_assert_uint_eq(sc_to_f16((float)middle), half & 1 ? half + 1 : half);
        ck_assert_uint_eq(sc_to_f16(nextafterf((float)middle, INFINITY)), half + 1);
        ck_assert_uint_eq(sc_to_f16(nextafterf((float)middle, 0)), half);
    }
    ck_assert_uint_eq(sc_to_f16(65519.996f), 0x7bff);
    ck_assert_uint_eq(sc_to_f16(65520.0f), 0x7c00);
}
END_TEST

/* Rows of 32 elements: 4, 2 and 2 bytes each; a float16 scale and 32 bytes; a float32 scale and 32.
 */
START_TEST(a_plan_shows_the_bytes_of_each_type) {
    static const int row[DTYPES] = { 128, 64, 64, 34, 36 };
    sc_error err = { 0 };
    cJSON *plan;
    char *printed;
    ck_assert_int_eq(run(&printed, NULL,
                         "$SLIPCAST plan examples/austen --max-cache-len 256 --batch-size 3 "
                         "--kv-dtype %s --json",
                         dtypes[_i]),
                     0);
    ck_assert(!sc_json_parse(&plan, "plan", printed, strlen(printed), &err));
    /* Four layers of 64 slots, two of 256; 2 heads, keys and values. */
    ck_assert_int_eq(sc_json_get(plan, "arena_bytes")->valueint,
                     3 * (4 * 64 + 2 * 256) * 2 * 2 * row[_i]);
    ck_assert_str_eq(
        sc_json_get(cJSON_GetArrayItem(sc_json_get(plan, "layers"), 0), "kv_dtype")->valuestring,
        dtypes[_i]);
    cJSON_Delete(plan);
    free(printed);
}
END_TEST

static float *logits_of(const char *dtype, size_t *count) {
    static char ids[1024];
    int64_t shape[8];
    int rank, at = 0;
    sc_error err = { 0 };
    sc_tensors *tensors = NULL;
    for (int i = 0; i < 100; i++)
        at +=
            snprintf(ids + at, sizeof ids - (size_t)at, "%s%d", i ? "," : "", (i * 37 + 11) % 1000);
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST run examples/austen --token-ids %s --max-new-tokens 1 "
                         "--ignore-eos --kv-dtype %s --dump build/test-castings/kv.safetensors",
                         ids, dtype),
                     0);
    sc_pool *pool = sc_pool_create();
    ck_assert_msg(
        !sc_safetensors_open_file(&tensors, pool, "build/test-castings/kv.safetensors", &err), "%s",
        err.message);
    float *logits = tensor_floats(tensors, "logits", &rank, shape);
    *count = (size_t)(shape[0] * shape[1] * shape[2]);
    sc_tensors_close(tensors);
    sc_pool_destroy(pool);
    return logits;
}

/* Largest difference of a logit to the cache of float32, over 100 tokens of noise, as a share of
 * the largest logit. Seen: 0.0024 with bfloat16, 0.0003 with float16, 0.0061 with q8_0, 0.028 with
 * fp8; the bound is twice that. */
START_TEST(logits_stay_near_those_of_float32) {
    static const double bound[DTYPES] = { 0, 0.005, 0.0006, 0.0125, 0.057 };
    size_t count, other, worst;
    float *exact = logits_of("float32", &count), *ours = logits_of(dtypes[_i], &other);
    ck_assert_uint_eq(count, other);
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)exact[i]));
    const double off = largest_difference(exact, ours, count, &worst) / largest;
    ck_assert_msg(off <= bound[_i], "%s: %g of the largest logit", dtypes[_i], off);
    ck_assert(!_i || off > 0);
    free(exact);
    free(ours);
}
END_TEST

START_TEST(a_width_that_q8_0_cannot_keep_is_refused) {
    char *talk;
    ck_assert_int_eq(run(NULL, &talk, "$SLIPCAST plan tests/reference/tiny/llama --kv-dtype q8_0"),
                     2);
    ck_assert_ptr_nonnull(strstr(talk, "--kv-dtype q8_0: a head_dim of 16 is no multiple of 32"));
    free(talk);
}
END_TEST

Suite *kv_dtype_suite(void) {
    Suite *suite = suite_create("kv_dtype");
    TCase *tests = tcase_create("kv_dtype");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, a_row_comes_back_within_the_bound, 0, DTYPES);
    tcase_add_test(tests, a_half_is_what_ieee_says);
    tcase_add_loop_test(tests, a_plan_shows_the_bytes_of_each_type, 0, DTYPES);
    tcase_add_loop_test(tests, logits_stay_near_those_of_float32, 0, DTYPES);
    tcase_add_test(tests, a_width_that_q8_0_cannot_keep_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
