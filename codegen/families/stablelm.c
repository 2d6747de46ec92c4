/* stablelm.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_stablelm = {
    .model_type = "stablelm",
    .hidden_size = 2560,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 32,
    .max_position_embeddings = 4096,
};
