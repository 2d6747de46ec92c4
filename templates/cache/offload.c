{{! offload.c - layers whose keys and values live on the host, and the two device slots of each shape. }}
{{^offloading}}
/* This cache keeps everything where it is; the calls are counted. */
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

{{/offloading}}
{{#offloading}}
const size_t {{name}}_slot[SLOTS] = {
{{#device_slots}}
    {{offset}}, /* {{what}} */
{{/device_slots}}
};

/* The layer that is brought while layer i is updated: the next offloaded one, round and round. */
static const int next_offloaded[LAYERS] = {
{{#places}}
    {{next_offloaded}},
{{/places}}
};

/* Copies the used slots of every row; from and to begin with the layer's keys. */
static void copy_used(const {{name}}_cache *cache, int layer, unsigned char *to,
                      const unsigned char *from) {
    const shape_info *shape = shape_of(layer);
    const size_t key = (size_t)(shape->slots * shape->key) * sizeof(kv);
    const size_t value = (size_t)(shape->slots * shape->value) * sizeof(kv);
    const size_t keys = (size_t)(BATCH * shape->kv_heads) * key;
    for (int row = 0; row < BATCH; row++) {
        const int64_t seen = cache->now.seen[layer][row];
        const size_t used =
            (size_t)(cache->now.kept[layer][row] ? shape->slots : least(seen, shape->slots));
        for (size_t at = (size_t)(row * shape->kv_heads);
             at < (size_t)((row + 1) * shape->kv_heads); at++) {
            memcpy(to + at * key, from + at * key, used * (size_t)shape->key * sizeof(kv));
            memcpy(to + keys + at * value, from + keys + at * value,
                   used * (size_t)shape->value * sizeof(kv));
        }
    }
}

/* Home of an offloaded layer: its keys, then its values. */
static unsigned char *home_of(const {{name}}_cache *cache, int layer) {
    return cache->host + {{name}}_place[layer].keys;
}

{{#cuda}}
/* On a device a layer has its own one of the two slots, so that a graph can name it. */
static const int own_slot[LAYERS] = {
{{#places}}
    {{own_slot}},
{{/places}}
};

enum { FETCH_STEP = 256 }; /* slots of a row that are brought: a multiple of this */

int64_t {{name}}_cache_fetched(const {{name}}_cache *cache) {
    int64_t longest = 0;
    for (int layer = 0; layer < LAYERS; layer++)
        for (int row = 0; row < BATCH; row++)
            longest = most(longest, cache->now.seen[layer][row]);
    return least(MAX_CACHE_LEN, (longest + cache->ahead + FETCH_STEP - 1) / FETCH_STEP * FETCH_STEP);
}

static void release({{name}}_cache *cache, int layer);

/* The used slots of every row and head, on the copy stream; whoever reads them waits for filled. */
static void fetch_on_device({{name}}_cache *cache, int layer) {
    const shape_info *shape = shape_of(layer);
    const int slot = own_slot[layer];
    sc_cuda *cuda = cache->cuda;
    if (cache->slot_layer[slot] == layer)
        return;
    if (cache->slot_layer[slot] >= 0)
        release(cache, cache->slot_layer[slot]);
    cache->slot_layer[slot] = layer;
    cache->slot_of[layer] = slot;
    const int64_t used = least(shape->slots, {{name}}_cache_fetched(cache));
    const size_t key = (size_t)shape->key * sizeof(kv), value = (size_t)shape->value * sizeof(kv);
    const size_t rows = (size_t)(BATCH * shape->kv_heads), slots = (size_t)shape->slots;
    sc_cuda_copy_runs(cuda, cuda->copies, keys_of(cache, layer), slots * key,
                      home_keys(cache, layer), slots * key, (size_t)used * key, rows);
    sc_cuda_copy_runs(cuda, cuda->copies, values_of(cache, layer), slots * value,
                      home_values(cache, layer), slots * value, (size_t)used * value, rows);
    SC_CUDA(cuda, EventRecord, cache->filled[slot], cuda->copies);
    cache->filling[slot] = true;
    cache->prefetches++;
}

void {{name}}_cache_fork({{name}}_cache *cache) {
    sc_cuda *cuda = cache->cuda;
    SC_CUDA(cuda, EventRecord, cache->begun, cuda->compute);
    SC_CUDA(cuda, StreamWaitEvent, cuda->copies, cache->begun, 0);
}

bool {{name}}_cache_used({{name}}_cache *cache, int layer) {
    sc_cuda *cuda = cache->cuda;
    if ({{name}}_place[layer].slots < 0)
        return false;
    SC_CUDA(cuda, EventRecord, cache->read[own_slot[layer]], cuda->compute);
    SC_CUDA(cuda, StreamWaitEvent, cuda->copies, cache->read[own_slot[layer]], 0);
    return true;
}

void {{name}}_cache_join({{name}}_cache *cache) {
    sc_cuda *cuda = cache->cuda;
    SC_CUDA(cuda, EventRecord, cache->ended, cuda->copies);
    SC_CUDA(cuda, StreamWaitEvent, cuda->compute, cache->ended, 0);
    memset(cache->filling, 0, sizeof cache->filling);
}

void {{name}}_cache_occupy({{name}}_cache *cache, const int *slot_layer) {
    memset(cache->slot_of, -1, sizeof cache->slot_of);
    memcpy(cache->slot_layer, slot_layer, sizeof cache->slot_layer);
    for (int slot = 0; slot < SLOTS; slot++)
        if (slot_layer[slot] >= 0)
            cache->slot_of[slot_layer[slot]] = slot;
}

/* The layer is there, and the next one is on its way, unless it wants the same slot. */
static void begin_on_device({{name}}_cache *cache, int layer) {
    const int next = next_offloaded[layer], slot = own_slot[layer];
    sc_cuda *cuda = cache->cuda;
    if (slot >= 0)
        fetch_on_device(cache, layer);
    if (own_slot[next] != slot)
        fetch_on_device(cache, next);
    if (slot >= 0 && cache->filling[slot]) {
        SC_CUDA(cuda, StreamWaitEvent, cuda->compute, cache->filled[slot], 0);
        cache->filling[slot] = false;
    }
}

/* Rows from … to - 1 of the layer go home: what they have been given, not counted yet. */
static void home_on_device({{name}}_cache *cache, int layer, int from, int to, int64_t tokens) {
    const shape_info *shape = shape_of(layer);
    sc_cuda *cuda = cache->cuda;
    const size_t key = (size_t)shape->key * sizeof(kv), value = (size_t)shape->value * sizeof(kv);
    const size_t slots = (size_t)shape->slots, heads = (size_t)shape->kv_heads;
    for (int row = from; row < to; row++) {
        const int64_t end = cache->now.seen[layer][row] + tokens;
        for (int64_t pos = most(end - tokens, end - shape->slots); pos < end;) {
            const int64_t slot = pos % shape->slots, n = least(end - pos, shape->slots - slot);
            const size_t at = (size_t)row * heads * slots + (size_t)slot;
            sc_cuda_copy_runs(cuda, cuda->copies, (unsigned char *)home_keys(cache, layer) + at * key,
                              slots * key, (unsigned char *)keys_of(cache, layer) + at * key,
                              slots * key, (size_t)n * key, heads);
            sc_cuda_copy_runs(cuda, cuda->copies, (unsigned char *)home_values(cache, layer) + at * value,
                              slots * value, (unsigned char *)values_of(cache, layer) + at * value,
                              slots * value, (size_t)n * value, heads);
            pos += n;
        }
    }
}

{{/cuda}}
static void release({{name}}_cache *cache, int layer) {
    if (cache->slot_of[layer] >= 0)
        cache->slot_layer[cache->slot_of[layer]] = -1;
    cache->slot_of[layer] = -1;
}

static void release_all({{name}}_cache *cache) {
    for (int layer = 0; layer < LAYERS; layer++)
        release(cache, layer);
}

/* Brings a layer to a slot of its shape, not to the one that holds the busy layer. What is in a
 * slot between two updates is at home too, so nothing is lost. */
static void fetch({{name}}_cache *cache, int layer, int busy) {
    if (cache->slot_of[layer] >= 0)
        return;
    int slot = {{name}}_place[layer].slots;
    const int held = cache->slot_layer[slot];
    if (held >= 0 && (held == busy || cache->slot_layer[slot + 1] < 0))
        slot++;
    if (cache->slot_layer[slot] >= 0)
        release(cache, cache->slot_layer[slot]);
    cache->slot_layer[slot] = layer;
    cache->slot_of[layer] = slot;
    if ({{name}}_cache_seq_length(cache, layer)) {
        copy_used(cache, layer, cache->arena + {{name}}_slot[slot], home_of(cache, layer));
        cache->prefetches++;
    }
}

/* Copies what the row has just been given, not counted yet, from the slot home. */
static void write_back({{name}}_cache *cache, int layer, int row, int64_t tokens) {
    if ({{name}}_place[layer].slots < 0)
        return;
    const shape_info *shape = shape_of(layer);
    const size_t key = (size_t)shape->key * sizeof(kv), value = (size_t)shape->value * sizeof(kv);
    const unsigned char *from = cache->arena + {{name}}_slot[cache->slot_of[layer]];
    unsigned char *to = home_of(cache, layer);
    const size_t keys = (size_t)(BATCH * shape->kv_heads * shape->slots) * key;
    const int64_t end = cache->now.seen[layer][row] + tokens;
    for (int64_t pos = most(cache->now.seen[layer][row], end - shape->slots); pos < end; pos++)
        for (int64_t head = 0; head < shape->kv_heads; head++) {
            const size_t at =
                (size_t)((row * shape->kv_heads + head) * shape->slots + pos % shape->slots);
            memcpy(to + at * key, from + at * key, key);
            memcpy(to + keys + at * value, from + keys + at * value, value);
        }
}

/* Cache.update with offloading: the next layer is brought, then this one is updated, then it goes.
 * On this device copies are done when they are asked for, so there is nothing to wait for. */
void {{name}}_cache_begin({{name}}_cache *cache, int layer) {
{{#cuda}}
    if (cache->cuda) {
        begin_on_device(cache, layer);
        return;
    }
{{/cuda}}
    fetch(cache, next_offloaded[layer], layer);
    if ({{name}}_place[layer].slots >= 0)
        fetch(cache, layer, next_offloaded[layer]);
}

void {{name}}_cache_end({{name}}_cache *cache, int layer) {
    if ({{name}}_place[layer].slots < 0)
        return;
{{#cuda}}
    const int next = next_offloaded[layer];
    if (cache->cuda && next != layer && own_slot[next] == own_slot[layer])
        fetch_on_device(cache, next);
    if (!cache->cuda)
{{/cuda}}
    release(cache, layer);
    cache->offloads++;
}

{{#cuda}}
/* Under way when this returns; all that follows on the cache is behind it. Where a call failed, the
 * layer is at home. */
static int prefetch_on_device({{name}}_cache *cache, int layer, sc_error *err) {
    int rc = sc_cuda_enter(cache->cuda, err);
    if (rc)
        return rc;
    cache->ahead = 0;
    {{name}}_cache_fork(cache);
    fetch_on_device(cache, layer);
    {{name}}_cache_join(cache);
    if (*cache->cuda->failed) {
        release(cache, layer);
        rc = sc_cuda_finish(cache->cuda, cache->cuda->compute, err);
    }
    sc_cuda_leave(cache->cuda);
    return rc;
}

{{/cuda}}
API int {{name}}_cache_offload({{name}}_cache *cache, int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (!rc)
        release(cache, layer);
    return rc;
}

API int {{name}}_cache_prefetch({{name}}_cache *cache, int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    const int wanted = rc || {{name}}_place[layer].slots >= 0 ? layer : next_offloaded[layer];
{{#cuda}}
    if (!rc && cache->cuda)
        return prefetch_on_device(cache, wanted, err);
{{/cuda}}
    if (!rc)
        fetch(cache, wanted, -1);
    return rc;
}

API void {{name}}_cache_moves(const {{name}}_cache *cache, int64_t *prefetches, int64_t *offloads) {
    *prefetches = cache->prefetches;
    *offloads = cache->offloads;
}

{{/offloading}}
