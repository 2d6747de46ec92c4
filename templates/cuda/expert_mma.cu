/*
 * {{what}} in a prefill.
 * Grid [{{fn}}_TILES_GRID, experts], block EXPERT_THREADS. A block makes EXPERT_OUTPUTS outputs of all
 * choices of one expert, a warp 16 of them, W's rows being those of a of mma.m16n8k16; 64 choices
 * at a time, 8 the columns of b. Sum: inputs in rising order of steps.
 */
extern "C" __global__ void __launch_bounds__(EXPERT_THREADS)
    {{fn}}_all_kernel(const int *ranges, const int *order, const void *x, const weight *w,
       {{fn_pad}}            const float *bias, const float *route, {{y_ctype}} *y) {
    enum { TILES = 8, INPUTS = 32 };
{{^bias}}
    (void)bias;
{{/bias}}
{{^weighed}}
    (void)route;
{{/weighed}}
    const int expert = (int)blockIdx.y, first = ranges[2 * expert], end = ranges[2 * expert + 1];
    const int row = (int)threadIdx.x % 32 / 4, at = (int)threadIdx.x % 4 * 8;
    const int base = (int)blockIdx.x * EXPERT_OUTPUTS + (int)threadIdx.x / 32 * 16;
    if (base >= {{out}})
        return;
    const words4 zero = { 0, 0, 0, 0 };
    w += expert * (long long){{device_out}} * {{fn}}_DEPTH + at;
    /* Rows behind the last are the last once more, and not kept. */
    const weight *low = w + least(base + row, {{out}} - 1) * {{fn}}_DEPTH;
    const weight *high = w + least(base + row + 8, {{out}} - 1) * {{fn}}_DEPTH;
    for (int begin = first; begin < end; begin += TILES * 8) {
        const int tiles = (int)least(TILES, (end - begin + 7) / 8);
        const operand *from[TILES];
        float sum[TILES][4]{{#gated}}, up[TILES][4]{{/gated}};
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const long long choice = order[least(begin + i * 8 + row, end - 1)];
            from[i] = (const operand *)x + {{choice_row}} * {{x_row}} + at;
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] = {{#gated}}up[i][j] = {{/gated}}0;
        }
        for (int k = 0; k < {{fn}}_DEPTH; k += INPUTS) {
            const bool there = k + at < {{fn}}_DEPTH;
            const words4 a[2] = { there ? load16(low + k) : zero, there ? load16(high + k) : zero };
{{#gated}}
            const words4 u[2] = { there ? load16(low + {{out}} * (long long){{fn}}_DEPTH + k) : zero,
                                  there ? load16(high + {{out}} * (long long){{fn}}_DEPTH + k) : zero };
{{/gated}}
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                if (i >= tiles) /* the same in all lanes */
                    continue;
                const words4 b = there ? load16_cached(from[i] + k) : zero;
                multiply_step(sum[i], a[0], a[1], b);
{{#gated}}
                multiply_step(up[i], u[0], u[1], b);
{{/gated}}
            }
        }
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int output = base + row + j / 2 * 8;
                const int place = begin + i * 8 + (int)threadIdx.x % 4 * 2 + j % 2;
                if (place >= end || output >= {{out}})
                    continue;
                const int choice = order[place];
                float total = sum[i][j]{{#gated}}, total_up = up[i][j]{{/gated}};
{{#weighed}}
                const float by = route[choice / {{top_k}} * {{route_row}} + {{top_k}} + choice % {{top_k}}]; /* of x */
                total *= by;
{{#gated}}
                total_up *= by;
{{/gated}}
{{/weighed}}
{{#bias}}
                total += bias[expert * {{device_out}} + output];
{{#gated}}
                total_up += bias[expert * {{device_out}} + {{out}} + output];
{{/gated}}
{{/bias}}
                y[choice * (long long){{y_row}} + output] = {{y_from}}({{made}});
            }
    }
}

