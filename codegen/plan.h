/*
 * plan.h - where every static buffer and every packed weight lives: Graph -> Plan.
 *
 * Reads   sc_config, sc_graph and sc_plan_options; changes none.
 * Makes   sc_plan, in the run's pool; nothing writes to it afterwards.
 * Units   bytes, unless a name says tokens.
 * Order   K, V, indexer keys, states of layer 0, of layer 1, …: the arena is the sum of its
 * buffers, each at a multiple of its elements' size; padding, where a float32 follows shorter
 * elements, is counted and listed. Source src/transformers/cache_utils.py, StaticLayer,
 * StaticSlidingWindowLayer, StaticIndexedLayer, LinearAttentionLayer: the shapes.
 */
#ifndef SC_PLAN_H
#define SC_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include "graph.h"
#include "tensors.h"

/* A processor that castings are made for. */
typedef struct {
    const char *name;   /* "x86-64-v4" */
    const char *vector; /* runtime header of its vectors */
    const char *cflags; /* for the compiler; "" for none */
    int lanes;          /* floats in a vector; a weight panel is twice as wide */
    bool pairs;         /* multiplies bfloat16 in pairs */
} sc_arch;

enum { SC_MOST_SMS = 16 };

/* "native" is this machine's best. NULL: unknown name. */
const sc_arch *sc_arch_find(const char *name);

typedef struct {
    const char *name; /* of the casting: a C identifier */
    int64_t max_cache_len, batch_size;
    bool offloading;      /* keys and values of offloadable layers live on the host */
    bool offload_sliding; /* those of sliding layers too: only_non_sliding false */
    int64_t rewind;       /* tokens that crop can take back from a full ring; 0: none */
    sc_dtype dtype;       /* of weights, states and indexer keys: SC_F32, SC_BF16, SC_F16 */
    sc_dtype kv_dtype;    /* as keys and values are kept: these, SC_Q8_0 or SC_FP8_E4M3 */
    const sc_arch *arch;
    bool cuda; /* device code too, for these architectures: 80, 90, … ascending */
    int sms, sm[SC_MOST_SMS];
    bool emit_only;          /* the device code is not compiled at export */
    int64_t offload_weights; /* layers whose weights stay on the host */
} sc_plan_options;

/* One distinct shape of K and V, and of what its indexer keeps. */
typedef struct {
    sc_layer_type type;
    int64_t kv_heads, head_dim, v_head_dim, index_head_dim;
    int64_t window; /* of a ring; 0 */
    bool ring;
    int64_t length; /* slots as the reference has them: min(window, max_cache_len) */
    int64_t slots;  /* those that are kept: with room to rewind */
    int64_t key_units, value_units; /* of the kv_dtype in one row */
    int64_t capacity;               /* tokens that a layer can be given; -1: any number */
    int64_t evicted; /* rows per head kept aside while a step needs what its ring drove out */
} sc_cache_shape;

/* A run of the arena; bytes 0: there is no such buffer. */
typedef struct {
    size_t offset, bytes;
} sc_buffer;

typedef struct {
    int shape;    /* -1: no keys and values */
    int slots;    /* the first of the two device slots that it takes turns in; -1: it is resident */
    int own_slot; /* of these, the one that it always has on a CUDA device */
    sc_buffer keys, values; /* of the host's arena when it is offloaded */
    sc_buffer indexer_keys; /* [batch, slots, index_head_dim] */
    sc_buffer *state;       /* [config->layer[i].states] */
    size_t bytes;           /* of all of them */
} sc_layer_cache;

/* One tensor of the packed file: SC_WEIGHT_LINEAR in panels [panel, depth, 2 * lanes] of its rows;
 * a gated pair's panel holds lanes rows of gate, then of up; biases as panels hold their rows. */
typedef struct {
    const sc_weight *weight;
    int layer;       /* -1: of no layer */
    int64_t depth;   /* weight->in as packed: in pairs an odd width has a zero more */
    int64_t panels;  /* 0 of rows and vectors */
    uint64_t offset; /* from the start of the file */
    uint64_t bytes;
    /* On a device: rows [rows, device_depth] in the casting's dtype, a gated pair's first part
     * before its second; vectors are float32. */
    int64_t rows, device_depth;
    sc_buffer device; /* of the weights there; of its layer's slot when that is offloaded */
} sc_packed;

/* A buffer of the forward pass on a device. */
typedef struct {
    const char *name; /* "x" */
    const char *what; /* "float [256, 64]" */
    sc_buffer place;  /* from the start of the scratch */
} sc_device_buffer;

