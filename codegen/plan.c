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
    static const char *const names[] = { "float32", "float16", "bfloat16", "q8_0", "q4_0",
                                         "q4_1",    "q5_0",    "q5_1",     "other" };
    return names[dtype];
}

const char *sc_bytes_text(char text[32], unsigned long long bytes) {
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    int unit = 0;
    unsigned long long scale = 1;
    while (unit < 5 && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    const unsigned long long whole = bytes / scale;
    const unsigned long long tenths = (bytes % scale) * 10 / scale;
    if (tenths)
        snprintf(text, 32, "%llu.%llu %s", whole, tenths, units[unit]);
    else
        snprintf(text, 32, "%llu %s", whole, units[unit]);
    return text;
}

int sc_plan_slots(int64_t *slots, sc_layer_type type, int64_t max_cache_len, int64_t sliding_window,
                  sc_error *err) {
    if (max_cache_len < 1)
        return sc_fail(err, SC_EINPUT, "plan: max_cache_len: %lld is not positive",
                       (long long)max_cache_len);
    if (type == SC_SLIDING_ATTENTION && sliding_window < 1)
        return sc_fail(err, SC_EINPUT, "plan: sliding_window: %lld is not positive",
                       (long long)sliding_window);
    const bool shorter = type == SC_SLIDING_ATTENTION && sliding_window < max_cache_len;
    *slots = shorter ? sliding_window : max_cache_len;
    return SC_OK;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static size_t kv_size(const sc_plan *plan) { return plan->options.dtype == SC_F32 ? 4 : 2; }

static int plan_shape(sc_plan *plan, const sc_attention *a, int *index, sc_error *err) {
    sc_cache_shape shape = { .type = a->type,
                             .kv_heads = a->kv_heads,
                             .head_dim = a->head_dim,
                             .v_head_dim = a->v_head_dim,
                             .window = a->window };
    const int rc =
        sc_plan_slots(&shape.slots, a->type, plan->options.max_cache_len, a->window, err);
    if (rc)
        return rc;
    shape.ring = a->type == SC_SLIDING_ATTENTION;
    /* A ring of the whole window forgets only what nobody sees; a shorter one must not wrap. */
    const bool whole = shape.ring && shape.slots == a->window;
    shape.capacity = whole ? -1 : shape.slots;
    shape.evicted = whole ? plan->options.max_cache_len : 0;
    for (int i = 0; i < plan->shapes; i++)
        if (!memcmp(&plan->shape[i], &shape, sizeof shape)) {
            *index = i;
            return SC_OK;
        }
    plan->shape[plan->shapes] = shape;
    *index = plan->shapes++;
    return SC_OK;
}

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

static int plan_cache(sc_plan *plan, sc_pool *pool, sc_error *err) {
    const sc_graph *g = plan->graph;
    plan->shape = sc_pool_alloc(pool, (size_t)g->layers, sizeof *plan->shape);
    plan->layer = sc_pool_alloc(pool, (size_t)g->layers, sizeof *plan->layer);
    if (!plan->shape || !plan->layer)
        return sc_oom(err, "planning the cache");
    const int64_t size = (int64_t)kv_size(plan), batch = plan->options.batch_size;
    for (int i = 0; i < g->layers; i++) {
        sc_layer_cache *layer = &plan->layer[i];
        int rc = plan_shape(plan, g->layer[i].attention, &layer->shape, err);
        if (rc)
            return rc;
        const sc_cache_shape *s = &plan->shape[layer->shape];
        rc = bytes_of(&layer->keys_bytes,
                      (int64_t[]){ batch, s->kv_heads, s->slots, s->head_dim, size }, 5, err);
        if (!rc)
            rc = bytes_of(&layer->values_bytes,
                          (int64_t[]){ batch, s->kv_heads, s->slots, s->v_head_dim, size }, 5, err);
        if (rc)
            return rc;
        layer->keys_offset = plan->arena_bytes;
        layer->values_offset = layer->keys_offset + layer->keys_bytes;
        if (__builtin_add_overflow(plan->arena_bytes, layer->keys_bytes + layer->values_bytes,
                                   &plan->arena_bytes))
            return sc_fail(err, SC_EINPUT,
                           "plan: the cache's size overflows (a smaller "
                           "--max-cache-len or --batch-size)");
    }
    for (int i = 0; i < plan->shapes; i++) {
        const sc_cache_shape *s = &plan->shape[i];
        size_t bytes;
        const int rc = bytes_of(
            &bytes,
            (int64_t[]){ batch, s->kv_heads, s->evicted, s->head_dim + s->v_head_dim, size }, 5,
            err);
        if (rc)
            return rc;
        plan->cache_scratch_bytes += bytes;
    }
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
        rc = bytes_of(&staging,
                      (int64_t[]){ 2 * plan->step_kv, plan->block, plan->attention_dim,
                                   (int64_t)kv_size(plan) },
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

int sc_plan_make(sc_plan **plan, sc_pool *pool, const sc_graph *graph,
                 const sc_plan_options *options, sc_error *err) {
    if (options->max_cache_len < 1 || options->max_cache_len > INT32_MAX / 2)
        return sc_fail(err, SC_EUSAGE, "--max-cache-len: %lld is not in 1 … %d",
                       (long long)options->max_cache_len, INT32_MAX / 2);
    if (options->batch_size < 1 || options->batch_size > 65536)
        return sc_fail(err, SC_EUSAGE, "--batch-size: %lld is not in 1 … 65536",
                       (long long)options->batch_size);
    sc_plan *p = sc_pool_alloc(pool, 1, sizeof *p);
    if (!p)
        return sc_oom(err, "planning");
    p->options = *options;
    p->graph = graph;
    p->panel = 2 * options->arch->lanes;
    p->pairs = options->arch->pairs && options->dtype == SC_BF16;
    int rc = plan_cache(p, pool, err);
    if (!rc)
        rc = plan_weights(p, pool, err);
    if (!rc)
        rc = plan_scratch(p, err);
    if (!rc)
        rc = sc_plan_check(p, err);
    if (!rc)
        *plan = p;
    return rc;
}

int sc_plan_check(const sc_plan *plan, sc_error *err) {
    size_t at = 0;
    for (int i = 0; i < plan->graph->layers; i++) {
        const sc_layer_cache *layer = &plan->layer[i];
        const size_t size = kv_size(plan);
        if (layer->keys_offset != at || layer->values_offset != at + layer->keys_bytes)
            return sc_fail(err, SC_ECHECK,
                           "plan: layer %d: its buffers do not follow the last one's", i);
        if (layer->keys_offset % size || layer->values_offset % size)
            return sc_fail(err, SC_ECHECK, "plan: layer %d: a buffer is not aligned", i);
        at += layer->keys_bytes + layer->values_bytes;
    }
    if (at != plan->arena_bytes)
        return sc_fail(err, SC_ECHECK, "plan: the buffers add up to %zu bytes, the arena has %zu",
                       at, plan->arena_bytes);
    for (int i = 1; i < plan->packed; i++)
        if (plan->pack[i].offset < plan->pack[i - 1].offset + plan->pack[i - 1].bytes)
            return sc_fail(err, SC_ECHECK, "plan: packed tensor %d overlaps the one before", i);
    return SC_OK;
}

void sc_plan_print(FILE *out, const sc_plan *plan) {
    char text[32];
    const sc_plan_options *o = &plan->options;
    fprintf(out, "%s: %s, max_cache_len %lld, batch_size %lld, %s, %s\n\n", o->name,
            plan->graph->family, (long long)o->max_cache_len, (long long)o->batch_size,
            sc_dtype_name(o->dtype), o->arch->name);
    fprintf(out, "layer  layer_type         keys and values, each            bytes       offset\n");
    for (int i = 0; i < plan->graph->layers; i++) {
        const sc_layer_cache *layer = &plan->layer[i];
        const sc_cache_shape *s = &plan->shape[layer->shape];
        char shape[80];
        snprintf(shape, sizeof shape, "[%lld, %lld, %lld, %lld]", (long long)o->batch_size,
                 (long long)s->kv_heads, (long long)s->slots, (long long)s->head_dim);
        fprintf(out, "%5d  %-18s %-28s %10zu %12zu\n", i, sc_layer_type_name(s->type), shape,
                layer->keys_bytes + layer->values_bytes, layer->keys_offset);
    }
    fprintf(out, "\ncache arena      %15zu  %s\n", plan->arena_bytes,
            sc_bytes_text(text, plan->arena_bytes));
    fprintf(out, "cache scratch    %15zu  %s\n", plan->cache_scratch_bytes,
            sc_bytes_text(text, plan->cache_scratch_bytes));
    fprintf(out, "model scratch    %15zu  %s\n", plan->scratch_bytes,
            sc_bytes_text(text, plan->scratch_bytes));
    fprintf(out, "  and per thread %15zu  %s\n", plan->thread_scratch_bytes,
            sc_bytes_text(text, plan->thread_scratch_bytes));
    fprintf(out, "weights          %15llu  %s\n", (unsigned long long)plan->weights_bytes,
            sc_bytes_text(text, plan->weights_bytes));
}

void sc_plan_print_json(FILE *out, const sc_plan *plan) {
    const sc_plan_options *o = &plan->options;
    fprintf(out, "{\n  \"name\": \"%s\",\n  \"model_type\": \"%s\",\n", o->name,
            plan->graph->family);
    fprintf(out,
            "  \"max_cache_len\": %lld,\n  \"batch_size\": %lld,\n  \"dtype\": \"%s\",\n  "
            "\"arch\": \"%s\",\n",
            (long long)o->max_cache_len, (long long)o->batch_size, sc_dtype_name(o->dtype),
            o->arch->name);
    fprintf(out, "  \"layers\": [\n");
    int64_t longest = 0;
    for (int i = 0; i < plan->graph->layers; i++) {
        const sc_layer_cache *layer = &plan->layer[i];
        const sc_cache_shape *s = &plan->shape[layer->shape];
        longest = most(longest, s->slots);
        fprintf(
            out,
            "    {\"layer\": %d, \"layer_type\": \"%s\", \"key_shape\": [%lld, %lld, %lld, %lld], "
            "\"value_shape\": [%lld, %lld, %lld, %lld], \"dtype\": \"%s\", \"bytes\": %zu, "
            "\"max_length\": %lld, \"is_croppable\": %s, \"offset\": %zu}%s\n",
            i, sc_layer_type_name(s->type), (long long)o->batch_size, (long long)s->kv_heads,
            (long long)s->slots, (long long)s->head_dim, (long long)o->batch_size,
            (long long)s->kv_heads, (long long)s->slots, (long long)s->v_head_dim,
            sc_dtype_name(o->dtype), layer->keys_bytes + layer->values_bytes, (long long)s->slots,
            s->ring && s->window < o->max_cache_len ? "false" : "true", layer->keys_offset,
            i + 1 < plan->graph->layers ? "," : "");
    }
    fprintf(
        out,
        "  ],\n  \"max_length\": %lld,\n  \"arena_bytes\": %zu,\n  \"cache_scratch_bytes\": %zu,\n"
        "  \"scratch_bytes\": %zu,\n  \"thread_scratch_bytes\": %zu,\n  \"weights_bytes\": "
        "%llu\n}\n",
        (long long)longest, plan->arena_bytes, plan->cache_scratch_bytes, plan->scratch_bytes,
        plan->thread_scratch_bytes, (unsigned long long)plan->weights_bytes);
}
