/*
 * check_kernels.c - device code on the host, kernel by kernel, against plain sums in double:
 * everything but attention (check_kernels_attention.c). Each test runs on every model of
 * support/device_code.c, buffers of exactly their size, poisoned.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/device_code.h"
#include "support/draw.h"
#include "support/kernels.h"

Suite *kernels_suite(void);

#define CONSTANT(name) device_code_constant(code, name)

static const double eps = 1e-5; /* of the models' norms */

/* Of a sum, relative to the sum of its terms' magnitudes: floats add up in another order; a half
 * that is rounded the other way is one term's last bit. */
static double relative(sc_dtype dtype) {
    return dtype == SC_F32 ? 2e-6 : dtype == SC_F16 ? 2e-4 : 1.5e-3;
}

/* Of a number that is rounded to the dtype, besides what its sum is off. */
static double last_bit(sc_dtype dtype, double x) {
    return fabs(x) * (dtype == SC_F32 ? 2e-7 : dtype == SC_F16 ? 1e-3 : 8e-3) + 1e-7;
}

/* Rows 0 … batch - 1 that hold nothing. */
static void *plain_step(const device_code *code, int batch, int tokens) {
    int64_t row[16] = { 0 }, zero[16] = { 0 };
    for (int b = 0; b < batch; b++)
        row[b] = b;
    return device_step(code, &(device_pass){ batch, tokens, row, zero, zero, NULL });
}

START_TEST(embed_takes_rows_and_angles) {
    const device_code *code = device_code_make(_i);
    const device_model *m = code->model;
    enum { TOKENS = 3 };
    uint64_t state = 11;
    int64_t row[16], seen[16], padding[16];
    int32_t ids[16 * TOKENS];
    for (int b = 0; b < m->batch; b++) {
        row[b] = m->batch - 1 - b;
        seen[b] = b % 2 ? 0 : 40 + 1000 * b;
        padding[b] = b % 2 ? 2 : 5;
    }
    for (int i = 0; i < m->batch * TOKENS; i++)
        ids[i] = draw(&state, m->vocab);
    const int64_t depth = CONSTANT("HIDDEN_DEPTH"), stride = CONSTANT("X_STRIDE");
    const int64_t pairs = CONSTANT("ROPE0_PAIRS"), rows = CONSTANT("DEVICE_ROWS");
    void *step = device_step(code, &(device_pass){ m->batch, TOKENS, row, seen, padding, ids });
    void *embed = device_draw(m->dtype, m->vocab * depth, 1, &state);
    float *x = device_alloc((size_t)(rows * stride) * 4);
    float *angles = device_alloc((size_t)CONSTANT("ANGLES") * 4);
    LAUNCH(code, "embed_kernel", rows, 1, CONSTANT("ROW_THREADS"), 3, at(step), at(embed), at(x),
           at(angles));
    for (int r = 0; r < m->batch * TOKENS; r++) {
        const int64_t pos = seen[r / TOKENS] + r % TOKENS - padding[r / TOKENS];
        for (int i = 0; i < m->hidden; i++)
            device_compare("x", r * stride + i, (double)x[r * stride + i],
                           device_get(embed, m->dtype, (pos < 0 ? 0 : ids[r]) * depth + i), 0);
        for (int i = 0; i < pairs; i++) {
            const double angle = (double)((float)pos * code->plan->graph->rope[0].inv_freq[i]);
            const int64_t at_cos = CONSTANT("ROPE0_COS") + r * pairs + i;
            const int64_t at_sin = CONSTANT("ROPE0_SIN") + r * pairs + i;
            device_compare("cos", at_cos, (double)angles[at_cos], cos(angle), 2e-7);
            device_compare("sin", at_sin, (double)angles[at_sin], sin(angle), 2e-7);
        }
    }
    free(step);
    free(embed);
    free(x);
    free(angles);
}
END_TEST

