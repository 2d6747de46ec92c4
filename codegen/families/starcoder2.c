/* starcoder2.c - sliding where the file has a sliding_window. */
#include "../families.h"

const sc_family sc_family_starcoder2 = {
    .model_type = "starcoder2",
    .hidden_size = 3072,
    .num_hidden_layers = 30,
    .num_attention_heads = 24,
    .num_key_value_heads = 2,
    .max_position_embeddings = 4096,
    .sliding_window = SC_NULL,
};
