{{! device.c - the same cache in a CUDA device's memory: copies where the host's has memcpy. }}
{{#cuda}}
/* ---- on a device; calls return when what they asked for is done ---- */

/* The first failure since the last call. */
static int settle(const {{name}}_cache *cache, sc_error *err) {
    if (!cache->cuda)
        return SC_OK;
    int rc = sc_cuda_enter(cache->cuda, err);
    if (rc)
        return rc;
    rc = sc_cuda_finish(cache->cuda, cache->cuda->compute, err);
    sc_cuda_leave(cache->cuda);
    return rc;
}

/* The same of a call that changes the cache: where it failed, anything may be in there. */
static int changed({{name}}_cache *cache, sc_error *err) {
    const int rc = settle(cache, err);
    cache->torn |= rc != SC_OK;
    return rc;
}

int {{name}}_cache_whole(const {{name}}_cache *cache, sc_error *err) {
    if (!cache->torn)
        return SC_OK;
    return sc_fail(err, SC_ESTATE, "{{name}}: cache: %s failed in the middle of an update (reset or load it)",
                   cache->cuda->name);
}

/* Runs of bytes between the cache and a caller, either way. */
static void move_runs(const {{name}}_cache *cache, void *to, size_t to_step, const void *from,
                      size_t from_step, size_t bytes, size_t runs) {
    if (!sc_cuda_resume(cache->cuda))
        return;
    sc_cuda_move_runs(cache->cuda, cache->cuda->compute, to, to_step, from, from_step, bytes, runs);
    sc_cuda_leave(cache->cuda);
}

/* memcpy, of the same. */
static void copy_any(const {{name}}_cache *cache, void *to, const void *from, size_t bytes) {
    if (cache->cuda)
        move_runs(cache, to, 0, from, 0, bytes, 1);
    else
        memcpy(to, from, bytes);
}

/* memset, of the cache's memory or a caller's. */
static void fill(const {{name}}_cache *cache, void *at, int byte, size_t bytes) {
    if (!cache->cuda)
        memset(at, byte, bytes);
    else if (sc_cuda_resume(cache->cuda)) {
        sc_cuda_fill(cache->cuda, cache->cuda->compute, at, byte, bytes);
        sc_cuda_leave(cache->cuda);
    }
}

/* Everything on the device in one block, and what is offloaded in pinned memory. */
static int allocate_on_device({{name}}_cache *c, const char *device, sc_error *err) {
    int rc = sc_cuda_open(&c->cuda, device, &{{name}}_cubins, buffer_bytes(), err);
    if (!rc)
        rc = sc_cuda_enter(c->cuda, err);
    if (rc)
        return rc;
    rc = sc_cuda_alloc(c->cuda, &c->arena, buffer_bytes(), err);
{{#offloading}}
    if (!rc)
        rc = sc_cuda_alloc_host(c->cuda, &c->host, HOST_BYTES, err);
    if (!rc)
        memset(c->host, 0, HOST_BYTES);
    CUevent *const events[] = { &c->begun, &c->ended };
    for (int i = 0; i < 2 && !rc; i++)
        rc = sc_cuda_event(c->cuda, events[i], err);
    for (int i = 0; i < SLOTS && !rc; i++)
        rc = sc_cuda_event(c->cuda, &c->filled[i], err);
    for (int i = 0; i < SLOTS && !rc; i++)
        rc = sc_cuda_event(c->cuda, &c->read[i], err);
{{/offloading}}
{{#has_states}}
    if (!rc)
        rc = sc_cuda_function(c->cuda, &c->shift, "shift_kernel", err);
{{/has_states}}
    if (!rc) {
        sc_cuda_zero(c->cuda, c->cuda->compute, c->arena, buffer_bytes());
        rc = sc_cuda_finish(c->cuda, c->cuda->compute, err);
    }
    sc_cuda_leave(c->cuda);
    return rc;
}

static void destroy_on_device({{name}}_cache *c) {
    if (c->cuda) {
        const bool inside = sc_cuda_enter_last(c->cuda);
        sc_cuda_wait(c->cuda);
{{#model}}
        {{name}}_device_forget(c);
{{/model}}
{{#offloading}}
        sc_cuda_free_event(c->cuda, c->begun);
        sc_cuda_free_event(c->cuda, c->ended);
        for (int i = 0; i < SLOTS; i++) {
            sc_cuda_free_event(c->cuda, c->filled[i]);
            sc_cuda_free_event(c->cuda, c->read[i]);
        }
        sc_cuda_free_host(c->cuda, c->host);
{{/offloading}}
        sc_cuda_free(c->cuda, c->arena);
        if (inside)
            sc_cuda_leave(c->cuda);
    }
    sc_cuda_close(c->cuda);
    free(c);
}

static int create_on_device({{name}}_cache **cache, const char *device, sc_error *err) {
    {{name}}_cache *c = calloc(1, sizeof *c);
    if (!c)
        return sc_fail(err, SC_EENV, "{{name}}: cache: no memory for %zu bytes", sizeof *c);
    const int rc = allocate_on_device(c, device, err);
    if (rc) {
        destroy_on_device(c);
        return rc;
    }
    place_evicted(c);
    forget_updates(c);
{{#offloading}}
    memset(c->slot_of, -1, sizeof c->slot_of);
    memset(c->slot_layer, -1, sizeof c->slot_layer);
{{/offloading}}
    *cache = c;
    return SC_OK;
}

/* Positions from … to - 1 of a row's heads, a run for every turn of the ring. slots is the first
 * head's; other is a caller's or the evicted rows, from position begin on, of so many rows a head. */
typedef struct {
    int64_t heads, slots, units;
} ring_rows;

static void between(const {{name}}_cache *cache, const ring_rows *r, kv *slots, kv *other, int64_t begin,
                    int64_t length, int64_t from, int64_t to, bool into_slots) {
    const size_t slot_step = (size_t)(r->slots * r->units) * sizeof(kv);
    const size_t other_step = (size_t)(length * r->units) * sizeof(kv);
    for (int64_t pos = from; pos < to;) {
        const int64_t slot = pos % r->slots, n = least(to - pos, r->slots - slot);
        const size_t bytes = (size_t)(n * r->units) * sizeof(kv);
        kv *here = slots + slot * r->units, *there = other + (pos - begin) * r->units;
        if (into_slots)
            move_runs(cache, here, slot_step, there, other_step, bytes, (size_t)r->heads);
        else
            move_runs(cache, there, other_step, here, slot_step, bytes, (size_t)r->heads);
        pos += n;
    }
}

/* Keeps tokens of one row, rows [heads, tokens, units]: as ring_put, by copies. */
static void put_on_device(const {{name}}_cache *cache, const shape_info *shape, kv *slots, kv *evicted,
                          kv *rows, int64_t units, int64_t seen, int64_t tokens) {
    const ring_rows r = { shape->kv_heads, shape->slots, units };
    const int64_t first = most(0, seen - shape->length + 1), end = seen + tokens;
    const int64_t gone = shape->evicted ? end - shape->slots : 0; /* positions below it leave */
    between(cache, &r, slots, evicted, first, shape->evicted, first, least(gone, seen), false);
    if (gone > most(seen, first))
        move_runs(cache, evicted + (most(seen, first) - first) * units,
                (size_t)(shape->evicted * units) * sizeof(kv), rows + (most(seen, first) - seen) * units,
                (size_t)(tokens * units) * sizeof(kv),
                (size_t)((gone - most(seen, first)) * units) * sizeof(kv), (size_t)shape->kv_heads);
    between(cache, &r, slots, rows, seen, tokens, most(seen, end - shape->slots), end, true);
}

/* Positions from … of one head into out [length, units]: evicted ones, then the slots', zeros for
 * what is not there. As gather, for all heads of the row at once. */
static void gather_runs(const {{name}}_cache *cache, const shape_info *shape, kv *out, kv *slots,
                        kv *evicted, int64_t units, int64_t from, int64_t seen, int64_t kept,
                        int64_t length) {
    const ring_rows r = { shape->kv_heads, shape->slots, units };
    const int64_t stored = most(0, seen - shape->slots), end = least(seen, from + length);
    fill(cache, out, 0, (size_t)(shape->kv_heads * length * units) * sizeof *out);
    if (from < stored)
        move_runs(cache, out, (size_t)(length * units) * sizeof *out, evicted,
                 (size_t)(shape->evicted * units) * sizeof *out,
                 (size_t)((least(stored, end) - from) * units) * sizeof *out, (size_t)shape->kv_heads);
    between(cache, &r, slots, out, from, length, most(most(from, stored), kept), end, false);
}

static void gather_on_device(const {{name}}_cache *cache, int layer, int row, kv *keys, kv *values,
                             int64_t from, int64_t length) {
    const shape_info *shape = shape_of(layer);
    const int id = {{name}}_place[layer].shape;
    const int64_t seen = cache->now.seen[layer][row], kept = cache->now.kept[layer][row];
    const int64_t at = row * shape->kv_heads;
    gather_runs(cache, shape, keys, keys_of(cache, layer) + at * shape->slots * shape->key,
                cache->evicted_keys[id] + at * shape->evicted * shape->key, shape->key, from, seen,
                kept, length);
    gather_runs(cache, shape, values, values_of(cache, layer) + at * shape->slots * shape->value,
                cache->evicted_values[id] + at * shape->evicted * shape->value, shape->value, from,
                seen, kept, length);
}

/* Rows of one buffer change places a piece at a time, by way of the bounce. */
static void reorder_on_device(const {{name}}_cache *cache, unsigned char *buffer, size_t row_bytes,
                              const int32_t *beam_idx) {
    sc_cuda *cuda = cache->cuda;
    const size_t piece = SC_CUDA_BOUNCE / BATCH;
    if (!sc_cuda_resume(cuda))
        return;
    for (size_t at = 0; at < row_bytes; at += piece) {
        const size_t bytes = row_bytes - at < piece ? row_bytes - at : piece;
        for (int row = 0; row < BATCH; row++)
            sc_cuda_copy(cuda, cuda->compute, cuda->bounce + (size_t)row * bytes,
                         buffer + (size_t)beam_idx[row] * row_bytes + at, bytes);
        sc_cuda_copy_runs(cuda, cuda->compute, buffer + at, row_bytes, cuda->bounce, bytes, bytes,
                          BATCH);
    }
    sc_cuda_leave(cuda);
}

{{/cuda}}
