/*
 * {{what}}.
 * y = W x, W [{{device_out}}, {{device_depth}}] {{dtype}}.
{{#normed}}
 * x are floats, normed here ({{#rms}}LlamaRMSNorm{{/rms}}{{^rms}}torch.nn.LayerNorm{{/rms}}), row b at x + b * x_step.
{{/normed}}
{{#operands}}
 * x are operands, row b at x + b * x_step.
{{/operands}}
{{#chosen}}
 * Of choice blockIdx.y, a row of the batch and one of its experts.
{{/chosen}}
{{#several}}
 * Of the blockIdx.y-th of {{blocks}}, whose x are {{block_x}} apart, and whose y {{block_y}}.
{{/several}}
 *
 * Grid {{fn}}_GRID{{#chosen}} by choices{{/chosen}}{{#several}} by {{blocks}}{{/several}}, block DECODE_THREADS, shared {{decode_shared}} bytes. A block makes {{tile_outputs}}
 * of all rows of the batch at a time by mma.m16n8k16, W's rows being those of a. Its warps take
 * turns at chunks of {{chunk}} inputs; a thread reads 16 bytes of {{tile_rows}} rows of W in each of
 * {{steps}} steps, before it multiplies any.
 * Sum: each warp's chunks in rising order, then the warps in order.
 */
