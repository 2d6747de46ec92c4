/* gpt2.c - every layer is full. Files hold the sizes under GPT-2's names. */
#include "../families.h"
#include "../graph_build.h"

static const sc_alias aliases[] = {
    { "hidden_size", "n_embd" },
    { "max_position_embeddings", "n_positions" },
    { "num_attention_heads", "n_head" },
    { "num_hidden_layers", "n_layer" },
    { NULL, NULL },
};

/* A slice of c_attn, [in, 3 * hidden] as Conv1D has it, and of its bias. */
static sc_part slice(sc_builder *b, const char *name, int i) {
    const int64_t hidden = b->graph->hidden;
    sc_part part = sc_build_rows(b, name, hidden, 3 * hidden);
    part.transposed = true;
    part.first = i * hidden;
    return part;
}

static sc_part bias_slice(sc_builder *b, const char *name, int i) {
    sc_part part = sc_build_vector(b, name, 3 * b->graph->hidden);
    part.rows = b->graph->hidden;
    part.first = i * part.rows;
    return part;
}

static void onto(sc_builder *b, sc_span x, int64_t in, const char *module, const char *field) {
    sc_build_linear(b, x, in, b->x,
                    &(sc_linear_spec){ .field = field,
                                       .module = { module },
                                       .out = { b->graph->hidden },
                                       .bias = true,
                                       .transposed = true,
                                       .add = true });
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden;
    const int64_t ffn = sc_build_width(b, "n_inner");
    const bool by_layer = sc_build_flag(b, "scale_attn_by_inverse_layer_idx");
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "transformer.wte.weight", 1);
    sc_build_positions(b, "transformer.wpe.weight", c->max_position_embeddings, 0);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "transformer.h.", i);
        const sc_span normed = sc_build_normed(b, "ln_1");
        sc_part part[3], bias[3];
        for (int k = 0; k < 3; k++) {
            part[k] = slice(b, "attn.c_attn.weight", k);
            bias[k] = bias_slice(b, "attn.c_attn.bias", k);
        }
        const sc_span qkv = sc_build_linear(
            b, normed, hidden, sc_build_value(b, "qkv", 3 * hidden),
            &(sc_linear_spec){
                .field = "qkv_proj", .part = part, .bias_part = bias, .parts = 3, .bias = true });
        sc_attention *a = sc_build_attention(b, qkv, -1);
        if (sc_config_key(c, "scale_attn_weights")->number < 1)
            a->scale = 1;
        if (by_layer)
            a->scale /= (float)(i + 1);
        onto(b, a->out, hidden, "attn.c_proj", "o_proj");
        const sc_span up =
            sc_build_linear(b, sc_build_normed(b, "ln_2"), hidden, sc_build_value(b, "ffn", ffn),
                            &(sc_linear_spec){ .module = { "mlp.c_fc" },
                                               .out = { ffn },
                                               .bias = true,
                                               .transposed = true,
                                               .act = c->hidden_act });
        onto(b, up, ffn, "mlp.c_proj", "down_proj");
    }
    sc_build_finish(b, "transformer.ln_f", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "n_inner", SC_KEY_COUNT, SC_NULL, false },
    { "scale_attn_weights", SC_KEY_FLAG, 1, false },
    { "scale_attn_by_inverse_layer_idx", SC_KEY_FLAG, 0, false },
    { "add_cross_attention", SC_KEY_FIXED, 0, false },
    { .key = NULL },
};

const sc_family sc_family_gpt2 = {
    .model_type = "gpt2",
    .alias = aliases,
    .hidden_size = 768,
    .num_hidden_layers = 12,
    .num_attention_heads = 12,
    .max_position_embeddings = 1024,
    .head_dim_computed = true,
    .build = build,
    .vocab_size = 50257,
    .bos_token_id = 50256,
    .eos_token_id = 50256,
    .hidden_act = "gelu_new",
    .act_key = "activation_function",
    .eps = 1e-5,
    .eps_key = "layer_norm_epsilon",
    .tied = true,
    .no_rope = true,
    .key = keys,
};
