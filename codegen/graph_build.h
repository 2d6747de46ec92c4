/*
 * graph_build.h - the tools that families/ build graphs with.
 *
 * A builder holds the graph, the residual stream, whose layer's turn it is and what its tensors'
 * names begin with. Operations are appended in order; a pointer to one is good until the next is
 * built. Failures stick, so that building is a plain list of calls.
 */
#ifndef SC_GRAPH_BUILD_H
#define SC_GRAPH_BUILD_H

#include "graph.h"

/* How sc_build_norm normalises: LlamaRMSNorm unless said otherwise. */
typedef struct {
    bool layer_norm; /* torch.nn.LayerNorm */
    bool bias;       /* of it */
    float plus;      /* 1: the weight is stored as its distance from one (Gemma) */
    float eps;
} sc_norm_kind;

struct sc_builder {
    sc_graph *graph;
    sc_pool *pool;
    const sc_config *config;
    const char *root; /* "model.layers.3.", or "" outside the layers */
    int layer;        /* -1 outside the layers */
    sc_op_list *ops;  /* where operations go */
    sc_span x;        /* the residual stream */
    sc_norm_kind norm;
    int rc;
    sc_error *err;
};

extern const sc_span sc_nowhere; /* a span of no value */

/* A value of that name; its width grows to what is asked for. */
sc_span sc_build_value(sc_builder *b, const char *name, int64_t width);
/* Elements at … of a span. */
sc_span sc_build_at(sc_span span, int64_t at);
/* "mixer.in_proj" of those two; never NULL. */
const char *sc_build_name(sc_builder *b, const char *module, const char *name);
/* A new operation, zeroed but for its kind. Never NULL: after a failure a spare one. */
sc_op *sc_build_op(sc_builder *b, sc_op_kind kind);

