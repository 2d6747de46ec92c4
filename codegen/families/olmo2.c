/* olmo2.c - norms behind attention and MLP; q_norm and k_norm over all heads. */
#include "../families.h"
#include "../graph_build.h"

/* q_norm and k_norm are over all heads at once. */
static sc_span attention(sc_builder *b, int rope) {
    const sc_layer_config *c = &b->config->layer[b->layer];
    const int64_t q = b->config->num_attention_heads * c->head_dim, k = c->kv_heads * c->head_dim;
    const sc_span qkv = sc_build_qkv(b, b->x, b->config->attention_bias);
    sc_build_norm(b, qkv, "self_attn.q_norm", q, qkv);
    sc_build_norm(b, sc_build_at(qkv, q), "self_attn.k_norm", k, sc_build_at(qkv, q));
    return sc_build_attention(b, qkv, rope)->out;
}

void sc_build_olmo2(sc_builder *b) {
    const int64_t ffn = b->config->intermediate_size;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, b->config->layer[i].head_dim);
        sc_build_normed_onto(b, attention(b, rope), sc_build_attended(b), "self_attn.o_proj",
                             b->config->attention_bias, "post_attention_layernorm");
        const sc_span gated = sc_build_gated(b, b->x, ffn, "mlp.gate_proj", "mlp.up_proj", false);
        sc_build_normed_onto(b, gated, ffn, "mlp.down_proj", false, "post_feedforward_layernorm");
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

const sc_family sc_family_olmo2 = {
    .model_type = "olmo2",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
    .build = sc_build_olmo2,
    .vocab_size = 50304,
    .intermediate_size = 11008,
    .bos_token_id = SC_NULL,
    .eos_token_id = 50279,
    .eps = 1e-5,
    .attention_bias = true,
};
