{{#ropes}}
/* {{rope_type}} rope, base {{rope_theta}}: angle of pair i at position p is p * inv_freq[i]. */
DEVICE_TABLE float rope{{id}}_inv_freq[ROPE{{id}}_PAIRS] = {
{{#rows}}
    {{numbers}}
{{/rows}}
};

{{/ropes}}
/*
 * The token's row of embed_tokens [VOCAB, HIDDEN_DEPTH], and the angles of its position. Padding
 * takes token 0.
 * Grid: the rows of the pass; block ROW_THREADS; a block makes one row, a thread every
 * ROW_THREADS-th element.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    embed_kernel(const step *s, const weight *embed_tokens, float *x, float *angles) {
    const long long row = blockIdx.x, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
    const long long pos = s->seen[batch] + row % s->tokens - s->padding[batch];
    const weight *from = embed_tokens + (pos < 0 ? 0 : s->ids[row]) * (long long)HIDDEN_DEPTH;
    for (int i = (int)threadIdx.x; i < HIDDEN; i += ROW_THREADS)
        x[row * HIDDEN_STRIDE + i] = weight_float(from[i]);
{{#ropes}}
    for (int i = (int)threadIdx.x; i < ROPE{{id}}_PAIRS; i += ROW_THREADS) {
        const float angle = (float)pos * rope{{id}}_inv_freq[i];
        angles[ROPE{{id}}_COS + row * ROPE{{id}}_PAIRS + i] = cosf(angle){{#scaled}} * {{attention_factor}}{{/scaled}};
        angles[ROPE{{id}}_SIN + row * ROPE{{id}}_PAIRS + i] = sinf(angle){{#scaled}} * {{attention_factor}}{{/scaled}};
    }
{{/ropes}}
{{^ropes}}
    (void)angles;
{{/ropes}}
}

