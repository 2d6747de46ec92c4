/* deepseek_v3.c - latent attention: the cache holds what keys and values are made from. The first
 * layers have one MLP, the others a shared one beside a mixture whose experts are chosen by group.
 */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"
#include "../rope.h"

/* Norms inside attention have DeepseekV3RMSNorm's own eps, whatever the config says. */
static void norm_inside(sc_builder *b, sc_span x, const char *module, int64_t width) {
    sc_build_norm(b, x, module, width, x)->f[0] = 1e-6f;
}

/* Rows of kv_b_proj, head by head nope of keys, then v of values. Keys' are taken to the query's
 * side, [rank, nope] of each head; values' stay as they are, [v, rank]. */
static sc_span per_head(sc_builder *b, sc_span x, int64_t x_step, bool keys, sc_span y) {
    const sc_config *c = b->config;
    const int64_t heads = c->num_attention_heads, rank = sc_build_kv(b)->head_dim;
    const int64_t nope = sc_build_count(b, "qk_nope_head_dim");
    const int64_t v = sc_build_count(b, "v_head_dim");
    sc_part *part = sc_pool_alloc(b->pool, (size_t)heads, sizeof *part);
    if (!part) {
        if (!b->rc)
            b->rc = sc_oom(b->err, "building the graph");
        return y;
    }
    for (int64_t h = 0; h < heads; h++) {
        part[h] = sc_build_rows(b, "self_attn.kv_b_proj.weight", heads * (nope + v), rank);
        part[h].rows = keys ? rank : v;
        part[h].transposed = keys;
        *(keys ? &part[h].in_first : &part[h].first) = h * (nope + v) + (keys ? 0 : nope);
    }
    return sc_build_linear(b, x, keys ? nope : rank, y,
                           &(sc_linear_spec){ .field = keys ? "k_b_proj" : "v_b_proj",
                                              .part = part,
                                              .parts = (int)heads,
                                              .blocks = (int)heads,
                                              .x_step = x_step,
                                              .y_step = keys ? rank : v });
}

/* What q is made of: x, or its low-rank form. */
static sc_span low_rank(sc_builder *b, sc_span x, int64_t rank) {
    const sc_span low = sc_build_linear(b, x, b->graph->hidden, sc_build_value(b, "q_low", rank),
                                        &(sc_linear_spec){ .module = { "self_attn.q_a_proj" },
                                                           .out = { rank },
                                                           .bias = b->config->attention_bias });
    norm_inside(b, low, "self_attn.q_a_layernorm", rank);
    return low;
}

static sc_span turned(sc_builder *b, sc_span x, int64_t heads, int64_t step, bool interleaved,
                      sc_span y) {
    const int64_t width = sc_build_kv(b)->v_head_dim;
    const int rope = sc_build_rope(b, width);
    sc_row_op *row = sc_build_row(b, SC_ROW_ROPE, x, sc_nowhere, y);
    row->n[0] = heads;
    row->n[1] = step;
    row->n[2] = width;
    row->n[3] = interleaved;
    row->rope = rope;
    return y;
}

void sc_build_latent_attention(sc_builder *b, sc_span x, bool interleaved,
                               sc_build_indexer *index) {
    const sc_config *c = b->config;
    const int64_t heads = c->num_attention_heads, hidden = b->graph->hidden;
    const int64_t rank = sc_build_kv(b)->head_dim, rope = sc_build_kv(b)->v_head_dim;
    const int64_t nope = sc_build_count(b, "qk_nope_head_dim"), dim = nope + rope;
    const int64_t v = sc_build_count(b, "v_head_dim");
    const int64_t q_rank = sc_build_count(b, "q_lora_rank");
    const bool low = q_rank > 0;
    const sc_span from = low ? low_rank(b, x, q_rank) : x;
    const sc_span q = sc_build_linear(
        b, from, low ? q_rank : hidden, sc_build_value(b, "q", heads * dim),
        &(sc_linear_spec){ .module = { low ? "self_attn.q_b_proj" : "self_attn.q_proj" },
                           .out = { heads * dim } });
    const sc_span kv =
        sc_build_linear(b, x, hidden, sc_build_value(b, "kv", rank + rope),
                        &(sc_linear_spec){ .module = { "self_attn.kv_a_proj_with_mqa" },
                                           .out = { rank + rope },
                                           .bias = c->attention_bias });
    norm_inside(b, kv, "self_attn.kv_a_layernorm", rank);
    const sc_span k_rope =
        turned(b, sc_build_at(kv, rank), 1, rope, interleaved, sc_build_value(b, "k_rope", rope));
    const sc_span q_rope = turned(b, sc_build_at(q, nope), heads, dim, interleaved,
                                  sc_build_value(b, "q_rope", heads * rope));
    const sc_span q_latent = per_head(b, q, dim, true, sc_build_value(b, "q_latent", heads * rank));
    const sc_span latent = sc_build_value(b, "attended_latent", heads * rank);
    if (index)
        index(b, x, from);
    sc_attention *a = sc_build_attention(b, q_latent, -1);
    a->scale = (float)(sc_rope_score_scale(&c->rope) / sqrt((double)dim));
    a->latent = true;
    a->indexed = index != NULL;
    a->q_rope = q_rope;
    a->k = kv;
    a->v = k_rope;
    a->out = latent;
    const sc_span attended =
        per_head(b, latent, rank, false, sc_build_value(b, "attended", heads * v));
    sc_build_onto(b, attended, heads * v, "self_attn.o_proj", c->attention_bias, 1);
}

