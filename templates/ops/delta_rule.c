/*
 * {{layer_list}}: a gated delta rule of {{heads}} heads, {{key_dim}} by {{value_dim}} each; {{key_heads}} heads of queries and keys.
 *
 * Token by token, with decay = exp(-exp(A_log) softplus(a + dt_bias)) and beta = sigmoid(b):
 *   S = decay S, S = S + k (beta (v - S^T k))^T, y = S^T q
 * where q and k have length 1, and q is divided by the root of {{key_dim}} (Yang, Kautz and Hatamizadeh
 * 2024, equation 10; Qwen3NextGatedDeltaNet). S is the layer's recurrent_state, float32.
 *
 * A task is one head of one row of the batch; its tokens follow each other. A sum over the keys
 * runs in rising order.
 */
enum {
    DELTA{{id}}_HEADS = {{heads}},
    DELTA{{id}}_KEY = {{key_dim}},
    DELTA{{id}}_VALUE = {{value_dim}},
    DELTA{{id}}_SHARE = {{heads}} / {{key_heads}}, /* heads of one query and key */
};

/* y = x of length 1, times factor. */
static void unit{{id}}(const float *x, float factor, float y[DELTA{{id}}_KEY]) {
    vec squares = { 0 };
    for (int64_t i = 0; i < DELTA{{id}}_KEY; i += SC_LANES) {
        const vec part = vec_load_part(x + i, DELTA{{id}}_KEY - i);
        squares = vec_fma(part, part, squares);
    }
    const float scale = 1.0f / sqrtf(vec_sum(squares) + 1e-6f) * factor;
    for (int64_t i = 0; i < DELTA{{id}}_KEY; i++)
        y[i] = x[i] * scale;
}

static void delta{{id}}(const step *s, int thread, int layer, const {{name}}_layer_weights *w) {
    {{name}}_model *m = s->model;
    const int64_t tasks = s->batch * DELTA{{id}}_HEADS;
    for (int64_t task = tasks * thread / s->threads; task < tasks * (thread + 1) / s->threads;
         task++) {
        const int64_t batch = task / DELTA{{id}}_HEADS, head = task % DELTA{{id}}_HEADS;
        const int64_t key_at = head / DELTA{{id}}_SHARE * DELTA{{id}}_KEY;
        float *state = (float *)(void *)state_row(s->cache, {{name}}_place[layer].state + {{state}},
                                                  s->row[batch]) +
                       head * DELTA{{id}}_KEY * DELTA{{id}}_VALUE;
        const float rate = -expf(w->A_log[head]);
        for (int64_t token = 0; token < s->tokens; token++) {
            const int64_t row = batch * s->tokens + token;
            const float *v = {{v}} + head * DELTA{{id}}_VALUE;
            float *y = {{y}} + head * DELTA{{id}}_VALUE; /* may lie over v */
            float q[DELTA{{id}}_KEY], k[DELTA{{id}}_KEY];
            if (s->seen[batch] + token < padding_of(s, batch)) {
                memset(y, 0, DELTA{{id}}_VALUE * sizeof *y);
                continue;
            }
            unit{{id}}({{q}} + key_at, {{scale}}, q);
            unit{{id}}({{k}} + key_at, 1.0f, k);
            const float a = ({{a}})[head] + w->dt_bias[head];
            const vec decay = vec_set(expf(rate * softplus(a)));
            const vec beta = vec_set(1.0f / (1.0f + expf(-({{b}})[head])));
            for (int64_t n = 0; n < DELTA{{id}}_VALUE; n += SC_LANES) {
                const int64_t part = DELTA{{id}}_VALUE - n;
                vec known = { 0 }, sum = { 0 };
                for (int64_t i = 0; i < DELTA{{id}}_KEY; i++)
                    known = vec_fma(vec_load_part(state + i * DELTA{{id}}_VALUE + n, part) * decay,
                                    vec_set(k[i]), known);
                const vec news = (vec_load_part(v + n, part) - known) * beta;
                for (int64_t i = 0; i < DELTA{{id}}_KEY; i++) {
                    float *at = state + i * DELTA{{id}}_VALUE + n;
                    const vec next = vec_fma(vec_set(k[i]), news, vec_load_part(at, part) * decay);
                    vec_store_part(at, next, part);
                    sum = vec_fma(next, vec_set(q[i]), sum);
                }
                vec_store_part(y + n, sum, part);
            }
        }
    }
}

