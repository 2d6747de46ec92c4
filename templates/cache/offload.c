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
    fetch(cache, next_offloaded[layer], layer);
    if ({{name}}_place[layer].slots >= 0)
        fetch(cache, layer, next_offloaded[layer]);
}

void {{name}}_cache_end({{name}}_cache *cache, int layer) {
    if ({{name}}_place[layer].slots < 0)
        return;
    release(cache, layer);
    cache->offloads++;
}

API int {{name}}_cache_offload({{name}}_cache *cache, int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (!rc)
        release(cache, layer);
    return rc;
}

API int {{name}}_cache_prefetch({{name}}_cache *cache, int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (!rc)
        fetch(cache, {{name}}_place[layer].slots >= 0 ? layer : next_offloaded[layer], -1);
    return rc;
}

API void {{name}}_cache_moves(const {{name}}_cache *cache, int64_t *prefetches, int64_t *offloads) {
    *prefetches = cache->prefetches;
    *offloads = cache->offloads;
}

{{/offloading}}
