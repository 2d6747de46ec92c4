{{! linear_call.c - an operation that is a linear. }}
{{#linear}}
    {{fn}}(s, thread, {{#layered}}layer, {{/layered}}{{weights}});
    sc_threads_barrier(m->threads);
{{/linear}}
