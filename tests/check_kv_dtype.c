/*
 * check_kv_dtype.c - how keys and values are kept: runtime/kv_*.h and half.h against slow
 * definitions in double, castings of every dtype against those headers, and what a whole model
 * loses.
 *
 * Source of the formats: IEEE 754-2019 (binary16), bfloat16 as the upper half of a float32, Open
 * Compute Project OFP8 1.0 (E4M3: bias 7, no infinity, largest 448), ggml's block_q8_0. Source of
 * the bounds: the comment on top of each header.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "../codegen/safetensors.h"
#include "../runtime/half.h"
#include "support/cast.h"
#include "support/draw.h"
#include "support/kv_codec.h"
#include "support/run.h"

Suite *kv_dtype_suite(void);

#define FOLDER "build/test-castings/kv-dtype"

enum { DIM = 64, ROUNDS = 4000 };

static uint64_t random_state;

static uint64_t draw32(void) { return draw_bits(&random_state) >> 32; }

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Of any finite size, with all of its 24 bits. */
static float any_float(void) {
    for (;;) {
        const float x = float_of((uint32_t)draw32());
        if (isfinite(x))
            return x;
    }
}

/* ---- halves ---- */

typedef struct {
    int exponent, mantissa, bias; /* bits of each */
    uint16_t (*to)(float);
    float (*from)(uint16_t);
} half_format;

static const half_format halves[] = { { 5, 10, 15, sc_to_f16, sc_from_f16 },
                                      { 8, 7, 127, sc_to_bf16, sc_from_bf16 } };

/* What a half without its sign means, by the standard's formula. Past the last finite one it goes
 * on as if there were another exponent: that is where rounding to infinity begins. */
static double half_value(const half_format *f, unsigned half) {
    const int exponent = (int)(half >> f->mantissa),
              fraction = (int)half & ((1 << f->mantissa) - 1);
    return exponent ? ldexp((1 << f->mantissa) + fraction, exponent - f->bias - f->mantissa)
                    : ldexp(fraction, 1 - f->bias - f->mantissa);
}

static unsigned infinity_of(const half_format *f) {
    return ((1u << f->exponent) - 1) << f->mantissa;
}

START_TEST(every_half_means_what_the_standard_says) {
    const half_format *f = &halves[_i];
    for (unsigned half = 0; half < 65536; half++) {
        const unsigned rest = half & 0x7fff;
        const float x = f->from((uint16_t)half);
        ck_assert_msg(!!signbit(x) == (half >= 32768), "%#x: sign", half);
        if (rest > infinity_of(f))
            ck_assert_msg(isnan(x), "%#x: %g", half, (double)x);
        else if (rest == infinity_of(f))
            ck_assert_msg(isinf(x), "%#x: %g", half, (double)x);
        else
            ck_assert_msg(fabs((double)x) == half_value(f, rest), "%#x: %g, not %g", half,
                          (double)x, half_value(f, rest));
        /* There and back; a NaN stays one, of the same sign. */
        const unsigned back = f->to(x);
        ck_assert_msg(rest > infinity_of(f)
                          ? (back & 0x7fff) > infinity_of(f) && (back & 0x8000) == (half & 0x8000)
                          : back == half,
                      "%#x: comes back as %#x", half, back);
    }
}
END_TEST