static double norm_scale(const float *x, int width) {
    double sum = 0;
    for (int i = 0; i < width; i++)
        sum += (double)x[i] * (double)x[i];
    return 1 / sqrt(sum / width + eps);
}

/* What lies behind a row's width is what open has left there: nothing is written to it. */
static void check_untouched(const char *what, const void *rows, sc_dtype dtype, int64_t first,
                            int64_t end) {
    const unsigned char *bytes = rows;
    const size_t size = device_bytes(dtype);
    for (size_t i = (size_t)first * size; i < (size_t)end * size; i++)
        ck_assert_msg(bytes[i] == 0xff, "%s: byte %zu is written", what, i);
}

START_TEST(rows_norm_rows) {
    const device_code *code = device_code_make(_i);
    const device_model *m = code->model;
    enum { TOKENS = 3 };
    uint64_t state = 12;
    const int64_t depth = CONSTANT("NORMED_DEPTH"), stride = CONSTANT("X_STRIDE");
    const size_t step_bytes = (size_t)(2 + 3 * m->batch) * 8;
    unsigned char *scratch = device_alloc(code->plan->device.scratch_bytes);
    const int64_t row[16] = { 0 }, zero[16] = { 0 };
    void *step = device_step(code, &(device_pass){ 1, TOKENS, row, zero, zero, NULL });
    float *drawn = device_draw(SC_F32, TOKENS * stride, 3, &state);
    float *x = (float *)(void *)(scratch + CONSTANT("X_AT"));
    float *w = device_draw(SC_F32, m->hidden, 1, &state);
    memcpy(scratch + CONSTANT("STEP_AT"), step, step_bytes);
    memcpy(x, drawn, (size_t)(TOKENS * stride) * sizeof *x);
    LAUNCH(code, "rows0_kernel", TOKENS + 2, 1, CONSTANT("ROW_THREADS"), 5, at(scratch), at(w));
    const unsigned char *normed = scratch + CONSTANT("NORMED_AT");
    for (int r = 0; r < TOKENS; r++) {
        const double scale = norm_scale(x + r * stride, m->hidden);
        for (int i = 0; i < m->hidden; i++) {
            const double wanted = (double)x[r * stride + i] * scale * (double)w[i];
            device_compare("normed", i, device_get(normed, m->dtype, r * depth + i), wanted,
                           last_bit(m->dtype, wanted));
        }
        check_untouched("normed", normed, m->dtype, r * depth + m->hidden, (r + 1) * depth);
    }
    check_untouched("normed", normed, m->dtype, TOKENS * depth, (TOKENS + 1) * depth);
    free(scratch);
    free(step);
    free(drawn);
    free(w);
}
END_TEST

static double silu(double x) { return x / (1 + exp(-x)); }

/* One linear of decode. */
typedef struct {
    const char *kernel, *grid;
    int in, out;
    int64_t depth, x_step, y_stride;
    bool normed, gated, add, bias;
} linear;

typedef struct {
    double sum, magnitude; /* of its terms */
} dot;

/* Output `row` of W for x, operands as doubles. */
static dot multiply(const device_model *m, const linear *l, const void *w, const float *bias,
                    const double *x, int64_t row) {
    dot d = { 0, 0 };
    for (int i = 0; i < l->in; i++) {
        const double term = device_get(w, m->dtype, row * l->depth + i) * x[i];
        d.sum += term;
        d.magnitude += fabs(term);
    }
    if (bias)
        d.sum += (double)bias[row];
    d.magnitude += fabs(d.sum);
    return d;
}

