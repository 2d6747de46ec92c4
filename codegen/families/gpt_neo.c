/* gpt_neo.c - every layer is full: the reference's cache keeps all that a local layer sees, and
 * more. */
#include "../families.h"

static const sc_alias aliases[] = {
    { "num_attention_heads", "num_heads" },
    { "num_hidden_layers", "num_layers" },
    { NULL, NULL },
};

const sc_family sc_family_gpt_neo = {
    .model_type = "gpt_neo",
    .alias = aliases,
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 16,
    .max_position_embeddings = 2048,
};
