/* mistral.c - MistralForCausalLM: no bias anywhere. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_decoder_shape shape = { .qkv_bias = false };
    sc_build_decoder(b, &shape);
}

const sc_family sc_family_mistral = {
    .model_type = "mistral",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = SC_NULL,
    .max_position_embeddings = 131072,
    .sliding_window = 4096,
    .head_dim_null = true,
    .build = build,
    .vocab_size = 32000,
    .intermediate_size = 14336,
    .bos_token_id = 1,
    .eos_token_id = 2,
};
