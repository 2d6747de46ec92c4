/* lfm2.c - full where full_attn_idxs says so, short convolutions elsewhere. */
#include "../families.h"
#include "../json.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *list = sc_read_item(r, "full_attn_idxs"), *item;
    if (c->listed)
        return;
    const bool all = !list || cJSON_IsNull(list);
    if (!all && !cJSON_IsArray(list)) {
        sc_read_fail(r, "full_attn_idxs", "is no list");
        return;
    }
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].type = all ? SC_FULL_ATTENTION : SC_CONV;
    if (all)
        return;
    cJSON_ArrayForEach(item, list) {
        int64_t i;
        if (!sc_json_int(item, &i))
            sc_read_fail(r, "full_attn_idxs",
                         sc_pool_printf(r->pool, "%s is no layer", sc_read_quote(r, item)));
        else if (i >= 0 && i < c->num_hidden_layers)
            c->layer[i].type = SC_FULL_ATTENTION;
    }
}

/* Lfm2ShortConv keeps conv_L_cache columns of its input. */
static void widths(sc_reader *r) {
    const int64_t columns = sc_read_count(r, "conv_L_cache", 3, false);
    const sc_state_config state = { .name = "conv_state",
                                    .rank = 2,
                                    .dim = { r->config->hidden_size, columns } };
    sc_states(r, 1, &state);
}

const sc_family sc_family_lfm2 = {
    .model_type = "lfm2",
    .hidden_size = 2560,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .max_position_embeddings = 128000,
    .types = types,
    .widths = widths,
};