/* The nearest half, of two equally near the even one; searched, not computed. */
static unsigned nearest_half(const half_format *f, float x) {
    const double size = fabs((double)x);
    unsigned low = 0, high = infinity_of(f);
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (half_value(f, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    const double down = size - half_value(f, low), up = half_value(f, high) - size;
    const unsigned rest = down < up || (down == up && !(low & 1)) ? low : high;
    return rest | (signbit(x) ? 0x8000u : 0);
}

static void check_half(const half_format *f, float x) {
    const unsigned wanted = nearest_half(f, x), got = f->to(x);
    if (got != wanted)
        ck_abort_msg("%a: %#x, the nearest is %#x", (double)x, got, wanted);
}

START_TEST(a_float_becomes_the_nearest_half) {
    const half_format *f = &halves[_i];
    random_state = 11;
    /* Every half, every middle between two, and the floats right beside those. */
    for (unsigned half = 0; half < infinity_of(f); half++) {
        const float middle = (float)((half_value(f, half) + half_value(f, half + 1)) / 2);
        const float at[] = { f->from((uint16_t)half), middle };
        for (int i = 0; i < 2; i++)
            for (int beside = -1; beside <= 1; beside++) {
                const float x = beside ? nextafterf(at[i], beside > 0 ? INFINITY : 0) : at[i];
                if (isinf(x)) /* above bfloat16's last middle there are floats, FLT_MAX the last */
                    continue;
                check_half(f, x);
                check_half(f, -x);
            }
    }
    for (int i = 0; i < 100 * ROUNDS; i++)
        check_half(f, any_float());
    ck_assert_uint_eq(f->to(INFINITY), infinity_of(f));
    ck_assert_uint_eq(f->to(-INFINITY), infinity_of(f) | 0x8000);
    ck_assert_uint_eq(f->to(FLT_MAX), infinity_of(f));
    for (uint32_t nan = 0x7f800001; nan > 0x7f800000 && nan < 0x80000000; nan += 0x1fff)
        ck_assert(isnan(f->from(f->to(float_of(nan)))));
}
END_TEST

#ifdef __FLT16_MAX__
/* What the compiler makes of the same numbers. */
START_TEST(halves_are_the_compiler_s) {
    __extension__ typedef _Float16 half;
    random_state = 5;
    for (unsigned i = 0; i < 65536; i++) {
        const uint16_t bits = (uint16_t)i;
        half h;
        memcpy(&h, &bits, sizeof h);
        const float theirs = (float)h, ours = sc_from_f16(bits);
        ck_assert_msg(bits_of(theirs) == bits_of(ours) || (isnan(theirs) && isnan(ours)), "%#x", i);
    }
    for (int i = 0; i < 100 * ROUNDS; i++) {
        /* Most sizes are far outside: every other one is brought near. */
        const float x =
            i % 2 ? any_float() : float_of(0x33000000 + (uint32_t)draw32() % 0x15000000);
        const half h = (half)x;
        uint16_t bits;
        memcpy(&bits, &h, sizeof bits);
        ck_assert_msg(bits == sc_to_f16(x), "%a: %#x, the compiler has %#x", (double)x,
                      sc_to_f16(x), bits);
    }
}
END_TEST
#endif

/* ---- rows ---- */

static const kv_codec *const codecs[] = { &kv_codec_float32, &kv_codec_bfloat16, &kv_codec_float16,
                                          &kv_codec_q8_0, &kv_codec_fp8_e4m3 };
enum { CODECS = 5, BF16 = 1, F16, Q8_0 };

/* Bytes of a row of dim elements: float32; two halves; 34 per block of 32; a float32 and a byte
 * each. */
static int64_t row_bytes(int codec, int64_t dim) {
    switch (codec) {
    case 0:
        return 4 * dim;
    case BF16:
    case F16:
        return 2 * dim;
    case Q8_0:
        return dim / 32 * 34;
    default:
        return 4 + dim;
    }
}

START_TEST(a_row_takes_the_bytes_that_it_should) {
    const kv_codec *c = codecs[_i];
    for (int64_t dim = 32; dim <= 576; dim += 32)
        ck_assert_int_eq(c->units(dim) * (int64_t)c->unit, row_bytes(_i, dim));
    ck_assert_uint_eq(c->value, _i == BF16 || _i == F16 ? 2 : 4);
}
END_TEST

/* A row of floats there and back: what the caller passed, what is read, and what attention sees. */
typedef struct {
    float in[DIM], out[DIM], loaded[DIM];
    unsigned char kept[4 * DIM + 4]; /* 4 behind the row stay as they are */
} row;

static void round_trip(const kv_codec *c, row *r) {
    uint32_t passed[DIM], read[DIM];
    const size_t bytes = (size_t)c->units(DIM) * c->unit;
    memset(r->kept, 0xa5, sizeof r->kept);
    c->store(passed, r->in, DIM);
    c->put(r->kept, passed, DIM);
    c->get(read, r->kept, DIM);
    c->load(r->loaded, r->kept, DIM);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(r->kept[bytes + (size_t)i], 0xa5);
    for (int i = 0; i < DIM; i++)
        if (c->value == 4)
            memcpy(&r->out[i], &read[i], sizeof r->out[i]);
        else {
            uint16_t half;
            memcpy(&half, (char *)read + 2 * i, sizeof half);
            r->out[i] = c == &kv_codec_float16 ? sc_from_f16(half) : sc_from_bf16(half);
        }
    /* What attention reads is what a caller reads. */
    ck_assert(!memcmp(r->out, r->loaded, sizeof r->out));
}

/* What a caller passes: a half of the half dtypes, so that the error is all of the trip. */
static double element_bound(int codec, const row *r, int i) {
    const double x = fabs((double)r->in[i]);
    double largest = 0;
    const int from = codec == Q8_0 ? i / 32 * 32 : 0, to = codec == Q8_0 ? from + 32 : DIM;
    for (int k = from; k < to; k++)
        largest = fmax(largest, fabs((double)r->in[k]));
    switch (codec) {
    case 0:
        return 0;
    case BF16: /* half a unit in the last place; the smallest are whole multiples of 2^-133 */
        return fmax(x * 0x1p-8, 0x1p-134);
    case F16: /* 2^-24 */
        return fmax(x * 0x1p-11, 0x1p-25);
    case Q8_0: { /* kv_q8_0.h */
        const double scale = largest / 127;
        return scale / 2 + (scale < 0x1p-14 ? 127 * 0x1p-25 : x * 0x1p-11);
    }
    default: { /* kv_fp8_e4m3.h */
        const double scale = largest / 448;
        return scale < (double)FLT_MIN ? largest : fmax(x * 0x1p-4, scale * 0x1p-10);
    }
    }
}

static void check_row(int codec, row *r, const char *what) {
    round_trip(codecs[codec], r);
    for (int i = 0; i < DIM; i++) {
        const double error = fabs((double)r->out[i] - (double)r->in[i]),
                     /* the sums and products on the way are floats themselves */
            bound = element_bound(codec, r, i) * (1 + 1e-5);
        if (!(error <= bound))
            ck_abort_msg("%s: %s, element %d: %a becomes %a: off by %g, at most %g",
                         codecs[codec]->name, what, i, (double)r->in[i], (double)r->out[i], error,
                         bound);
    }
}

/* Uniform in (-size, size), some much smaller. */
static void fill_row(row *r, double size) {
    for (int i = 0; i < DIM; i++)
        r->in[i] = (float)(size * ((double)draw32() / 0x1p31 - 1) * (i % 5 ? 1 : 0x1p-7));
}

/* Largest size that each dtype holds whole, smallest that is not all zero. */
static const double largest[] = { FLT_MAX, 0x1.fep127, 65504, 127.0 * 65504, FLT_MAX };

START_TEST(a_row_comes_back_within_the_bound) {
    static row r;
    char what[64];
    random_state = (uint64_t)_i + 1;
    for (int i = 0; i < ROUNDS; i++) {
        /* 2^-150 is below the smallest float. */
        double size = ldexp(1 + (double)draw32() / 0x1p32, (int)(draw32() % 278) - 150);
        size = size > largest[_i] ? largest[_i] : size;
        snprintf(what, sizeof what, "round %d, size %g", i, size);
        fill_row(&r, size);
        if (i % 3 == 0) /* the very largest */
            r.in[draw32() % DIM] = (float)size;
        check_row(_i, &r, what);
    }
    for (int i = 0; i < ROUNDS; i++) { /* sizes that keys and values have */
        snprintf(what, sizeof what, "usual round %d", i);
        fill_row(&r, 0.01 + (double)(draw32() % 1000) / 10);
        check_row(_i, &r, what);
    }
}
END_TEST

START_TEST(zeros_come_back_as_zeros_and_the_extremes_as_they_are) {
    static row r;
    const float most = (float)largest[_i];
    for (int i = 0; i < DIM; i++)
        r.in[i] = i % 2 ? -0.0f : 0.0f;
    check_row(_i, &r, "zeros");
    for (int i = 0; i < DIM; i++)
        ck_assert(r.out[i] == 0);
    /* One number in a row of zeros, the largest that there is, and its negative. */
    for (int sign = -1; sign <= 1; sign += 2)
        for (int at = 0; at < DIM; at++) {
            memset(r.in, 0, sizeof r.in);
            r.in[at] = (float)sign * most;
            check_row(_i, &r, "one alone");
            ck_assert_float_eq_tol(r.out[at] / most, (float)sign, 0x1p-11f);
            for (int i = 0; i < DIM; i++)
                ck_assert(i == at || r.out[i] == 0);
        }
    /* The smallest there is, alone and beside 1. */
    for (int i = 0; i < DIM; i++)
        r.in[i] = float_of(1 + (uint32_t)i);
    check_row(_i, &r, "denormals");
    r.in[3] = 1;
    check_row(_i, &r, "denormals beside 1");
    ck_assert_float_eq_tol(r.out[3], 1, 0x1p-11f);
}
END_TEST

START_TEST(float32_keeps_every_bit) {
    uint32_t in[DIM], kept[DIM], out[DIM], loaded[DIM], stored[DIM];
    float floats[DIM];
    random_state = 3;
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < DIM; k++)
            in[k] = (uint32_t)draw32(); /* NaN, infinity and denormals among them */
        memcpy(floats, in, sizeof floats);
        kv_codec_float32.store(stored, floats, DIM);
        kv_codec_float32.put(kept, in, DIM);
        kv_codec_float32.get(out, kept, DIM);
        kv_codec_float32.load(floats, kept, DIM);
        memcpy(loaded, floats, sizeof loaded);
        ck_assert(!memcmp(in, kept, sizeof in) && !memcmp(in, out, sizeof in) &&
                  !memcmp(in, loaded, sizeof in) && !memcmp(in, stored, sizeof in));
    }
}
END_TEST

