{{! experts.cu - a mixture: in a prefill each expert multiplies the rows that chose it at once. }}
/*
 * Choices of {{experts}} experts, {{top_k}} for each row: choice row * {{top_k}} + k is the k-th of the row's.
 * order [choices] has them by expert, those of expert e from ranges[2 e] to ranges[2 e + 1] - 1, in
 * rising order.
 * Grid {{experts}}, block ROW_THREADS, shared 48 bytes. A block finds those of one expert, a thread looks
 * at every ROW_THREADS-th choice.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    {{mixture}}_sort_kernel(const step *s, const float *route, int *ranges, int *order) {
    SHARED(float, sums, BLOCK_WARPS);
    SHARED(int, counts, BLOCK_WARPS);
    const int expert = (int)blockIdx.x, thread = (int)threadIdx.x, warp = thread / 32;
    const int choices = (int)(s->batch * s->tokens) * {{mixture}}_CHOSEN;
    float before = 0; /* exact: there are fewer than 2^24 choices of a thread's */
    for (int i = thread; i < choices; i += ROW_THREADS)
        before += (int)route[i / {{mixture}}_CHOSEN * {{route_row}} + i % {{mixture}}_CHOSEN] < expert ? 1.0f : 0.0f;
    const int first = (int)block_sum(before, sums);
    int end = first;
    for (int begin = 0; begin < choices; begin += ROW_THREADS) {
        const int choice = begin + thread;
        const bool mine = choice < choices &&
                          (int)route[choice / {{mixture}}_CHOSEN * {{route_row}} + choice % {{mixture}}_CHOSEN] == expert;
        const unsigned lanes = __ballot_sync(0xffffffff, mine);
        __syncthreads(); /* the counts before have been read */
        if (thread % 32 == 0)
            counts[warp] = __popc(lanes);
        __syncthreads();
        int place = end + __popc(lanes & ((1u << thread % 32) - 1));
        for (int i = 0; i < BLOCK_WARPS; i++) {
            place += i < warp ? (int)counts[i] : 0;
            end += counts[i];
        }
        if (mine)
            order[place] = choice;
    }
    if (thread == 0) {
        ranges[2 * expert] = first;
        ranges[2 * expert + 1] = end;
    }
}

{{#expert_linears}}
{{#device_halves}}
{{> cuda/expert_mma.cu}}
{{/device_halves}}
{{^device_halves}}
{{> cuda/expert_fma.cu}}
{{/device_halves}}
{{/expert_linears}}
/*
 * y [rows] {{#adds}}+{{/adds}}= what each row's experts say{{^weigh_input}}, times their weights{{/weigh_input}}, in the order of its choices.
 * Grid rows, block ROW_THREADS; a thread adds to every ROW_THREADS-th element of a row.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    {{mixture}}_add_kernel(const step *s, const float *route, const float *said, {{y_ctype}} *y{{#twin}}, operand *y_operands{{/twin}}) {
    const long long row = blockIdx.x;
    if (row >= s->batch * s->tokens)
        return;
{{^weigh_input}}
    route += row * {{route_row}} + {{mixture}}_CHOSEN;
{{/weigh_input}}
{{#weigh_input}}
    (void)route; /* x has been weighed */
{{/weigh_input}}
    said += row * {{mixture}}_CHOSEN * EXPERT_Y_STRIDE;
    y += row * {{y_row}};
    for (int i = (int)threadIdx.x; i < {{hidden}}; i += ROW_THREADS) {
        float total = 0;
        for (int k = 0; k < {{mixture}}_CHOSEN; k++)
            total += {{^weigh_input}}route[k] * {{/weigh_input}}said[k * EXPERT_Y_STRIDE + i];
        y[i] {{#adds}}+{{/adds}}= total;
{{#twin}}
        y_operands[row * {{twin_row}} + i] = operand_of(y[i]);
{{/twin}}
    }
}

