/*
 * export.h - a whole casting in a folder: emitted sources, packed weights and tokenizer, manifest.
 */
#ifndef SC_EXPORT_H
#define SC_EXPORT_H

#include "plan.h"
#include "source.h"

/* The run's choices as the command line gave them; NULL and 0 are the defaults. */
typedef struct {
    const char *name;
    int64_t max_cache_len; /* 0: min(max_position_embeddings, 4096) */
    int64_t batch_size;    /* 0: 1 */
    const char *dtype;     /* NULL: float32 */
    const char *kv_dtype;  /* NULL: dtype */
    int64_t rewind;        /* 0: none */
    bool offloading;
    bool offload_sliding; /* --no-offload-only-non-sliding */
    const char *arch;     /* NULL: native; a list, which may name sm_NN for a CUDA casting */
    const char *target;   /* NULL: cpu; or cuda */
    bool emit_only;       /* cuda: leave the device code to nvcc */
    int64_t offload_weights;
    bool only_cache; /* the cache alone: no graph, no weights */
    bool generic;    /* read an unknown model_type by its generic keys */
    bool quiet;
} sc_export_options;

/* Graph and Plan of a source. */
int sc_export_plan(const sc_plan **plan, sc_pool *pool, const sc_source *source,
                   const sc_export_options *options, sc_error *err);

/* Writes the casting to dir: whole or not at all. Without weights in the source the manifest says
 * so. */
int sc_export_write(const char *dir, sc_pool *pool, const sc_source *source, const sc_plan *plan,
                    bool quiet, sc_error *err);

/* The options a casting was exported with, from its manifest. */
int sc_export_read_options(sc_export_options *options, sc_pool *pool, const char *dir,
                           sc_error *err);

/* Hex digest of a file. */
int sc_export_digest(char hex[65], const char *path, sc_error *err);

#endif
