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

int64_t sc_plan_max_length(const sc_plan *plan, int layer) {
    const sc_layer_type type = plan->config->layer[layer].type;
    if (!sc_layer_type_has_kv(type) || sc_layer_type_has_states(type))
        return -1;
    return plan->shape[plan->layer[layer].shape].slots;
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

static size_t kv_size(const sc_plan *plan) { return plan->options.dtype == SC_F32 ? 4 : 2; }

static int too_big(sc_error *err) {
    return sc_fail(err, SC_EINPUT,
                   "plan: the cache's size overflows (a smaller --max-cache-len or --batch-size)");
}

/* size * factor[0] * … bytes at the end of the arena, at a multiple of size. */
static int place(sc_plan *plan, sc_layer_cache *layer, sc_buffer *buffer, size_t size,
                 const int64_t *factor, int factors, sc_error *err) {
    long long bytes = (long long)size;
    for (int i = 0; i < factors; i++)
        if (sc_mul(&bytes, bytes, factor[i], "plan", NULL))
            return too_big(err);
    const size_t padding = (size - plan->arena_bytes % size) % size;
    plan->padding_bytes += padding;
    buffer->offset = plan->arena_bytes + padding;
    buffer->bytes = (size_t)bytes;
    layer->bytes += buffer->bytes;
    if (__builtin_add_overflow(buffer->offset, buffer->bytes, &plan->arena_bytes))
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
    const int rc =
        sc_plan_slots(&shape.slots, c->type, plan->options.max_cache_len, c->window, err);
    if (rc)
        return rc;
    shape.ring = sc_layer_type_rings(c->type);
    /* A ring of the whole window forgets only what nobody sees; a shorter one must not wrap. */
    const bool whole = shape.ring && shape.slots == c->window;
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

static int plan_kv(sc_plan *plan, const sc_layer_config *c, sc_layer_cache *layer, sc_error *err) {
    int rc = find_shape(plan, c, &layer->shape, err);
    if (rc)
        return rc;
    const size_t size = kv_size(plan);
    const int64_t batch = plan->options.batch_size, slots = plan->shape[layer->shape].slots;
    rc = place(plan, layer, &layer->keys, size,
               (int64_t[]){ batch, c->kv_heads, slots, c->head_dim }, 4, err);
    if (!rc)
        rc = place(plan, layer, &layer->values, size,
                   (int64_t[]){ batch, c->kv_heads, slots, c->v_head_dim }, 4, err);
    if (!rc && c->index_head_dim)
        rc = place(plan, layer, &layer->indexer_keys, size,
                   (int64_t[]){ batch, slots, c->index_head_dim }, 3, err);
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
        rc = place(plan, layer, &layer->state[i], s->float32 ? 4 : kv_size(plan), factor,
                   s->rank + 1, err);
    }
    return rc;
}

/* What rings drive out while one step is computed, per shape. */
static int plan_evicted(sc_plan *plan, sc_error *err) {
    for (int i = 0; i < plan->shapes; i++) {
        const sc_cache_shape *s = &plan->shape[i];
        const int64_t factor[] = { plan->options.batch_size, s->kv_heads, s->evicted,
                                   s->head_dim + s->v_head_dim };
        long long bytes = (long long)kv_size(plan);
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
        plan->layer[i].shape = -1;
        if (sc_layer_type_has_kv(c->type))
            rc = plan_kv(plan, c, &plan->layer[i], err);
        if (!rc)
            rc = plan_states(plan, pool, c, &plan->layer[i], err);
    }
    return rc ? rc : plan_evicted(plan, err);
}
