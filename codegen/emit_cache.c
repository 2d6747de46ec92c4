/* emit_cache.c - the cache as values: where every buffer lies and of which shape it is. */
#include <string.h>

#include "emit_scope.h"

static void emit_shapes(sc_scope *top, const sc_plan *plan) {
    int *shape_of_layer = sc_pool_alloc(top->pool, (size_t)plan->layers, sizeof *shape_of_layer);
    if (!shape_of_layer) {
        top->rc = SC_EENV;
        return;
    }
    for (int i = 0; i < plan->layers; i++)
        shape_of_layer[i] = plan->layer[i].shape;
    sc_scope_flag(top, "shapes", false);
    for (int i = 0; i < plan->shapes; i++) {
        const sc_cache_shape *c = &plan->shape[i];
        sc_scope s = sc_scope_item(top, "shapes");
        sc_scope_number(&s, "id", i);
        sc_scope_text(&s, "layer_list", sc_layer_list(top->pool, plan->layers, shape_of_layer, i));
        sc_scope_text(&s, "layer_type", sc_layer_type_name(c->type));
        sc_scope_text(&s, "kind", c->ring ? "ring" : "linear");
        sc_scope_number(&s, "kv_heads", c->kv_heads);
        sc_scope_number(&s, "slots", c->slots);
        sc_scope_number(&s, "length", c->length);
        sc_scope_number(&s, "head_dim", c->head_dim);
        sc_scope_number(&s, "v_head_dim", c->v_head_dim);
        sc_scope_number(&s, "key_units", c->key_units);
        sc_scope_number(&s, "value_units", c->value_units);
        sc_scope_number(&s, "evicted", c->evicted);
        sc_scope_number(&s, "rewind", plan->options.rewind);
        const char *from = "max_cache_len";
        if (c->ring)
            from = sc_pool_printf(top->pool, "min(window %lld, max_cache_len %lld)",
                                  (long long)c->window, (long long)plan->options.max_cache_len);
        if (from && c->slots > c->length)
            from = sc_pool_printf(top->pool, "%s and %lld to rewind", from,
                                  (long long)(c->slots - c->length));
        sc_scope_text(&s, "slots_from", from);
        sc_scope_text(&s, "capacity",
                      c->capacity < 0 ? "INT64_MAX"
                                      : sc_pool_printf(top->pool, "%lld", (long long)c->capacity));
        sc_scope_flag(&s, "unbounded", c->capacity < 0);
        sc_scope_flag(&s, "ring", c->evicted > 0);
        sc_scope_number(&s, "ring_flag", c->ring);
        if (s.rc)
            top->rc = s.rc;
    }
}

static void emit_places(sc_scope *top, const sc_plan *plan, bool indexer, bool has_states) {
    static const sc_cache_shape none;
    int states = 0;
    for (int i = 0; i < plan->layers; i++) {
        const sc_layer_config *config = &plan->config->layer[i];
        const sc_layer_cache *layer = &plan->layer[i];
        const sc_cache_shape *c = layer->shape < 0 ? &none : &plan->shape[layer->shape];
        sc_scope s = sc_scope_item(top, "places");
        sc_scope_number(&s, "layer", i);
        sc_scope_number(&s, "keys_offset", (int64_t)layer->keys.offset);
        sc_scope_number(&s, "values_offset", (int64_t)layer->values.offset);
        sc_scope_number(&s, "shape", layer->shape);
        sc_scope_number(&s, "source",
                        layer->shape < 0 && config->kv_source == i ? -1 : config->kv_source);
        sc_scope_flag(&s, "has_states", has_states);
        if (has_states)
            sc_scope_number(&s, "state", config->states ? states : -1);
        states += config->states;
        sc_scope_number(&s, "max_length", sc_plan_max_length(plan, i));
        sc_scope_flag(&s, "offloading", plan->options.offloading);
        if (plan->options.offloading) {
            sc_scope_number(&s, "first_slot", layer->slots);
            sc_scope_number(&s, "next_offloaded", sc_plan_next_offloaded(plan, i));
            if (plan->options.cuda)
                sc_scope_number(&s, "own_slot", layer->own_slot);
        }
        sc_scope_text(&s, "layer_type", sc_layer_type_name(config->type));
        if (indexer)
            sc_scope_number(&s, "indexer_offset", (int64_t)layer->indexer_keys.offset);
        sc_scope_number(&s, "index_head_dim", c->index_head_dim);
        sc_scope_number(&s, "kv_heads", c->kv_heads);
        sc_scope_number(&s, "length", c->length);
        sc_scope_number(&s, "head_dim", c->head_dim);
        sc_scope_number(&s, "v_head_dim", c->v_head_dim);
        if (s.rc)
            top->rc = s.rc;
    }
}

static void emit_buffer(sc_scope *top, const sc_plan *plan, int layer, const char *what,
                        const sc_buffer *buffer, bool host) {
    if (!buffer->bytes)
        return;
    sc_scope s = sc_scope_item(top, "buffers");
    sc_scope_number(&s, "layer", layer);
    sc_scope_text(&s, "what", what);
    sc_scope_number(&s, "offset", (int64_t)buffer->offset);
    sc_scope_number(&s, "row", (int64_t)buffer->bytes / plan->options.batch_size);
    sc_scope_flag(&s, "offloading", plan->options.offloading);
    if (plan->options.offloading)
        sc_scope_number(&s, "host", host);
    if (s.rc)
        top->rc = s.rc;
}

