/* cohere.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_cohere = {
    .model_type = "cohere",
    .hidden_size = 8192,
    .num_hidden_layers = 40,
    .num_attention_heads = 64,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 8192,
};
