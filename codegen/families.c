/* families.c - the table of families; see families.h. */
#include "families.h"

#include <string.h>

static const sc_family families[] = {
    {
        .model_type = "llama",
        .rule = SC_RULE_WINDOW,
        .vocab_size = 32000,
        .hidden_size = 4096,
        .intermediate_size = 11008,
        .num_hidden_layers = 32,
        .num_attention_heads = 32,
        .num_key_value_heads = SC_NULL,
        .head_dim = SC_NULL,
        .max_position_embeddings = 2048,
        .sliding_window = SC_NULL,
        .bos_token_id = 1,
        .eos_token_id = 2,
        .attention_bias = true,
        .mlp_bias = true,
        .build = sc_build_llama,
    },
    {
        .model_type = "mistral",
        .rule = SC_RULE_WINDOW,
        .vocab_size = 32000,
        .hidden_size = 4096,
        .intermediate_size = 14336,
        .num_hidden_layers = 32,
        .num_attention_heads = 32,
        .num_key_value_heads = 8,
        .head_dim = SC_NULL,
        .max_position_embeddings = 131072,
        .sliding_window = 4096,
        .bos_token_id = 1,
        .eos_token_id = 2,
        .build = sc_build_mistral,
    },
    {
        .model_type = "qwen2",
        .rule = SC_RULE_MAX_WINDOW_LAYERS,
        .vocab_size = 151936,
        .hidden_size = 4096,
        .intermediate_size = 22016,
        .num_hidden_layers = 32,
        .num_attention_heads = 32,
        .num_key_value_heads = 32,
        .head_dim = SC_NULL,
        .max_position_embeddings = 32768,
        .sliding_window = 4096,
        .bos_token_id = SC_NULL,
        .eos_token_id = SC_NULL,
        .build = sc_build_qwen2,
    },
    {
        .model_type = "qwen3",
        .rule = SC_RULE_MAX_WINDOW_LAYERS,
        .vocab_size = 151936,
        .hidden_size = 4096,
        .intermediate_size = 22016,
        .num_hidden_layers = 32,
        .num_attention_heads = 32,
        .num_key_value_heads = 32,
        .head_dim = 128,
        .max_position_embeddings = 32768,
        .sliding_window = 4096,
        .bos_token_id = SC_NULL,
        .eos_token_id = SC_NULL,
        .attention_bias = true,
        .build = sc_build_qwen3,
    },
};

const sc_family *sc_family_at(size_t i) {
    return i < sizeof families / sizeof *families ? &families[i] : NULL;
}

const sc_family *sc_family_find(const char *model_type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].model_type, model_type))
            return &families[i];
    return NULL;
}
