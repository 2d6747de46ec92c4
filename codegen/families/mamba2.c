/* mamba2.c - every layer is a Mamba-2 mixer; there is no attention. */
#include "../families.h"

/* Mamba2Mixer; its config must agree with itself as Mamba2Config asks. */
static void widths(sc_reader *r) {
    const int64_t expand = sc_read_count(r, "expand", 2, false);
    const int64_t columns = sc_read_count(r, "conv_kernel", 4, false);
    const int64_t groups = sc_read_count(r, "n_groups", 8, false);
    const int64_t size = sc_read_count(r, "state_size", 128, false);
    const int64_t heads = sc_read_count(r, "num_heads", 128, false);
    const int64_t head_dim = sc_read_count(r, "head_dim", 64, false);
    const int64_t inner = expand * r->config->hidden_size;
    if (!r->rc && inner != heads * head_dim)
        sc_read_fail(r, "num_heads",
                     sc_pool_printf(r->pool,
                                    "%lld times head_dim %lld is not expand * hidden_size %lld",
                                    (long long)heads, (long long)head_dim, (long long)inner));
    sc_widths_mamba2(r, inner + 2 * groups * size, columns, heads, head_dim, size);
}

const sc_family sc_family_mamba2 = {
    .model_type = "mamba2",
    .hidden_size = 4096,
    .num_hidden_layers = 64,
    .head_dim = 0,
    .sliding_window = 0,
    .types_computed = true,
    .period = SC_NEVER,
    .others = SC_LINEAR_ATTENTION,
    .widths = widths,
};
