/* seed_oss.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_seed_oss = {
    .model_type = "seed_oss",
    .hidden_size = 4096,
    .num_hidden_layers = 64,
    .num_attention_heads = 80,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 524288,
    .kv_heads_null = true,
};
