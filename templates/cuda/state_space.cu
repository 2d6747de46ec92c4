{{! state_space.cu - a selective state space, token by token; decode and prefill alike. }}
/*
 * Per head, with A = -exp(A_log) of each {{#per_element}}element{{/per_element}}{{^per_element}}head{{/per_element}} and dt = softplus(dt{{#dt_bias}} + dt_bias{{/dt_bias}}){{#limited_below}}, at least {{dt_least}}{{/limited_below}}{{#limited_above}}, at most {{dt_most}}{{/limited_above}}:
 *   h = exp(dt A) h + (dt x) B^T, y = h C + D x
 * (Gu and Dao 2023; Dao and Gu 2024, section 7). h [rows, heads, head_dim, state_size] is the
 * layer's state, float32; padding leaves it as it is. As templates/ops/state_space.c.
 *
 * Grid [{{fn}}_GRID, batch], block SCAN_THREADS. {{fn}}_LANES threads have one row of one head's h in
 * registers from the first token to the last, 4 elements of it side by side at a step. A thread adds
 * up its elements in rising order, then lanes by halves. y may lie over x: of a row its own lanes
 * alone read x, and have when the first of them writes y.
 */
static __device__ __forceinline__ void {{fn}}_part(float v[4], const float *from, int at) {
{{#aligned}}
    four_floats(v, from, at, {{fn}}_SIZE);
{{/aligned}}
{{^aligned}}
    for (int i = 0; i < 4; i++)
        v[i] = at + i < {{fn}}_SIZE ? from[at + i] : 0;
{{/aligned}}
}

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    {{fn}}_kernel(const step *s, const float *x, const float *dt, const float *b, const float *c,
    {{fn_pad}}        const float *a_log, const float *d, const float *dt_bias, float *state, {{y_ctype}} *y{{#twin}},
    {{fn_pad}}        operand *y_operands{{/twin}}) {
    const long long batch = blockIdx.y;
    if (batch >= s->batch)
        return;
    const int lane = (int)threadIdx.x % {{fn}}_LANES;
    const int team = ((int)blockIdx.x * SCAN_THREADS + (int)threadIdx.x) / {{fn}}_LANES;
    /* Those behind the last row keep their warp company, and store nothing. */
    const int row = (int)least(team, {{fn}}_ROWS - 1), head = row / {{fn}}_DIM;
    const bool writes = team < {{fn}}_ROWS;
    const int tokens = (int)s->tokens;
    const int padding = (int)least(tokens, most(0, s->padding[batch] - s->seen[batch]));
    float h[{{fn}}_STEPS][4];
{{#per_element}}
    float a[{{fn}}_STEPS][4];
{{/per_element}}
{{^per_element}}
    const float a = -expf(a_log[head]);
{{/per_element}}
    state += (s->row[batch] * {{fn}}_ROWS + row) * {{fn}}_SIZE;
    for (int n = 0; n < {{fn}}_STEPS; n++) {
        const int at = (n * {{fn}}_LANES + lane) * 4;
        four_floats(h[n], state, at, {{fn}}_SIZE);
{{#per_element}}
        four_floats(a[n], a_log + head * {{fn}}_SIZE, at, {{fn}}_SIZE);
        for (int i = 0; i < 4; i++)
            a[n][i] = -expf(a[n][i]);
{{/per_element}}
    }
    const float skip = d[head]{{#dt_bias}}, bias = dt_bias[head]{{/dt_bias}};
{{^dt_bias}}
    (void)dt_bias;
{{/dt_bias}}
    x += batch * tokens * {{x_row}} + row;
    dt += batch * tokens * {{dt_row}} + head;
    b += batch * tokens * {{b_row}} + head / {{fn}}_GROUP * {{fn}}_SIZE;
    c += batch * tokens * {{c_row}} + head / {{fn}}_GROUP * {{fn}}_SIZE;
    y += batch * tokens * {{y_row}} + row;
{{#twin}}
    y_operands += batch * tokens * {{twin_row}} + row;
{{/twin}}
    for (long long token = 0; token < tokens; token++) {
        float made = 0;
        if (token >= padding) {
            const float xi = x[token * {{x_row}}];
            float delta = softplus(dt[token * {{dt_row}}]{{#dt_bias}} + bias{{/dt_bias}}), sum = 0;
{{#limited_below}}
            delta = fmaxf(delta, {{dt_least}});
{{/limited_below}}
{{#limited_above}}
            delta = fminf(delta, {{dt_most}});
{{/limited_above}}
{{^per_element}}
            const float decay = expf(delta * a);
{{/per_element}}
#pragma unroll
            for (int n = 0; n < {{fn}}_STEPS; n++) {
                const int at = (n * {{fn}}_LANES + lane) * 4;
                float from[4], to[4];
                {{fn}}_part(from, b + token * {{b_row}}, at);
                {{fn}}_part(to, c + token * {{c_row}}, at);
                for (int i = 0; i < 4; i++) {
{{#per_element}}
                    const float decay = expf(delta * a[n][i]);
{{/per_element}}
                    h[n][i] = fmaf(delta * xi, from[i], h[n][i] * decay);
                    sum = fmaf(h[n][i], to[i], sum);
                }
            }
            for (int apart = {{fn}}_LANES / 2; apart; apart /= 2)
                sum += __shfl_xor_sync(0xffffffff, sum, apart);
            made = fmaf(skip, xi, sum);
        }
        if (writes && lane == 0) {
            y[token * {{y_row}}] = {{y_from}}(made);
{{#twin}}
            y_operands[token * {{twin_row}}] = operand_of(made);
{{/twin}}
        }
    }
    for (int n = 0; n < {{fn}}_STEPS; n++)
        for (int i = 0; i < 4; i++) {
            const int at = (n * {{fn}}_LANES + lane) * 4 + i;
            if (writes && at < {{fn}}_SIZE)
                state[at] = h[n][i];
        }
}

