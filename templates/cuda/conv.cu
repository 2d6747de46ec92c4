/*
 * A convolution of {{channels}} channels over {{columns}} columns:
 * y[t] = act(bias + sum over k of w[k] x[t - {{columns}} + 1 + k]), where x is as the cache keeps it, so that
 * nobody sees where a prompt was cut. The last columns of x are the layer's conv_state, oldest first.
 *
 * Grid [ceil({{channels}} / STATE_THREADS), batch], block STATE_THREADS. A thread has one channel of one row
 * of the batch; its tokens follow each other.
 */
extern "C" __global__ void __launch_bounds__(STATE_THREADS)
    {{fn}}_kernel(const step *s, const float *x, float *y, operand *to, weight *state, const float *w,
    {{fn_pad}}           const float *bias) {
    enum { CHANNELS = {{channels}}, COLUMNS = {{columns}} };
    const int channel = (int)blockIdx.x * STATE_THREADS + (int)threadIdx.x, batch = (int)blockIdx.y;
    if (channel >= CHANNELS || batch >= s->batch)
        return;
    weight *kept = state + (s->row[batch] * CHANNELS + channel) * COLUMNS;
    float column[COLUMNS], tap[COLUMNS];
#pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        column[k] = weight_float(kept[k]);
        tap[k] = w[channel * COLUMNS + k];
    }
    (void)y; /* one of them may not be wanted */
    (void)to;
{{^bias}}
    (void)bias;
{{/bias}}
    for (int token = 0; token < s->tokens; token++) {
        const long long row = batch * s->tokens + token;
        if (s->seen[batch] + token < s->padding[batch]) {
            put({{y}}, {{to}}, channel, 0.0f);
            continue;
        }
#pragma unroll
        for (int k = 1; k < COLUMNS; k++)
            column[k - 1] = column[k];
        column[COLUMNS - 1] = weight_float(operand_of(({{x}})[channel]));
        float sum = {{#bias}}bias[channel]{{/bias}}{{^bias}}0{{/bias}};
#pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            sum = fmaf(column[k], tap[k], sum);
        put({{y}}, {{to}}, channel, {{act}}(sum));
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        kept[k] = operand_of(column[k]);
}

