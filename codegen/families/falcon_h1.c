/* falcon_h1.c - every layer is hybrid: attention beside a Mamba-2 mixer; everything has its own
 * multiplier. */
#include "../families.h"
#include "../graph_states.h"

/* FalconH1Mixer: mamba_d_ssm channels, null: mamba_expand * hidden_size. */
static void widths(sc_reader *r) {
    int64_t inner = sc_read_count(r, "mamba_d_ssm", 1024, true);
    if (!inner)
        inner = sc_read_count(r, "mamba_expand", 2, false) * r->config->hidden_size;
    const int64_t columns = sc_read_count(r, "mamba_d_conv", 4, false);
    const int64_t groups = sc_read_count(r, "mamba_n_groups", 1, false);
    const int64_t size = sc_read_count(r, "mamba_d_state", 256, false);
    const int64_t heads = sc_read_count(r, "mamba_n_heads", 128, false);
    if (r->rc)
        return;
    const int64_t head_dim = sc_mamba_head_dim(r, inner, heads);
    if (!r->rc && heads * head_dim != inner)
        sc_read_fail(r, "mamba_n_heads",
                     sc_pool_printf(r->pool, "%lld times mamba_d_head %lld is not mamba_d_ssm %lld",
                                    (long long)heads, (long long)head_dim, (long long)inner));
    sc_widths_mamba2(r, inner + 2 * groups * size, columns, heads, head_dim, size);
}

/* A multiplier; a graph has no use for what is multiplied by nothing. */
static float multiplier(sc_builder *b, const char *key) {
    const float factor = (float)sc_build_number(b, key);
    if (!(factor > 0 || factor < 0))
        sc_build_fail(b, key, "0 is no multiplier");
    return factor;
}

/* A list of them, absent: ones. */
static void multipliers(sc_builder *b, const char *key, int count, float *factor) {
    const sc_config_value *list = sc_config_key(b->config, key);
    bool good = !list->count || list->count == count;
    for (int i = 0; i < count; i++) {
        factor[i] = good && list->count ? (float)list->list[i] : 1;
        good &= factor[i] > 0 || factor[i] < 0;
    }
    if (!good)
        sc_build_fail(b, key, "is no list of %d multipliers other than 0", count);
}

static sc_span scaled(sc_builder *b, sc_span x, float factor, const char *name) {
    if (factor >= 1 && factor <= 1)
        return x;
    const sc_span out = sc_build_value(b, name, b->graph->hidden);
    sc_build_times(b, x, factor, b->graph->hidden, out);
    return out;
}

static void build_attention(sc_builder *b, sc_span x, float onto) {
    const sc_layer_config *c = &b->config->layer[b->layer];
    const bool bias = b->config->attention_bias;
    const sc_span qkv = sc_build_qkv(b, x, bias);
    const sc_span k = sc_build_at(qkv, b->config->num_attention_heads * c->head_dim);
    sc_build_times(b, k, multiplier(b, "key_multiplier"), c->kv_heads * c->head_dim, k);
    const sc_span attended = sc_build_attention(b, qkv, sc_build_rope(b, c->head_dim))->out;
    sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", bias, onto);
}

static void build_mlp(sc_builder *b, sc_span x, const float factor[2]) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const char *gate = "feed_forward.gate_proj", *up = "feed_forward.up_proj";
    const sc_span gated = sc_build_linear(b, x, c->hidden_size, sc_build_value(b, "ffn", ffn),
                                          &(sc_linear_spec){ .field = "gate_up_proj",
                                                             .module = { gate, up },
                                                             .out = { ffn, ffn },
                                                             .bias = c->mlp_bias,
                                                             .gated = true,
                                                             .act = c->hidden_act,
                                                             .scale = factor[0] });
    sc_build_onto(b, gated, ffn, "feed_forward.down_proj", c->mlp_bias, factor[1]);
}

static sc_mixer_norm norm_of(const sc_builder *b) {
    return !sc_build_flag(b, "mamba_rms_norm")          ? SC_MIXER_GATE
           : sc_build_flag(b, "mamba_norm_before_gate") ? SC_MIXER_NORM_GATE
                                                        : SC_MIXER_GATE_NORM;
}

static void build(sc_builder *b) {
    float projected[5], mlp[2];
    multipliers(b, "ssm_multipliers", 5, projected);
    multipliers(b, "mlp_multipliers", 2, mlp);
    sc_mixer mixer = { .module = "mamba", .groups_key = "mamba_n_groups", .multiply = projected };
    mixer.in_bias = sc_build_flag(b, "mamba_proj_bias");
    mixer.conv_bias = sc_build_flag(b, "mamba_conv_bias");
    mixer.out_bias = sc_build_flag(b, "projectors_bias");
    mixer.act = b->config->hidden_act;
    mixer.norm = norm_of(b);
    mixer.onto = multiplier(b, "ssm_out_multiplier");
    sc_build_dt_limits(b, "time_step_limit", &mixer.dt_least, &mixer.dt_most);
    const float ssm_in = multiplier(b, "ssm_in_multiplier");
    const float attention_in = multiplier(b, "attention_in_multiplier");
    const float attention_out = multiplier(b, "attention_out_multiplier");
    b->graph->logits_scale = multiplier(b, "lm_head_multiplier");
    sc_build_embedding(b, "model.embed_tokens.weight", multiplier(b, "embedding_multiplier"));
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const sc_span normed = sc_build_normed(b, "input_layernorm");
        const sc_span of_attention = scaled(b, normed, attention_in, "attention_in");
        sc_build_mamba2(b, scaled(b, normed, ssm_in, "mamba_in"), &mixer);
        build_attention(b, of_attention, attention_out);
        build_mlp(b, sc_build_normed(b, "pre_ff_layernorm"), mlp);
    }
    sc_build_finish(b, "model.final_layernorm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "mamba_proj_bias", SC_KEY_FLAG, 0, false },
    { "mamba_conv_bias", SC_KEY_FLAG, 1, false },
    { "projectors_bias", SC_KEY_FLAG, 0, false },
    { "mamba_rms_norm", SC_KEY_FLAG, 0, false },
    { "mamba_norm_before_gate", SC_KEY_FLAG, 1, false },
    { "time_step_limit", SC_KEY_LIMITS, 0, false },
    { "ssm_multipliers", SC_KEY_NUMBERS, 0, false },
    { "mlp_multipliers", SC_KEY_NUMBERS, 0, false },
    { "ssm_in_multiplier", SC_KEY_REAL, 1, false },
    { "ssm_out_multiplier", SC_KEY_REAL, 1, false },
    { "attention_in_multiplier", SC_KEY_REAL, 1, false },
    { "attention_out_multiplier", SC_KEY_REAL, 1, false },
    { "key_multiplier", SC_KEY_REAL, 1, false },
    { "embedding_multiplier", SC_KEY_REAL, 1, false },
    { "lm_head_multiplier", SC_KEY_REAL, 1, false },
    { .key = NULL },
};

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
    .build = build,
    .builds = 1u << SC_HYBRID,
    .vocab_size = 128000,
    .intermediate_size = 14336,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .eps = 1e-5,
    .attention_bias = true,
    .mlp_bias = true,
    .key = keys,
};
