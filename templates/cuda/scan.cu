/*
 * A state space of {{heads}} heads, {{head_dim}} by {{state_size}} each; {{groups}} groups of heads share B and C. Token by token,
 * with A = -exp(A_log) of each {{#per_element}}element{{/per_element}}{{^per_element}}head{{/per_element}} and dt = softplus(dt{{#dt_bias}} + dt_bias{{/dt_bias}}){{#limited_below}}, at least {{dt_least}}{{/limited_below}}{{#limited_above}}, at most {{dt_most}}{{/limited_above}}:
 *   h = exp(dt A) h + (dt x) B^T, y = h C + D x
 * (Gu and Dao 2023; Dao and Gu 2024, section 7). h is the layer's recurrent_state, float32.
 *
 * Grid [ceil({{heads}} * {{head_dim}} / (STATE_THREADS / 32)), batch], block STATE_THREADS. A warp has one row of a
 * head's state in its registers, a lane every 32nd element; its tokens follow each other. A sum over
 * the state runs lane by lane, lanes are added by halves.
 */
extern "C" __global__ void __launch_bounds__(STATE_THREADS)
    {{fn}}_kernel(const step *s, const float *x, const float *dt, const float *b, const float *c, float *y,
    {{fn_pad}}           operand *to, float *state, const float *a_log, const float *d, const float *dt_bias) {
    enum { HEADS = {{heads}}, DIM = {{head_dim}}, SIZE = {{state_size}}, GROUP = HEADS / {{groups}}, OWN = (SIZE + 31) / 32 };
    const int lane = (int)threadIdx.x % 32, batch = (int)blockIdx.y;
    const int line = (int)blockIdx.x * (STATE_THREADS / 32) + (int)threadIdx.x / 32, head = line / DIM;
    if (line >= HEADS * DIM || batch >= s->batch)
        return;
    float *kept = state + (s->row[batch] * HEADS * DIM + line) * SIZE;
    float h[OWN]{{#per_element}}, a[OWN]{{/per_element}};
#pragma unroll
    for (int n = 0; n < OWN; n++) {
        const bool there = n * 32 + lane < SIZE;
        h[n] = there ? kept[n * 32 + lane] : 0.0f;
{{#per_element}}
        a[n] = there ? -expf(a_log[head * SIZE + n * 32 + lane]) : 0.0f;
{{/per_element}}
    }
{{^per_element}}
    const float a = -expf(a_log[head]);
{{/per_element}}
    const float skip = d[head];
    (void)y; /* one of them may not be wanted */
    (void)to;
{{^dt_bias}}
    (void)dt_bias;
{{/dt_bias}}
    for (int token = 0; token < s->tokens; token++) {
        const long long row = batch * s->tokens + token;
        if (s->seen[batch] + token < s->padding[batch]) {
            if (lane == 0)
                put({{y}}, {{to}}, line, 0.0f);
            continue;
        }
        const float xi = ({{x}})[line]; /* y may lie over it */
        const float wide = ({{dt}})[head]{{#dt_bias}} + dt_bias[head]{{/dt_bias}};
        float delta = wide > 20.0f ? wide : log1pf(expf(wide)); /* torch.nn.Softplus */
{{#limited_below}}
        delta = fmaxf(delta, {{dt_least}});
{{/limited_below}}
{{#limited_above}}
        delta = fminf(delta, {{dt_most}});
{{/limited_above}}
{{^per_element}}
        const float decay = expf(delta * a);
{{/per_element}}
        const float *bs = {{b}} + head / GROUP * SIZE, *cs = {{c}} + head / GROUP * SIZE;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < OWN; n++) {
            const int at = n * 32 + lane;
            if (at < SIZE) {
                h[n] = fmaf(delta * xi, bs[at], h[n] * {{#per_element}}expf(delta * a[n]){{/per_element}}{{^per_element}}decay{{/per_element}});
                sum = fmaf(h[n], cs[at], sum);
            }
        }
        sum = warp_sum(sum);
        if (lane == 0)
            put({{y}}, {{to}}, line, sum + skip * xi);
    }
#pragma unroll
    for (int n = 0; n < OWN; n++)
        if (n * 32 + lane < SIZE)
            kept[n * 32 + lane] = h[n];
}

