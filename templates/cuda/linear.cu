{{! linear.cu - the linears of decode: up to DECODE_ROWS rows of one token each, bound by reading W once. }}
enum {
    DECODE_WARPS = DECODE_THREADS / 32,
    COLUMNS = {{decode_columns}}, /* most rows of x at once, and of y */
};

/* Sum over the block of what each thread has, the same in all: lanes by halves, warps in order. */
static __device__ __forceinline__ float block_sum(float x, SHARED_OF(float) sums) {
    float total = 0;
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = x;
    __syncthreads();
    for (int i = 0; i < DECODE_WARPS; i++)
        total += sums[i];
    return total;
}

/* scale[row] = 1 / sqrt(mean(x^2) + eps): a thread squares four elements of every 4 *
 * DECODE_THREADS in rising order. */
static __device__ __forceinline__ void norm_scales(SHARED_OF(float) scale, SHARED_OF(float) sums,
                                                   const float *x, long long x_step, int batch,
                                                   float eps) {
    for (int row = 0; row < batch; row++) {
        float sum = 0;
#pragma unroll 4
        for (int i = 4 * (int)threadIdx.x; i < HIDDEN; i += 4 * DECODE_THREADS) {
            float v[4];
            four_floats(v, x + row * x_step, i, HIDDEN);
            for (int j = 0; j < 4; j++)
                sum += v[j] * v[j];
        }
        sum = block_sum(sum, sums);
        if (threadIdx.x == 0)
            scale[row] = 1.0f / sqrtf(sum / (float)HIDDEN + eps);
    }
    __syncthreads();
}

{{#device_halves}}
/* A weight's row and an operand's come in steps of 32 inputs, 16 bytes or 8 inputs to each of four
 * lanes. Both take the same inputs, so their order within a step is free. */
enum { TILE = 16, STEP = 32, STAGED_PADDING = 16 };

/* Inputs begin … end - 1 of every row, normed, as pairs; a row takes stride words. */
static __device__ __forceinline__ void stage(SHARED_OF(unsigned) staged, int stride,
                                             SHARED_OF(float) scale, const float *x,
                                             long long x_step, const float *norm_w, int batch,
                                             int begin, int end) {
    for (int row = 0; row < batch; row++) {
        const float by = scale[row];
#pragma unroll 4
        for (int i = begin + 4 * (int)threadIdx.x; i < end; i += 4 * DECODE_THREADS) {
            float v[4], n[4];
            four_floats(v, x + row * x_step, i, HIDDEN);
            four_floats(n, norm_w, i, HIDDEN);
            for (int j = 0; j < 4; j += 2)
                staged[row * stride + (i - begin + j) / 2] =
                    pair_of(operand_of(v[j] * by * n[j]), operand_of(v[j + 1] * by * n[j + 1]));
        }
    }
    __syncthreads();
}

/* sum [16, 8] += 32 inputs of 16 rows of W, a lane's two of them, times those of 8 rows of x. */
static __device__ __forceinline__ void multiply_step(float sum[4], words4 low, words4 high,
                                                     words4 x) {
    const unsigned a[4] = { low.x, high.x, low.y, high.y }, b[2] = { x.x, x.y };
    const unsigned c[4] = { low.z, high.z, low.w, high.w }, d[2] = { x.z, x.w };
    {{device_weight_mma}}(sum, a, b);
    {{device_weight_mma}}(sum, c, d);
}

{{/device_halves}}
{{^device_halves}}
/* A warp takes 128 inputs of TILE rows at a step, a lane 16 bytes of each. */
enum { TILE = 4, STEP = 128 };

/* Inputs begin … end - 1 of every row, normed; a row takes stride floats. */
static __device__ __forceinline__ void stage(SHARED_OF(float) staged, int stride,
                                             SHARED_OF(float) scale, const float *x,
                                             long long x_step, const float *norm_w, int batch,
                                             int begin, int end) {
    for (int row = 0; row < batch; row++) {
        const float by = scale[row];
        for (int i = begin + 4 * (int)threadIdx.x; i < end; i += 4 * DECODE_THREADS) {
            float v[4], n[4];
            four_floats(v, x + row * x_step, i, HIDDEN);
            four_floats(n, norm_w, i, HIDDEN);
            for (int j = 0; j < 4; j++)
                staged[row * stride + i - begin + j] = v[j] * by * n[j];
        }
    }
    __syncthreads();
}

/* sum += four inputs of a row of W times those of x, in rising order. */
static __device__ __forceinline__ float multiply_four(float sum, words4 w, const float x[4]) {
    sum = fmaf(__uint_as_float(w.x), x[0], sum);
    sum = fmaf(__uint_as_float(w.y), x[1], sum);
    sum = fmaf(__uint_as_float(w.z), x[2], sum);
    return fmaf(__uint_as_float(w.w), x[3], sum);
}

{{/device_halves}}
{{#device_halves}}
{{#linears}}
{{> cuda/linear_mma.cu}}
{{/linears}}
{{#head_linears}}
{{> cuda/linear_mma.cu}}
{{/head_linears}}
{{/device_halves}}
{{^device_halves}}
{{#linears}}
{{> cuda/linear_fma.cu}}
{{/linears}}
{{#head_linears}}
{{> cuda/linear_fma.cu}}
{{/head_linears}}
{{/device_halves}}
