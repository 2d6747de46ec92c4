/* {{name}}_cuda.h - {{name}} on a CUDA device, as its other sources see it. */
#ifndef SLIPCAST_CUDA_{{name}}_H
#define SLIPCAST_CUDA_{{name}}_H

#include "{{name}}_internal.h"
#include "runtime/cuda.h"
{{#model}}
#include "runtime/weights.h"
{{/model}}

extern const sc_cubins {{name}}_cubins; /* the device code, {{name}}_cubin.c */
{{#model}}

typedef struct {{name}}_device {{name}}_device;

/* All weights and all scratch on the device, in one block. graph: decode one token by replaying a
 * graph. SC_EENV: sc_cuda_open's, no cuBLASLt, no memory. */
int {{name}}_device_open({{name}}_device **device, const char *name, const sc_weights *file, bool graph,
    {{name_pad}}             sc_error *err);
void {{name}}_device_close({{name}}_device *device); /* NULL is allowed */
const char *{{name}}_device_name(const {{name}}_device *device);

/* model_forward_rows once its arguments are checked; chosen (NULL: not wanted) gets the id of each
 * row's largest logit. SC_EUSAGE: the cache is somewhere else; SC_EENV: the device failed. */
int {{name}}_device_forward({{name}}_device *device, {{name}}_cache *cache, const int32_t *rows, int batch,
    {{name_pad}}                const int32_t *tokens, int n, float *logits, bool all, int32_t *chosen,
    {{name_pad}}                sc_error *err);

/* The cache goes: the graph that names its buffers does too. */
void {{name}}_device_forget({{name}}_cache *cache);
{{/model}}

#endif
