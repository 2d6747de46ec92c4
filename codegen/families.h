/*
 * families.h - the model families: what each config class defaults to, how the cache of its layers
 * comes about, and, where we can, who builds its graph.
 *
 * One small file in families/ and one line of the table in families.c make a family.
 *
 * Source  transformers src/transformers/models/<family>/configuration_<family>.py: the defaults;
 *         modeling_<family>.py: widths of states, biases and norms. docs/adding-a-family.md.
 */
#ifndef SC_FAMILIES_H
#define SC_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "config_read.h"
#include "graph.h"

/* The class's public name of a key, and the name under which its files hold it. */
typedef struct {
    const char *key, *stored;
} sc_alias;

/* A key that only some families have, and what it is when absent. */
typedef enum {
    SC_KEY_COUNT, /* a whole number from 0 on */
    SC_KEY_AUTO,  /* the same, or "auto", which reads as SC_NULL */
    SC_KEY_REAL,  /* any finite number */
    SC_KEY_FLAG,
    SC_KEY_ACT,     /* an activation, silu where it is absent: an sc_activation */
    SC_KEY_NUMBERS, /* a list of numbers or flags; one number is a list of it */
    SC_KEY_MLPS,    /* a list of "dense" and "sparse": 0 and 1 */
    SC_KEY_LIMITS,  /* a list of numbers that may be infinite */
    SC_KEY_FIXED,   /* a flag: nothing but the fallback is done */
    SC_KEY_NOTHING  /* changes nothing in inference: read so that it is known */
} sc_key_kind;

typedef struct {
    const char *key;
    sc_key_kind kind;
    double fallback; /* of a list: nothing; SC_NULL: null */
    bool null;       /* null is allowed although the fallback is another; it reads as SC_NULL */
} sc_key;

enum { SC_NEVER = INT32_MAX }; /* a period that no model is long enough for */

struct sc_family {
    const char *model_type;
    const sc_alias *alias; /* ends with a NULL key; NULL: none */

    /* Defaults; SC_NULL is null, 0 that the class has no such key. */
    int64_t hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    int64_t max_position_embeddings, sliding_window, attention_chunk_size;
    bool kv_heads_null, head_dim_null; /* null is allowed although the default is another */
    const char *head_dim_key;          /* head_dim is what this key says; NULL: its own */
    bool head_dim_computed;            /* heads share hidden_size out, whatever the file says */
    bool window_not_null;              /* sliding_window must not be null */
    bool window_switch;                /* use_sliding_window false makes sliding_window null */

    bool per_layer; /* per_layer_config may tell layers apart: of others it is refused */

    const char *no_cache; /* why no cache can be cast of it; NULL: it can */

    /* Layer types when the file lists none: by the period, else by what windows there are. */
    bool types_computed;    /* a list in the file is an error */
    int64_t period;         /* every period-th layer is full, SC_NEVER: none; 0: no such rule */
    const char *period_key; /* where the file may set it; NULL: nowhere */
    sc_layer_type others;   /* the type of the layers between */
    bool shares_kv;         /* the last num_kv_shared_layers read earlier layers' K and V */
    int64_t num_kv_shared_layers;

    /* Instead of all that is above: reads the layers itself. */
    void (*read)(sc_reader *r);
    /* Instead of reading num_hidden_layers. */
    int64_t (*layer_count)(sc_reader *r);
    /* After the types above (or the file's: config->listed), to correct or replace them. */
    void (*types)(sc_reader *r);
    /* Widths that do not follow from num_key_value_heads and head_dim, and the states. */
    void (*widths)(sc_reader *r);

    /* The graph. NULL: only the cache can be cast. */
    void (*build)(sc_builder *b);
    unsigned builds; /* besides full and sliding layers: a bit, 1u << type, per type */
    int64_t vocab_size, intermediate_size, bos_token_id, eos_token_id; /* size 0: no such key */
    const char *hidden_act, *act_key; /* NULL: "silu", "hidden_act" */
    double eps;                       /* 0: 1e-6 */
    const char *eps_key;              /* NULL: "rms_norm_eps" */
    bool tied;                        /* tie_word_embeddings, where it is absent */
    bool attention_bias, mlp_bias;    /* the class has this key; its default is false everywhere */
    bool no_rope;
    double rope_theta;    /* 0: 10000 */
    double local_theta;   /* of sliding layers, unless rope_local_base_freq says another; 0: none */
    bool local_plain;     /* rope_scaling is for full layers alone */
    double rotary_factor; /* partial_rotary_factor where it is absent; 0: no such key */
    const char *rope_type; /* of full layers, where there are no rope_parameters; NULL: "default" */
    const char *rope_parameters;              /* when there are none: JSON; NULL: rope is default */
    int64_t original_max_position_embeddings; /* phi3: outside, where it decides; rope is default or
                                               * longrope. 0: neither */
    bool mxfp4;                               /* experts may be published in it: config->mxfp4 */
    const sc_key *key;                        /* what only this family has; ends with a NULL key */
};

/* The family of that model_type, NULL: unknown. */
const sc_family *sc_family_find(const char *model_type);
/* The i-th family in the table's order, NULL past the last. */
const sc_family *sc_family_at(size_t i);
/* What --generic reads of an unknown model_type: everything must be in the file. */
const sc_family *sc_family_generic(void);

/* What families share. */

/* full where (i + 1) % period is 0, the others between. */
void sc_types_periodic(sc_reader *r, int64_t period, sc_layer_type others);
/* Qwen2, Qwen3: sliding from max_window_layers on, where there is a window. */
void sc_types_max_window_layers(sc_reader *r);
/* SmolLM3, Llama 4: by no_rope_layers (1: the layer has rope), or when that is absent, null or
 * (empty_is_absent) empty, every no_rope_layer_interval-th layer is without. */
void sc_types_by_rope(sc_reader *r, sc_layer_type with, sc_layer_type without,
                      bool empty_is_absent);
/* The cache of latent attention: keys [1, kv_lora_rank], values [1, qk_rope_head_dim]. */
void sc_widths_latent(sc_reader *r);
/* The same with the indexer's keys, [index_head_dim]. */
void sc_widths_indexed(sc_reader *r);
/* Mamba2's two states. channels: of the convolution's input; columns: its kernel. */
void sc_widths_mamba2(sc_reader *r, int64_t channels, int64_t columns, int64_t heads,
                      int64_t head_dim, int64_t state_size);
/* mamba_d_head, a number or "auto": what inner channels leave for each head. */
int64_t sc_mamba_head_dim(sc_reader *r, int64_t inner, int64_t heads);
/* Qwen3-Next's gated delta rule: one convolution over q, k and v, one matrix per value head. */
void sc_widths_gated_delta(sc_reader *r);
/* These states for every layer that has states. */
void sc_states(sc_reader *r, int count, const sc_state_config *state);

bool sc_layer_type_find(sc_layer_type *type, const char *name);

#endif
