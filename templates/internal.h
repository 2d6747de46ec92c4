/* internal.h - what {{name}}_cache.c and {{name}}_model.c share. */
#ifndef SLIPCAST_INTERNAL_{{name}}_H
#define SLIPCAST_INTERNAL_{{name}}_H

#include <stddef.h>

#include "{{name}}.h"

typedef {{kv_ctype}} kv; /* one element of the cache: {{kv_dtype}} */

enum {
    LAYERS = {{layers}},
    BATCH = {{batch}},
    MAX_CACHE_LEN = {{max_cache_len}},
    CACHE_SHAPES = {{cache_shapes}},
};

{{#shapes}}
/* {{layer_list}}: {{layer_type}}, {{kind}}.
 * K [{{batch}}, {{kv_heads}}, {{slots}}, {{head_dim}}], V [{{batch}}, {{kv_heads}}, {{slots}}, {{v_head_dim}}] {{kv_dtype}}.
 * Slots: {{slots_from}}. It can be given
{{#unbounded}}
 * any number of tokens, for it forgets only what its window no longer shows. */
{{/unbounded}}
{{^unbounded}}
 * {{capacity}} tokens. */
{{/unbounded}}
enum {
    SHAPE{{id}}_KV_HEADS = {{kv_heads}},
    SHAPE{{id}}_SLOTS = {{slots}},
    SHAPE{{id}}_DIM = {{head_dim}},
    SHAPE{{id}}_V_DIM = {{v_head_dim}},
    SHAPE{{id}}_EVICTED = {{evicted}},
};

{{/shapes}}
#define ARENA_BYTES ((size_t){{arena_bytes}}) /* the sum of all K and V buffers */

/* Where the layer's buffers lie in the arena, and of which shape they are. */
typedef struct {
    size_t keys, values; /* bytes from the start of the arena */
    int shape;
} layer_place;

extern const layer_place {{name}}_place[LAYERS];

struct sc_cache {
    unsigned char *arena; /* [ARENA_BYTES] */
    /* [batch, kv_heads, EVICTED, dim]: rows that the last update of a ring drove out and its
     * queries still see, oldest first. */
    kv *evicted_keys[CACHE_SHAPES];
    kv *evicted_values[CACHE_SHAPES];
    int evicted_layer[CACHE_SHAPES]; /* whose rows these are, -1: nobody's */
    int64_t seen[LAYERS];            /* tokens given to each layer */
    int64_t before[LAYERS];          /* the same before its last update, -1: none to speak of */
    int64_t padding[BATCH];
    int64_t offloads, prefetches;
    void *memory; /* what destroy frees */
};

/* Room for tokens more in the layer? SC_EFULL names position and room. */
int {{name}}_cache_room(const {{name}}_cache *cache, int layer, int64_t tokens, sc_error *err);

{{#shapes}}
/* Keeps tokens of one row: keys [tokens, {{head_dim}}], values [tokens, {{v_head_dim}}].
 * The counters are the caller's. */
void {{name}}_put{{id}}({{name}}_cache *cache, int layer, int batch, int head, const kv *keys,
     {{name_pad}}      const kv *values, int64_t tokens);

{{/shapes}}
#endif
