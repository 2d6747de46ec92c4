/* gemma4_text.c - every sixth layer and the last are full, with a head_dim of their own; the last
 * layers read earlier ones' keys and values, and each token has an input of its own to every layer.
 */
#include <math.h>
#include <string.h>

#include "../families.h"
#include "../graph_build.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    sc_layer_config *last = &c->layer[c->num_hidden_layers - 1];
    const cJSON *both = sc_read_item(r, "use_bidirectional_attention");
    if (cJSON_IsString(both) && !strcmp(both->valuestring, "all")) {
        sc_read_unsupported(r, "use_bidirectional_attention",
                            "\"all\" is no decoder's (only its cache can be cast)");
        c->sliding_window = c->sliding_window / 2 + 1;
        for (int64_t i = 0; i < c->num_hidden_layers; i++)
            c->layer[i].window = c->sliding_window;
        sc_read_record_count(r, "sliding_window", c->sliding_window,
                             "rule: sliding_window / 2 + 1");
    }
    if (last->type != SC_FULL_ATTENTION)
        sc_read_note(r, sc_pool_printf(r->pool,
                                       "layer_types[%lld]: %s is not used, the last layer "
                                       "of gemma4 is full_attention",
                                       (long long)c->num_hidden_layers - 1,
                                       sc_layer_type_name(last->type)));
    last->type = SC_FULL_ATTENTION;
}

/* Gemma4TextConfig: what its full layers have of their own, unless per_layer_config says it. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    if (sc_read_item(r, "per_layer_config"))
        return;
    const int64_t head_dim = sc_read_count(r, "global_head_dim", 512, false);
    int64_t heads = 0;
    if (sc_read_flag(r, "attention_k_eq_v", false))
        heads = sc_read_count(r, "num_global_key_value_heads", SC_NULL, true);
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        sc_layer_config *layer = &c->layer[i];
        if (layer->type != SC_FULL_ATTENTION)
            continue;
        layer->head_dim = layer->v_head_dim = head_dim;
        layer->kv_heads = heads ? heads : layer->kv_heads;
    }
}

sc_attention *sc_build_gemma4_attention(sc_builder *b, sc_span x, bool k_is_v) {
    const sc_config *c = b->config;
    const sc_layer_config *kv = sc_build_kv(b);
    const int64_t dim = kv->head_dim, q = c->num_attention_heads * dim, k = kv->kv_heads * dim;
    const bool shares = kv != &c->layer[b->layer], no_v = shares || k_is_v;
    const int rope = sc_build_rope(b, dim);
    const sc_span qkv = sc_build_linear(
        b, x, b->graph->hidden, sc_build_value(b, "qkv", q + 2 * k),
        &(sc_linear_spec){ .field = "qkv_proj",
                           .module = { "self_attn.q_proj", shares ? NULL : "self_attn.k_proj",
                                       no_v ? NULL : "self_attn.v_proj" },
                           .out = { q, k, k },
                           .bias = c->attention_bias });
    const sc_span v = sc_build_value(b, "v", k);
    if (!shares) /* v_norm: no weight */
        sc_build_runs_norm(b, sc_build_at(qkv, k_is_v ? q : q + k), NULL, kv->kv_heads, dim, v);
    const sc_weight *q_norm = sc_build_floats(b, "self_attn.q_norm.weight", dim, 0);
    const sc_weight *k_norm = shares ? NULL : sc_build_floats(b, "self_attn.k_norm.weight", dim, 0);
    sc_attention *a = sc_build_attention(b, qkv, rope);
    a->v = shares ? sc_nowhere : v;
    a->q_norm = q_norm;
    a->k_norm = k_norm;
    a->norm_eps = b->norm.eps;
    a->scale = 1;
    return a;
}

sc_span sc_build_layer_inputs(sc_builder *b) {
    const int64_t each = sc_build_count(b, "hidden_size_per_layer_input");
    const int64_t rows = sc_build_count(b, "vocab_size_per_layer_input");
    const int64_t width = b->graph->layers * each, hidden = b->graph->hidden;
    const float half = sqrtf(0.5f);
    const sc_span inputs =
        sc_build_linear(b, b->x, hidden, sc_build_value(b, "layer_inputs", width),
                        &(sc_linear_spec){ .module = { "model.per_layer_model_projection" },
                                           .out = { width },
                                           .scale = 1 / sqrtf((float)hidden) });
    sc_build_norm(b, inputs, "model.per_layer_projection_norm", each, inputs)->n[0] =
        b->graph->layers;
    const sc_part part = sc_build_rows(b, "model.embed_tokens_per_layer.weight", rows, width);
    const sc_weight *table =
        sc_build_weight(b, SC_WEIGHT_ROWS, "embed_tokens_per_layer", width, 1, &part);
    sc_row_op *row = sc_build_row(b, SC_ROW_LOOKUP, inputs, sc_nowhere, inputs);
    row->w = table;
    row->n[0] = width;
    row->n[1] = rows;
    row->f[0] = half;
    row->f[1] = half * sqrtf((float)each);
    return (sc_span){ .value = inputs.value, .step = each };
}

sc_span sc_build_layer_input(sc_builder *b, sc_span x, sc_span input) {
    const int64_t each = input.step, hidden = b->graph->hidden;
    const sc_span gate = sc_build_linear(b, x, hidden, sc_build_value(b, "layer_gate", each),
                                         &(sc_linear_spec){ .module = { "per_layer_input_gate" },
                                                            .out = { each },
                                                            .act = b->config->hidden_act });
    sc_build_multiply(b, gate, input, each, gate);
    const sc_span out = sc_build_linear(
        b, gate, each, sc_build_value(b, "out", hidden),
        &(sc_linear_spec){ .module = { "per_layer_projection" }, .out = { hidden } });
    sc_build_norm(b, out, "post_per_layer_input_norm", hidden, out);
    return out;
}

