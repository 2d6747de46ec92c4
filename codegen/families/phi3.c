/* phi3.c - llama's shape; q, k and v are one tensor, gate and up are one. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden, ffn = c->intermediate_size;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int64_t q = sc_build_attended(b), kv = c->layer[i].kv_heads * c->layer[i].head_dim;
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span qkv = sc_build_linear(
            b, sc_build_normed(b, "input_layernorm"), hidden, sc_build_value(b, "qkv", q + 2 * kv),
            &(sc_linear_spec){ .module = { "self_attn.qkv_proj" }, .out = { q + 2 * kv } });
        const sc_span attended = sc_build_attention(b, qkv, rope)->out;
        sc_build_onto(b, attended, q, "self_attn.o_proj", false, 1);
        const sc_span normed = sc_build_normed(b, "post_attention_layernorm");
        sc_build_onto(b, sc_build_gated_in_one(b, normed, ffn, "mlp.gate_up_proj"), ffn,
                      "mlp.down_proj", false, 1);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

const sc_family sc_family_phi3 = {
    .model_type = "phi3",
    .hidden_size = 3072,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 4096,
    .sliding_window = SC_NULL,
    .build = build,
    .vocab_size = 32064,
    .intermediate_size = 8192,
    .bos_token_id = 1,
    .eos_token_id = 32000,
    .eps = 1e-5,
    .rotary_factor = 1,
    .original_max_position_embeddings = 4096,
};
