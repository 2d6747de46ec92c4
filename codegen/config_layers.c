/*
 * config_layers.c - what the cache of each layer is: type, widths, window, whose keys and values.
 *
 * Source  transformers src/transformers/cache_utils.py, get_layer_types_and_kwargs and StaticCache;
 *         src/transformers/configuration_utils.py, per_layer_config.
 */
#include <string.h>

#include "config_read.h"
#include "families.h"
#include "json.h"

static const struct {
    const char *name;
    sc_layer_type type;
} type_names[] = {
    { "full_attention", SC_FULL_ATTENTION },
    { "sliding_attention", SC_SLIDING_ATTENTION },
    { "chunked_attention", SC_CHUNKED_ATTENTION },
    { "indexed_attention", SC_INDEXED_ATTENTION },
    { "conv", SC_CONV },
    { "linear_attention", SC_LINEAR_ATTENTION },
    { "hybrid", SC_HYBRID },
    { "hybrid_sliding", SC_HYBRID_SLIDING },
    { "dummy", SC_DUMMY },
    { "moe", SC_DUMMY },
    { "mlp", SC_DUMMY },
    /* Old names. */
    { "attention", SC_FULL_ATTENTION },
    { "mamba", SC_LINEAR_ATTENTION },
    { "deepseek_sparse_attention", SC_INDEXED_ATTENTION },
    { "qwen_sparse_attention", SC_INDEXED_ATTENTION },
};

bool sc_layer_type_find(sc_layer_type *type, const char *name) {
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (!strcmp(type_names[i].name, name)) {
            *type = type_names[i].type;
            return true;
        }
    return false;
}

static void read_listed(sc_reader *r, const cJSON *types) {
    sc_config *c = r->config;
    const char *key = types->string;
    const int listed = cJSON_IsArray(types) ? cJSON_GetArraySize(types) : -1;
    if (listed < 0)
        sc_read_fail(r, key, "is no list");
    else if (listed != c->num_hidden_layers)
        sc_read_fail(r, key,
                     sc_pool_printf(r->pool,
                                    "%d entries for num_hidden_layers %lld (give one per layer)",
                                    listed, (long long)c->num_hidden_layers));
    const cJSON *item;
    int64_t i = 0;
    cJSON_ArrayForEach(item, types) {
        if (r->rc)
            return;
        if (!cJSON_IsString(item) || !sc_layer_type_find(&c->layer[i].type, item->valuestring))
            sc_read_fail(
                r, sc_pool_printf(r->pool, "%s[%lld]", key, (long long)i),
                sc_pool_printf(r->pool,
                               "%s is none of full_attention, sliding_attention, "
                               "chunked_attention, indexed_attention, conv, linear_attention, "
                               "hybrid, hybrid_sliding, moe, mlp",
                               sc_read_quote(r, item)));
        else
            c->layer[i].moe = !strcmp(item->valuestring, "moe");
        i++;
    }
}

/* Rule 2 of the reference: by what windows there are. */
static void infer_types(sc_reader *r, const int64_t *chunk) {
    sc_config *c = r->config;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].type = c->layer[i].window ? SC_SLIDING_ATTENTION
                           : chunk[i]         ? SC_CHUNKED_ATTENTION
                                              : SC_FULL_ATTENTION;
}

void sc_types_periodic(sc_reader *r, int64_t period, sc_layer_type others) {
    for (int64_t i = 0; i < r->config->num_hidden_layers; i++)
        r->config->layer[i].type = (i + 1) % period ? others : SC_FULL_ATTENTION;
}

/* Layer index of a per_layer_config key: digits, zero-padded or not. */
static int64_t layer_index(const char *key) {
    int64_t index = 0;
    if (!*key || strlen(key) > 9)
        return -1;
    for (; *key; key++) {
        if (*key < '0' || *key > '9')
            return -1;
        index = index * 10 + (*key - '0');
    }
    return index;
}

