/*
 * slipcast_cache.c - a cache specification: no model, but what each layer keeps, in words of
 * config.json.
 *
 *   {"model_type": "slipcast_cache", "max_position_embeddings": 4096, "dtype": "bfloat16",
 *    "layers": [
 *      {"layer_type": "full_attention", "num_key_value_heads": 2, "head_dim": 64, "v_head_dim":
 * 64},
 *      {"layer_type": "sliding_attention", "num_key_value_heads": 2, "head_dim": 64,
 *       "sliding_window": 512},
 *      {"layer_type": "linear_attention", "states": [
 *        {"name": "conv_state", "shape": [256, 4]},
 *        {"name": "recurrent_state", "shape": [8, 64, 64], "dtype": "float32"}]},
 *      {"layer_type": "dummy", "shared_from": 0}]}
 *
 * v_head_dim is head_dim when absent; indexed_attention takes index_head_dim, chunked_attention
 * attention_chunk_size. States have the cache's dtype unless theirs is float32.
 */
#include <string.h>

#include "../families.h"
#include "../json.h"

enum { MOST_STATES = 16 };

static const char *key_of(sc_reader *r, int layer, const char *key) {
    return sc_pool_printf(r->pool, "layers[%d].%s", layer, key);
}

/* A width of a layer; absent: fallback, 0 for one that must be there. */
static int64_t width(sc_reader *r, const cJSON *entry, int layer, const char *key,
                     int64_t fallback) {
    const cJSON *item = sc_json_get(entry, key);
    int64_t value = fallback;
    if (!item && !fallback)
        sc_read_fail(r, key_of(r, layer, key), "is missing");
    else if (item && (!sc_json_int(item, &value) || value < 1 || value > SC_LARGEST))
        sc_read_fail(r, key_of(r, layer, key),
                     sc_pool_printf(r->pool, "%s is no whole number in 1 … %d",
                                    sc_read_quote(r, item), SC_LARGEST));
    return value;
}

/* A key that the layer's type has no use for is a mistake. */
static void check_keys(sc_reader *r, const cJSON *entry, int layer, const sc_layer_config *c) {
    const bool kv = sc_layer_type_has_kv(c->type);
    const struct {
        const char *key;
        bool used;
    } keys[] = { { "layer_type", true },
                 { "num_key_value_heads", kv },
                 { "head_dim", kv },
                 { "v_head_dim", kv },
                 { "sliding_window",
                   sc_layer_type_rings(c->type) && c->type != SC_CHUNKED_ATTENTION },
                 { "attention_chunk_size", c->type == SC_CHUNKED_ATTENTION },
                 { "index_head_dim", c->type == SC_INDEXED_ATTENTION },
                 { "states", sc_layer_type_has_states(c->type) },
                 { "shared_from", c->type == SC_DUMMY } };
    const cJSON *item;
    cJSON_ArrayForEach(item, entry) {
        bool used = false;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            used |= keys[i].used && !strcmp(item->string, keys[i].key);
        if (!used)
            sc_read_fail(r, key_of(r, layer, sc_json_printable(item->string)),
                         sc_pool_printf(r->pool, "is no key of a layer that is %s",
                                        sc_layer_type_name(c->type)));
    }
}

static void read_state(sc_reader *r, const cJSON *entry, int layer, sc_state_config *state) {
    const cJSON *name = sc_json_get(entry, "name"), *shape = sc_json_get(entry, "shape"),
                *dtype = sc_json_get(entry, "dtype");
    const char *key = key_of(r, layer, "states");
    const bool conv = cJSON_IsString(name) && !strcmp(name->valuestring, "conv_state");
    if (!conv && !(cJSON_IsString(name) && !strcmp(name->valuestring, "recurrent_state"))) {
        sc_read_fail(r, key, "a state's name is none of conv_state, recurrent_state");
        return;
    }
    state->name = conv ? "conv_state" : "recurrent_state";
    state->rank = cJSON_IsArray(shape) ? cJSON_GetArraySize(shape) : 0;
    if (state->rank < 1 || state->rank > 3 || (conv && state->rank != 2)) {
        sc_read_fail(r, key,
                     conv ? "a conv_state's shape is [channels, columns]"
                          : "a recurrent_state's shape has 1 to 3 dimensions");
        return;
    }
    for (int i = 0; i < state->rank; i++)
        if (!sc_json_int(cJSON_GetArrayItem(shape, i), &state->dim[i]) || state->dim[i] < 1 ||
            state->dim[i] > SC_LARGEST)
            sc_read_fail(r, key, "a dimension is no whole number from 1");
    state->float32 = cJSON_IsString(dtype) && !strcmp(dtype->valuestring, "float32");
    if (dtype && !state->float32)
        sc_read_fail(r, key, "a state's dtype can only be float32 (leave it away for the cache's)");
}

