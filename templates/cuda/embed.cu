{{#ropes}}
/* {{rope_type}} rope, base {{rope_theta}}: angle of pair i at position p is p * inv_freq[i]. */
DEVICE_TABLE float rope{{id}}_inv_freq[ROPE{{id}}_PAIRS] = {
{{#rows}}
    {{numbers}}
{{/rows}}
};

{{#switches}}
/* The same for tokens from position ROPE{{id}}_LONG on. */
enum { ROPE{{id}}_LONG = {{long_from}} };
DEVICE_TABLE float rope{{id}}_long_freq[ROPE{{id}}_PAIRS] = {
{{#long_rows}}
    {{numbers}}
{{/long_rows}}
};

{{/switches}}
{{#grows}}
/* Tokens from position ROPE{{id}}_LONG on turn slower, each by its own position. */
enum { ROPE{{id}}_LONG = {{long_from}} };

/* What the base of such a token's angles has grown by, raised to 1 - 2 / (2 ROPE{{id}}_PAIRS). */
static __device__ __forceinline__ double rope{{id}}_growth(long long pos) {
    const double factor = {{growth}};
    return pos < ROPE{{id}}_LONG ? 1 : factor * (double)(pos + 1) / ROPE{{id}}_LONG - (factor - 1);
}

{{/grows}}
{{/ropes}}
/*
 * The token's row of embed_tokens [VOCAB, HIDDEN_DEPTH], and the angles of its position. Padding
 * takes token 0.
 * Grid: the rows of the pass; block ROW_THREADS; a block makes one row, a thread every
 * ROW_THREADS-th element.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    embed_kernel(const step *s, const weight *embed_tokens, float *x, {{#embed_twin}}operand *x_operands, {{/embed_twin}}float *angles) {
    const long long row = blockIdx.x, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
    const long long pos = s->seen[batch] + row % s->tokens - s->padding[batch];
    const weight *from = embed_tokens + (pos < 0 ? 0 : s->ids[row]) * (long long)HIDDEN_DEPTH;
    for (int i = (int)threadIdx.x; i < HIDDEN; i += ROW_THREADS)
{{#embed_twin}}
        put(x + row * {{embed_row}}, x_operands + row * {{embed_twin_row}}, i,
            weight_float(from[i]){{#embed_scaled}} * {{embed_scale}}{{/embed_scaled}});
{{/embed_twin}}
{{^embed_twin}}
        x[row * {{embed_row}} + i] = weight_float(from[i]){{#embed_scaled}} * {{embed_scale}}{{/embed_scaled}};
{{/embed_twin}}
{{#ropes}}
    for (int i = (int)threadIdx.x; i < ROPE{{id}}_PAIRS; i += ROW_THREADS) {
{{#plain}}
        const float angle = (float)pos * rope{{id}}_inv_freq[i];
{{/plain}}
{{#switches}}
        const float angle =
            (float)pos * (pos < ROPE{{id}}_LONG ? rope{{id}}_inv_freq[i] : rope{{id}}_long_freq[i]);
{{/switches}}
{{#grows}}
        const double slower = pow(rope{{id}}_growth(pos), -(double)i / (ROPE{{id}}_PAIRS - 1));
        const float angle = (float)pos * (float)(rope{{id}}_inv_freq[i] * slower);
{{/grows}}
        angles[ROPE{{id}}_COS + row * ROPE{{id}}_PAIRS + i] = cosf(angle){{#scaled}} * {{attention_factor}}{{/scaled}};
        angles[ROPE{{id}}_SIN + row * ROPE{{id}}_PAIRS + i] = sinf(angle){{#scaled}} * {{attention_factor}}{{/scaled}};
    }
{{/ropes}}
{{^ropes}}
    (void)angles;
{{/ropes}}
}

