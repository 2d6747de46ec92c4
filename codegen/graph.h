/*
 * graph.h - the decoder as a list of typed operations per layer: sc_config -> sc_graph.
 *
 * Made by one small builder per family (families/). Knows tensor names and shapes, no byte offset
 * and no template. Nothing writes to it afterwards. All widths are counts of elements.
 */
#ifndef SC_GRAPH_H
#define SC_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config.h"
#include "pool.h"

typedef enum { SC_OP_NORM, SC_OP_ATTENTION, SC_OP_GATED_MLP, SC_OP_RESIDUAL } sc_op_kind;

typedef enum { SC_ACT_SILU, SC_ACT_GELU, SC_ACT_GELU_TANH } sc_activation;

/* y = x / sqrt(mean(x^2) + eps) * weight.  LlamaRMSNorm. weight NULL: there is no such norm. */
typedef struct {
    const char *weight; /* [width] */
    int64_t width;
    float eps;
} sc_norm;

/* y = W x (+ b), W [out, in] as torch.nn.Linear. */
typedef struct {
    const char *weight;
    const char *bias; /* NULL: none */
    int64_t in, out;
} sc_linear;

/* Rotate-half rotary embedding. Angle of pair i at position p: p * inv_freq[i]. */
typedef struct {
    const char *rope_type; /* "default", "linear", "llama3": for print */
    double rope_theta;
    int64_t rotary_dim;     /* 2 * pairs; equals head_dim unless partial */
    const float *inv_freq;  /* [rotary_dim / 2], scaling applied */
    float attention_factor; /* multiplies cos and sin */
} sc_rope;

typedef struct {
    sc_layer_type type;
    int64_t heads, kv_heads, head_dim, v_head_dim;
    int64_t window; /* sliding_window; 0 on a full layer */
    float scale;    /* of q.k: head_dim^-0.5 */
    sc_linear q_proj, k_proj, v_proj, o_proj;
    sc_norm q_norm, k_norm; /* per head, over head_dim; weight NULL: none */
    int rope;               /* index into the graph's ropes, -1: none */
} sc_attention;

typedef struct {
    sc_activation act;
    int64_t ffn;
    sc_linear gate_proj, up_proj, down_proj;
} sc_gated_mlp;

/* One operation. Norm reads the residual stream; attention and MLP read the last norm's output;
 * residual adds their output to the stream. */
typedef struct {
    sc_op_kind kind;
    union {
        sc_norm norm;
        sc_attention attention;
        sc_gated_mlp gated_mlp;
    };
} sc_op;

typedef struct {
    int ops;
    sc_op *op;
    const sc_attention *attention; /* the layer's attention operation */
} sc_layer;

typedef struct {
    const char *family; /* model_type */
    int64_t vocab, hidden;
    int layers;
    sc_layer *layer;
    const char *embed_tokens; /* weight [vocab, hidden] */
    sc_norm norm;             /* final */
    sc_linear lm_head;        /* weight equals embed_tokens when tied */
    bool tied;
    int ropes;
    sc_rope *rope;
} sc_graph;

/* SC_EINPUT: a config that contradicts itself or asks for what the family cannot do. */
int sc_graph_make(sc_graph **graph, sc_pool *pool, const sc_config *config, sc_error *err);

/* As print(exported_program): operations in order, tensor names and shapes, parameter count. */
void sc_graph_print(FILE *out, const sc_graph *graph, const sc_config *config);

#endif
