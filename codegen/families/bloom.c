/* bloom.c - every layer is full. Old files say n_embed. */
#include "../families.h"

static const sc_alias aliases[] = {
    { "num_hidden_layers", "n_layer" },
    { "num_attention_heads", "n_head" },
    { "hidden_size", "n_embed" },
    { NULL, NULL },
};

const sc_family sc_family_bloom = {
    .model_type = "bloom",
    .alias = aliases,
    .hidden_size = 64,
    .num_hidden_layers = 2,
    .num_attention_heads = 8,
};