/* Callers pass halves, which are kept bit for bit; NaN and infinity too. */
START_TEST(halves_are_kept_bit_for_bit) {
    const kv_codec *c = codecs[BF16 + _i];
    for (unsigned from = 0; from < 65536; from += DIM) {
        uint16_t in[DIM], kept[DIM], out[DIM];
        float loaded[DIM];
        for (unsigned i = 0; i < DIM; i++)
            in[i] = (uint16_t)(from + i);
        c->put(kept, in, DIM);
        c->get(out, kept, DIM);
        c->load(loaded, kept, DIM);
        ck_assert(!memcmp(in, kept, sizeof in) && !memcmp(in, out, sizeof in));
        for (unsigned i = 0; i < DIM; i++)
            ck_assert_uint_eq(bits_of(loaded[i]),
                              bits_of(_i ? sc_from_f16(in[i]) : sc_from_bf16(in[i])));
    }
}
END_TEST

/* What lies in memory, looked at from outside: the scale and every byte. */
START_TEST(q8_0_keeps_the_nearest_multiple_of_its_scale) {
    static row r;
    random_state = 17;
    for (int round = 0; round < ROUNDS; round++) {
        fill_row(&r, 0.01 + (double)(draw32() % 10000) / 10);
        round_trip(&kv_codec_q8_0, &r);
        for (int block = 0; block < DIM / 32; block++) {
            const unsigned char *at = r.kept + 34 * block;
            const float *x = r.in + 32 * block;
            float most = 0;
            uint16_t half;
            for (int i = 0; i < 32; i++)
                most = fmaxf(most, fabsf(x[i]));
            memcpy(&half, at, sizeof half);
            ck_assert_uint_eq(half, nearest_half(&halves[0], most / 127));
            const double scale = half_value(&halves[0], half);
            for (int i = 0; i < 32; i++) {
                const double exact = (double)x[i] / scale;
                const int q = (signed char)at[2 + i];
                ck_assert_msg(fabs(exact - q) <= 0.5 + 1e-5 ||
                                  (abs(q) == 127 && fabs(exact) < 127 * (1 + 0x1p-11)),
                              "round %d: %g is kept as %d", round, exact, q);
                ck_assert(r.out[32 * block + i] == (float)(scale * q));
            }
        }
    }
}
END_TEST

