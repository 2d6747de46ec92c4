/* graph_build.c - see graph_build.h. */
#include "graph_build.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "rope.h"

const sc_span sc_nowhere = { .value = -1 };

static void no_memory(sc_builder *b) {
    if (!b->rc)
        b->rc = sc_oom(b->err, "building the graph");
}

/* An array of count elements with room for one more; NULL after a failure. */
static void *grown(sc_builder *b, void *array, int count, size_t size) {
    if (count & (count - 1)) /* room is a power of two */
        return array;
    void *more = sc_pool_alloc(b->pool, (size_t)(count ? 2 * count : 1), size);
    if (!more)
        no_memory(b);
    else if (count)
        memcpy(more, array, (size_t)count * size);
    return more;
}

sc_span sc_build_value(sc_builder *b, const char *name, int64_t width) {
    sc_graph *g = b->graph;
    int i = 0;
    while (i < g->values && strcmp(g->value[i].name, name))
        i++;
    if (i == g->values) {
        sc_value *value = grown(b, g->value, g->values, sizeof *value);
        if (!value)
            return sc_nowhere;
        g->value = value;
        g->value[g->values++] = (sc_value){ .name = name };
    }
    if (g->value[i].width < width)
        g->value[i].width = width;
    return (sc_span){ .value = i };
}

sc_span sc_build_at(sc_span span, int64_t at) {
    span.at += at;
    return span;
}

sc_op *sc_build_op(sc_builder *b, sc_op_kind kind) {
    static sc_op spare;
    sc_op *op = grown(b, b->ops->op, b->ops->ops, sizeof *op);
    if (!op)
        return &spare;
    b->ops->op = op;
    op += b->ops->ops++;
    memset(op, 0, sizeof *op);
    op->kind = kind;
    return op;
}

void sc_build_fail(sc_builder *b, const char *key, const char *format, ...) {
    char reason[400];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (!b->rc)
        b->rc = sc_fail(b->err, SC_EINPUT, "%s: %s: %s", b->config->path, key, reason);
}

bool sc_build_flag(const sc_builder *b, const char *key) {
    return sc_config_key(b->config, key)->number > 0;
}

double sc_build_number(const sc_builder *b, const char *key) {
    return sc_config_key(b->config, key)->number;
}

int64_t sc_build_count(const sc_builder *b, const char *key) {
    return (int64_t)sc_build_number(b, key);
}

int64_t sc_build_width(const sc_builder *b, const char *key) {
    const double width = sc_build_number(b, key);
    return width > 0 ? (int64_t)width : 4 * b->graph->hidden;
}

float sc_build_cap(const sc_builder *b, const char *key) {
    const double cap = sc_build_number(b, key);
    return cap > 0 ? (float)cap : 0;
}

/* ---- where things go ---- */

static const char *name_of(sc_builder *b, const char *name) {
    const char *text = sc_pool_printf(b->pool, "%s%s", b->root, name);
    if (!text)
        no_memory(b);
    return text;
}

const char *sc_build_name(sc_builder *b, const char *module, const char *name) {
    const char *text = sc_pool_printf(b->pool, "%s.%s", module, name);
    if (!text)
        no_memory(b);
    return text ? text : "";
}

void sc_build_layer(sc_builder *b, const char *prefix, int layer) {
    b->layer = layer;
    b->ops = &b->graph->layer[layer];
    b->root = sc_pool_printf(b->pool, "%s%d.", prefix, layer);
    if (!b->root)
        no_memory(b);
}

void sc_build_last(sc_builder *b) {
    b->layer = -1;
    b->ops = &b->graph->last;
    b->root = "";
}

void sc_build_embedding(sc_builder *b, const char *tensor, float scale) {
    sc_graph *g = b->graph;
    g->embed_name = tensor;
    g->embed_scale = scale;
    g->embedded = b->x = sc_build_value(b, "x", g->hidden);
    if (g->tied)
        return;
    const sc_part part = sc_build_rows(b, tensor, g->vocab, g->hidden);
    g->embed_tokens = sc_build_weight(b, SC_WEIGHT_ROWS, "embed_tokens", g->hidden, 1, &part);
}

