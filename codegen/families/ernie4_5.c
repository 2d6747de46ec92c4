/* ernie4_5.c - llama's shape; rope turns neighbours, use_bias is for every linear. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const bool bias = sc_build_flag(b, "use_bias");
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span qkv = sc_build_qkv(b, sc_build_normed(b, "input_layernorm"), bias);
        sc_build_rope_pairs(b, qkv, rope);
        const sc_span attended = sc_build_attention(b, qkv, -1)->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", bias, 1);
        const sc_span gated = sc_build_gated(b, sc_build_normed(b, "post_attention_layernorm"), ffn,
                                             "mlp.gate_proj", "mlp.up_proj", bias);
        sc_build_onto(b, gated, ffn, "mlp.down_proj", bias, 1);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "use_bias", SC_KEY_FLAG, 0, false },
    { .key = NULL },
};

const sc_family sc_family_ernie4_5 = {
    .model_type = "ernie4_5",
    .hidden_size = 1024,
    .num_hidden_layers = 18,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .max_position_embeddings = 131072,
    .kv_heads_null = true,
    .build = build,
    .vocab_size = 103424,
    .intermediate_size = 3072,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .eps = 1e-5,
    .tied = true,
    .rope_theta = 500000,
    .key = keys,
};
