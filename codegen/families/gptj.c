/* gptj.c - every layer is full. Files hold the sizes under GPT-2's names. */
#include "../families.h"

static const sc_alias aliases[] = {
    { "max_position_embeddings", "n_positions" },
    { "hidden_size", "n_embd" },
    { "num_attention_heads", "n_head" },
    { "num_hidden_layers", "n_layer" },
    { NULL, NULL },
};

const sc_family sc_family_gptj = {
    .model_type = "gptj",
    .alias = aliases,
    .hidden_size = 4096,
    .num_hidden_layers = 28,
    .num_attention_heads = 16,
    .max_position_embeddings = 2048,
};
