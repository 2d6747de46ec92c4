/* qwen3_moe.c - every layer is sliding, if use_sliding_window. */
#include "../families.h"

const sc_family sc_family_qwen3_moe = {
    .model_type = "qwen3_moe",
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 32,
    .num_key_value_heads = 4,
    .max_position_embeddings = 32768,
    .sliding_window = 4096,
    .window_switch = true,
};
