/* gemma2.c - sliding and full layers take turns. */
#include "../families.h"

const sc_family sc_family_gemma2 = {
    .model_type = "gemma2",
    .hidden_size = 2304,
    .num_hidden_layers = 26,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .max_position_embeddings = 8192,
    .sliding_window = 4096,
    .period = 2,
    .others = SC_SLIDING_ATTENTION,
};
