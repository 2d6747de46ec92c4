/* {{what}}: y = W x, W [{{out}}, {{in}}] {{dtype}} in panels of {{panel}} outputs. */
enum { {{fn}}_DEPTH = {{depth}}, {{fn}}_PANELS = {{panels}} };

static inline void {{fn}}_end(vec sum[2], int64_t panel{{#bias}}, const float *restrict bias{{/bias}}, {{#gated}}operand{{/gated}}{{#plain}}float{{/plain}} *restrict y) {
{{#gated}}
    /* A panel holds {{half}} rows of gate_proj, then the same rows of up_proj. */
    const vec gate = sum[0]{{#bias}} + vec_load(bias + panel * SC_PANEL){{/bias}};
    const vec up = sum[1]{{#bias}} + vec_load(bias + panel * SC_PANEL + SC_LANES){{/bias}};
    store_operand(y + panel * SC_LANES, {{act}}(gate) * up);
{{/gated}}
{{#plain}}
    float *out = y + panel * SC_PANEL;
    for (int half = 0; half < 2; half++)
        vec_store(out + half * SC_LANES, {{#add}}vec_load(out + half * SC_LANES) + {{/add}}sum[half]{{#bias}} + vec_load(bias + panel * SC_PANEL + half * SC_LANES){{/bias}});
{{/plain}}
}

static void {{fn}}(const step *s, int thread, const weight *restrict w{{#bias}}, const float *restrict bias{{/bias}},
                   const operand *restrict x, int64_t x_stride, {{#gated}}operand{{/gated}}{{#plain}}float{{/plain}} *restrict y, int64_t y_stride) {
    const int64_t first = {{fn}}_PANELS * (int64_t)thread / s->threads;
    const int64_t last = {{fn}}_PANELS * (int64_t)(thread + 1) / s->threads;
    vec(*sum)[2] = s->model->scratch[thread].panel;
    for (int64_t panel = first; panel < last; panel++) {
        panel_times_rows(sum, w + panel * {{fn}}_DEPTH * SC_PANEL, x, x_stride, {{fn}}_DEPTH, s->rows);
        for (int64_t row = 0; row < s->rows; row++)
            {{fn}}_end(sum[row], panel{{#bias}}, bias{{/bias}}, y + row * y_stride);
    }
}

