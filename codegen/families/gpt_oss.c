/* gpt_oss.c - sliding and full layers take turns; sinks in attention, a mixture of experts whose
 * gate is cut off. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const bool bias = sc_build_flag(b, "attention_bias");
    const sc_expert_spec experts = {
        .experts = sc_build_count(b, "num_local_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = c->intermediate_size,
        .normalise = true, /* softmax of the chosen alone */
        .router = "mlp.router",
        .router_bias = true,
        .prefix = "mlp.experts",
        .in_out = !c->mxfp4,
        .interleaved = true,
        .bias = true,
        .alpha = (float)sc_build_number(b, "swiglu_alpha"),
        .limit = (float)sc_build_number(b, "swiglu_limit"),
    };
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_weight *sinks = sc_build_floats(b, "self_attn.sinks", c->num_attention_heads, 0);
        sc_attention *a =
            sc_build_self_attention(b, sc_build_normed(b, "input_layernorm"), bias, false, rope);
        a->sinks = sinks;
        sc_build_onto(b, a->out, sc_build_attended(b), "self_attn.o_proj", bias, 1);
        sc_build_experts(b, sc_build_normed(b, "post_attention_layernorm"), &experts);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "attention_bias", SC_KEY_FLAG, 1, false },
    { "num_local_experts", SC_KEY_COUNT, 128, false },
    { "num_experts", SC_KEY_NOTHING, 0, false }, /* its other name */
    { "num_experts_per_tok", SC_KEY_COUNT, 4, false },
    { "swiglu_alpha", SC_KEY_REAL, 1.702, false },
    { "swiglu_limit", SC_KEY_REAL, 7, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "num_local_experts", "num_experts" },
    { NULL, NULL },
};

const sc_family sc_family_gpt_oss = {
    .model_type = "gpt_oss",
    .hidden_size = 2880,
    .num_hidden_layers = 36,
    .num_attention_heads = 64,
    .num_key_value_heads = 8,
    .head_dim = 64,
    .max_position_embeddings = 131072,
    .sliding_window = 128,
    .head_dim_null = true,
    .period = 2,
    .others = SC_SLIDING_ATTENTION,
    .build = build,
    .alias = aliases,
    .vocab_size = 201088,
    .intermediate_size = 2880,
    .bos_token_id = SC_NULL,
    .eos_token_id = SC_NULL,
    .eps = 1e-5,
    .rope_theta = 150000,
    .rope_parameters = "{\"rope_type\": \"yarn\", \"factor\": 32, \"truncate\": false, "
                       "\"original_max_position_embeddings\": 4096}",
    .mxfp4 = true,
    .key = keys,
};
