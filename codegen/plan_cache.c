/* plan_cache.c - shapes of keys, values and states, and their places in the arena; see plan.h. */
#include <string.h>

#include "plan.h"

int sc_plan_slots(int64_t *slots, sc_layer_type type, int64_t max_cache_len, int64_t window,
                  sc_error *err) {
    if (max_cache_len < 1)
        return sc_fail(err, SC_EINPUT, "plan: max_cache_len: %lld is not positive",
                       (long long)max_cache_len);
    if (sc_layer_type_rings(type) && window < 1)
        return sc_fail(err, SC_EINPUT, "plan: sliding_window: %lld is not positive",
                       (long long)window);
    const bool shorter = sc_layer_type_rings(type) && window < max_cache_len;
    *slots = shorter ? window : max_cache_len;
    return SC_OK;
}

int sc_plan_next_offloaded(const sc_plan *plan, int layer) {
    for (int i = 1; i <= plan->layers; i++)
        if (plan->layer[(layer + i) % plan->layers].slots >= 0)
            return (layer + i) % plan->layers;
    return -1;
}

void sc_plan_moved(const sc_plan *plan, size_t *to_device, size_t *to_host) {
    *to_device = *to_host = 0;
    for (int i = 0; i < plan->layers; i++) {
        const sc_layer_cache *layer = &plan->layer[i];
        if (layer->slots < 0)
            continue;
        const size_t bytes = layer->keys.bytes + layer->values.bytes;
        *to_device += bytes;
        *to_host += bytes / (size_t)plan->shape[layer->shape].slots;
    }
}

int64_t sc_plan_max_length(const sc_plan *plan, int layer) {
    const sc_layer_type type = plan->config->layer[layer].type;
    if (!sc_layer_type_has_kv(type) || sc_layer_type_has_states(type))
        return -1;
    return plan->shape[plan->layer[layer].shape].length;
}

bool sc_plan_is_croppable(const sc_plan *plan, int layer) {
    const sc_layer_config *c = &plan->config->layer[layer];
    if (sc_layer_type_has_states(c->type)) {
        bool convolutions = c->states > 0;
        for (int i = 0; i < c->states; i++)
            convolutions &= !strcmp(c->state[i].name, "conv_state");
        return convolutions;
    }
    return !sc_layer_type_rings(c->type) || c->window >= plan->options.max_cache_len;
}

size_t sc_kv_unit_bytes(sc_dtype kv_dtype) {
    return kv_dtype == SC_F32 ? 4 : kv_dtype == SC_F16 || kv_dtype == SC_BF16 ? 2 : 1;
}

int64_t sc_kv_units(sc_dtype kv_dtype, int64_t dim) {
    enum { BLOCK = 32, BLOCK_BYTES = 34, SCALE_BYTES = 4 };
    if (kv_dtype == SC_Q8_0)
        return dim % BLOCK ? 0 : dim / BLOCK * BLOCK_BYTES;
    return kv_dtype == SC_FP8_E4M3 ? SCALE_BYTES + dim : dim;
}

sc_dtype sc_kv_value_dtype(sc_dtype kv_dtype) {
    return kv_dtype == SC_Q8_0 || kv_dtype == SC_FP8_E4M3 ? SC_F32 : kv_dtype;
}

static int too_big(sc_error *err) {
    return sc_fail(err, SC_EINPUT,
                   "plan: the cache's size overflows (a smaller --max-cache-len or --batch-size)");
}

/* size * factor[0] * … bytes at the end of the arena (the host's), at a multiple of size. */
static int place(sc_plan *plan, sc_layer_cache *layer, sc_buffer *buffer, bool host, size_t size,
                 const int64_t *factor, int factors, sc_error *err) {
    size_t *end = host ? &plan->host_bytes : &plan->arena_bytes;
    long long bytes = (long long)size;
    for (int i = 0; i < factors; i++)
        if (sc_mul(&bytes, bytes, factor[i], "plan", NULL))
            return too_big(err);
    const size_t padding = (size - *end % size) % size;
    plan->padding_bytes += padding;
    buffer->offset = *end + padding;
    buffer->bytes = (size_t)bytes;
    layer->bytes += buffer->bytes;
    if (__builtin_add_overflow(buffer->offset, buffer->bytes, end))
        return too_big(err);
    return SC_OK;
}

