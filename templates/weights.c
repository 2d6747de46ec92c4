/* {{name}}_weights.c - the table of packed tensors: byte offsets in {{name}}.weights. */
#include "{{name}}_weights.h"

#include <string.h>

const unsigned char {{name}}_weights_layout[32] = {
    {{layout_bytes}},
};
const uint64_t {{name}}_weights_bytes = {{weights_bytes}};

void {{name}}_weights_find({{name}}_weights *weights, const sc_weights *file) {
    memset(weights, 0, sizeof *weights);
    /* Where a layer's tensors have the names of the layer before, but for the number, none are said. */
{{#tensors}}
{{#named}}
    /* {{names}} */
{{/named}}
    weights->{{place}} = sc_weights_at(file, {{offset}});
{{/tensors}}
}
