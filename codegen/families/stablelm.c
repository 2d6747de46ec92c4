/* stablelm.c - every layer is full. */
#include "../families.h"
#include "../graph_build.h"

/* Every head has a norm of its own, without a bias. */
static void norm_heads(sc_builder *b, sc_span x, const char *module, const char *field,
                       int64_t heads) {
    const int64_t dim = b->config->layer[b->layer].head_dim;
    sc_part *part = sc_pool_alloc(b->pool, (size_t)heads, sizeof *part);
    for (int64_t i = 0; part && i < heads; i++) {
        const char *name = sc_pool_printf(b->pool, "%s.norms.%lld.weight", module, (long long)i);
        part[i] = sc_build_vector(b, name ? name : "", dim);
    }
    if (!part) {
        b->rc = sc_oom(b->err, "building the graph");
        return;
    }
    const sc_weight *w = sc_build_weight(b, SC_WEIGHT_FLOATS, field, 1, (int)heads, part);
    sc_row_op *row = sc_build_row(b, SC_ROW_LAYER_NORM, x, sc_nowhere, x);
    row->w = w;
    row->n[0] = heads;
    row->n[1] = row->n[2] = dim;
    row->f[0] = b->norm.eps;
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const bool parallel = sc_build_flag(b, "use_parallel_residual");
    b->norm.layer_norm = b->norm.bias = true;
    const bool qk_norm = sc_build_flag(b, "qk_layernorm");
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        sc_span normed = sc_build_normed(b, "input_layernorm");
        const sc_span qkv = sc_build_qkv(b, normed, sc_build_flag(b, "use_qkv_bias"));
        const int64_t q = sc_build_attended(b);
        if (qk_norm) {
            norm_heads(b, qkv, "self_attn.q_layernorm", "q_layernorm", c->num_attention_heads);
            norm_heads(b, sc_build_at(qkv, q), "self_attn.k_layernorm", "k_layernorm",
                       c->layer[i].kv_heads);
        }
        const sc_span attended = sc_build_attention(b, qkv, rope)->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", false, 1);
        if (!parallel) /* else attention and MLP read one norm */
            normed = sc_build_normed(b, "post_attention_layernorm");
        const sc_span gated = sc_build_gated(b, normed, ffn, "mlp.gate_proj", "mlp.up_proj", false);
        sc_build_onto(b, gated, ffn, "mlp.down_proj", false, 1);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "use_parallel_residual", SC_KEY_FLAG, 0, false },
    { "use_qkv_bias", SC_KEY_FLAG, 0, false },
    { "qk_layernorm", SC_KEY_FLAG, 0, false },
    { .key = NULL },
};

const sc_family sc_family_stablelm = {
    .model_type = "stablelm",
    .hidden_size = 2560,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 32,
    .max_position_embeddings = 4096,
    .build = build,
    .vocab_size = 50304,
    .intermediate_size = 6912,
    .bos_token_id = 0,
    .eos_token_id = 0,
    .eps = 1e-5,
    .eps_key = "layer_norm_eps",
    .rotary_factor = 0.25,
    .key = keys,
};