void sc_build_head(sc_builder *b, sc_span x, const char *tensor, bool bias) {
    sc_graph *g = b->graph;
    const char *name = g->tied ? g->embed_name : tensor;
    const sc_part part = sc_build_rows(b, name, g->vocab, g->hidden);
    g->head_in = x;
    g->lm_head = sc_build_weight(b, SC_WEIGHT_LINEAR, "lm_head", g->hidden, 1, &part);
    if (!bias)
        return;
    const sc_part vector = sc_build_vector(b, "lm_head.bias", g->vocab);
    g->lm_head_bias = sc_build_weight(b, SC_WEIGHT_BIAS, "lm_head_bias", 1, 1, &vector);
}

void sc_build_positions(sc_builder *b, const char *tensor, int64_t positions, int64_t offset) {
    const sc_part part = sc_build_rows(b, tensor, positions + offset, b->graph->hidden);
    const sc_weight *table =
        sc_build_weight(b, SC_WEIGHT_ROWS, "embed_positions", b->graph->hidden, 1, &part);
    sc_row_op *row = sc_build_row(b, SC_ROW_POSITION, b->x, sc_nowhere, b->x);
    row->w = table;
    row->n[0] = b->graph->hidden;
    row->n[1] = offset;
    row->n[2] = positions + offset;
    b->graph->positions = positions;
}

void sc_build_finish(sc_builder *b, const char *norm, const char *head, bool bias) {
    sc_build_last(b);
    const sc_span normed = sc_build_value(b, "normed", b->graph->hidden);
    sc_build_norm(b, b->x, norm, b->graph->hidden, normed);
    sc_build_head(b, normed, head, bias);
}

/* ---- weights ---- */

sc_part sc_build_rows(sc_builder *b, const char *name, int64_t rows, int64_t in) {
    return (sc_part){ .tensor = name_of(b, name), .rows = rows, .rank = 2, .shape = { rows, in } };
}

sc_part sc_build_vector(sc_builder *b, const char *name, int64_t rows) {
    return (sc_part){ .tensor = name_of(b, name), .rows = rows, .rank = 1, .shape = { rows } };
}

/* The one that an operation of the list has already: what two read is kept once. NULL: none. */
static const sc_weight *find_weight(const sc_builder *b, const char *field, const char *tensor) {
    for (int i = 0; i < b->ops->ops; i++)
        for (int k = 0; sc_op_weight(&b->ops->op[i], k); k++) {
            const sc_weight *w = sc_op_weight(&b->ops->op[i], k);
            if (tensor && w->part->tensor && !strcmp(w->field, field) &&
                !strcmp(w->part->tensor, tensor))
                return w;
        }
    return NULL;
}

const sc_weight *sc_build_blocks(sc_builder *b, sc_weight_kind kind, const char *field, int64_t in,
                                 int blocks, int parts, const sc_part *part) {
    const size_t all = (size_t)blocks * (size_t)parts;
    const sc_weight *there = find_weight(b, field ? field : "", part->tensor);
    if (there)
        return there;
    sc_weight *w = sc_pool_alloc(b->pool, 1, sizeof *w);
    sc_part *own = sc_pool_alloc(b->pool, all, sizeof *own);
    if (!w || !own) {
        no_memory(b);
        return NULL;
    }
    memcpy(own, part, all * sizeof *own);
    *w = (sc_weight){ kind, field, in, blocks, parts, own };
    return w;
}

const sc_weight *sc_build_weight(sc_builder *b, sc_weight_kind kind, const char *field, int64_t in,
                                 int parts, const sc_part *part) {
    return sc_build_blocks(b, kind, field, in, 1, parts, part);
}

/* "q_norm" of "self_attn.q_norm.weight", "ln_1_bias" of "ln_1.bias". */
static const char *field_of(sc_builder *b, const char *name) {
    const char *end = name + strlen(name), *dot = strrchr(name, '.'), *tail = "";
    if (dot && !strcmp(dot, ".weight"))
        end = dot;
    else if (dot && !strcmp(dot, ".bias")) {
        end = dot;
        tail = "_bias";
    }
    const char *begin = end;
    while (begin > name && begin[-1] != '.')
        begin--;
    const char *field = sc_pool_printf(b->pool, "%.*s%s", (int)(end - begin), begin, tail);
    if (!field)
        no_memory(b);
    return field;
}