/* E4M3 by its definition; 0x7f is NaN. */
static double e4m3_value(unsigned code) {
    const unsigned exponent = code >> 3 & 15, fraction = code & 7;
    const double x = exponent ? ldexp(8 + fraction, (int)exponent - 7 - 3) : ldexp(fraction, -9);
    return code & 0x80 ? -x : x;
}

START_TEST(fp8_keeps_the_nearest_code_and_gives_its_value) {
    static row r;
    random_state = 19;
    ck_assert(e4m3_value(0x7e) == 448 && e4m3_value(1) == 0x1p-9); /* OFP8, table 2 */
    for (int round = 0; round < ROUNDS; round++) {
        fill_row(&r, 0.01 + (double)(draw32() % 10000) / 10);
        if (round < 128) /* every code there is, by the scale 1 */
            for (int i = 0; i < DIM; i++)
                r.in[i] =
                    i ? (float)e4m3_value((unsigned)(round + i) % 127 | (round % 2 ? 0x80u : 0))
                      : 448;
        round_trip(&kv_codec_fp8_e4m3, &r);
        float scale, most = 0;
        memcpy(&scale, r.kept, sizeof scale);
        for (int i = 0; i < DIM; i++)
            most = fmaxf(most, fabsf(r.in[i]));
        ck_assert(scale == most / 448);
        for (int i = 0; i < DIM; i++) {
            const unsigned code = r.kept[4 + i];
            const double exact = (double)r.in[i] / (double)scale;
            double best = INFINITY;
            ck_assert_uint_ne(code & 0x7f, 0x7f);
            for (unsigned other = 0; other < 256; other++)
                if ((other & 0x7f) != 0x7f)
                    best = fmin(best, fabs(e4m3_value(other) - exact));
            /* In floats a number close to a middle may fall to either side. */
            ck_assert_msg(fabs(e4m3_value(code) - exact) <= best + fabs(exact) * 1e-6,
                          "round %d: %g is kept as %g", round, exact, e4m3_value(code));
            ck_assert(r.out[i] == scale * (float)e4m3_value(code));
            if (round < 128)
                ck_assert(r.out[i] == r.in[i]);
        }
    }
}
END_TEST