static void check_linear(const device_code *code, const linear *l, int batch, uint64_t *state) {
    const device_model *m = code->model;
    const sc_dtype x_type = l->normed ? SC_F32 : m->dtype, y_type = l->gated ? m->dtype : SC_F32;
    const int rows = l->gated ? 2 * l->out : l->out;
    void *step = plain_step(code, batch, 1);
    void *x = device_draw(x_type, batch * l->x_step, 2, state);
    float *norm = device_draw(SC_F32, m->hidden, 1, state);
    void *w = device_draw(m->dtype, rows * l->depth, 1, state);
    for (int row = 0; row < rows; row++)
        for (int64_t i = l->in; i < l->depth; i++)
            device_put(w, m->dtype, row * l->depth + i, 0);
    float *bias = l->bias ? device_draw(SC_F32, rows, 1, state) : NULL;
    const int64_t outputs = batch * l->y_stride;
    void *y = l->add ? device_draw(SC_F32, outputs, 1, state)
                     : device_alloc((size_t)outputs * device_bytes(y_type));
    float *before = calloc((size_t)outputs, sizeof *before);
    for (int64_t i = 0; l->add && i < outputs; i++)
        before[i] = ((float *)y)[i];
    LAUNCH(code, l->kernel, CONSTANT(l->grid), 1, CONSTANT("DECODE_THREADS"),
           (word)(batch == 1 ? 0 : 9), at(step), at(x), (word)l->x_step, l->normed ? at(norm) : 0,
           at(w), at(bias), at(y));
    double *operands = calloc((size_t)l->in, sizeof *operands);
    for (int b = 0; b < batch; b++) {
        const double scale = l->normed ? norm_scale((float *)x + b * l->x_step, l->in) : 1;
        for (int i = 0; i < l->in; i++) {
            const double one = device_get(x, x_type, b * l->x_step + i);
            operands[i] = l->normed ? device_round(m->dtype, one * scale * (double)norm[i]) : one;
        }
        for (int o = 0; o < l->out; o++) {
            dot d = multiply(m, l, w, bias, operands, o);
            double bound = d.magnitude * relative(l->normed ? m->dtype : SC_F32);
            if (l->gated) {
                const dot up = multiply(m, l, w, bias, operands, l->out + o);
                bound = bound * 1.1 * fabs(up.sum) +
                        up.magnitude * relative(m->dtype) * fabs(silu(d.sum));
                d.sum = silu(d.sum) * up.sum;
                bound += last_bit(m->dtype, d.sum);
            }
            device_compare(l->kernel, b * l->y_stride + o,
                           device_get(y, y_type, b * l->y_stride + o),
                           d.sum + (double)before[b * l->y_stride + o], bound + 1e-6);
        }
        if (l->gated)
            check_untouched("ffn", y, y_type, b * l->y_stride + l->out, (b + 1) * l->y_stride);
    }
    free(step);
    free(x);
    free(norm);
    free(w);
    free(bias);
    free(y);
    free(before);
    free(operands);
}

START_TEST(linears_of_decode_multiply) {
    const device_code *code = device_code_make(_i);
    const device_model *m = code->model;
    if (m->batch > CONSTANT("DECODE_ROWS"))
        return;
    uint64_t state = 13;
    const int64_t hidden = CONSTANT("X_STRIDE");
    const int attended = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const linear all[] = {
        { "qkv_proj0_kernel", "qkv_proj0_GRID", m->hidden, attended + 2 * kv,
          CONSTANT("qkv_proj0_DEPTH"), hidden, CONSTANT("QKV_STRIDE"), true, false, false,
          m->bias },
        { "o_proj0_kernel", "o_proj0_GRID", attended, m->hidden, CONSTANT("o_proj0_DEPTH"),
          CONSTANT("ATTENDED_DEPTH"), hidden, false, false, true, m->bias },
        { "gate_up_proj0_kernel", "gate_up_proj0_GRID", m->hidden, m->ffn,
          CONSTANT("gate_up_proj0_DEPTH"), hidden, CONSTANT("FFN_DEPTH"), true, true, false,
          m->bias },
        { "down_proj0_kernel", "down_proj0_GRID", m->ffn, m->hidden, CONSTANT("down_proj0_DEPTH"),
          CONSTANT("FFN_DEPTH"), hidden, false, false, true, m->bias },
        /* The last of three tokens of every row. */
        { "lm_head_kernel", "lm_head_GRID", m->hidden, m->vocab, CONSTANT("lm_head_DEPTH"),
          3 * hidden, m->vocab, true, false, false, false },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_linear(code, &all[i], 1, &state);
        if (m->batch > 1)
            check_linear(code, &all[i], m->batch, &state);
    }
}
END_TEST

