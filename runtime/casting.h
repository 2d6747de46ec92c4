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

typedef struct {
    const char *name;
    const char *signature; /* JSON: model_type; layers with layer_type and shape */
    int layers, batch, vocab, max_cache_len;
    const char *kv_dtype;
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
    int (*cache_offload)(sc_cache *, int, sc_error *);
    int (*cache_prefetch)(sc_cache *, int, sc_error *);
    int (*cache_save)(const sc_cache *, const char *, sc_error *);
    int (*cache_load)(sc_cache *, const char *, sc_error *);
    int (*model_open)(sc_model **, const char *, const sc_options *, sc_error *);
    void (*model_close)(sc_model *);
    int (*model_forward)(sc_model *, sc_cache *, const int32_t *, int, float *, unsigned,
                         sc_error *);
} sc_casting;

#endif
