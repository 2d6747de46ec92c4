/* plan_device.c - weights and scratch of a CUDA casting on its device; see plan.h. */
#include <string.h>

#include "plan.h"

enum {
    ALIGN = 256,       /* of buffers: what cuMemAlloc gives, and more than any load wants */
    LOAD = 16,         /* bytes of one load: rows of operands and weights are whole loads */
    ROWS = 1024,       /* rows of activations that a pass has, where the batch allows */
    LEAST_BLOCK = 16,  /* tokens of a pass, however wide the batch is */
    HEAD_ROWS = 64,    /* rows of logits at once */
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

int64_t sc_plan_splits(const sc_plan *plan, const sc_cache_shape *shape) {
    const int64_t wanted = BLOCKS / (plan->options.batch_size * shape->kv_heads);
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
    p->device_depth = floats ? 1 : sc_plan_depth(plan, p->weight->in);
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
    return rc;
}

static int add_buffer(sc_plan *plan, sc_pool *pool, const char *name, const char *what,
                      int64_t rows, int64_t width, int64_t size, sc_error *err) {
    sc_device_plan *d = &plan->device;
    sc_device_buffer *b = &d->buffer[d->buffers++];
    b->name = name;
    b->what = sc_pool_printf(pool, "%s [%lld, %lld]", what, (long long)rows, (long long)width);
    return b->what ? place(&b->place, &d->scratch_bytes, rows, width, size, err)
                   : sc_oom(err, "planning");
}

/* The widest of every buffer, over all layers. */
static void widths(sc_plan *plan) {
    sc_device_plan *d = &plan->device;
    const sc_graph *g = plan->graph;
    const int64_t batch = plan->options.batch_size;
    d->block = least(plan->options.max_cache_len, most(LEAST_BLOCK, ROWS / batch));
    d->rows = batch * d->block;
    d->head_rows = least(d->rows, most(HEAD_ROWS, batch));
    d->hidden_depth = sc_plan_depth(plan, g->hidden);
    d->hidden_stride = round_up(g->hidden, 4);
    for (int i = 0; i < g->layers; i++) {
        const sc_attention *a = sc_layer_attention(g, i);
        const int64_t group = a->heads / a->kv_heads;
        const int64_t splits = sc_plan_splits(plan, &plan->shape[plan->layer[i].shape]);
        d->q_stride = most(d->q_stride, a->heads * a->head_dim);
        d->attended_depth = most(d->attended_depth, sc_plan_depth(plan, a->heads * a->v_head_dim));
        d->arrived = most(d->arrived, batch * a->kv_heads);
        d->partial_floats =
            most(d->partial_floats, batch * a->kv_heads * splits * group * (a->v_head_dim + 2));
        for (int j = 0; j < g->layer[i].ops; j++) {
            const sc_linear *l = &g->layer[i].op[j].linear;
            if (g->layer[i].op[j].kind != SC_OP_LINEAR || l->add)
                continue;
            if (l->gated) {
                d->ffn_depth = most(d->ffn_depth, sc_plan_depth(plan, l->out));
                d->gate_up_stride = most(d->gate_up_stride, round_up(2 * l->out, 4));
            } else
                d->qkv_stride = most(d->qkv_stride, round_up(l->out, 4));
        }
    }
}

/* Kernels exist for decoders of llama's shape: RMS norms of the residual stream that linears read,
 * q/k/v in one, attention, gated MLPs. */
static bool has_kernels(const sc_graph *g, const sc_op *op) {
    const sc_linear *l = &op->linear;
    if (op->kind == SC_OP_ROW)
        return op->row.kind == SC_ROW_RMS_NORM && op->row.a.value == g->embedded.value;
    if (op->kind == SC_OP_ATTENTION)
        return op->attention.softcap <= 0 && !op->attention.alibi;
    if (op->kind != SC_OP_LINEAR)
        return false;
    const bool plain = l->scale >= 1 && l->scale <= 1;
    return plain && (l->gated ? l->act == SC_ACT_SILU : !l->act);
}

static int check_graph(const sc_graph *g, sc_error *err) {
    bool good = !g->first.ops && g->last.ops == 1 && !g->lm_head_bias;
    good &= g->embed_scale >= 1 && g->embed_scale <= 1 && g->logits_scale >= 1 &&
            g->logits_scale <= 1 && g->logits_softcap <= 0;
    for (int i = 0; i < g->ropes; i++)
        good &= !g->rope[i].long_from;
    for (int i = 0; i < g->layers && good; i++) {
        const sc_op_list *list = &g->layer[i];
        good = list->ops == 7 && list->op[0].kind == SC_OP_ROW &&
               list->op[2].kind == SC_OP_ATTENTION && list->op[4].kind == SC_OP_ROW &&
               list->op[5].linear.gated;
        for (int k = 0; k < list->ops && good; k++)
            good = has_kernels(g, &list->op[k]);
    }
    if (good)
        return SC_OK;
    return sc_fail(err, SC_EUSAGE,
                   "--target cuda: %s has operations without a kernel yet (take --target cpu)",
                   g->family);
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
    const struct {
        const char *name, *what;
        int64_t rows, width, size;
    } all[] = {
        { "step", "what a pass is about, 8 bytes", 1, step_words + (rows + 1) / 2, 8 },
        { "x", "residual stream, float", rows, d->hidden_stride, 4 },
        { "normed", "its norm, operands", rows, d->hidden_depth, size },
        { "qkv", "q, k and v, float", rows, d->qkv_stride, 4 },
        { "q", "q as the cache's type", rows, d->q_stride, kv },
        { "attended", "attention's outcome, operands", rows, d->attended_depth, size },
        { "gate_up", "gate and up, float", rows, d->gate_up_stride, 4 },
        { "ffn", "their product, operands", rows, d->ffn_depth, size },
        { "angles", "cos and sin of positions, float", rows, angles, 4 },
        { "partial", "parts of attention to one token, float", 1, d->partial_floats, 4 },
        { "arrived", "how many of them are there, unsigned", 1, d->arrived, 4 },
        { "logits", "logits, float", d->head_rows, g->vocab, 4 },
        { "chosen", "the best id of each row, int", 1, batch, 4 },
        { "workspace", "cuBLASLt's, bytes", 1, (int64_t)d->workspace_bytes, 1 },
    };
    _Static_assert(sizeof all / sizeof *all <= SC_DEVICE_BUFFERS, "room for all");
    int rc = SC_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !rc; i++)
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
    int rc = check_graph(plan->graph, err);
    if (rc)
        return rc;
    d->slot = sc_pool_alloc(pool, (size_t)plan->layers, sizeof *d->slot);
    d->run = sc_pool_alloc(pool, (size_t)plan->layers, sizeof *d->run);
    if (!d->slot || !d->run)
        return sc_oom(err, "planning");
    rc = plan_weights(plan, err);
    if (rc)
        return rc;
    widths(plan);
    return plan_scratch(plan, pool, err);
}