const sc_weight *sc_build_floats(sc_builder *b, const char *name, int64_t width, float plus) {
    sc_part part = sc_build_vector(b, name, width);
    part.plus = plus;
    return sc_build_weight(b, SC_WEIGHT_FLOATS, field_of(b, name), 1, 1, &part);
}

const sc_weight *sc_build_table(sc_builder *b, const char *name, int rank, const int64_t *shape) {
    sc_part part = sc_build_vector(b, name, 1);
    part.rank = rank;
    for (int i = 0; i < rank; i++) {
        part.shape[i] = shape[i];
        part.rows *= i + 1 < rank ? shape[i] : 1;
    }
    return sc_build_weight(b, SC_WEIGHT_FLOATS, field_of(b, name), shape[rank - 1], 1, &part);
}

/* ---- rows ---- */

sc_row_op *sc_build_row(sc_builder *b, sc_row_kind kind, sc_span a, sc_span second, sc_span out) {
    sc_row_op *row = &sc_build_op(b, SC_OP_ROW)->row;
    row->kind = kind;
    row->a = a;
    row->b = second;
    row->out = out;
    row->rope = -1;
    return row;
}

sc_row_op *sc_build_runs_norm(sc_builder *b, sc_span x, const sc_weight *w, int64_t runs,
                              int64_t width, sc_span out) {
    sc_row_op *row = sc_build_row(b, SC_ROW_RMS_NORM, x, sc_nowhere, out);
    row->w = w;
    row->n[0] = runs;
    row->n[1] = width;
    row->f[0] = b->norm.eps;
    return row;
}

sc_row_op *sc_build_norm(sc_builder *b, sc_span x, const char *module, int64_t width, sc_span out) {
    const sc_norm_kind kind = b->norm;
    const sc_weight *bias = NULL;
    const sc_weight *w = sc_build_floats(b, sc_build_name(b, module, "weight"), width, kind.plus);
    if (kind.bias)
        bias = sc_build_floats(b, sc_build_name(b, module, "bias"), width, 0);
    sc_row_op *row = sc_build_runs_norm(b, x, w, 1, width, out);
    if (kind.layer_norm)
        row->kind = SC_ROW_LAYER_NORM;
    row->w2 = bias;
    return row;
}

sc_span sc_build_normed(sc_builder *b, const char *module) {
    const sc_span normed = sc_build_value(b, "normed", b->graph->hidden);
    sc_build_norm(b, b->x, module, b->graph->hidden, normed);
    return normed;
}

void sc_build_add(sc_builder *b, sc_span a, float fa, sc_span c, float fb, int64_t width,
                  sc_span out) {
    sc_row_op *row = sc_build_row(b, SC_ROW_ADD, a, c, out);
    row->n[0] = width;
    row->f[0] = fa;
    row->f[1] = fb;
}

void sc_build_multiply(sc_builder *b, sc_span a, sc_span c, int64_t width, sc_span out) {
    sc_build_row(b, SC_ROW_MULTIPLY, a, c, out)->n[0] = width;
}

void sc_build_times(sc_builder *b, sc_span a, float factor, int64_t width, sc_span out) {
    if (factor >= 1 && factor <= 1 && a.value == out.value && a.at == out.at)
        return;
    sc_row_op *row = sc_build_row(b, SC_ROW_TIMES, a, sc_nowhere, out);
    row->n[0] = width;
    row->f[0] = factor;
}

void sc_build_sigmoid_gate(sc_builder *b, sc_span a, sc_span c, int64_t gates, int64_t width,
                           sc_span out) {
    sc_row_op *row = sc_build_row(b, SC_ROW_SIGMOID_GATE, a, c, out);
    row->n[0] = width;
    row->n[1] = gates;
}

