/* starcoder2.c - sliding where the file has a sliding_window. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const bool bias = sc_build_flag(b, "use_bias");
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span attended =
            sc_build_self_attention(b, sc_build_normed(b, "input_layernorm"), bias, false, rope)
                ->out;
        sc_build_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", bias, 1);
        const sc_span normed = sc_build_normed(b, "post_attention_layernorm");
        sc_build_onto(b, sc_build_plain(b, normed, ffn, "mlp.c_fc", bias), ffn, "mlp.c_proj", bias,
                      1);
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "use_bias", SC_KEY_FLAG, 1, false },
    { .key = NULL },
};

const sc_family sc_family_starcoder2 = {
    .model_type = "starcoder2",
    .hidden_size = 3072,
    .num_hidden_layers = 30,
    .num_attention_heads = 24,
    .num_key_value_heads = 2,
    .max_position_embeddings = 4096,
    .sliding_window = SC_NULL,
    .build = build,
    .vocab_size = 49152,
    .intermediate_size = 12288,
    .bos_token_id = 50256,
    .eos_token_id = 50256,
    .hidden_act = "gelu_pytorch_tanh",
    .eps = 1e-5,
    .eps_key = "norm_epsilon",
    .tied = true,
    .key = keys,
};
