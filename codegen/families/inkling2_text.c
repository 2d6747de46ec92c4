/* inkling2_text.c - hybrid layers, five of six with a window; four short convolutions in each. */
#include "../families.h"

static void types(sc_reader *r) {
    for (int64_t i = 0; i < r->config->num_hidden_layers && !r->config->listed; i++)
        r->config->layer[i].type = (i + 1) % 6 ? SC_HYBRID_SLIDING : SC_HYBRID;
}

/* Inkling2's convolutions over keys, values, and twice the hidden states; windows have their own
 * heads. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    const int64_t columns = sc_read_count(r, "conv_kernel_size", 4, false);
    const int64_t swa_heads = sc_read_count(r, "swa_num_key_value_heads", 8, false);
    const int64_t swa_dim = sc_read_count(r, "swa_head_dim", 128, false);
    for (int64_t i = 0; i < c->num_hidden_layers && !r->rc; i++) {
        sc_layer_config *layer = &c->layer[i];
        sc_state_config *state = sc_pool_alloc(r->pool, 4, sizeof *state);
        if (!state) {
            r->rc = sc_oom(r->err, "reading the config");
            return;
        }
        if (layer->type == SC_HYBRID_SLIDING) {
            layer->kv_heads = swa_heads;
            layer->head_dim = layer->v_head_dim = swa_dim;
        }
        for (int k = 0; k < 4; k++)
            state[k] = (sc_state_config){
                .name = "conv_state",
                .index = k,
                .rank = 2,
                .dim = { k < 2 ? layer->kv_heads * layer->head_dim : c->hidden_size, columns },
                .float32 = true,
            };
        layer->states = 4;
        layer->state = state;
    }
}

static const sc_alias aliases[] = {
    { "sliding_window", "sliding_window_size" },
    { NULL, NULL },
};

const sc_family sc_family_inkling2_text = {
    .model_type = "inkling2_text",
    .alias = aliases,
    .hidden_size = 4608,
    .num_hidden_layers = 48,
    .num_attention_heads = 48,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 1048576,
    .sliding_window = 1024,
    .types = types,
    .widths = widths,
};
