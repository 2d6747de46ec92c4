/* weights.h - where the packed tensors of {{name}} are, once the file is mapped. */
#ifndef SLIPCAST_WEIGHTS_{{name}}_H
#define SLIPCAST_WEIGHTS_{{name}}_H

#include <stdint.h>

#include "runtime/weights.h"

/* One layer's tensors, {{dtype}} unless float. */
typedef struct {
{{#layer_fields}}
    const {{ctype}} *{{field}};
{{/layer_fields}}
} {{name}}_layer_weights;

typedef struct {
    {{name}}_layer_weights layer[{{layers}}];
{{#fields}}
    const {{ctype}} *{{field}};
{{/fields}}
} {{name}}_weights;

extern const unsigned char {{name}}_weights_layout[32]; /* what the file's header must say */
extern const uint64_t {{name}}_weights_bytes;           /* its size */

void {{name}}_weights_find({{name}}_weights *weights, const sc_weights *file);

#endif
