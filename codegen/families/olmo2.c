/* olmo2.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_olmo2 = {
    .model_type = "olmo2",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
};