/* Which buffers a value has on a device. Of float32 both are one. */
typedef struct {
    bool floats;    /* something reads it, or adds to it, as floats */
    bool operands;  /* a linear multiplies it */
    int64_t stride; /* elements from row to row: whole 16 bytes, zeros behind the value's width */
    int64_t depth;  /* the same of its operands */
} sc_device_value;

/* What a CUDA casting takes on the device, and how much it does at once. */
typedef struct {
    int64_t block;                   /* tokens per batch row of one pass */
    int64_t rows;                    /* batch * block: of activations */
    int64_t head_rows;               /* rows of logits at once */
    sc_device_value *value;          /* [graph->values] */
    int64_t sums_stride;             /* floats of a row of what sc_plan_ends */
    int64_t query_width;             /* of a row of queries in the cache's dtype */
    int64_t partial_floats, arrived; /* of the split attention */
    int64_t index_rows;              /* queries that an indexer scores at once; 0: there is none */
    int64_t index_stride;            /* floats of a query's scores */
    int64_t index_chosen;            /* slots that are listed for a query */
    int64_t expert_depth;            /* of a row that one expert's ffn makes */
    size_t staging_bytes;            /* of panels on their way into rows, one of two halves */
    size_t workspace_bytes;          /* for cuBLASLt */
    int *slot;      /* [layers]: its weights take turns in that one; -1: they are resident */
    sc_buffer *run; /* [layers]: its weights on the device; on the host when there */
    sc_buffer weight_slot[2];
    size_t weights_bytes;      /* resident weights, then the two slots */
    size_t host_weights_bytes; /* pinned */
    int buffers;
    sc_device_buffer *buffer;
    size_t scratch_bytes;
} sc_device_plan;

typedef struct {
    sc_plan_options options;
    const sc_config *config;
    const sc_graph *graph; /* NULL: the cache alone */
    int64_t panel, block;  /* outputs per panel; tokens per batch row of one pass */
    bool pairs; /* bfloat16 weights lie in pairs along the input: [panel, in / 2, lanes, 2] */
    int shapes;
    sc_cache_shape *shape;
    int layers;
    sc_layer_cache *layer; /* [layers] */
    size_t arena_bytes;
    size_t host_bytes;          /* the arena of offloaded layers */
    int slots;                  /* two per distinct shape of offloaded layers */
    size_t *slot;               /* [slots] offsets in the device's arena, keys then values */
    size_t slot_bytes;          /* of all slots, part of arena_bytes */
    size_t padding_bytes;       /* of the arena, so that float32 states lie at multiples of 4 */
    size_t cache_scratch_bytes; /* evicted rows */
    size_t scratch_bytes;       /* of the forward pass, without the threads' part */
    size_t thread_scratch_bytes;
    int packed;
    sc_packed *pack;
    uint64_t weights_bytes; /* of NAME.weights */
    int64_t *stride;        /* of the graph's values on the processor, in floats: [graph->values] */
    int64_t attention_dim, attention_queries, step_kv;
    int64_t index_stride; /* of an indexer's scores of a query; 0: there is none */
    int64_t experts, top_k, expert_stride,
        expert_x_stride;   /* most of a mixture's; 0: there is none */
    sc_device_plan device; /* all zero without cuda */
} sc_plan;

/*
 * Slots that one layer keeps: max_cache_len tokens, or the window (or chunk) of a ring when that is
 * smaller. SC_EINPUT: a length is not positive; *slots is untouched.
 */
int sc_plan_slots(int64_t *slots, sc_layer_type type, int64_t max_cache_len, int64_t window,
                  sc_error *err);

enum { SC_LONGEST_CACHE = INT32_MAX / 2, SC_WIDEST_BATCH = 65536 };

/* graph NULL: the cache alone. SC_EUSAGE: max_cache_len or batch_size below 1 or over the above;
 * SC_EINPUT: sizes that overflow. */
int sc_plan_make(sc_plan **plan, sc_pool *pool, const sc_config *config, const sc_graph *graph,
                 const sc_plan_options *options, sc_error *err);

/* plan_cache.c: shapes, layers and the arena. */
int sc_plan_cache(sc_plan *plan, sc_pool *pool, sc_error *err);

/* plan_device.c: weights and scratch of a CUDA casting. */
int sc_plan_device(sc_plan *plan, sc_pool *pool, sc_error *err);