/* Of two codes equally near the even one, as OFP8 wants. */
START_TEST(fp8_rounds_to_even) {
    static row r;
    for (unsigned from = 0; from < 126; from++) {
        memset(r.in, 0, sizeof r.in);
        r.in[0] = 448; /* the scale is 1 */
        r.in[1] = (float)((e4m3_value(from) + e4m3_value(from + 1)) / 2);
        round_trip(&kv_codec_fp8_e4m3, &r);
        ck_assert_uint_eq(r.kept[5], from + (from & 1));
    }
}
END_TEST

/* A model that has gone wrong must not take the process along. */
START_TEST(what_is_no_number_does_no_harm) {
    static row r;
    for (int i = 0; i < DIM; i++)
        r.in[i] = i % 3 ? NAN : i % 2 ? INFINITY : -INFINITY;
    uint32_t passed[DIM], read[DIM];
    codecs[_i]->store(passed, r.in, DIM);
    codecs[_i]->put(r.kept, passed, DIM);
    codecs[_i]->get(read, r.kept, DIM);
    codecs[_i]->load(r.loaded, r.kept, DIM);
    for (int i = 0; i < DIM && _i < Q8_0; i++)
        ck_assert(i % 3 ? isnan(r.loaded[i]) : isinf(r.loaded[i]));
}
END_TEST

/* ---- castings ---- */

enum { HEADS = 2, V_DIM = 32, LENGTH = 12, BATCH = 2, CAST_MOST = BATCH * HEADS * 24 * DIM };

