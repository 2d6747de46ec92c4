/* smollm3.c - layers without rope slide, if use_sliding_window. */
#include "../families.h"
#include "../graph_build.h"

static void types(sc_reader *r) {
    const bool use = sc_read_flag(r, "use_sliding_window", false) && r->config->sliding_window;
    sc_types_by_rope(r, SC_FULL_ATTENTION, use ? SC_SLIDING_ATTENTION : SC_FULL_ATTENTION, false);
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const sc_decoder_shape shape = { .qkv_bias = c->attention_bias,
                                     .o_bias = c->attention_bias,
                                     .mlp_bias = c->mlp_bias };
    sc_build_decoder(b, &shape);
}

const sc_family sc_family_smollm3 = {
    .model_type = "smollm3",
    .hidden_size = 2048,
    .num_hidden_layers = 36,
    .num_attention_heads = 16,
    .num_key_value_heads = 4,
    .max_position_embeddings = 32768,
    .sliding_window = SC_NULL,
    .kv_heads_null = true,
    .types = types,
    .build = build,
    .vocab_size = 128256,
    .intermediate_size = 11008,
    .bos_token_id = 128000,
    .eos_token_id = 128001,
    .tied = true,
    .rope_theta = 2000000,
    .attention_bias = true,
    .mlp_bias = true,
};
