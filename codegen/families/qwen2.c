/* qwen2.c - Qwen2ForCausalLM: bias on q, k and v, always; none on o. */
#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    const sc_decoder_shape shape = { .qkv_bias = true };
    sc_build_decoder(b, &shape);
}

const sc_family sc_family_qwen2 = {
    .model_type = "qwen2",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 32,
    .head_dim = SC_NULL,
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
};
