/* plan_print.c - a plan as a table and as JSON; see plan.h. */
#include <string.h>

#include "plan.h"

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

/* "[1, 8, 4096, 128]" */
static const char *shape_text(char *text, size_t size, const int64_t *dim, int rank) {
    size_t at = 0;
    for (int i = 0; i < rank; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "[", (long long)dim[i]);
    snprintf(text + at, size - at, "]");
    return text;
}

static const char *kv_text(char *text, size_t size, const sc_plan *plan, int layer, bool values) {
    const sc_cache_shape *s = &plan->shape[plan->layer[layer].shape];
    const int64_t dim[] = { plan->options.batch_size, s->kv_heads, s->length,
                            values ? s->v_head_dim : s->head_dim };
    return shape_text(text, size, dim, 4);
}

static const char *state_text(char *text, size_t size, const sc_plan *plan,
                              const sc_state_config *s) {
    int64_t dim[4] = { plan->options.batch_size };
    memcpy(dim + 1, s->dim, (size_t)s->rank * sizeof *s->dim);
    return shape_text(text, size, dim, s->rank + 1);
}

static const char *indexer_text(char *text, size_t size, const sc_plan *plan, int layer) {
    const sc_cache_shape *s = &plan->shape[plan->layer[layer].shape];
    const int64_t dim[] = { plan->options.batch_size, s->length, s->index_head_dim };
    return shape_text(text, size, dim, 3);
}

static sc_dtype state_dtype(const sc_plan *plan, const sc_state_config *s) {
    return s->float32 ? SC_F32 : plan->options.dtype;
}

bool sc_plan_buffer(sc_plan_buffer_view *view, const sc_plan *plan, int layer, int n) {
    const sc_layer_cache *l = &plan->layer[layer];
    const sc_layer_config *c = &plan->config->layer[layer];
    sc_plan_buffer_view v = { .dtype = plan->options.kv_dtype, .host = l->slots >= 0 };
    const int before = l->shape < 0 ? 0 : l->indexer_keys.bytes ? 3 : 2;
    if (n < before && n < 2) {
        v.name = n ? "values" : "keys";
        v.buffer = n ? l->values : l->keys;
        kv_text(v.shape, sizeof v.shape, plan, layer, n == 1);
    } else if (n < before) {
        v = (sc_plan_buffer_view){ .name = "indexer_keys",
                                   .dtype = plan->options.dtype,
                                   .buffer = l->indexer_keys };
        indexer_text(v.shape, sizeof v.shape, plan, layer);
    } else if (n - before < c->states) {
        const sc_state_config *s = &c->state[n - before];
        v = (sc_plan_buffer_view){ .name = s->name,
                                   .index = s->index,
                                   .dtype = state_dtype(plan, s),
                                   .buffer = l->state[n - before],
                                   .state = true };
        state_text(v.shape, sizeof v.shape, plan, s);
    } else
        return false;
    *view = v;
    return true;
}

/* One buffer's line; layer -1: of the layer above. */
static void print_buffer(FILE *out, int layer, sc_layer_type type, const char *buffer,
                         const char *shape, size_t bytes, size_t offset, const char *note) {
    char number[16] = "";
    if (layer >= 0)
        snprintf(number, sizeof number, "%d", layer);
    fprintf(out, "%5s  %-18s %-16s %-24s %12zu %14zu%s\n", number,
            layer >= 0 ? sc_layer_type_name(type) : "", buffer, shape, bytes, offset, note);
}

static const char *kv_place(const sc_plan *plan, int i) {
    return plan->layer[i].slots < 0 ? "" : "  host";
}

static void print_kv(FILE *out, const sc_plan *plan, int i) {
    const sc_layer_cache *layer = &plan->layer[i];
    const sc_layer_type type = plan->config->layer[i].type;
    char keys[120], values[120];
    kv_text(keys, sizeof keys, plan, i, false);
    kv_text(values, sizeof values, plan, i, true);
    if (!strcmp(keys, values)) {
        print_buffer(out, i, type, "keys, values", keys, layer->keys.bytes + layer->values.bytes,
                     layer->keys.offset, kv_place(plan, i));
        return;
    }
    print_buffer(out, i, type, "keys", keys, layer->keys.bytes, layer->keys.offset,
                 kv_place(plan, i));
    print_buffer(out, -1, type, "values", values, layer->values.bytes, layer->values.offset,
                 kv_place(plan, i));
}

