/* deepseek_v32.c - latent attention with an indexer in every layer. */
#include "../families.h"

const sc_family sc_family_deepseek_v32 = {
    .model_type = "deepseek_v32",
    .hidden_size = 7168,
    .num_hidden_layers = 61,
    .num_attention_heads = 128,
    .num_key_value_heads = 128,
    .head_dim = 64,
    .head_dim_key = "qk_rope_head_dim",
    .max_position_embeddings = 163840,
    .period = SC_NEVER,
    .others = SC_INDEXED_ATTENTION,
    .widths = sc_widths_indexed,
};
