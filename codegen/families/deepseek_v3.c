/* deepseek_v3.c - latent attention: the cache holds what keys and values are made from. */
#include "../families.h"

const sc_family sc_family_deepseek_v3 = {
    .model_type = "deepseek_v3",
    .hidden_size = 7168,
    .num_hidden_layers = 61,
    .num_attention_heads = 128,
    .num_key_value_heads = 128,
    .head_dim = SC_NULL,
    .max_position_embeddings = 4096,
    .kv_heads_null = true,
    .widths = sc_widths_latent,
};
