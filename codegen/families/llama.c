/* llama.c - LlamaForCausalLM: attention_bias on q, k, v and o, mlp_bias on all three. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_decoder_shape shape = { .qkv_bias = b->config->attention_bias,
                                     .o_bias = b->config->attention_bias,
                                     .mlp_bias = b->config->mlp_bias };
    sc_build_decoder(b, &shape);
}

const sc_family sc_family_llama = {
    .model_type = "llama",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .head_dim = SC_NULL,
    .max_position_embeddings = 2048,
    .build = build,
    .vocab_size = 32000,
    .intermediate_size = 11008,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .attention_bias = true,
    .mlp_bias = true,
};
