/* qwen3.c - Qwen3ForCausalLM: q_norm and k_norm per head; attention_bias on q, k, v and o. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_decoder_shape shape = { .qkv_bias = b->config->attention_bias,
                                     .o_bias = b->config->attention_bias,
                                     .qk_norm = true };
    sc_build_decoder(b, &shape);
}

const sc_family sc_family_qwen3 = {
    .model_type = "qwen3",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 32,
    .head_dim = 128,
    .max_position_embeddings = 32768,
    .sliding_window = 4096,
    .kv_heads_null = true,
    .window_switch = true,
    .types = sc_types_max_window_layers,
    .build = build,
    .vocab_size = 151936,
    .intermediate_size = 22016,
    .bos_token_id = SC_NULL,
    .eos_token_id = SC_NULL,
    .attention_bias = true,
};
