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

/* Rows of q (i 0), k or v of a tensor that holds them head by head. */
static sc_part slice(sc_builder *b, const char *name, int i) {
    const int64_t hidden = b->graph->hidden, dim = b->config->head_dim;
    sc_part part = sc_build_rows(b, name, 3 * hidden, hidden);
    part.rows = hidden;
    part.first = i * dim;
    part.run = dim;
    part.stride = 3 * dim;
    return part;
}

static sc_part bias_slice(sc_builder *b, const char *name, int i) {
    sc_part part = slice(b, name, i);
    part.rank = 1;
    return part;
}

static sc_span qkv_of(sc_builder *b, sc_span x, const char *weight, const char *bias_name) {
    sc_part part[3], bias[3];
    for (int k = 0; k < 3; k++) {
        part[k] = slice(b, weight, k);
        bias[k] = bias_slice(b, bias_name, k);
    }
    return sc_build_linear(
        b, x, b->graph->hidden, sc_build_value(b, "qkv", 3 * b->graph->hidden),
        &(sc_linear_spec){
            .field = "qkv_proj", .part = part, .bias_part = bias, .parts = 3, .bias = true });
}

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

static void build(sc_builder *b) {
    const int64_t hidden = b->graph->hidden, ffn = 4 * hidden;
    const float *slope = slopes(b);
    b->norm.layer_norm = b->norm.bias = true;
    if (sc_config_key(b->config, "apply_residual_connection_post_layernorm")->number > 0)
        b->rc = sc_fail(b->err, SC_EINPUT,
                        "%s: apply_residual_connection_post_layernorm: true is not supported "
                        "(export --only cache)",
                        b->config->path);
    sc_build_embedding(b, "transformer.word_embeddings.weight", 1);
    sc_build_norm(b, b->x, "transformer.word_embeddings_layernorm", hidden, b->x);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "transformer.h.", i);
        const sc_span qkv =
            qkv_of(b, sc_build_normed(b, "input_layernorm"),
                   "self_attention.query_key_value.weight", "self_attention.query_key_value.bias");
        sc_attention *a = sc_build_attention(b, qkv, -1);
        a->alibi = slope;
        sc_build_onto(b, a->out, hidden, "self_attention.dense", true, 1);
        const sc_span up = sc_build_plain(b, sc_build_normed(b, "post_attention_layernorm"), ffn,
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
