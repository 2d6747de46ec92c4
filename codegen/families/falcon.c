/* falcon.c - every layer is full; multi_query shares one key/value head among all. */
#include "../families.h"
#include "../graph_build.h"

/* FalconAttention: one shared head, or, after the groups are spread over the queries, all. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    if (sc_read_item(r, "head_dim"))
        sc_read_fail(r, "head_dim", "falcon computes it, hidden_size / num_attention_heads");
    const bool grouped = sc_read_flag(r, "new_decoder_architecture", false);
    const bool shared = !grouped && sc_read_flag(r, "multi_query", true);
    if (!shared)
        return;
    c->num_key_value_heads = 1;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].kv_heads = 1;
    sc_read_record_count(r, "num_key_value_heads", 1, "rule: multi_query");
}

static const sc_alias aliases[] = {
    { "hidden_size", "n_embed" },
    { NULL, NULL },
};

/* Rows of query_key_value, which has groups of some query heads, a key and a value head, or of its
 * bias; from row first of the first group on, run of each, or of one group. */
static sc_part slice(sc_builder *b, bool bias, int64_t group, int64_t first, int64_t run,
                     int64_t rows) {
    const int64_t dim = b->config->head_dim, all = group + 2;
    const int64_t groups = b->config->num_attention_heads / group;
    sc_part part = sc_build_rows(
        b, bias ? "self_attention.query_key_value.bias" : "self_attention.query_key_value.weight",
        all * groups * dim, b->graph->hidden);
    part.rank = bias ? 1 : 2;
    part.rows = rows * dim;
    part.first = first * dim;
    part.run = run * dim;
    part.stride = all * dim;
    return part;
}

/* q, k, v. The new architecture's cache has a key and a value of every query head, as the reference
 * spreads those of a group over its heads before it keeps them. */
static int slices(sc_builder *b, bool bias, int64_t group, sc_part *part) {
    const int64_t heads = b->config->num_attention_heads;
    const int64_t kept = b->config->layer[b->layer].kv_heads;
    int parts = 0;
    part[parts++] = slice(b, bias, group, 0, group, heads);
    for (int64_t kv = 0; kv < 2; kv++)
        for (int64_t head = 0; head < kept; head++)
            part[parts++] =
                slice(b, bias, group, head * heads / kept / group * (group + 2) + group + kv, 1, 1);
    return parts;
}

/* Query heads on one key and value head. */
static int64_t group_of(const sc_builder *b) {
    const int64_t heads = b->config->num_attention_heads;
    const double kv = sc_config_key(b->config, "num_kv_heads")->number;
    if (sc_build_flag(b, "new_decoder_architecture"))
        return kv > 0 && heads % (int64_t)kv == 0 ? heads / (int64_t)kv : 1;
    return sc_build_flag(b, "multi_query") ? heads : 1;
}

static sc_span qkv_of(sc_builder *b, sc_span x) {
    const int64_t heads = b->config->num_attention_heads, group = group_of(b);
    const int64_t kept = b->config->layer[b->layer].kv_heads;
    sc_part *part = sc_pool_alloc(b->pool, (size_t)(4 * heads + 2), sizeof *part);
    if (!part) {
        b->rc = sc_oom(b->err, "building the graph");
        return x;
    }
    const int parts = slices(b, false, group, part);
    slices(b, true, group, part + parts);
    return sc_build_linear(b, x, b->graph->hidden,
                           sc_build_value(b, "qkv", (heads + 2 * kept) * b->config->head_dim),
                           &(sc_linear_spec){ .field = "qkv_proj",
                                              .part = part,
                                              .bias_part = part + parts,
                                              .parts = parts,
                                              .bias = sc_build_flag(b, "bias") });
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden;
    const int64_t ffn = sc_build_width(b, "ffn_hidden_size");
    const bool bias = sc_build_flag(b, "bias"),
               grouped = sc_build_flag(b, "new_decoder_architecture");
    const double norms = sc_config_key(c, "num_ln_in_parallel_attn")->number;
    const bool two = grouped && (norms < 0 || norms > 1);
    const bool parallel = grouped || sc_build_flag(b, "parallel_attn");
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "transformer.word_embeddings.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "transformer.h.", i);
        const int rope = sc_build_rope(b, c->head_dim);
        const sc_span normed = sc_build_normed(b, two ? "ln_attn" : "input_layernorm");
        sc_span second = normed;
        if (two) {
            second = sc_build_value(b, "normed_for_mlp", hidden);
            sc_build_norm(b, b->x, "ln_mlp", hidden, second);
        }
        const sc_span attended = sc_build_attention(b, qkv_of(b, normed), rope)->out;
        sc_build_onto(b, attended, hidden, "self_attention.dense", bias, 1);
        if (!parallel)
            second = sc_build_normed(b, "post_attention_layernorm");
        const sc_span up = sc_build_plain(b, second, ffn, "mlp.dense_h_to_4h", bias);
        sc_build_onto(b, up, ffn, "mlp.dense_4h_to_h", bias, 1);
    }
    sc_build_finish(b, "transformer.ln_f", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "ffn_hidden_size", SC_KEY_COUNT, SC_NULL, false },
    { "bias", SC_KEY_FLAG, 0, false },
    { "new_decoder_architecture", SC_KEY_FLAG, 0, false },
    { "parallel_attn", SC_KEY_FLAG, 1, false },
    { "multi_query", SC_KEY_FLAG, 1, false },
    { "alibi", SC_KEY_FIXED, 0, false },
    { "num_kv_heads", SC_KEY_COUNT, SC_NULL, false },
    { "num_ln_in_parallel_attn", SC_KEY_COUNT, SC_NULL, false },
    { .key = NULL },
};

const sc_family sc_family_falcon = {
    .model_type = "falcon",
    .alias = aliases,
    .hidden_size = 4544,
    .num_hidden_layers = 32,
    .num_attention_heads = 71,
    .num_key_value_heads = 0,
    .max_position_embeddings = 2048,
    .widths = widths,
    .build = build,
    .vocab_size = 65024,
    .bos_token_id = 11,
    .eos_token_id = 11,
    .hidden_act = "gelu",
    .act_key = "activation",
    .eps = 1e-5,
    .eps_key = "layer_norm_epsilon",
    .tied = true,
    .key = keys,
};
