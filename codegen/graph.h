/*
 * graph.h - the decoder as a list of typed operations per layer: sc_config -> sc_graph.
 *
 * Operations read and write values: activations, one row of floats per token, that the Plan gives a
 * buffer each. Made by one small builder per family (families/, with the tools of graph_build.h).
 * Knows tensor names and shapes, no byte offset and no template. Nothing writes to it afterwards.
 * All widths are counts of elements.
 */
#ifndef SC_GRAPH_H
#define SC_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config.h"
#include "pool.h"

/* ---- weights ---- */

/* Rows of one tensor: out of every output of a torch.nn.Linear [out, in], or elements of a vector.
 * Row r of the part is row first + r / run * stride + r % run of the tensor (run 0: first + r),
 * whose leading dimensions count as rows. Of a transposed part rows are columns of the tensor, and
 * its inputs are the tensor's rows from in_first on. */
typedef struct {
    const char *tensor; /* NULL: zeros (a bias that is absent) */
    int64_t rows;
    int64_t first, run, stride;
    int rank;         /* what the checkpoint must have */
    int64_t shape[3]; /* [rank] */
    bool transposed;  /* [in, out]: Conv1D */
    int64_t in_first;
    float plus; /* is added to every element: 1 where a norm is (1 + w) */
} sc_part;

typedef enum {
    SC_WEIGHT_LINEAR, /* rows of its parts one after another, each a sum over in */
    SC_WEIGHT_GATED,  /* two parts: gate and up, whose rows are made in pairs */
    SC_WEIGHT_ROWS,   /* looked up by row: an embedding */
    SC_WEIGHT_FLOATS, /* a vector or a small table, float32 whatever the dtype */
    SC_WEIGHT_BIAS,   /* of a linear, float32 */
    SC_WEIGHT_GATED_BIAS
} sc_weight_kind;

/* One packed tensor. Several blocks (experts) are linears of one shape each, side by side. */
typedef struct {
    sc_weight_kind kind;
    const char *field;   /* in the casting's struct of weights: "qkv_proj" */
    int64_t in;          /* 1 of a vector */
    int blocks, parts;   /* parts of each block */
    const sc_part *part; /* [blocks * parts] */
} sc_weight;

/* ---- values ---- */

typedef struct {
    const char *name; /* "qkv" */
    int64_t width;    /* of its widest use */
    bool operand;     /* a linear multiplies it */
    bool floats;      /* something else reads it, or adds to it */
} sc_value;

/* Elements at … of a row of a value; in layer i of a list of layers, at + i * step …. */
typedef struct {
    int value; /* -1: none */
    int64_t at, step;
} sc_span;

/* ---- operations ---- */

/*
 * Rotary embedding. Angle of pair i at position p: p * inv_freq[i].
 * Where growth is not 0 (dynamic), from p = long_from on inv_freq[i] is multiplied by
 * (growth * (p + 1) / long_from - (growth - 1))^(-2 i / (rotary_dim - 2)).
 */
typedef struct {
    const char *rope_type; /* "default", "linear", "llama3": for print */
    double rope_theta;
    int64_t rotary_dim;     /* 2 * pairs; equals head_dim unless partial */
    const float *inv_freq;  /* [rotary_dim / 2], scaling applied; 0: a pair that does not turn */
    const float *long_freq; /* the same for tokens from long_from on; NULL: no such thing */
    int64_t long_from;
    float growth;
    float attention_factor; /* multiplies cos and sin */
} sc_rope;

/*
 * What is done to each token's row by itself. a, b: what is read; out: what is written, which may
 * be one of them. w, w2: vectors. n: counts, f: factors. Each has its function in
 * templates/ops/rows.c, where its formula is.
 */
