{{! device.cu - the device code of a casting: one kernel per operation and shape. }}
/*
 * {{name}}_cuda.cu - the device code of {{name}} ({{family}}), every extent a constant.
 *
 * Self-contained: NVRTC and nvcc compile it without a header. Every parameter of a kernel is 8
 * bytes wide. {{name}}_cuda.c launches; the shapes of launches are the constants below. All sums
 * are of float32, in an order that depends on the shapes and on the length of a row alone.
 */
{{#model}}
{{> cuda/prelude.cu}}

enum { BATCH = {{batch}} };

{{#shapes}}
/* {{layer_list}}: K and V [{{batch}}, {{kv_heads}}, {{slots}}, dim] {{kv_dtype}}. */
enum {
    SHAPE{{id}}_KV_HEADS = {{kv_heads}},
    SHAPE{{id}}_SLOTS = {{slots}},
    SHAPE{{id}}_LENGTH = {{length}}, /* slots that are shown */
    SHAPE{{id}}_DIM = {{head_dim}},
    SHAPE{{id}}_V_DIM = {{v_head_dim}},
    SHAPE{{id}}_EVICTED = {{evicted}},
};

{{/shapes}}
{{> cuda/shapes.h}}

typedef {{weight_ctype}} weight, operand; /* {{dtype}} */
typedef {{device_kv_ctype}} kv;           /* {{kv_dtype}} */

{{> cuda/rows.cu}}
{{> cuda/act.cu}}
{{> cuda/embed.cu}}
{{> cuda/row_ops.cu}}
{{#row_kernels}}
{{> cuda/row_kernel.cu}}
{{/row_kernels}}
{{#weight_mma}}
{{> cuda/tile_mma.cu}}
{{/weight_mma}}
{{#decode_linears}}
{{> cuda/linear.cu}}
{{/decode_linears}}
{{#device_linears}}
{{#ended}}
{{> cuda/end.cu}}
{{/ended}}
{{/device_linears}}
{{#head_linears}}
{{#ended}}
{{> cuda/end.cu}}
{{/ended}}
{{/head_linears}}
{{> cuda/heads.cu}}
{{#indexes}}
{{> cuda/index.cu}}
{{/indexes}}
{{#attentions}}
{{> cuda/keep.cu}}
{{#latent}}
{{> cuda/latent.cu}}
{{/latent}}
{{#expanded}}
{{> cuda/score.cu}}
{{> cuda/attend.cu}}
{{#kv_floats}}
{{> cuda/attention_fma.cu}}
{{/kv_floats}}
{{^kv_floats}}
{{> cuda/attention_mma.cu}}
{{/kv_floats}}
{{/expanded}}
{{/attentions}}
{{#mixture_kernels}}
{{> cuda/experts.cu}}
{{/mixture_kernels}}
{{#conv_kernels}}
{{> cuda/conv.cu}}
{{/conv_kernels}}
{{#scan_kernels}}
{{> cuda/state_space.cu}}
{{/scan_kernels}}
{{#delta_kernels}}
{{> cuda/delta_rule.cu}}
{{/delta_kernels}}
{{> cuda/bias.cu}}
{{> cuda/pick.cu}}
{{> cuda/unpack.cu}}
{{#offloading}}
{{> cuda/write_back.cu}}
{{/offloading}}
{{/model}}
{{#has_states}}
{{> cuda/shift.cu}}
{{/has_states}}
