/* zamba2.c - Mamba-2 layers, some with a shared attention block: hybrid. */
#include "../families.h"

/* Zamba2Config's own list, of its 54 layers, when the file has none. */
static void types(sc_reader *r) {
    static const int hybrid[] = { 6, 12, 18, 24, 30, 36, 42, 47, 51 };
    sc_config *c = r->config;
    if (c->listed)
        return;
    if (c->num_hidden_layers != 54) {
        sc_read_fail(r, "layers_block_type",
                     sc_pool_printf(r->pool,
                                    "is missing, and zamba2's own list is of 54 layers, not of "
                                    "num_hidden_layers %lld (give the list)",
                                    (long long)c->num_hidden_layers));
        return;
    }
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].type = SC_LINEAR_ATTENTION;
    for (size_t i = 0; i < sizeof hybrid / sizeof *hybrid; i++)
        c->layer[hybrid[i]].type = SC_HYBRID;
}

/* Zamba2Attention reads two hidden states side by side; Zamba2MambaMixer. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    if (!sc_read_item(r, "head_dim")) {
        c->head_dim = 2 * c->hidden_size / c->num_attention_heads;
        sc_read_record_count(r, "head_dim", c->head_dim,
                             "rule: 2 * hidden_size / num_attention_heads");
        for (int64_t i = 0; i < c->num_hidden_layers; i++)
            c->layer[i].head_dim = c->layer[i].v_head_dim = c->head_dim;
    }
    const int64_t inner = sc_read_count(r, "mamba_expand", 2, false) * c->hidden_size;
    const int64_t columns = sc_read_count(r, "mamba_d_conv", 4, false);
    const int64_t groups = sc_read_count(r, "mamba_ngroups", 1, false);
    const int64_t size = sc_read_count(r, "mamba_d_state", 64, false);
    const int64_t heads = sc_read_count(r, "n_mamba_heads", 8, false);
    if (!r->rc)
        sc_widths_mamba2(r, inner + 2 * groups * size, columns, heads, inner / heads, size);
}

static const sc_alias aliases[] = {
    { "layer_types", "layers_block_type" },
    { "head_dim", "attention_head_dim" },
    { NULL, NULL },
};

const sc_family sc_family_zamba2 = {
    .model_type = "zamba2",
    .alias = aliases,
    .hidden_size = 2560,
    .num_hidden_layers = 54,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .head_dim = SC_NULL,
    .max_position_embeddings = 4096,
    .types = types,
    .widths = widths,
};