typedef enum {
    SC_ROW_RMS_NORM,   /* n[0] runs of n[1], by w (NULL: none), n[2] further on per run; f[0] eps */
    SC_ROW_LAYER_NORM, /* the same with w2, the bias (NULL: none) */
    SC_ROW_ADD,        /* out = f[0] a + f[1] b, n[0] wide */
    SC_ROW_MULTIPLY,   /* out = a b, n[0] wide */
    SC_ROW_ROPE_PAIRS, /* n[0] heads of n[1]: element 2i of each is turned with 2i + 1, by rope */
    SC_ROW_ROPE,      /* n[0] heads, n[1] from one to the next in a, n[2] in out: turned by rope, in
                       * pairs (n[3]) or halves, into halves; out may be a of halves */
    SC_ROW_ROUTE,     /* a: n[0] scores -> out: n[1] ids, then n[1] weights; n[2]: adding up to 1,
                       * n[3]: sigmoid, else softmax; of n[4] groups the n[5] best (0: no groups);
                       * w [n[0]]: is added to choose by, w2 [n[0]]: weights are times it, and f[0] */
    SC_ROW_POSITION,  /* out = a + row (position + n[1]) of w [n[2], n[0]] */
    SC_ROW_TIMES,     /* out = f[0] a, n[0] wide */
    SC_ROW_SILU_GATE, /* out = a silu(b), n[0] wide */
    SC_ROW_SIGMOID_GATE, /* out = a sigmoid(b), n[0] wide; b has n[1], as many or one */
    SC_ROW_SCALE,        /* out = a w, n[0] wide; w has n[1], as many or one */
    SC_ROW_LOOKUP,    /* out = f[0] a + f[1] row id of w [n[1], n[0]]; row 0 for ids from n[1] on */
    SC_ROW_TANH,      /* out = tanh(a), n[0] wide */
    SC_ROW_MAGNITUDE, /* out = a sqrt(mean(b^2) / max(mean(a^2), f[0])), n[0] wide */
    SC_ROW_PREDICT,   /* n[0] in n[1] streams: out_j = a_j + sum over i of b[j n[1] + i] a_i */
    SC_ROW_CORRECT,   /* the same streams: out_j += (b[j] + 1) a */
    SC_ROW_SPARSE_GATE, /* out = act(max(a - mean(a) - f[0] std(a), 0)) b, n[0] wide */
    SC_ROW_TEMPERATURE, /* out = a (f[0] log(1 + floor((position + 1) / n[1])) + 1), n[0] wide */
    SC_ROWS
} sc_row_kind;

typedef struct {
    sc_row_kind kind;
    sc_span a, b, out;
    const sc_weight *w, *w2;
    int64_t n[6];
    float f[2];
    sc_activation act;
    int rope; /* index into the graph's ropes; -1: none */
} sc_row_op;

/* y = act(W x + b), or onto y: y += scale * (W x + b). Gated: act(scale * gate) * up. Of a weight
 * of blocks, block i is a linear of its own: of x + i * x_step, to y + i * y_step. */
typedef struct {
    const sc_weight *w, *bias; /* bias NULL: none */
    sc_span x, y;
    int64_t in, out;
    int64_t x_step, y_step; /* 0 of one block */
    bool gated, add;
    sc_activation act;
    float scale;
} sc_linear;

/* Softmax(scale q.k + …) v over what the layer's cache shows. Latent: one cached row, its key, is
 * key and value of all heads, and its value is what q_rope is scored against besides (DeepSeek-V2,
 * 2405.04434, with k and v's projections taken into those of q and the output). */
typedef struct {
    sc_layer_type type;
    int64_t heads, kv_heads, head_dim, v_head_dim; /* of a query; of a value that is summed */
    int64_t window;       /* a query sees the last so many keys, or those of its chunk; 0: all */
    bool chunked;         /* of positions i * window … (i + 1) * window - 1 */
    float scale;          /* of q.k */
    float softcap;        /* softcap * tanh(score / softcap); 0: none */
    sc_span q, k, v, out; /* k, v: none where the layer reads another's cache */
    bool latent, indexed; /* indexed: only what SC_OP_INDEX has chosen */
    sc_span q_rope;       /* of latent: [heads, v_head_dim] */
    const sc_weight *q_norm, *k_norm; /* per head, over head_dim; NULL: none */
    float norm_eps;
    const sc_weight *sinks; /* [heads]: a score more in each softmax, of no value; NULL: none */
    const float *alibi;     /* [heads] slopes: score += slope * (key - query); NULL: none */
    int rope;               /* rotates q and k, in halves; -1: none */
} sc_attention;

/* out (+)= sum over the chosen experts of weight * down(act(gate(x)) * up(x)), or, when they are
 * plain, of weight * down(act(up(x))). */
typedef struct {
    int64_t experts, top_k, hidden, ffn; /* hidden: of x and out */
    bool plain;                          /* gate_up is up alone */
    sc_activation act;
    float alpha, limit;              /* limit not 0: GptOssExperts' gate, templates/ops/experts.c */
    bool weigh_input;                /* x is weighed instead: Llama4TextMoe */
    bool add;                        /* onto out */
    sc_span x, route, out;           /* route: what SC_ROW_ROUTE wrote */
    const sc_weight *gate_up, *down; /* a block per expert */
    const sc_weight *gate_up_bias, *down_bias; /* NULL: none */
} sc_experts;

/*
 * A convolution of each channel by itself over the tokens so far: y[t] = act(bias + sum over k of
 * w[k] x[t - columns + 1 + k]), zeros before the first. x as the cache's dtype has it: the last
 * columns of it are a state of the layer. torch.nn.Conv1d with a group per channel, padded on the
 * left.
 */
typedef struct {
    int64_t channels, columns;
    sc_activation act;
    sc_span x, y;              /* [channels]; may be one */
    int state;                 /* among the layer's: its conv_state */
    const sc_weight *w, *bias; /* [channels, columns]; [channels], NULL: none */
} sc_conv;

