/* gpt_neox.c - every layer is full. */
#include "../families.h"
#include "../graph_build.h"

/* Rows of q (i 0), k or v of a tensor that holds them head by head. */
static sc_part slice(sc_builder *b, const char *name, int i) {
    const int64_t hidden = b->graph->hidden, dim = b->config->head_dim;
    sc_part part = sc_build_rows(b, name, 3 * hidden, hidden);
    part.rows = hidden;
    part.first = i * dim;
    part.run = dim;
    part.stride = 3 * dim;
    return part;
}

static sc_part bias_slice(sc_builder *b, const char *name, int i) {
    sc_part part = slice(b, name, i);
    part.rank = 1;
    return part;
}

static sc_span qkv_of(sc_builder *b, sc_span x, const char *weight, const char *bias_name) {
    sc_part part[3], bias[3];
    for (int k = 0; k < 3; k++) {
        part[k] = slice(b, weight, k);
        bias[k] = bias_slice(b, bias_name, k);
    }
    return sc_build_linear(
        b, x, b->graph->hidden, sc_build_value(b, "qkv", 3 * b->graph->hidden),
        &(sc_linear_spec){ .field = "qkv_proj",
                           .part = part,
                           .bias_part = bias,
                           .parts = 3,
                           .bias = sc_config_key(b->config, "attention_bias")->number > 0 });
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden, ffn = c->intermediate_size;
    const bool parallel = sc_config_key(c, "use_parallel_residual")->number > 0;
    const bool bias = sc_config_key(c, "attention_bias")->number > 0;
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "gpt_neox.embed_in.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "gpt_neox.layers.", i);
        const int rope = sc_build_rope(b, c->head_dim);
        const sc_span normed = sc_build_normed(b, "input_layernorm");
        const sc_span second = sc_build_value(b, "normed_for_mlp", hidden);
        if (parallel) /* both norms are of what the layer got */
            sc_build_norm(b, b->x, "post_attention_layernorm", hidden, second);
        const sc_span qkv =
            qkv_of(b, normed, "attention.query_key_value.weight", "attention.query_key_value.bias");
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