/* Its shape as the runner writes it to a file. */
/* In a safetensors file. */
static const char *const dump_names[] = { [SC_F32] = "F32", [SC_F16] = "F16", [SC_BF16] = "BF16" };

static void emit_state_dump(sc_scope *s, const sc_plan *plan, const sc_state_config *c,
                            int64_t elements) {
    const char *dims = "";
    for (int i = 0; i < c->rank && dims; i++)
        dims = sc_pool_printf(s->pool, "%s%s%lld", dims, i ? ", " : "", (long long)c->dim[i]);
    sc_scope_number(s, "rank", c->rank);
    sc_scope_text(s, "dims", dims);
    sc_scope_number(s, "elements", elements);
    sc_scope_text(s, "state_dump", dump_names[c->float32 ? SC_F32 : plan->options.dtype]);
}

/* A recurrent state is one channel of all its elements. */
static void emit_state(sc_scope *top, const sc_plan *plan, int layer, int index) {
    const sc_state_config *c = &plan->config->layer[layer].state[index];
    const bool recurrent = strcmp(c->name, "conv_state") != 0;
    int64_t elements = 1;
    for (int i = 0; i < c->rank; i++)
        elements *= c->dim[i];
    sc_scope s = sc_scope_item(top, "states");
    sc_scope_number(&s, "layer", layer);
    sc_scope_number(&s, "index", c->index);
    sc_scope_number(&s, "recurrent", recurrent);
    sc_scope_number(&s, "offset", (int64_t)plan->layer[layer].state[index].offset);
    sc_scope_number(&s, "size", c->float32 ? 4 : (int64_t)sc_kv_unit_bytes(plan->options.dtype));
    sc_scope_number(&s, "channels", recurrent ? 1 : c->dim[0]);
    sc_scope_number(&s, "columns", recurrent ? elements : c->dim[1]);
    sc_scope_text(&s, "what", c->name);
    if (plan->graph)
        emit_state_dump(&s, plan, c, elements);
    sc_scope_text(&s, "state_dtype", sc_dtype_name(c->float32 ? SC_F32 : plan->options.dtype));
    if (s.rc)
        top->rc = s.rc;
}

static void emit_slots(sc_scope *top, const sc_plan *plan) {
    sc_scope_number(top, "host_bytes", (int64_t)plan->host_bytes);
    sc_scope_number(top, "slot_count", plan->slots);
    for (int i = 0; i < plan->slots; i++) {
        int layer = 0; /* the first of those that use it */
        while (plan->layer[layer].slots != i / 2 * 2)
            layer++;
        sc_scope s = sc_scope_item(top, "device_slots");
        sc_scope_number(&s, "offset", (int64_t)plan->slot[i]);
        sc_scope_text(&s, "what",
                      sc_pool_printf(top->pool, "layer %d and those of its shape", layer));
        if (s.rc)
            top->rc = s.rc;
    }
}

void sc_emit_cache(sc_scope *top, const sc_plan *plan) {
    int states = 0;
    bool indexer = false;
    emit_shapes(top, plan);
    for (int i = 0; i < plan->layers; i++) {
        indexer |= plan->layer[i].indexer_keys.bytes > 0;
        states += plan->config->layer[i].states;
    }
    emit_places(top, plan, indexer, states > 0);
    for (int i = 0; i < plan->layers; i++) {
        const sc_layer_cache *layer = &plan->layer[i];
        const sc_layer_config *config = &plan->config->layer[i];
        emit_buffer(top, plan, i, "keys", &layer->keys, layer->slots >= 0);
        emit_buffer(top, plan, i, "values", &layer->values, layer->slots >= 0);
        emit_buffer(top, plan, i, "indexer_keys", &layer->indexer_keys, false);
        for (int k = 0; k < config->states; k++) {
            emit_buffer(top, plan, i, config->state[k].name, &layer->state[k], false);
            emit_state(top, plan, i, k);
        }
    }
    sc_scope_flag(top, "offloading", plan->options.offloading);
    if (plan->options.offloading)
        emit_slots(top, plan);
    sc_scope_flag(top, "has_states", states > 0);
    sc_scope_flag(top, "has_indexer", indexer);
    if (indexer) {
        sc_scope_text(top, "indexer_ctype",
                      plan->options.dtype == SC_F32 ? "float" : "unsigned short");
        sc_scope_text(top, "indexer_dump", dump_names[plan->options.dtype]);
    }
    if (states)
        sc_scope_number(top, "state_count", states);
    /* Calls that a device's memory wants, and what they are on the host. */
    const bool cuda = plan->options.cuda;
    sc_scope_text(top, "settled", cuda ? "settle(cache, err)" : "SC_OK");
    sc_scope_text(top, "changed", cuda ? "changed(cache, err)" : "SC_OK");
    sc_scope_text(top, "fill", cuda ? "fill(cache, " : "memset(");
    sc_scope_text(top, "visit", cuda ? "visit_run(cache, visit, " : "visit(");
    if (states > 0 || indexer)
        sc_scope_text(top, "copy", cuda ? "copy_any(cache, " : "memcpy(");
    sc_scope_number(top, "cache_shapes", plan->shapes);
    sc_scope_number(top, "arena_bytes", (int64_t)plan->arena_bytes);
    sc_scope_flag(top, "padded", plan->padding_bytes > 0);
    if (plan->padding_bytes)
        sc_scope_number(top, "padding_bytes", (int64_t)plan->padding_bytes);
}
