/* qwen2_moe.c - sliding where i is even and below max_window_layers, if use_sliding_window. */
#include "../families.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    if (c->listed)
        return;
    const int64_t end = c->sliding_window ? sc_read_from_zero(r, "max_window_layers", 28) : 0;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].type = i % 2 == 0 && i < end ? SC_SLIDING_ATTENTION : SC_FULL_ATTENTION;
}

const sc_family sc_family_qwen2_moe = {
    .model_type = "qwen2_moe",
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 16,
    .num_key_value_heads = 16,
    .max_position_embeddings = 32768,
    .sliding_window = 4096,
    .kv_heads_null = true,
    .window_switch = true,
    .types = types,
};
