/*
 * families.h - the model families: what each config class defaults to, and who builds its graph.
 *
 * One row of the table in families.c and one small builder in families/ make a family.
 *
 * Source  transformers src/transformers/models/<family>/configuration_<family>.py: the defaults;
 *         modeling_<family>.py: biases and norms. docs/adding-a-family.md: how to add one.
 */
#ifndef SC_FAMILIES_H
#define SC_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "graph.h"

enum { SC_NULL = -1 }; /* a default that is null: another thing than zero */

/* How layer_types comes about when the file gives none. */
typedef enum {
    SC_RULE_WINDOW,           /* all sliding where sliding_window is not null */
    SC_RULE_MAX_WINDOW_LAYERS /* use_sliding_window, and from layer max_window_layers on */
} sc_layer_rule;

struct sc_family {
    const char *model_type;
    sc_layer_rule rule;
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim; /* the last two may be SC_NULL */
    int64_t max_position_embeddings;
    int64_t sliding_window; /* SC_NULL: none */
    int64_t bos_token_id, eos_token_id;
    bool attention_bias, mlp_bias; /* the class has this key; its default is false everywhere */
    bool gelu;                     /* hidden_act may be gelu or gelu_pytorch_tanh */
    /* Adds ropes and layers to a graph whose other fields are set. */
    int (*build)(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err);
};

/* The family of that model_type, NULL: unknown. */
const sc_family *sc_family_find(const char *model_type);
/* The i-th family in the table's order, NULL past the last. */
const sc_family *sc_family_at(size_t i);

int sc_build_llama(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err);
int sc_build_mistral(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err);
int sc_build_qwen2(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err);
int sc_build_qwen3(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err);

#endif