START_TEST(end_multiplies_halves_of_a_row) {
    const device_code *code = device_code_make(_i);
    const device_model *m = code->model;
    enum { ROWS = 3 };
    uint64_t state = 14;
    const int64_t stride = CONSTANT("SUMS_STRIDE"), depth = CONSTANT("FFN_DEPTH");
    const int64_t columns = CONSTANT("END_COLUMNS");
    float *sums = device_draw(SC_F32, ROWS * stride, 8, &state);
    float *bias = m->bias ? device_draw(SC_F32, 2 * m->ffn, 1, &state) : NULL;
    void *ffn = device_alloc((size_t)(ROWS * depth) * device_bytes(m->dtype));
    LAUNCH(code, "end_gate_up_proj0_kernel", ROWS + 1, (m->ffn + columns - 1) / columns,
           CONSTANT("ROW_THREADS"), 1, at(sums), at(bias), at(ffn), ROWS);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < m->ffn; i++) {
            const float *sum = sums + r * stride;
            const double gate = (double)sum[i] + (bias ? (double)bias[i] : 0);
            const double up = (double)sum[m->ffn + i] + (bias ? (double)bias[m->ffn + i] : 0);
            const double wanted = silu(gate) * up;
            device_compare("ffn", r * depth + i, device_get(ffn, m->dtype, r * depth + i), wanted,
                           last_bit(m->dtype, wanted) + fabs(wanted) * 4e-7 + fabs(up) * 1e-6);
        }
        check_untouched("ffn", ffn, m->dtype, r * depth + m->ffn, (r + 1) * depth);
    }
    free(sums);
    free(bias);
    free(ffn);
}
END_TEST

START_TEST(bias_is_added_to_rows) {
    const device_code *code = device_code_make(0);
    enum { ROWS = 3, STRIDE = 700, WIDTH = 613 };
    uint64_t state = 15;
    float *y = device_draw(SC_F32, ROWS * STRIDE, 1, &state), before[ROWS * STRIDE];
    float *bias = device_draw(SC_F32, WIDTH, 1, &state);
    memcpy(before, y, sizeof before);
    LAUNCH(code, "bias_kernel", ROWS + 1, 1, CONSTANT("ROW_THREADS"), 1, at(y), STRIDE, at(bias),
           WIDTH, ROWS);
    for (int i = 0; i < ROWS * STRIDE; i++)
        ck_assert_float_eq(y[i], i % STRIDE < WIDTH ? before[i] + bias[i % STRIDE] : before[i]);
    free(y);
    free(bias);
}
END_TEST

/* What logits are made of, beside one that is highest: its places and the id that is wanted. */
static const struct {
    int first, second; /* -1: none */
    int wanted;
    float fill, top;
} pick_table[] = {
    { 0, -1, 0, -1, 2 },          { 49, -1, 49, -3, -2 },      /* all below 0 */
    { 33, 7, 7, 0, 1 },                                        /* equals: the lower one */
    { 36, 4, 4, 0, 1 },                                        /* of one thread's neighbours */
    { 12, 12, 0, 5, 5 },                                       /* all are equal */
    { 20, -1, 20, -INFINITY, 0 }, { -1, -1, 0, -INFINITY, 0 }, /* none is above -infinity */
};

