/* phi.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_phi = {
    .model_type = "phi",
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
};
