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
    static const char *const names[] = { "float32", "float16",  "bfloat16", "q8_0",
                                         "q4_0",    "q4_1",     "q5_0",     "q5_1",
                                         "mxfp4",   "fp8_e4m3", "other" };
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

bool sc_weight_is_floats(const sc_weight *weight) {
    return weight->kind == SC_WEIGHT_FLOATS || weight->kind == SC_WEIGHT_BIAS ||
           weight->kind == SC_WEIGHT_GATED_BIAS;
}

bool sc_weight_is_gated(const sc_weight *weight) {
    return weight->kind == SC_WEIGHT_GATED || weight->kind == SC_WEIGHT_GATED_BIAS;
}

static int add_weight(sc_plan *plan, int layer, const sc_weight *weight, sc_error *err) {
    const int64_t size = sc_weight_is_floats(weight) || plan->options.dtype == SC_F32 ? 4 : 2;
    const bool panels = weight->kind != SC_WEIGHT_ROWS && weight->kind != SC_WEIGHT_FLOATS;
    sc_packed packed = { .weight = weight, .layer = layer, .depth = weight->in };
    for (int i = 0; i < weight->parts; i++)
        packed.rows += weight->part[i].rows;
    const int64_t block_rows = packed.rows;
    if (__builtin_mul_overflow(block_rows, (int64_t)weight->blocks, &packed.rows))
        return sc_fail(err, SC_EINPUT, "plan: %s: its rows overflow", weight->field);
    int64_t elements = packed.rows;
    if (panels) {
        const int64_t unit = sc_weight_is_gated(weight) ? plan->panel / 2 : plan->panel;
        const int64_t outputs = sc_weight_is_gated(weight) ? weight->part[0].rows : block_rows;
        packed.panels = round_up(outputs, unit) / unit * weight->blocks;
        elements = packed.panels * plan->panel;
        if (plan->pairs && !sc_weight_is_floats(weight))
            packed.depth = round_up(weight->in, 2);
    }
    size_t bytes;
    const int rc = bytes_of(&bytes, (int64_t[]){ elements, packed.depth, size }, 3, err);
    if (rc)
        return rc;
    packed.bytes = bytes;
    packed.offset = (uint64_t)round_up((int64_t)plan->weights_bytes, 64);
    plan->weights_bytes = packed.offset + packed.bytes;
    plan->pack[plan->packed++] = packed;
    return SC_OK;
}

static int add_list(sc_plan *plan, int layer, const sc_op_list *list, sc_error *err) {
    int rc = SC_OK;
    for (int i = 0; i < list->ops; i++)
        for (int k = 0; sc_op_weight(&list->op[i], k) && !rc; k++)
            if (!sc_list_has_before(list, i, sc_op_weight(&list->op[i], k)))
                rc = add_weight(plan, layer, sc_op_weight(&list->op[i], k), err);
    return rc;
}

static int plan_weights(sc_plan *plan, sc_pool *pool, sc_error *err) {
    const sc_graph *g = plan->graph;
    enum { OTHERS = 3 };
    size_t ops = (size_t)g->first.ops + (size_t)g->last.ops;
    for (int i = 0; i < g->layers; i++)
        ops += (size_t)g->layer[i].ops;
    plan->pack = sc_pool_alloc(pool, ops * SC_OP_WEIGHTS + OTHERS, sizeof *plan->pack);
    if (!plan->pack)
        return sc_oom(err, "planning the weights");
    plan->weights_bytes = 64; /* the file's header */
    int rc = g->embed_tokens ? add_weight(plan, -1, g->embed_tokens, err) : SC_OK;
    if (!rc)
        rc = add_list(plan, -1, &g->first, err);
    for (int i = 0; i < g->layers && !rc; i++)
        rc = add_list(plan, i, &g->layer[i], err);
    if (!rc)
        rc = add_list(plan, -1, &g->last, err);
    if (!rc)
        rc = add_weight(plan, -1, g->lm_head, err);
    if (!rc && g->lm_head_bias)
        rc = add_weight(plan, -1, g->lm_head_bias, err);
    plan->weights_bytes = (uint64_t)round_up((int64_t)plan->weights_bytes, 64);
    return rc;
}

