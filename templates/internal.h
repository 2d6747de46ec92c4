/* internal.h - what {{name}}_cache.c and the rest of {{name}} share. */
#ifndef SLIPCAST_INTERNAL_{{name}}_H
#define SLIPCAST_INTERNAL_{{name}}_H

{{#cuda}}
#include <stdbool.h>
{{/cuda}}
#include <stddef.h>

#include "{{name}}.h"
{{#cuda}}
#include "runtime/cuda.h"
{{/cuda}}
#include "runtime/kv_{{kv_dtype}}.h"

enum {
    LAYERS = {{layers}},
    BATCH = {{batch}},
    MAX_CACHE_LEN = {{max_cache_len}},
    CACHE_SHAPES = {{cache_shapes}}
};

{{#shapes}}
/* {{layer_list}}: {{layer_type}}, {{kind}}.
 * K [{{batch}}, {{kv_heads}}, {{slots}}, {{head_dim}}], V [{{batch}}, {{kv_heads}}, {{slots}}, {{v_head_dim}}] {{kv_dtype}}. Slots: {{slots_from}}.
 * Capacity: the tokens that a row can be given{{#unbounded}}, any number, for it forgets only what its window
 * no longer shows{{/unbounded}}. */
enum {
    SHAPE{{id}}_KV_HEADS = {{kv_heads}},
    SHAPE{{id}}_SLOTS = {{slots}},
    SHAPE{{id}}_LENGTH = {{length}}, /* slots that are shown */
    SHAPE{{id}}_DIM = {{head_dim}},
    SHAPE{{id}}_V_DIM = {{v_head_dim}},
    SHAPE{{id}}_KEY = {{key_units}}, /* kv in a row of keys */
    SHAPE{{id}}_VALUE = {{value_units}},
    SHAPE{{id}}_EVICTED = {{evicted}}
};

{{/shapes}}
{{#has_states}}
enum { STATES = {{state_count}} }; /* convolutions and recurrent states */

/* One of a layer's states: a row is [channels, columns] of size bytes each; a recurrent state is one
 * channel. */
typedef struct {
    int layer, index, recurrent;
    size_t offset, size;
    int64_t channels, columns;
} state_place;

extern const state_place {{name}}_state[STATES];

{{/has_states}}
{{#has_indexer}}
typedef {{indexer_ctype}} indexer_key; /* {{dtype}} */

/* Layer by layer: where its indexer keys lie, [BATCH, slots, dim]; dim 0: it has none. */
typedef struct {
    size_t offset;
    int64_t dim;
} indexer_place;

extern const indexer_place {{name}}_indexer[LAYERS];

{{/has_indexer}}
#define ARENA_BYTES ((size_t){{arena_bytes}}) /* the sum of all buffers{{#padded}} and {{padding_bytes}} of padding{{/padded}} */
{{#offloading}}
#define HOST_BYTES ((size_t){{host_bytes}}) /* the keys and values of offloaded layers */

enum { SLOTS = {{slot_count}} }; /* two on the device for every shape of offloaded layers */

extern const size_t {{name}}_slot[SLOTS]; /* where they begin in the arena: keys, then values */
{{/offloading}}

/* Where a layer's buffers lie, of which shape they are, whose it reads{{#has_states}}, its first state{{/has_states}}{{#offloading}}, its first slot{{/offloading}}. */
typedef struct {
    size_t keys, values; /* bytes from the start of the arena{{#offloading}}, the host's of an offloaded layer{{/offloading}} */
    int shape, source{{#has_states}}, state{{/has_states}}{{#offloading}}, slots{{/offloading}};
} layer_place;

extern const layer_place {{name}}_place[LAYERS];

/* What is known of the rows; a saved cache begins with it. */
typedef struct {
    int64_t seen[LAYERS][BATCH]; /* tokens given to each row of each layer */
    int64_t kept[LAYERS][BATCH]; /* the oldest position that a ring still has */
    int64_t padding[BATCH];
{{#has_indexer}}
    int64_t indexed[LAYERS][BATCH]; /* indexer keys given to each row */
{{/has_indexer}}
{{#has_states}}
    int64_t held[STATES][BATCH];    /* has the row been updated since it was empty? */
{{/has_states}}
} cache_counts;

struct sc_cache {
    unsigned char *arena;          /* [ARENA_BYTES] */
    cache_counts now, saved;       /* saved: those of the file that load looks at */
    int64_t before[LAYERS][BATCH]; /* seen before the last update, -1: none to speak of */
    /* [batch, kv_heads, EVICTED]: rows that the last update of a ring drove out and its queries
     * still see, oldest first; and whose these are, -1: nobody's. */
    kv *evicted_keys[CACHE_SHAPES + 1], *evicted_values[CACHE_SHAPES + 1];
    int evicted_layer[CACHE_SHAPES + 1][BATCH];
    int64_t offloads, prefetches;
{{#offloading}}
    unsigned char *host;   /* [HOST_BYTES] */
    int slot_of[LAYERS];   /* the slot that holds the layer, -1: it is at home, or resident */
    int slot_layer[SLOTS]; /* the layer that the slot holds, -1: none */
{{/offloading}}
{{#cuda}}
    sc_cuda *cuda; /* the arena and the evicted rows are this device's; NULL: the host's */
    bool torn;     /* an update failed midway: rings may have lost rows that are still wanted */
{{#has_states}}
    CUfunction shift; /* of a convolution's columns */
{{/has_states}}
{{#offloading}}
    CUevent begun, filled[SLOTS], read[SLOTS], ended;
    bool filling[SLOTS]; /* nobody has waited for what is on its way there */
    int64_t ahead;       /* tokens of the pass that are not counted yet */
{{/offloading}}
{{#model}}
    struct {{name}}_device *graph_model; /* whose graph of one token this is, NULL: there is none */
    CUgraphExec graph;
    {{name}}_cache *next_captured; /* of that model */
{{#offloading}}
    int64_t graph_fetched;
    int graph_before[SLOTS], graph_after[SLOTS]; /* slot_layer before and after it */
{{/offloading}}
{{/model}}
{{/cuda}}
};

{{#has_states}}
/* Of one row of the batch. */
static inline size_t state_bytes(int i) {
    return (size_t)({{name}}_state[i].channels * {{name}}_state[i].columns) * {{name}}_state[i].size;
}

static inline unsigned char *state_row(const {{name}}_cache *cache, int i, int row) {
    return cache->arena + {{name}}_state[i].offset + (size_t)row * state_bytes(i);
}

{{/has_states}}
/* Where the layer's keys and values are{{#offloading}} now: in a slot while it is updated, else at home{{/offloading}}. */
static inline kv *keys_of(const {{name}}_cache *cache, int layer) {
{{#offloading}}
    if (cache->slot_of[layer] >= 0)
        return (kv *)(void *)(cache->arena + {{name}}_slot[cache->slot_of[layer]]);
    if ({{name}}_place[layer].slots >= 0)
        return (kv *)(void *)(cache->host + {{name}}_place[layer].keys);
{{/offloading}}
    return (kv *)(void *)(cache->arena + {{name}}_place[layer].keys);
}

static inline kv *values_of(const {{name}}_cache *cache, int layer) {
{{#offloading}}
    const size_t keys = {{name}}_place[layer].values - {{name}}_place[layer].keys;
    if (cache->slot_of[layer] >= 0)
        return (kv *)(void *)(cache->arena + {{name}}_slot[cache->slot_of[layer]] + keys);
    if ({{name}}_place[layer].slots >= 0)
        return (kv *)(void *)(cache->host + {{name}}_place[layer].values);
{{/offloading}}
    return (kv *)(void *)(cache->arena + {{name}}_place[layer].values);
}
{{#cuda}}
{{#offloading}}

/* Where the host keeps an offloaded layer. */
static inline kv *home_keys(const {{name}}_cache *cache, int layer) {
    return (kv *)(void *)(cache->host + {{name}}_place[layer].keys);
}

static inline kv *home_values(const {{name}}_cache *cache, int layer) {
    return (kv *)(void *)(cache->host + {{name}}_place[layer].values);
}
{{/offloading}}
{{/cuda}}
{{#offloading}}

/* Before a layer is updated: it and the next offloaded one come to the device. After it, its tokens
 * counted: it goes. */
void {{name}}_cache_begin({{name}}_cache *cache, int layer);
void {{name}}_cache_end({{name}}_cache *cache, int layer);
{{#cuda}}

/* On a device: the copy stream goes on behind what compute has done; behind what the layer's update
 * has read and written (false: the layer is resident); and compute behind all copies. */
void {{name}}_cache_fork({{name}}_cache *cache);
bool {{name}}_cache_used({{name}}_cache *cache, int layer);
void {{name}}_cache_join({{name}}_cache *cache);

/* Slots of a row that a fetch brings; the slots hold these layers now. */
int64_t {{name}}_cache_fetched(const {{name}}_cache *cache);
void {{name}}_cache_occupy({{name}}_cache *cache, const int *slot_layer);
{{/cuda}}
{{/offloading}}

{{#cuda}}
/* SC_ESTATE: an update of it failed midway. */
int {{name}}_cache_whole(const {{name}}_cache *cache, sc_error *err);

{{/cuda}}
/* Room for tokens more in the row? SC_EFULL names position and room. A layer without keys and values
 * takes any number. */
int {{name}}_cache_room(const {{name}}_cache *cache, int layer, int row, int64_t tokens, sc_error *err);

/* Counts tokens that the layer has been given{{#offloading}}, and copies home what put has put{{/offloading}}. */
void {{name}}_cache_advance({{name}}_cache *cache, int layer, int row, int64_t tokens);

{{#shapes}}
/* Keeps tokens of one head of one row: keys [tokens, {{head_dim}}], values [tokens, {{v_head_dim}}].
 * The counters are the caller's. */
void {{name}}_put{{id}}({{name}}_cache *cache, int layer, int row, int head, const kv_value *keys,
          const kv_value *values, int64_t tokens);

{{/shapes}}
#endif
