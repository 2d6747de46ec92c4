/* smollm3.c - layers without rope slide, if use_sliding_window. */
#include "../families.h"

static void types(sc_reader *r) {
    const bool use = sc_read_flag(r, "use_sliding_window", false) && r->config->sliding_window;
    if (!r->config->listed)
        sc_types_by_rope(r, SC_FULL_ATTENTION, use ? SC_SLIDING_ATTENTION : SC_FULL_ATTENTION,
                         false);
}

const sc_family sc_family_smollm3 = {
    .model_type = "smollm3",
    .hidden_size = 2048,
    .num_hidden_layers = 36,
    .num_attention_heads = 16,
    .num_key_value_heads = 4,
    .max_position_embeddings = 32768,
    .sliding_window = SC_NULL,
    .kv_heads_null = true,
    .types = types,
};
