/* mpt.c - every layer is full. */
#include "../families.h"

static const sc_alias aliases[] = {
    { "num_attention_heads", "n_heads" },
    { "hidden_size", "d_model" },
    { "num_hidden_layers", "n_layers" },
    { "max_position_embeddings", "max_seq_len" },
    { NULL, NULL },
};

const sc_family sc_family_mpt = {
    .model_type = "mpt",
    .alias = aliases,
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 16,
    .max_position_embeddings = 2048,
};
