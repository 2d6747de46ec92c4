/* jamba.c - full every attn_layer_period layers, Mamba between. */
#include "../families.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    const int64_t period = sc_read_count(r, "attn_layer_period", 8, false);
    const int64_t offset = sc_read_from_zero(r, "attn_layer_offset", 4);
    if (!r->rc && offset >= period)
        sc_read_fail(r, "attn_layer_offset",
                     sc_pool_printf(r->pool, "%lld is not below attn_layer_period %lld",
                                    (long long)offset, (long long)period));
    for (int64_t i = 0; i < c->num_hidden_layers && !r->rc; i++)
        c->layer[i].type = i % period == offset ? SC_FULL_ATTENTION : SC_LINEAR_ATTENTION;
}

/* JambaMambaMixer. */
static void widths(sc_reader *r) {
    const int64_t expand = sc_read_count(r, "mamba_expand", 2, false);
    const int64_t columns = sc_read_count(r, "mamba_d_conv", 4, false);
    const int64_t size = sc_read_count(r, "mamba_d_state", 16, false);
    const int64_t channels = expand * r->config->hidden_size;
    const sc_state_config states[] = {
        { .name = "conv_state", .rank = 2, .dim = { channels, columns } },
        { .name = "recurrent_state", .rank = 2, .dim = { channels, size }, .float32 = true },
    };
    sc_states(r, 2, states);
}

const sc_family sc_family_jamba = {
    .model_type = "jamba",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .max_position_embeddings = 262144,
    .types_computed = true,
    .types = types,
    .widths = widths,
};
