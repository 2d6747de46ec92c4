/* gpt2.c - every layer is full. Files hold the sizes under GPT-2's names. */
#include "../families.h"

static const sc_alias aliases[] = {
    { "hidden_size", "n_embd" },
    { "max_position_embeddings", "n_positions" },
    { "num_attention_heads", "n_head" },
    { "num_hidden_layers", "n_layer" },
    { NULL, NULL },
};

const sc_family sc_family_gpt2 = {
    .model_type = "gpt2",
    .alias = aliases,
    .hidden_size = 768,
    .num_hidden_layers = 12,
    .num_attention_heads = 12,
    .max_position_embeddings = 1024,
};