START_TEST(pick_takes_the_first_of_the_highest) {
    const device_code *code = device_code_make(3); /* vocab 50, batch 3 */
    const int vocab = code->model->vocab, batch = code->model->batch;
    float *logits = device_alloc((size_t)(batch * vocab) * 4);
    int32_t *ids = device_alloc((size_t)batch * 4);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < vocab; i++) {
            const bool top = b == 1 && (i == pick_table[_i].first || i == pick_table[_i].second);
            logits[b * vocab + i] = b != 1 ? (float)(b * i)
                                    : top  ? pick_table[_i].top
                                           : pick_table[_i].fill;
        }
    void *step = plain_step(code, batch, 1);
    LAUNCH(code, "pick_kernel", batch, 1, CONSTANT("PICK_THREADS"), 4, at(step), at(logits),
           at(ids));
    ck_assert_int_eq(ids[0], 0);
    ck_assert_int_eq(ids[1], pick_table[_i].wanted);
    ck_assert_int_eq(ids[2], vocab - 1);
    free(logits);
    free(ids);
    free(step);
}
END_TEST

static const struct {
    int model; /* of three dtypes */
    int in, first_panel, panels;
    bool gated;
    int out_a, out_b; /* of all panels; the last one is not full */
} unpack_table[] = {
    { 0, 64, 0, 2, false, 64, 0 },  { 0, 3, 0, 1, false, 5, 0 },   { 1, 137, 0, 3, false, 70, 0 },
    { 1, 130, 1, 2, false, 70, 0 }, { 1, 96, 0, 2, true, 27, 27 }, { 0, 65, 1, 1, true, 30, 30 },
    { 2, 100, 0, 3, true, 40, 40 }, { 2, 31, 2, 1, false, 90, 0 },
};

/* Where output row of all lies in the panels of NAME.weights; -1: not in those that are staged. */
static int64_t packed_place(const device_code *code, int test, int row, int i) {
    const int64_t panel = CONSTANT("PANEL"), run = CONSTANT("RUN"), half = panel / 2;
    const int64_t depth = (unpack_table[test].in + run - 1) / run * run;
    const int a = unpack_table[test].out_a;
    int64_t number = row / panel, lane = row % panel;
    if (unpack_table[test].gated) {
        const int64_t part_row = row < a ? row : row - a;
        number = part_row / half;
        lane = part_row % half + (row < a ? 0 : half);
    }
    number -= unpack_table[test].first_panel;
    if (number < 0 || number >= unpack_table[test].panels)
        return -1;
    return number * depth * panel + (i / run * panel + lane) * run + i % run;
}

START_TEST(unpack_makes_rows_of_panels) {
    const device_code *code = device_code_make(unpack_table[_i].model);
    const sc_dtype dtype = code->model->dtype;
    const int in = unpack_table[_i].in, a = unpack_table[_i].out_a, b = unpack_table[_i].out_b;
    const int64_t load = 16 / (int64_t)device_bytes(dtype), depth = (in + load - 1) / load * load;
    const int64_t run = CONSTANT("RUN"), columns = CONSTANT("UNPACK_COLUMNS");
    uint64_t state = 16;
    void *packed = device_draw(
        dtype, unpack_table[_i].panels * CONSTANT("PANEL") * ((in + run - 1) / run * run), 1,
        &state);
    unsigned char *rows = device_alloc((size_t)((a + b) * depth) * device_bytes(dtype));
    LAUNCH(code, "unpack_kernel", unpack_table[_i].panels, (depth + columns - 1) / columns,
           CONSTANT("UNPACK_THREADS"), 2, at(packed), at(rows), (word)unpack_table[_i].first_panel,
           (word)unpack_table[_i].panels, (word)in, (word)depth, unpack_table[_i].gated, (word)a,
           (word)b);
    const size_t size = device_bytes(dtype);
    for (int row = 0; row < a + b; row++)
        for (int i = 0; i < depth; i++) {
            static const unsigned char zero[4], poison[4] = { 255, 255, 255, 255 };
            const int64_t place = packed_place(code, _i, row, i < in ? i : 0);
            const unsigned char *wanted = place < 0 ? poison
                                          : i >= in
                                              ? zero
                                              : (unsigned char *)packed + (size_t)place * size;
            ck_assert_msg(!memcmp(rows + (size_t)(row * depth + i) * size, wanted, size),
                          "row %d, input %d", row, i);
        }
    free(packed);
    free(rows);
}
END_TEST

