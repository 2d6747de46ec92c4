/*
 * gpu_model.h - the model that gpu-check times: llama's shape, bfloat16, weights of noise.
 *
 * Its castings are exported from config.json alone; noise of any order will do, so NAME.weights is
 * written as it comes, without a checkpoint to pack.
 */
#ifndef SC_GPU_MODEL_H
#define SC_GPU_MODEL_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "../../runtime/error.h"

typedef struct {
    const char *name; /* "8b" */
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
    int max_cache_len;
    int prompt, deep_prompt; /* tokens fed at once; the deep one when keys and values are fetched */
    int tokens, slow_tokens; /* then one by one; the slow ones when weights are fetched */
    size_t copy_bytes;       /* of the copies that give the rate of PCIe */
} gpu_model;

/* NULL: there is none of that name. */
const gpu_model *gpu_model_find(const char *name);

/* Bytes of a model: of its weights, of the embedding (of which a token reads one row). */
double gpu_model_bytes(const gpu_model *m);
double gpu_model_embedding_bytes(const gpu_model *m);
/* Of keys and values, in all layers, of that many tokens; fetched: as offloading moves them. */
double gpu_model_kv_bytes(const gpu_model *m, int tokens);
double gpu_model_fetched_bytes(const gpu_model *m, int tokens);

/* The same with as many layers as fit: the weights in a file in folder and pinned in memory, and
 * on a device with so much free. layers 0: none do. */
gpu_model gpu_model_fit(const gpu_model *m, const char *folder, double device_free);

int gpu_model_write_config(const gpu_model *m, const char *path, sc_error *err);

/* Weights for every casting whose manifest has this one's layout. SC_EENV: no space. */
int gpu_model_write_weights(const char *path, const cJSON *manifest, sc_error *err);

#endif
