/* gemma.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_gemma = {
    .model_type = "gemma",
    .hidden_size = 3072,
    .num_hidden_layers = 28,
    .num_attention_heads = 16,
    .num_key_value_heads = 16,
    .head_dim = 256,
    .max_position_embeddings = 8192,
};
