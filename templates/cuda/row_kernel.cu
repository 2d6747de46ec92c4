/*
{{#calls}}
 * {{what}}
{{/calls}}
 * of each row of the pass. Grid: its rows, block ROW_THREADS{{#sums}}, shared 32 bytes{{/sums}}; a block has one row.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    {{fn}}_kernel(unsigned char *scratch{{#layered}}, long long layer{{/layered}}{{parameters}}) {
{{#sums}}
    SHARED(float, sums, BLOCK_WARPS);
{{/sums}}
    const step *s = (const step *)(scratch + STEP_AT);
    const long long row = blockIdx.x, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
{{#positions}}
    const long long pos = most(0, s->seen[batch] + row % s->tokens - s->padding[batch]);
{{/positions}}
{{#ids}}
    const bool is_padding = s->seen[batch] + row % s->tokens < s->padding[batch];
    const int id = is_padding ? 0 : s->ids[row];
{{/ids}}
{{#turns}}
    const float *angles = (const float *)(scratch + ANGLES_AT);
{{/turns}}
{{#pointers}}
{{#floats}}
    float *{{field}}_row = (float *)(scratch + {{macro}}_AT) + row * {{macro}}_STRIDE;
{{/floats}}
{{#to}}
    operand *{{field}}_to = (operand *)(scratch + {{to_at}}) + row * {{macro}}_DEPTH;
{{/to}}
{{/pointers}}
{{#calls}}
{{#follows}}
    __syncthreads();
{{/follows}}
    {{call}};
{{/calls}}
}

