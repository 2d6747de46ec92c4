{{! conv.cu - a convolution of each channel over the tokens so far; decode and prefill alike. }}
/*
 * y[t] = {{#activated}}{{act}}({{/activated}}{{#bias}}bias + {{/bias}}sum over k of w[k] x[t - {{columns}} + 1 + k]{{#activated}}){{/activated}} of each channel, x as the cache keeps it. The last
 * columns of x are the layer's state [rows, channels, columns], oldest first; padding leaves it as
 * it is. As templates/ops/conv.c.
 *
 * Grid [{{fn}}_GRID, batch], block CONV_THREADS. A thread has one channel of one row of the batch,
 * whose tokens follow each other, and adds in rising k. {{fn}}_AHEAD of them are fetched at once,
 * before y is written, which may lie over x.
 */
enum { {{fn}}_AHEAD = 8 };

extern "C" __global__ void __launch_bounds__(CONV_THREADS)
    {{fn}}_kernel(const step *s, const float *x, const float *w, const float *bias, operand *state,
    {{fn_pad}}        {{y_ctype}} *y{{#twin}}, operand *y_operands{{/twin}}) {
    const long long batch = blockIdx.y;
    const int channel = (int)blockIdx.x * CONV_THREADS + (int)threadIdx.x;
    if (batch >= s->batch || channel >= {{fn}}_CHANNELS)
        return;
    const int tokens = (int)s->tokens;
    const int padding = (int)least(tokens, most(0, s->padding[batch] - s->seen[batch]));
    float column[{{fn}}_COLUMNS], tap[{{fn}}_COLUMNS];
    state += (s->row[batch] * {{fn}}_CHANNELS + channel) * {{fn}}_COLUMNS;
    for (int k = 0; k < {{fn}}_COLUMNS; k++) {
        column[k] = weight_float(state[k]);
        tap[k] = w[channel * {{fn}}_COLUMNS + k];
    }
{{#bias}}
    const float offset = bias[channel];
{{/bias}}
{{^bias}}
    const float offset = 0;
    (void)bias;
{{/bias}}
    x += batch * tokens * {{x_row}} + channel;
    y += batch * tokens * {{y_row}} + channel;
{{#twin}}
    y_operands += batch * tokens * {{twin_row}} + channel;
{{/twin}}
    for (int begin = 0; begin < tokens; begin += {{fn}}_AHEAD) {
        float ahead[{{fn}}_AHEAD];
#pragma unroll
        for (int i = 0; i < {{fn}}_AHEAD; i++)
            ahead[i] = begin + i < tokens ? x[(long long)(begin + i) * {{x_row}}] : 0;
#pragma unroll
        for (int i = 0; i < {{fn}}_AHEAD; i++) {
            const long long token = begin + i;
            float made = 0;
            if (token >= tokens)
                break;
            if (token >= padding) {
                for (int k = 1; k < {{fn}}_COLUMNS; k++)
                    column[k - 1] = column[k];
                column[{{fn}}_COLUMNS - 1] = weight_float(operand_of(ahead[i]));
                float sum = offset;
                for (int k = 0; k < {{fn}}_COLUMNS; k++)
                    sum = fmaf(column[k], tap[k], sum);
                made = {{act}}(sum);
            }
            y[token * {{y_row}}] = {{y_from}}(made);
{{#twin}}
            y_operands[token * {{twin_row}}] = operand_of(made);
{{/twin}}
        }
    }
    for (int k = 0; k < {{fn}}_COLUMNS; k++)
        state[k] = operand_of(column[k]);
}

