/*
 * plan.h - where every static buffer and every packed weight lives: Graph -> Plan.
 *
 * Reads   sc_graph and sc_plan_options; changes neither.
 * Makes   sc_plan, in the run's pool; nothing writes to it afterwards.
 * Units   bytes, unless a name says tokens.
 * Order   K then V of layer 0, of layer 1, …, without gaps: the arena is the sum of its buffers,
 * and each is aligned to its own rows, whose bytes are a multiple of what a kernel loads. Source
 * src/transformers/cache_utils.py, StaticLayer and StaticSlidingWindowLayer: the shapes.
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

/* "native" is this machine's best. NULL: unknown name. */
const sc_arch *sc_arch_find(const char *name);

typedef struct {
    const char *name; /* of the casting: a C identifier */
    int64_t max_cache_len, batch_size;
    sc_dtype dtype; /* SC_F32 or SC_BF16: of weights and cache */
    const sc_arch *arch;
} sc_plan_options;

/* One distinct shape of K and V. */
typedef struct {
    sc_layer_type type;
    int64_t kv_heads, slots, head_dim, v_head_dim, window;
    bool ring;
    int64_t capacity; /* tokens that a layer can be given; -1: any number */
    int64_t evicted;  /* rows per head kept aside while a step needs what its ring drove out */
} sc_cache_shape;

typedef struct {
    int shape;
    size_t keys_offset, values_offset; /* from the start of the arena */
    size_t keys_bytes, values_bytes;
} sc_layer_cache;

/* One tensor of the packed file. kind: what the rows are made of. */
typedef enum {
    SC_PACK_PANELS, /* parts' rows after one another, in panels [panel, in, 2 * lanes] */
    SC_PACK_GATED,  /* two parts; a panel holds lanes rows of the first, then of the second */
    SC_PACK_ROWS,   /* as the checkpoint has it */
    SC_PACK_FLOATS, /* a vector, float32 */
    SC_PACK_BIAS    /* parts' biases as panels hold their rows, float32; an absent one is zero */
} sc_pack_kind;

typedef struct {
    const char *tensor; /* NULL: zeros (a part without a bias) */
    int64_t rows;
} sc_pack_part;

typedef struct {
    sc_pack_kind kind;
    bool gated;        /* SC_PACK_BIAS: of a gated pair */
    int layer;         /* -1: of no layer */
    const char *field; /* in the casting's struct of weights: "qkv_proj" */
    int parts;
    sc_pack_part part[3];
    int64_t in;      /* width of a row; 1 of a vector */
    int64_t depth;   /* the same as packed: in pairs an odd width has a zero more */
    int64_t panels;  /* of SC_PACK_PANELS, _GATED and _BIAS */
    uint64_t offset; /* from the start of the file */
    uint64_t bytes;
} sc_packed;

typedef struct {
    sc_plan_options options;
    const sc_graph *graph;
    int64_t panel, block; /* outputs per panel; tokens per batch row of one pass */
    bool pairs; /* bfloat16 weights lie in pairs along the input: [panel, in / 2, 2 lanes, 2] */
    int shapes;
    sc_cache_shape *shape;
    sc_layer_cache *layer; /* [graph->layers] */
    size_t arena_bytes;
    size_t cache_scratch_bytes; /* evicted rows */
    size_t scratch_bytes;       /* of the forward pass, without the threads' part */
    size_t thread_scratch_bytes;
    int packed;
    sc_packed *pack;
    uint64_t weights_bytes; /* of NAME.weights */
    /* Strides of the forward pass's buffers, in floats. */
    int64_t hidden_stride, qkv_stride, attended_stride, ffn_stride, attention_dim;
    int64_t attention_queries, step_kv;
} sc_plan;

/*
 * Slots that one layer keeps: max_cache_len tokens, or sliding_window when that is smaller.
 * SC_EINPUT  a length is not positive; *slots is untouched.
 */
int sc_plan_slots(int64_t *slots, sc_layer_type type, int64_t max_cache_len, int64_t sliding_window,
                  sc_error *err);

/* SC_EUSAGE: max_cache_len or batch_size below 1; SC_EINPUT: sizes that overflow. */
int sc_plan_make(sc_plan **plan, sc_pool *pool, const sc_graph *graph,
                 const sc_plan_options *options, sc_error *err);

/* Buffers do not overlap, lie in the arena, and add up to it. SC_ECHECK says what does not hold. */
int sc_plan_check(const sc_plan *plan, sc_error *err);

void sc_plan_print(FILE *out, const sc_plan *plan);
void sc_plan_print_json(FILE *out, const sc_plan *plan);

/* "4 B", "1.5 KiB", "2 MiB": exact to a tenth, locale-free. */
const char *sc_bytes_text(char text[32], unsigned long long bytes);

/* "input_layernorm" of "model.layers.0.input_layernorm.weight": a norm's name in the casting. */
const char *sc_plan_norm_field(sc_pool *pool, const char *weight);

const char *sc_dtype_name(sc_dtype dtype); /* "float32", "bfloat16", … */

#endif
