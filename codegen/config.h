/*
 * config.h - config.json (or what a GGUF's metadata says in its words): JSON -> sc_config.
 *
 * Fields keep config.json's keys. A key that is absent takes the default of its model_type's config
 * class in transformers 5; null stays null; both are other things than zero. Where each value came
 * from is kept for `inspect`. A key that changes the arithmetic and is not understood is an error.
 *
 * Source  transformers src/transformers/models/<family>/configuration_<family>.py.
 */
#ifndef SC_CONFIG_H
#define SC_CONFIG_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pool.h"

typedef struct {
    const char *key, *value, *from; /* from: "config.json", "default of qwen3", "rule: …" */
} sc_config_entry;

typedef struct sc_family sc_family; /* families.h */

typedef struct {
    const char *path; /* file, for messages */
    const char *model_type;
    const sc_family *family;
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t max_position_embeddings;
    int64_t sliding_window;   /* 0: null, no window */
    const char **layer_types; /* [num_hidden_layers], "full_attention" | "sliding_attention" */
    const char *hidden_act;
    double rms_norm_eps;
    bool tie_word_embeddings, attention_bias, mlp_bias;
    const char *dtype; /* "float32", "bfloat16", "float16": of the checkpoint */
    struct {
        const char *rope_type; /* default, linear, llama3 */
        double rope_theta, factor, low_freq_factor, high_freq_factor;
        int64_t original_max_position_embeddings;
        int64_t freq_factors;     /* GGUF's rope_freqs: count, 0 = none */
        const float *freq_factor; /* inv_freq[i] /= freq_factor[i] */
    } rope;
    int eos_count;
    int64_t eos_token_id[16];
    int64_t bos_token_id; /* -1: null */
    int entries;
    sc_config_entry *entry; /* every value, in reading order, with its origin */
    int notes;
    const char *
        *note; /* what inspect and export should say: "sliding_window 4096 is not used: …" */
} sc_config;

/* From a parsed object. generation (generation_config.json, may be NULL) wins for eos_token_id. */
int sc_config_make(sc_config **config, sc_pool *pool, const char *path, const cJSON *json,
                   const cJSON *generation, sc_error *err);

#endif
