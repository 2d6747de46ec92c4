/*
 * check_kernels_attention.c - attention of the device code on the host: keep and attention of a
 * prefill, attend of one token, against plain sums in double over all that a row was ever given.
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

Suite *kernels_attention_suite(void);

#define CONSTANT(name) device_code_constant(code, name)

enum { ROWS = 3, MOST = 512 }; /* rows of the batch that take part; positions */

/* What two rows at least hold, of which kind of pass: lengths differ, some are padded. */
typedef struct {
    int model, tokens;
    int batch; /* rows of the pass, of the cache the last ones */
    int64_t seen[ROWS], padding[ROWS];
} attention_case;

static const attention_case prefill_table[] = {
    { 0, 5, 1, { 0 }, { 0 } },
    { 0, 33, 1, { 30 }, { 3 } },
    { 1, 19, 3, { 0, 7, 150 }, { 5, 0, 33 } }, /* a padded row, longer ones */
    { 1, 90, 2, { 64, 1 }, { 2, 90 } },        /* padding beyond the first key block */
    { 2, 40, 2, { 0, 131 }, { 39, 1 } },
    { 3, 6, 3, { 0, 40, 65 }, { 2, 0, 1 } }, /* a ring before and behind its end */
    { 3, 37, 2, { 20, 300 }, { 0, 290 } },   /* it goes round within a pass */
    { 3, 70, 2, { 0, 25 }, { 3, 0 } },       /* and twice */
    { 4, 25, 2, { 19, 70 }, { 0, 4 } },
    { 4, 64, 2, { 0, 445 }, { 60, 0 } },
    { 5, 21, 1, { 100 }, { 7 } },
    { 5, 2, 1, { 0 }, { 1 } },
    { 6, 9, 3, { 0, 3, 50 }, { 1, 0, 50 } },
    { 7, 35, 1, { 60 }, { 0 } },
    { 8, 18, 2, { 40, 0 }, { 1, 17 } },
    { 9, 34, 3, { 30, 0, 31 }, { 0, 2, 31 } },
};

static const attention_case decode_table[] = {
    { 0, 1, 1, { 0 }, { 0 } },
    { 0, 1, 1, { 95 }, { 2 } }, /* two shares */
    { 1, 1, 3, { 0, 63, 299 }, { 0, 0, 17 } },
    { 1, 1, 3, { 2, 64, 128 }, { 5, 0, 1 } }, /* the first is still padding */
    { 2, 1, 2, { 199, 70 }, { 0, 69 } },
    { 3, 1, 3, { 10, 69, 400 }, { 0, 3, 396 } },
    { 3, 1, 2, { 23, 24 }, { 0, 0 } },
    { 4, 1, 2, { 19, 20 }, { 1, 0 } },
    { 4, 1, 2, { 500, 7 }, { 0, 7 } },
    { 5, 1, 1, { 139 }, { 0 } },
    { 5, 1, 1, { 15 }, { 3 } },
    { 6, 1, 3, { 63, 1, 20 }, { 0, 0, 20 } },
    { 7, 1, 1, { 129 }, { 3 } },
    { 8, 1, 3, { 69, 0, 64 }, { 0, 0, 0 } },
    { 9, 1, 3, { 69, 40, 3 }, { 30, 0, 4 } },
};

/* A cache and a pass, and all that its rows were ever given, as floats before they are kept. */
typedef struct {
    const device_code *code;
    const device_model *m;
    const attention_case *c;
    int64_t row[ROWS], slots, length, evicted, qkv_stride, attended_depth;
    void *step, *keys, *values, *evicted_keys, *evicted_values, *before[2];
    float *qkv, *q_norm, *k_norm, *angles;
    double *key, *value; /* [batch, kv_heads, MOST, head_dim], rounded as kept; this pass's too */
    double *query;       /* [batch, tokens, heads, head_dim] */
} scene;

static double *place(const scene *s, double *all, int b, int head, int64_t pos) {
    return all + ((b * s->m->kv_heads + head) * (int64_t)MOST + pos) * s->m->head_dim;
}

/* Norm and rope of one head, as LlamaRMSNorm and apply_rotary_pos_emb have them; norm may be NULL.
 */
