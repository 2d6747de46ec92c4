/* minimax.c - full and linear layers take turns; their states are in no StaticCache. */
#include "../families.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    for (int64_t i = 0; i < c->num_hidden_layers && !c->listed; i++)
        c->layer[i].type = (i + 1) % 2 ? SC_FULL_ATTENTION : SC_LINEAR_ATTENTION;
}

const sc_family sc_family_minimax = {
    .model_type = "minimax",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = SC_NULL,
    .max_position_embeddings = 131072,
    .sliding_window = SC_NULL,
    .types = types,
};
