/* seed_oss.c - llama's shape; biases on q, k and v unless attention_bias is false. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_decoder_shape shape = {
        .qkv_bias = sc_build_flag(b, "attention_bias"),
        .o_bias = sc_build_flag(b, "attention_out_bias"),
        .mlp_bias = b->config->mlp_bias,
    };
    sc_build_decoder(b, &shape);
}

static const sc_key keys[] = {
    { "attention_bias", SC_KEY_FLAG, 1, false },
    { "attention_out_bias", SC_KEY_FLAG, 0, false },
    { .key = NULL },
};

const sc_family sc_family_seed_oss = {
    .model_type = "seed_oss",
    .hidden_size = 4096,
    .num_hidden_layers = 64,
    .num_attention_heads = 80,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 524288,
    .kv_heads_null = true,
    .build = build,
    .vocab_size = 155136,
    .intermediate_size = 27648,
    .bos_token_id = 0,
    .eos_token_id = 2,
    .mlp_bias = true,
    .key = keys,
};
