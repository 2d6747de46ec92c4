/*
 * {{layer_list}}: a convolution of {{channels}} channels over {{columns}} columns.
 *
 * y[t] = {{#activated}}act({{/activated}}{{#bias}}bias + {{/bias}}sum over k of w[k] x[t - {{columns}} + 1 + k]{{#activated}}){{/activated}}, where x is as the cache keeps it, so that nobody
 * sees where a prompt was cut. The last columns of x are the layer's conv_state, oldest first.
 *
 * A task is SC_LANES channels of one row of the batch; its tokens follow each other.
 */
enum {
    CONV{{id}}_CHANNELS = {{channels}},
    CONV{{id}}_COLUMNS = {{columns}},
    CONV{{id}}_TASKS = (CONV{{id}}_CHANNELS + SC_LANES - 1) / SC_LANES,
};

static void conv{{id}}(const step *s, int thread, int layer, const {{name}}_layer_weights *w) {
    {{name}}_model *m = s->model;
    const int64_t tasks = s->batch * CONV{{id}}_TASKS;
    for (int64_t task = tasks * thread / s->threads; task < tasks * (thread + 1) / s->threads;
         task++) {
        const int64_t batch = task / CONV{{id}}_TASKS, first = task % CONV{{id}}_TASKS * SC_LANES;
        const int64_t channels = least(SC_LANES, CONV{{id}}_CHANNELS - first);
        weight *kept = (weight *)(void *)state_row(s->cache, {{name}}_place[layer].state + {{state}},
                                                  s->row[batch]) +
                       first * CONV{{id}}_COLUMNS;
        float columns[CONV{{id}}_COLUMNS][SC_LANES], taps[CONV{{id}}_COLUMNS][SC_LANES];
        vec column[CONV{{id}}_COLUMNS], tap[CONV{{id}}_COLUMNS];
        for (int k = 0; k < CONV{{id}}_COLUMNS; k++) {
            for (int64_t i = 0; i < SC_LANES; i++) {
                const int64_t at = least(i, channels - 1) * CONV{{id}}_COLUMNS + k;
                columns[k][i] = weight_float(kept[at]);
                taps[k][i] = w->{{w}}[first * CONV{{id}}_COLUMNS + at];
            }
            column[k] = vec_load(columns[k]);
            tap[k] = vec_load(taps[k]);
        }
{{#bias}}
        const vec bias = vec_load_part(w->{{bias_field}} + first, channels);
{{/bias}}
        for (int64_t token = 0; token < s->tokens; token++) {
            const int64_t row = batch * s->tokens + token;
            float *y = {{y}} + first;
            if (s->seen[batch] + token < padding_of(s, batch)) {
                memset(y, 0, (size_t)channels * sizeof *y);
                continue;
            }
            float x[SC_LANES];
            vec_store(x, vec_load_part({{x}} + first, channels));
            for (int64_t i = 0; i < SC_LANES; i++)
                x[i] = weight_float(weight_of(x[i]));
            for (int k = 1; k < CONV{{id}}_COLUMNS; k++)
                column[k - 1] = column[k];
            column[CONV{{id}}_COLUMNS - 1] = vec_load(x);
            vec sum = {{#bias}}bias{{/bias}}{{^bias}}{ 0 }{{/bias}};
            for (int k = 0; k < CONV{{id}}_COLUMNS; k++)
                sum = vec_fma(column[k], tap[k], sum);
            vec_store_part(y, {{act}}(sum), channels);
        }
        for (int k = 0; k < CONV{{id}}_COLUMNS; k++) {
            vec_store(columns[k], column[k]);
            for (int64_t i = 0; i < channels; i++)
                kept[i * CONV{{id}}_COLUMNS + k] = weight_of(columns[k][i]);
        }
    }
}

