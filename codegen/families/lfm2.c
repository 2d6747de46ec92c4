/* lfm2.c - attention where full_attn_idxs says so, gated short convolutions elsewhere. */
#include "../families.h"
#include "../graph_states.h"
#include "../json.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *list = sc_read_item(r, "full_attn_idxs"), *item;
    if (c->listed)
        return;
    const bool all = !list || cJSON_IsNull(list);
    if (!all && !cJSON_IsArray(list)) {
        sc_read_fail(r, "full_attn_idxs", "is no list");
        return;
    }
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].type = all ? SC_FULL_ATTENTION : SC_CONV;
    if (all)
        return;
    cJSON_ArrayForEach(item, list) {
        int64_t i;
        if (!sc_json_int(item, &i))
            sc_read_fail(r, "full_attn_idxs",
                         sc_pool_printf(r->pool, "%s is no layer", sc_read_quote(r, item)));
        else if (i >= 0 && i < c->num_hidden_layers)
            c->layer[i].type = SC_FULL_ATTENTION;
    }
}

/* Lfm2ShortConv keeps conv_L_cache columns of its input. */
static void widths(sc_reader *r) {
    const int64_t columns = sc_read_count(r, "conv_L_cache", 3, false);
    const sc_state_config state = { .name = "conv_state",
                                    .rank = 2,
                                    .dim = { r->config->hidden_size, columns } };
    sc_states(r, 1, &state);
}

/* Lfm2MLP: what intermediate_size becomes. */
static int64_t ffn_width(sc_builder *b) {
    const int64_t width = b->config->intermediate_size;
    const int64_t multiple = sc_build_count(b, "block_multiple_of");
    const double wanted = sc_build_number(b, "block_ffn_dim_multiplier") * (double)(2 * width / 3);
    if (!sc_build_flag(b, "block_auto_adjust_ff_dim"))
        return width;
    if (multiple >= 1 && wanted >= 1 && wanted <= SC_LARGEST)
        return multiple * (((int64_t)wanted + multiple - 1) / multiple);
    sc_build_fail(b, "block_ffn_dim_multiplier",
                  "with block_multiple_of it makes no width of intermediate_size %lld (set "
                  "block_auto_adjust_ff_dim false)",
                  (long long)width);
    return 1;
}

/* Lfm2ShortConv: b, c and x of one projection; c times the convolution of b times x. */
static void build_conv(sc_builder *b, sc_span normed) {
    const int64_t hidden = b->graph->hidden;
    const bool bias = sc_build_flag(b, "conv_bias");
    const sc_span bcx = sc_build_linear(
        b, normed, hidden, sc_build_value(b, "bcx", 3 * hidden),
        &(sc_linear_spec){ .module = { "conv.in_proj" }, .out = { 3 * hidden }, .bias = bias });
    const sc_span x = sc_build_at(bcx, 2 * hidden);
    const sc_span out = sc_build_value(b, "mixed", hidden);
    sc_build_multiply(b, bcx, x, hidden, x);
    sc_build_conv(b, x, "conv.conv", bias, SC_ACT_NONE, x);
    sc_build_multiply(b, sc_build_at(bcx, hidden), x, hidden, out);
    sc_build_onto(b, out, hidden, "conv.out_proj", bias, 1);
}

static void build_attention(sc_builder *b, sc_span normed) {
    const int64_t head_dim = b->config->head_dim;
    const sc_span qkv = sc_build_qkv(b, normed, false);
    const sc_weight *q = sc_build_floats(b, "self_attn.q_layernorm.weight", head_dim, 0);
    const sc_weight *k = sc_build_floats(b, "self_attn.k_layernorm.weight", head_dim, 0);
    sc_attention *a = sc_build_attention(b, qkv, sc_build_rope(b, head_dim));
    a->q_norm = q;
    a->k_norm = k;
    a->norm_eps = b->norm.eps;
    sc_build_onto(b, a->out, sc_build_attended(b), "self_attn.out_proj", false, 1);
}

static void build(sc_builder *b) {
    const int64_t ffn = ffn_width(b);
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        sc_span normed = sc_build_normed(b, "operator_norm");
        if (b->config->layer[i].type == SC_CONV)
            build_conv(b, normed);
        else
            build_attention(b, normed);
        normed = sc_build_normed(b, "ffn_norm");
        const sc_span gated =
            sc_build_gated(b, normed, ffn, "feed_forward.w1", "feed_forward.w3", false);
        sc_build_onto(b, gated, ffn, "feed_forward.w2", false, 1);
    }
    sc_build_finish(b, "model.embedding_norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "conv_bias", SC_KEY_FLAG, 0, false },
    { "block_auto_adjust_ff_dim", SC_KEY_FLAG, 1, false },
    { "block_ffn_dim_multiplier", SC_KEY_REAL, 1, false },
    { "block_multiple_of", SC_KEY_COUNT, 256, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "intermediate_size", "block_ff_dim" },
    { "tie_word_embeddings", "tie_embedding" },
    { NULL, NULL },
};

const sc_family sc_family_lfm2 = {
    .model_type = "lfm2",
    .hidden_size = 2560,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .max_position_embeddings = 128000,
    .types = types,
    .widths = widths,
    .build = build,
    .builds = 1u << SC_CONV,
    .alias = aliases,
    .vocab_size = 65536,
    .intermediate_size = 12288,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .eps = 1e-5,
    .eps_key = "norm_eps",
    .tied = true,
    .rope_theta = 1000000,
    .key = keys,
};