static const sc_casting *cast_codec(int codec) {
    char name[64], options[128];
    snprintf(name, sizeof name, "kv-%s", codecs[codec]->name);
    snprintf(options, sizeof options,
             "--max-cache-len %d --batch-size %d --dtype float32 --kv-dtype %s --rewind 2", LENGTH,
             BATCH, codecs[codec]->name);
    return cast_spec(name,
                     "{\"model_type\": \"slipcast_cache\", \"layers\": ["
                     "{\"layer_type\": \"sliding_attention\", \"num_key_value_heads\": 2, "
                     "\"head_dim\": 64, \"v_head_dim\": 32, \"sliding_window\": 4}, "
                     "{\"layer_type\": \"full_attention\", \"num_key_value_heads\": 2, "
                     "\"head_dim\": 64, \"v_head_dim\": 32}]}",
                     options);
}

/* The row of that token as the caller passes it, and as it comes back: through the header. */
static void token_row(const kv_codec *c, int kind, int layer, int b, int head, int pos, int dim,
                      void *passed, void *back) {
    float x[DIM];
    unsigned char kept[4 * DIM];
    random_state =
        ((((uint64_t)kind * 2 + (uint64_t)layer) * 2 + (uint64_t)b) * 2 + (uint64_t)head) * 64 +
        (uint64_t)pos + 1;
    random_state *= 0x9E3779B97F4A7C15u;
    for (int d = 0; d < dim; d++)
        x[d] = (float)((double)draw32() / 0x1p28 - 8) * (float)(1 + pos);
    c->store(passed, x, dim);
    c->put(kept, passed, dim);
    c->get(back, kept, dim);
}

/* The first is position from; positions from count on are zero. */
static void assert_rows(const kv_codec *c, const unsigned char *got, int kind, int layer, int from,
                        int length, int count, int dim, const char *what) {
    const size_t bytes = (size_t)dim * c->value;
    unsigned char passed[4 * DIM], back[4 * DIM];
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < length; i++, got += bytes) {
                memset(back, 0, sizeof back);
                if (from + i < count)
                    token_row(c, kind, layer, b, h, from + i, dim, passed, back);
                ck_assert_msg(!memcmp(got, back, bytes), "%s: %s: layer %d, %s %d, row %d, head %d",
                              c->name, what, layer, kind ? "value" : "key", i, b, h);
            }
}

/* Window 4: after n more on top of seen, the ring shows from seen - 3 on. */
START_TEST(a_casting_keeps_rows_as_its_header_does) {
    static unsigned char keys[4 * CAST_MOST], values[4 * CAST_MOST], back[4 * DIM];
    static const int pushes[] = { 3, 1, 5, 2, -2, 3 };
    const kv_codec *c = codecs[_i];
    const sc_casting *api = cast_codec(_i);
    sc_cache *cache;
    sc_error err = { 0 };
    int seen = 0;
    int64_t length;
    ck_assert_str_eq(api->kv_dtype, c->name);
    ck_assert_uint_eq(cast_element(api->value_dtype), c->value);
    ck_assert_int_eq(api->cache_create(&cache, &err), SC_OK);
    for (int push = 0; push < (int)(sizeof pushes / sizeof *pushes); push++) {
        const int n = pushes[push];
        if (n < 0) {
            ck_assert_int_eq(api->cache_crop(cache, n, &err), SC_OK);
            seen += n;
            continue;
        }
        for (int layer = 0; layer < 2; layer++) {
            unsigned char *k = keys, *v = values;
            for (int b = 0; b < BATCH; b++)
                for (int h = 0; h < HEADS; h++)
                    for (int t = 0; t < n; t++) {
                        token_row(c, 0, layer, b, h, seen + t, DIM, k, back);
                        token_row(c, 1, layer, b, h, seen + t, V_DIM, v, back);
                        k += DIM * c->value;
                        v += V_DIM * c->value;
                    }
            ck_assert_int_eq(api->cache_update(cache, layer, keys, values, n, &err), SC_OK);
            const int slots = layer ? LENGTH : 4, past = layer ? 0 : seen > 3 ? seen - 3 : 0;
            const int shows = seen + n - past > slots ? seen + n - past : slots;
            ck_assert_int_eq(api->cache_visible(cache, layer, keys, values, &length, &err), SC_OK);
            ck_assert_int_eq(length, shows);
            assert_rows(c, keys, 0, layer, past, shows, seen + n, DIM, "visible");
            assert_rows(c, values, 1, layer, past, shows, seen + n, V_DIM, "visible");
            const int oldest = seen + n > slots ? seen + n - slots : 0;
            ck_assert_int_eq(api->cache_read(cache, layer, keys, values, &err), SC_OK);
            assert_rows(c, keys, 0, layer, oldest, slots, seen + n, DIM, "read");
            assert_rows(c, values, 1, layer, oldest, slots, seen + n, V_DIM, "read");
        }
        seen += n;
    }
    ck_assert_int_eq(seen, LENGTH);
    /* The file has it all. */
    size_t bytes, again;
    sc_cache *other;
    ck_assert_int_eq(api->cache_save(cache, FOLDER "/saved", &err), SC_OK);
    ck_assert_int_eq(api->cache_create(&other, &err), SC_OK);
    ck_assert_msg(!api->cache_load(other, FOLDER "/saved", &err), "%s", err.message);
    ck_assert_int_eq(api->cache_crop(cache, 0, &err), SC_OK);
    ck_assert_int_eq(api->cache_reorder(cache, (const int32_t[]){ 0, 1 }, &err), SC_OK);
    char *one = cast_seen(api, cache, &bytes), *two = cast_seen(api, other, &again);
    ck_assert(bytes == again && !memcmp(one, two, bytes));
    free(one);
    free(two);
    api->cache_destroy(cache);
    api->cache_destroy(other);
}
END_TEST

