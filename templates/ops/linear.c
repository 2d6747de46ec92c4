/* {{what}}.
{{#blocked}}
 * {{blocks}} of them, block by block.
{{/blocked}}
 * y = W x, W [{{out}}, {{in}}] {{dtype}} in panels of {{panel}} outputs. */
enum { {{fn}}_DEPTH = {{depth}}, {{fn}}_PANELS = {{panels}}{{#blocked}}, {{fn}}_EACH = {{fn}}_PANELS / {{blocks}}{{/blocked}} };

/* What becomes of one row's sums of one panel. */
static inline void {{fn}}_end(vec sum[2], int64_t panel, const {{weights_type}} *w,
                   {{fn_pad}}     {{y_ctype}} *restrict y) {
{{#bias}}
    for (int half = 0; half < 2; half++)
        sum[half] += vec_load(w->{{bias_field}} + panel * SC_PANEL + half * SC_LANES);
{{/bias}}
{{^bias}}
    (void)w;
{{/bias}}
{{#gated}}
    /* A panel holds {{half}} rows of gate_proj, then the same rows of up_proj. */
    {{y_store}}(y + panel * SC_LANES, {{sum}});
{{/gated}}
{{#plain}}
    y += panel * SC_PANEL;
    for (int half = 0; half < 2; half++, y += SC_LANES)
        {{y_store}}(y, {{sum}});
{{/plain}}
{{#blocked}}
    /* The last panel of a block goes no further than the block. */
    const int64_t at = panel % {{fn}}_EACH * SC_PANEL;
    {{y_ctype}} out[SC_PANEL];
    for (int half = 0; half < 2; half++)
        {{y_store}}(out + half * SC_LANES, {{sum}});
    memcpy(y + panel / {{fn}}_EACH * {{y_step}} + at, out, (size_t)least(SC_PANEL, {{out}} - at) * sizeof *y);
{{/blocked}}
}

static void {{fn}}(const step *s, int thread, {{#layered}}int layer, {{/layered}}const {{weights_type}} *w) {
    const int64_t first = {{fn}}_PANELS * (int64_t)thread / s->threads;
    const int64_t last = {{fn}}_PANELS * (int64_t)(thread + 1) / s->threads;
    {{name}}_model *m = s->model;
    vec(*sum)[2] = m->scratch[thread].panel;
    for (int64_t panel = first; panel < last; panel++) {
        const weight *panel_w = w->{{field}} + panel * {{fn}}_DEPTH * SC_PANEL;
        panel_times_rows(sum, panel_w, m->{{x}}{{#blocked}} + panel / {{fn}}_EACH * {{x_step}}{{/blocked}}, {{x_stride}}, {{fn}}_DEPTH, s->rows);
        for (int64_t row = 0; row < s->rows; row++)
            {{fn}}_end(sum[row], panel, w, m->{{y}} + row * {{y_stride}}{{y_at}});
    }
}

