/* phi3.c - sliding where the file has a sliding_window. */
#include "../families.h"

const sc_family sc_family_phi3 = {
    .model_type = "phi3",
    .hidden_size = 3072,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 4096,
    .sliding_window = SC_NULL,
};
