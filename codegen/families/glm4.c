/* glm4.c - norms before and behind attention and MLP; half of each head is turned, in neighbours.
 */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span qkv = sc_build_qkv(b, sc_build_normed(b, "input_layernorm"),
                                         sc_build_flag(b, "attention_bias"));
        sc_build_rope_pairs(b, qkv, rope);
        const sc_span attended = sc_build_attention(b, qkv, -1)->out;
        sc_build_normed_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", false,
                             "post_self_attn_layernorm");
        const sc_span normed = sc_build_normed(b, "post_attention_layernorm");
        sc_build_normed_onto(b, sc_build_gated_in_one(b, normed, ffn, "mlp.gate_up_proj"), ffn,
                             "mlp.down_proj", false, "post_mlp_layernorm");
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "attention_bias", SC_KEY_FLAG, 1, false },
    { .key = NULL },
};

const sc_family sc_family_glm4 = {
    .model_type = "glm4",
    .hidden_size = 4096,
    .num_hidden_layers = 40,
    .num_attention_heads = 32,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .max_position_embeddings = 131072,
    .build = build,
    .vocab_size = 151552,
    .intermediate_size = 13696,
    .bos_token_id = SC_NULL,
    .eos_token_id = SC_NULL,
    .eps = 1.5625e-7,
    .rotary_factor = 0.5,
    .key = keys,
};
