/*
 * config.h - config.json (or what a GGUF's metadata says in its words): JSON -> sc_config.
 *
 * Fields keep config.json's keys. A key that is absent takes the default of its model_type's config
 * class in transformers 5; null stays null; both are other things than zero. Where each value came
 * from is kept for `inspect`.
 *
 * Every family's cache is read: the type, widths and states of each layer. Of a family whose graph
 * can be built the rest is read too, strictly: a value that is none is an error; a setting that
 * changes the arithmetic and that we do not do is left in `unsupported`, and no graph is built.
 *
 * Source  transformers src/transformers/models/<family>/configuration_<family>.py;
 *         src/transformers/cache_utils.py, get_layer_types_and_kwargs: layers.
 */
#ifndef SC_CONFIG_H
#define SC_CONFIG_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pool.h"

typedef enum {
    SC_FULL_ATTENTION,
    SC_SLIDING_ATTENTION,
    SC_CHUNKED_ATTENTION,
    SC_INDEXED_ATTENTION,
    SC_CONV,
    SC_LINEAR_ATTENTION,
    SC_HYBRID,
    SC_HYBRID_SLIDING,
    SC_DUMMY,
    SC_LAYER_TYPES
} sc_layer_type;

/* "full_attention", …: the names of config.json. */
const char *sc_layer_type_name(sc_layer_type type);
/* Keys and values of a ring: only the last window (or chunk) tokens. */
bool sc_layer_type_rings(sc_layer_type type);
/* Keys and values at all; states at all. */
bool sc_layer_type_has_kv(sc_layer_type type);
bool sc_layer_type_has_states(sc_layer_type type);

typedef enum {
    SC_ACT_NONE,
    SC_ACT_SILU,
    SC_ACT_GELU,      /* by erf */
    SC_ACT_GELU_TANH, /* "gelu_pytorch_tanh", "gelu_new", "gelu_fast" */
    SC_ACT_RELU,
    SC_ACT_RELU2, /* its square */
    SC_ACTS
} sc_activation;

/* A convolution's last columns or a recurrent state: no sequence dimension. */
typedef struct {
    const char *name; /* "conv_state", "recurrent_state" */
    int index;        /* among the layer's states of that name */
    int rank;
    int64_t dim[3]; /* [rank], after the batch; of a conv_state [channels, columns] */
    bool float32;   /* in any cache; else the cache's dtype */
} sc_state_config;

typedef struct {
    sc_layer_type type;
    int64_t kv_heads, head_dim, v_head_dim; /* one head's key and value; 0 without them */
    int64_t window;                         /* of a ring: sliding_window or attention_chunk_size */
    int64_t mask_window;    /* of a full layer whose queries see fewer keys than it keeps; 0: all */
    int64_t index_head_dim; /* width of the indexer's keys; 0: none */
    bool no_rope;
    bool moe; /* a dummy layer of experts */
    int states;
    const sc_state_config *state;
    int kv_source; /* the layer whose keys and values it reads: itself, or an earlier one */
} sc_layer_config;

typedef struct {
    const char *key, *value, *from; /* from: "config.json", "default of qwen3", "rule: …" */
} sc_config_entry;

/* rope_parameters, or what older files say in other words. 0: absent or not this type's. */
typedef struct {
    const char *where;     /* "config.json: rope_scaling", for messages */
    const char *rope_type; /* default, linear, dynamic, llama3, yarn, longrope, proportional */
    double rope_theta, partial_rotary_factor, factor;
    double low_freq_factor, high_freq_factor;
    double beta_fast, beta_slow, mscale, mscale_all_dim, attention_factor;
    bool truncate;
    int64_t original_max_position_embeddings;
    int64_t factors; /* of longrope's lists */
    const double *short_factor, *long_factor;
    int64_t freq_factors;     /* GGUF's rope_freqs: count, 0 = none */
    const float *freq_factor; /* inv_freq[i] /= freq_factor[i] */
} sc_rope_config;

/* The value of a key that only some families have; families.h, sc_key. */
typedef struct {
    const char *key;
    double number; /* of a flag 0 or 1; SC_NULL: null */
    int count;     /* of a list */
    const double *list;
} sc_config_value;

typedef struct sc_family sc_family; /* families.h */

typedef struct {
    const char *path; /* file, for messages */
    const char *model_type;
    const sc_family *family;
    int64_t hidden_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t max_position_embeddings; /* 0: the class has no such key */
    int64_t sliding_window;          /* 0: null, no window */
    bool generic;                    /* read by the keys that all families share */
    bool nested;                     /* it is the text_config of a multimodal model */
    bool listed;                     /* layer_types is in the file */
    sc_layer_config *layer;          /* [num_hidden_layers] */
    const char *dtype;               /* "float32", "bfloat16", "float16": of the checkpoint */
    const char *unsupported;         /* why no graph can be built of this; NULL: it can */

    /* Read for families whose graph can be built. */
    int64_t vocab_size, intermediate_size;
    sc_activation hidden_act;
    double rms_norm_eps; /* or layer_norm_eps, …: the family's */
    bool tie_word_embeddings, attention_bias, mlp_bias;
    bool mxfp4;                  /* quantization_config says that experts are */
    sc_rope_config rope;         /* of all layers but these: */
    sc_rope_config sliding_rope; /* of sliding ones; the same where nothing tells them apart */
    int eos_count;
    int64_t eos_token_id[16];
    int64_t bos_token_id; /* -1: null */

    int values;
    sc_config_value *value; /* of the family's own keys */

    int entries;
    sc_config_entry *entry; /* every value, in reading order, with its origin */
    int notes;
    const char **note; /* what inspect and export should say: "sliding_window: 8 is not used, …" */
} sc_config;

/* The value of one of the family's own keys; it must be one. */
const sc_config_value *sc_config_key(const sc_config *config, const char *key);

/* From a parsed object. generation (generation_config.json, may be NULL) wins for eos_token_id.
 * generic: an unknown model_type is read by the keys all families share, with notes on what is
 * assumed. */
int sc_config_make(sc_config **config, sc_pool *pool, const char *path, const cJSON *json,
                   const cJSON *generation, bool generic, sc_error *err);

#endif