static void print_layer(FILE *out, const sc_plan *plan, int i) {
    const sc_layer_config *c = &plan->config->layer[i];
    const sc_layer_cache *layer = &plan->layer[i];
    char text[120];
    if (layer->shape >= 0)
        print_kv(out, plan, i);
    if (layer->indexer_keys.bytes)
        print_buffer(out, -1, c->type, "indexer_keys", indexer_text(text, sizeof text, plan, i),
                     layer->indexer_keys.bytes, layer->indexer_keys.offset, "");
    for (int k = 0; k < c->states; k++)
        print_buffer(out, layer->shape < 0 && !k ? i : -1, c->type, c->state[k].name,
                     state_text(text, sizeof text, plan, &c->state[k]), layer->state[k].bytes,
                     layer->state[k].offset,
                     state_dtype(plan, &c->state[k]) == plan->options.dtype ? "" : "  float32");
    if (!layer->bytes && c->kv_source != i)
        fprintf(out, "%5d  %-18s reads layer %d\n", i, sc_layer_type_name(c->type), c->kv_source);
    else if (!layer->bytes)
        fprintf(out, "%5d  %-18s nothing is kept\n", i, sc_layer_type_name(c->type));
}

static void print_total(FILE *out, const char *what, unsigned long long bytes) {
    char text[32];
    fprintf(out, "%-16s %15llu  %s\n", what, bytes, sc_bytes_text(text, bytes));
}

/* What a device holds beside the arena and the cache's scratch. */
static void print_device(FILE *out, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    print_total(out, "device weights", d->weights_bytes);
    if (plan->options.offload_weights) {
        print_total(out, "  of it slots", d->weight_slot[0].bytes + d->weight_slot[1].bytes);
        print_total(out, "pinned weights", d->host_weights_bytes);
    }
    print_total(out, "device scratch", d->scratch_bytes);
}

void sc_plan_print(FILE *out, const sc_plan *plan) {
    const sc_plan_options *o = &plan->options;
    fprintf(out, "%s: %s, max_cache_len %lld, batch_size %lld, %s", o->name,
            plan->config->model_type, (long long)o->max_cache_len, (long long)o->batch_size,
            sc_dtype_name(o->dtype));
    if (o->kv_dtype != o->dtype)
        fprintf(out, ", keys and values %s", sc_dtype_name(o->kv_dtype));
    if (o->rewind)
        fprintf(out, ", rewind %lld", (long long)o->rewind);
    fprintf(out, plan->graph ? ", %s" : ", the cache alone", o->arch->name);
    for (int i = 0; i < o->sms; i++)
        fprintf(out, ", sm_%d", o->sm[i]);
    fprintf(out, "\n\n");
    fprintf(out, "layer  %-18s %-16s %-24s %12s %14s\n", "layer_type", "buffer", "shape", "bytes",
            "offset");
    for (int i = 0; i < plan->layers; i++)
        print_layer(out, plan, i);
    fprintf(out, "\n");
    print_total(out, plan->options.offloading ? "device arena" : "cache arena", plan->arena_bytes);
    if (plan->padding_bytes)
        print_total(out, "  of it padding", plan->padding_bytes);
    if (plan->options.offloading) {
        size_t to_device, to_host;
        sc_plan_moved(plan, &to_device, &to_host);
        print_total(out, "  of it slots", plan->slot_bytes);
        print_total(out, "host arena", plan->host_bytes);
        print_total(out, "  moved per token", to_device + to_host);
    }
    print_total(out, "cache scratch", plan->cache_scratch_bytes);
    if (!plan->graph)
        return;
    print_total(out, "model scratch", plan->scratch_bytes);
    print_total(out, "  and per thread", plan->thread_scratch_bytes);
    print_total(out, "weights", plan->weights_bytes);
    if (o->cuda)
        print_device(out, plan);
}

static void json_state(FILE *out, const char *before, const char *name, int index,
                       const char *shape, sc_dtype dtype, const sc_buffer *buffer) {
    fprintf(out,
            "%s{\"name\": \"%s\", \"index\": %d, \"shape\": %s, \"dtype\": \"%s\", "
            "\"bytes\": %zu, \"offset\": %zu}",
            before, name, index, shape, sc_dtype_name(dtype), buffer->bytes, buffer->offset);
}

