{{! cache.c - the static buffers of a casting and their operations; one put function per distinct layer shape. }}
/* {{name}}_cache.c - the static KV cache of {{name}}: every buffer at its planned place in one arena. */
#include "{{name}}_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checksum.h"

#define API __attribute__((visibility("default")))

/* Layer by layer: offsets of K and V in the arena, shape. */
const layer_place {{name}}_place[LAYERS] = {
{{#places}}
    { {{keys_offset}}, {{values_offset}}, {{shape}} }, /* layer {{layer}}: {{layer_type}} */
{{/places}}
};

/* The shapes as numbers, for what is not worth a function each. */
typedef struct {
    int64_t kv_heads, slots, dim, v_dim, evicted;
    int64_t capacity; /* tokens that a layer can be given, INT64_MAX: a ring of the whole window */
    int ring;
    void (*put)({{name}}_cache *, int, int, int, const kv *, const kv *, int64_t);
} shape_info;

static const shape_info shapes[CACHE_SHAPES] = {
{{#shapes}}
    { SHAPE{{id}}_KV_HEADS, SHAPE{{id}}_SLOTS, SHAPE{{id}}_DIM, SHAPE{{id}}_V_DIM, SHAPE{{id}}_EVICTED,
      {{capacity}}, {{ring_flag}}, {{name}}_put{{id}} },
{{/shapes}}
};

static const shape_info *shape_of(int layer) { return &shapes[{{name}}_place[layer].shape]; }

static kv *keys_of(const {{name}}_cache *cache, int layer) {
    return (kv *)(void *)(cache->arena + {{name}}_place[layer].keys);
}

static kv *values_of(const {{name}}_cache *cache, int layer) {
    return (kv *)(void *)(cache->arena + {{name}}_place[layer].values);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

{{#shapes}}
{{#ring}}
/* Token t goes to slot (seen + t) % SLOTS, over the oldest one. What this drives out although the
 * first of the new tokens still sees it is kept aside, oldest first. */
static void ring{{id}}_put(kv *restrict buffer, kv *restrict evicted, const kv *restrict rows, int64_t seen,
                     int64_t tokens, int64_t dim) {
    const size_t row_bytes = (size_t)dim * sizeof *rows;
    const int64_t first = most(0, seen - SHAPE{{id}}_SLOTS + 1);
    for (int64_t pos = first; pos < seen + tokens - SHAPE{{id}}_SLOTS; pos++) {
        const kv *row = pos < seen ? buffer + pos % SHAPE{{id}}_SLOTS * dim : rows + (pos - seen) * dim;
        memcpy(evicted + (pos - first) * dim, row, row_bytes);
    }
    for (int64_t t = most(0, tokens - SHAPE{{id}}_SLOTS); t < tokens; t++)
        memcpy(buffer + (seen + t) % SHAPE{{id}}_SLOTS * dim, rows + t * dim, row_bytes);
}

void {{name}}_put{{id}}({{name}}_cache *cache, int layer, int batch, int head, const kv *keys,
          const kv *values, int64_t tokens) {
    const int64_t row = batch * SHAPE{{id}}_KV_HEADS + head;
    ring{{id}}_put(keys_of(cache, layer) + row * SHAPE{{id}}_SLOTS * SHAPE{{id}}_DIM,
             cache->evicted_keys[{{id}}] + row * SHAPE{{id}}_EVICTED * SHAPE{{id}}_DIM, keys,
             cache->seen[layer], tokens, SHAPE{{id}}_DIM);
    ring{{id}}_put(values_of(cache, layer) + row * SHAPE{{id}}_SLOTS * SHAPE{{id}}_V_DIM,
             cache->evicted_values[{{id}}] + row * SHAPE{{id}}_EVICTED * SHAPE{{id}}_V_DIM, values,
             cache->seen[layer], tokens, SHAPE{{id}}_V_DIM);
}

{{/ring}}
{{^ring}}
/* Token t goes to slot seen + t. */
void {{name}}_put{{id}}({{name}}_cache *cache, int layer, int batch, int head, const kv *keys,
          const kv *values, int64_t tokens) {
    const int64_t slot = (batch * SHAPE{{id}}_KV_HEADS + head) * (int64_t)SHAPE{{id}}_SLOTS + cache->seen[layer];
    memcpy(keys_of(cache, layer) + slot * SHAPE{{id}}_DIM, keys,
           (size_t)tokens * SHAPE{{id}}_DIM * sizeof *keys);
    memcpy(values_of(cache, layer) + slot * SHAPE{{id}}_V_DIM, values,
           (size_t)tokens * SHAPE{{id}}_V_DIM * sizeof *values);
}

{{/ring}}
{{/shapes}}
API int {{name}}_cache_create({{name}}_cache **cache, sc_error *err) {
    size_t bytes = sizeof({{name}}_cache) + 64 + ARENA_BYTES;
    for (int i = 0; i < CACHE_SHAPES; i++)
        bytes += sizeof(kv) * (size_t)(BATCH * shapes[i].kv_heads * shapes[i].evicted * (shapes[i].dim + shapes[i].v_dim));
    {{name}}_cache *c = calloc(1, bytes);
    if (!c)
        return sc_fail(err, SC_EENV, "{{name}}: cache: no memory for %zu bytes (a smaller --max-cache-len or --batch-size)", bytes);
    c->memory = c;
    unsigned char *at = (unsigned char *)(((uintptr_t)(c + 1) + 63) & ~(uintptr_t)63);
    c->arena = at;
    at += ARENA_BYTES;
    for (int i = 0; i < CACHE_SHAPES; i++) {
        const size_t rows = (size_t)(BATCH * shapes[i].kv_heads * shapes[i].evicted);
        c->evicted_keys[i] = (kv *)(void *)at;
        at += rows * (size_t)shapes[i].dim * sizeof(kv);
        c->evicted_values[i] = (kv *)(void *)at;
        at += rows * (size_t)shapes[i].v_dim * sizeof(kv);
        c->evicted_layer[i] = -1;
    }
    for (int layer = 0; layer < LAYERS; layer++)
        c->before[layer] = -1;
    *cache = c;
    return SC_OK;
}

API void {{name}}_cache_destroy({{name}}_cache *cache) {
    if (cache)
        free(cache->memory);
}

static int check_layer(int layer, sc_error *err) {
    if (layer >= 0 && layer < LAYERS)
        return SC_OK;
    return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d is none of 0 … %d", layer, LAYERS - 1);
}

API int {{name}}_cache_pad({{name}}_cache *cache, const int64_t *padding, sc_error *err) {
    for (int layer = 0; layer < LAYERS; layer++)
        if (cache->seen[layer])
            return sc_fail(err, SC_ESTATE, "{{name}}: cache: padding is set before the first update; layer %d has %lld tokens (reset first)",
                           layer, (long long)cache->seen[layer]);
    for (int b = 0; b < BATCH; b++)
        if (padding[b] < 0 || padding[b] >= MAX_CACHE_LEN)
            return sc_fail(err, SC_EUSAGE, "{{name}}: cache: padding[%d]: %lld is not in 0 … %d", b,
                           (long long)padding[b], MAX_CACHE_LEN - 1);
    memcpy(cache->padding, padding, sizeof cache->padding);
    return SC_OK;
}

int {{name}}_cache_room(const {{name}}_cache *cache, int layer, int64_t tokens, sc_error *err) {
    const int64_t capacity = shape_of(layer)->capacity, seen = cache->seen[layer];
    if (tokens <= capacity - seen)
        return SC_OK;
    return sc_fail(err, SC_EFULL, "{{name}}: cache: layer %d: %lld tokens at position %lld, room for %lld (max_cache_len is %d)",
                   layer, (long long)tokens, (long long)seen, (long long)(capacity - seen), MAX_CACHE_LEN);
}

API int {{name}}_cache_update({{name}}_cache *cache, int layer, const void *keys, const void *values,
                          int tokens, sc_error *err) {
    int rc = check_layer(layer, err);
    if (rc)
        return rc;
    const shape_info *shape = shape_of(layer);
    if (tokens < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d: an update of %d tokens", layer, tokens);
    rc = {{name}}_cache_room(cache, layer, tokens, err);
    if (rc)
        return rc;
    if (tokens > MAX_CACHE_LEN)
        return sc_fail(err, SC_EFULL, "{{name}}: cache: layer %d: %d tokens in one update, at most %d (max_cache_len)",
                       layer, tokens, MAX_CACHE_LEN);
    for (int b = 0; b < BATCH; b++)
        for (int head = 0; head < shape->kv_heads; head++) {
            const int64_t row = (b * shape->kv_heads + head) * tokens;
            shape->put(cache, layer, b, head, (const kv *)keys + row * shape->dim,
                       (const kv *)values + row * shape->v_dim, tokens);
        }
    cache->before[layer] = cache->seen[layer];
    cache->seen[layer] += tokens;
    if (shape->ring)
        cache->evicted_layer[{{name}}_place[layer].shape] = layer;
    return SC_OK;
}

/* Positions from … seen of one row into out [length, dim], zeros after them. */
static void gather(kv *out, const kv *buffer, const kv *evicted, int64_t from, int64_t seen,
                   int64_t slots, int64_t length, int64_t dim) {
    const size_t row_bytes = (size_t)dim * sizeof *out;
    const int64_t stored = most(0, seen - slots); /* the oldest position that the buffer has */
    for (int64_t i = 0; i < length; i++) {
        const int64_t pos = from + i;
        if (pos >= seen)
            memset(out + i * dim, 0, row_bytes);
        else
            memcpy(out + i * dim, pos < stored ? evicted + i * dim : buffer + pos % slots * dim, row_bytes);
    }
}

static void gather_layer(const {{name}}_cache *cache, int layer, kv *keys, kv *values, int64_t from,
                         int64_t length) {
    const shape_info *shape = shape_of(layer);
    const int id = {{name}}_place[layer].shape;
    for (int64_t row = 0; row < BATCH * shape->kv_heads; row++) {
        gather(keys + row * length * shape->dim, keys_of(cache, layer) + row * shape->slots * shape->dim,
               cache->evicted_keys[id] + row * shape->evicted * shape->dim, from, cache->seen[layer],
               shape->slots, length, shape->dim);
        gather(values + row * length * shape->v_dim,
               values_of(cache, layer) + row * shape->slots * shape->v_dim,
               cache->evicted_values[id] + row * shape->evicted * shape->v_dim, from, cache->seen[layer],
               shape->slots, length, shape->v_dim);
    }
}

API int {{name}}_cache_visible(const {{name}}_cache *cache, int layer, void *keys, void *values,
                           int64_t *kv_length, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (rc)
        return rc;
    const int64_t slots = shape_of(layer)->slots, before = cache->before[layer];
    if (before < 0)
        return sc_fail(err, SC_ESTATE, "{{name}}: cache: layer %d: no update to look at", layer);
    const int64_t from = most(0, before - slots + 1), seen = cache->seen[layer];
    const int64_t length = most(slots, seen - from);
    if (length > slots && cache->evicted_layer[{{name}}_place[layer].shape] != layer)
        return sc_fail(err, SC_ESTATE, "{{name}}: cache: layer %d: a later update of another layer has taken the room for what its ring drove out (ask right after the update)", layer);
    *kv_length = length;
    if (keys && values)
        gather_layer(cache, layer, keys, values, from, length);
    return SC_OK;
}

API int {{name}}_cache_read(const {{name}}_cache *cache, int layer, void *keys, void *values,
                        sc_error *err) {
    const int rc = check_layer(layer, err);
    if (rc)
        return rc;
    const int64_t slots = shape_of(layer)->slots;
    gather_layer(cache, layer, keys, values, most(0, cache->seen[layer] - slots), slots);
    return SC_OK;
}

API int64_t {{name}}_cache_seq_length(const {{name}}_cache *cache, int layer) {
    return layer < 0 || layer >= LAYERS ? -1 : cache->seen[layer];
}

/* StaticSlidingWindowLayer.get_mask_sizes; a full layer always shows all its slots. */
API int {{name}}_cache_mask_sizes(const {{name}}_cache *cache, int layer, int query_length,
                              int64_t *kv_length, int64_t *kv_offset, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (rc)
        return rc;
    if (query_length < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: query_length %d is below 1", query_length);
    const shape_info *shape = shape_of(layer);
    const int64_t seen = cache->seen[layer];
    *kv_offset = shape->ring ? most(0, seen - shape->slots + 1) : 0;
    *kv_length = shape->ring ? most(shape->slots, seen - *kv_offset + query_length) : shape->slots;
    return SC_OK;
}

API int64_t {{name}}_cache_max_length(const {{name}}_cache *cache, int layer) {
    (void)cache;
    if (layer >= 0 && layer < LAYERS)
        return shape_of(layer)->slots;
    int64_t length = layer == -1 ? 0 : -2;
    for (int i = 0; layer == -1 && i < CACHE_SHAPES; i++)
        length = most(length, shapes[i].slots);
    return length;
}

static void forget_updates({{name}}_cache *cache) {
    for (int layer = 0; layer < LAYERS; layer++)
        cache->before[layer] = -1;
    for (int i = 0; i < CACHE_SHAPES; i++)
        cache->evicted_layer[i] = -1;
}

API int {{name}}_cache_reset({{name}}_cache *cache, sc_error *err) {
    (void)err;
    memset(cache->arena, 0, ARENA_BYTES);
    memset(cache->seen, 0, sizeof cache->seen);
    memset(cache->padding, 0, sizeof cache->padding);
    forget_updates(cache);
    return SC_OK;
}

API int {{name}}_cache_crop({{name}}_cache *cache, int64_t tokens_to_remove, sc_error *err) {
    if (tokens_to_remove > 0)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: crop by %lld (give the tokens to remove as a count of 0 or below)",
                       (long long)tokens_to_remove);
    if (!tokens_to_remove)
        return SC_OK;
    for (int layer = 0; layer < LAYERS; layer++) {
        const shape_info *shape = shape_of(layer);
        if (tokens_to_remove < -cache->seen[layer])
            return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d: crop by %lld of %lld tokens", layer,
                           (long long)tokens_to_remove, (long long)cache->seen[layer]);
        if (shape->ring && cache->seen[layer] > shape->slots)
            return sc_fail(err, SC_EFULL, "{{name}}: cache: layer %d: cannot go back by %lld: its ring of %lld slots has seen %lld tokens",
                           layer, (long long)-tokens_to_remove, (long long)shape->slots,
                           (long long)cache->seen[layer]);
    }
    for (int layer = 0; layer < LAYERS; layer++)
        cache->seen[layer] += tokens_to_remove;
    forget_updates(cache);
    return SC_OK;
}

/* Rows of one buffer change places a piece at a time, so no second buffer is needed. */
static void reorder_buffer(kv *buffer, int64_t row_elements, const int32_t *beam_idx) {
    enum { PIECE = 128 };
    kv piece[BATCH][PIECE];
    for (int64_t at = 0; at < row_elements; at += PIECE) {
        const size_t bytes = (size_t)least(PIECE, row_elements - at) * sizeof *buffer;
        for (int b = 0; b < BATCH; b++)
            memcpy(piece[b], buffer + beam_idx[b] * row_elements + at, bytes);
        for (int b = 0; b < BATCH; b++)
            memcpy(buffer + b * row_elements + at, piece[b], bytes);
    }
}

API int {{name}}_cache_reorder({{name}}_cache *cache, const int32_t *beam_idx, sc_error *err) {
    int64_t padding[BATCH];
    for (int b = 0; b < BATCH; b++) {
        if (beam_idx[b] < 0 || beam_idx[b] >= BATCH)
            return sc_fail(err, SC_EUSAGE, "{{name}}: cache: beam_idx[%d]: %d is none of 0 … %d", b,
                           (int)beam_idx[b], BATCH - 1);
        padding[b] = cache->padding[beam_idx[b]];
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        const shape_info *shape = shape_of(layer);
        reorder_buffer(keys_of(cache, layer), shape->kv_heads * shape->slots * shape->dim, beam_idx);
        reorder_buffer(values_of(cache, layer), shape->kv_heads * shape->slots * shape->v_dim, beam_idx);
    }
    memcpy(cache->padding, padding, sizeof padding);
    forget_updates(cache);
    return SC_OK;
}

API int {{name}}_cache_offload({{name}}_cache *cache, int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (!rc)
        cache->offloads++;
    return rc;
}

API int {{name}}_cache_prefetch({{name}}_cache *cache, int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (!rc)
        cache->prefetches++;
    return rc;
}

/* A saved cache: this header, then per layer the used slots of K and of V, row by row. */
typedef struct {
    char magic[8];
    unsigned char layout[32]; /* of the casting */
    int64_t seen[LAYERS], padding[BATCH];
    uint64_t checksum; /* of the fields above and all that follows */
} saved_header;

static const unsigned char layout_id[32] = {
    {{layout_bytes}}
};

/* Calls visit on every stored run of bytes, in the file's order. */
static int each_run(const {{name}}_cache *cache, const int64_t *seen,
                    int (*visit)(void *run, size_t bytes, void *arg), void *arg) {
    int rc = 0;
    for (int layer = 0; layer < LAYERS && !rc; layer++) {
        const shape_info *shape = shape_of(layer);
        const int64_t used = least(seen[layer], shape->slots);
        for (int64_t row = 0; row < BATCH * shape->kv_heads && !rc; row++) {
            rc = visit(keys_of(cache, layer) + row * shape->slots * shape->dim,
                       (size_t)(used * shape->dim) * sizeof(kv), arg);
            if (!rc)
                rc = visit(values_of(cache, layer) + row * shape->slots * shape->v_dim,
                           (size_t)(used * shape->v_dim) * sizeof(kv), arg);
        }
    }
    return rc;
}

typedef struct {
    int fd;
    sc_checksum sum;
} saved_file;

static int sum_run(void *run, size_t bytes, void *arg) {
    sc_checksum_add(&((saved_file *)arg)->sum, run, bytes);
    return 0;
}

static int transfer(int fd, void *data, size_t bytes, int writing) {
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        const ssize_t n = writing ? write(fd, at, bytes - done) : read(fd, at, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (!n)
                errno = 0;
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

static int write_run(void *run, size_t bytes, void *arg) {
    return transfer(((saved_file *)arg)->fd, run, bytes, 1);
}

static int read_run(void *run, size_t bytes, void *arg) {
    return transfer(((saved_file *)arg)->fd, run, bytes, 0);
}

/* Reads past a run without keeping it: the first pass of load only sums. */
static int skim_run(void *run, size_t bytes, void *arg) {
    (void)run;
    unsigned char piece[4096];
    for (size_t done = 0; done < bytes;) {
        const size_t n = bytes - done < sizeof piece ? bytes - done : sizeof piece;
        if (read_run(piece, n, arg))
            return -1;
        sum_run(piece, n, arg);
        done += n;
    }
    return 0;
}

API int {{name}}_cache_save(const {{name}}_cache *cache, const char *path, sc_error *err) {
    char aside[4096];
    if ((size_t)snprintf(aside, sizeof aside, "%s.XXXXXX", path) >= sizeof aside)
        return sc_fail(err, SC_EUSAGE, "%s: the path is too long", path);
    saved_header header = { .magic = "SCCACHE1" };
    memcpy(header.layout, layout_id, sizeof layout_id);
    memcpy(header.seen, cache->seen, sizeof header.seen);
    memcpy(header.padding, cache->padding, sizeof header.padding);
    saved_file file = { .fd = mkstemp(aside) };
    if (file.fd < 0)
        return sc_fail(err, SC_EENV, "%s: cannot be made: %s", aside, strerror(errno));
    sc_checksum_begin(&file.sum);
    sc_checksum_add(&file.sum, &header, offsetof(saved_header, checksum));
    each_run(cache, cache->seen, sum_run, &file);
    header.checksum = sc_checksum_end(&file.sum);
    int rc = SC_OK;
    if (transfer(file.fd, &header, sizeof header, 1) ||
        each_run(cache, cache->seen, write_run, &file) || fsync(file.fd))
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
    if (close(file.fd) && !rc)
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
    if (!rc && rename(aside, path))
        rc = sc_fail(err, SC_EENV, "%s: cannot be renamed: %s", path, strerror(errno));
    if (rc)
        unlink(aside);
    return rc;
}

static int check_saved(saved_file *file, const {{name}}_cache *cache, saved_header *header,
                       const char *path, sc_error *err) {
    if (transfer(file->fd, header, sizeof *header, 0) || memcmp(header->magic, "SCCACHE1", 8))
        return sc_fail(err, SC_EINPUT, "%s: is no saved cache of this casting", path);
    if (memcmp(header->layout, layout_id, sizeof layout_id))
        return sc_fail(err, SC_EINPUT, "%s: was saved by another casting", path);
    for (int layer = 0; layer < LAYERS; layer++)
        if (header->seen[layer] < 0 || header->seen[layer] > shape_of(layer)->capacity)
            return sc_fail(err, SC_EINPUT, "%s: layer %d: a length of %lld", path, layer,
                           (long long)header->seen[layer]);
    for (int b = 0; b < BATCH; b++)
        if (header->padding[b] < 0 || header->padding[b] >= MAX_CACHE_LEN)
            return sc_fail(err, SC_EINPUT, "%s: row %d: a padding of %lld", path, b,
                           (long long)header->padding[b]);
    sc_checksum_begin(&file->sum);
    sc_checksum_add(&file->sum, header, offsetof(saved_header, checksum));
    char more;
    if (each_run(cache, header->seen, skim_run, file))
        return sc_fail(err, SC_EINPUT, "%s: ends early", path);
    if (read(file->fd, &more, 1) != 0)
        return sc_fail(err, SC_EINPUT, "%s: has bytes after its end", path);
    if (sc_checksum_end(&file->sum) != header->checksum)
        return sc_fail(err, SC_EINPUT, "%s: its checksum does not match", path);
    return SC_OK;
}

API int {{name}}_cache_load({{name}}_cache *cache, const char *path, sc_error *err) {
    saved_file file = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
    saved_header header;
    if (file.fd < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
    int rc = check_saved(&file, cache, &header, path, err);
    if (!rc && lseek(file.fd, sizeof header, SEEK_SET) < 0)
        rc = sc_fail(err, SC_EINPUT, "%s: cannot be read twice: %s", path, strerror(errno));
    if (!rc) {
        memset(cache->arena, 0, ARENA_BYTES);
        if (each_run(cache, header.seen, read_run, &file)) {
            rc = sc_fail(err, SC_EENV, "%s: changed while it was read; the cache is empty now", path);
            memset(&header.seen, 0, sizeof header.seen);
        }
        memcpy(cache->seen, header.seen, sizeof header.seen);
        memcpy(cache->padding, header.padding, sizeof header.padding);
        forget_updates(cache);
    }
    close(file.fd);
    return rc;
}