/* One key of one layer's entry into *value; a key that is not there leaves it. */
static void override(sc_reader *r, const cJSON *entry, const char *key, int64_t *value) {
    const cJSON *item = sc_json_get(entry, key);
    int64_t number = 0;
    if (!item)
        return;
    if (!cJSON_IsNull(item) && (!sc_json_int(item, &number) || number < 1 || number > SC_LARGEST))
        sc_read_fail(r, sc_pool_printf(r->pool, "per_layer_config.%s.%s", entry->string, key),
                     sc_pool_printf(r->pool, "%s is no whole number in 1 … %d",
                                    sc_read_quote(r, item), SC_LARGEST));
    *value = number;
}

static void read_overrides(sc_reader *r, int64_t *chunk) {
    sc_config *c = r->config;
    const cJSON *all = sc_json_get(r->json, "per_layer_config"), *entry;
    if (!all || cJSON_IsNull(all))
        return;
    if (!cJSON_IsObject(all))
        sc_read_fail(r, "per_layer_config", "is no object");
    cJSON_ArrayForEach(entry, all) {
        const int64_t i = entry->string ? layer_index(entry->string) : -1;
        if (!r->rc && (i < 0 || i >= c->num_hidden_layers || !cJSON_IsObject(entry)))
            sc_read_fail(r, "per_layer_config",
                         sc_pool_printf(r->pool, "\"%s\" is no layer's index with an object",
                                        sc_json_printable(entry->string ? entry->string : "")));
        if (r->rc)
            return;
        sc_layer_config *layer = &c->layer[i];
        override(r, entry, "num_key_value_heads", &layer->kv_heads);
        override(r, entry, "head_dim", &layer->head_dim);
        layer->v_head_dim = layer->head_dim;
        override(r, entry, "sliding_window", &layer->window);
        override(r, entry, "attention_chunk_size", &chunk[i]);
        if (layer->window && chunk[i])
            sc_read_fail(r, sc_pool_printf(r->pool, "per_layer_config.%s", entry->string),
                         "has a sliding_window and an attention_chunk_size (keep one)");
    }
    sc_read_record(r, "per_layer_config",
                   sc_pool_printf(r->pool, "%d layers", cJSON_GetArraySize(all)), r->file);
}

/* One entry for all layers: "sliding_attention*2, full_attention*1, …". */
static void record_types(sc_reader *r, const char *from) {
    const sc_config *c = r->config;
    const char *text = "";
    for (int64_t i = 0, last; i < c->num_hidden_layers && text; i = last) {
        for (last = i; last < c->num_hidden_layers && c->layer[last].type == c->layer[i].type;)
            last++;
        text = sc_pool_printf(r->pool, "%s%s%s*%lld", text, i ? ", " : "",
                              sc_layer_type_name(c->layer[i].type), (long long)(last - i));
    }
    sc_read_record(r, "layer_types", text, from);
}

/* The last num_kv_shared_layers read what the last layer of their type before them wrote. */
static void share(sc_reader *r) {
    sc_config *c = r->config;
    const int64_t shared =
        sc_read_from_zero(r, "num_kv_shared_layers", c->family->num_kv_shared_layers);
    const int64_t first = c->num_hidden_layers - shared;
    if (r->rc || !shared)
        return;
    if (first <= 0) {
        sc_read_fail(r, "num_kv_shared_layers",
                     sc_pool_printf(r->pool,
                                    "%lld of num_hidden_layers %lld leaves no layer to share from",
                                    (long long)shared, (long long)c->num_hidden_layers));
        return;
    }
    for (int64_t i = first; i < c->num_hidden_layers; i++) {
        int64_t source = first - 1;
        while (source >= 0 && c->layer[source].type != c->layer[i].type)
            source--;
        if (source < 0) {
            sc_read_fail(r, "num_kv_shared_layers",
                         sc_pool_printf(
                             r->pool,
                             "layer %lld shares, but no layer before %lld is of its type %s",
                             (long long)i, (long long)first, sc_layer_type_name(c->layer[i].type)));
            return;
        }
        c->layer[i].kv_source = (int)source;
    }
    for (int64_t i = first; i < c->num_hidden_layers; i++)
        c->layer[i].type = SC_DUMMY;
}

