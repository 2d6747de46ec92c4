{{! model.c - the forward pass: one function per operation and shape, layers in order. }}
/*
 * {{name}}_model.c - the forward pass of {{name}} ({{family}}), every extent a constant.
 *
 * All threads run `work` side by side; each operation splits its outputs between them and a barrier
 * follows. An output is always one sum over its inputs in rising order, so its bits depend neither
 * on the number of threads nor on how many tokens are fed at once.
 */
{{^cuda}}
#include "{{name}}_internal.h"
{{/cuda}}
{{#cuda}}
#include "{{name}}_cuda.h"
{{/cuda}}

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "{{name}}_weights.h"
#include "runtime/cpu.h"
#include "runtime/threads.h"
#include "runtime/{{vector}}"
#include "runtime/weights.h"

#define API __attribute__((visibility("default")))

/* One packed weight, {{dtype}}, and what it is multiplied with. */
typedef {{weight_ctype}} weight;
typedef {{operand_ctype}} operand;

/* Rows of scratch are padded to whole panels, and by a cache line so that rows do not collide. */
enum {
    HIDDEN = {{hidden}},
    HIDDEN_DEPTH = {{hidden_depth}}, /* as packed */
    VOCAB = {{vocab}},
    BLOCK = {{block}}, /* tokens per row of the batch that one pass takes */
    ROWS = BATCH * BLOCK,
{{#values}}
    {{macro}}_STRIDE = {{stride}},
{{/values}}
{{#has_attention}}
    ATTENTION_DIM = {{attention_dim}}, /* widest head, in whole panels */
    ATTENTION_QUERIES = {{attention_queries}},
{{#has_index}}
    INDEX_STRIDE = {{index_stride}}, /* max_cache_len in whole panels, and one that is read over */
{{/has_index}}
    STEP_KV = {{step_kv}}, /* rows of K that a step stages */
{{/has_attention}}
{{#has_experts}}
    MOST_EXPERTS = {{most_experts}},
    CHOICES = ROWS * {{most_chosen}}, /* of a pass */
    EXPERT_STRIDE = {{expert_stride}},
    EXPERT_X_STRIDE = {{expert_x_stride}},
{{/has_experts}}
};
{{#ropes}}

/* {{rope_type}} rope, base {{rope_theta}}: angle of pair i at position p is p * inv_freq[i]. */
enum { ROPE{{id}}_PAIRS = {{pairs}} };
static const float rope{{id}}_inv_freq[ROPE{{id}}_PAIRS] = {
{{#rows}}
    {{numbers}}
{{/rows}}
};
{{#switches}}
/* The same for tokens from position ROPE{{id}}_LONG on. */
enum { ROPE{{id}}_LONG = {{long_from}} };
static const float rope{{id}}_long_freq[ROPE{{id}}_PAIRS] = {
{{#long_rows}}
    {{numbers}}
{{/long_rows}}
};
{{/switches}}
{{#grows}}
/* Tokens from position ROPE{{id}}_LONG on turn slower, each by its own position. */
enum { ROPE{{id}}_LONG = {{long_from}} };

/* What the base of such a token's angles has grown by, raised to 1 - 2 / (2 ROPE{{id}}_PAIRS). */
static double rope{{id}}_growth(int64_t pos) {
    const double factor = {{growth}};
    return pos < ROPE{{id}}_LONG ? 1 : factor * (double)(pos + 1) / ROPE{{id}}_LONG - (factor - 1);
}
{{/grows}}
{{/ropes}}

/* What one thread needs for itself: {{#has_attention}}an attention task, {{/has_attention}}a panel. */
typedef struct {
{{#has_attention}}
    float query[ATTENTION_QUERIES][ATTENTION_DIM];
    float sum[ATTENTION_QUERIES][ATTENTION_DIM];
    float weight[ATTENTION_QUERIES][SC_PANEL];
    float key_row[SC_PANEL][ATTENTION_DIM];
    float key[ATTENTION_DIM][SC_PANEL]; /* key_row the other way round */
    float value[SC_PANEL][ATTENTION_DIM];
    float top[ATTENTION_QUERIES], total[ATTENTION_QUERIES], shrink[ATTENTION_QUERIES];
{{/has_attention}}
    vec panel[ROWS][2]; /* a linear's sums, one panel of outputs */
} thread_scratch;

/* Scratch of the shared operations: the values of a pass, x is the residual stream. */
struct sc_model {
    sc_weights *file;
    sc_threads *threads;
    {{name}}_weights weights;
{{#values}}
    {{ctype}} *{{field}}; /* [ROWS, {{macro}}_STRIDE] */
{{#twin}}
    operand *{{field}}_operands; /* the same, as linears take it */
{{/twin}}
{{/values}}
{{#has_experts}}
    int32_t *expert_start, *expert_place; /* [MOST_EXPERTS + 1], [CHOICES] */
    operand *expert_x, *expert_ffn;       /* [CHOICES, EXPERT_X_STRIDE], [CHOICES, EXPERT_STRIDE] */
    float *expert_y;                      /* [CHOICES, EXPERT_X_STRIDE] */
{{/has_experts}}
{{#has_attention}}
{{#has_index}}
    float *index_scores; /* [ROWS, INDEX_STRIDE], by slot: what a query's indexer says */
{{/has_index}}
    kv_value *step_keys, *step_values; /* [STEP_KV, BLOCK, ATTENTION_DIM] */
{{/has_attention}}
{{#ropes}}
    float *cos{{id}}, *sin{{id}};          /* [ROWS, ROPE{{id}}_PAIRS] */
{{/ropes}}
    thread_scratch *scratch;     /* one per thread */
{{#cuda}}
    float *logits;               /* [BATCH, VOCAB], of greedy */
    {{name}}_device *device;       /* NULL: the processor; else nothing but this and file is set */
{{/cuda}}
};

/* One pass: tokens of some rows of the cache, each from what it has seen on. */
typedef struct {
    {{name}}_model *model;
    {{name}}_cache *cache;
    const {{name}}_weights *weights;
    const int32_t *ids; /* [batch, ids_stride], the pass's first token first */
    int64_t ids_stride;
    const int32_t *row; /* [batch] of the cache */
    int64_t seen[BATCH]; /* what these rows held before the pass */
    int64_t batch, tokens, rows;
    float *logits;         /* NULL: none are wanted of this pass */
    int64_t logits_stride; /* floats from one row of the batch to the next */
    bool all;
    int threads;
} step;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
{{#uses_most}}
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
{{/uses_most}}

/* Of the b-th row of the pass. */
static inline int64_t padding_of(const step *s, int64_t b) {
    return s->cache->now.padding[s->row[b]];
}

{{#uses_store}}
static inline void store_operand(operand *p, vec v) { {{operand_store}}(p, v); }
{{/uses_store}}

{{> ops/tile.c}}
{{#uses_norm_row}}
/* x / sqrt(mean(x^2) + eps) * weight (NULL: ones): LlamaRMSNorm. The sum runs in one order, lane by
 * lane. */
static void norm_row(const float *x, const float *restrict w, int64_t width, float eps, float *y) {
    const int64_t whole = width / SC_LANES * SC_LANES;
    vec squares = { 0 };
    for (int64_t i = 0; i < whole; i += SC_LANES)
        squares = vec_fma(vec_load(x + i), vec_load(x + i), squares);
    float sum = vec_sum(squares);
    for (int64_t i = whole; i < width; i++)
        sum += x[i] * x[i];
    const float scale = 1.0f / sqrtf(sum / (float)width + eps);
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * scale * (w ? w[i] : 1.0f);
}

{{/uses_norm_row}}
/* The rows of the pass that are this thread's: first_row … of the next. */
static inline int64_t first_row(const step *s, int thread) {
    return s->rows * thread / s->threads;
}

{{#uses_position}}
/* Of a row's token, from the row's first token on that is no padding; of padding 0. */
static inline int64_t position(const step *s, int64_t row) {
    const int64_t b = row / s->tokens;
    return most(0, s->seen[b] + row % s->tokens - padding_of(s, b));
}
{{/uses_position}}

{{#uses_token}}
/* The row's token; 0 of padding. */
static inline int64_t token_of(const step *s, int64_t row) {
    const int64_t b = row / s->tokens, token = row % s->tokens;
    return s->seen[b] + token < padding_of(s, b) ? 0 : s->ids[b * s->ids_stride + token];
}

{{/uses_token}}
{{> ops/rows.c}}
{{#uses_rotate}}
/* Rotate-half: pair i of count is (x[i], x[i + count]). */
static void rotate(float *x, const float *cosine, const float *sine, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float a = x[i], b = x[i + count];
        x[i] = a * cosine[i] - b * sine[i];
        x[i + count] = b * cosine[i] + a * sine[i];
    }
}
{{/uses_rotate}}

{{#has_attention}}
/* One cached row as floats; NULL, a position that is not there, as zeros. */
static inline void load_row(float *restrict to, const kv *restrict from, int64_t dim) {
    if (from)
        kv_load(to, from, dim);
    else
        memset(to, 0, (size_t)dim * sizeof *to);
}

/* a->key [dim, SC_PANEL] = rows [SC_PANEL, stride] the other way round. */
static inline void transpose_keys(thread_scratch *a, const float *rows, int64_t stride,
                                  int64_t dim) {
    for (int64_t d = 0; d < dim; d += SC_LANES)
        for (int64_t i = 0; i < SC_PANEL; i += SC_LANES) {
            vec v[SC_LANES];
            SC_UNROLL
            for (int r = 0; r < SC_LANES; r++)
                v[r] = vec_load(rows + (i + r) * stride + d);
            vec_transpose(v);
            SC_UNROLL
            for (int r = 0; r < SC_LANES; r++)
                vec_store(&a->key[d + r][i], v[r]);
        }
}

/* Folds one block's scores of a query, keys oldest … newest of it, into its running softmax. */
static inline void softmax_block(thread_scratch *a, int64_t q, vec score[2], int64_t oldest,
                                 int64_t newest) {
    float s[SC_PANEL];
    vec_store(s, score[0]);
    vec_store(s + SC_LANES, score[1]);
    if (oldest > 0 || newest < SC_PANEL - 1)
        for (int64_t i = 0; i < SC_PANEL; i++)
            if (i < oldest || i > newest)
                s[i] = -1e30f;
    const vec s0 = vec_load(s), s1 = vec_load(s + SC_LANES);
    const float top = a->top[q], block_top = vec_top(vec_max(s0, s1));
    if (newest < 0 || oldest >= SC_PANEL || !(block_top > -1e29f)) {
        a->shrink[q] = 1.0f;
        memset(a->weight[q], 0, sizeof a->weight[q]);
        return;
    }
    const float new_top = block_top > top ? block_top : top;
    const vec w0 = vec_exp(s0 - vec_set(new_top)), w1 = vec_exp(s1 - vec_set(new_top));
    float shrink[SC_LANES];
    vec_store(shrink, vec_exp(vec_set(top - new_top)));
    vec_store(a->weight[q], w0);
    vec_store(a->weight[q] + SC_LANES, w1);
    a->shrink[q] = shrink[0];
    a->total[q] = a->total[q] * shrink[0] + vec_sum(w0 + w1);
    a->top[q] = new_top;
}

/* Adds values [SC_PANEL, stride], by the weights that softmax_block left, to dimensions d … of the
 * next SC_TILE sums. */
static inline void weigh_values(thread_scratch *a, const float *values, int64_t stride, int64_t q,
                                int64_t d, int64_t queries) {
    vec part[SC_TILE][2];
    const int rows = tile_f32_onto(part, values, stride, a->weight[q], SC_PANEL, SC_PANEL, queries,
                                   &a->sum[q][d], ATTENTION_DIM, a->shrink + q);
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            vec_store(&a->sum[q + r][d + half * SC_LANES], part[r][half]);
}

{{/has_attention}}
{{#linears}}
{{> ops/linear.c}}
{{/linears}}
{{#attentions}}
{{> ops/attention.c}}
{{/attentions}}
{{#mixtures}}
{{> ops/experts.c}}
{{/mixtures}}
{{#convs}}
{{> ops/conv.c}}
{{/convs}}
{{#uses_softplus}}
/* log(1 + exp(x)), which is x from where a float sees no difference: torch.nn.Softplus. */
static inline float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

{{/uses_softplus}}
{{#state_spaces}}
{{> ops/state_space.c}}
{{/state_spaces}}
{{#delta_rules}}
{{> ops/delta_rule.c}}
{{/delta_rules}}
{{#indexes}}
{{> ops/index.c}}
{{/indexes}}
/* lm_head on the rows that are asked for: all of them, or each row's last. Panels are split. */
enum { HEAD_PANELS = {{head_panels}}, HEAD_IN_STRIDE = {{head_in_stride}} };

static void head(const step *s, int thread) {
    const int64_t rows = s->all ? s->rows : s->batch;
    const int64_t skip = s->all ? 0 : s->tokens - 1, stride = s->all ? 1 : s->tokens;
    vec(*sum)[2] = s->model->scratch[thread].panel;
    for (int64_t panel = HEAD_PANELS * (int64_t)thread / s->threads;
         panel < HEAD_PANELS * (int64_t)(thread + 1) / s->threads; panel++) {
        const size_t width = (size_t)least(SC_PANEL, VOCAB - panel * SC_PANEL) * sizeof(float);
        panel_times_rows(sum, s->weights->lm_head + panel * HIDDEN_DEPTH * SC_PANEL,
                         s->model->{{head_in}} + skip * HEAD_IN_STRIDE, stride * HEAD_IN_STRIDE,
                         HIDDEN_DEPTH, rows);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t b = s->all ? row / s->tokens : row, token = s->all ? row % s->tokens : 0;
{{#head_bias}}
            for (int half = 0; half < 2; half++)
                sum[row][half] += vec_load(s->weights->lm_head_bias + panel * SC_PANEL + half * SC_LANES);
{{/head_bias}}
{{#logits_scaled}}
            for (int half = 0; half < 2; half++)
                sum[row][half] = sum[row][half] * vec_set({{logits_scale}});
{{/logits_scaled}}
{{#logits_capped}}
            for (int half = 0; half < 2; half++)
                sum[row][half] = vec_softcap(sum[row][half], vec_set({{logits_softcap}}));
{{/logits_capped}}
            memcpy(s->logits + b * s->logits_stride + token * VOCAB + panel * SC_PANEL, sum[row],
                   width);
        }
    }
}

/* The token's row of embed_tokens, and the angles of its position. Padding takes token 0. */
static void embed(const step *s, int thread) {
    for (int64_t row = s->rows * thread / s->threads; row < s->rows * (thread + 1) / s->threads;
         row++) {
        const int64_t batch = row / s->tokens, token = row % s->tokens;
        const int64_t pos = s->seen[batch] + token - padding_of(s, batch);
        const int64_t id = pos < 0 ? 0 : s->ids[batch * s->ids_stride + token];
        float *x = s->model->x + row * X_STRIDE;
{{#tied}}
        /* embed_tokens is lm_head, packed: the row is one lane of a panel. */
        const weight *from = s->weights->lm_head + id / SC_PANEL * HIDDEN_DEPTH * SC_PANEL;
        for (int64_t i = 0; i < HIDDEN; i++)
{{^pairs}}
            x[i] = weight_float(from[i * SC_PANEL + id % SC_PANEL]){{#embed_scaled}} * {{embed_scale}}{{/embed_scaled}};
{{/pairs}}
{{#pairs}}
            x[i] = weight_float(from[(i / 2 * SC_PANEL + id % SC_PANEL) * 2 + i % 2]){{#embed_scaled}} * {{embed_scale}}{{/embed_scaled}};
{{/pairs}}
{{/tied}}
{{^tied}}
        const weight *from = s->weights->embed_tokens + id * HIDDEN;
        for (int64_t i = 0; i < HIDDEN; i++)
            x[i] = weight_float(from[i]){{#embed_scaled}} * {{embed_scale}}{{/embed_scaled}};
{{/tied}}
{{#ropes}}
{{#grows}}
        const double growth{{id}} = rope{{id}}_growth(pos);
{{/grows}}
        for (int64_t i = 0; i < ROPE{{id}}_PAIRS; i++) {
{{#plain}}
            const float angle = (float)pos * rope{{id}}_inv_freq[i];
{{/plain}}
{{#grows}}
            const double slower = pow(growth{{id}}, -(double)i / (ROPE{{id}}_PAIRS - 1));
            const float angle = (float)pos * (float)(rope{{id}}_inv_freq[i] * slower);
{{/grows}}
{{#switches}}
            const float angle =
                (float)pos * (pos < ROPE{{id}}_LONG ? rope{{id}}_inv_freq : rope{{id}}_long_freq)[i];
{{/switches}}
            s->model->cos{{id}}[row * ROPE{{id}}_PAIRS + i] = cosf(angle){{#scaled}} * {{attention_factor}}{{/scaled}};
            s->model->sin{{id}}[row * ROPE{{id}}_PAIRS + i] = sinf(angle){{#scaled}} * {{attention_factor}}{{/scaled}};
        }
{{/ropes}}
    }
}

/* The layer has been given the pass's tokens. */
static void count_tokens(const step *s, int layer) {
    for (int64_t b = 0; b < s->batch; b++)
        {{name}}_cache_advance(s->cache, layer, s->row[b], s->tokens);
{{#has_states}}
    for (int i = 0; i < STATES; i++)
        for (int64_t b = 0; b < s->batch && {{name}}_state[i].layer == layer; b++)
            s->cache->now.held[i][s->row[b]] = 1;
{{/has_states}}
{{#has_indexer}}
    for (int64_t b = 0; b < s->batch && {{name}}_indexer[layer].dim; b++)
        s->cache->now.indexed[layer][s->row[b]] += s->tokens;
{{/has_indexer}}
{{#offloading}}
    {{name}}_cache_end(s->cache, layer);
{{/offloading}}
}

{{#kinds}}
/* {{layer_list}}. */
static void layer{{id}}(const step *s, int thread, int layer) {
    const {{name}}_layer_weights *w = &s->weights->layer[layer];
    {{name}}_model *m = s->model;
{{#ops}}
{{> ops/row_loop.c}}
{{> ops/linear_call.c}}
{{#attention}}
{{#offloading}}
    if (!thread)
        {{name}}_cache_begin(s->cache, {{source}});
    sc_threads_barrier(m->threads);
{{/offloading}}
{{#keeps}}
    keep{{attention_id}}(s, thread, layer);
    sc_threads_barrier(m->threads);
{{/keeps}}
    attention{{attention_id}}(s, thread, {{source}}, w);
    sc_threads_barrier(m->threads);
{{^keeps}}
{{#offloading}}
    if (!thread)
        {{name}}_cache_end(s->cache, {{source}});
{{/offloading}}
{{/keeps}}
{{/attention}}
{{#experts}}
    if (!thread)
        sort_experts{{experts_id}}(s);
    sc_threads_barrier(m->threads);
    gather_experts{{experts_id}}(s, thread);
    sc_threads_barrier(m->threads);
    up_experts{{experts_id}}(s, thread, w);
    sc_threads_barrier(m->threads);
    down_experts{{experts_id}}(s, thread, w);
    sc_threads_barrier(m->threads);
    add_experts{{experts_id}}(s, thread);
    sc_threads_barrier(m->threads);
{{/experts}}
{{#index}}
    keep_index{{index_id}}(s, thread, layer);
    sc_threads_barrier(m->threads);
    score_index{{index_id}}(s, thread, layer);
    sc_threads_barrier(m->threads);
    choose_index{{index_id}}(s, thread);
    sc_threads_barrier(m->threads);
{{/index}}
{{#delta_rule}}
    delta{{delta_rule_id}}(s, thread, layer, w);
    sc_threads_barrier(m->threads);
{{/delta_rule}}
{{#state_space}}
    scan{{state_space_id}}(s, thread, layer, w);
    sc_threads_barrier(m->threads);
{{/state_space}}
{{#conv}}
    conv{{conv_id}}(s, thread, layer, w);
    sc_threads_barrier(m->threads);
{{/conv}}
{{/ops}}
    if (!thread)
        count_tokens(s, layer);
}

{{/kinds}}
static void work(void *arg, int thread, int threads) {
    step *s = arg;
    {{name}}_model *m = s->model;
    (void)threads;
    embed(s, thread);
    sc_threads_barrier(m->threads);
{{#first_ops}}
{{> ops/row_loop.c}}
{{> ops/linear_call.c}}
{{/first_ops}}
{{#layer_calls}}
    layer{{kind}}(s, thread, {{layer}});
{{/layer_calls}}
    if (!s->logits)
        return;
{{#last_ops}}
{{> ops/row_loop.c}}
{{> ops/linear_call.c}}
{{/last_ops}}
    head(s, thread);
}

/* Takes count elements of the block of scratch that *at walks over; NULL *at only counts. */
static void *take(unsigned char *base, size_t *at, size_t count, size_t size) {
    void *p = base ? base + *at : NULL;
    *at += (count * size + 63) / 64 * 64;
    return p;
}

static size_t place_scratch({{name}}_model *m, unsigned char *base, int threads) {
    size_t at = 0;
{{#values}}
    m->{{field}} = take(base, &at, (size_t)ROWS * {{macro}}_STRIDE, sizeof({{ctype}}));
{{#twin}}
    m->{{field}}_operands = take(base, &at, (size_t)ROWS * {{macro}}_STRIDE, sizeof(operand));
{{/twin}}
{{/values}}
{{#has_experts}}
    m->expert_start = take(base, &at, MOST_EXPERTS + 1, sizeof(int32_t));
    m->expert_place = take(base, &at, CHOICES, sizeof(int32_t));
    m->expert_x = take(base, &at, (size_t)CHOICES * EXPERT_X_STRIDE, sizeof(operand));
    m->expert_ffn = take(base, &at, (size_t)CHOICES * EXPERT_STRIDE, sizeof(operand));
    m->expert_y = take(base, &at, (size_t)CHOICES * EXPERT_X_STRIDE, sizeof(float));
{{/has_experts}}
{{#has_attention}}
{{#has_index}}
    m->index_scores = take(base, &at, (size_t)ROWS * INDEX_STRIDE, sizeof(float));
{{/has_index}}
    m->step_keys = take(base, &at, (size_t)STEP_KV * BLOCK * ATTENTION_DIM, sizeof(kv_value));
    m->step_values = take(base, &at, (size_t)STEP_KV * BLOCK * ATTENTION_DIM, sizeof(kv_value));
{{/has_attention}}
{{#ropes}}
    m->cos{{id}} = take(base, &at, (size_t)ROWS * ROPE{{id}}_PAIRS, sizeof(float));
    m->sin{{id}} = take(base, &at, (size_t)ROWS * ROPE{{id}}_PAIRS, sizeof(float));
{{/ropes}}
    m->scratch = take(base, &at, (size_t)threads, sizeof(thread_scratch));
{{#cuda}}
    m->logits = take(base, &at, (size_t)BATCH * VOCAB, sizeof(float));
{{/cuda}}
    return at;
}

/* The model in one block, its scratch behind it, zeroed: padding of rows must be numbers. */
static {{name}}_model *make_model(sc_weights *file, sc_threads *threads, sc_error *err) {
    {{name}}_model place;
    const size_t head = (sizeof place + 63) / 64 * 64;
    const size_t bytes = head + place_scratch(&place, NULL, sc_threads_count(threads));
    unsigned char *block = aligned_alloc(64, bytes);
    if (!block) {
        sc_fail(err, SC_EENV, "{{name}}: no memory for %zu bytes of scratch", bytes);
        return NULL;
    }
    memset(block, 0, bytes);
    {{name}}_model *m = ({{name}}_model *)(void *)block;
    place_scratch(m, block + head, sc_threads_count(threads));
    m->file = file;
    m->threads = threads;
    {{name}}_weights_find(&m->weights, file);
    return m;
}

{{#cuda}}
static int open_on_device({{name}}_model **model, const char *weights_path, const sc_options *choice,
                          sc_error *err) {
    {{name}}_model *m = calloc(1, sizeof *m);
    if (!m)
        return sc_fail(err, SC_EENV, "{{name}}: no memory for %zu bytes", sizeof *m);
    int rc = sc_weights_open(&m->file, weights_path, {{name}}_weights_layout, {{name}}_weights_bytes,
                             choice->check, err);
    if (!rc)
        rc = {{name}}_device_open(&m->device, choice->device, m->file, !choice->no_graph, err);
    if (rc)
        {{name}}_model_close(m);
    else
        *model = m;
    return rc;
}

{{/cuda}}
API int {{name}}_model_open({{name}}_model **model, const char *weights_path,
        {{name_pad}}            const sc_options *options, sc_error *err) {
    const sc_options choice = options ? *options : (sc_options){ 0 };
{{#cuda}}
    if (choice.device && strcmp(choice.device, "cpu"))
        return open_on_device(model, weights_path, &choice, err);
{{/cuda}}
{{^cuda}}
    if (choice.device && strcmp(choice.device, "cpu"))
        return sc_fail(err, SC_EUSAGE,
                       "{{name}}: device \"%s\": this casting has no device code (export with "
                       "--target cuda)",
                       choice.device);
{{/cuda}}
    sc_threads *threads = NULL;
    sc_weights *file = NULL;
    int rc = sc_cpu_check("{{arch}}", err);
    if (!rc)
        rc = sc_weights_open(&file, weights_path, {{name}}_weights_layout, {{name}}_weights_bytes,
                             choice.check, err);
    if (!rc)
        rc = sc_threads_create(&threads, choice.threads, err);
    {{name}}_model *m = rc ? NULL : make_model(file, threads, err);
    if (!m) {
        sc_threads_destroy(threads);
        sc_weights_close(file);
        return rc ? rc : SC_EENV;
    }
    *model = m;
    return SC_OK;
}

API void {{name}}_model_close({{name}}_model *model) {
    if (!model)
        return;
{{#cuda}}
    {{name}}_device_close(model->device);
{{/cuda}}
    sc_threads_destroy(model->threads);
    sc_weights_close(model->file);
    free(model);
}

/* Can these rows of the cache be given n tokens each? */
static int check_call(const {{name}}_cache *cache, const int32_t *rows, int batch,
                      const int32_t *tokens, int n, sc_error *err) {
    if (n < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: forward of %d tokens", n);
    if (batch < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: forward of %d rows", batch);
    bool taken[BATCH] = { false };
    for (int b = 0; b < batch; b++) {
        const int row = rows[b];
        if (row < 0 || row >= BATCH || taken[row])
            return sc_fail(err, SC_EUSAGE, "{{name}}: row %d is %s", row,
                           row < 0 || row >= BATCH ? "none of the batch's" : "there twice");
        taken[row] = true;
        const int64_t seen = cache->now.seen[0][row];
        for (int layer = 0; layer < LAYERS; layer++) {
            if (cache->now.seen[layer][row] != seen)
                return sc_fail(
                    err, SC_ESTATE,
                    "{{name}}: layers 0 and %d of the cache hold %lld and %lld tokens (reset)", layer,
                    (long long)seen, (long long)cache->now.seen[layer][row]);
{{#has_indexer}}
            if ({{name}}_indexer[layer].dim && cache->now.indexed[layer][row] != seen)
                return sc_fail(err, SC_ESTATE,
                               "{{name}}: layer %d of the cache holds %lld tokens and %lld indexer "
                               "keys (reset)",
                               layer, (long long)seen, (long long)cache->now.indexed[layer][row]);
{{/has_indexer}}
            const int rc = {{name}}_cache_room(cache, layer, row, n, err);
            if (rc)
                return rc;
        }
        for (int64_t i = 0; i < n; i++) {
            const int32_t id = tokens[b * (int64_t)n + i];
            if ((id < 0 || id >= VOCAB) && seen + i >= cache->now.padding[row])
                return sc_fail(err, SC_EUSAGE,
                               "{{name}}: token id %d at %lld of row %d is none of 0 … %d", (int)id,
                               (long long)i, row, VOCAB - 1);
        }
    }
    return SC_OK;
}

API int {{name}}_model_forward_rows({{name}}_model *model, {{name}}_cache *cache, const int32_t *rows,
                                    int batch, const int32_t *tokens, int n, float *logits,
                                    unsigned flags, sc_error *err) {
    const int rc = check_call(cache, rows, batch, tokens, n, err);
    if (rc)
        return rc;
    const bool all = flags & SC_ALL_LOGITS;
{{#cuda}}
    if (model->device || cache->cuda)
        return {{name}}_device_forward(model->device, cache, rows, batch, tokens, n, logits, all, NULL,
                                     err);
{{/cuda}}
    for (int64_t done = 0; done < n;) {
        step s = { .model = model,
                   .cache = cache,
                   .weights = &model->weights,
                   .row = rows,
                   .batch = batch,
                   .ids = tokens + done,
                   .ids_stride = n,
                   .tokens = least(BLOCK, n - done),
                   .all = all,
                   .threads = sc_threads_count(model->threads) };
        s.rows = batch * s.tokens;
        for (int b = 0; b < batch; b++)
            s.seen[b] = cache->now.seen[0][rows[b]];
        if (logits && all)
            s.logits = logits + done * VOCAB;
        else if (logits && done + s.tokens == n)
            s.logits = logits;
        s.logits_stride = all ? (int64_t)n * VOCAB : VOCAB;
        sc_threads_run(model->threads, work, &s);
        done += s.tokens;
    }
    return SC_OK;
}

API int {{name}}_model_forward({{name}}_model *model, {{name}}_cache *cache, const int32_t *tokens,
                               int n, float *logits, unsigned flags, sc_error *err) {
    int32_t rows[BATCH];
    for (int row = 0; row < BATCH; row++)
        rows[row] = row;
    return {{name}}_model_forward_rows(model, cache, rows, BATCH, tokens, n, logits, flags, err);
}
{{#cuda}}

API const char *{{name}}_model_device(const {{name}}_model *model) {
    return model->device ? {{name}}_device_name(model->device) : "cpu";
}

API int {{name}}_model_greedy({{name}}_model *model, {{name}}_cache *cache, const int32_t *tokens, int n,
                              int32_t *ids, sc_error *err) {
    int32_t rows[BATCH];
    for (int row = 0; row < BATCH; row++)
        rows[row] = row;
    int rc = check_call(cache, rows, BATCH, tokens, n, err);
    if (!rc && (model->device || cache->cuda))
        return {{name}}_device_forward(model->device, cache, rows, BATCH, tokens, n, NULL, false, ids, err);
    if (!rc)
        rc = {{name}}_model_forward(model, cache, tokens, n, model->logits, 0, err);
    for (int row = 0; row < BATCH && !rc; row++) {
        const float *logits = model->logits + (int64_t)row * VOCAB;
        ids[row] = 0;
        for (int32_t id = 1; id < VOCAB; id++)
            if (logits[id] > logits[ids[row]])
                ids[row] = id;
    }
    return rc;
}
{{/cuda}}