/* ---- the plan ---- */

START_TEST(the_plan_counts_the_bytes_of_the_dtype) {
    char *printed;
    const int64_t heads = 2, dim = 32, window = 64, length = 100, batch = 3; /* its config.json */
    ck_assert_int_eq(run(&printed, NULL,
                         "$SLIPCAST plan examples/austen --json --max-cache-len %d --batch-size %d "
                         "--kv-dtype %s",
                         (int)length, (int)batch, codecs[_i]->name),
                     0);
    cJSON *plan = cJSON_Parse(printed);
    ck_assert_ptr_nonnull(plan);
    int64_t total = 0;
    const cJSON *layer;
    cJSON_ArrayForEach(layer, sc_json_get(plan, "layers")) {
        const int slides = cJSON_IsTrue(sc_json_get(layer, "is_sliding"));
        const int64_t bytes = 2 * batch * heads * (slides ? window : length) * row_bytes(_i, dim);
        ck_assert_int_eq((int64_t)sc_json_get(layer, "bytes")->valuedouble, bytes);
        ck_assert_str_eq(sc_json_get(layer, "kv_dtype")->valuestring, codecs[_i]->name);
        total += bytes;
    }
    ck_assert_int_eq(cJSON_GetArraySize(sc_json_get(plan, "layers")), 6);
    ck_assert_int_eq((int64_t)sc_json_get(plan, "arena_bytes")->valuedouble, total);
    ck_assert_int_eq((int64_t)sc_json_get(plan, "padding_bytes")->valuedouble, 0);
    cJSON_Delete(plan);
    free(printed);
}
END_TEST

START_TEST(q8_0_wants_whole_blocks) {
    char *talk;
    ck_assert_int_eq(run(NULL, &talk, "$SLIPCAST plan tests/reference/tiny/llama --kv-dtype q8_0"),
                     2);
    ck_assert_msg(strstr(talk, "--kv-dtype q8_0: a head_dim of 16 is no multiple of 32") != NULL,
                  "%s", talk);
    free(talk);
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST plan tests/reference/tiny/llama --kv-dtype fp8_e4m3 "
                         ">/dev/null"),
                     0);
}
END_TEST

/* ---- a whole model ---- */

