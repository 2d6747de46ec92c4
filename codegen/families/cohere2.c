/* cohere2.c - every fourth layer is full, the others slide. */
#include "../families.h"

const sc_family sc_family_cohere2 = {
    .model_type = "cohere2",
    .hidden_size = 8192,
    .num_hidden_layers = 40,
    .num_attention_heads = 64,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 8192,
    .sliding_window = 4096,
    .period = 4,
    .period_key = "sliding_window_pattern",
    .others = SC_SLIDING_ATTENTION,
};
