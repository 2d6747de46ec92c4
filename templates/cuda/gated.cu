{{#linears}}
{{#gated}}
/*
 * ffn [rows, FFN_DEPTH] = {{device_act}}(gate) * up of gate_up [rows, GATE_UP_STRIDE], zeros behind.
 * Grid [rows, {{fn}}_GATED_GRID], block ROW_THREADS; a thread makes every
 * ROW_THREADS-th of GATED_COLUMNS elements of a row.
 */
enum { {{fn}}_GATED_GRID = (FFN_DEPTH + GATED_COLUMNS - 1) / GATED_COLUMNS };

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    gated_{{fn}}_kernel(const float *gate_up, operand *ffn, long long rows) {
    const long long row = blockIdx.x;
    if (row >= rows)
        return;
    const int first = (int)blockIdx.y * GATED_COLUMNS;
    gate_up += row * GATE_UP_STRIDE;
    ffn += row * FFN_DEPTH;
    for (int i = first + (int)threadIdx.x; i < first + GATED_COLUMNS && i < FFN_DEPTH; i += ROW_THREADS)
        ffn[i] = operand_of(i < {{out}} ? {{device_act}}(gate_up[i]) * gate_up[{{out}} + i] : 0);
}

{{/gated}}
{{/linears}}
