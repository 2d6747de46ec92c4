{{! op.c - one operation of a list as a launch; w: where its weights begin. }}
{{#rows}}
    launch(p, {{fn}}_kernel, p->rows, 1, ROW_THREADS, WORDS(word(p->d->scratch){{#layered}}, (uint64_t)layer{{/layered}}{{weights}}));
{{/rows}}
{{#linear}}
    {{fn}}(p{{#normed}}, {{norm_w}}{{/normed}}{{#norm_biased}}, {{norm_b}}{{/norm_biased}}, {{linear_w}}, {{bias_w}});
{{/linear}}
{{#experts}}
    {{fn}}(p, {{gate_up_w}}, {{gate_up_bias_w}}, {{down_w}}, {{down_bias_w}});
{{/experts}}
{{#conv}}
    launch(p, {{fn}}_kernel, {{fn}}_GRID, p->batch, CONV_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{x_at}})), word({{conv_w}}), word({{bias_w}}),
                 word(state_row(p->cache, {{name}}_place[layer].state + {{state}}, 0)),
                 word(at(p, {{y_at}})){{#twin}}, word(at(p, {{twin_at}})){{/twin}}));
{{/conv}}
{{#state_space}}
    launch(p, {{fn}}_kernel, {{fn}}_GRID, p->batch, SCAN_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{x_at}})), word(at(p, {{dt_at}})),
                 word(at(p, {{b_at}})), word(at(p, {{c_at}})), word({{a_log_w}}), word({{d_w}}),
                 word({{dt_bias_w}}), word(state_row(p->cache, {{name}}_place[layer].state + {{state}}, 0)),
                 word(at(p, {{y_at}})){{#twin}}, word(at(p, {{twin_at}})){{/twin}}));
{{/state_space}}
{{#delta_rule}}
    launch(p, {{fn}}_kernel, {{fn}}_GRID, p->batch, SCAN_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{q_at}})), word(at(p, {{k_at}})), word(at(p, {{v_at}})),
                 word(at(p, {{a_at}})), word(at(p, {{b_at}})), word({{a_log_w}}), word({{dt_bias_w}}),
                 word(state_row(p->cache, {{name}}_place[layer].state + {{state}}, 0)),
                 word(at(p, {{y_at}})){{#twin}}, word(at(p, {{twin_at}})){{/twin}}));
{{/delta_rule}}
