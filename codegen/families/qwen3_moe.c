/* qwen3_moe.c - qwen3 with a mixture of experts; every layer is sliding, if use_sliding_window. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const sc_expert_spec experts = {
        .experts = sc_build_count(b, "num_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = sc_build_count(b, "moe_intermediate_size"),
        .normalise = sc_build_flag(b, "norm_topk_prob"),
        .router = "mlp.gate",
        .prefix = "mlp.experts",
        .gate = "gate_proj",
        .up = "up_proj",
        .down = "down_proj",
    };
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span attended = sc_build_self_attention(b, sc_build_normed(b, "input_layernorm"),
                                                         c->attention_bias, true, rope)
                                     ->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", c->attention_bias, 1);
        const sc_span normed = sc_build_normed(b, "post_attention_layernorm");
        if (sc_build_is_sparse(b))
            sc_build_experts(b, normed, &experts);
        else
            sc_build_mlp(b, normed, c->intermediate_size, "mlp");
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "num_experts", SC_KEY_COUNT, 128, false },
    { "num_local_experts", SC_KEY_NOTHING, 0, false }, /* its other name */
    { "num_experts_per_tok", SC_KEY_COUNT, 8, false },
    { "moe_intermediate_size", SC_KEY_COUNT, 768, false },
    { "norm_topk_prob", SC_KEY_FLAG, 0, false },
    { "decoder_sparse_step", SC_KEY_COUNT, 1, false },
    { "mlp_only_layers", SC_KEY_NUMBERS, 0, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "num_experts", "num_local_experts" },
    { NULL, NULL },
};

const sc_family sc_family_qwen3_moe = {
    .model_type = "qwen3_moe",
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 32,
    .num_key_value_heads = 4,
    .max_position_embeddings = 32768,
    .sliding_window = 4096,
    .window_switch = true,
    .build = build,
    .alias = aliases,
    .vocab_size = 151936,
    .intermediate_size = 6144,
    .bos_token_id = SC_NULL,
    .eos_token_id = SC_NULL,
    .attention_bias = true,
    .key = keys,
};