enum {
    {{fn}}_TILES = {{tiles}},
    {{fn}}_STEPS = {{steps}},
    {{fn}}_CHUNK = STEP * {{fn}}_STEPS,
    {{fn}}_COLUMNS = {{columns}}, /* most rows of x at once, and of y */
{{#normed}}
    {{fn}}_PIECE = {{piece}}, /* inputs that are staged at once */
    {{fn}}_STAGED = {{fn}}_PIECE / 2 + STAGED_PADDING, /* no two rows begin in the same bank */
{{/normed}}
};

extern "C" __global__ void __launch_bounds__(DECODE_THREADS, 2)
    {{fn}}_kernel(const step *s, const void *x, long long x_step, const float *norm_w, {{#norm_biased}}const float *norm_b, {{/norm_biased}}const weight *w,
       {{fn_pad}}        const float *bias, {{y_ctype}} *y{{#twin}}, operand *y_operands{{/twin}}{{#chosen}}, const float *route{{/chosen}}) {
{{#normed}}
    SHARED(unsigned, staged, {{fn}}_COLUMNS * {{fn}}_STAGED);
    SHARED(float, scale, 2 * {{fn}}_COLUMNS);
    SHARED(float, sums, DECODE_WARPS);
{{/normed}}
    SHARED(float, part, DECODE_WARPS * {{products}} * TILE * 8);
    const int thread = (int)threadIdx.x, warp = thread / 32, row = thread % 32 / 4;
    const int at = thread % 4 * 8; /* row: of a tile, and of x */
{{> cuda/linear_choice.cu}}
    const words4 zero = { 0, 0, 0, 0 };
{{^normed}}
    (void)norm_w;
    const operand *from = (const operand *)x + row * x_step + at;
{{/normed}}
{{^bias}}
    (void)bias;
{{/bias}}
    for (int tile = (int)blockIdx.x; tile < {{fn}}_TILES; tile += {{fn}}_GRID) {
        /* Rows behind the last are the last once more, and not kept. */
        const int low = tile * TILE + row < {{out}} ? tile * TILE + row : {{out}} - 1;
        const int high = tile * TILE + row + 8 < {{out}} ? tile * TILE + row + 8 : {{out}} - 1;
        const weight *w_low = w + low * (long long){{fn}}_DEPTH + at;
        const weight *w_high = w + high * (long long){{fn}}_DEPTH + at;
{{#gated}}
        const weight *up_low = w_low + {{out}} * (long long){{fn}}_DEPTH;
        const weight *up_high = w_high + {{out}} * (long long){{fn}}_DEPTH;
        float up[4] = { 0, 0, 0, 0 };
{{/gated}}
        float sum[4] = { 0, 0, 0, 0 };
{{#pieces}}
        for (int begin = 0; begin < {{fn}}_DEPTH; begin += {{fn}}_PIECE) {
            const int end = (int)least(begin + {{fn}}_PIECE, {{fn}}_DEPTH);
{{/pieces}}
{{^pieces}}
        {
            const int begin = 0, end = {{fn}}_DEPTH;
{{/pieces}}
{{#normed}}
            bool first = true; /* warps without a chunk help to stage */
{{/normed}}
            for (int k = begin + warp * {{fn}}_CHUNK; k < end{{#normed}} || first{{/normed}}; k += DECODE_WARPS * {{fn}}_CHUNK) {
                words4 a[{{fn}}_STEPS][2]{{#gated}}, u[{{fn}}_STEPS][2]{{/gated}}, b[{{fn}}_STEPS];
#pragma unroll
                for (int i = 0; i < {{fn}}_STEPS; i++) {
                    const int in = k + i * STEP;
                    const bool there = in + at < end;
                    a[i][0] = there ? load16(w_low + in) : zero;
                    a[i][1] = there ? load16(w_high + in) : zero;
{{#gated}}
                    u[i][0] = there ? load16(up_low + in) : zero;
                    u[i][1] = there ? load16(up_high + in) : zero;
{{/gated}}
{{#operands}}
                    b[i] = there && row < batch ? {{#scattered}}load_scattered(from + in, {{in}} - in - at){{/scattered}}{{^scattered}}load16_cached(from + in){{/scattered}} : zero;
{{/operands}}
                }
{{#normed}}
                /* While the first weights are on their way. */
{{#pieces}}
                if (first) {
                    if (tile == (int)blockIdx.x && begin == 0)
                        norm_scales(scale, sums, (const float *)x, x_step, batch, {{fn}}_COLUMNS, {{norm_width}}, {{norm_eps}}, {{centred}});
                    else
                        __syncthreads();
{{/pieces}}
{{^pieces}}
                if (first && tile == (int)blockIdx.x) {
                    norm_scales(scale, sums, (const float *)x, x_step, batch, {{fn}}_COLUMNS, {{norm_width}}, {{norm_eps}}, {{centred}});
{{/pieces}}
                    stage(staged, {{fn}}_STAGED, scale, (const float *)x, x_step, norm_w, {{#norm_biased}}norm_b{{/norm_biased}}{{^norm_biased}}0{{/norm_biased}}, batch, {{fn}}_COLUMNS,
                          {{norm_width}}, begin, end);
                }
#pragma unroll
                for (int i = 0; i < {{fn}}_STEPS; i++) {
                    const int in = k + i * STEP + at, word = row * {{fn}}_STAGED + (in - begin) / 2;
                    if (in < end && row < batch) {
                        b[i].x = staged[word];
                        b[i].y = staged[word + 1];
                        b[i].z = staged[word + 2];
                        b[i].w = staged[word + 3];
                    } else
                        b[i] = zero;
                }
                first = false;
{{/normed}}
#pragma unroll
                for (int i = 0; i < {{fn}}_STEPS; i++) {
                    multiply_step(sum, a[i][0], a[i][1], b[i]);
{{#gated}}
                    multiply_step(up, u[i][0], u[i][1], b[i]);
{{/gated}}
                }
            }
        }
        __syncthreads(); /* the tile before has been added up */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int place = (row + i / 2 * 8) * 8 + thread % 4 * 2 + i % 2;
            part[warp * {{products}} * TILE * 8 + place] = sum[i];
{{#gated}}
            part[warp * 2 * TILE * 8 + TILE * 8 + place] = up[i];
{{/gated}}
        }
        __syncthreads();
        const int output = tile * TILE + thread / 8, column = thread % 8;
        if (thread < TILE * 8 && column < batch && output < {{out}}) {
            float total = 0{{#gated}}, total_up = 0{{/gated}};
            for (int i = 0; i < DECODE_WARPS; i++) {
                total += part[i * {{products}} * TILE * 8 + thread];
{{#gated}}
                total_up += part[i * 2 * TILE * 8 + TILE * 8 + thread];
{{/gated}}
            }
{{> cuda/linear_end.cu}}
        }
    }
}

