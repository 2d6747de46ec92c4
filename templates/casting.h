/*
 * {{name}}.h - {{family}}{{^model}}, the cache alone{{/model}}, cast for batch {{batch}} and max_cache_len {{max_cache_len}}
 * by slipcast.
 *
 * Every function that can fail returns 0 or a negative SC_E… code and fills *err (may be NULL).
 * The caller owns what create and open return; nothing is allocated after them, and addresses stay.
 * Keys are [batch, kv_heads, tokens, head_dim] in {{value_dtype}}{{#encoded}} (kept as {{kv_dtype}}){{/encoded}}, values likewise.
 * A function _row does what the one without does, for one row of the batch: [1, …].
 */
#ifndef SLIPCAST_CASTING_{{name}}_H
#define SLIPCAST_CASTING_{{name}}_H

#include <stdint.h>

#include "runtime/error.h"
{{#model}}
#include "runtime/options.h"
{{/model}}

#ifdef __cplusplus
extern "C" {
#endif

enum {
    {{name}}_LAYERS = {{layers}},
    {{name}}_BATCH = {{batch}},
{{#model}}
    {{name}}_VOCAB = {{vocab}},
{{/model}}
    {{name}}_MAX_CACHE_LEN = {{max_cache_len}},
};

typedef struct sc_cache {{name}}_cache;
{{#model}}
typedef struct sc_model {{name}}_model;

enum { SC_ALL_LOGITS = 1 }; /* forward: logits [batch, n, vocab] instead of [batch, vocab] */
{{/model}}

/* All buffers of the cache, zeroed. SC_EENV: no memory. */
int {{name}}_cache_create({{name}}_cache **cache, sc_error *err);
{{#cuda}}
/* The same where device says: "cpu" (or NULL), or "cuda:N", whose keys, values and states may come from
 * and go to that device's memory as well as the host's. SC_EUSAGE: no such name; SC_EENV: no driver or
 * one too old, no such device, no code for its architecture, too little of its memory free. Every call
 * on a cache of a device can fail with SC_EENV, as the device does; an update or forward that did leaves
 * a cache that wants reset or load first (SC_ESTATE). */
int {{name}}_cache_create_on({{name}}_cache **cache, const char *device, sc_error *err);
const char *{{name}}_cache_device(const {{name}}_cache *cache); /* "cpu", "cuda:0" */
{{/cuda}}
void {{name}}_cache_destroy({{name}}_cache *cache);

/* Tokens of left padding per row, [batch]; before the first update only (SC_ESTATE).
 * SC_EUSAGE: a padding below 0 or not below max_cache_len. */
int {{name}}_cache_pad({{name}}_cache *cache, const int64_t *padding, sc_error *err);

/* Appends tokens to one layer. SC_EFULL: no room for them, or more than max_cache_len at once;
 * SC_EUSAGE: no such layer, one without keys and values, or no tokens. Either way nothing is
 * written. */
int {{name}}_cache_update({{name}}_cache *cache, int layer, const void *keys, const void *values,
    {{name_pad}}              int tokens, sc_error *err);
int {{name}}_cache_update_row({{name}}_cache *cache, int layer, int row, const void *keys,
    {{name_pad}}                  const void *values, int tokens, sc_error *err);

/* What the last update of the layer returned to attention, oldest first, [batch, kv_heads,
 * *kv_length, head_dim]; keys and values may both be NULL to ask for *kv_length. A layer that
 * shares sees what its source saw. SC_ESTATE: no update since create, reset, crop, reorder or load, one of
 * another layer of the same shape has taken the room for what a ring drove out, or the rows have
 * other lengths. */
int {{name}}_cache_visible(const {{name}}_cache *cache, int layer, void *keys, void *values,
    {{name_pad}}               int64_t *kv_length, sc_error *err);
int {{name}}_cache_visible_row(const {{name}}_cache *cache, int layer, int row, void *keys,
    {{name_pad}}                   void *values, int64_t *kv_length, sc_error *err);

/* The stored buffer, oldest first, [batch, kv_heads, slots, head_dim]; unused slots are zero. */
int {{name}}_cache_read(const {{name}}_cache *cache, int layer, void *keys, void *values,
    {{name_pad}}            sc_error *err);

/* Tokens that the layer's longest row was given; -1: no such layer, or one without keys and values.
 * Layer 0 stands for the first that has them. */
int64_t {{name}}_cache_seq_length(const {{name}}_cache *cache, int layer);
int64_t {{name}}_cache_row_length(const {{name}}_cache *cache, int layer, int row);

/* Length and first position of what attention will see when query_length tokens come next. */
int {{name}}_cache_mask_sizes(const {{name}}_cache *cache, int layer, int query_length,
    {{name_pad}}                  int64_t *kv_length, int64_t *kv_offset, sc_error *err);
int {{name}}_cache_mask_sizes_row(const {{name}}_cache *cache, int layer, int row, int query_length,
    {{name_pad}}                      int64_t *kv_length, int64_t *kv_offset, sc_error *err);

/* Slots of the layer, -1: it has no maximum (or states besides); layer -1: the most of all layers.
 * -2: no such layer. */
int64_t {{name}}_cache_max_length(const {{name}}_cache *cache, int layer);

/* Empties the cache: lengths and padding 0, buffers zero, addresses as they were. */
int {{name}}_cache_reset({{name}}_cache *cache, sc_error *err);
int {{name}}_cache_reset_row({{name}}_cache *cache, int row, sc_error *err);

/* Takes the last -tokens_to_remove tokens back (0: nothing). SC_EUSAGE: a positive count or more
 * than there are; SC_EFULL: a ring has already forgotten what an earlier token needs to see{{#has_states}}, or
 * a state has been updated{{/has_states}}. */
int {{name}}_cache_crop({{name}}_cache *cache, int64_t tokens_to_remove, sc_error *err);

/* Row i becomes the old row beam_idx[i], in every layer. SC_EUSAGE: an index out of range. */
int {{name}}_cache_reorder({{name}}_cache *cache, const int32_t *beam_idx, sc_error *err);
/* Row to becomes what row from is. */
int {{name}}_cache_copy_row({{name}}_cache *cache, int from, int to, sc_error *err);
{{#has_states}}

/* inputs [batch, channels, tokens]. visible (NULL: not wanted) gets [batch, channels, *columns]:
 * the columns kept so far and the new ones; of a first update the new ones, zeros before them to
 * fill the state. The last columns are kept. */
int {{name}}_cache_update_conv({{name}}_cache *cache, int layer, int index, const void *inputs,
    {{name_pad}}                   int tokens, void *visible, int64_t *columns, sc_error *err);
int {{name}}_cache_update_conv_row({{name}}_cache *cache, int layer, int index, int row,
    {{name_pad}}                       const void *inputs, int tokens, void *visible, int64_t *columns,
    {{name_pad}}                       sc_error *err);

/* The whole state, [batch, …] as the plan has it. */
int {{name}}_cache_update_recurrent({{name}}_cache *cache, int layer, int index, const void *state,
    {{name_pad}}                        sc_error *err);
int {{name}}_cache_update_recurrent_row({{name}}_cache *cache, int layer, int index, int row,
    {{name_pad}}                            const void *state, sc_error *err);

/* A state as it is; zeros before its first update. SC_EUSAGE: the layer has no such state. */
int {{name}}_cache_read_conv(const {{name}}_cache *cache, int layer, int index, void *state,
    {{name_pad}}                 sc_error *err);
int {{name}}_cache_read_recurrent(const {{name}}_cache *cache, int layer, int index, void *state,
    {{name_pad}}                      sc_error *err);

{{/has_states}}
{{#has_indexer}}

/* Appends indexer keys [batch, tokens, index_head_dim], in {{dtype}}. SC_EFULL: no room. */
int {{name}}_cache_update_indexer({{name}}_cache *cache, int layer, const void *keys, int tokens,
    {{name_pad}}                      sc_error *err);
int {{name}}_cache_update_indexer_row({{name}}_cache *cache, int layer, int row, const void *keys,
    {{name_pad}}                          int tokens, sc_error *err);

/* [batch, slots, index_head_dim]; unused slots are zero. */
int {{name}}_cache_read_indexer(const {{name}}_cache *cache, int layer, void *keys, sc_error *err);
{{/has_indexer}}

{{^offloading}}
/* This casting keeps everything where it is; these count the schedule's calls. */
int {{name}}_cache_offload({{name}}_cache *cache, int layer, sc_error *err);
int {{name}}_cache_prefetch({{name}}_cache *cache, int layer, sc_error *err);
{{/offloading}}
{{#offloading}}
/* The same as create, with the offloaded layers in a file of folder (NULL: in memory), which has
 * no name there and is gone with the cache: for a cache larger than memory. SC_EENV: no such file
 * can be made. */
int {{name}}_cache_create_at({{name}}_cache **cache, const char *folder, sc_error *err);

/* update and forward bring and send away layers by themselves. prefetch brings the layer, or the
 * next offloaded one behind it, to a device slot now; offload frees its slot. */
int {{name}}_cache_offload({{name}}_cache *cache, int layer, sc_error *err);
int {{name}}_cache_prefetch({{name}}_cache *cache, int layer, sc_error *err);

/* Layers that were copied to the device and from it since create. */
void {{name}}_cache_moves(const {{name}}_cache *cache, int64_t *prefetches, int64_t *offloads);
{{/offloading}}

/* A session in a file: only used slots, with the casting's identity and a checksum. The file
 * appears whole or not at all. Load refuses (SC_EINPUT) a file of another casting, a truncated or a
 * changed one, and leaves the cache as it was. */
int {{name}}_cache_save(const {{name}}_cache *cache, const char *path, sc_error *err);
int {{name}}_cache_load({{name}}_cache *cache, const char *path, sc_error *err);

{{#model}}
/* Maps the packed weights and takes all scratch. SC_EINPUT: not this casting's weights; SC_EENV: no
 * such file, no memory, or a processor without {{arch}}. options may be NULL.{{#cuda}} options->device: as
 * cache_create_on's; forward wants a cache of the same device.{{/cuda}} */
int {{name}}_model_open({{name}}_model **model, const char *weights_path, const sc_options *options,
    {{name_pad}}            sc_error *err);
void {{name}}_model_close({{name}}_model *model);

{{#cuda}}
const char *{{name}}_model_device(const {{name}}_model *model); /* "cpu", "cuda:0" */

/* model_forward on every row for the id of its largest logit alone, ids [batch]; of equals the
 * lowest. From a device only these come back. */
int {{name}}_model_greedy({{name}}_model *model, {{name}}_cache *cache, const int32_t *tokens, int n,
    {{name_pad}}              int32_t *ids, sc_error *err);

{{/cuda}}
/* Feeds n tokens per row, [batch, n]. logits [batch, vocab] of the last token, or with
 * SC_ALL_LOGITS [batch, n, vocab]; NULL: none are wanted. SC_EFULL: the cache has no room for n
 * more; SC_EUSAGE: no tokens, or an id outside the vocabulary; SC_ESTATE: the layers hold different
 * numbers of tokens. Either way nothing is changed. Bits do not depend on threads, on how a prompt
 * is cut, or on the other rows. */
int {{name}}_model_forward({{name}}_model *model, {{name}}_cache *cache, const int32_t *tokens,
    {{name_pad}}               int n, float *logits, unsigned flags, sc_error *err);

/* The same for some rows of the cache, each at its own length: rows [batch], all different; tokens
 * [batch, n], logits [batch, …] in that order. The other rows stay as they are. SC_EUSAGE besides:
 * no rows, one that the cache does not have, or one twice. */
int {{name}}_model_forward_rows({{name}}_model *model, {{name}}_cache *cache, const int32_t *rows,
    {{name_pad}}                    int batch, const int32_t *tokens, int n, float *logits,
    {{name_pad}}                    unsigned flags, sc_error *err);

{{/model}}
#ifdef __cplusplus
}
#endif

#endif
