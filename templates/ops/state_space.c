/*
 * {{layer_list}}: a state space of {{heads}} heads, {{head_dim}} by {{state_size}} each; {{groups}} groups of heads share B and C.
 *
 * Token by token, with A = -exp(A_log) of each {{#per_element}}element{{/per_element}}{{^per_element}}head{{/per_element}} and dt = softplus(dt{{#dt_bias}} + dt_bias{{/dt_bias}}){{#limited_below}}, at least {{dt_least}}{{/limited_below}}{{#limited_above}}, at most {{dt_most}}{{/limited_above}}:
 *   h = exp(dt A) h + (dt x) B^T, y = h C + D x
 * (Gu and Dao 2023; Dao and Gu 2024, section 7). h is the layer's recurrent_state, float32.
 *
 * A task is one head of one row of the batch; its tokens follow each other. A sum over the state
 * runs lane by lane.
 */
enum {
    SCAN{{id}}_HEADS = {{heads}},
    SCAN{{id}}_DIM = {{head_dim}},
    SCAN{{id}}_SIZE = {{state_size}},
    SCAN{{id}}_GROUP = {{heads}} / {{groups}}, /* heads of one */
};

static void scan{{id}}(const step *s, int thread, int layer, const {{name}}_layer_weights *w) {
    {{name}}_model *m = s->model;
    const int64_t tasks = s->batch * SCAN{{id}}_HEADS;
    for (int64_t task = tasks * thread / s->threads; task < tasks * (thread + 1) / s->threads;
         task++) {
        const int64_t batch = task / SCAN{{id}}_HEADS, head = task % SCAN{{id}}_HEADS;
        const int64_t shared = head / SCAN{{id}}_GROUP * SCAN{{id}}_SIZE;
        float *state = (float *)(void *)state_row(s->cache, {{name}}_place[layer].state + {{state}},
                                                  s->row[batch]) +
                       head * SCAN{{id}}_DIM * SCAN{{id}}_SIZE;
{{^per_element}}
        const float a = -expf(w->A_log[head]);
{{/per_element}}
{{#per_element}}
        vec a[(SCAN{{id}}_SIZE + SC_LANES - 1) / SC_LANES];
        for (int64_t n = 0; n < SCAN{{id}}_SIZE; n += SC_LANES)
            a[n / SC_LANES] = -vec_exp(
                vec_load_part(w->A_log + head * SCAN{{id}}_SIZE + n, SCAN{{id}}_SIZE - n));
{{/per_element}}
        for (int64_t token = 0; token < s->tokens; token++) {
            const int64_t row = batch * s->tokens + token;
            const float *x = {{x}} + head * SCAN{{id}}_DIM;
            const float *b = {{b}} + shared, *c = {{c}} + shared;
            float *y = {{y}} + head * SCAN{{id}}_DIM;
            if (s->seen[batch] + token < padding_of(s, batch)) {
                memset(y, 0, SCAN{{id}}_DIM * sizeof *y);
                continue;
            }
            float dt = softplus(({{dt}})[head]{{#dt_bias}} + w->dt_bias[head]{{/dt_bias}});
{{#limited_below}}
            dt = dt < {{dt_least}} ? {{dt_least}} : dt;
{{/limited_below}}
{{#limited_above}}
            dt = dt > {{dt_most}} ? {{dt_most}} : dt;
{{/limited_above}}
{{^per_element}}
            const vec decay = vec_set(expf(dt * a));
{{/per_element}}
            float *h = state;
            for (int64_t i = 0; i < SCAN{{id}}_DIM; i++, h += SCAN{{id}}_SIZE) {
                const float xi = x[i]; /* y may lie over it */
                vec sum = { 0 };
                for (int64_t n = 0; n < SCAN{{id}}_SIZE; n += SC_LANES) {
                    const int64_t part = SCAN{{id}}_SIZE - n;
{{#per_element}}
                    const vec decay = vec_exp(vec_set(dt) * a[n / SC_LANES]);
{{/per_element}}
                    const vec next = vec_fma(vec_set(dt * xi), vec_load_part(b + n, part),
                                             vec_load_part(h + n, part) * decay);
                    vec_store_part(h + n, next, part);
                    sum = vec_fma(next, vec_load_part(c + n, part), sum);
                }
                y[i] = vec_sum(sum) + w->D[head] * xi;
            }
        }
    }
}