void sc_build_silu_gate(sc_builder *b, sc_span a, sc_span c, int64_t width, sc_span out) {
    sc_build_row(b, SC_ROW_SILU_GATE, a, c, out)->n[0] = width;
}

/* ---- linears ---- */

static sc_part module_part(sc_builder *b, const sc_linear_spec *spec, int i, const char *kind,
                           int64_t in) {
    const char *name = sc_build_name(b, spec->module[i], kind);
    if (*kind == 'b')
        return sc_build_vector(b, name, spec->out[i]);
    sc_part part = sc_build_rows(b, name, spec->out[i], in);
    if (spec->transposed) {
        part.transposed = true;
        part.shape[0] = in;
        part.shape[1] = spec->out[i];
    }
    return part;
}

sc_span sc_build_linear(sc_builder *b, sc_span x, int64_t in, sc_span y,
                        const sc_linear_spec *spec) {
    sc_part part[4], bias[4];
    int parts = spec->parts;
    for (int i = 0; i < 4 && !spec->part && spec->module[i]; i++, parts++) {
        part[i] = module_part(b, spec, i, "weight", in);
        if (spec->bias)
            bias[i] = module_part(b, spec, i, "bias", in);
    }
    const sc_part *from = spec->part ? spec->part : part;
    const char *field = spec->field ? spec->field : field_of(b, spec->module[0]);
    const char *bias_field = sc_pool_printf(b->pool, "%s_bias", field);
    const char *end = strstr(field ? field : "", "_proj"); /* qkv_proj has the bias qkv_bias */
    if (end && !end[5])
        bias_field = sc_pool_printf(b->pool, "%.*s_bias", (int)(end - field), field);
    if (!field || !bias_field) {
        no_memory(b);
        return y;
    }
    sc_linear l = { .x = x, .y = y, .in = in, .gated = spec->gated, .add = spec->add };
    l.act = spec->act;
    l.scale = spec->scale != 0 ? spec->scale : 1;
    const int blocks = spec->blocks ? spec->blocks : 1;
    l.x_step = spec->x_step;
    l.y_step = spec->y_step;
    for (int i = 0; i < parts / blocks; i++)
        l.out += from[i].rows;
    if (l.gated)
        l.out /= 2;
    l.w = sc_build_blocks(b, l.gated ? SC_WEIGHT_GATED : SC_WEIGHT_LINEAR, field, in, blocks,
                          parts / blocks, from);
    if (spec->bias)
        l.bias = sc_build_weight(b, l.gated ? SC_WEIGHT_GATED_BIAS : SC_WEIGHT_BIAS, bias_field, 1,
                                 parts, spec->part ? spec->bias_part : bias);
    sc_build_op(b, SC_OP_LINEAR)->linear = l;
    return y;
}

sc_span sc_build_qkv(sc_builder *b, sc_span x, bool bias) {
    const sc_layer_config *c = &b->config->layer[b->layer];
    const int64_t q = b->config->num_attention_heads * c->head_dim;
    const int64_t k = c->kv_heads * c->head_dim, v = c->kv_heads * c->v_head_dim;
    return sc_build_linear(
        b, x, b->graph->hidden, sc_build_value(b, "qkv", q + k + v),
        &(sc_linear_spec){ .field = "qkv_proj",
                           .module = { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj" },
                           .out = { q, k, v },
                           .bias = bias });
}

sc_span sc_build_qkv_by_head(sc_builder *b, sc_span x, const char *module, bool bias) {
    const int64_t hidden = b->graph->hidden, dim = b->config->head_dim;
    const char *weight = sc_build_name(b, module, "weight");
    const char *bias_name = sc_build_name(b, module, "bias");
    sc_part part[3], bias_part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = sc_build_rows(b, weight, 3 * hidden, hidden);
        part[i].rows = hidden;
        part[i].first = i * dim;
        part[i].run = dim;
        part[i].stride = 3 * dim;
        bias_part[i] = part[i];
        bias_part[i].tensor = name_of(b, bias_name);
        bias_part[i].rank = 1;
    }
    return sc_build_linear(
        b, x, hidden, sc_build_value(b, "qkv", 3 * hidden),
        &(sc_linear_spec){
            .field = "qkv_proj", .part = part, .bias_part = bias_part, .parts = 3, .bias = bias });
}