void sc_build_deepseek_mlp(sc_builder *b, bool sparse) {
    const int64_t ffn = sc_build_count(b, "moe_intermediate_size");
    const int64_t shared = sc_build_count(b, "n_shared_experts");
    const sc_expert_spec experts = {
        .experts = sc_build_count(b, "n_routed_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = ffn,
        .normalise = sc_build_flag(b, "norm_topk_prob"),
        .sigmoid = true,
        .groups = sc_build_count(b, "n_group"),
        .top_groups = sc_build_count(b, "topk_group"),
        .scale = (float)sc_build_number(b, "routed_scaling_factor"),
        .router = "mlp.gate",
        .correction = "mlp.gate.e_score_correction_bias",
        .prefix = "mlp.experts",
        .gate = "gate_proj",
        .up = "up_proj",
        .down = "down_proj",
    };
    const sc_span normed = sc_build_normed(b, "post_attention_layernorm");
    if (!sparse) {
        sc_build_mlp(b, normed, b->config->intermediate_size, "mlp");
        return;
    }
    sc_build_experts(b, normed, &experts);
    if (shared)
        sc_build_mlp(b, normed, shared * ffn, "mlp.shared_experts");
}

static void build(sc_builder *b) {
    const int dense = (int)sc_build_number(b, "first_k_dense_replace");
    const bool interleaved = sc_build_flag(b, "rope_interleave");
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        sc_build_latent_attention(b, sc_build_normed(b, "input_layernorm"), interleaved, NULL);
        sc_build_deepseek_mlp(b, i >= dense);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "q_lora_rank", SC_KEY_COUNT, 1536, true },
    { "qk_nope_head_dim", SC_KEY_COUNT, 128, false },
    { "v_head_dim", SC_KEY_COUNT, 128, false },
    { "rope_interleave", SC_KEY_FLAG, 1, false },
    { "first_k_dense_replace", SC_KEY_COUNT, 3, false },
    { "moe_intermediate_size", SC_KEY_COUNT, 2048, false },
    { "n_shared_experts", SC_KEY_COUNT, 1, false },
    { "n_routed_experts", SC_KEY_COUNT, 256, false },
    { "num_local_experts", SC_KEY_NOTHING, 0, false }, /* its other name */
    { "num_experts_per_tok", SC_KEY_COUNT, 8, false },
    { "norm_topk_prob", SC_KEY_FLAG, 1, false },
    { "n_group", SC_KEY_COUNT, 8, false },
    { "topk_group", SC_KEY_COUNT, 4, false },
    { "routed_scaling_factor", SC_KEY_REAL, 2.5, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "n_routed_experts", "num_local_experts" },
    { NULL, NULL },
};

const sc_family sc_family_deepseek_v3 = {
    .model_type = "deepseek_v3",
    .hidden_size = 7168,
    .num_hidden_layers = 61,
    .num_attention_heads = 128,
    .num_key_value_heads = 128,
    .head_dim = 64,
    .head_dim_key = "qk_rope_head_dim",
    .max_position_embeddings = 4096,
    .kv_heads_null = true,
    .widths = sc_widths_latent,
    .build = build,
    .alias = aliases,
    .vocab_size = 129280,
    .intermediate_size = 18432,
    .bos_token_id = 0,
    .eos_token_id = 1,
    .attention_bias = true,
    .key = keys,
};
