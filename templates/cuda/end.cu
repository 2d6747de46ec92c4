/*
 * {{what}}, of sums that a product has made.
 * Grid [rows, ceil({{outs}} / END_COLUMNS)], block ROW_THREADS; a thread makes every
 * ROW_THREADS-th of END_COLUMNS elements of a row.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    end_{{fn}}_kernel(const float *sums, const float *bias, {{y_ctype}} *y{{#twin}}, operand *y_operands{{/twin}},
         {{fn_pad}}       long long rows) {
    const long long column = blockIdx.x;
    if (column >= rows)
        return;
    const int first = (int)blockIdx.y * END_COLUMNS;
    sums += column * {{sums_row}};
{{^bias}}
    (void)bias;
{{/bias}}
    for (int i = (int)threadIdx.x; i < END_COLUMNS; i += ROW_THREADS) {
        const int output = first + i;
        if (output < {{outs}}) {
            float total = sums[output]{{#gated}}, total_up = sums[{{out}} + output]{{/gated}};
{{> cuda/linear_end.cu}}
        }
    }
}

