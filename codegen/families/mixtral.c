/* mixtral.c - sliding where the file has a sliding_window. */
#include "../families.h"

const sc_family sc_family_mixtral = {
    .model_type = "mixtral",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = SC_NULL,
    .max_position_embeddings = 131072,
    .sliding_window = SC_NULL,
};
