/* opt.c - every layer is full. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden, ffn = c->intermediate_size;
    const double width = sc_config_key(c, "word_embed_proj_dim")->number;
    const bool bias = sc_build_flag(b, "enable_bias"),
               before = sc_build_flag(b, "do_layer_norm_before");
    b->norm.layer_norm = b->norm.bias = true;
    if (width > 0 && (int64_t)width != hidden)
        sc_build_fail(b, "word_embed_proj_dim",
                      "%g beside hidden_size %lld is not supported (export --only cache)", width,
                      (long long)hidden);
    sc_build_embedding(b, "model.decoder.embed_tokens.weight", 1);
    /* The table begins with two rows that no position has. */
    sc_build_positions(b, "model.decoder.embed_positions.weight", c->max_position_embeddings, 2);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.decoder.layers.", i);
        sc_span x = before ? sc_build_normed(b, "self_attn_layer_norm") : b->x;
        const sc_span attended = sc_build_self_attention(b, x, bias, false, -1)->out;
        sc_build_onto(b, attended, hidden, "self_attn.out_proj", bias, 1);
        if (!before)
            sc_build_norm(b, b->x, "self_attn_layer_norm", hidden, b->x);
        x = before ? sc_build_normed(b, "final_layer_norm") : b->x;
        sc_build_onto(b, sc_build_plain(b, x, ffn, "fc1", bias), ffn, "fc2", bias, 1);
        if (!before)
            sc_build_norm(b, b->x, "final_layer_norm", hidden, b->x);
    }
    if (before && !sc_build_flag(b, "_remove_final_layer_norm")) {
        sc_build_finish(b, "model.decoder.final_layer_norm", "lm_head.weight", false);
        return;
    }
    sc_build_last(b);
    sc_build_head(b, b->x, "lm_head.weight", false);
}

static const sc_alias aliases[] = {
    { "intermediate_size", "ffn_dim" },
    { NULL, NULL },
};

static const sc_key keys[] = {
    { "word_embed_proj_dim", SC_KEY_COUNT, SC_NULL, false },
    { "enable_bias", SC_KEY_FLAG, 1, false },
    { "do_layer_norm_before", SC_KEY_FLAG, 1, false },
    { "layer_norm_elementwise_affine", SC_KEY_FIXED, 1, false },
    { "_remove_final_layer_norm", SC_KEY_FLAG, 0, false },
    { .key = NULL },
};

const sc_family sc_family_opt = {
    .model_type = "opt",
    .hidden_size = 768,
    .num_hidden_layers = 12,
    .num_attention_heads = 12,
    .max_position_embeddings = 2048,
    .head_dim_computed = true,
    .build = build,
    .alias = aliases,
    .vocab_size = 50272,
    .intermediate_size = 3072,
    .bos_token_id = 2,
    .eos_token_id = 2,
    .hidden_act = "relu",
    .act_key = "activation_function",
    .eps = 1e-5,
    .eps_key = "layer_norm_eps",
    .tied = true,
    .no_rope = true,
    .key = keys,
};