static void json_layer(FILE *out, const sc_plan *plan, int i) {
    const sc_layer_config *c = &plan->config->layer[i];
    const sc_layer_cache *layer = &plan->layer[i];
    char text[120];
    fprintf(out, "    {\"index\": %d, \"layer_type\": \"%s\", \"is_sliding\": %s, ", i,
            sc_layer_type_name(c->type), sc_layer_type_rings(c->type) ? "true" : "false");
    if (layer->shape >= 0) {
        fprintf(out, "\"key_shape\": %s, ", kv_text(text, sizeof text, plan, i, false));
        fprintf(out, "\"value_shape\": %s, ", kv_text(text, sizeof text, plan, i, true));
        fprintf(out, "\"kv_dtype\": \"%s\", ", sc_dtype_name(plan->options.kv_dtype));
    } else
        fprintf(out, "\"key_shape\": null, \"value_shape\": null, \"kv_dtype\": null, ");
    fprintf(out, "\"states\": [");
    if (layer->indexer_keys.bytes)
        json_state(out, "", "indexer_keys", 0, indexer_text(text, sizeof text, plan, i),
                   plan->options.dtype, &layer->indexer_keys);
    for (int k = 0; k < c->states; k++)
        json_state(out, k ? ", " : "", c->state[k].name, c->state[k].index,
                   state_text(text, sizeof text, plan, &c->state[k]),
                   state_dtype(plan, &c->state[k]), &layer->state[k]);
    fprintf(out, "], \"bytes\": %zu, \"max_length\": %lld, ", layer->bytes,
            (long long)sc_plan_max_length(plan, i));
    fprintf(out, "\"is_croppable\": %s, \"is_compileable\": true, \"kv_source\": ",
            sc_plan_is_croppable(plan, i) ? "true" : "false");
    if (layer->shape >= 0 || c->kv_source != i)
        fprintf(out, "%d, ", c->kv_source);
    else
        fprintf(out, "null, ");
    fprintf(out, "\"placement\": \"%s\", \"offset\": %zu}%s\n",
            layer->slots < 0 ? "device" : "host",
            layer->keys.bytes ? layer->keys.offset
            : c->states       ? layer->state[0].offset
                              : 0,
            i + 1 < plan->layers ? "," : "");
}

/* The layers for which holds() is true, as a JSON list. */
static void json_list(FILE *out, const char *key, const sc_plan *plan,
                      bool (*holds)(sc_layer_type)) {
    bool first = true;
    fprintf(out, ", \"%s\": [", key);
    for (int i = 0; i < plan->layers; i++)
        if (holds(plan->config->layer[i].type)) {
            fprintf(out, "%s%d", first ? "" : ", ", i);
            first = false;
        }
    fprintf(out, "]");
}

/* The order of one update per layer, as Cache.update has it with offloading. */
static void json_offload(FILE *out, const sc_plan *plan) {
    size_t to_device, to_host;
    sc_plan_moved(plan, &to_device, &to_host);
    fprintf(out,
            "  \"offload\": {\"only_non_sliding\": %s, \"device_bytes\": %zu, \"host_bytes\": %zu, "
            "\"slot_bytes\": %zu,\n    \"bytes_per_token\": {\"to_device\": %zu, \"to_host\": "
            "%zu},\n    \"schedule\": [",
            plan->options.offload_sliding ? "false" : "true", plan->arena_bytes, plan->host_bytes,
            plan->slot_bytes, to_device, to_host);
    bool first = true;
    for (int i = 0; i < plan->layers; i++) {
        if (plan->layer[i].shape < 0)
            continue;
        fprintf(out,
                "%s\n      {\"update\": %d, \"events\": [{\"event\": \"wait\", \"stream\": "
                "\"default\", \"for\": \"prefetch\"}, {\"event\": \"wait\", \"stream\": "
                "\"prefetch\", \"for\": \"default\"}, {\"event\": \"prefetch\", \"layer\": %d}, "
                "{\"event\": \"compute\", \"layer\": %d}",
                first ? "" : ",", i, sc_plan_next_offloaded(plan, i), i);
        if (plan->layer[i].slots >= 0)
            fprintf(out, ", {\"event\": \"offload\", \"layer\": %d}", i);
        fprintf(out, "]}");
        first = false;
    }
    fprintf(out, "]},\n");
}

