/* exaone4.c - every fourth layer is full, the others slide. */
#include "../families.h"

/* The pattern may be a string, "LLLG", which only an explicit list goes with. */
static void types(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *pattern = sc_read_item(r, "sliding_window_pattern");
    if (c->listed)
        return;
    if (cJSON_IsString(pattern) || !c->sliding_window) {
        sc_read_fail(r, "layer_types",
                     c->sliding_window
                         ? "is missing, and sliding_window_pattern is no number (give layer_types)"
                         : "is missing, and sliding_window is null (give layer_types)");
        return;
    }
    const int64_t period = sc_read_count(r, "sliding_window_pattern", 4, false);
    if (!r->rc)
        sc_types_periodic(r, period, SC_SLIDING_ATTENTION);
}

const sc_family sc_family_exaone4 = {
    .model_type = "exaone4",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 32,
    .max_position_embeddings = 2048,
    .sliding_window = 4096,
    .types = types,
};
