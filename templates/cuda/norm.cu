{{#norms}}
/*
 * normed = x / sqrt(mean(x^2) + eps) * w: LlamaRMSNorm. Row r is at x + r * x_step.
 * Grid rows, block ROW_THREADS, shared 32 bytes. A thread squares four elements of every
 * 4 * ROW_THREADS in rising order; lanes are added by halves, then the warps in order.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    norm{{id}}_kernel(const float *x, long long x_step, const float *w, operand *normed, long long rows) {
    SHARED(float, sums, ROW_THREADS / 32);
    const long long row = blockIdx.x;
    if (row >= rows)
        return;
    x += row * x_step;
    normed += row * HIDDEN_DEPTH;
    float sum = 0, total = 0;
    for (int i = 4 * (int)threadIdx.x; i < HIDDEN; i += 4 * ROW_THREADS) {
        float v[4];
        four_floats(v, x, i, HIDDEN);
        for (int j = 0; j < 4; j++)
            sum += v[j] * v[j];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    for (int i = 0; i < ROW_THREADS / 32; i++)
        total += sums[i];
    const float scale = 1.0f / sqrtf(total / (float)HIDDEN + {{eps}});
    for (int i = 4 * (int)threadIdx.x; i < HIDDEN_DEPTH; i += 4 * ROW_THREADS) {
        float v[4], n[4];
        four_floats(v, x, i, HIDDEN);
        four_floats(n, w, i, HIDDEN);
        for (int j = 0; j < 4; j++)
            normed[i + j] = operand_of(v[j] * scale * n[j]);
    }
}

{{/norms}}
