/* plan.c - see plan.h. */
#include "plan.h"

#include <string.h>

#include "../runtime/cpu.h"

static const sc_arch archs[] = {
    { "generic", "vector_generic.h", "", 4, false },
    { "x86-64-v3", "vector_avx2.h", "-march=x86-64-v3", 8, false },
    { "x86-64-v4", "vector_avx512.h", "-march=x86-64-v4 -mprefer-vector-width=512", 16, false },
    { "x86-64-v4-bf16", "vector_avx512_bf16.h",
      "-march=x86-64-v4 -mavx512bf16 -mprefer-vector-width=512", 16, true },
};

const sc_arch *sc_arch_find(const char *name) {
    if (!strcmp(name, "native"))
        name = sc_cpu_native();
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (!strcmp(archs[i].name, name))
            return &archs[i];
    return NULL;
}

const char *sc_dtype_name(sc_dtype dtype) {
    static const char *const names[] = { "float32", "float16", "bfloat16", "q8_0",     "q4_0",
                                         "q4_1",    "q5_0",    "q5_1",     "fp8_e4m3", "other" };
    return names[dtype];
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* count * size * … as size_t, checked. */
static int bytes_of(size_t *bytes, const int64_t *factor, int factors, sc_error *err) {
    long long product = 1;
    for (int i = 0; i < factors; i++) {
        const int rc = sc_mul(&product, product, factor[i], "plan: a buffer's size", err);
        if (rc)
            return rc;
    }
    *bytes = (size_t)product;
    return SC_OK;
}

static int add_packed(sc_plan *plan, sc_packed packed, sc_error *err) {
    const int64_t size = plan->options.dtype == SC_F32 ? 4 : 2, lanes = plan->panel / 2;
    int64_t rows = 0;
    for (int i = 0; i < packed.parts; i++)
        rows += packed.part[i].rows;
    int64_t elements = 0;
    switch (packed.kind) {
    case SC_PACK_PANELS:
    case SC_PACK_BIAS:
    case SC_PACK_GATED: {
        const bool gated = packed.kind == SC_PACK_GATED || packed.gated;
        packed.panels = gated ? round_up(packed.part[0].rows, lanes) / lanes
                              : round_up(rows, plan->panel) / plan->panel;
        elements = packed.panels * plan->panel;
        break;
    }
    case SC_PACK_ROWS:
    case SC_PACK_FLOATS:
        elements = rows;
        break;
    }
    const bool floats = packed.kind == SC_PACK_FLOATS || packed.kind == SC_PACK_BIAS;
    const bool panels = packed.kind == SC_PACK_PANELS || packed.kind == SC_PACK_GATED;
    packed.depth = plan->pairs && panels ? round_up(packed.in, 2) : packed.in;
    size_t bytes;
    const int rc =
        bytes_of(&bytes, (int64_t[]){ elements, packed.depth, floats ? 4 : size }, 3, err);
    if (rc)
        return rc;
    packed.bytes = bytes;
    packed.offset = (uint64_t)round_up((int64_t)plan->weights_bytes, 64);
    plan->weights_bytes = packed.offset + packed.bytes;
    plan->pack[plan->packed++] = packed;
    return SC_OK;
}

static int add_floats(sc_plan *plan, int layer, const char *field, const sc_norm *norm,
                      sc_error *err) {
    if (!norm->weight)
        return SC_OK;
    return add_packed(plan,
                      (sc_packed){ .kind = SC_PACK_FLOATS,
                                   .layer = layer,
                                   .field = field,
                                   .parts = 1,
                                   .part = { { norm->weight, norm->width } },
                                   .in = 1 },
                      err);
}

/* The weights of up to three linears that share their input, and their biases if any has one. */
static int add_linears(sc_plan *plan, int layer, const char *weight_field, const char *bias_field,
                       const sc_linear *const linear[], int count, bool gated, sc_error *err) {
    sc_packed w = { .kind = gated ? SC_PACK_GATED : SC_PACK_PANELS,
                    .gated = gated,
                    .layer = layer,
                    .field = weight_field,
                    .parts = count,
                    .in = linear[0]->in };
    sc_packed b = { .kind = SC_PACK_BIAS,
                    .gated = gated,
                    .layer = layer,
                    .field = bias_field,
                    .parts = count,
                    .in = 1 };
    bool any = false;
    for (int i = 0; i < count; i++) {
        w.part[i] = (sc_pack_part){ linear[i]->weight, linear[i]->out };
        b.part[i] = (sc_pack_part){ linear[i]->bias, linear[i]->out };
        any |= linear[i]->bias != NULL;
    }
    const int rc = add_packed(plan, w, err);
    return rc || !any ? rc : add_packed(plan, b, err);
}

const char *sc_plan_norm_field(sc_pool *pool, const char *weight) {
    const char *end = strrchr(weight, '.'), *begin = end;
    while (begin && begin > weight && begin[-1] != '.')
        begin--;
    return end ? sc_pool_printf(pool, "%.*s", (int)(end - begin), begin) : weight;
}

static int plan_layer_weights(sc_plan *plan, sc_pool *pool, int index, sc_error *err) {
    const sc_layer *layer = &plan->graph->layer[index];
    int rc = SC_OK;
    for (int i = 0; i < layer->ops && !rc; i++) {
        const sc_op *op = &layer->op[i];
        if (op->kind == SC_OP_NORM) {
            const char *field = sc_plan_norm_field(pool, op->norm.weight);
            rc = field ? add_floats(plan, index, field, &op->norm, err)
                       : sc_oom(err, "planning weights");
        } else if (op->kind == SC_OP_ATTENTION) {
            const sc_attention *a = &op->attention;
            rc = add_linears(plan, index, "qkv_proj", "qkv_bias",
                             (const sc_linear *[]){ &a->q_proj, &a->k_proj, &a->v_proj }, 3, false,
                             err);
            if (!rc)
                rc = add_floats(plan, index, "q_norm", &a->q_norm, err);
            if (!rc)
                rc = add_floats(plan, index, "k_norm", &a->k_norm, err);
            if (!rc)
                rc = add_linears(plan, index, "o_proj", "o_bias",
                                 (const sc_linear *[]){ &a->o_proj }, 1, false, err);
        } else if (op->kind == SC_OP_GATED_MLP) {
            const sc_gated_mlp *m = &op->gated_mlp;
            rc = add_linears(plan, index, "gate_up_proj", "gate_up_bias",
                             (const sc_linear *[]){ &m->gate_proj, &m->up_proj }, 2, true, err);
            if (!rc)
                rc = add_linears(plan, index, "down_proj", "down_bias",
                                 (const sc_linear *[]){ &m->down_proj }, 1, false, err);
        }
    }
    return rc;
}

static int plan_weights(sc_plan *plan, sc_pool *pool, sc_error *err) {
    const sc_graph *g = plan->graph;
    enum { PER_LAYER = 16, OTHERS = 4 };
    plan->pack = sc_pool_alloc(pool, (size_t)g->layers * PER_LAYER + OTHERS, sizeof *plan->pack);
    if (!plan->pack)
        return sc_oom(err, "planning the weights");
    plan->weights_bytes = 64; /* the file's header */
    int rc = SC_OK;
    if (!g->tied)
        rc = add_packed(plan,
                        (sc_packed){ .kind = SC_PACK_ROWS,
                                     .layer = -1,
                                     .field = "embed_tokens",
                                     .parts = 1,
                                     .part = { { g->embed_tokens, g->vocab } },
                                     .in = g->hidden },
                        err);
    for (int i = 0; i < g->layers && !rc; i++)
        rc = plan_layer_weights(plan, pool, i, err);
    if (!rc)
        rc = add_floats(plan, -1, "norm", &g->norm, err);
    if (!rc)
        rc = add_linears(plan, -1, "lm_head", "lm_head_bias", (const sc_linear *[]){ &g->lm_head },
                         1, false, err);
    plan->weights_bytes = (uint64_t)round_up((int64_t)plan->weights_bytes, 64);
    return rc;
}

static int plan_scratch(sc_plan *plan, sc_error *err) {
    enum { LINE = 16, ROWS = 256, LEAST_BLOCK = 16, QUERIES = 48, LONGEST_TILE = 12 };
    const sc_graph *g = plan->graph;
    const int64_t batch = plan->options.batch_size, panel = plan->panel;
    plan->block = most(LEAST_BLOCK, ROWS / batch);
    if (plan->block > plan->options.max_cache_len)
        plan->block = plan->options.max_cache_len;
    plan->hidden_stride = round_up(g->hidden, panel) + LINE;
    for (int i = 0; i < g->layers; i++) {
        const sc_attention *a = g->layer[i].attention;
        plan->qkv_stride =
            most(plan->qkv_stride,
                 round_up(a->q_proj.out + a->k_proj.out + a->v_proj.out, panel) + LINE);
        plan->attended_stride =
            most(plan->attended_stride, round_up(a->heads * a->v_head_dim, panel) + LINE);
        plan->attention_dim =
            most(plan->attention_dim, round_up(most(a->head_dim, a->v_head_dim), panel));
        const int64_t group = a->heads / a->kv_heads;
        plan->attention_queries =
            most(plan->attention_queries, round_up(most(1, QUERIES / group) * group, LONGEST_TILE));
        plan->step_kv = most(plan->step_kv, batch * a->kv_heads);
        for (int j = 0; j < g->layer[i].ops; j++)
            if (g->layer[i].op[j].kind == SC_OP_GATED_MLP)
                plan->ffn_stride =
                    most(plan->ffn_stride, round_up(g->layer[i].op[j].gated_mlp.ffn, panel) + LINE);
    }
    int64_t pairs = 0;
    for (int i = 0; i < g->ropes; i++)
        pairs += g->rope[i].rotary_dim;
    const int64_t floats = 2 * plan->hidden_stride + plan->qkv_stride + plan->attended_stride +
                           plan->ffn_stride + pairs;
    size_t staging;
    int rc = bytes_of(&plan->scratch_bytes, (int64_t[]){ batch, plan->block, floats, 4 }, 4, err);
    if (!rc)
        rc = bytes_of(
            &staging,
            (int64_t[]){ 2 * plan->step_kv, plan->block, plan->attention_dim,
                         (int64_t)sc_kv_unit_bytes(sc_kv_value_dtype(plan->options.kv_dtype)) },
            4, err);
    if (rc)
        return rc;
    plan->scratch_bytes += staging;
    const int64_t q = plan->attention_queries, dim = plan->attention_dim;
    plan->thread_scratch_bytes = (size_t)((2 * q * dim + q * panel + 3 * panel * dim + 3 * q +
                                           plan->hidden_stride + batch * plan->block * panel) *
                                          4);
    return SC_OK;
}

int sc_plan_make(sc_plan **plan, sc_pool *pool, const sc_config *config, const sc_graph *graph,
                 const sc_plan_options *options, sc_error *err) {
    if (options->max_cache_len < 1 || options->max_cache_len > SC_LONGEST_CACHE)
        return sc_fail(err, SC_EUSAGE, "--max-cache-len: %lld is not in 1 … %d",
                       (long long)options->max_cache_len, SC_LONGEST_CACHE);
    if (options->batch_size < 1 || options->batch_size > SC_WIDEST_BATCH)
        return sc_fail(err, SC_EUSAGE, "--batch-size: %lld is not in 1 … %d",
                       (long long)options->batch_size, SC_WIDEST_BATCH);
    if (options->rewind < 0 || options->rewind > options->max_cache_len)
        return sc_fail(err, SC_EUSAGE, "--rewind: %lld is not in 1 … --max-cache-len %lld",
                       (long long)options->rewind, (long long)options->max_cache_len);
    sc_plan *p = sc_pool_alloc(pool, 1, sizeof *p);
    if (!p)
        return sc_oom(err, "planning");
    p->options = *options;
    p->config = config;
    p->graph = graph;
    p->panel = 2 * options->arch->lanes;
    p->pairs = options->arch->pairs && options->dtype == SC_BF16;
    int rc = sc_plan_cache(p, pool, err);
    if (!rc && graph)
        rc = plan_weights(p, pool, err);
    if (!rc && graph)
        rc = plan_scratch(p, err);
    if (!rc && graph && options->cuda)
        rc = sc_plan_device(p, pool, err);
    if (!rc)
        rc = sc_plan_check(p, err);
    if (!rc)
        *plan = p;
    return rc;
}

/* How far the buffers reach, in order, and how much they add up to. */
typedef struct {
    size_t at, sum;
} extent;

/* The next buffer: where the last one ends, or up to 3 bytes on. */
static int check_buffer(const sc_buffer *buffer, size_t unit, extent *e, int layer, sc_error *err) {
    if (!buffer->bytes)
        return SC_OK;
    if (buffer->offset < e->at || buffer->offset - e->at > 3)
        return sc_fail(err, SC_ECHECK, "plan: layer %d: its buffers do not follow the last one's",
                       layer);
    if (buffer->offset % unit)
        return sc_fail(err, SC_ECHECK, "plan: layer %d: a buffer is not aligned", layer);
    e->at = buffer->offset + buffer->bytes;
    e->sum += buffer->bytes;
    return SC_OK;
}

static int check_layer(const sc_plan *plan, int i, extent *device, extent *host, sc_error *err) {
    const sc_layer_cache *layer = &plan->layer[i];
    const size_t unit = sc_kv_unit_bytes(plan->options.kv_dtype);
    const size_t other = sc_kv_unit_bytes(plan->options.dtype);
    extent *kv = layer->slots < 0 ? device : host;
    int rc = check_buffer(&layer->keys, unit, kv, i, err);
    if (!rc)
        rc = check_buffer(&layer->values, unit, kv, i, err);
    if (!rc)
        rc = check_buffer(&layer->indexer_keys, other, device, i, err);
    for (int k = 0; k < plan->config->layer[i].states && !rc; k++)
        rc = check_buffer(&layer->state[k], plan->config->layer[i].state[k].float32 ? 4 : other,
                          device, i, err);
    return rc;
}

int sc_plan_check(const sc_plan *plan, sc_error *err) {
    extent device = { 0, 0 }, host = { 0, 0 };
    for (int i = 0; i < plan->layers; i++) {
        const int rc = check_layer(plan, i, &device, &host, err);
        if (rc)
            return rc;
    }
    const size_t sum = device.sum + plan->slot_bytes + host.sum + plan->padding_bytes;
    if (sum != plan->arena_bytes + plan->host_bytes || device.at > plan->arena_bytes)
        return sc_fail(err, SC_ECHECK, "plan: the buffers add up to %zu bytes, the arena has %zu",
                       sum, plan->arena_bytes + plan->host_bytes);
    for (int i = 1; i < plan->packed; i++)
        if (plan->pack[i].offset < plan->pack[i - 1].offset + plan->pack[i - 1].bytes)
            return sc_fail(err, SC_ECHECK, "plan: packed tensor %d overlaps the one before", i);
    return SC_OK;
}