/* Rings need their window; the others have none. */
static void settle_windows(sc_reader *r, const int64_t *chunk) {
    sc_config *c = r->config;
    bool used = false;
    for (int64_t i = 0; i < c->num_hidden_layers && !r->rc; i++) {
        sc_layer_config *layer = &c->layer[i];
        const bool chunked = layer->type == SC_CHUNKED_ATTENTION;
        if (chunked)
            layer->window = chunk[i];
        used |= sc_layer_type_rings(layer->type) && !chunked;
        if (!sc_layer_type_rings(layer->type))
            layer->window = 0;
        else if (!layer->window)
            sc_read_fail(r, chunked ? "attention_chunk_size" : "sliding_window",
                         sc_pool_printf(r->pool, "null, but layer_types[%lld] is %s (set %s)",
                                        (long long)i, sc_layer_type_name(layer->type),
                                        chunked ? "the chunk" : "the window"));
    }
    if (c->sliding_window && !used && !r->rc && sc_read_item(r, "sliding_window"))
        sc_read_note(r, sc_pool_printf(r->pool,
                                       "sliding_window: %lld is not used, no layer is sliding",
                                       (long long)c->sliding_window));
}

static void read_types(sc_reader *r, const int64_t *chunk) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    const cJSON *types = sc_read_item(r, "layer_types");
    c->listed = types && !cJSON_IsNull(types);
    if (c->listed && f->types_computed)
        sc_read_fail(r, types->string,
                     sc_pool_printf(r->pool, "%s computes it from other keys (remove this one)",
                                    c->model_type));
    else if (c->listed)
        read_listed(r, types);
    else if (f->period)
        sc_types_periodic(
            r, f->period_key ? sc_read_count(r, f->period_key, f->period, false) : f->period,
            f->others);
    else
        infer_types(r, chunk);
    if (!r->rc && f->types)
        f->types(r);
    if (!r->rc)
        record_types(r, c->listed ? r->file
                        : f->types || f->period
                            ? sc_pool_printf(r->pool, "rule of %s", c->model_type)
                            : "rule: sliding_window");
}

void sc_read_layers(sc_reader *r) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    const size_t layers = (size_t)c->num_hidden_layers;
    c->layer = sc_pool_alloc(r->pool, layers, sizeof *c->layer);
    int64_t *chunk = sc_pool_alloc(r->pool, layers, sizeof *chunk), all = 0;
    if (!c->layer || !chunk) {
        r->rc = sc_oom(r->err, "reading the config");
        return;
    }
    if (f->attention_chunk_size || sc_json_get(r->json, "attention_chunk_size"))
        all = sc_read_count(r, "attention_chunk_size",
                            f->attention_chunk_size ? f->attention_chunk_size : SC_NULL, true);
    for (size_t i = 0; i < layers; i++) {
        c->layer[i] = (sc_layer_config){ .kv_heads = c->num_key_value_heads,
                                         .head_dim = c->head_dim,
                                         .v_head_dim = c->head_dim,
                                         .window = c->sliding_window,
                                         .kv_source = (int)i };
        chunk[i] = all;
    }
    read_overrides(r, chunk);
    if (!r->rc)
        read_types(r, chunk);
    if (!r->rc && f->widths)
        f->widths(r);
    if (!r->rc)
        settle_windows(r, chunk);
    if (!r->rc && f->shares_kv)
        share(r);
    for (size_t i = 0; i < layers; i++) {
        sc_layer_config *layer = &c->layer[i];
        if (!sc_layer_type_has_kv(layer->type))
            layer->kv_heads = layer->head_dim = layer->v_head_dim = layer->index_head_dim = 0;
        if (!sc_layer_type_has_states(layer->type))
            layer->states = 0;
    }
}

void sc_states(sc_reader *r, int count, const sc_state_config *state) {
    sc_state_config *copy = sc_pool_alloc(r->pool, (size_t)count, sizeof *copy);
    if (!copy) {
        if (!r->rc)
            r->rc = sc_oom(r->err, "reading the config");
        return;
    }
    memcpy(copy, state, (size_t)count * sizeof *copy);
    for (int64_t i = 0; i < r->config->num_hidden_layers; i++) {
        r->config->layer[i].states = count;
        r->config->layer[i].state = copy;
    }
}
