/* {{name}}_table.c - slipcast_casting(): the casting's functions under one fixed name, for dlopen. */
#include "{{name}}.h"
#include "runtime/casting.h"

#define API __attribute__((visibility("default")))

API const sc_casting *slipcast_casting(void);

static const sc_casting_layer layers[] = {
{{#places}}
    { "{{layer_type}}", {{kv_heads}}, {{length}}, {{head_dim}}, {{v_head_dim}}, {{index_head_dim}}, {{source}} },
{{/places}}
};

{{#has_states}}
static const sc_casting_state states[] = {
{{#states}}
    { {{layer}}, {{index}}, "{{what}}", {{channels}}, {{columns}}, "{{state_dtype}}" },
{{/states}}
};

{{/has_states}}
API const sc_casting *slipcast_casting(void) {
    static const sc_casting casting = {
        .name = "{{name}}",
        .model_type = "{{family}}",
        .layer = layers,
{{#has_states}}
        .state = states,
        .states = {{state_count}},
{{/has_states}}
        .layers = {{layers}},
        .batch = {{batch}},
{{#model}}
        .vocab = {{vocab}},
{{/model}}
        .max_cache_len = {{max_cache_len}},
        .kv_dtype = "{{kv_dtype}}",
        .value_dtype = "{{value_dtype}}",
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
        .cache_update_row = {{name}}_cache_update_row,
        .cache_visible_row = {{name}}_cache_visible_row,
        .cache_row_length = {{name}}_cache_row_length,
        .cache_mask_sizes_row = {{name}}_cache_mask_sizes_row,
        .cache_reset_row = {{name}}_cache_reset_row,
        .cache_copy_row = {{name}}_cache_copy_row,
{{#has_states}}
        .cache_update_conv = {{name}}_cache_update_conv,
        .cache_update_conv_row = {{name}}_cache_update_conv_row,
        .cache_update_recurrent = {{name}}_cache_update_recurrent,
        .cache_update_recurrent_row = {{name}}_cache_update_recurrent_row,
        .cache_read_conv = {{name}}_cache_read_conv,
        .cache_read_recurrent = {{name}}_cache_read_recurrent,
{{/has_states}}
{{#has_indexer}}
        .cache_update_indexer = {{name}}_cache_update_indexer,
        .cache_update_indexer_row = {{name}}_cache_update_indexer_row,
        .cache_read_indexer = {{name}}_cache_read_indexer,
{{/has_indexer}}
{{#offloading}}
        .cache_create_at = {{name}}_cache_create_at,
        .cache_moves = {{name}}_cache_moves,
{{/offloading}}
{{#cuda}}
        .cache_create_on = {{name}}_cache_create_on,
        .cache_device = {{name}}_cache_device,
{{/cuda}}
        .cache_offload = {{name}}_cache_offload,
        .cache_prefetch = {{name}}_cache_prefetch,
        .cache_save = {{name}}_cache_save,
        .cache_load = {{name}}_cache_load,
{{#model}}
        .model_open = {{name}}_model_open,
        .model_close = {{name}}_model_close,
        .model_forward = {{name}}_model_forward,
        .model_forward_rows = {{name}}_model_forward_rows,
{{#cuda}}
        .model_device = {{name}}_model_device,
        .model_greedy = {{name}}_model_greedy,
{{/cuda}}
{{/model}}
    };
    return &casting;
}
