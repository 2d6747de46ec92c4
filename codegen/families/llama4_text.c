/* llama4_text.c - layers with rope attend within chunks; the others are full, without rope, their
 * queries growing with their position. A shared expert beside the one that is chosen. */
#include "../families.h"
#include "../graph_build.h"

static void types(sc_reader *r) {
    const bool chunks = !cJSON_IsNull(sc_read_item(r, "attention_chunk_size"));
    sc_types_by_rope(r, chunks ? SC_CHUNKED_ATTENTION : SC_FULL_ATTENTION, SC_FULL_ATTENTION, true);
}

/* moe_layers, or every interleave_moe_layer_step-th. */
static bool has_experts(const sc_builder *b, int layer) {
    const sc_config_value *listed = sc_config_key(b->config, "moe_layers");
    const int step = (int)sc_build_number(b, "interleave_moe_layer_step");
    for (int i = 0; i < listed->count; i++)
        if ((int)listed->list[i] == layer)
            return true;
    return !listed->list && step > 0 && (layer + 1) % step == 0;
}

static sc_span attention(sc_builder *b, sc_span normed) {
    const sc_config *c = b->config;
    const sc_layer_config *layer = &c->layer[b->layer];
    const int64_t q = c->num_attention_heads * layer->head_dim;
    const sc_span qkv = sc_build_qkv(b, normed, c->attention_bias);
    if (!layer->no_rope)
        sc_build_rope_pairs(b, qkv, sc_build_rope(b, layer->head_dim));
    if (!layer->no_rope && sc_build_flag(b, "use_qk_norm")) /* Llama4TextL2Norm: no weight */
        sc_build_runs_norm(b, qkv, NULL, c->num_attention_heads + layer->kv_heads, layer->head_dim,
                           qkv);
    if (layer->no_rope && sc_build_flag(b, "attn_temperature_tuning")) {
        sc_row_op *row = sc_build_row(b, SC_ROW_TEMPERATURE, qkv, sc_nowhere, qkv);
        row->n[0] = q;
        row->n[1] = sc_build_count(b, "floor_scale");
        row->f[0] = (float)sc_build_number(b, "attn_scale");
    }
    return sc_build_attention(b, qkv, -1)->out;
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const sc_expert_spec experts = {
        .experts = sc_build_count(b, "num_local_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = c->intermediate_size,
        .sigmoid = true,
        .router = "feed_forward.router",
        .prefix = "feed_forward.experts",
        .in_out = true,
        .weigh_input = true,
    };
    const int64_t dense = sc_build_count(b, "intermediate_size_mlp");
    if (sc_build_number(b, "floor_scale") < 1)
        sc_build_fail(b, "floor_scale", "is not above 0");
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const sc_span attended = attention(b, sc_build_normed(b, "input_layernorm"));
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", c->attention_bias, 1);
        const sc_span normed = sc_build_normed(b, "post_attention_layernorm");
        if (has_experts(b, i)) {
            sc_build_mlp(b, normed, c->intermediate_size, "feed_forward.shared_expert");
            sc_build_experts(b, normed, &experts);
        } else
            sc_build_mlp(b, normed, dense, "feed_forward");
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "num_local_experts", SC_KEY_COUNT, 16, false },
    { "num_experts_per_tok", SC_KEY_COUNT, 1, false },
    { "moe_layers", SC_KEY_NUMBERS, 0, false },
    { "interleave_moe_layer_step", SC_KEY_COUNT, 1, false },
    { "intermediate_size_mlp", SC_KEY_COUNT, 16384, false },
    { "use_qk_norm", SC_KEY_FLAG, 1, false },
    { "attn_temperature_tuning", SC_KEY_FLAG, 1, false },
    { "floor_scale", SC_KEY_COUNT, 8192, false },
    { "attn_scale", SC_KEY_REAL, 0.1, false },
    { "attention_chunk_size", SC_KEY_NOTHING, 0, false }, /* the layers have it */
    { .key = NULL },
};

const sc_family sc_family_llama4_text = {
    .model_type = "llama4_text",
    .hidden_size = 5120,
    .num_hidden_layers = 48,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 131072,
    .head_dim_null = true,
    .attention_chunk_size = 8192,
    .types = types,
    .build = build,
    .builds = 1u << SC_CHUNKED_ATTENTION,
    .vocab_size = 202048,
    .intermediate_size = 8192,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .eps = 1e-5,
    .attention_bias = true,
    .rope_theta = 500000,
    .key = keys,
};
