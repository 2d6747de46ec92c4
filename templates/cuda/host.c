{{! host.c - a CUDA casting's host side: weights to rows, launches, the graph, offload by events. }}
/*
 * {{name}}_cuda.c - the forward pass of {{name}} on a CUDA device.
 *
 * A pass is some tokens of some rows of the cache. Its facts go to the device as one step, so that
 * nothing else changes from one token to the next: a pass of one token is captured once as a graph
 * and replayed. Everything runs on the cache's compute stream; a copy stream each brings keys,
 * values and weights that live on the host, ordered by events (docs/cuda.md).
 */
#include "{{name}}_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "{{name}}_weights.h"
#include "runtime/cublaslt.h"

{{> cuda/shapes.h}}
#define DEVICE_WEIGHTS_BYTES ((size_t){{device_weights_bytes}}) /* resident ones{{#weights_offloaded}}, and two slots{{/weights_offloaded}} */
#define DEVICE_SCRATCH_BYTES ((size_t){{device_scratch_bytes}})
#define STAGING_BYTES ((size_t){{staging_bytes}}) /* of panels that are unpacked at once */
{{#weights_offloaded}}
#define HOST_WEIGHTS_BYTES ((size_t){{host_weights_bytes}}) /* pinned */
{{/weights_offloaded}}

/* The kernels of {{name}}_cuda.cu. */
#define EACH_KERNEL(X) \
    X(embed_kernel) \
    X(pick_kernel) \
    X(bias_kernel) \
    X(unpack_kernel) \
{{#row_kernels}}
    X({{fn}}_kernel) \
{{/row_kernels}}
{{#decode_linears}}
{{#device_linears}}
    X({{fn}}_kernel) \
{{/device_linears}}
    X(lm_head_kernel) \
{{#mixture_kernels}}
    X({{mixture}}_up_kernel) \
    X({{mixture}}_down_kernel) \
{{/mixture_kernels}}
{{/decode_linears}}
{{#device_linears}}
{{#ended}}
    X(end_{{fn}}_kernel) \
{{/ended}}
{{/device_linears}}
{{#head_linears}}
{{#ended}}
    X(end_lm_head_kernel) \
{{/ended}}
{{/head_linears}}
{{#mixture_kernels}}
    X({{mixture}}_sort_kernel) \
    X({{mixture}}_up_all_kernel) \
    X({{mixture}}_down_all_kernel) \
    X({{mixture}}_add_kernel) \
{{/mixture_kernels}}
{{#conv_kernels}}
    X({{fn}}_kernel) \
{{/conv_kernels}}
{{#scan_kernels}}
    X({{fn}}_kernel) \
{{/scan_kernels}}
{{#delta_kernels}}
    X({{fn}}_kernel) \
{{/delta_kernels}}
{{#offloading}}
{{#shapes}}
    X(write_back{{id}}_kernel) \
{{/shapes}}
{{/offloading}}
{{#indexes}}
    X(index_keep{{id}}_kernel) \
    X(index_score{{id}}_kernel) \
    X(index_choose{{id}}_kernel) \
{{/indexes}}
{{#attentions}}
    X(keep{{id}}_kernel) \
{{#latent}}
    X(latent{{id}}_kernel) \
{{/latent}}
{{#expanded}}
    X(attend{{id}}_kernel) \
    X(attention{{id}}_kernel) \
{{/expanded}}
{{/attentions}}

#define AS_NUMBER(name) name,
#define AS_TEXT(name) #name,
enum { EACH_KERNEL(AS_NUMBER) KERNELS };
static const char *const kernel_name[KERNELS] = { EACH_KERNEL(AS_TEXT) };

struct {{name}}_device {
    sc_cuda *cuda;
    sc_products *products;
    CUfunction kernel[KERNELS];
    unsigned char *block;   /* [DEVICE_WEIGHTS_BYTES + DEVICE_SCRATCH_BYTES], the device's */
    unsigned char *scratch; /* behind the weights */
    step *step;             /* pinned: the one that goes to the device next */
    bool graph;
    {{name}}_cache *captured; /* the caches that have a graph of this model, linked */
{{#weights_offloaded}}
    bool lost;                   /* what is in the slots is not what a pass begins with */
    unsigned char *host_weights; /* pinned [HOST_WEIGHTS_BYTES], as they lie on the device */
    CUevent weights_begun, weights_filled[2], weights_read[2], weights_ended;
{{/weights_offloaded}}
};

/* A kernel's arguments are 8 bytes each. */
static uint64_t word(const void *p) { return (uint64_t)(uintptr_t)p; }
#define WORDS(...) (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8

{{> cuda/weights.c}}
{{> cuda/pass.c}}
{{> cuda/forward.c}}
