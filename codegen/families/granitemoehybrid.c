/* granitemoehybrid.c - Mamba-2 layers, full ones where layer_types says so. */
#include "../families.h"

/* GraniteMoeHybridMambaLayer. */
static void widths(sc_reader *r) {
    const int64_t inner = sc_read_count(r, "mamba_expand", 2, false) * r->config->hidden_size;
    const int64_t columns = sc_read_count(r, "mamba_d_conv", 4, false);
    const int64_t groups = sc_read_count(r, "mamba_n_groups", 1, false);
    const int64_t size = sc_read_count(r, "mamba_d_state", 256, false);
    const int64_t heads = sc_read_count(r, "mamba_n_heads", 128, false);
    if (r->rc)
        return;
    const int64_t dim = sc_mamba_head_dim(r, inner, heads);
    if (!r->rc && heads * dim != inner)
        sc_read_fail(r, "mamba_n_heads",
                     sc_pool_printf(r->pool,
                                    "%lld times mamba_d_head %lld is not mamba_expand * "
                                    "hidden_size %lld",
                                    (long long)heads, (long long)dim, (long long)inner));
    sc_widths_mamba2(r, inner + 2 * groups * size, columns, heads, dim, size);
}

static const sc_alias aliases[] = {
    { "layer_types", "layers_block_type" },
    { NULL, NULL },
};

const sc_family sc_family_granitemoehybrid = {
    .model_type = "granitemoehybrid",
    .alias = aliases,
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = 2048,
    .period = SC_NEVER,
    .others = SC_LINEAR_ATTENTION,
    .widths = widths,
};
