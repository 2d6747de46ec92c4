/* nemotron_h.c - one operation per layer: Mamba-2, attention, experts or an MLP. */
#include <string.h>

#include "../families.h"
#include "../graph_states.h"
#include "../json.h"

static const char *pattern(sc_reader *r) {
    const cJSON *item = sc_read_item(r, "hybrid_override_pattern");
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* The length of the list; num_hidden_layers is ignored, as NemotronHConfig does. */
static int64_t layer_count(sc_reader *r) {
    const cJSON *types = sc_read_item(r, "layer_types");
    const cJSON *declared = sc_read_item(r, "num_hidden_layers");
    int64_t count = 4, said;
    if (cJSON_IsArray(types))
        count = cJSON_GetArraySize(types);
    else if (pattern(r))
        count = (int64_t)strlen(pattern(r));
    if (!count)
        sc_read_fail(r, "layers_block_type", "is empty");
    if (declared && sc_json_int(declared, &said) && said != count)
        sc_read_note(r, sc_pool_printf(r->pool,
                                       "num_hidden_layers: %lld is not used, the list of layers "
                                       "has %lld",
                                       (long long)said, (long long)count));
    sc_read_record_count(r, "num_hidden_layers", count, "rule: length of the list of layers");
    return count;
}

static void types(sc_reader *r) {
    static const sc_layer_type usual[] = { SC_LINEAR_ATTENTION, SC_DUMMY, SC_FULL_ATTENTION,
                                           SC_DUMMY };
    sc_config *c = r->config;
    const char *text = pattern(r);
    for (int64_t i = 0; i < c->num_hidden_layers && !c->listed; i++) {
        if (!text) {
            c->layer[i].type = usual[i];
            c->layer[i].moe = i == 1;
        } else if (text[i] == 'M')
            c->layer[i].type = SC_LINEAR_ATTENTION;
        else if (text[i] == '*')
            c->layer[i].type = SC_FULL_ATTENTION;
        else if (text[i] == 'E' || text[i] == '-') {
            c->layer[i].type = SC_DUMMY;
            c->layer[i].moe = text[i] == 'E';
        } else
            sc_read_fail(
                r, "hybrid_override_pattern",
                sc_pool_printf(r->pool, "character %lld is none of M, E, *, -", (long long)i));
    }
}

/* NemotronHMamba2Mixer. */
static void widths(sc_reader *r) {
    const int64_t heads = sc_read_count(r, "mamba_num_heads", 128, false);
    const int64_t dim = sc_read_count(r, "mamba_head_dim", 64, false);
    const int64_t groups = sc_read_count(r, "n_groups", 8, false);
    const int64_t columns = sc_read_count(r, "conv_kernel", 4, false);
    const int64_t size = sc_read_count(r, "ssm_state_size", 128, false);
    sc_widths_mamba2(r, heads * dim + 2 * groups * size, columns, heads, dim, size);
}

/* NemotronHAttention: no rope. */
static void build_attention(sc_builder *b, sc_span x) {
    const sc_config *c = b->config;
    const int64_t q = c->num_attention_heads * c->head_dim;
    const int64_t kv = c->num_key_value_heads * c->head_dim;
    const sc_span qkv = sc_build_linear(
        b, x, c->hidden_size, sc_build_value(b, "qkv", q + 2 * kv),
        &(sc_linear_spec){ .field = "qkv_proj",
                           .module = { "mixer.q_proj", "mixer.k_proj", "mixer.v_proj" },
                           .out = { q, kv, kv } });
    sc_build_onto(b, sc_build_attention(b, qkv, -1)->out, q, "mixer.o_proj", false, 1);
}

static void build_mlp(sc_builder *b, sc_span x, int64_t ffn, const char *module) {
    const bool bias = b->config->mlp_bias;
    const sc_span up = sc_build_plain(b, x, ffn, sc_build_name(b, module, "up_proj"), bias);
    sc_build_onto(b, up, ffn, sc_build_name(b, module, "down_proj"), bias, 1);
}

/* NemotronHMoE: plain experts, in a narrower space when there is one, and a shared one. */
static void build_experts(sc_builder *b, sc_span x) {
    const double latent = sc_build_number(b, "moe_latent_size");
    const int64_t groups = sc_build_count(b, "n_group");
    const int64_t hidden = b->config->hidden_size, width = latent > 0 ? (int64_t)latent : hidden;
    const bool bias = b->config->mlp_bias;
    const sc_expert_spec spec = {
        .experts = sc_build_count(b, "n_routed_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = sc_build_count(b, "moe_intermediate_size"),
        .normalise = sc_build_flag(b, "norm_topk_prob"),
        .sigmoid = true,
        .groups = groups > 1 ? groups : 0,
        .top_groups = sc_build_count(b, "topk_group"),
        .scale = (float)sc_build_number(b, "routed_scaling_factor"),
        .router = "mixer.gate",
        .correction = "mixer.gate.e_score_correction_bias",
        .prefix = "mixer.experts",
        .up = "up_proj",
        .down = "down_proj",
        .plain = true,
        .hidden = width,
    };
    build_mlp(b, x, sc_build_count(b, "moe_shared_expert_intermediate_size"),
              "mixer.shared_experts");
    if (!(latent > 0)) {
        sc_build_experts(b, x, &spec);
        return;
    }
    const sc_span route = sc_build_route(b, x, &spec), out = sc_build_value(b, "latent_out", width);
    const sc_span in = sc_build_linear(
        b, x, hidden, sc_build_value(b, "latent", width),
        &(sc_linear_spec){ .module = { "mixer.fc1_latent_proj" }, .out = { width }, .bias = bias });
    sc_build_routed(b, in, route, &spec, out, false);
    sc_build_onto(b, out, width, "mixer.fc2_latent_proj", bias, 1);
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const bool bias = sc_build_flag(b, "use_bias");
    sc_mixer mixer = { .module = "mixer", .groups_key = "n_groups", .norm = SC_MIXER_GATE_NORM };
    mixer.in_bias = mixer.out_bias = bias;
    mixer.conv_bias = sc_build_flag(b, "use_conv_bias");
    mixer.act = (sc_activation)sc_build_number(b, "mamba_hidden_act");
    mixer.dt_least = (float)sc_build_number(b, "time_step_min");
    sc_build_embedding(b, "backbone.embeddings.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "backbone.layers.", i);
        const sc_span normed = sc_build_normed(b, "norm");
        if (c->layer[i].type == SC_LINEAR_ATTENTION)
            sc_build_mamba2(b, normed, &mixer);
        else if (c->layer[i].type == SC_FULL_ATTENTION)
            build_attention(b, normed);
        else if (c->layer[i].moe)
            build_experts(b, normed);
        else
            build_mlp(b, normed, c->intermediate_size, "mixer");
    }
    sc_build_finish(b, "backbone.norm_f", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "use_bias", SC_KEY_FLAG, 0, false },
    { "use_conv_bias", SC_KEY_FLAG, 1, false },
    { "mamba_hidden_act", SC_KEY_ACT, 0, false },
    { "time_step_min", SC_KEY_REAL, 0.001, false },
    { "n_routed_experts", SC_KEY_COUNT, 8, false },
    { "num_experts_per_tok", SC_KEY_COUNT, 2, false },
    { "moe_intermediate_size", SC_KEY_COUNT, 7688, false },
    { "moe_shared_expert_intermediate_size", SC_KEY_COUNT, 7688, false },
    { "moe_latent_size", SC_KEY_COUNT, SC_NULL, false },
    { "routed_scaling_factor", SC_KEY_REAL, 1, false },
    { "norm_topk_prob", SC_KEY_FLAG, 1, false },
    { "n_group", SC_KEY_COUNT, 1, false },
    { "topk_group", SC_KEY_COUNT, 1, false },
    { "num_local_experts", SC_KEY_NOTHING, 0, false }, /* its other name */
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "layer_types", "layers_block_type" },
    { "n_groups", "mamba_n_groups" },
    { "conv_kernel", "mamba_d_conv" },
    { "use_conv_bias", "mamba_conv_bias" },
    { "time_step_min", "mamba_dt_min" },
    { "n_routed_experts", "num_local_experts" },
    { NULL, NULL },
};

const sc_family sc_family_nemotron_h = {
    .model_type = "nemotron_h",
    .alias = aliases,
    .hidden_size = 4096,
    .num_hidden_layers = 4,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 4096,
    .sliding_window = SC_NULL,
    .layer_count = layer_count,
    .types = types,
    .widths = widths,
    .build = build,
    .builds = 1u << SC_LINEAR_ATTENTION | 1u << SC_DUMMY,
    .vocab_size = 131072,
    .intermediate_size = 21504,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .hidden_act = "relu2",
    .act_key = "mlp_hidden_act",
    .eps = 1e-5,
    .eps_key = "layer_norm_epsilon",
    .mlp_bias = true,
    .no_rope = true,
    .key = keys,
};
