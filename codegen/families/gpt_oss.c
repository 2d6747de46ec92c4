/* gpt_oss.c - sliding and full layers take turns. */
#include "../families.h"

const sc_family sc_family_gpt_oss = {
    .model_type = "gpt_oss",
    .hidden_size = 2880,
    .num_hidden_layers = 36,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .head_dim = 64,
    .max_position_embeddings = 131072,
    .sliding_window = 128,
    .head_dim_null = true,
    .period = 2,
    .others = SC_SLIDING_ATTENTION,
};
