/*
 * casting.h - what every casting's library exports under one fixed name, so that a program can
 * dlopen any of them.
 *
 *     const sc_casting *(*get)(void) = dlsym(library, "slipcast_casting");
 *
 * The functions are those of NAME.h, which documents them; sc_cache and sc_model are opaque and
 * belong to the casting that made them.
 */
#ifndef SC_CASTING_H
#define SC_CASTING_H

#include <stdint.h>

#include "error.h"
#include "options.h"

typedef struct sc_cache sc_cache;
typedef struct sc_model sc_model;

/* What a layer keeps: keys [batch, kv_heads, slots, head_dim] and values; 0: none. */
typedef struct {
    const char *layer_type;
    int64_t kv_heads, slots, head_dim, v_head_dim;
    int64_t index_head_dim; /* indexer keys [batch, slots, index_head_dim]; 0: none */
    int source;             /* the layer whose keys and values it reads, -1: none */
} sc_casting_layer;

/* [batch, channels, columns] of dtype; a recurrent state has its elements as columns of one
 * channel. */
typedef struct {
    int layer, index;
    const char *name; /* "conv_state", "recurrent_state" */
    int64_t channels, columns;
    const char *dtype;
} sc_casting_state;

typedef struct {
    const char *name;
    const char *model_type;
    const sc_casting_layer *layer; /* [layers] */
    const sc_casting_state *state; /* [states] */
    int states;
    int layers, batch, max_cache_len;
    int vocab;               /* 0: the cache alone */
    const char *kv_dtype;    /* as keys and values are kept */
    const char *value_dtype; /* as they are passed */
    int (*cache_create)(sc_cache **, sc_error *);
    void (*cache_destroy)(sc_cache *);
    int (*cache_pad)(sc_cache *, const int64_t *, sc_error *);
    int (*cache_update)(sc_cache *, int, const void *, const void *, int, sc_error *);
    int (*cache_visible)(const sc_cache *, int, void *, void *, int64_t *, sc_error *);
    int (*cache_read)(const sc_cache *, int, void *, void *, sc_error *);
    int64_t (*cache_seq_length)(const sc_cache *, int);
    int (*cache_mask_sizes)(const sc_cache *, int, int, int64_t *, int64_t *, sc_error *);
    int64_t (*cache_max_length)(const sc_cache *, int);
    int (*cache_reset)(sc_cache *, sc_error *);
    int (*cache_crop)(sc_cache *, int64_t, sc_error *);
    int (*cache_reorder)(sc_cache *, const int32_t *, sc_error *);
    int (*cache_update_row)(sc_cache *, int, int, const void *, const void *, int, sc_error *);
    int (*cache_visible_row)(const sc_cache *, int, int, void *, void *, int64_t *, sc_error *);
    int64_t (*cache_row_length)(const sc_cache *, int, int);
    int (*cache_mask_sizes_row)(const sc_cache *, int, int, int, int64_t *, int64_t *, sc_error *);
    int (*cache_reset_row)(sc_cache *, int, sc_error *);
    int (*cache_copy_row)(sc_cache *, int, int, sc_error *);
    /* NULL where no layer has such states. */
    int (*cache_update_conv)(sc_cache *, int, int, const void *, int, void *, int64_t *,
                             sc_error *);
    int (*cache_update_conv_row)(sc_cache *, int, int, int, const void *, int, void *, int64_t *,
                                 sc_error *);
    int (*cache_update_recurrent)(sc_cache *, int, int, const void *, sc_error *);
    int (*cache_update_recurrent_row)(sc_cache *, int, int, int, const void *, sc_error *);
    int (*cache_read_conv)(const sc_cache *, int, int, void *, sc_error *);
    int (*cache_read_recurrent)(const sc_cache *, int, int, void *, sc_error *);
    /* NULL where no layer has an indexer. */
    int (*cache_update_indexer)(sc_cache *, int, const void *, int, sc_error *);
    int (*cache_update_indexer_row)(sc_cache *, int, int, const void *, int, sc_error *);
    int (*cache_read_indexer)(const sc_cache *, int, void *, sc_error *);
    /* NULL without offloading. */
    int (*cache_create_at)(sc_cache **, const char *, sc_error *);
    void (*cache_moves)(const sc_cache *, int64_t *, int64_t *);
    int (*cache_offload)(sc_cache *, int, sc_error *);
    int (*cache_prefetch)(sc_cache *, int, sc_error *);
    int (*cache_save)(const sc_cache *, const char *, sc_error *);
    int (*cache_load)(sc_cache *, const char *, sc_error *);
    /* NULL in a casting of the cache alone. */
    int (*model_open)(sc_model **, const char *, const sc_options *, sc_error *);
    void (*model_close)(sc_model *);
    int (*model_forward)(sc_model *, sc_cache *, const int32_t *, int, float *, unsigned,
                         sc_error *);
    int (*model_forward_rows)(sc_model *, sc_cache *, const int32_t *, int, const int32_t *, int,
                              float *, unsigned, sc_error *);
    /* NULL in a casting without device code. */
    int (*cache_create_on)(sc_cache **, const char *, sc_error *);
    const char *(*cache_device)(const sc_cache *);
    const char *(*model_device)(const sc_model *);
    int (*model_greedy)(sc_model *, sc_cache *, const int32_t *, int, int32_t *, sc_error *);
} sc_casting;

#endif
