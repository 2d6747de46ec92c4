/* plan_device.c - weights and scratch of a CUDA casting on its device; see plan.h. */
#include <string.h>

#include "plan.h"

enum {
    ALIGN = 256,       /* of buffers: what cuMemAlloc gives, and more than any load wants */
    LOAD = 16,         /* bytes of one load: rows of operands and weights are whole loads */
    ROWS = 1024,       /* rows of activations that a pass has, where the batch allows */
    LEAST_BLOCK = 16,  /* tokens of a pass, however wide the batch is */
    HEAD_ROWS = 64,    /* rows of logits at once */
    INDEX_ROWS = 64,   /* queries that an indexer scores at once */
    BLOCKS = 256,      /* of attention to one token: a few per multiprocessor */
    LEAST_SLOTS = 64,  /* of one such block */
    MOST_SPLITS = 128, /* blocks whose parts one of them adds up */
    STAGING = 4 << 20, /* bytes that are unpacked at once */
    SMALL = 64 << 20,  /* weights of a model that is not worth a large workspace */
    SMALL_WORKSPACE = 1 << 20,
    WORKSPACE = 32 << 20 /* what cuBLAS takes on sm_90 */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static int too_big(sc_error *err) {
    return sc_fail(err, SC_EINPUT,
                   "plan: the device's memory overflows (a smaller --max-cache-len or "
                   "--batch-size)");
}

/* a * b * c bytes behind *end, aligned; *place gets them. */
static int place(sc_buffer *place, size_t *end, int64_t a, int64_t b, int64_t c, sc_error *err) {
    long long bytes = a;
    if (sc_mul(&bytes, bytes, b, "plan", NULL) || sc_mul(&bytes, bytes, c, "plan", NULL) ||
        *end > SIZE_MAX - ALIGN)
        return too_big(err);
    place->offset = (*end + ALIGN - 1) / ALIGN * ALIGN;
    place->bytes = (size_t)bytes;
    return __builtin_add_overflow(place->offset, place->bytes, end) ? too_big(err) : SC_OK;
}

/* Latent queries are long: of floats fewer have room at once. */
int64_t sc_plan_tile_heads(const sc_plan *plan, const sc_attention *a) {
    const int64_t most_heads = plan->options.kv_dtype == SC_F32 ? 8 : 16;
    return a->latent ? least(a->heads, most_heads) : a->heads / a->kv_heads;
}

int64_t sc_plan_tiles(const sc_plan *plan, const sc_attention *a) {
    const int64_t heads = sc_plan_tile_heads(plan, a);
    return (a->heads + heads - 1) / heads;
}

int64_t sc_plan_splits(const sc_plan *plan, const sc_attention *a, const sc_cache_shape *shape) {
    const int64_t wanted = BLOCKS / (plan->options.batch_size * sc_plan_tiles(plan, a));
    const int64_t whole = (shape->length + LEAST_SLOTS - 1) / LEAST_SLOTS;
    return most(1, least(wanted, least(MOST_SPLITS, whole)));
}

int64_t sc_plan_depth(const sc_plan *plan, int64_t in) {
    return round_up(in, LOAD / (plan->options.dtype == SC_F32 ? 4 : 2));
}

/* Rows and their depth of one tensor, and its place: of its layer's run, or of all. */
static int plan_tensor(const sc_plan *plan, sc_packed *p, size_t *end, sc_error *err) {
    const int64_t size = plan->options.dtype == SC_F32 ? 4 : 2;
    const bool floats = sc_weight_is_floats(p->weight);
    p->device_depth = floats ? p->weight->in : sc_plan_depth(plan, p->weight->in);
    return place(&p->device, end, p->rows, p->device_depth, floats ? 4 : size, err);
}

/* Of every layer but offload_weights of them, which lie evenly among the rest, so that one is
 * copied while those before it compute. */
static bool is_on_host(const sc_plan *plan, int layer) {
    const int64_t n = plan->options.offload_weights, all = plan->layers;
    return (layer + 1) * n / all > layer * n / all;
}

static int plan_weights(sc_plan *plan, sc_error *err) {
    sc_device_plan *d = &plan->device;
    size_t slot_bytes = 0;
    int turn = 0, rc = SC_OK;
    for (int i = 0; i < plan->packed && !rc; i++)
        if (plan->pack[i].layer < 0)
            rc = plan_tensor(plan, &plan->pack[i], &d->weights_bytes, err);
    for (int layer = 0; layer < plan->layers && !rc; layer++) {
        sc_buffer *run = &d->run[layer];
        const bool host = is_on_host(plan, layer);
        d->slot[layer] = host ? turn++ % 2 : -1;
        for (int i = 0; i < plan->packed && !rc; i++)
            if (plan->pack[i].layer == layer)
                rc = plan_tensor(plan, &plan->pack[i], &run->bytes, err);
        if (!rc)
            rc = place(run, host ? &d->host_weights_bytes : &d->weights_bytes, (int64_t)run->bytes,
                       1, 1, err);
        if (host && run->bytes > slot_bytes)
            slot_bytes = run->bytes;
    }
    for (int i = 0; i < 2 && slot_bytes && !rc; i++)
        rc = place(&d->weight_slot[i], &d->weights_bytes, (int64_t)slot_bytes, 1, 1, err);
    sc_buffer scratch = { 0 }; /* which lies behind them, aligned too */
    if (!rc)
        rc = place(&scratch, &d->weights_bytes, 0, 1, 1, err);
    return rc;
}

static int add_buffer(sc_plan *plan, sc_pool *pool, const char *name, const char *what,
                      int64_t rows, int64_t width, int64_t size, sc_error *err) {
    sc_device_plan *d = &plan->device;
    sc_device_buffer *b = &d->buffer[d->buffers];
    if (!rows || !width)
        return SC_OK;
    d->buffers++;
    b->name = name;
    b->what = sc_pool_printf(pool, "%s [%lld, %lld]", what, (long long)rows, (long long)width);
    return b->what ? place(&b->place, &d->scratch_bytes, rows, width, size, err)
                   : sc_oom(err, "planning");
}

/* ---- which values are floats, which are operands ---- */

static void mark_floats(sc_plan *plan, sc_span span) {
    if (span.value >= 0)
        plan->device.value[span.value].floats = true;
}

static void mark_list(sc_plan *plan, const sc_op_list *list) {
    sc_device_value *value = plan->device.value;
    for (int i = 0; i < list->ops; i++) {
        const sc_op *op = &list->op[i];
        if (op->kind == SC_OP_ROW) {
            mark_floats(plan, op->row.a);
            mark_floats(plan, op->row.b);
            if (op->row.kind == SC_ROW_CORRECT) /* is added to */
                mark_floats(plan, op->row.out);
        } else if (op->kind == SC_OP_LINEAR) {
            value[op->linear.x.value].operands = true;
            if (op->linear.add)
                mark_floats(plan, op->linear.y);
        } else if (op->kind == SC_OP_ATTENTION) {
            mark_floats(plan, op->attention.q);
            mark_floats(plan, op->attention.k);
            mark_floats(plan, op->attention.v);
            if (op->attention.latent)
                mark_floats(plan, op->attention.q_rope);
            value[op->attention.out.value].operands = true;
        } else if (op->kind == SC_OP_CONV) {
            mark_floats(plan, op->conv.x);
        } else if (op->kind == SC_OP_STATE_SPACE) {
            mark_floats(plan, op->state_space.x);
            mark_floats(plan, op->state_space.dt);
            mark_floats(plan, op->state_space.b);
            mark_floats(plan, op->state_space.c);
        } else if (op->kind == SC_OP_DELTA_RULE) {
            mark_floats(plan, op->delta_rule.q);
            mark_floats(plan, op->delta_rule.k);
            mark_floats(plan, op->delta_rule.v);
            mark_floats(plan, op->delta_rule.a);
            mark_floats(plan, op->delta_rule.b);
        } else if (op->kind == SC_OP_INDEX) {
            mark_floats(plan, op->index.q);
            mark_floats(plan, op->index.k);
            mark_floats(plan, op->index.weights);
        } else {
            value[op->experts.x.value].operands = true;
            mark_floats(plan, op->experts.route);
            mark_floats(plan, op->experts.out);
        }
    }
}

static void mark_values(sc_plan *plan) {
    const sc_graph *g = plan->graph;
    sc_device_value *value = plan->device.value;
    mark_floats(plan, g->embedded);
    mark_list(plan, &g->first);
    for (int i = 0; i < g->layers; i++)
        mark_list(plan, &g->layer[i]);
    mark_list(plan, &g->last);
    value[g->head_in.value].operands = true;
    for (int i = 0; i < g->values; i++) {
        value[i].floats |= !value[i].operands;
        value[i].stride = round_up(g->value[i].width, LOAD / 4);
        value[i].depth = sc_plan_depth(plan, g->value[i].width);
    }
}

/* The widest of every buffer, over all layers. */
static void widen_list(sc_plan *plan, const sc_op_list *list, const sc_cache_shape *shape) {
    sc_device_plan *d = &plan->device;
    const int64_t batch = plan->options.batch_size;
    for (int i = 0; i < list->ops; i++) {
        const sc_op *op = &list->op[i];
        if (op->kind == SC_OP_LINEAR && sc_plan_ends(plan, &op->linear)) {
            const int64_t out = op->linear.out * op->linear.w->blocks;
            d->sums_stride = most(d->sums_stride, round_up(op->linear.gated ? 2 * out : out, 4));
        } else if (op->kind == SC_OP_ATTENTION && shape) {
            const sc_attention *a = &op->attention;
            const int64_t query = a->head_dim + (a->latent ? a->v_head_dim : 0);
            const int64_t tiles = batch * sc_plan_tiles(plan, a);
            const int64_t parts = sc_plan_splits(plan, a, shape) * sc_plan_tile_heads(plan, a);
            const int64_t sum = a->latent ? a->head_dim : a->v_head_dim;
            d->query_width = most(d->query_width, a->heads * query);
            d->arrived = most(d->arrived, tiles);
            d->partial_floats = most(d->partial_floats, tiles * parts * (sum + 2));
        } else if (op->kind == SC_OP_INDEX) {
            const int64_t slots = plan->options.max_cache_len;
            d->index_rows = INDEX_ROWS;
            d->index_stride = round_up(slots, 4);
            d->index_chosen = most(d->index_chosen, least(op->index.top_k, slots));
        } else if (op->kind == SC_OP_EXPERTS)
            d->expert_depth = most(d->expert_depth, sc_plan_depth(plan, op->experts.ffn));
    }
}

static void widths(sc_plan *plan) {
    sc_device_plan *d = &plan->device;
    const sc_graph *g = plan->graph;
    const int64_t batch = plan->options.batch_size;
    d->block = least(plan->options.max_cache_len, most(LEAST_BLOCK, ROWS / batch));
    d->rows = batch * d->block;
    d->head_rows = least(d->rows, most(HEAD_ROWS, batch));
    widen_list(plan, &g->first, NULL);
    for (int i = 0; i < g->layers; i++) {
        const int shape = plan->layer[i].shape;
        widen_list(plan, &g->layer[i], shape >= 0 ? &plan->shape[shape] : NULL);
    }
    widen_list(plan, &g->last, NULL);
}

static int plan_values(sc_plan *plan, sc_pool *pool, sc_error *err) {
    const sc_device_plan *d = &plan->device;
    const bool one = plan->options.dtype == SC_F32; /* floats and operands are */
    int rc = SC_OK;
    for (int i = 0; i < plan->graph->values && !rc; i++) {
        const sc_device_value *v = &d->value[i];
        const char *name = plan->graph->value[i].name, *operands = name;
        if (v->floats || one)
            rc = add_buffer(plan, pool, name, "float", d->rows, v->stride, 4, err);
        if (sc_plan_has_twin(plan, i) && !rc) {
            operands = sc_pool_printf(pool, "%s_operands", name);
            rc = operands ? SC_OK : sc_oom(err, "planning");
        }
        if (v->operands && !one && !rc)
            rc = add_buffer(plan, pool, operands, "operands", d->rows, v->depth, 2, err);
    }
    return rc;
}

static int plan_scratch(sc_plan *plan, sc_pool *pool, sc_error *err) {
    sc_device_plan *d = &plan->device;
    const sc_graph *g = plan->graph;
    const int64_t batch = plan->options.batch_size, rows = d->rows;
    const int64_t size = plan->options.dtype == SC_F32 ? 4 : 2;
    const int64_t kv = (int64_t)sc_kv_unit_bytes(plan->options.kv_dtype);
    int64_t angles = 1, step_words = 2 + 3 * batch;
    for (int i = 0; i < g->ropes; i++)
        angles += g->rope[i].rotary_dim;
    size_t panel = 0;
    for (int i = 0; i < plan->packed; i++)
        if (plan->pack[i].panels)
            panel =
                (size_t)most((int64_t)panel, (int64_t)plan->pack[i].bytes / plan->pack[i].panels);
    d->staging_bytes = (size_t)most(round_up((int64_t)panel, ALIGN), STAGING);
    d->workspace_bytes = d->weights_bytes > SMALL ? WORKSPACE : SMALL_WORKSPACE;
    const int64_t choices = rows * plan->top_k, x = d->value[g->embedded.value].stride;
    const struct {
        const char *name, *what;
        int64_t rows, width, size;
    } all[] = {
        { "step", "what a pass is about, 8 bytes", 1, step_words + (rows + 1) / 2, 8 },
        { "sums", "what a linear adds up, float", rows, d->sums_stride, 4 },
        { "query", "queries as the cache's type", rows, d->query_width, kv },
        { "angles", "cos and sin of positions, float", rows, angles, 4 },
        { "partial", "parts of attention to one token, float", 1, d->partial_floats, 4 },
        { "arrived", "how many of them are there, unsigned", 1, d->arrived, 4 },
        { "index_scores", "an indexer's scores of some queries, float", d->index_rows,
          d->index_stride, 4 },
        { "index_chosen", "slots that each query sees, int", rows, d->index_chosen, 4 },
        { "expert_ranges", "where each expert's choices are, int", plan->experts, 2, 4 },
        { "expert_order", "choices by expert, int", 1, choices, 4 },
        { "expert_ffn", "of each choice, operands", choices, d->expert_depth, size },
        { "expert_y", "what each choice says, float", choices, plan->top_k ? x : 0, 4 },
        { "logits", "logits, float", d->head_rows, g->vocab, 4 },
        { "chosen", "the best id of each row, int", 1, batch, 4 },
        { "workspace", "cuBLASLt's, bytes", 1, (int64_t)d->workspace_bytes, 1 },
    };
    enum { OTHERS = sizeof all / sizeof *all };
    d->buffer = sc_pool_alloc(pool, 2 * (size_t)g->values + OTHERS, sizeof *d->buffer);
    int rc = d->buffer ? plan_values(plan, pool, err) : sc_oom(err, "planning");
    for (int i = 0; i < OTHERS && !rc; i++)
        rc = add_buffer(plan, pool, all[i].name, all[i].what, all[i].rows, all[i].width,
                        all[i].size, err);
    /* Open unpacks panels there, before anything else is. */
    if (d->scratch_bytes < 2 * d->staging_bytes)
        d->scratch_bytes = 2 * d->staging_bytes;
    return rc;
}

int sc_plan_device(sc_plan *plan, sc_pool *pool, sc_error *err) {
    sc_device_plan *d = &plan->device;
    if (plan->options.offload_weights > plan->layers)
        return sc_fail(err, SC_EUSAGE, "--offload-weights: %lld, the model has %d layers",
                       (long long)plan->options.offload_weights, plan->layers);
    int rc = sc_plan_kernels(plan->graph, pool, err);
    if (rc)
        return rc;
    d->value = sc_pool_alloc(pool, (size_t)plan->graph->values, sizeof *d->value);
    d->slot = sc_pool_alloc(pool, (size_t)plan->layers, sizeof *d->slot);
    d->run = sc_pool_alloc(pool, (size_t)plan->layers, sizeof *d->run);
    if (!d->value || !d->slot || !d->run)
        return sc_oom(err, "planning");
    rc = plan_weights(plan, err);
    if (rc)
        return rc;
    mark_values(plan);
    widths(plan);
    return plan_scratch(plan, pool, err);
}
