/* jamba.c - attention without rope every attn_layer_period layers, Mamba between; experts every
 * expert_layer_period layers. */
#include "../families.h"
#include "../graph_states.h"

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

static bool has_experts(const sc_builder *b, int layer) {
    const int period = (int)sc_build_number(b, "expert_layer_period");
    return layer % period == (int)sc_build_number(b, "expert_layer_offset") &&
           sc_build_number(b, "num_experts") > 1;
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size, hidden = c->hidden_size;
    const double rank = sc_build_number(b, "mamba_dt_rank");
    const sc_expert_spec experts = {
        .experts = sc_build_count(b, "num_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = ffn,
        .router = "feed_forward.router",
        .prefix = "feed_forward.experts",
        .gate = "gate_proj",
        .up = "up_proj",
        .down = "down_proj",
    };
    const sc_mamba mamba = {
        .module = "mamba",
        .bias = sc_build_flag(b, "mamba_proj_bias"),
        .conv_bias = sc_build_flag(b, "mamba_conv_bias"),
        .act = c->hidden_act,
        .dt_rank = rank >= 0 ? (int64_t)rank : (hidden + 15) / 16,
        .dt_norm = "dt_layernorm",
        .b_norm = "b_layernorm",
        .c_norm = "c_layernorm",
    };
    if (mamba.dt_rank < 1)
        sc_build_fail(b, "mamba_dt_rank", "is not above 0");
    if (sc_build_number(b, "expert_layer_offset") >= sc_build_number(b, "expert_layer_period"))
        sc_build_fail(b, "expert_layer_offset", "is not below expert_layer_period");
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        sc_span normed = sc_build_normed(b, "input_layernorm");
        if (c->layer[i].type == SC_LINEAR_ATTENTION)
            sc_build_mamba(b, normed, &mamba);
        else
            sc_build_onto(b, sc_build_self_attention(b, normed, false, false, -1)->out,
                          sc_build_attended(b), "self_attn.o_proj", false, 1);
        normed = sc_build_normed(b, "pre_ff_layernorm");
        if (has_experts(b, i))
            sc_build_experts(b, normed, &experts);
        else
            sc_build_mlp(b, normed, ffn, "feed_forward");
    }
    sc_build_finish(b, "model.final_layernorm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "mamba_dt_rank", SC_KEY_AUTO, SC_NULL, false },
    { "mamba_conv_bias", SC_KEY_FLAG, 1, false },
    { "mamba_proj_bias", SC_KEY_FLAG, 0, false },
    { "num_experts", SC_KEY_COUNT, 16, false },
    { "num_local_experts", SC_KEY_NOTHING, 0, false }, /* its other name */
    { "num_experts_per_tok", SC_KEY_COUNT, 2, false },
    { "expert_layer_period", SC_KEY_COUNT, 2, false },
    { "expert_layer_offset", SC_KEY_COUNT, 1, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "num_experts", "num_local_experts" },
    { NULL, NULL },
};

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
    .build = build,
    .builds = 1u << SC_LINEAR_ATTENTION,
    .alias = aliases,
    .vocab_size = 65536,
    .intermediate_size = 14336,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .no_rope = true,
    .key = keys,
};
