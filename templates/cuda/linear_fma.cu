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
 * of all rows of the batch at a time. Its warps take turns at chunks of {{chunk}} inputs; a thread
 * reads 16 bytes of {{tile_rows}} rows of W in each of {{steps}} steps, before it multiplies any.
 * Sum: each lane's inputs in rising order, lanes by halves, then the warps in order.
 */
enum {
    {{fn}}_TILES = {{tiles}},
    {{fn}}_STEPS = {{steps}},
    {{fn}}_CHUNK = STEP * {{fn}}_STEPS,
    {{fn}}_COLUMNS = {{columns}}, /* most rows of x at once, and of y */
{{#normed}}
    {{fn}}_PIECE = {{piece}}, /* inputs that are staged at once */
{{/normed}}
};

extern "C" __global__ void __launch_bounds__(DECODE_THREADS, 2)
    {{fn}}_kernel(const step *s, const void *x, long long x_step, const float *norm_w, {{#norm_biased}}const float *norm_b, {{/norm_biased}}const weight *w,
       {{fn_pad}}        const float *bias, {{y_ctype}} *y{{#twin}}, operand *y_operands{{/twin}}{{#chosen}}, const float *route{{/chosen}}) {
{{#normed}}
    SHARED(float, staged, {{fn}}_COLUMNS * {{fn}}_PIECE);
    SHARED(float, scale, 2 * {{fn}}_COLUMNS);
    SHARED(float, sums, DECODE_WARPS);
{{/normed}}
    SHARED(float, part, DECODE_WARPS * {{tile_rows}} * {{fn}}_COLUMNS);
    const int thread = (int)threadIdx.x, warp = thread / 32, at = thread % 32 * 4;
{{> cuda/linear_choice.cu}}
    const words4 zero = { 0, 0, 0, 0 };
{{^normed}}
    (void)norm_w;
{{/normed}}
{{^bias}}
    (void)bias;
{{/bias}}
    for (int tile = (int)blockIdx.x; tile < {{fn}}_TILES; tile += {{fn}}_GRID) {
        float sum[{{tile_rows}}][{{fn}}_COLUMNS];
        const weight *row[{{tile_rows}}];
#pragma unroll
        for (int r = 0; r < {{tile_rows}}; r++) {
            /* Rows behind the last are the last once more, and not kept. */
            const int output = tile * TILE + r % TILE < {{out}} ? tile * TILE + r % TILE : {{out}} - 1;
            row[r] = w + (r / TILE * {{out}} + output) * (long long){{fn}}_DEPTH + at;
#pragma unroll
            for (int column = 0; column < {{fn}}_COLUMNS; column++)
                sum[r][column] = 0;
        }
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
                words4 a[{{fn}}_STEPS][{{tile_rows}}];
#pragma unroll
                for (int i = 0; i < {{fn}}_STEPS; i++)
#pragma unroll
                    for (int r = 0; r < {{tile_rows}}; r++)
                        a[i][r] = k + i * STEP + at < end ? load16(row[r] + k + i * STEP) : zero;
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
                    stage(staged, {{fn}}_PIECE, scale, (const float *)x, x_step, norm_w, {{#norm_biased}}norm_b{{/norm_biased}}{{^norm_biased}}0{{/norm_biased}}, batch, {{fn}}_COLUMNS,
                          {{norm_width}}, begin, end);
                }
                first = false;
{{/normed}}
#pragma unroll
                for (int i = 0; i < {{fn}}_STEPS; i++) {
                    const int in = k + i * STEP + at;
                    if (in >= end)
                        continue;
#pragma unroll
                    for (int column = 0; column < {{fn}}_COLUMNS; column++) {
                        if (column >= batch)
                            continue;
                        float v[4];
{{#normed}}
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            v[j] = staged[column * {{fn}}_PIECE + in - begin + j];
{{/normed}}
{{#operands}}
{{#scattered}}
                        for (int j = 0; j < 4; j++)
                            v[j] = in + j < {{in}} ? ((const operand *)x)[column * x_step + in + j] : 0;
{{/scattered}}
{{^scattered}}
                        four_floats(v, (const operand *)x + column * x_step, in, {{fn}}_DEPTH);
{{/scattered}}
{{/operands}}
#pragma unroll
                        for (int r = 0; r < {{tile_rows}}; r++)
                            sum[r][column] = multiply_four(sum[r][column], a[i][r], v);
                    }
                }
            }
        }
        __syncthreads(); /* the tile before has been added up */
#pragma unroll
        for (int r = 0; r < {{tile_rows}}; r++)
#pragma unroll
            for (int column = 0; column < {{fn}}_COLUMNS; column++) {
                const float total = warp_sum(sum[r][column]);
                if (thread % 32 == 0)
                    part[(warp * {{tile_rows}} + r) * {{fn}}_COLUMNS + column] = total;
            }
        __syncthreads();
        const int output = tile * TILE + thread / {{fn}}_COLUMNS, column = thread % {{fn}}_COLUMNS;
        if (thread < TILE * {{fn}}_COLUMNS && column < batch && output < {{out}}) {
            float total = 0{{#gated}}, total_up = 0{{/gated}};
            for (int i = 0; i < DECODE_WARPS; i++) {
                total += part[i * {{tile_rows}} * {{fn}}_COLUMNS + thread];
{{#gated}}
                total_up += part[i * {{tile_rows}} * {{fn}}_COLUMNS + TILE * {{fn}}_COLUMNS + thread];
{{/gated}}
            }
{{> cuda/linear_end.cu}}
        }
    }
}

