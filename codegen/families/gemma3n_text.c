/* gemma3n_text.c - every fifth layer is full; the last num_kv_shared_layers share. */
#include "../families.h"

const sc_family sc_family_gemma3n_text = {
    .model_type = "gemma3n_text",
    .hidden_size = 2048,
    .num_hidden_layers = 35,
    .num_attention_heads = 8,
    .num_key_value_heads = 2,
    .head_dim = 256,
    .max_position_embeddings = 32768,
    .sliding_window = 512,
    .window_not_null = true,
    .period = 5,
    .others = SC_SLIDING_ATTENTION,
    .shares_kv = true,
    .num_kv_shared_layers = 15,
};