const sc_layer_config *sc_build_kv(const sc_builder *b) {
    return &b->config->layer[b->config->layer[b->layer].kv_source];
}

sc_attention *sc_build_attention(sc_builder *b, sc_span qkv, int rope) {
    const sc_layer_config *c = sc_build_kv(b);
    const bool shares = c != &b->config->layer[b->layer];
    const int64_t heads = b->config->num_attention_heads;
    const sc_span out = sc_build_value(b, "attended", heads * c->v_head_dim);
    sc_attention *a = &sc_build_op(b, SC_OP_ATTENTION)->attention;
    a->type = c->type;
    a->heads = heads;
    a->kv_heads = c->kv_heads;
    a->head_dim = c->head_dim;
    a->v_head_dim = c->v_head_dim;
    a->window = c->window ? c->window : c->mask_window;
    a->chunked = c->type == SC_CHUNKED_ATTENTION;
    a->scale = (float)(1 / sqrt((double)c->head_dim));
    a->rope = rope;
    a->q = qkv;
    a->k = shares ? sc_nowhere : sc_build_at(qkv, heads * c->head_dim);
    a->v = shares ? sc_nowhere : sc_build_at(a->k, c->kv_heads * c->head_dim);
    a->out = out;
    return a;
}

void sc_build_onto(sc_builder *b, sc_span x, int64_t in, const char *module, bool bias,
                   float scale) {
    sc_build_linear(b, x, in, b->x,
                    &(sc_linear_spec){ .module = { module },
                                       .out = { b->graph->hidden },
                                       .bias = bias,
                                       .add = true,
                                       .scale = scale });
}

void sc_build_rope_pairs(sc_builder *b, sc_span qkv, int rope) {
    const sc_layer_config *c = &b->config->layer[b->layer];
    sc_row_op *row = sc_build_row(b, SC_ROW_ROPE_PAIRS, qkv, sc_nowhere, qkv);
    row->n[0] = b->config->num_attention_heads + c->kv_heads;
    row->n[1] = c->head_dim;
    row->rope = rope;
}

void sc_build_normed_onto(sc_builder *b, sc_span x, int64_t in, const char *module, bool bias,
                          const char *norm) {
    const int64_t hidden = b->graph->hidden;
    const sc_span out = sc_build_value(b, "out", hidden);
    sc_build_linear(b, x, in, out,
                    &(sc_linear_spec){ .module = { module }, .out = { hidden }, .bias = bias });
    sc_build_norm(b, out, norm, hidden, out);
    sc_build_add(b, b->x, 1, out, 1, hidden, b->x);
}

int64_t sc_build_attended(const sc_builder *b) {
    return b->config->num_attention_heads * sc_build_kv(b)->v_head_dim;
}

sc_attention *sc_build_self_attention(sc_builder *b, sc_span x, bool bias, bool qk_norm, int rope) {
    const int64_t head_dim = b->config->layer[b->layer].head_dim;
    const sc_span qkv = sc_build_qkv(b, x, bias);
    const sc_weight *q = NULL, *k = NULL;
    if (qk_norm) {
        q = sc_build_floats(b, "self_attn.q_norm.weight", head_dim, b->norm.plus);
        k = sc_build_floats(b, "self_attn.k_norm.weight", head_dim, b->norm.plus);
    }
    sc_attention *a = sc_build_attention(b, qkv, rope);
    a->q_norm = q;
    a->k_norm = k;
    a->norm_eps = b->norm.eps;
    return a;
}

sc_span sc_build_plain(sc_builder *b, sc_span x, int64_t ffn, const char *module, bool bias) {
    return sc_build_linear(
        b, x, b->graph->hidden, sc_build_value(b, "ffn", ffn),
        &(sc_linear_spec){
            .module = { module }, .out = { ffn }, .bias = bias, .act = b->config->hidden_act });
}

