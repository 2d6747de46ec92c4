/* gemma4_text.c - every sixth layer and the last are full, with a head_dim of their own. */
#include <string.h>

#include "../families.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    sc_layer_config *last = &c->layer[c->num_hidden_layers - 1];
    const cJSON *both = sc_read_item(r, "use_bidirectional_attention");
    if (cJSON_IsString(both) && !strcmp(both->valuestring, "all")) {
        c->sliding_window = c->sliding_window / 2 + 1;
        for (int64_t i = 0; i < c->num_hidden_layers; i++)
            c->layer[i].window = c->sliding_window;
        sc_read_record_count(r, "sliding_window", c->sliding_window,
                             "rule: sliding_window / 2 + 1");
    }
    if (last->type != SC_FULL_ATTENTION)
        sc_read_note(r, sc_pool_printf(r->pool,
                                       "layer_types[%lld]: %s is not used, the last layer "
                                       "of gemma4 is full_attention",
                                       (long long)c->num_hidden_layers - 1,
                                       sc_layer_type_name(last->type)));
    last->type = SC_FULL_ATTENTION;
}

/* Gemma4TextConfig: what its full layers have of their own, unless per_layer_config says it. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    if (sc_read_item(r, "per_layer_config"))
        return;
    const int64_t head_dim = sc_read_count(r, "global_head_dim", 512, false);
    int64_t heads = 0;
    if (sc_read_flag(r, "attention_k_eq_v", false))
        heads = sc_read_count(r, "num_global_key_value_heads", SC_NULL, true);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        sc_layer_config *layer = &c->layer[i];
        if (layer->type != SC_FULL_ATTENTION)
            continue;
        layer->head_dim = layer->v_head_dim = head_dim;
        layer->kv_heads = heads ? heads : layer->kv_heads;
    }
}

const sc_family sc_family_gemma4_text = {
    .model_type = "gemma4_text",
    .hidden_size = 2304,
    .num_hidden_layers = 30,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .max_position_embeddings = 131072,
    .sliding_window = 512,
    .window_not_null = true,
    .period = 6,
    .others = SC_SLIDING_ATTENTION,
    .shares_kv = true,
    .types = types,
    .widths = widths,
};