/* The index of that shape among the plan's; a new one is added. */
static int find_shape(sc_plan *plan, const sc_layer_config *c, int *index, sc_error *err) {
    sc_cache_shape shape = { .type = c->type,
                             .kv_heads = c->kv_heads,
                             .head_dim = c->head_dim,
                             .v_head_dim = c->v_head_dim,
                             .index_head_dim = c->index_head_dim,
                             .window = c->window };
    const sc_plan_options *o = &plan->options;
    const int rc = sc_plan_slots(&shape.length, c->type, o->max_cache_len, c->window, err);
    if (rc)
        return rc;
    shape.key_units = sc_kv_units(o->kv_dtype, c->head_dim);
    shape.value_units = sc_kv_units(o->kv_dtype, c->v_head_dim);
    if (!shape.key_units || !shape.value_units)
        return sc_fail(err, SC_EUSAGE, "--kv-dtype %s: a head_dim of %lld is no multiple of 32",
                       sc_dtype_name(o->kv_dtype),
                       (long long)(shape.key_units ? c->v_head_dim : c->head_dim));
    shape.ring = sc_layer_type_rings(c->type);
    /* A ring of the whole window forgets only what nobody sees; a shorter one must not wrap. */
    const bool whole = shape.ring && shape.length == c->window;
    shape.slots = shape.length;
    if (whole && o->rewind > 1)
        shape.slots = c->window < o->max_cache_len - o->rewind + 1 ? c->window + o->rewind - 1
                                                                   : o->max_cache_len;
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

/* Keys and values of a full layer, of a sliding one when asked; states stay where they are used. */
static bool offloads(const sc_plan *plan, const sc_layer_config *c) {
    return plan->options.offloading &&
           (plan->options.offload_sliding || !sc_layer_type_rings(c->type));
}

/* Two slots on the device for every shape that is offloaded; of its layers every other one has the
 * second. */
static int plan_slots(sc_plan *plan, sc_pool *pool, sc_error *err) {
    const size_t unit = sc_kv_unit_bytes(plan->options.kv_dtype);
    plan->slot = sc_pool_alloc(pool, (size_t)plan->shapes * 2 + 1, sizeof *plan->slot);
    int *first = sc_pool_alloc(pool, (size_t)plan->shapes + 1, sizeof *first);
    int *taken = sc_pool_alloc(pool, (size_t)plan->shapes + 1, sizeof *taken);
    if (!plan->slot || !first || !taken)
        return sc_oom(err, "planning the cache");
    for (int i = 0; i < plan->layers; i++) {
        sc_layer_cache *layer = &plan->layer[i];
        const size_t bytes = layer->keys.bytes + layer->values.bytes;
        if (layer->slots < 0)
            continue;
        if (!first[layer->shape]) {
            const size_t padding = (unit - plan->arena_bytes % unit) % unit;
            plan->padding_bytes += padding;
            plan->arena_bytes += padding;
            first[layer->shape] = plan->slots + 1;
            for (int k = 0; k < 2; k++) {
                plan->slot[plan->slots++] = plan->arena_bytes;
                plan->slot_bytes += bytes;
                if (__builtin_add_overflow(plan->arena_bytes, bytes, &plan->arena_bytes))
                    return too_big(err);
            }
        }
        layer->slots = first[layer->shape] - 1;
        layer->own_slot = layer->slots + taken[layer->shape]++ % 2;
    }
    if (plan->options.offloading && !plan->slots && !plan->shapes)
        return sc_fail(
            err, SC_EUSAGE,
            "--offloading: no layer keeps keys and values, so there is nothing to offload");
    if (plan->options.offloading && !plan->slots)
        return sc_fail(err, SC_EUSAGE,
                       "--offloading: every layer slides, so there is nothing to offload "
                       "(--no-offload-only-non-sliding)");
    return SC_OK;
}

static int plan_kv(sc_plan *plan, const sc_layer_config *c, sc_layer_cache *layer, sc_error *err) {
    int rc = find_shape(plan, c, &layer->shape, err);
    if (rc)
        return rc;
    const sc_cache_shape *s = &plan->shape[layer->shape];
    const size_t unit = sc_kv_unit_bytes(plan->options.kv_dtype);
    const int64_t batch = plan->options.batch_size;
    const bool host = offloads(plan, c);
    if (host)
        layer->slots = 0; /* plan_slots says which */
    rc = place(plan, layer, &layer->keys, host, unit,
               (int64_t[]){ batch, s->kv_heads, s->slots, s->key_units }, 4, err);
    if (!rc)
        rc = place(plan, layer, &layer->values, host, unit,
                   (int64_t[]){ batch, s->kv_heads, s->slots, s->value_units }, 4, err);
    if (!rc && s->index_head_dim)
        rc = place(plan, layer, &layer->indexer_keys, false, sc_kv_unit_bytes(plan->options.dtype),
                   (int64_t[]){ batch, s->slots, s->index_head_dim }, 3, err);
    return rc;
}

static int plan_states(sc_plan *plan, sc_pool *pool, const sc_layer_config *c,
                       sc_layer_cache *layer, sc_error *err) {
    layer->state = sc_pool_alloc(pool, (size_t)c->states + 1, sizeof *layer->state);
    if (!layer->state)
        return sc_oom(err, "planning the cache");
    int rc = SC_OK;
    for (int i = 0; i < c->states && !rc; i++) {
        const sc_state_config *s = &c->state[i];
        int64_t factor[4] = { plan->options.batch_size };
        memcpy(factor + 1, s->dim, (size_t)s->rank * sizeof *s->dim);
        rc =
            place(plan, layer, &layer->state[i], false,
                  s->float32 ? 4 : sc_kv_unit_bytes(plan->options.dtype), factor, s->rank + 1, err);
    }
    return rc;
}

/* What rings drive out while one step is computed, per shape. */
static int plan_evicted(sc_plan *plan, sc_error *err) {
    for (int i = 0; i < plan->shapes; i++) {
        const sc_cache_shape *s = &plan->shape[i];
        const int64_t factor[] = { plan->options.batch_size, s->kv_heads, s->evicted,
                                   s->key_units + s->value_units };
        long long bytes = (long long)sc_kv_unit_bytes(plan->options.kv_dtype);
        for (int k = 0; k < 4; k++)
            if (sc_mul(&bytes, bytes, factor[k], "plan", NULL))
                return too_big(err);
        if (__builtin_add_overflow(plan->cache_scratch_bytes, (size_t)bytes,
                                   &plan->cache_scratch_bytes))
            return too_big(err);
    }
    return SC_OK;
}

int sc_plan_cache(sc_plan *plan, sc_pool *pool, sc_error *err) {
    plan->layers = (int)plan->config->num_hidden_layers;
    plan->shape = sc_pool_alloc(pool, (size_t)plan->layers, sizeof *plan->shape);
    plan->layer = sc_pool_alloc(pool, (size_t)plan->layers, sizeof *plan->layer);
    if (!plan->shape || !plan->layer)
        return sc_oom(err, "planning the cache");
    int rc = SC_OK;
    for (int i = 0; i < plan->layers && !rc; i++) {
        const sc_layer_config *c = &plan->config->layer[i];
        plan->layer[i].shape = plan->layer[i].slots = plan->layer[i].own_slot = -1;
        if (sc_layer_type_has_kv(c->type))
            rc = plan_kv(plan, c, &plan->layer[i], err);
        if (!rc)
            rc = plan_states(plan, pool, c, &plan->layer[i], err);
    }
    if (!rc)
        rc = plan_slots(plan, pool, err);
    return rc ? rc : plan_evicted(plan, err);
}
