/* deepseek_v32.c - deepseek_v3 with an indexer in every layer, which lets a query see only so many
 * keys (DeepSeek sparse attention). */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"

/* DeepseekV32Indexer: its own small queries and keys, turned in halves over the rope's part. */
static void build_index(sc_builder *b, sc_span x, sc_span q_low) {
    const int64_t heads = sc_build_count(b, "index_n_heads");
    const int64_t top_k = sc_build_count(b, "index_topk");
    const int64_t dim = b->config->layer[b->layer].index_head_dim, hidden = b->graph->hidden;
    const int64_t turned = b->config->head_dim, q_rank = sc_build_count(b, "q_lora_rank");
    if (dim < turned)
        sc_build_fail(b, "index_head_dim", "%lld is less than qk_rope_head_dim %lld",
                      (long long)dim, (long long)turned);
    if (heads < 1 || top_k < 1)
        sc_build_fail(b, heads < 1 ? "index_n_heads" : "index_topk", "is not above 0");
    if (b->rc)
        return;
    const sc_span q = sc_build_linear(
        b, q_low, q_rank, sc_build_value(b, "index_q", heads * dim),
        &(sc_linear_spec){ .module = { "self_attn.indexer.wq_b" }, .out = { heads * dim } });
    const sc_span k =
        sc_build_linear(b, x, hidden, sc_build_value(b, "index_k", dim),
                        &(sc_linear_spec){ .module = { "self_attn.indexer.wk" }, .out = { dim } });
    const sc_span weights =
        sc_build_linear(b, x, hidden, sc_build_value(b, "index_weights", heads),
                        &(sc_linear_spec){ .module = { "self_attn.indexer.weights_proj" },
                                           .out = { heads },
                                           .scale = (float)(1 / sqrt((double)(heads * dim))) });
    const sc_norm_kind usual = b->norm;
    b->norm = (sc_norm_kind){ .layer_norm = true, .bias = true, .eps = 1e-6f };
    sc_build_norm(b, k, "self_attn.indexer.k_norm", dim, k);
    b->norm = usual;
    const int rope = sc_build_rope(b, turned);
    const sc_span both[] = { q, k };
    for (int i = 0; i < 2; i++) {
        sc_row_op *row = sc_build_row(b, SC_ROW_ROPE, both[i], sc_nowhere, both[i]);
        row->n[0] = i ? 1 : heads;
        row->n[1] = row->n[2] = dim;
        row->rope = rope;
    }
    sc_build_op(b, SC_OP_INDEX)->index = (sc_index){ heads, dim, top_k, q, k, weights };
}

/* mlp_layer_types of that layer, or first_k_dense_replace. */
static bool is_sparse(sc_builder *b, int layer) {
    const sc_config_value *types = sc_config_key(b->config, "mlp_layer_types");
    if (types->count && types->count != b->graph->layers)
        sc_build_fail(b, "mlp_layer_types", "%d entries for %d layers", types->count,
                      b->graph->layers);
    if (b->rc)
        return false;
    return types->count ? types->list[layer] > 0
                        : layer >= (int)sc_build_number(b, "first_k_dense_replace");
}

static void build(sc_builder *b) {
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        sc_build_latent_attention(b, sc_build_normed(b, "input_layernorm"), true,
                                  b->config->layer[i].index_head_dim ? build_index : NULL);
        sc_build_deepseek_mlp(b, is_sparse(b, i));
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "q_lora_rank", SC_KEY_COUNT, 1536, false },
    { "qk_nope_head_dim", SC_KEY_COUNT, 128, false },
    { "v_head_dim", SC_KEY_COUNT, 128, false },
    { "index_n_heads", SC_KEY_COUNT, 64, false },
    { "index_topk", SC_KEY_COUNT, 2048, false },
    { "first_k_dense_replace", SC_KEY_COUNT, 3, false },
    { "mlp_layer_types", SC_KEY_MLPS, 0, false },
    { "mlp_bias", SC_KEY_NOTHING, 0, false }, /* no module reads it */
    { "moe_intermediate_size", SC_KEY_COUNT, 2048, false },
    { "n_shared_experts", SC_KEY_COUNT, 1, false },
    { "n_routed_experts", SC_KEY_COUNT, 256, false },
    { "num_local_experts", SC_KEY_NOTHING, 0, false }, /* its other names */
    { "num_experts", SC_KEY_NOTHING, 0, false },
    { "num_experts_per_tok", SC_KEY_COUNT, 8, false },
    { "norm_topk_prob", SC_KEY_FLAG, 1, false },
    { "n_group", SC_KEY_COUNT, 8, false },
    { "topk_group", SC_KEY_COUNT, 4, false },
    { "routed_scaling_factor", SC_KEY_REAL, 2.5, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "n_routed_experts", "num_local_experts" },
    { "n_routed_experts", "num_experts" },
    { NULL, NULL },
};

const sc_family sc_family_deepseek_v32 = {
    .model_type = "deepseek_v32",
    .hidden_size = 7168,
    .num_hidden_layers = 61,
    .num_attention_heads = 128,
    .num_key_value_heads = 128,
    .head_dim = 64,
    .head_dim_key = "qk_rope_head_dim",
    .max_position_embeddings = 163840,
    .period = SC_NEVER,
    .others = SC_INDEXED_ATTENTION,
    .widths = sc_widths_indexed,
    .build = build,
    .builds = 1u << SC_INDEXED_ATTENTION,
    .alias = aliases,
    .vocab_size = 129280,
    .intermediate_size = 18432,
    .bos_token_id = 0,
    .eos_token_id = 1,
    .attention_bias = true,
    .key = keys,
};
