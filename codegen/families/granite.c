/* granite.c - llama's shape with multipliers on embedding, scores, residuals and logits. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const bool bias = b->config->attention_bias;
    const sc_decoder_shape shape = {
        .qkv_bias = bias,
        .o_bias = bias,
        .mlp_bias = b->config->mlp_bias,
        .embed_scale = (float)sc_build_number(b, "embedding_multiplier"),
        .attention_scale = (float)sc_build_number(b, "attention_multiplier"),
        .residual_scale = (float)sc_build_number(b, "residual_multiplier")
    };
    b->graph->logits_scale = 1 / (float)sc_build_number(b, "logits_scaling");
    sc_build_decoder(b, &shape);
}

static const sc_key keys[] = {
    { "embedding_multiplier", SC_KEY_REAL, 1, false },
    { "attention_multiplier", SC_KEY_REAL, 1, false },
    { "residual_multiplier", SC_KEY_REAL, 1, false },
    { "logits_scaling", SC_KEY_REAL, 1, false },
    { .key = NULL },
};

const sc_family sc_family_granite = {
    .model_type = "granite",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
    .build = build,
    .vocab_size = 32000,
    .intermediate_size = 11008,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .attention_bias = true,
    .mlp_bias = true,
    .key = keys,
};
