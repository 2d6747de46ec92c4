/* deepseek_v4.c - compressed attention, for which transformers has no static cache either. */
#include "../families.h"

const sc_family sc_family_deepseek_v4 = {
    .model_type = "deepseek_v4",
    .hidden_size = 4096,
    .num_hidden_layers = 43,
    .num_attention_heads = 64,
    .num_key_value_heads = 1,
    .head_dim = 512,
    .max_position_embeddings = 1048576,
    .sliding_window = 128,
    .no_cache = "its compressed layers have no static cache, in transformers either",
};
