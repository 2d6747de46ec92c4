/*
 * families.h - what a model_type is: the defaults of its config class and the builder of its Graph.
 *
 * A new family is one file in families/ and one line in families.c.
 * Source  transformers src/transformers/models/<family>/configuration_<family>.py.
 */
#ifndef SC_FAMILIES_H
#define SC_FAMILIES_H

#include "graph.h"

/* How layer_types come about when the config has none. */
typedef enum {
    SC_LAYERS_BY_WINDOW,    /* sliding wherever sliding_window is not null */
    SC_LAYERS_FROM_MAX_WINDOW /* use_sliding_window: sliding from layer max_window_layers on */
} sc_layer_rule;

struct sc_family {
    const char *model_type;
    sc_layer_rule layer_rule;
    int64_t num_key_value_heads; /* default; 0: null, as many as heads */
    int64_t head_dim;            /* default; 0: hidden_size / num_attention_heads */
    int64_t sliding_window;      /* default; 0: null */
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t max_position_embeddings;
    double rms_norm_eps;
    bool attention_bias_key, mlp_bias_key; /* does the family know the key? */
    int (*build)(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err);
};

/* NULL: unknown. */
const sc_family *sc_family_find(const char *model_type);
/* "llama, mistral, qwen2, qwen3": for messages. */
const char *sc_family_names(void);

extern const sc_family sc_family_llama, sc_family_mistral, sc_family_qwen2, sc_family_qwen3;

#endif
