/* gpt_neox.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_gpt_neox = {
    .model_type = "gpt_neox",
    .hidden_size = 6144,
    .num_hidden_layers = 44,
    .num_attention_heads = 64,
    .max_position_embeddings = 2048,
};
