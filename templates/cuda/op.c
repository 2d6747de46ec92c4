{{! op.c - one operation of a list as a launch; w: where its weights begin. }}
{{#rows}}
    launch(p, {{fn}}_kernel, p->rows, 1, ROW_THREADS, WORDS(word(p->d->scratch){{weights}}));
{{/rows}}
{{#linear}}
    {{fn}}(p{{#normed}}, {{norm_w}}{{/normed}}, {{linear_w}}, {{bias_w}});
{{/linear}}
{{#experts}}
    {{fn}}(p, {{gate_up_w}}, {{gate_up_bias_w}}, {{down_w}}, {{down_bias_w}});
{{/experts}}
