/* gpt_neox.c - every layer is full. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden, ffn = c->intermediate_size;
    const bool parallel = sc_build_flag(b, "use_parallel_residual");
    const bool bias = sc_build_flag(b, "attention_bias");
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "gpt_neox.embed_in.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "gpt_neox.layers.", i);
        const int rope = sc_build_rope(b, c->head_dim);
        const sc_span normed = sc_build_normed(b, "input_layernorm");
        const sc_span second = sc_build_value(b, "normed_for_mlp", hidden);
        if (parallel) /* both norms are of what the layer got */
            sc_build_norm(b, b->x, "post_attention_layernorm", hidden, second);
        const sc_span qkv = sc_build_qkv_by_head(b, normed, "attention.query_key_value", bias);
        const sc_span attended = sc_build_attention(b, qkv, rope)->out;
        sc_build_onto(b, attended, hidden, "attention.dense", bias, 1);
        if (!parallel)
            sc_build_norm(b, b->x, "post_attention_layernorm", hidden, second);
        const sc_span up = sc_build_plain(b, second, ffn, "mlp.dense_h_to_4h", true);
        sc_build_onto(b, up, ffn, "mlp.dense_4h_to_h", true, 1);
    }
    sc_build_finish(b, "gpt_neox.final_layer_norm", "embed_out.weight", false);
}

static const sc_key keys[] = {
    { "use_parallel_residual", SC_KEY_FLAG, 1, false },
    { "attention_bias", SC_KEY_FLAG, 1, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "rope_theta", "rotary_emb_base" },
    { "partial_rotary_factor", "rotary_pct" },
    { NULL, NULL },
};

const sc_family sc_family_gpt_neox = {
    .alias = aliases,
    .model_type = "gpt_neox",
    .hidden_size = 6144,
    .num_hidden_layers = 44,
    .num_attention_heads = 64,
    .max_position_embeddings = 2048,
    .head_dim_computed = true,
    .build = build,
    .vocab_size = 50432,
    .intermediate_size = 24576,
    .bos_token_id = 0,
    .eos_token_id = 2,
    .hidden_act = "gelu",
    .eps = 1e-5,
    .eps_key = "layer_norm_eps",
    .rotary_factor = 0.25,
    .key = keys,
};