int64_t sc_plan_group(const sc_attention *attention) {
    enum { MANY = 16, FEW = 4 };
    const int64_t group = attention->heads / attention->kv_heads;
    for (int64_t part = MANY; part >= FEW && group > MANY; part--)
        if (group % part == 0)
            return part;
    return group;
}

static int plan_scratch(sc_plan *plan, sc_pool *pool, sc_error *err) {
    enum { LINE = 16, ROWS = 256, LEAST_BLOCK = 16, QUERIES = 48, LONGEST_TILE = 12 };
    const sc_graph *g = plan->graph;
    const int64_t batch = plan->options.batch_size, panel = plan->panel;
    int64_t floats = 0;
    plan->block = most(LEAST_BLOCK, ROWS / batch);
    if (plan->block > plan->options.max_cache_len)
        plan->block = plan->options.max_cache_len;
    plan->stride = sc_pool_alloc(pool, (size_t)g->values, sizeof *plan->stride);
    if (!plan->stride)
        return sc_oom(err, "planning");
    for (int i = 0; i < g->values; i++) {
        const sc_value *v = &g->value[i];
        plan->stride[i] = round_up(v->width, panel) + LINE;
        floats += plan->stride[i] * (plan->pairs && v->operand && v->floats ? 2 : 1);
    }
    for (int i = 0; i < g->layers; i++) {
        const sc_attention *a = sc_layer_attention(g, i);
        if (!a)
            continue;
        const int64_t dim =
            a->latent ? a->head_dim + a->v_head_dim : most(a->head_dim, a->v_head_dim);
        plan->attention_dim = most(plan->attention_dim, round_up(dim, panel));
        const int64_t group = sc_plan_group(a);
        plan->attention_queries =
            most(plan->attention_queries, round_up(most(1, QUERIES / group) * group, LONGEST_TILE));
        plan->step_kv = most(plan->step_kv, batch * a->kv_heads);
    }
    for (int i = 0; i < g->ropes; i++)
        floats += g->rope[i].rotary_dim;
    for (int i = 0; i < g->layers; i++)
        for (int k = 0; k < g->layer[i].ops; k++) {
            const sc_experts *e = &g->layer[i].op[k].experts;
            const sc_index *x = &g->layer[i].op[k].index;
            if (g->layer[i].op[k].kind == SC_OP_INDEX) {
                plan->index_stride = round_up(plan->options.max_cache_len, panel) + panel;
                plan->attention_queries =
                    most(plan->attention_queries, round_up(x->heads, LONGEST_TILE));
                plan->attention_dim = most(plan->attention_dim, round_up(x->dim, panel));
            }
            if (g->layer[i].op[k].kind != SC_OP_EXPERTS)
                continue;
            plan->experts = most(plan->experts, e->experts);
            plan->top_k = most(plan->top_k, e->top_k);
            plan->expert_stride = most(plan->expert_stride, round_up(e->ffn, panel) + LINE);
            plan->expert_x_stride = most(plan->expert_x_stride, round_up(e->hidden, panel) + LINE);
        }
    floats += plan->index_stride;
    if (plan->top_k) /* rows of each choice: x, ffn and y, and where they lie */
        floats += plan->top_k * (2 * plan->expert_x_stride + plan->expert_stride + 1);
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
    plan->thread_scratch_bytes =
        (size_t)((2 * q * dim + q * panel + 3 * panel * dim + 3 * q + batch * plan->block * panel) *
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
    if (graph && graph->positions && options->max_cache_len > graph->positions)
        return sc_fail(err, SC_EUSAGE,
                       "--max-cache-len: %lld is more than the model's %lld learned positions",
                       (long long)options->max_cache_len, (long long)graph->positions);
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
        rc = plan_scratch(p, pool, err);
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