static bool is_dummy(sc_layer_type type) { return type == SC_DUMMY; }

static bool is_linear(sc_layer_type type) {
    return sc_layer_type_has_states(type) && !sc_layer_type_has_kv(type);
}

static void json_cache(FILE *out, const sc_plan *plan) {
    int64_t longest = -1;
    bool croppable = true;
    for (int i = 0; i < plan->layers; i++) {
        const int64_t length = sc_plan_max_length(plan, i);
        longest = length > longest ? length : longest;
        croppable &= sc_plan_is_croppable(plan, i);
    }
    fprintf(out,
            "  \"cache\": {\"bytes\": %zu, \"max_length\": %lld, \"is_croppable\": %s, "
            "\"is_compileable\": true",
            plan->arena_bytes - plan->slot_bytes + plan->host_bytes - plan->padding_bytes,
            (long long)longest, croppable ? "true" : "false");
    json_list(out, "sliding_layers", plan, sc_layer_type_rings);
    json_list(out, "linear_layers", plan, is_linear);
    json_list(out, "dummy_layers", plan, is_dummy);
    fprintf(out, "},\n");
}

/* A string of the model (--generic takes any model_type) as a JSON string. */
static void json_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    fputc('"', out);
}

/* Of a cache alone a device holds nothing more than the arena and the cache's scratch. */
static void json_device(FILE *out, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    fprintf(out, ",\n  \"device\": {\"sm\": [");
    for (int i = 0; i < plan->options.sms; i++)
        fprintf(out, "%s%d", i ? ", " : "", plan->options.sm[i]);
    fprintf(out, "]");
    if (plan->graph)
        fprintf(out,
                ", \"weights_bytes\": %zu, \"weight_slot_bytes\": %zu, \"pinned_weights_bytes\": "
                "%zu, \"scratch_bytes\": %zu",
                d->weights_bytes, d->weight_slot[0].bytes + d->weight_slot[1].bytes,
                d->host_weights_bytes, d->scratch_bytes);
    fprintf(out, "}");
}

void sc_plan_print_json_keys(FILE *out, const sc_plan *plan) {
    const sc_plan_options *o = &plan->options;
    fprintf(out, "{\n  \"name\": \"%s\",\n  \"model_type\": ", o->name);
    json_text(out, plan->config->model_type);
    fprintf(out, ",\n");
    fprintf(out,
            "  \"max_cache_len\": %lld,\n  \"batch_size\": %lld,\n  \"rewind\": %lld,\n"
            "  \"dtype\": \"%s\",\n  \"kv_dtype\": \"%s\",\n  \"arch\": \"%s\",\n  \"num_layers\": "
            "%d,\n",
            (long long)o->max_cache_len, (long long)o->batch_size, (long long)o->rewind,
            sc_dtype_name(o->dtype), sc_dtype_name(o->kv_dtype), o->arch->name, plan->layers);
    fprintf(out, "  \"layers\": [\n");
    for (int i = 0; i < plan->layers; i++)
        json_layer(out, plan, i);
    fprintf(out, "  ],\n");
    json_cache(out, plan);
    if (o->offloading)
        json_offload(out, plan);
    fprintf(out,
            "  \"arena_bytes\": %zu,\n  \"padding_bytes\": %zu,\n"
            "  \"cache_scratch_bytes\": %zu",
            plan->arena_bytes, plan->padding_bytes, plan->cache_scratch_bytes);
    if (plan->graph)
        fprintf(out,
                ",\n  \"scratch_bytes\": %zu,\n  \"thread_scratch_bytes\": %zu,\n"
                "  \"weights_bytes\": %llu",
                plan->scratch_bytes, plan->thread_scratch_bytes,
                (unsigned long long)plan->weights_bytes);
    if (o->cuda)
        json_device(out, plan);
}

void sc_plan_print_json(FILE *out, const sc_plan *plan) {
    sc_plan_print_json_keys(out, plan);
    fprintf(out, "\n}\n");
}
