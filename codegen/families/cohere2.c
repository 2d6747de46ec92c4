/* cohere2.c - every fourth layer is full, the others slide. */
#include "../families.h"
#include "../graph_build.h"

/* Attention and MLP read one norm and are added together; only sliding layers have rope. */
static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const bool bias = c->attention_bias;
    b->norm.layer_norm = true;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const bool roped = c->layer[i].type == SC_SLIDING_ATTENTION;
        const int rope = roped ? sc_build_rope(b, c->layer[i].head_dim) : -1;
        const sc_span normed = sc_build_normed(b, "input_layernorm");
        const sc_span qkv = sc_build_qkv(b, normed, bias);
        if (roped)
            sc_build_rope_pairs(b, qkv, rope);
        const sc_span attended = sc_build_attention(b, qkv, -1)->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", bias, 1);
        const sc_span gated = sc_build_gated(b, normed, ffn, "mlp.gate_proj", "mlp.up_proj", false);
        sc_build_onto(b, gated, ffn, "mlp.down_proj", false, 1);
    }
    b->graph->logits_scale = (float)sc_config_key(c, "logit_scale")->number;
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "logit_scale", SC_KEY_REAL, 0.0625, false },
    { .key = NULL },
};

const sc_family sc_family_cohere2 = {
    .model_type = "cohere2",
    .hidden_size = 8192,
    .num_hidden_layers = 40,
    .num_attention_heads = 64,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 8192,
    .sliding_window = 4096,
    .period = 4,
    .period_key = "sliding_window_pattern",
    .others = SC_SLIDING_ATTENTION,
    .build = build,
    .vocab_size = 256000,
    .intermediate_size = 22528,
    .bos_token_id = 5,
    .eos_token_id = 255001,
    .eps = 1e-5,
    .eps_key = "layer_norm_eps",
    .tied = true,
    .attention_bias = true,
    .key = keys,
};
