/* qwen3_next.c - every fourth layer is full, the others are gated delta rules. */
#include "../families.h"

const sc_family sc_family_qwen3_next = {
    .model_type = "qwen3_next",
    .hidden_size = 2048,
    .num_hidden_layers = 48,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .head_dim = 256,
    .max_position_embeddings = 32768,
    .period = 4,
    .period_key = "full_attention_interval",
    .others = SC_LINEAR_ATTENTION,
    .widths = sc_widths_gated_delta,
};
