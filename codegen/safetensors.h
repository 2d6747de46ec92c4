/*
 * safetensors.h - model.safetensors, or the shards that model.safetensors.index.json names.
 *
 * Source  github.com/huggingface/safetensors, the format as its README gives it; verdicts as
 *         safetensors 0.8.0's: header at most 100 MB, no holes, no overlaps, nothing after the end.
 */
#ifndef SC_SAFETENSORS_H
#define SC_SAFETENSORS_H

#include "tensors.h"

/* Opens a folder's weights. SC_EINPUT: no such file (message says which names were tried), a header
 * that lies, a shard outside the folder, a tensor in another shard than the index says. */
int sc_safetensors_open(sc_tensors **tensors, sc_pool *pool, const char *folder, sc_error *err);

/* One file (tests, fuzz). */
int sc_safetensors_open_file(sc_tensors **tensors, sc_pool *pool, const char *path, sc_error *err);

#endif
