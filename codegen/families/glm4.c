/* glm4.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_glm4 = {
    .model_type = "glm4",
    .hidden_size = 4096,
    .num_hidden_layers = 40,
    .num_attention_heads = 32,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .max_position_embeddings = 131072,
};
