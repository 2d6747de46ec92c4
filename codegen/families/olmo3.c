/* olmo3.c - every fourth layer is full, the others slide. */
#include "../families.h"

const sc_family sc_family_olmo3 = {
    .model_type = "olmo3",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
    .sliding_window = 4096,
    .period = 4,
    .others = SC_SLIDING_ATTENTION,
};
