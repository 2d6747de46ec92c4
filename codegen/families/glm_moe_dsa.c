/* glm_moe_dsa.c - latent attention with an indexer in every layer. */
#include "../families.h"

const sc_family sc_family_glm_moe_dsa = {
    .model_type = "glm_moe_dsa",
    .hidden_size = 6144,
    .num_hidden_layers = 78,
    .num_attention_heads = 64,
    .num_key_value_heads = 64,
    .head_dim = 64,
    .head_dim_key = "qk_rope_head_dim",
    .max_position_embeddings = 202752,
    .period = SC_NEVER,
    .others = SC_INDEXED_ATTENTION,
    .widths = sc_widths_indexed,
};
