/* granite.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_granite = {
    .model_type = "granite",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
};