static void prepare(const scene *s, double *x, const float *norm, int64_t pos) {
    const int dim = s->m->head_dim, pairs = dim / 2;
    double sum = 0;
    for (int i = 0; i < dim; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < dim && norm; i++)
        x[i] *= (double)norm[i] / sqrt(sum / dim + 1e-5);
    for (int i = 0; i < pairs; i++) {
        const double angle = (double)((float)pos * s->code->plan->graph->rope[0].inv_freq[i]);
        const double a = x[i], b = x[i + pairs];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + pairs] = b * cos(angle) + a * sin(angle);
    }
}

/* What the pass gives: heads of qkv, made ready and rounded. */
static void take_pass(scene *s) {
    const device_model *m = s->m;
    const bool norms = !strcmp(m->family, "qwen3");
    for (int b = 0; b < s->c->batch; b++)
        for (int t = 0; t < s->c->tokens; t++) {
            const int64_t pos = s->c->seen[b] + t, r = b * s->c->tokens + t;
            const int64_t relative = pos - s->c->padding[b];
            for (int head = 0; head < m->heads + 2 * m->kv_heads; head++) {
                const int kv_head = (head - m->heads) % m->kv_heads;
                const int kind = head < m->heads ? 0 : head < m->heads + m->kv_heads ? 1 : 2;
                double *to = kind == 0   ? s->query + (r * m->heads + head) * m->head_dim
                             : kind == 1 ? place(s, s->key, b, kv_head, pos)
                                         : place(s, s->value, b, kv_head, pos);
                for (int i = 0; i < m->head_dim; i++)
                    to[i] = (double)s->qkv[r * s->qkv_stride + head * m->head_dim + i];
                if (kind < 2)
                    prepare(s, to, norms ? kind ? s->k_norm : s->q_norm : NULL, relative);
                for (int i = 0; i < m->head_dim; i++)
                    to[i] = relative < 0 && kind ? 0 : device_round(m->kv, to[i]);
            }
        }
}

/* The cache as it was before the pass, and angles as embed makes them. */
static scene set_up(const attention_case *c, uint64_t seed) {
    const device_code *code = device_code_make(c->model);
    const device_model *m = code->model;
    scene s = { .code = code, .m = m, .c = c };
    const size_t size = device_bytes(m->kv);
    const int64_t rows = c->batch * c->tokens;
    uint64_t state = seed;
    for (int b = 0; b < c->batch; b++)
        s.row[b] = m->batch - 1 - b;
    s.slots = CONSTANT("SHAPE0_SLOTS");
    s.length = CONSTANT("SHAPE0_LENGTH");
    s.evicted = CONSTANT("SHAPE0_EVICTED");
    s.qkv_stride = CONSTANT("QKV_STRIDE");
    s.attended_depth = CONSTANT("ATTENDED_DEPTH");
    s.step =
        device_step(code, &(device_pass){ c->batch, c->tokens, s.row, c->seen, c->padding, NULL });
    const int64_t kept = m->batch * m->kv_heads * s.slots * m->head_dim;
    const int64_t aside = m->batch * m->kv_heads * s.evicted * m->head_dim;
    s.keys = device_alloc((size_t)kept * size);
    s.values = device_alloc((size_t)kept * size);
    s.evicted_keys = device_alloc((size_t)aside * size);
    s.evicted_values = device_alloc((size_t)aside * size);
    s.qkv = device_draw(SC_F32, rows * s.qkv_stride, 1.5, &state);
    s.q_norm = device_draw(SC_F32, m->head_dim, 1.5, &state);
    s.k_norm = device_draw(SC_F32, m->head_dim, 1.5, &state);
    s.angles = device_alloc((size_t)CONSTANT("ANGLES") * 4);
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < m->head_dim / 2; i++) {
            const int64_t b = r / c->tokens, pos = c->seen[b] + r % c->tokens - c->padding[b];
            const float angle = (float)pos * code->plan->graph->rope[0].inv_freq[i];
            s.angles[CONSTANT("ROPE0_COS") + r * (m->head_dim / 2) + i] = cosf(angle);
            s.angles[CONSTANT("ROPE0_SIN") + r * (m->head_dim / 2) + i] = sinf(angle);
        }
    const size_t all = (size_t)c->batch * (size_t)m->kv_heads * MOST * (size_t)m->head_dim;
    s.key = calloc(all, sizeof *s.key);
    s.value = calloc(all, sizeof *s.value);
    s.query = calloc((size_t)(rows * m->heads * m->head_dim), sizeof *s.query);
    for (int b = 0; b < c->batch; b++)
        for (int head = 0; head < m->kv_heads; head++)
            for (int64_t pos = 0; pos < c->seen[b]; pos++) {
                const int64_t slot =
                    ((s.row[b] * m->kv_heads + head) * s.slots + pos % s.slots) * m->head_dim;
                for (int i = 0; i < m->head_dim; i++) {
                    const bool there = pos >= c->padding[b];
                    double *key = place(&s, s.key, b, head, pos);
                    double *value = place(&s, s.value, b, head, pos);
                    key[i] = there ? device_round(m->kv, draw(&state, 2001) / 1000.0 - 1) : 0;
                    value[i] = there ? device_round(m->kv, draw(&state, 2001) / 1000.0 - 1) : 0;
                    device_put(s.keys, m->kv, slot + i, key[i]);
                    device_put(s.values, m->kv, slot + i, value[i]);
                }
            }
    s.before[0] = malloc((size_t)kept * size);
    s.before[1] = malloc((size_t)kept * size);
    memcpy(s.before[0], s.keys, (size_t)kept * size);
    memcpy(s.before[1], s.values, (size_t)kept * size);
    take_pass(&s);
    return s;
}

