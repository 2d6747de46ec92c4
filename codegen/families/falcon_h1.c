/* falcon_h1.c - every layer is hybrid: attention beside a Mamba-2 mixer. */
#include "../families.h"

/* FalconH1Mixer: mamba_d_ssm channels, null: mamba_expand * hidden_size. */
static void widths(sc_reader *r) {
    int64_t inner = sc_read_count(r, "mamba_d_ssm", 1024, true);
    if (!inner)
        inner = sc_read_count(r, "mamba_expand", 2, false) * r->config->hidden_size;
    const int64_t columns = sc_read_count(r, "mamba_d_conv", 4, false);
    const int64_t groups = sc_read_count(r, "mamba_n_groups", 1, false);
    const int64_t size = sc_read_count(r, "mamba_d_state", 256, false);
    const int64_t heads = sc_read_count(r, "mamba_n_heads", 128, false);
    if (!r->rc)
        sc_widths_mamba2(r, inner + 2 * groups * size, columns, heads,
                         sc_mamba_head_dim(r, inner, heads), size);
}

static const sc_alias aliases[] = {
    { "layer_types", "layers_block_type" },
    { NULL, NULL },
};

const sc_family sc_family_falcon_h1 = {
    .model_type = "falcon_h1",
    .alias = aliases,
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .max_position_embeddings = 8192,
    .kv_heads_null = true,
    .types_computed = true,
    .period = SC_NEVER,
    .others = SC_HYBRID,
    .widths = widths,
};