/* The config's key is not what can be built: "FILE: KEY: " and the reason, as printf has it. */
void sc_build_fail(sc_builder *b, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Of one of the family's own keys: is it on; its number, SC_NULL where it is null. */
bool sc_build_flag(const sc_builder *b, const char *key);
double sc_build_number(const sc_builder *b, const char *key);
/* The same of a whole number; SC_NULL where it is null. */
int64_t sc_build_count(const sc_builder *b, const char *key);
/* The same of a width that is 4 * hidden_size where it is null. */
int64_t sc_build_width(const sc_builder *b, const char *key);
/* A cap, 0 where it is null. */
float sc_build_cap(const sc_builder *b, const char *key);

/* ---- where things go ---- */

/* The token's row of that table times scale becomes the residual stream. */
void sc_build_embedding(sc_builder *b, const char *tensor, float scale);
/* From here on the operations and names of layer i: names begin with prefix, its number, a dot. */
void sc_build_layer(sc_builder *b, const char *prefix, int layer);
/* From here on what follows the layers. */
void sc_build_last(sc_builder *b);
/* The logits, of that value; the embedding's rows where it is tied. */
void sc_build_head(sc_builder *b, sc_span x, const char *tensor, bool bias);
/* Learned positions: row position + offset of the table is added to the residual stream. */
void sc_build_positions(sc_builder *b, const char *tensor, int64_t positions, int64_t offset);
/* All that: the last norm, then the head of it. */
void sc_build_finish(sc_builder *b, const char *norm, const char *head, bool bias);

/* ---- weights ---- */

/* Of the layer's tensors: rank 2 [rows, in]; rank 1 [rows]. */
sc_part sc_build_rows(sc_builder *b, const char *name, int64_t rows, int64_t in);
sc_part sc_build_vector(sc_builder *b, const char *name, int64_t rows);
const sc_weight *sc_build_weight(sc_builder *b, sc_weight_kind kind, const char *field, int64_t in,
                                 int parts, const sc_part *part);
/* The same of several linears, all alike, with so many parts each. */
const sc_weight *sc_build_blocks(sc_builder *b, sc_weight_kind kind, const char *field, int64_t in,
                                 int blocks, int parts, const sc_part *part);
/* A vector under its own name. */
const sc_weight *sc_build_floats(sc_builder *b, const char *name, int64_t width, float plus);
/* A small tensor of any rank, row by row. */
const sc_weight *sc_build_table(sc_builder *b, const char *name, int rank, const int64_t *shape);

/* ---- operations ---- */

sc_row_op *sc_build_row(sc_builder *b, sc_row_kind kind, sc_span a, sc_span second, sc_span out);
/* out = root mean square norm of runs of x, each by w (NULL: ones) and with b->norm's eps. */
sc_row_op *sc_build_runs_norm(sc_builder *b, sc_span x, const sc_weight *w, int64_t runs,
                              int64_t width, sc_span out);
/* out = norm of x by the module's weight, width wide; by b->norm. */
sc_row_op *sc_build_norm(sc_builder *b, sc_span x, const char *module, int64_t width, sc_span out);
/* Of the residual stream, as "normed". */
sc_span sc_build_normed(sc_builder *b, const char *module);
/* out = fa a + fb c. */
void sc_build_add(sc_builder *b, sc_span a, float fa, sc_span c, float fb, int64_t width,
                  sc_span out);

/* y = W x of up to four modules side by side: what is not said is absent, 0 or as it is usual. */
typedef struct {
    const char *field;     /* of the casting's weights; NULL: the first module's last word */
    const char *module[4]; /* "self_attn.q_proj" */
    int64_t out[4];
    const sc_part *part;      /* instead of modules: parts and, with bias, their biases */
    const sc_part *bias_part; /* as many */
    int parts;
    bool bias;              /* every module has one */
    bool transposed;        /* weights are [in, out] */
    int blocks;             /* part holds those of so many linears, all alike; 0: of one */
    int64_t x_step, y_step; /* sc_linear */
    bool gated, add;
    sc_activation act;
    float scale; /* 0: 1 */
} sc_linear_spec;
/* Returns y. */
sc_span sc_build_linear(sc_builder *b, sc_span x, int64_t in, sc_span y,
                        const sc_linear_spec *spec);

/* q_proj, k_proj and v_proj of self_attn in one, as "qkv": q, then k, then v. */
sc_span sc_build_qkv(sc_builder *b, sc_span x, bool bias);
/* The same of one module that holds them head by head: q, k and v of the first, of the next, … */
sc_span sc_build_qkv_by_head(sc_builder *b, sc_span x, const char *module, bool bias);
/* Attention of the layer's cache on q, k and v side by side, turned in halves by that rope (-1: not
 * at all); "attended". */
sc_attention *sc_build_attention(sc_builder *b, sc_span qkv, int rope);
/* q and k of it are turned in neighbours instead. */
void sc_build_rope_pairs(sc_builder *b, sc_span qkv, int rope);
/* Module's linear, times scale, added to the residual stream. */
void sc_build_onto(sc_builder *b, sc_span x, int64_t in, const char *module, bool bias,
                   float scale);
/* The same with a norm of its own before it is added: "out". */
void sc_build_normed_onto(sc_builder *b, sc_span x, int64_t in, const char *module, bool bias,
                          const char *norm);
/* out = factor a (no operation where that is a itself), width wide; out = a c; out = a silu(c). */
void sc_build_times(sc_builder *b, sc_span a, float factor, int64_t width, sc_span out);
void sc_build_multiply(sc_builder *b, sc_span a, sc_span c, int64_t width, sc_span out);
void sc_build_silu_gate(sc_builder *b, sc_span a, sc_span c, int64_t width, sc_span out);
/* out = a sigmoid(c), width wide, of as many gates or one. */
void sc_build_sigmoid_gate(sc_builder *b, sc_span a, sc_span c, int64_t gates, int64_t width,
                           sc_span out);
/* The layer's self_attn: q_proj, k_proj, v_proj, norms of q and k per head where qk_norm says so,
 * attention; o_proj reads its out. */
sc_attention *sc_build_self_attention(sc_builder *b, sc_span x, bool bias, bool qk_norm, int rope);
/* The layer whose keys and values this one reads: itself, unless it shares. */
const sc_layer_config *sc_build_kv(const sc_builder *b);
/* Width of what attention gives: heads of v_head_dim. */
int64_t sc_build_attended(const sc_builder *b);
/* act(W x + b) of one module; "ffn". */
sc_span sc_build_plain(sc_builder *b, sc_span x, int64_t ffn, const char *module, bool bias);
/* act(gate) * up of two modules; "ffn". */
sc_span sc_build_gated(sc_builder *b, sc_span x, int64_t ffn, const char *gate, const char *up,
                       bool bias);

/* The same of one module that holds gate, then up. */
sc_span sc_build_gated_in_one(sc_builder *b, sc_span x, int64_t ffn, const char *module);

/* The whole of a gated MLP, onto the residual stream: prefix's gate_proj, up_proj, down_proj. */
void sc_build_mlp(sc_builder *b, sc_span x, int64_t ffn, const char *prefix);

/* A mixture of experts: softmax of the router's scores, the top_k best, their MLPs onto the
 * residual stream. Their tensors are modules of each expert, or all experts' in one. */
typedef struct {
    int64_t experts, top_k, ffn;
    bool normalise;             /* chosen weights add up to 1 */
    bool sigmoid;               /* of the scores, instead of softmax */
    int64_t groups, top_groups; /* only of the best groups are experts chosen; 0: no groups */
    float scale;                /* of all weights; 0: 1 */
    const char *router;         /* "mlp.gate" */
    bool router_bias;           /* its linear has one */
    float router_scale;         /* of its scores; 0: 1 */
    const char *correction;     /* a vector that is added to the scores to choose by */
    const char *expert_scale;   /* a vector: of each expert's weights */
    const char *prefix;         /* "mlp.experts" */
    const char *gate, *up,
        *down;        /* "gate_proj"; gate NULL: prefix.gate_up_proj, prefix.down_proj */
    bool plain;       /* no gate: act(up(x)) */
    int64_t hidden;   /* of their inputs and outputs; 0: the model's */
    bool in_out;      /* those are [experts, in, out] */
    bool interleaved; /* gate and up by turns, not one behind the other */
    bool bias;        /* with gate_up_proj_bias and down_proj_bias */
    bool weigh_input;
    float alpha, limit; /* sc_experts */
} sc_expert_spec;
enum { SC_MOST_EXPERTS = 4096 };
void sc_build_experts(sc_builder *b, sc_span x, const sc_expert_spec *spec);
/* Its two halves: what experts each token takes, by x; what they make of x, into out. */
sc_span sc_build_route(sc_builder *b, sc_span x, const sc_expert_spec *spec);
void sc_build_routed(sc_builder *b, sc_span x, sc_span route, const sc_expert_spec *spec,
                     sc_span out, bool add);

/* Whether the layer has experts: num_experts, decoder_sparse_step, mlp_only_layers. */
bool sc_build_is_sparse(const sc_builder *b);

/* The index of the layer's rope for that width of a head. */
int sc_build_rope(sc_builder *b, int64_t head_dim);

/* Of families whose graph another one's is too: olmo2.c, gemma2.c. */
void sc_build_olmo2(sc_builder *b);
void sc_build_gemma2(sc_builder *b, bool qk_norm);

/* Builds a layer's SC_OP_INDEX of x and of what q is made of, after its q_a_layernorm. */
typedef void sc_build_indexer(sc_builder *b, sc_span x, sc_span q_low);
/* Latent attention, all of self_attn up to o_proj: deepseek_v3.c. interleaved: q and k lie in pairs
 * of neighbours. index NULL: every key is seen. */
void sc_build_latent_attention(sc_builder *b, sc_span x, bool interleaved, sc_build_indexer *index);
/* The norm before it, then its MLP, or its experts and the shared one. */
void sc_build_deepseek_mlp(sc_builder *b, bool sparse);

/* What gemma3n shares with gemma4: gemma4_text.c. Attention with norms of q, k and v (k_is_v: v is
 * k, before both are normed), of scale 1, reading another layer's keys and values where it shares.
 */
sc_attention *sc_build_gemma4_attention(sc_builder *b, sc_span x, bool k_is_v);
/* Every token's inputs to all layers, before the layers: the span of a layer's own. */
sc_span sc_build_layer_inputs(sc_builder *b);
/* The layer's, gated by x: to be added to the residual stream; "out". */
sc_span sc_build_layer_input(sc_builder *b, sc_span x, sc_span input);

/* Where a decoder of llama's shape differs from the next. */
typedef struct {
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm; /* q_norm and k_norm, per head over head_dim */
    float embed_scale, attention_scale, residual_scale; /* 0: 1, head_dim^-0.5, 1 */
} sc_decoder_shape;
/* The whole of it: embedding, layers of norm, attention, norm, gated MLP, the norm, the head. */
void sc_build_decoder(sc_builder *b, const sc_decoder_shape *shape);

#endif