static void tear_down(scene *s) {
    void *const all[] = { s->step,      s->keys,   s->values, s->evicted_keys, s->evicted_values,
                          s->qkv,       s->q_norm, s->k_norm, s->angles,       s->before[0],
                          s->before[1], s->key,    s->value,  s->query };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* How far a kept key or value may be off: its last bit. */
static double kept_bound(sc_dtype kv, double x) {
    return fabs(x) * (kv == SC_F32 ? 1e-6 : kv == SC_F16 ? 1e-3 : 8e-3) + 2e-6;
}

/* Every slot holds the last position that it was given; nothing else has changed. */
static void check_kept(const scene *s) {
    const device_model *m = s->m;
    const size_t size = device_bytes(m->kv);
    for (int64_t r = 0; r < m->batch * m->kv_heads * s->slots; r++) {
        const int64_t slot = r % s->slots, row = r / s->slots / m->kv_heads;
        const int head = (int)(r / s->slots % m->kv_heads);
        int64_t given = -1; /* the position that the pass put there */
        int batch = 0;
        for (int b = 0; b < s->c->batch; b++)
            for (int t = 0; t < s->c->tokens && s->row[b] == row; t++)
                if ((s->c->seen[b] + t) % s->slots == slot)
                    given = s->c->seen[b] + t, batch = b;
        for (int i = 0; i < m->head_dim && given >= 0; i++) {
            const double key = place(s, s->key, batch, head, given)[i];
            const double value = place(s, s->value, batch, head, given)[i];
            device_compare("keys", r, device_get(s->keys, m->kv, r * m->head_dim + i), key,
                           kept_bound(m->kv, key));
            device_compare("values", r, device_get(s->values, m->kv, r * m->head_dim + i), value,
                           0);
        }
        const size_t from = (size_t)(r * m->head_dim) * size, bytes = (size_t)m->head_dim * size;
        if (given < 0) {
            ck_assert_mem_eq((char *)s->keys + from, (char *)s->before[0] + from, bytes);
            ck_assert_mem_eq((char *)s->values + from, (char *)s->before[1] + from, bytes);
        }
    }
}

/* What a ring drove out although the pass still sees it, oldest first. */
static void check_evicted(const scene *s) {
    const device_model *m = s->m;
    for (int b = 0; b < s->c->batch && s->evicted; b++)
        for (int head = 0; head < m->kv_heads; head++) {
            const int64_t seen = s->c->seen[b], end = seen + s->c->tokens;
            const int64_t first = seen - s->length + 1 > 0 ? seen - s->length + 1 : 0;
            const int64_t to = (s->row[b] * m->kv_heads + head) * s->evicted * m->head_dim;
            for (int64_t pos = first; pos < end - s->slots; pos++)
                for (int i = 0; i < m->head_dim; i++) {
                    const int64_t at_i = to + (pos - first) * m->head_dim + i;
                    const double key = place(s, s->key, b, head, pos)[i];
                    device_compare("evicted keys", pos, device_get(s->evicted_keys, m->kv, at_i),
                                   key, kept_bound(m->kv, key));
                    device_compare("evicted values", pos,
                                   device_get(s->evicted_values, m->kv, at_i),
                                   place(s, s->value, b, head, pos)[i], 0);
                }
        }
}

/* One query over all that it sees: sum [head_dim]; the sum of |weight * value| bounds it. */
static void attend_plainly(const scene *s, int b, int token, int head, double *sum,
                           double *magnitude) {
    const device_model *m = s->m;
    const int64_t pos = s->c->seen[b] + token;
    const double *query =
        s->query + ((b * s->c->tokens + token) * m->heads + head) * (int64_t)m->head_dim;
    const int kv_head = head / (m->heads / m->kv_heads);
    int64_t first = s->c->padding[b];
    if (m->window && pos - m->window + 1 > first)
        first = pos - m->window + 1;
    double total = 0, top = -INFINITY, score[MOST];
    for (int64_t k = first; k <= pos; k++) {
        score[k] = 0;
        for (int i = 0; i < m->head_dim; i++)
            score[k] += query[i] * place(s, s->key, b, kv_head, k)[i];
        score[k] /= sqrt(m->head_dim);
        top = fmax(top, score[k]);
    }
    for (int i = 0; i < m->head_dim; i++)
        sum[i] = magnitude[i] = 0;
    for (int64_t k = first; k <= pos; k++) {
        const double weight = exp(score[k] - top);
        total += weight;
        for (int i = 0; i < m->head_dim; i++) {
            const double term = weight * place(s, s->value, b, kv_head, k)[i];
            sum[i] += term;
            magnitude[i] += fabs(term);
        }
    }
    for (int i = 0; i < m->head_dim && total > 0; i++) {
        sum[i] /= total;
        magnitude[i] /= total;
    }
}

/* Weights are rounded to the cache's dtype, and q and k perhaps the other way; the outcome to the
 * operands'. */
static void check_attended(const scene *s, const void *attended) {
    const device_model *m = s->m;
    const double relative = m->kv == SC_F32 ? 1e-5 : m->kv == SC_F16 ? 2e-3 : 1.6e-2;
    const double bit = m->dtype == SC_F32 ? 2e-7 : m->dtype == SC_F16 ? 1e-3 : 8e-3;
    double sum[256], magnitude[256];
    for (int b = 0; b < s->c->batch; b++)
        for (int t = 0; t < s->c->tokens; t++) {
            const int64_t row = (b * s->c->tokens + t) * s->attended_depth;
            for (int head = 0; head < m->heads; head++) {
                attend_plainly(s, b, t, head, sum, magnitude);
                for (int i = 0; i < m->head_dim; i++) {
                    const int64_t at_i = row + head * m->head_dim + i;
                    device_compare("attended", at_i, device_get(attended, m->dtype, at_i), sum[i],
                                   relative * magnitude[i] + bit * fabs(sum[i]) +
                                       (magnitude[i] > 0 ? 1e-6 : 0));
                }
            }
        }
}

static const float *key_heads(const scene *s) { return s->qkv + s->m->heads * s->m->head_dim; }
static const float *value_heads(const scene *s) {
    return key_heads(s) + s->m->kv_heads * s->m->head_dim;
}

START_TEST(a_prefill_attends_to_all_that_it_sees) {
    scene s = set_up(&prefill_table[_i], 21 + (uint64_t)_i);
    const device_code *code = s.code;
    const device_model *m = s.m;
    const int64_t rows = s.c->batch * s.c->tokens;
    const int64_t q_count = rows * m->heads * m->head_dim;
    const int64_t group = CONSTANT("ATTENTION0_GROUP"), queries = CONSTANT("ATTENTION0_QUERIES");
    ck_assert_int_le(s.c->tokens, CONSTANT("DEVICE_BLOCK"));
    void *q = device_alloc((size_t)q_count * device_bytes(m->kv));
    void *attended = device_alloc((size_t)(rows * s.attended_depth) * device_bytes(m->dtype));
    LAUNCH(code, "keep0_kernel", rows + 1, CONSTANT("KEEP0_GRID"), CONSTANT("ROW_THREADS"),
           (word)_i, at(s.step), at(s.qkv), at(key_heads(&s)), at(value_heads(&s)), at(s.q_norm),
           at(s.k_norm), at(s.angles), at(s.keys), at(s.values), at(s.evicted_keys),
           at(s.evicted_values), at(q));
    check_kept(&s);
    check_evicted(&s);
    for (int64_t i = 0; i < q_count; i++)
        device_compare("q", i, device_get(q, m->kv, i), s.query[i], kept_bound(m->kv, s.query[i]));
    LAUNCH(code, "attention0_kernel", (s.c->tokens * group + queries - 1) / queries,
           s.c->batch * CONSTANT("ATTEND0_HEADS"), CONSTANT("ATTENTION_THREADS"), (word)_i,
           at(s.step), at(q), at(s.keys), at(s.values), at(s.evicted_keys), at(s.evicted_values),
           at(attended));
    check_attended(&s, attended);
    free(q);
    free(attended);
    tear_down(&s);
}
END_TEST

/* Run twice: counters are as before. The order of blocks must not show. */
START_TEST(one_token_attends_to_all_that_it_sees) {
    scene s = set_up(&decode_table[_i], 99 + (uint64_t)_i);
    const device_code *code = s.code;
    const size_t bytes = (size_t)(s.c->batch * s.attended_depth) * device_bytes(s.m->dtype);
    float *partial = device_alloc((size_t)CONSTANT("PARTIAL") * 4);
    unsigned *arrived = device_alloc((size_t)CONSTANT("ARRIVED") * 4);
    memset(arrived, 0, (size_t)CONSTANT("ARRIVED") * 4);
    void *attended[3];
    for (int turn = 0; turn < 3; turn++) {
        attended[turn] = device_alloc(bytes);
        LAUNCH(code, "attend0_kernel", CONSTANT("ATTEND0_SPLITS"),
               s.m->batch * CONSTANT("ATTEND0_HEADS"), CONSTANT("ATTEND_THREADS"),
               (word)(turn * 31), at(s.step), at(s.qkv), at(key_heads(&s)), at(value_heads(&s)),
               at(s.q_norm), at(s.k_norm), at(s.angles), at(s.keys), at(s.values), at(partial),
               at(arrived), at(attended[turn]));
        check_kept(&s);
        for (int64_t i = 0; i < CONSTANT("ARRIVED"); i++)
            ck_assert_uint_eq(arrived[i], 0);
        ck_assert_mem_eq(attended[turn], attended[0], bytes);
    }
    check_attended(&s, attended[0]);
    for (int turn = 0; turn < 3; turn++)
        free(attended[turn]);
    free(partial);
    free(arrived);
    tear_down(&s);
}
END_TEST

static void make_all(void) {
    for (int i = 0; i < DEVICE_MODELS; i++)
        device_code_make(i);
}

Suite *kernels_attention_suite(void) {
    Suite *suite = suite_create("kernels_attention");
    if (*cast_sanitize) { /* minutes of compilers and fibers: without sanitizers alone */
        printf("kernels_attention: left out under sanitizers\n");
        return suite;
    }
    if (!kernels_available("kernels_attention"))
        return suite;
    TCase *tcase = tcase_create("attention");
    tcase_add_unchecked_fixture(tcase, make_all, NULL);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_prefill_attends_to_all_that_it_sees, 0,
                        sizeof prefill_table / sizeof *prefill_table);
    tcase_add_loop_test(tcase, one_token_attends_to_all_that_it_sees, 0,
                        sizeof decode_table / sizeof *decode_table);
    suite_add_tcase(suite, tcase);
    return suite;
}
