/*
 * {{what}} in a prefill.
 * Grid [{{fn}}_TILES_GRID, experts], block EXPERT_THREADS, shared {{#gated}}12672{{/gated}}{{^gated}}8448{{/gated}} bytes. A block makes EXPERT_OUTPUTS
 * outputs of all choices of one expert, 32 choices at a time, a lane one output of 8 choices.
 * Sum: inputs in rising order.
 */
extern "C" __global__ void __launch_bounds__(EXPERT_THREADS)
    {{fn}}_all_kernel(const int *ranges, const int *order, const void *x, const weight *w,
       {{fn_pad}}            const float *bias, const float *route, {{y_ctype}} *y) {
    enum { INPUTS = 32, STRIDE = INPUTS + 1, CHOICES = 32, OWN = 8 };
    SHARED(float, tile, EXPERT_OUTPUTS * STRIDE);
{{#gated}}
    SHARED(float, up_tile, EXPERT_OUTPUTS * STRIDE);
{{/gated}}
    SHARED(float, x_tile, CHOICES * STRIDE);
{{^bias}}
    (void)bias;
{{/bias}}
{{^weighed}}
    (void)route;
{{/weighed}}
    const int expert = (int)blockIdx.y, first = ranges[2 * expert], end = ranges[2 * expert + 1];
    const int lane = (int)threadIdx.x % 32, own = (int)threadIdx.x / 32 * OWN;
    const int base = (int)blockIdx.x * EXPERT_OUTPUTS;
    w += (expert * (long long){{device_out}} + base) * {{fn}}_DEPTH;
    for (int begin = first; begin < end; begin += CHOICES) {
        float sum[OWN]{{#gated}}, up[OWN]{{/gated}};
#pragma unroll
        for (int i = 0; i < OWN; i++)
            sum[i] = {{#gated}}up[i] = {{/gated}}0;
        for (int k = 0; k < {{fn}}_DEPTH; k += INPUTS) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < EXPERT_OUTPUTS * INPUTS; i += EXPERT_THREADS) {
                const int row = i / INPUTS, in = i % INPUTS;
                const bool there = k + in < {{fn}}_DEPTH, kept = there && base + row < {{out}};
                const long long from = row * (long long){{fn}}_DEPTH + k + in;
                tile[row * STRIDE + in] = kept ? weight_float(w[from]) : 0.0f;
{{#gated}}
                up_tile[row * STRIDE + in] =
                    kept ? weight_float(w[{{out}} * (long long){{fn}}_DEPTH + from]) : 0.0f;
{{/gated}}
                const long long choice = order[least(begin + row, end - 1)];
                x_tile[row * STRIDE + in] =
                    there ? ((const float *)x)[{{choice_row}} * {{x_row}} + k + in] : 0.0f;
            }
            __syncthreads();
            for (int in = 0; in < INPUTS; in++)
#pragma unroll
                for (int i = 0; i < OWN; i++) {
                    sum[i] = fmaf(tile[lane * STRIDE + in], x_tile[(own + i) * STRIDE + in], sum[i]);
{{#gated}}
                    up[i] = fmaf(up_tile[lane * STRIDE + in], x_tile[(own + i) * STRIDE + in], up[i]);
{{/gated}}
                }
        }
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            if (begin + own + i >= end || base + lane >= {{out}})
                continue;
            const int choice = order[begin + own + i], output = base + lane;
            float total = sum[i]{{#gated}}, total_up = up[i]{{/gated}};
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

