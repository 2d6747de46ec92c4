/* olmo3.c - olmo2 with sliding layers; every fourth is full. */
#include "../families.h"
#include "../graph_build.h"

const sc_family sc_family_olmo3 = {
    .model_type = "olmo3",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
    .sliding_window = 4096,
    .period = 4,
    .others = SC_SLIDING_ATTENTION,
    .build = sc_build_olmo2,
    .vocab_size = 50304,
    .intermediate_size = 11008,
    .bos_token_id = SC_NULL,
    .eos_token_id = 50279,
    .eps = 1e-5,
    .rope_theta = 500000,
    .local_plain = true,
    .attention_bias = true,
};