/* Heads of one kv_head that one task of the processor's attention takes: all, or where they are
 * many a part that others need not wait for. */
int64_t sc_plan_group(const sc_attention *attention);

/* plan_kernels.c. SC_EUSAGE: an operation that has no kernel for devices. */
int sc_plan_kernels(const sc_graph *graph, sc_pool *pool, sc_error *err);
/* The norm that operation i of the list, a linear, takes in on its way through its inputs when it
 * multiplies one token of every row: the operation before it, whose outcome nothing else reads.
 * i may be one behind the last list's end: the head. NULL: there is none. */
const sc_row_op *sc_plan_folded(const sc_graph *graph, const sc_op_list *list, int i);
/* Whether more becomes of a linear's sums than being stored as floats, or added to some. */
bool sc_plan_ends(const sc_plan *plan, const sc_linear *linear);
/* Whether a value's floats and operands are two buffers. */
bool sc_plan_has_twin(const sc_plan *plan, int value);

/* Attention to one token is that of so many tiles of heads, with so many heads each: those on one
 * kv_head, or some that share a latent key. */
int64_t sc_plan_tiles(const sc_plan *plan, const sc_attention *attention);
int64_t sc_plan_tile_heads(const sc_plan *plan, const sc_attention *attention);
/* Blocks that share a row's and tile's attention to one token: enough to fill a large device,
 * each with 64 slots at least, and no more than one of them adds up. */
int64_t sc_plan_splits(const sc_plan *plan, const sc_attention *attention,
                       const sc_cache_shape *shape);
/* Elements of a row of in weights or operands on a device: whole 16 bytes. */
int64_t sc_plan_depth(const sc_plan *plan, int64_t in);

/* One unit of storage in bytes; the units of a row of dim elements, 0: no such row can be (q8_0
 * wants a multiple of 32). runtime/kv_*.h. */
size_t sc_kv_unit_bytes(sc_dtype kv_dtype);
int64_t sc_kv_units(sc_dtype kv_dtype, int64_t dim);
/* What callers pass: float32 for a quantised cache. */
sc_dtype sc_kv_value_dtype(sc_dtype kv_dtype);

/* The layer that is prefetched while layer is updated: the next offloaded one, round and round,
 * layer itself last. -1: none is offloaded. Source: Cache.prefetch. */
int sc_plan_next_offloaded(const sc_plan *plan, int layer);
/* Bytes that one decoded token moves to the device and back, with full buffers. */
void sc_plan_moved(const sc_plan *plan, size_t *to_device, size_t *to_host);

/* What the reference says of a layer after its first update: its most tokens, -1 without a maximum
 * (hybrid layers too); whether crop can take tokens back. StaticCache's methods of these names. */
int64_t sc_plan_max_length(const sc_plan *plan, int layer);
bool sc_plan_is_croppable(const sc_plan *plan, int layer);

/* Buffers do not overlap, lie in the arena, and add up to it. SC_ECHECK says what does not hold. */
int sc_plan_check(const sc_plan *plan, sc_error *err);

void sc_plan_print(FILE *out, const sc_plan *plan);
void sc_plan_print_json(FILE *out, const sc_plan *plan);
/* The same up to the last key, without "\n}\n", for a caller that has more keys. */
void sc_plan_print_json_keys(FILE *out, const sc_plan *plan);

/* A buffer of a layer as it is shown: names and shapes are the reference's. */
typedef struct {
    const char *name; /* "keys", "values", "indexer_keys", "conv_state", … */
    int index;        /* among the layer's states of that name; 0 */
    char shape[120];  /* "[1, 8, 4096, 128]" */
    sc_dtype dtype;
    sc_buffer buffer;
    bool host;  /* offset is in the host's arena */
    bool state; /* no sequence dimension */
} sc_plan_buffer_view;

/* The n-th buffer of a layer, in the arena's order; false: it has no more. */
bool sc_plan_buffer(sc_plan_buffer_view *view, const sc_plan *plan, int layer, int n);

/* "4 B", "1.5 KiB", "2 MiB": exact to a tenth, locale-free. */
const char *sc_bytes_text(char text[32], unsigned long long bytes);

/* float32 whatever the casting's dtype; made of gate and up. */
bool sc_weight_is_floats(const sc_weight *weight);
bool sc_weight_is_gated(const sc_weight *weight);

const char *sc_dtype_name(sc_dtype dtype); /* "float32", "bfloat16", … */

#endif
