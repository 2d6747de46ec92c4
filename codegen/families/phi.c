/* phi.c - every layer is full. */
#include "../families.h"
#include "../graph_build.h"

/* Attention and MLP read one norm and are added together. */
static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    b->norm.layer_norm = b->norm.bias = true;
    const bool qk_norm = sc_build_flag(b, "qk_layernorm");
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span normed = sc_build_normed(b, "input_layernorm");
        const sc_span qkv = sc_build_qkv(b, normed, true);
        const int64_t q = sc_build_attended(b), dim = c->layer[i].head_dim;
        if (qk_norm) {
            sc_build_norm(b, qkv, "self_attn.q_layernorm", dim, qkv)->n[0] = c->num_attention_heads;
            const sc_span k = sc_build_at(qkv, q);
            sc_build_norm(b, k, "self_attn.k_layernorm", dim, k)->n[0] = c->layer[i].kv_heads;
        }
        const sc_span attended = sc_build_attention(b, qkv, rope)->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.dense", true, 1);
        sc_build_onto(b, sc_build_plain(b, normed, ffn, "mlp.fc1", true), ffn, "mlp.fc2", true, 1);
    }
    sc_build_finish(b, "model.final_layernorm", "lm_head.weight", true);
}

static const sc_key keys[] = {
    { "qk_layernorm", SC_KEY_FLAG, 0, false },
    { .key = NULL },
};

const sc_family sc_family_phi = {
    .model_type = "phi",
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
    .build = build,
    .vocab_size = 51200,
    .intermediate_size = 8192,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .hidden_act = "gelu_new",
    .eps = 1e-5,
    .eps_key = "layer_norm_eps",
    .rotary_factor = 0.5,
    .key = keys,
};
