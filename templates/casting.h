/*
 * {{name}}.h - {{family}}, {{layers}} layers, cast for batch {{batch}} and max_cache_len {{max_cache_len}} by slipcast.
 *
 * Every function that can fail returns 0 or a negative SC_E… code and fills *err (may be NULL).
 * The caller owns what create and open return; nothing is allocated after them, and addresses stay.
 * Keys are [batch, kv_heads, tokens, head_dim] in the cache's dtype ({{kv_dtype}}), values likewise.
 */
#ifndef SLIPCAST_CASTING_{{name}}_H
#define SLIPCAST_CASTING_{{name}}_H

#include <stdint.h>

#include "runtime/error.h"
#include "runtime/options.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    {{name}}_LAYERS = {{layers}},
    {{name}}_BATCH = {{batch}},
    {{name}}_VOCAB = {{vocab}},
    {{name}}_MAX_CACHE_LEN = {{max_cache_len}},
};

enum { SC_ALL_LOGITS = 1 }; /* forward: logits [batch, n, vocab] instead of [batch, vocab] */

typedef struct sc_cache {{name}}_cache;
typedef struct sc_model {{name}}_model;

/* All buffers of the cache, zeroed. SC_EENV: no memory. */
int {{name}}_cache_create({{name}}_cache **cache, sc_error *err);
void {{name}}_cache_destroy({{name}}_cache *cache);

/* Tokens of left padding per row, [batch]; before the first update only (SC_ESTATE).
 * SC_EUSAGE: a padding below 0 or not below max_cache_len. */
int {{name}}_cache_pad({{name}}_cache *cache, const int64_t *padding, sc_error *err);

/* Appends tokens to one layer. SC_EFULL: no room for them, or more than max_cache_len at once;
 * SC_EUSAGE: no such layer, or no tokens. Either way nothing is written. */
int {{name}}_cache_update({{name}}_cache *cache, int layer, const void *keys, const void *values,
    {{name_pad}}              int tokens, sc_error *err);

/* What the last update of the layer returned to attention, oldest first, [batch, kv_heads,
 * *kv_length, head_dim]; keys and values may both be NULL to ask for *kv_length.
 * SC_ESTATE: no update since create, reset, crop, reorder or load, or one of another layer of the
 * same shape has taken the room for what a ring drove out. */
int {{name}}_cache_visible(const {{name}}_cache *cache, int layer, void *keys, void *values,
    {{name_pad}}               int64_t *kv_length, sc_error *err);

/* The stored buffer, oldest first, [batch, kv_heads, slots, head_dim]; unused slots are zero. */
int {{name}}_cache_read(const {{name}}_cache *cache, int layer, void *keys, void *values,
    {{name_pad}}            sc_error *err);

/* Tokens that the layer was given; -1: no such layer. */
int64_t {{name}}_cache_seq_length(const {{name}}_cache *cache, int layer);

/* Length and first position of what attention will see when query_length tokens come next. */
int {{name}}_cache_mask_sizes(const {{name}}_cache *cache, int layer, int query_length,
    {{name_pad}}                  int64_t *kv_length, int64_t *kv_offset, sc_error *err);

/* Slots of the layer; layer -1: the most of all layers. -2: no such layer. */
int64_t {{name}}_cache_max_length(const {{name}}_cache *cache, int layer);

/* Empties the cache: lengths and padding 0, buffers zero, addresses as they were. */
int {{name}}_cache_reset({{name}}_cache *cache, sc_error *err);

/* Takes the last -tokens_to_remove tokens back (0: nothing). SC_EUSAGE: a positive count or more
 * than there are; SC_EFULL: a ring has already forgotten what an earlier token needs to see. */
int {{name}}_cache_crop({{name}}_cache *cache, int64_t tokens_to_remove, sc_error *err);

/* Row i becomes the old row beam_idx[i], in every layer. SC_EUSAGE: an index out of range. */
int {{name}}_cache_reorder({{name}}_cache *cache, const int32_t *beam_idx, sc_error *err);

/* A CPU casting keeps everything where it is; these count the schedule's calls. */
int {{name}}_cache_offload({{name}}_cache *cache, int layer, sc_error *err);
int {{name}}_cache_prefetch({{name}}_cache *cache, int layer, sc_error *err);

/* A session in a file: only used slots, with the casting's identity and a checksum. The file
 * appears whole or not at all. Load refuses (SC_EINPUT) a file of another casting, a truncated or a
 * changed one, and leaves the cache as it was. */
int {{name}}_cache_save(const {{name}}_cache *cache, const char *path, sc_error *err);
int {{name}}_cache_load({{name}}_cache *cache, const char *path, sc_error *err);

/* Maps the packed weights and takes all scratch. SC_EINPUT: not this casting's weights; SC_EENV: no
 * such file, no memory, or a processor without {{arch}}. options may be NULL. */
int {{name}}_model_open({{name}}_model **model, const char *weights_path, const sc_options *options,
    {{name_pad}}            sc_error *err);
void {{name}}_model_close({{name}}_model *model);

/* Feeds n tokens per row, [batch, n]. logits [batch, vocab] of the last token, or with
 * SC_ALL_LOGITS [batch, n, vocab]; NULL: none are wanted. SC_EFULL: the cache has no room for n
 * more; SC_EUSAGE: no tokens, or an id outside the vocabulary; SC_ESTATE: the layers hold different
 * numbers of tokens. Either way nothing is changed. Bits do not depend on threads, on how a prompt
 * is cut, or on the other rows. */
int {{name}}_model_forward({{name}}_model *model, {{name}}_cache *cache, const int32_t *tokens,
    {{name_pad}}               int n, float *logits, unsigned flags, sc_error *err);

#ifdef __cplusplus
}
#endif

#endif
