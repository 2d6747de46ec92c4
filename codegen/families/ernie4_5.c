/* ernie4_5.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_ernie4_5 = {
    .model_type = "ernie4_5",
    .hidden_size = 1024,
    .num_hidden_layers = 18,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .max_position_embeddings = 131072,
    .kv_heads_null = true,
};