/* The MLP's output has a mixture's of the same tokens added to it, each with norms of its own. */
static void add_experts(sc_builder *b, sc_span mlp) {
    const int64_t hidden = b->graph->hidden;
    const sc_expert_spec spec = {
        .experts = sc_build_count(b, "num_experts"),
        .top_k = sc_build_count(b, "top_k_experts"),
        .ffn = sc_build_count(b, "moe_intermediate_size"),
        .normalise = true,
        .router = "router.proj",
        .router_scale = 1 / sqrtf((float)hidden),
        .expert_scale = "router.per_expert_scale",
        .prefix = "experts",
    };
    const sc_span normed = sc_build_value(b, "normed", hidden);
    const sc_span out = sc_build_value(b, "experts_out", hidden);
    sc_build_norm(b, mlp, "post_feedforward_layernorm_1", hidden, mlp);
    const sc_weight *scale = sc_build_floats(b, "router.scale", hidden, 0);
    sc_build_runs_norm(b, b->x, scale, 1, hidden, normed);
    const sc_span route = sc_build_route(b, normed, &spec);
    sc_build_norm(b, b->x, "pre_feedforward_layernorm_2", hidden, normed);
    sc_build_routed(b, normed, route, &spec, out, false);
    sc_build_norm(b, out, "post_feedforward_layernorm_2", hidden, out);
    sc_build_add(b, mlp, 1, out, 1, hidden, mlp);
}

static void layer(sc_builder *b, sc_span input) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden;
    const bool shares = sc_build_kv(b) != &c->layer[b->layer];
    const bool full = sc_build_kv(b)->type == SC_FULL_ATTENTION;
    const bool wide = shares && sc_build_flag(b, "use_double_wide_mlp");
    const int64_t ffn = c->intermediate_size * (wide ? 2 : 1);
    const sc_attention *a = sc_build_gemma4_attention(b, sc_build_normed(b, "input_layernorm"),
                                                      full && sc_build_flag(b, "attention_k_eq_v"));
    sc_build_normed_onto(b, a->out, sc_build_attended(b), "self_attn.o_proj", c->attention_bias,
                         "post_attention_layernorm");
    const sc_span out = sc_build_value(b, "out", hidden);
    const sc_span gated = sc_build_gated(b, sc_build_normed(b, "pre_feedforward_layernorm"), ffn,
                                         "mlp.gate_proj", "mlp.up_proj", false);
    sc_build_linear(b, gated, ffn, out,
                    &(sc_linear_spec){ .module = { "mlp.down_proj" }, .out = { hidden } });
    if (sc_build_flag(b, "enable_moe_block"))
        add_experts(b, out);
    sc_build_norm(b, out, "post_feedforward_layernorm", hidden, out);
    sc_build_add(b, b->x, 1, out, 1, hidden, b->x);
    if (input.value >= 0)
        sc_build_add(b, b->x, 1, sc_build_layer_input(b, b->x, input), 1, hidden, b->x);
    const sc_weight *scalar = sc_build_floats(b, "layer_scalar", 1, 0);
    sc_row_op *row = sc_build_row(b, SC_ROW_SCALE, b->x, sc_nowhere, b->x);
    row->w = scalar;
    row->n[0] = hidden;
    row->n[1] = 1;
}

static void build(sc_builder *b) {
    const bool inputs = sc_build_number(b, "hidden_size_per_layer_input") > 0;
    sc_build_embedding(b, "model.embed_tokens.weight", sqrtf((float)b->graph->hidden));
    const sc_span input = inputs ? sc_build_layer_inputs(b) : sc_nowhere;
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        layer(b, input);
    }
    b->graph->logits_softcap = sc_build_cap(b, "final_logit_softcapping");
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "hidden_size_per_layer_input", SC_KEY_COUNT, 256, true },
    { "vocab_size_per_layer_input", SC_KEY_COUNT, 262144, false },
    { "final_logit_softcapping", SC_KEY_REAL, SC_NULL, false },
    { "attention_k_eq_v", SC_KEY_FLAG, 0, false },
    { "use_double_wide_mlp", SC_KEY_FLAG, 0, false },
    { "enable_moe_block", SC_KEY_FLAG, 0, false },
    { "num_experts", SC_KEY_COUNT, SC_NULL, false },
    { "top_k_experts", SC_KEY_COUNT, SC_NULL, false },
    { "moe_intermediate_size", SC_KEY_COUNT, SC_NULL, false },
    { .key = NULL },
};

const sc_family sc_family_gemma4_text = {
    .model_type = "gemma4_text",
    .hidden_size = 2304,
    .num_hidden_layers = 30,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .max_position_embeddings = 131072,
    .sliding_window = 512,
    .window_not_null = true,
    .period = 6,
    .others = SC_SLIDING_ATTENTION,
    .shares_kv = true,
    .types = types,
    .widths = widths,
    .per_layer = true,
    .build = build,
    .vocab_size = 262144,
    .intermediate_size = 9216,
    .bos_token_id = 2,
    .eos_token_id = 1,
    .hidden_act = "gelu_pytorch_tanh",
    .act_key = "hidden_activation",
    .tied = true,
    .attention_bias = true,
    .rope_theta = 1000000,
    .local_theta = 10000,
    .rope_type = "proportional",
    .rotary_factor = 0.25,
    .key = keys,
};