sc_span sc_build_gated(sc_builder *b, sc_span x, int64_t ffn, const char *gate, const char *up,
                       bool bias) {
    return sc_build_linear(b, x, b->graph->hidden, sc_build_value(b, "ffn", ffn),
                           &(sc_linear_spec){ .field = "gate_up_proj",
                                              .module = { gate, up },
                                              .out = { ffn, ffn },
                                              .bias = bias,
                                              .gated = true,
                                              .act = b->config->hidden_act });
}

sc_span sc_build_gated_in_one(sc_builder *b, sc_span x, int64_t ffn, const char *module) {
    sc_part gate = sc_build_rows(b, sc_build_name(b, module, "weight"), 2 * ffn, b->graph->hidden);
    gate.rows = ffn;
    sc_part up = gate;
    up.first = ffn;
    return sc_build_linear(b, x, b->graph->hidden, sc_build_value(b, "ffn", ffn),
                           &(sc_linear_spec){ .field = "gate_up_proj",
                                              .part = (const sc_part[]){ gate, up },
                                              .parts = 2,
                                              .gated = true,
                                              .act = b->config->hidden_act });
}

void sc_build_mlp(sc_builder *b, sc_span x, int64_t ffn, const char *prefix) {
    const sc_span gated = sc_build_gated(b, x, ffn, sc_build_name(b, prefix, "gate_proj"),
                                         sc_build_name(b, prefix, "up_proj"), false);
    sc_build_onto(b, gated, ffn, sc_build_name(b, prefix, "down_proj"), false, 1);
}

/* ---- ropes ---- */

static bool same_numbers(const float *a, const float *b, int64_t count) {
    return a == b || (a && b && !memcmp(a, b, sizeof(float) * (size_t)count));
}

static bool same_rope(const sc_rope *a, const sc_rope *b) {
    return a->rotary_dim == b->rotary_dim && a->long_from == b->long_from &&
           same_numbers(&a->growth, &b->growth, 1) &&
           same_numbers(&a->attention_factor, &b->attention_factor, 1) &&
           same_numbers(a->inv_freq, b->inv_freq, a->rotary_dim / 2) &&
           same_numbers(a->long_freq, b->long_freq, a->rotary_dim / 2);
}

int sc_build_rope(sc_builder *b, int64_t head_dim) {
    sc_graph *g = b->graph;
    const sc_config *c = b->config;
    const bool slides = sc_build_kv(b)->type == SC_SLIDING_ATTENTION;
    sc_rope rope;
    if (!b->rc)
        b->rc = sc_rope_make(&rope, b->pool, slides ? &c->sliding_rope : &c->rope, head_dim,
                             c->max_position_embeddings, b->err);
    if (b->rc)
        return -1;
    for (int i = 0; i < g->ropes; i++)
        if (same_rope(&g->rope[i], &rope))
            return i;
    sc_rope *ropes = grown(b, g->rope, g->ropes, sizeof *ropes);
    if (!ropes)
        return -1;
    g->rope = ropes;
    g->rope[g->ropes] = rope;
    return g->ropes++;
}

/* ---- the usual decoder ---- */

void sc_build_decoder(sc_builder *b, const sc_decoder_shape *shape) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const float onto = shape->residual_scale;
    sc_build_embedding(b, "model.embed_tokens.weight",
                       shape->embed_scale > 0 ? shape->embed_scale : 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = !c->layer[i].no_rope ? sc_build_rope(b, c->layer[i].head_dim) : -1;
        sc_span normed = sc_build_normed(b, "input_layernorm");
        sc_attention *a = sc_build_self_attention(b, normed, shape->qkv_bias, shape->qk_norm, rope);
        if (shape->attention_scale > 0)
            a->scale = shape->attention_scale;
        sc_build_onto(b, a->out, sc_build_attended(b), "self_attn.o_proj", shape->o_bias, onto);
        normed = sc_build_normed(b, "post_attention_layernorm");
        const sc_span gated =
            sc_build_gated(b, normed, ffn, "mlp.gate_proj", "mlp.up_proj", shape->mlp_bias);
        sc_build_onto(b, gated, ffn, "mlp.down_proj", shape->mlp_bias, onto);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}