static void read_states(sc_reader *r, const cJSON *entry, int layer, sc_layer_config *c) {
    const cJSON *list = sc_json_get(entry, "states"), *item;
    const int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count < 1 || count > MOST_STATES) {
        sc_read_fail(r, key_of(r, layer, "states"),
                     sc_pool_printf(r->pool, "is no list of 1 to %d states", MOST_STATES));
        return;
    }
    sc_state_config *states = sc_pool_alloc(r->pool, (size_t)count, sizeof *states);
    if (!states) {
        r->rc = sc_oom(r->err, "reading the specification");
        return;
    }
    int i = 0;
    cJSON_ArrayForEach(item, list) {
        read_state(r, item, layer, &states[i]);
        for (int k = 0; k < i && !r->rc; k++)
            states[i].index += !strcmp(states[k].name, states[i].name);
        i++;
    }
    c->states = count;
    c->state = states;
}

static void read_shared(sc_reader *r, const cJSON *entry, int layer, sc_layer_config *c) {
    const cJSON *item = sc_json_get(entry, "shared_from");
    int64_t source;
    if (!item)
        return;
    if (!sc_json_int(item, &source) || source < 0 || source >= layer ||
        !sc_layer_type_has_kv(r->config->layer[source].type)) {
        sc_read_fail(r, key_of(r, layer, "shared_from"),
                     sc_pool_printf(r->pool, "%s is no earlier layer with keys and values",
                                    sc_read_quote(r, item)));
        return;
    }
    c->kv_source = (int)source;
}

static void read_layer(sc_reader *r, const cJSON *entry, int layer, sc_layer_config *c) {
    const cJSON *type = sc_json_get(entry, "layer_type");
    c->kv_source = layer;
    if (!cJSON_IsString(type) || !sc_layer_type_find(&c->type, type->valuestring)) {
        sc_read_fail(r, key_of(r, layer, "layer_type"),
                     type ? sc_pool_printf(r->pool, "%s is no layer type", sc_read_quote(r, type))
                          : "is missing");
        return;
    }
    check_keys(r, entry, layer, c);
    if (sc_layer_type_has_kv(c->type)) {
        c->kv_heads = width(r, entry, layer, "num_key_value_heads", 0);
        c->head_dim = width(r, entry, layer, "head_dim", 0);
        c->v_head_dim = width(r, entry, layer, "v_head_dim", c->head_dim);
    }
    if (sc_layer_type_rings(c->type))
        c->window =
            width(r, entry, layer,
                  c->type == SC_CHUNKED_ATTENTION ? "attention_chunk_size" : "sliding_window", 0);
    if (c->type == SC_INDEXED_ATTENTION)
        c->index_head_dim = width(r, entry, layer, "index_head_dim", 0);
    if (sc_layer_type_has_states(c->type))
        read_states(r, entry, layer, c);
    if (c->type == SC_DUMMY)
        read_shared(r, entry, layer, c);
}

static void read(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *layers = sc_json_get(r->json, "layers"), *entry;
    const int count = cJSON_IsArray(layers) ? cJSON_GetArraySize(layers) : 0;
    if (count < 1 || count > SC_MOST_LAYERS) {
        sc_read_fail(r, "layers",
                     sc_pool_printf(r->pool, "is no list of 1 to %d layers", SC_MOST_LAYERS));
        return;
    }
    c->max_position_embeddings = sc_read_count(r, "max_position_embeddings", SC_NULL, true);
    c->num_hidden_layers = count;
    c->layer = sc_pool_alloc(r->pool, (size_t)count, sizeof *c->layer);
    if (!c->layer) {
        r->rc = sc_oom(r->err, "reading the specification");
        return;
    }
    int i = 0;
    cJSON_ArrayForEach(entry, layers) {
        read_layer(r, entry, i, &c->layer[i]);
        i++;
        if (r->rc)
            return;
    }
}

const sc_family sc_family_slipcast_cache = {
    .model_type = "slipcast_cache",
    .read = read,
};