/*
 * A selective state space: per head a state h [head_dim, state_size], token by token
 *   h = exp(dt A) h + (dt x) B^T, y = h C + D x, with A = -exp(A_log),
 *   dt = softplus(dt + dt_bias), kept between dt_least and dt_most.
 * Heads of a group share B and C. Mamba-2 (Dao and Gu 2024, Mamba2Mixer) has one A per head; Mamba
 * (Gu and Dao 2023, JambaMambaMixer) is heads of one channel with an A per element of its state.
 */
typedef struct {
    int64_t heads, head_dim, groups, state_size;
    float dt_least, dt_most; /* dt_most 0: no such limit */
    sc_span x, dt, b, c, y; /* [heads, head_dim], [heads], [groups, state_size] twice; y may be x */
    int state;              /* among the layer's: its recurrent_state */
    const sc_weight *a_log; /* [heads], or [heads, state_size] */
    const sc_weight *d, *dt_bias; /* [heads]; dt_bias NULL: none */
} sc_state_space;

/* Which keys the layer's attention sees, templates/ops/index.c: of a query the top_k that score
 * highest. Its keys are in the layer's cache beside those of attention. */
typedef struct {
    int64_t heads, dim, top_k;
    sc_span q, k, weights; /* [heads, dim], [dim], [heads]: scale is in the weights */
} sc_index;

/*
 * A gated delta rule: per head a state S [key_dim, value_dim], token by token
 *   S = decay S, S = S + k (beta (v - S^T k))^T, y = S^T q,
 * with q and k of length 1, q divided by sqrt(key_dim), decay = exp(-exp(A_log) softplus(a +
 * dt_bias)), beta = sigmoid(b). heads / key_heads heads share a query and a key. Yang, Kautz and
 * Hatamizadeh 2024, equation 10; Qwen3NextGatedDeltaNet.
 */
typedef struct {
    int64_t key_heads, heads, key_dim, value_dim;
    sc_span q, k;                     /* [key_heads, key_dim] */
    sc_span v, y;                     /* [heads, value_dim]; y may be v */
    sc_span a, b;                     /* [heads] */
    int state;                        /* among the layer's: its recurrent_state */
    const sc_weight *a_log, *dt_bias; /* [heads] */
} sc_delta_rule;

typedef enum {
    SC_OP_ROW,
    SC_OP_LINEAR,
    SC_OP_ATTENTION,
    SC_OP_EXPERTS,
    SC_OP_CONV,
    SC_OP_STATE_SPACE,
    SC_OP_DELTA_RULE,
    SC_OP_INDEX
} sc_op_kind;

typedef struct {
    sc_op_kind kind;
    union {
        sc_row_op row;
        sc_linear linear;
        sc_attention attention;
        sc_experts experts;
        sc_conv conv;
        sc_state_space state_space;
        sc_delta_rule delta_rule;
        sc_index index;
    };
} sc_op;

typedef struct {
    int ops;
    sc_op *op;
} sc_op_list;

typedef struct {
    const char *family; /* model_type */
    int64_t vocab, hidden;
    int values;
    sc_value *value;
    const sc_weight *embed_tokens; /* [vocab, hidden]; NULL: lm_head's, which is tied to it */
    const char *embed_name;        /* its tensor, also where it is tied */
    float embed_scale;
    sc_span embedded;  /* where the token's row goes */
    int64_t positions; /* that a table of learned ones has; 0: any */
    sc_op_list first;  /* before the layers */
    int layers;
    sc_op_list *layer;
    sc_op_list last; /* behind them */
    sc_span head_in;
    const sc_weight *lm_head, *lm_head_bias;
    bool tied;
    float logits_scale, logits_softcap; /* 1: none; 0: none */
    int ropes;
    sc_rope *rope;
} sc_graph;

typedef struct sc_builder sc_builder; /* graph_build.h */

/* SC_EINPUT: a config that contradicts itself or asks for what the family cannot do. */
int sc_graph_make(sc_graph **graph, sc_pool *pool, const sc_config *config, sc_error *err);

enum { SC_OP_WEIGHTS = 4 }; /* an operation's, at most */

/* The i-th weight of an operation, NULL past the last. */
const sc_weight *sc_op_weight(const sc_op *op, int i);
/* Whether an operation of the list before that one has the weight. */
bool sc_list_has_before(const sc_op_list *list, int op, const sc_weight *weight);
/* The layer's attention; NULL: it has none. */
const sc_attention *sc_layer_attention(const sc_graph *graph, int layer);
/* What an operation is but for the names of its tensors: layers whose texts are equal share their
 * code. NULL: no memory. */
const char *sc_op_text(sc_pool *pool, const sc_graph *graph, const sc_op *op);

/* As print(exported_program): operations in order, tensor names and shapes, parameter count. */
void sc_graph_print(FILE *out, const sc_graph *graph, const sc_config *config);

#endif
