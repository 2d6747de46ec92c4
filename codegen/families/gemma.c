/* gemma.c - llama's shape; norms times 1 + weight, the embedding times sqrt(hidden_size). */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"

static void build(sc_builder *b) {
    b->norm.plus = 1;
    const bool bias = b->config->attention_bias;
    const sc_decoder_shape shape = { .qkv_bias = bias,
                                     .o_bias = bias,
                                     .embed_scale = sqrtf((float)b->graph->hidden) };
    sc_build_decoder(b, &shape);
}

static const sc_key keys[] = {
    { "use_bidirectional_attention", SC_KEY_FIXED, 0, true },
    { .key = NULL },
};

const sc_family sc_family_gemma = {
    .model_type = "gemma",
    .hidden_size = 3072,
    .num_hidden_layers = 28,
    .num_attention_heads = 16,
    .num_key_value_heads = 16,
    .head_dim = 256,
    .max_position_embeddings = 8192,
    .build = build,
    .vocab_size = 256000,
    .intermediate_size = 24576,
    .bos_token_id = 2,
    .eos_token_id = 1,
    .hidden_act = "gelu_pytorch_tanh",
    .tied = true,
    .attention_bias = true,
    .key = keys,
};
