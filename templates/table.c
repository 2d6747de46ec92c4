/* {{name}}_table.c - slipcast_casting(): the functions under one fixed name, for dlopen. */
#include "{{name}}.h"
#include "runtime/casting.h"

#define API __attribute__((visibility("default")))

API const sc_casting *slipcast_casting(void);

/* ISO C99 asks a compiler for strings of 4095 bytes; the signature of many layers is longer. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

API const sc_casting *slipcast_casting(void) {
    static const sc_casting casting = {
        .name = "{{name}}",
        .signature = "{{signature}}",
        .layers = {{layers}},
        .batch = {{batch}},
        .vocab = {{vocab}},
        .max_cache_len = {{max_cache_len}},
        .kv_dtype = "{{kv_dtype}}",
        .cache_create = {{name}}_cache_create,
        .cache_destroy = {{name}}_cache_destroy,
        .cache_pad = {{name}}_cache_pad,
        .cache_update = {{name}}_cache_update,
        .cache_visible = {{name}}_cache_visible,
        .cache_read = {{name}}_cache_read,
        .cache_seq_length = {{name}}_cache_seq_length,
        .cache_mask_sizes = {{name}}_cache_mask_sizes,
        .cache_max_length = {{name}}_cache_max_length,
        .cache_reset = {{name}}_cache_reset,
        .cache_crop = {{name}}_cache_crop,
        .cache_reorder = {{name}}_cache_reorder,
        .cache_offload = {{name}}_cache_offload,
        .cache_prefetch = {{name}}_cache_prefetch,
        .cache_save = {{name}}_cache_save,
        .cache_load = {{name}}_cache_load,
        .model_open = {{name}}_model_open,
        .model_close = {{name}}_model_close,
        .model_forward = {{name}}_model_forward,
    };
    return &casting;
}