/* Models with an offloaded cache, the pass, and what of row 0 was seen. */
static const struct {
    int model, tokens, seen;
} write_back_table[] = { { 3, 1, 0 }, { 3, 5, 66 }, { 3, 40, 7 }, { 4, 7, 17 }, { 4, 1, 500 } };

START_TEST(write_back_brings_home_what_the_pass_gave) {
    const device_code *code = device_code_make(write_back_table[_i].model);
    const device_model *m = code->model;
    const int64_t slots = CONSTANT("SHAPE0_SLOTS"),
                  count = m->batch * m->kv_heads * slots * m->head_dim;
    const int64_t row[] = { m->batch - 1, 0 }, seen[] = { write_back_table[_i].seen, 2 };
    const int64_t padding[] = { 0, 1 };
    const size_t size = device_bytes(m->kv);
    uint64_t state = 17;
    unsigned char *from[2], *home[2];
    for (int i = 0; i < 2; i++) {
        from[i] = device_draw(m->kv, count, 1, &state);
        home[i] = device_alloc((size_t)count * size);
    }
    void *step = device_step(
        code, &(device_pass){ 2, write_back_table[_i].tokens, row, seen, padding, NULL });
    LAUNCH(code, "write_back0_kernel", 2 * m->kv_heads, 1, CONSTANT("ROW_THREADS"), 8, at(step),
           at(from[0]), at(from[1]), at(home[0]), at(home[1]));
    bool *given = calloc((size_t)(m->batch * slots), sizeof *given);
    for (int b = 0; b < 2; b++)
        for (int64_t t = 0; t < write_back_table[_i].tokens; t++)
            given[row[b] * slots + (seen[b] + t) % slots] = true;
    for (int64_t i = 0; i < count; i++) {
        static const unsigned char poison[4] = { 255, 255, 255, 255 };
        const int64_t slot = i / m->head_dim % slots, r = i / m->head_dim / slots / m->kv_heads;
        for (int k = 0; k < 2; k++)
            ck_assert_msg(!memcmp(home[k] + (size_t)i * size,
                                  given[r * slots + slot] ? from[k] + (size_t)i * size : poison,
                                  size),
                          "row %d, slot %d", (int)r, (int)slot);
    }
    free(given);
    free(step);
    for (int i = 0; i < 2; i++) {
        free(from[i]);
        free(home[i]);
    }
}
END_TEST

static void make_all(void) {
    for (int i = 0; i < DEVICE_MODELS; i++)
        device_code_make(i);
}

Suite *kernels_suite(void) {
    Suite *suite = suite_create("kernels");
    if (*cast_sanitize) { /* minutes of compilers and fibers: without sanitizers alone */
        printf("kernels: left out under sanitizers\n");
        return suite;
    }
    if (!kernels_available("kernels"))
        return suite;
    TCase *tcase = tcase_create("kernels");
    tcase_add_unchecked_fixture(tcase, make_all, NULL);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, embed_takes_rows_and_angles, 0, DEVICE_MODELS);
    tcase_add_loop_test(tcase, rows_norm_rows, 0, DEVICE_MODELS);
    tcase_add_loop_test(tcase, linears_of_decode_multiply, 0, DEVICE_MODELS);
    tcase_add_loop_test(tcase, end_multiplies_halves_of_a_row, 0, DEVICE_MODELS);
    tcase_add_test(tcase, bias_is_added_to_rows);
    tcase_add_loop_test(tcase, pick_takes_the_first_of_the_highest, 0,
                        sizeof pick_table / sizeof *pick_table);
    tcase_add_loop_test(tcase, unpack_makes_rows_of_panels, 0,
                        sizeof unpack_table / sizeof *unpack_table);
    tcase_add_loop_test(tcase, write_back_brings_home_what_the_pass_gave, 0,
                        sizeof write_back_table / sizeof *write_back_table);
    suite_add_tcase(suite, tcase);
    return suite;
}