/* 100 tokens of noise: more than the window of the layers that slide, 64. */
static float *logits_of(int codec, size_t *count) {
    char ids[1024];
    int64_t shape[8];
    int rank, at = 0;
    sc_error err = { 0 };
    sc_tensors *dump;
    for (int i = 0; i < 100; i++)
        at +=
            snprintf(ids + at, sizeof ids - (size_t)at, "%s%d", i ? "," : "", (i * 37 + 11) % 1000);
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST run examples/austen --token-ids %s --max-new-tokens 1 "
                         "--ignore-eos --kv-dtype %s --dump " FOLDER "/dump.safetensors",
                         ids, codecs[codec]->name),
                     0);
    sc_pool *pool = sc_pool_create();
    ck_assert_msg(!sc_safetensors_open_file(&dump, pool, FOLDER "/dump.safetensors", &err), "%s",
                  err.message);
    float *logits = tensor_floats(dump, "logits", &rank, shape);
    ck_assert_int_eq(shape[1], 100);
    *count = (size_t)(shape[0] * shape[1] * shape[2]);
    sc_tensors_close(dump);
    sc_pool_destroy(pool);
    return logits;
}

/* Largest difference of a logit to the cache of float32, as a share of the largest logit: seen, and
 * the bound, twice that. */
static const double lost[CODECS][2] = {
    { 0, 0 },           /* float32 */
    { 0.0024, 0.005 },  /* bfloat16 */
    { 0.0003, 0.0006 }, /* float16 */
    { 0.0061, 0.0125 }, /* q8_0 */
    { 0.028, 0.057 },   /* fp8_e4m3 */
};

START_TEST(logits_stay_near_those_of_float32) {
    size_t count, other, worst;
    float *exact = logits_of(0, &count), *ours = logits_of(_i, &other);
    ck_assert_uint_eq(count, other);
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)exact[i]));
    const double off = largest_difference(exact, ours, count, &worst) / most;
    ck_assert_msg(off <= lost[_i][1] && off >= lost[_i][0] / 4,
                  "%s: logit %zu of token %zu is off by %g of the largest, seen were %g, the bound "
                  "is %g",
                  codecs[_i]->name, worst % 1024, worst / 1024, off, lost[_i][0], lost[_i][1]);
    free(exact);
    free(ours);
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    run_share_runtime();
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", FOLDER, FOLDER), 0);
    for (int i = 0; i < CODECS; i++)
        cast_codec(i);
}

Suite *kv_dtype_suite(void) {
    Suite *suite = suite_create("kv_dtype");
    TCase *headers = tcase_create("headers");
    tcase_set_timeout(headers, 120);
    tcase_add_loop_test(headers, every_half_means_what_the_standard_says, 0, 2);
    tcase_add_loop_test(headers, a_float_becomes_the_nearest_half, 0, 2);
#ifdef __FLT16_MAX__
    tcase_add_test(headers, halves_are_the_compiler_s);
#endif
    tcase_add_loop_test(headers, a_row_takes_the_bytes_that_it_should, 0, CODECS);
    tcase_add_loop_test(headers, a_row_comes_back_within_the_bound, 0, CODECS);
    tcase_add_loop_test(headers, zeros_come_back_as_zeros_and_the_extremes_as_they_are, 0, CODECS);
    tcase_add_test(headers, float32_keeps_every_bit);
    tcase_add_loop_test(headers, halves_are_kept_bit_for_bit, 0, 2);
    tcase_add_test(headers, q8_0_keeps_the_nearest_multiple_of_its_scale);
    tcase_add_test(headers, fp8_keeps_the_nearest_code_and_gives_its_value);
    tcase_add_test(headers, fp8_rounds_to_even);
    tcase_add_loop_test(headers, what_is_no_number_does_no_harm, 0, CODECS);
    suite_add_tcase(suite, headers);
    TCase *castings = tcase_create("castings");
    tcase_set_timeout(castings, 300);
    tcase_add_unchecked_fixture(castings, make_castings, NULL);
    tcase_add_loop_test(castings, a_casting_keeps_rows_as_its_header_does, 0, CODECS);
    tcase_add_loop_test(castings, the_plan_counts_the_bytes_of_the_dtype, 0, CODECS);
    tcase_add_test(castings, q8_0_wants_whole_blocks);
    tcase_add_loop_test(castings, logits_stay_near_those_of_float32, 0, CODECS);
    suite_add_tcase(suite, castings);
    return suite;
}
