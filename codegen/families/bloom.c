/* bloom.c - every layer is full. Old files say n_embed. */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"

static const sc_alias aliases[] = {
    { "num_hidden_layers", "n_layer" },
    { "num_attention_heads", "n_head" },
    { "hidden_size", "n_embed" },
    { NULL, NULL },
};

/* Slopes of ALiBi (Press 2021): powers of one base for a power of two of heads, those of twice as
 * many in between for the rest. */
static const float *slopes(sc_builder *b) {
    const int64_t heads = b->config->num_attention_heads;
    float *slope = sc_pool_alloc(b->pool, (size_t)heads, sizeof *slope);
    int64_t whole = 1;
    while (2 * whole <= heads)
        whole *= 2;
    for (int64_t i = 0; slope && i < heads; i++)
        slope[i] = i < whole ? (float)pow(2, -8.0 * (double)(i + 1) / (double)whole)
                             : (float)pow(2, -4.0 * (double)(2 * (i - whole) + 1) / (double)whole);
    if (!slope)
        b->rc = sc_oom(b->err, "building the graph");
    return slope;
}

/* The norm of the residual stream, which takes its place where the config wants it so. */
static sc_span normed(sc_builder *b, const char *module) {
    const sc_span norm = sc_build_normed(b, module);
    if (sc_build_flag(b, "apply_residual_connection_post_layernorm"))
        sc_build_times(b, norm, 1, b->graph->hidden, b->x);
    return norm;
}

static void build(sc_builder *b) {
    const int64_t hidden = b->graph->hidden, ffn = 4 * hidden;
    const float *slope = slopes(b);
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "transformer.word_embeddings.weight", 1);
    sc_build_norm(b, b->x, "transformer.word_embeddings_layernorm", hidden, b->x);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "transformer.h.", i);
        const sc_span qkv = sc_build_qkv_by_head(b, normed(b, "input_layernorm"),
                                                 "self_attention.query_key_value", true);
        sc_attention *a = sc_build_attention(b, qkv, -1);
        a->alibi = slope;
        sc_build_onto(b, a->out, hidden, "self_attention.dense", true, 1);
        const sc_span up = sc_build_plain(b, normed(b, "post_attention_layernorm"), ffn,
                                          "mlp.dense_h_to_4h", true);
        sc_build_onto(b, up, ffn, "mlp.dense_4h_to_h", true, 1);
    }
    sc_build_finish(b, "transformer.ln_f", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "apply_residual_connection_post_layernorm", SC_KEY_FLAG, 0, false },
    { .key = NULL },
};

const sc_family sc_family_bloom = {
    .model_type = "bloom",
    .alias = aliases,
    .hidden_size = 64,
    .num_hidden_layers = 2,
    .num_attention_heads = 8,
    .head_dim_computed = true,
    .build = build,
    .vocab_size = 250880,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .hidden_act = "gelu_new",
    .eps = 1e-5,
    .eps_key = "layer_norm_epsilon",
    .tied = true,
    .no_rope = true,
    .key = keys,
};
