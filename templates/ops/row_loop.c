{{! row_loop.c - operations of rows, one behind the other, on the rows that are this thread's. }}
{{#rows}}
    for (int64_t row = first_row(s, thread); row < first_row(s, thread + 1); row++) {
{{#calls}}
        {{call}};
{{/calls}}
    }
    sc_threads_barrier(m->threads);
{{/rows}}
