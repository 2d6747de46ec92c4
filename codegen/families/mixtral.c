/* mixtral.c - llama's shape with a mixture of experts for its MLP. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const sc_expert_spec experts = {
        .experts = sc_build_count(b, "num_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = c->intermediate_size,
        .normalise = true,
        .router = "block_sparse_moe.gate",
        .prefix = "block_sparse_moe.experts",
        .gate = "w1",
        .up = "w3",
        .down = "w2",
    };
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span attended =
            sc_build_self_attention(b, sc_build_normed(b, "input_layernorm"), false, false, rope)
                ->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", false, 1);
        sc_build_experts(b, sc_build_normed(b, "post_attention_layernorm"), &experts);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "num_experts", SC_KEY_COUNT, 8, false },
    { "num_local_experts", SC_KEY_NOTHING, 0, false }, /* the name in files */
    { "num_experts_per_tok", SC_KEY_COUNT, 2, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "num_experts", "num_local_experts" },
    { NULL, NULL },
};

const sc_family sc_family_mixtral = {
    .model_type = "mixtral",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = SC_NULL,
    .max_position_embeddings = 131072,
    .sliding_window = SC_NULL,
    .build = build,
    .alias = aliases,
    .vocab_size = 32000,
    .intermediate_size = 14336,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .eps = 1e-5,
    .rope_theta = 1000000,
    .key = keys,
};
