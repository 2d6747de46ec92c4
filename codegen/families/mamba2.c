/* mamba2.c - every layer is a Mamba-2 mixer; there is no attention. */
#include "../families.h"
#include "../graph_states.h"

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

static void build(sc_builder *b) {
    const bool bias = sc_build_flag(b, "use_bias");
    sc_mixer mixer = { .module = "mixer", .in_bias = bias, .out_bias = bias };
    mixer.conv_bias = sc_build_flag(b, "use_conv_bias");
    mixer.act = b->config->hidden_act;
    mixer.groups_key = "n_groups";
    mixer.norm = SC_MIXER_GATE_NORM;
    sc_build_dt_limits(b, "time_step_limit", &mixer.dt_least, &mixer.dt_most);
    sc_build_embedding(b, "backbone.embeddings.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "backbone.layers.", i);
        sc_build_mamba2(b, sc_build_normed(b, "norm"), &mixer);
    }
    sc_build_finish(b, "backbone.norm_f", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "use_bias", SC_KEY_FLAG, 0, false },
    { "use_conv_bias", SC_KEY_FLAG, 1, false },
    { "time_step_limit", SC_KEY_LIMITS, 0, false },
    { .key = NULL },
};

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
    .build = build,
    .builds = 1u << SC_LINEAR_ATTENTION,
    .vocab_size = 32768,
    .bos_token_id = 0,
    .eos_token_id = 2,
    .eps = 1e-5,
    .eps_key = "layer_norm_epsilon",
    .no_rope = true,
    .key = keys,
};
