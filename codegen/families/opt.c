/* opt.c - every layer is full. */
#include "../families.h"

const sc_family sc_family_opt = {
    .model_type = "opt",
    .hidden_size = 768,
    .num_hidden_layers = 12,
    .num_attention_heads = 12,
    .max_position_embeddings = 2048,
};
