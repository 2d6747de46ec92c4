{{! delta_rule.cu - a gated delta rule, token by token; decode and prefill alike. }}
/*
 * Per head, with decay = exp(-exp(A_log) softplus(a + dt_bias)) and beta = sigmoid(b):
 *   S = decay S, S = S + k (beta (v - S^T k))^T, y = S^T q
 * where q and k have length 1, and q is divided by the root of {{key_dim}} (Yang, Kautz and Hatamizadeh
 * 2024, equation 10; Qwen3NextGatedDeltaNet). S [rows, heads, key_dim, value_dim] is the layer's
 * state, float32; padding leaves it as it is. As templates/ops/delta_rule.c.
 *
 * Grid [{{fn}}_GRID, batch], block SCAN_THREADS. A warp has {{fn}}_COLUMNS columns of one head's S in
 * registers from the first token to the last: four lanes each, which take turns by four keys. A
 * thread adds up its keys in rising order, then lanes by halves. y may lie over v: a column's own
 * lanes alone read its v, and have when the first of them writes y.
 */
static __device__ __forceinline__ void {{fn}}_part(float v[4], const float *from, int at) {
{{#aligned}}
    four_floats(v, from, at, {{fn}}_KEY);
{{/aligned}}
{{^aligned}}
    for (int i = 0; i < 4; i++)
        v[i] = at + i < {{fn}}_KEY ? from[at + i] : 0;
{{/aligned}}
}

/* What makes x of length 1: a lane squares every 32nd element in rising order. */
static __device__ __forceinline__ float {{fn}}_unit(const float *x) {
    float sum = 0;
    for (int i = (int)threadIdx.x % 32; i < {{fn}}_KEY; i += 32)
        sum = fmaf(x[i], x[i], sum);
    return 1.0f / sqrtf(warp_sum(sum) + 1e-6f);
}

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    {{fn}}_kernel(const step *s, const float *q, const float *k, const float *v, const float *a,
    {{fn_pad}}        const float *b, const float *a_log, const float *dt_bias, float *state,
    {{fn_pad}}        {{y_ctype}} *y{{#twin}}, operand *y_operands{{/twin}}) {
    const long long batch = blockIdx.y;
    const int warp = ((int)blockIdx.x * SCAN_THREADS + (int)threadIdx.x) / 32, head = warp / {{fn}}_WARPS;
    if (batch >= s->batch || head >= {{fn}}_HEADS)
        return;
    const int lane = (int)threadIdx.x % 32, turn = lane / {{fn}}_COLUMNS;
    const int wanted = warp % {{fn}}_WARPS * {{fn}}_COLUMNS + lane % {{fn}}_COLUMNS;
    /* Those behind the last column keep their warp company, and store nothing. */
    const int column = (int)least(wanted, {{fn}}_VALUE - 1);
    const bool writes = wanted < {{fn}}_VALUE;
    const int tokens = (int)s->tokens;
    const int padding = (int)least(tokens, most(0, s->padding[batch] - s->seen[batch]));
    float h[{{fn}}_STEPS][4];
    state += (s->row[batch] * {{fn}}_HEADS + head) * {{fn}}_KEY * {{fn}}_VALUE + column;
#pragma unroll
    for (int n = 0; n < {{fn}}_STEPS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = (n * 4 + turn) * 4 + i;
            h[n][i] = key < {{fn}}_KEY ? state[key * {{fn}}_VALUE] : 0;
        }
    const float rate = -expf(a_log[head]), bias = dt_bias[head];
    q += batch * tokens * {{q_row}} + head / {{fn}}_SHARE * {{fn}}_KEY;
    k += batch * tokens * {{k_row}} + head / {{fn}}_SHARE * {{fn}}_KEY;
    v += batch * tokens * {{v_row}} + head * {{fn}}_VALUE + column;
    a += batch * tokens * {{a_row}} + head;
    b += batch * tokens * {{b_row}} + head;
    y += batch * tokens * {{y_row}} + head * {{fn}}_VALUE + column;
{{#twin}}
    y_operands += batch * tokens * {{twin_row}} + head * {{fn}}_VALUE + column;
{{/twin}}
    for (long long token = 0; token < tokens; token++) {
        float made = 0;
        if (token >= padding) {
            const float *query = q + token * {{q_row}}, *key = k + token * {{k_row}};
            const float value = v[token * {{v_row}}];
            const float decay = expf(rate * softplus(a[token * {{a_row}}] + bias));
            const float beta = 1.0f / (1.0f + expf(-b[token * {{b_row}}]));
            const float q_by = {{fn}}_unit(query) * {{scale}}, k_by = {{fn}}_unit(key);
            float known = 0;
#pragma unroll
            for (int n = 0; n < {{fn}}_STEPS; n++) {
                float part[4];
                {{fn}}_part(part, key, (n * 4 + turn) * 4);
                for (int i = 0; i < 4; i++) {
                    h[n][i] *= decay;
                    known = fmaf(h[n][i], part[i] * k_by, known);
                }
            }
            for (int apart = 16; apart >= {{fn}}_COLUMNS; apart /= 2)
                known += __shfl_xor_sync(0xffffffff, known, apart);
            const float news = (value - known) * beta;
#pragma unroll
            for (int n = 0; n < {{fn}}_STEPS; n++) {
                float part[4], asked[4];
                {{fn}}_part(part, key, (n * 4 + turn) * 4);
                {{fn}}_part(asked, query, (n * 4 + turn) * 4);
                for (int i = 0; i < 4; i++) {
                    h[n][i] = fmaf(part[i] * k_by, news, h[n][i]);
                    made = fmaf(h[n][i], asked[i] * q_by, made);
                }
            }
            for (int apart = 16; apart >= {{fn}}_COLUMNS; apart /= 2)
                made += __shfl_xor_sync(0xffffffff, made, apart);
        }
        if (writes && turn == 0) {
            y[token * {{y_row}}] = {{y_from}}(made);
{{#twin}}
            y_operands[token * {{twin_row}}] = operand_of(made);
{{/twin}}
        }
    }
#pragma unroll
    for (int n = 0; n < {{fn}}_STEPS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = (n * 4 + turn) * 4 + i;
            if (writes && key < {{fn}}_KEY)
                state[key * {{fn}}_VALUE] = h[n][i];
        }
}

