/*
 * {{layer_list}}: {{experts}} experts, {{top_k}} for each token.
 *
 * Rows that chose an expert are brought together, so that its weights are read once for all of
 * them, and those of an expert that nobody chose not at all. A token adds up its experts in the
 * order of their weights, whoever shares the pass.
 */
enum {
    EXPERTS{{id}} = {{experts}},
    EXPERTS{{id}}_CHOSEN = {{top_k}},
    EXPERTS{{id}}_WIDTH = {{width}}, /* of what goes in and comes out */
    EXPERTS{{id}}_UP_PANELS = {{up_panels}},
    EXPERTS{{id}}_UP_DEPTH = {{up_depth}},
    EXPERTS{{id}}_DOWN_PANELS = {{down_panels}},
    EXPERTS{{id}}_DOWN_DEPTH = {{down_depth}},
};

/* m->expert_start [experts + 1]: where each expert's rows begin; m->expert_place [rows, chosen]:
 * where each choice lies. In the order of the pass. */
static void sort_experts{{id}}(const step *s) {
    {{name}}_model *m = s->model;
    int32_t next[EXPERTS{{id}}];
    memset(m->expert_start, 0, (EXPERTS{{id}} + 1) * sizeof *m->expert_start);
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t k = 0; k < EXPERTS{{id}}_CHOSEN; k++)
            m->expert_start[(int64_t)m->{{route}}[row * {{route_stride}} + k] + 1]++;
    for (int64_t i = 0; i < EXPERTS{{id}}; i++) {
        m->expert_start[i + 1] += m->expert_start[i];
        next[i] = m->expert_start[i];
    }
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t k = 0; k < EXPERTS{{id}}_CHOSEN; k++)
            m->expert_place[row * EXPERTS{{id}}_CHOSEN + k] =
                next[(int64_t)m->{{route}}[row * {{route_stride}} + k]]++;
}

