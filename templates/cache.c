{{! cache.c - the static buffers of a casting and their operations; one put function per distinct layer shape. }}
/* {{name}}_cache.c - the static cache of {{name}}: every buffer at its planned place in one arena. */
{{^cuda}}
#include "{{name}}_internal.h"
{{/cuda}}
{{#cuda}}
#include "{{name}}_cuda.h"
{{/cuda}}

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{{#offloading}}
#include <sys/mman.h>
{{/offloading}}
#include <unistd.h>

#include "runtime/checksum.h"

#define API __attribute__((visibility("default")))

/* Layer by layer: where its keys and values lie in {{#offloading}}its arena{{/offloading}}{{^offloading}}the arena{{/offloading}}, of which shape
 * they are (-1: it keeps none), the layer whose keys and values it reads (-1: it reads none){{#has_states}},
 * the first of its states (-1: it has none){{/has_states}}{{#offloading}},
 * the first of its two slots (-1: it is resident){{/offloading}}. */
const layer_place {{name}}_place[LAYERS] = {
{{#places}}
    { {{keys_offset}}, {{values_offset}}, {{shape}}, {{source}}{{#has_states}}, {{state}}{{/has_states}}{{#offloading}}, {{first_slot}}{{/offloading}} }, /* {{layer}}: {{layer_type}} */
{{/places}}
};

/* The shapes as numbers, for what is not worth a function each. */
typedef struct {
    int64_t kv_heads, slots, length; /* slots that are kept; those that are shown */
    int64_t key, value, dim, v_dim;  /* units and elements of a row */
    int64_t evicted, capacity;       /* capacity INT64_MAX: a ring of the whole window */
    int ring, rewind;
    void (*put)({{name}}_cache *, int, int, int, const kv_value *, const kv_value *, int64_t);
} shape_info;

static const shape_info shapes[] = {
{{#shapes}}
    { SHAPE{{id}}_KV_HEADS, SHAPE{{id}}_SLOTS, SHAPE{{id}}_LENGTH, SHAPE{{id}}_KEY, SHAPE{{id}}_VALUE,
      SHAPE{{id}}_DIM, SHAPE{{id}}_V_DIM, SHAPE{{id}}_EVICTED, {{capacity}}, {{ring_flag}},
      {{rewind}}, {{name}}_put{{id}} },
{{/shapes}}
{{^shapes}}
    { .kv_heads = 0 }, /* no layer keeps keys and values */
{{/shapes}}
};

/* Every buffer, [BATCH] rows of so many bytes: keys, values, indexer keys and states. */
static const struct {
    size_t offset, row;
{{#offloading}}
    int host;
{{/offloading}}
} buffers[] = {
{{#buffers}}
    { {{offset}}, {{row}}{{#offloading}}, {{host}}{{/offloading}} }, /* {{layer}}: {{what}} */
{{/buffers}}
};
enum { BUFFERS = sizeof buffers / sizeof *buffers };

static unsigned char *buffer_of(const {{name}}_cache *cache, int i) {
    return {{#offloading}}(buffers[i].host ? cache->host : cache->arena) {{/offloading}}{{^offloading}}cache->arena{{/offloading}} +
           buffers[i].offset;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static const shape_info *shape_of(int layer) { return &shapes[{{name}}_place[layer].shape]; }

{{#shapes}}
{{#ring}}
/* Token t goes to slot (seen + t) % SLOTS, over the oldest one; what this drives out although the
 * first of the new tokens still sees it is kept aside, oldest first. */
static void ring{{id}}_put(kv *restrict slots, kv *restrict evicted, const kv_value *restrict rows,
                         int64_t seen, int64_t tokens, int64_t dim) {
    const int64_t units = kv_units(dim), first = most(0, seen - SHAPE{{id}}_LENGTH + 1);
    for (int64_t pos = seen; pos < seen + tokens; pos++) {
        kv *slot = slots + pos % SHAPE{{id}}_SLOTS * units;
        if (pos - SHAPE{{id}}_SLOTS >= first)
            memcpy(evicted + (pos - SHAPE{{id}}_SLOTS - first) * units, slot,
                   (size_t)units * sizeof *slot);
        kv_put(slot, rows + (pos - seen) * dim, dim);
    }
}

void {{name}}_put{{id}}({{name}}_cache *cache, int layer, int row, int head, const kv_value *keys,
                    const kv_value *values, int64_t tokens) {
    const int64_t at = row * SHAPE{{id}}_KV_HEADS + head, seen = cache->now.seen[layer][row];
    ring{{id}}_put(keys_of(cache, layer) + at * SHAPE{{id}}_SLOTS * SHAPE{{id}}_KEY,
                 cache->evicted_keys[{{id}}] + at * SHAPE{{id}}_EVICTED * SHAPE{{id}}_KEY, keys, seen,
                 tokens, SHAPE{{id}}_DIM);
    ring{{id}}_put(values_of(cache, layer) + at * SHAPE{{id}}_SLOTS * SHAPE{{id}}_VALUE,
                 cache->evicted_values[{{id}}] + at * SHAPE{{id}}_EVICTED * SHAPE{{id}}_VALUE, values,
                 seen, tokens, SHAPE{{id}}_V_DIM);
}

{{/ring}}
{{^ring}}
/* Token t goes to slot seen + t. */
void {{name}}_put{{id}}({{name}}_cache *cache, int layer, int row, int head, const kv_value *keys,
                    const kv_value *values, int64_t tokens) {
    const int64_t slot =
        (row * SHAPE{{id}}_KV_HEADS + head) * (int64_t)SHAPE{{id}}_SLOTS + cache->now.seen[layer][row];
    kv *key = keys_of(cache, layer) + slot * SHAPE{{id}}_KEY;
    kv *value = values_of(cache, layer) + slot * SHAPE{{id}}_VALUE;
    for (int64_t t = 0; t < tokens; t++) {
        kv_put(key + t * SHAPE{{id}}_KEY, keys + t * SHAPE{{id}}_DIM, SHAPE{{id}}_DIM);
        kv_put(value + t * SHAPE{{id}}_VALUE, values + t * SHAPE{{id}}_V_DIM, SHAPE{{id}}_V_DIM);
    }
}

{{/ring}}
{{/shapes}}
static void forget_updates({{name}}_cache *cache) {
    for (int layer = 0; layer < LAYERS; layer++)
        for (int row = 0; row < BATCH; row++)
            cache->before[layer][row] = -1;
    memset(cache->evicted_layer, -1, sizeof cache->evicted_layer);
}

{{#offloading}}
/* The offloaded layers' home: memory, or a file of folder that has no name any more. */
static int map_host({{name}}_cache *cache, const char *folder, sc_error *err) {
    char path[4096];
    int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (folder) {
        flags = MAP_SHARED;
        if ((size_t)snprintf(path, sizeof path, "%s/{{name}}.XXXXXX", folder) >= sizeof path)
            return sc_fail(err, SC_EUSAGE, "%s: the path is too long", folder);
        fd = mkstemp(path);
        if (fd >= 0)
            unlink(path);
        const int failed = fd < 0 ? errno : posix_fallocate(fd, 0, HOST_BYTES);
        if (failed) {
            if (fd >= 0)
                close(fd);
            return sc_fail(err, SC_EENV, "%s: no file of %zu bytes can be made there: %s", folder,
                           HOST_BYTES, strerror(failed));
        }
    }
    void *host = mmap(NULL, HOST_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (fd >= 0)
        close(fd);
    if (host == MAP_FAILED)
        return sc_fail(err, SC_EENV, "{{name}}: cache: no memory for %zu bytes on the host",
                       HOST_BYTES);
    cache->host = host;
    return SC_OK;
}

{{/offloading}}
/* Where the evicted rows lie, behind the arena, which begins at a multiple of 64. */
static void place_evicted({{name}}_cache *c) {
    kv *at = (kv *)(void *)(c->arena + (ARENA_BYTES + sizeof(kv) - 1) / sizeof(kv) * sizeof(kv));
    for (int i = 0; i < CACHE_SHAPES; i++) {
        const int64_t rows = BATCH * shapes[i].kv_heads * shapes[i].evicted;
        c->evicted_keys[i] = at;
        c->evicted_values[i] = at += rows * shapes[i].key;
        at += rows * shapes[i].value;
    }
}

/* The arena and the evicted rows behind it. */
static size_t buffer_bytes(void) {
    size_t bytes = 64 + ARENA_BYTES;
    for (int i = 0; i < CACHE_SHAPES; i++)
        bytes += sizeof(kv) * (size_t)(BATCH * shapes[i].kv_heads * shapes[i].evicted *
                                       (shapes[i].key + shapes[i].value));
    return bytes;
}

{{> cache/device.c}}
static int create({{name}}_cache **cache, {{#offloading}}const char *folder, {{/offloading}}sc_error *err) {
    const size_t bytes = sizeof({{name}}_cache) + buffer_bytes();
    {{name}}_cache *c = calloc(1, bytes);
    if (!c)
        return sc_fail(
            err, SC_EENV,
            "{{name}}: cache: no memory for %zu bytes (a smaller --max-cache-len or --batch-size)",
            bytes);
    c->arena = (unsigned char *)(((uintptr_t)(c + 1) + 63) & ~(uintptr_t)63);
    place_evicted(c);
    forget_updates(c);
{{#offloading}}
    memset(c->slot_of, -1, sizeof c->slot_of);
    memset(c->slot_layer, -1, sizeof c->slot_layer);
    const int rc = map_host(c, folder, err);
    if (rc) {
        free(c);
        return rc;
    }
{{/offloading}}
    *cache = c;
    return SC_OK;
}

API int {{name}}_cache_create({{name}}_cache **cache, sc_error *err) {
    return create(cache, {{#offloading}}NULL, {{/offloading}}err);
}

{{#offloading}}
API int {{name}}_cache_create_at({{name}}_cache **cache, const char *folder, sc_error *err) {
    return create(cache, folder, err);
}

API void {{name}}_cache_destroy({{name}}_cache *cache) {
{{#cuda}}
    if (cache && cache->cuda) {
        destroy_on_device(cache);
        return;
    }
{{/cuda}}
    if (cache)
        munmap(cache->host, HOST_BYTES);
    free(cache);
}

{{/offloading}}
{{^offloading}}
{{^cuda}}
API void {{name}}_cache_destroy({{name}}_cache *cache) { free(cache); }

{{/cuda}}
{{#cuda}}
API void {{name}}_cache_destroy({{name}}_cache *cache) {
    if (cache && cache->cuda)
        destroy_on_device(cache);
    else
        free(cache);
}

{{/cuda}}
{{/offloading}}
{{#cuda}}
API int {{name}}_cache_create_on({{name}}_cache **cache, const char *device, sc_error *err) {
    if (device && strcmp(device, "cpu"))
        return create_on_device(cache, device, err);
    return {{name}}_cache_create(cache, err);
}

API const char *{{name}}_cache_device(const {{name}}_cache *cache) {
    return cache->cuda ? cache->cuda->name : "cpu";
}

{{/cuda}}
static int check_layer(int layer, sc_error *err) {
    if (layer >= 0 && layer < LAYERS)
        return SC_OK;
    sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d is none of 0 … %d", layer, LAYERS - 1);
    return SC_EUSAGE; /* said so that the compiler sees no such layer looked up */
}

static int check_row(int row, sc_error *err) {
    if (row >= 0 && row < BATCH)
        return SC_OK;
    return sc_fail(err, SC_EUSAGE, "{{name}}: cache: row %d is none of 0 … %d", row, BATCH - 1);
}

/* A layer with keys and values of its own. */
static int check_kv(int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (rc || {{name}}_place[layer].shape >= 0)
        return rc;
    if ({{name}}_place[layer].source >= 0)
        return sc_fail(
            err, SC_EUSAGE,
            "{{name}}: cache: layer %d keeps no keys and values, it reads those of layer %d", layer,
            {{name}}_place[layer].source);
    return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d keeps no keys and values", layer);
}

/* The layer that is meant when a length is asked for: layer 0 stands for the first that has one, if
 * any does. */
static int length_layer(int layer) {
    int first = 0;
    while (first < LAYERS && {{name}}_place[first].shape < 0)
        first++;
    return layer == 0 && first < LAYERS ? first : layer;
}

API int {{name}}_cache_pad({{name}}_cache *cache, const int64_t *padding, sc_error *err) {
    for (int layer = 0; layer < LAYERS; layer++)
        for (int row = 0; row < BATCH; row++)
            if (cache->now.seen[layer][row])
                return sc_fail(err, SC_ESTATE,
                               "{{name}}: cache: padding is set before the first update; layer %d "
                               "has %lld tokens (reset first)",
                               layer, (long long)cache->now.seen[layer][row]);
    for (int row = 0; row < BATCH; row++)
        if (padding[row] < 0 || padding[row] >= MAX_CACHE_LEN)
            return sc_fail(err, SC_EUSAGE, "{{name}}: cache: padding[%d]: %lld is not in 0 … %d", row,
                           (long long)padding[row], MAX_CACHE_LEN - 1);
    memcpy(cache->now.padding, padding, sizeof cache->now.padding);
    return SC_OK;
}

int {{name}}_cache_room(const {{name}}_cache *cache, int layer, int row, int64_t tokens,
                      sc_error *err) {
    const int64_t seen = cache->now.seen[layer][row];
    const int64_t capacity =
        {{name}}_place[layer].shape < 0 ? INT64_MAX : shape_of(layer)->capacity;
    if (tokens <= capacity - seen)
        return SC_OK;
    return sc_fail(err, SC_EFULL,
                   "{{name}}: cache: layer %d: %lld tokens at position %lld, room for %lld "
                   "(max_cache_len is %d)",
                   layer, (long long)tokens, (long long)seen, (long long)(capacity - seen),
                   MAX_CACHE_LEN);
}

{{> cache/offload.c}}
{{#cuda}}
/* update_rows once its arguments are checked. */
static int update_on_device({{name}}_cache *cache, int layer, int from, int to, const kv *keys,
                            const kv *values, int tokens, sc_error *err) {
    const shape_info *shape = shape_of(layer);
    const int id = {{name}}_place[layer].shape;
    int rc = sc_cuda_enter(cache->cuda, err);
    if (rc)
        return rc;
{{#offloading}}
    cache->ahead = tokens;
    {{name}}_cache_fork(cache);
    {{name}}_cache_begin(cache, layer);
{{/offloading}}
    for (int row = from; row < to; row++) {
        const int64_t at = row * shape->kv_heads, seen = cache->now.seen[layer][row];
        const int64_t given = (row - from) * shape->kv_heads * (int64_t)tokens;
        put_on_device(cache, shape, keys_of(cache, layer) + at * shape->slots * shape->key,
                      cache->evicted_keys[id] + at * shape->evicted * shape->key,
                      (kv *)(uintptr_t)(keys + given * shape->key), shape->key, seen, tokens);
        put_on_device(cache, shape, values_of(cache, layer) + at * shape->slots * shape->value,
                      cache->evicted_values[id] + at * shape->evicted * shape->value,
                      (kv *)(uintptr_t)(values + given * shape->value), shape->value, seen, tokens);
    }
{{#offloading}}
    if ({{name}}_cache_used(cache, layer)) {
        home_on_device(cache, layer, from, to, tokens);
        {{name}}_cache_end(cache, layer);
    }
    {{name}}_cache_join(cache);
{{/offloading}}
    rc = sc_cuda_finish(cache->cuda, cache->cuda->compute, err);
    cache->torn = rc != SC_OK;
    sc_cuda_leave(cache->cuda);
    for (int row = from; row < to && !rc; row++)
        {{name}}_cache_advance(cache, layer, row, tokens);
    return rc;
}

{{/cuda}}
/* Rows from … to - 1 get tokens each; keys and values begin with those of row from. */
static int update_rows({{name}}_cache *cache, int layer, int from, int to, const kv_value *keys,
                       const kv_value *values, int tokens, sc_error *err) {
    int rc = check_kv(layer, err);
    if (rc)
        return rc;
    const shape_info *shape = shape_of(layer);
    if (tokens < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d: an update of %d tokens", layer,
                       tokens);
    for (int row = from; row < to && !rc; row++)
        rc = {{name}}_cache_room(cache, layer, row, tokens, err);
    if (rc)
        return rc;
    if (tokens > MAX_CACHE_LEN)
        return sc_fail(
            err, SC_EFULL,
            "{{name}}: cache: layer %d: %d tokens in one update, at most %d (max_cache_len)", layer,
            tokens, MAX_CACHE_LEN);
{{#cuda}}
    if (cache->cuda) {
        rc = {{name}}_cache_whole(cache, err);
        return rc ? rc : update_on_device(cache, layer, from, to, keys, values, tokens, err);
    }
{{/cuda}}
{{#offloading}}
    {{name}}_cache_begin(cache, layer);
{{/offloading}}
    for (int row = from; row < to; row++) {
        for (int head = 0; head < shape->kv_heads; head++) {
            const int64_t at = ((row - from) * shape->kv_heads + head) * tokens;
            shape->put(cache, layer, row, head, keys + at * shape->dim, values + at * shape->v_dim,
                       tokens);
        }
        {{name}}_cache_advance(cache, layer, row, tokens);
    }
{{#offloading}}
    {{name}}_cache_end(cache, layer);
{{/offloading}}
    return SC_OK;
}

void {{name}}_cache_advance({{name}}_cache *cache, int layer, int row, int64_t tokens) {
{{#offloading}}
    {{#cuda}}if (!cache->cuda){{/cuda}}
    write_back(cache, layer, row, tokens);
{{/offloading}}
    cache->before[layer][row] = cache->now.seen[layer][row];
    cache->now.seen[layer][row] += tokens;
    if ({{name}}_place[layer].shape < 0)
        return;
    const shape_info *shape = shape_of(layer);
    cache->now.kept[layer][row] =
        most(cache->now.kept[layer][row], cache->now.seen[layer][row] - shape->slots);
    if (shape->ring)
        cache->evicted_layer[{{name}}_place[layer].shape][row] = layer;
}

API int {{name}}_cache_update({{name}}_cache *cache, int layer, const void *keys, const void *values,
                            int tokens, sc_error *err) {
    return update_rows(cache, layer, 0, BATCH, keys, values, tokens, err);
}

API int {{name}}_cache_update_row({{name}}_cache *cache, int layer, int row, const void *keys,
                                const void *values, int tokens, sc_error *err) {
    const int rc = check_row(row, err);
    return rc ? rc : update_rows(cache, layer, row, row + 1, keys, values, tokens, err);
}

/* Positions from … seen of one row and head into out [length, dim]; zeros after them, and for what
 * went before kept. */
static void gather(kv_value *out, const kv *slots, const kv *evicted, int64_t from, int64_t seen,
                   int64_t kept, int64_t count, int64_t length, int64_t dim) {
    const int64_t units = kv_units(dim), stored = most(0, seen - count); /* the oldest in a slot */
    for (int64_t i = 0; i < length; i++) {
        const int64_t pos = from + i;
        if (pos >= seen || (pos >= stored && pos < kept))
            memset(out + i * dim, 0, (size_t)dim * sizeof *out);
        else
            kv_get(out + i * dim, pos < stored ? evicted + i * units : slots + pos % count * units,
                   dim);
    }
}

static void gather_row(const {{name}}_cache *cache, int layer, int row, kv_value *keys,
                       kv_value *values, int64_t from, int64_t length) {
    const shape_info *shape = shape_of(layer);
    const int id = {{name}}_place[layer].shape;
    const int64_t seen = cache->now.seen[layer][row], kept = cache->now.kept[layer][row];
{{#cuda}}
    if (cache->cuda) {
        gather_on_device(cache, layer, row, keys, values, from, length);
        return;
    }
{{/cuda}}
    for (int64_t head = 0; head < shape->kv_heads; head++) {
        const int64_t at = row * shape->kv_heads + head;
        gather(keys + head * length * shape->dim,
               keys_of(cache, layer) + at * shape->slots * shape->key,
               cache->evicted_keys[id] + at * shape->evicted * shape->key, from, seen, kept,
               shape->slots, length, shape->dim);
        gather(values + head * length * shape->v_dim,
               values_of(cache, layer) + at * shape->slots * shape->value,
               cache->evicted_values[id] + at * shape->evicted * shape->value, from, seen, kept,
               shape->slots, length, shape->v_dim);
    }
}

/* Rows from … to - 1, which must have the same lengths. */
static int visible_rows(const {{name}}_cache *cache, int layer, int from, int to, kv_value *keys,
                        kv_value *values, int64_t *kv_length, sc_error *err) {
    int rc = check_layer(layer, err);
    if (!rc && {{name}}_place[layer].source >= 0)
        layer = {{name}}_place[layer].source; /* a shared layer sees what its source saw */
    if (!rc)
        rc = check_kv(layer, err);
    if (rc)
        return rc;
    const shape_info *shape = shape_of(layer);
    const int64_t before = cache->before[layer][from], seen = cache->now.seen[layer][from];
    const int64_t first = most(0, before - shape->length + 1);
    for (int row = from; row < to; row++) {
        if (cache->before[layer][row] < 0)
            return sc_fail(err, SC_ESTATE, "{{name}}: cache: layer %d: no update to look at", layer);
        if (cache->before[layer][row] != before || cache->now.seen[layer][row] != seen)
            return sc_fail(
                err, SC_ESTATE,
                "{{name}}: cache: layer %d: rows %d and %d have other lengths (ask row by row)",
                layer, from, row);
        if (first < seen - shape->slots &&
            cache->evicted_layer[{{name}}_place[layer].shape][row] != layer)
            return sc_fail(err, SC_ESTATE,
                           "{{name}}: cache: layer %d: a later update of another layer has taken the "
                           "room for what its ring drove out (ask right after the update)",
                           layer);
    }
    *kv_length = most(shape->length, seen - first);
    for (int row = from; row < to && keys && values; row++)
        gather_row(
            cache, layer, row, keys + (row - from) * shape->kv_heads * *kv_length * shape->dim,
            values + (row - from) * shape->kv_heads * *kv_length * shape->v_dim, first, *kv_length);
    return {{settled}};
}

API int {{name}}_cache_visible(const {{name}}_cache *cache, int layer, void *keys, void *values,
                             int64_t *kv_length, sc_error *err) {
    return visible_rows(cache, layer, 0, BATCH, keys, values, kv_length, err);
}

API int {{name}}_cache_visible_row(const {{name}}_cache *cache, int layer, int row, void *keys,
                                 void *values, int64_t *kv_length, sc_error *err) {
    const int rc = check_row(row, err);
    return rc ? rc : visible_rows(cache, layer, row, row + 1, keys, values, kv_length, err);
}

API int {{name}}_cache_read(const {{name}}_cache *cache, int layer, void *keys, void *values,
                          sc_error *err) {
    const int rc = check_kv(layer, err);
    if (rc)
        return rc;
    const shape_info *shape = shape_of(layer);
    for (int row = 0; row < BATCH; row++)
        gather_row(cache, layer, row,
                   (kv_value *)keys + row * shape->kv_heads * shape->length * shape->dim,
                   (kv_value *)values + row * shape->kv_heads * shape->length * shape->v_dim,
                   most(0, cache->now.seen[layer][row] - shape->length), shape->length);
    return {{settled}};
}

API int64_t {{name}}_cache_row_length(const {{name}}_cache *cache, int layer, int row) {
    layer = length_layer(layer);
    if (check_kv(layer, NULL) || check_row(row, NULL))
        return -1;
    return cache->now.seen[layer][row];
}

API int64_t {{name}}_cache_seq_length(const {{name}}_cache *cache, int layer) {
    int64_t longest = {{name}}_cache_row_length(cache, layer, 0);
    for (int row = 1; row < BATCH; row++)
        longest = most(longest, {{name}}_cache_row_length(cache, layer, row));
    return longest;
}

/* StaticSlidingWindowLayer.get_mask_sizes; a full layer always shows all its slots. */
API int {{name}}_cache_mask_sizes_row(const {{name}}_cache *cache, int layer, int row, int query_length,
                                    int64_t *kv_length, int64_t *kv_offset, sc_error *err) {
    int rc = check_kv(length_layer(layer), err);
    if (!rc)
        rc = check_row(row, err);
    if (rc)
        return rc;
    if (query_length < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: query_length %d is below 1", query_length);
    layer = length_layer(layer);
    const shape_info *shape = shape_of(layer);
    const int64_t seen = cache->now.seen[layer][row];
    *kv_offset = shape->ring ? most(0, seen - shape->length + 1) : 0;
    *kv_length =
        shape->ring ? most(shape->length, seen - *kv_offset + query_length) : shape->length;
    return SC_OK;
}

API int {{name}}_cache_mask_sizes(const {{name}}_cache *cache, int layer, int query_length,
                                int64_t *kv_length, int64_t *kv_offset, sc_error *err) {
    const int rc =
        {{name}}_cache_mask_sizes_row(cache, layer, 0, query_length, kv_length, kv_offset, err);
    layer = length_layer(layer);
    for (int row = 1; row < BATCH && !rc; row++)
        if (cache->now.seen[layer][row] != cache->now.seen[layer][0])
            return sc_fail(
                err, SC_ESTATE,
                "{{name}}: cache: layer %d: rows 0 and %d have other lengths (ask row by row)", layer,
                row);
    return rc;
}

API int64_t {{name}}_cache_max_length(const {{name}}_cache *cache, int layer) {
    static const int64_t max_length[LAYERS] = {
{{#places}}
        {{max_length}},
{{/places}}
    };
    (void)cache;
    if (layer >= 0 && layer < LAYERS)
        return max_length[layer];
    int64_t length = layer == -1 ? -1 : -2;
    for (int i = 0; layer == -1 && i < LAYERS; i++)
        length = most(length, max_length[i]);
    return length;
}

{{> cache/states.c}}
API int {{name}}_cache_reset_row({{name}}_cache *cache, int row, sc_error *err) {
    const int rc = check_row(row, err);
    if (rc)
        return rc;
{{#offloading}}
    release_all(cache);
{{/offloading}}
    for (int i = 0; i < BUFFERS; i++)
        {{fill}}buffer_of(cache, i) + (size_t)row * buffers[i].row, 0, buffers[i].row);
    for (int layer = 0; layer < LAYERS; layer++) {
        cache->now.seen[layer][row] = cache->now.kept[layer][row] = 0;
        cache->before[layer][row] = -1;
{{#has_indexer}}
        cache->now.indexed[layer][row] = 0;
{{/has_indexer}}
    }
{{#has_states}}
    for (int i = 0; i < STATES; i++)
        cache->now.held[i][row] = 0;
{{/has_states}}
    cache->now.padding[row] = 0;
    return {{changed}};
}

API int {{name}}_cache_reset({{name}}_cache *cache, sc_error *err) {
    int rc = SC_OK;
    for (int row = 0; row < BATCH && !rc; row++)
        rc = {{name}}_cache_reset_row(cache, row, err);
    forget_updates(cache);
{{#cuda}}
    cache->torn = rc != SC_OK;
{{/cuda}}
    return rc;
}

/* Can every row of the layer lose so many tokens? The count is below 0. */
static int check_crop(const {{name}}_cache *cache, int layer, int64_t tokens_to_remove,
                      sc_error *err) {
    const shape_info *shape = shape_of(layer);
    for (int row = 0; row < BATCH; row++) {
        const int64_t seen = cache->now.seen[layer][row], left = seen + tokens_to_remove;
        if (left < 0)
            return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d: crop by %lld of %lld tokens",
                           layer, (long long)tokens_to_remove, (long long)seen);
        /* The next token sees length - 1 tokens before it; are they there? */
        const int there = most(0, left - shape->length + 1) >= cache->now.kept[layer][row];
        if (shape->ring && cache->now.kept[layer][row] && !(shape->rewind && there))
            return sc_fail(err, SC_EFULL,
                           "{{name}}: cache: layer %d: cannot go back by %lld: its ring of %lld "
                           "slots has seen %lld tokens",
                           layer, -(long long)tokens_to_remove, (long long)shape->slots,
                           (long long)seen);
    }
    return SC_OK;
}

API int {{name}}_cache_crop({{name}}_cache *cache, int64_t tokens_to_remove, sc_error *err) {
    if (tokens_to_remove > 0)
        return sc_fail(
            err, SC_EUSAGE,
            "{{name}}: cache: crop by %lld (give the tokens to remove as a count of 0 or below)",
            (long long)tokens_to_remove);
    if (!tokens_to_remove)
        return SC_OK;
    int rc = SC_OK;
{{#has_states}}
    for (int layer = 0; layer < LAYERS && !rc; layer++)
        rc = check_states_crop(cache, layer, err);
{{/has_states}}
    for (int layer = 0; layer < LAYERS && !rc; layer++)
        if ({{name}}_place[layer].shape >= 0)
            rc = check_crop(cache, layer, tokens_to_remove, err);
    if (rc)
        return rc;
    for (int layer = 0; layer < LAYERS; layer++)
        for (int row = 0; row < BATCH; row++) {
            cache->now.seen[layer][row] =
                most(0, cache->now.seen[layer][row] + tokens_to_remove);
{{#has_indexer}}
            cache->now.indexed[layer][row] =
                least(cache->now.indexed[layer][row], cache->now.seen[layer][row]);
{{/has_indexer}}
        }
    forget_updates(cache);
    return SC_OK;
}

/* Rows of one buffer change places a piece at a time, so no second buffer is needed. */
static void reorder_buffer(unsigned char *buffer, size_t row_bytes, const int32_t *beam_idx) {
    enum { PIECE = 65536 / BATCH };
    unsigned char piece[BATCH][PIECE];
    for (size_t at = 0; at < row_bytes; at += PIECE) {
        const size_t bytes = (size_t)least(PIECE, (int64_t)(row_bytes - at));
        for (int row = 0; row < BATCH; row++)
            memcpy(piece[row], buffer + (size_t)beam_idx[row] * row_bytes + at, bytes);
        for (int row = 0; row < BATCH; row++)
            memcpy(buffer + (size_t)row * row_bytes + at, piece[row], bytes);
    }
}

/* numbers [BATCH], of rows that change places. */
static void reorder_numbers(int64_t *numbers, const int32_t *beam_idx) {
    int64_t old[BATCH];
    memcpy(old, numbers, sizeof old);
    for (int row = 0; row < BATCH; row++)
        numbers[row] = old[beam_idx[row]];
}

API int {{name}}_cache_reorder({{name}}_cache *cache, const int32_t *beam_idx, sc_error *err) {
{{#cuda}}
    if ({{name}}_cache_whole(cache, err))
        return SC_ESTATE;
{{/cuda}}
    for (int row = 0; row < BATCH; row++)
        if (beam_idx[row] < 0 || beam_idx[row] >= BATCH)
            return sc_fail(err, SC_EUSAGE, "{{name}}: cache: beam_idx[%d]: %d is none of 0 … %d", row,
                           (int)beam_idx[row], BATCH - 1);
{{#offloading}}
    release_all(cache);
{{/offloading}}
    for (int i = 0; i < BUFFERS; i++)
{{^cuda}}
        reorder_buffer(buffer_of(cache, i), buffers[i].row, beam_idx);
{{/cuda}}
{{#cuda}}
        if (cache->cuda)
            reorder_on_device(cache, buffer_of(cache, i), buffers[i].row, beam_idx);
        else
            reorder_buffer(buffer_of(cache, i), buffers[i].row, beam_idx);
{{/cuda}}
    for (int layer = 0; layer < LAYERS; layer++) {
        reorder_numbers(cache->now.seen[layer], beam_idx);
        reorder_numbers(cache->now.kept[layer], beam_idx);
{{#has_indexer}}
        reorder_numbers(cache->now.indexed[layer], beam_idx);
{{/has_indexer}}
    }
{{#has_states}}
    for (int i = 0; i < STATES; i++)
        reorder_numbers(cache->now.held[i], beam_idx);
{{/has_states}}
    reorder_numbers(cache->now.padding, beam_idx);
    forget_updates(cache);
    return {{changed}};
}

API int {{name}}_cache_copy_row({{name}}_cache *cache, int from, int to, sc_error *err) {
    int32_t beam_idx[BATCH];
    int rc = check_row(from, err);
    if (!rc)
        rc = check_row(to, err);
    if (rc)
        return rc;
    for (int row = 0; row < BATCH; row++)
        beam_idx[row] = row == to ? from : row;
    return {{name}}_cache_reorder(cache, beam_idx, err);
}

{{> cache/saved.c}}