static void gather_experts{{id}}(const step *s, int thread) {
    {{name}}_model *m = s->model;
    for (int64_t row = first_row(s, thread); row < first_row(s, thread + 1); row++)
        for (int64_t k = 0; k < EXPERTS{{id}}_CHOSEN; k++)
{{#weigh_input}}
            for (int64_t i = 0; i < EXPERTS{{id}}_UP_DEPTH; i += SC_LANES)
                store_operand(
                    m->expert_x + m->expert_place[row * EXPERTS{{id}}_CHOSEN + k] * (int64_t)EXPERT_X_STRIDE + i,
                    vec_load(m->{{x}} + row * {{x_stride}} + i) *
                        vec_set(m->{{route}}[row * {{route_stride}} + EXPERTS{{id}}_CHOSEN + k]));
{{/weigh_input}}
{{^weigh_input}}
            memcpy(m->expert_x + m->expert_place[row * EXPERTS{{id}}_CHOSEN + k] * (int64_t)EXPERT_X_STRIDE,
                   m->{{x}} + row * {{x_stride}}, EXPERTS{{id}}_UP_DEPTH * sizeof *m->expert_x);
{{/weigh_input}}
}

{{#limited}}
/* (up + 1) * gate * sigmoid(alpha gate), gate cut above, up on both sides: GptOssExperts. */
static inline vec expert_gate{{id}}(vec gate, vec up) {
    const vec alpha = vec_set({{alpha}}), limit = vec_set({{limit}});
    gate = -vec_max(-gate, -limit);
    up = vec_max(-vec_max(-up, -limit), -limit);
    return (up + vec_set(1.0f)) * gate / (vec_set(1.0f) + vec_exp(-alpha * gate));
}

{{/limited}}

/* The thread's first panel from `from` on: the panels of all experts are dealt out in turn. */
static inline int64_t expert_panel{{id}}(const step *s, int thread, int64_t from) {
    return from + (thread + s->threads - from % s->threads) % s->threads;
}

/* What comes of {{^plain}}gate and {{/plain}}up of each expert's rows. */
static void up_experts{{id}}(const step *s, int thread, const {{name}}_layer_weights *w) {
    {{name}}_model *m = s->model;
    vec(*sum)[2] = m->scratch[thread].panel;
    for (int64_t expert = 0; expert < EXPERTS{{id}}; expert++) {
        const int64_t start = m->expert_start[expert], rows = m->expert_start[expert + 1] - start;
        const int64_t first = expert * EXPERTS{{id}}_UP_PANELS;
        const int64_t end = rows ? first + EXPERTS{{id}}_UP_PANELS : first;
        for (int64_t i = expert_panel{{id}}(s, thread, first); i < end; i += s->threads) {
            panel_times_rows(sum, w->{{up_field}} + i * EXPERTS{{id}}_UP_DEPTH * SC_PANEL,
                             m->expert_x + start * EXPERT_X_STRIDE, EXPERT_X_STRIDE, EXPERTS{{id}}_UP_DEPTH, rows);
{{#plain}}
            for (int64_t row = 0; row < rows; row++)
                for (int half = 0; half < 2; half++)
                    store_operand(m->expert_ffn + (start + row) * EXPERT_STRIDE +
                                      (i - first) * SC_PANEL + half * SC_LANES,
                                  {{act}}(sum[row][half]));
{{/plain}}
{{^plain}}
            for (int64_t row = 0; row < rows; row++) {
                vec gate = sum[row][0], up = sum[row][1];
{{#bias}}
                gate += vec_load(w->experts_gate_up_bias + i * SC_PANEL);
                up += vec_load(w->experts_gate_up_bias + i * SC_PANEL + SC_LANES);
{{/bias}}
                store_operand(m->expert_ffn + (start + row) * EXPERT_STRIDE + (i - first) * SC_LANES,
                              {{gated}});
            }
{{/plain}}
        }
    }
}

static void down_experts{{id}}(const step *s, int thread, const {{name}}_layer_weights *w) {
    {{name}}_model *m = s->model;
    vec(*sum)[2] = m->scratch[thread].panel;
    for (int64_t expert = 0; expert < EXPERTS{{id}}; expert++) {
        const int64_t start = m->expert_start[expert], rows = m->expert_start[expert + 1] - start;
        const int64_t first = expert * EXPERTS{{id}}_DOWN_PANELS;
        const int64_t end = rows ? first + EXPERTS{{id}}_DOWN_PANELS : first;
        for (int64_t i = expert_panel{{id}}(s, thread, first); i < end; i += s->threads) {
            panel_times_rows(sum, w->experts_down + i * EXPERTS{{id}}_DOWN_DEPTH * SC_PANEL,
                             m->expert_ffn + start * EXPERT_STRIDE, EXPERT_STRIDE,
                             EXPERTS{{id}}_DOWN_DEPTH, rows);
            for (int64_t row = 0; row < rows; row++)
                for (int half = 0; half < 2; half++)
                    vec_store(m->expert_y + (start + row) * EXPERT_X_STRIDE + (i - first) * SC_PANEL +
                                  half * SC_LANES,
{{#bias}}
                              sum[row][half] + vec_load(w->experts_down_bias + i * SC_PANEL +
                                                        half * SC_LANES));
{{/bias}}
{{^bias}}
                              sum[row][half]);
{{/bias}}
        }
    }
}

/* What each token's experts say, {{^weigh_input}}times their weights, {{/weigh_input}}{{#add}}onto its row{{/add}}{{^add}}as its row{{/add}}. */
static void add_experts{{id}}(const step *s, int thread) {
    {{name}}_model *m = s->model;
    for (int64_t row = first_row(s, thread); row < first_row(s, thread + 1); row++) {
{{^weigh_input}}
        const float *chosen = m->{{route}} + row * {{route_stride}} + EXPERTS{{id}}_CHOSEN;
{{/weigh_input}}
        float *y = m->{{out}} + row * {{out_stride}};
        for (int64_t i = 0; i < EXPERTS{{id}}_WIDTH; i++) {
            float total = 0;
            for (int64_t k = 0; k < EXPERTS{{id}}_CHOSEN; k++)
                total += {{^weigh_input}}chosen[k] *
                         {{/weigh_input}}m->expert_y[m->expert_place[row * EXPERTS{{id}}_CHOSEN + k] *
                                         (int64_t)EXPERT_X_STRIDE +
                                     i];
            y[i] {{#add}}+{{/add}}= total;
        }
    }
}

