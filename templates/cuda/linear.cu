{{! linear.cu - the linears of decode: up to DECODE_ROWS rows of one token each, bound by reading W once. }}
enum { DECODE_WARPS = DECODE_THREADS / 32 };

/* scale[row] = 1 / sqrt(mean((x - m)^2) + eps), scale[columns + row] = m: the mean where x is
 * centred, else 0. A thread has four elements of every 4 * DECODE_THREADS in rising order. */
static __device__ __forceinline__ void norm_scales(SHARED_OF(float) scale, SHARED_OF(float) sums,
                                                   const float *x, long long x_step, int batch,
                                                   int columns, int width, float eps, bool centred) {
    for (int row = 0; row < batch; row++) {
        float sum = 0, mean = 0;
        if (centred) {
#pragma unroll 4
            for (int i = 4 * (int)threadIdx.x; i < width; i += 4 * DECODE_THREADS) {
                float v[4];
                four_floats(v, x + row * x_step, i, width);
                for (int j = 0; j < 4; j++)
                    sum += v[j];
            }
            mean = block_sum(sum, sums) / (float)width;
            sum = 0;
        }
#pragma unroll 4
        for (int i = 4 * (int)threadIdx.x; i < width; i += 4 * DECODE_THREADS) {
            float v[4];
            four_floats(v, x + row * x_step, i, width);
            for (int j = 0; j < 4; j++)
                if (i + j < width)
                    sum += (v[j] - mean) * (v[j] - mean);
        }
        sum = block_sum(sum, sums);
        if (threadIdx.x == 0) {
            scale[row] = 1.0f / sqrtf(sum / (float)width + eps);
            scale[columns + row] = mean;
        }
    }
    __syncthreads();
}

/* Four inputs of a row, normed; zeros behind its width. bias 0: none. */
static __device__ __forceinline__ void normed_four(float v[4], const float *x, const float *norm_w,
                                                   const float *norm_b, int i, int width, float by,
                                                   float mean) {
    float n[4], b[4] = { 0, 0, 0, 0 };
    four_floats(v, x, i, width);
    four_floats(n, norm_w, i, width);
    if (norm_b)
        four_floats(b, norm_b, i, width);
    for (int j = 0; j < 4; j++)
        v[j] = (v[j] - mean) * by * n[j] + b[j];
}

{{#device_halves}}
/* A weight's row and an operand's come in steps of 32 inputs, 16 bytes or 8 inputs to each of four
 * lanes. Both take the same inputs, so their order within a step is free. */
enum { TILE = 16, STEP = 32, STAGED_PADDING = 16 };

{{#scattered}}
/* 16 bytes of operands that begin anywhere, of count that there are; zeros behind them. */
static __device__ __forceinline__ words4 load_scattered(const operand *from, int count) {
    operand at[8];
    for (int i = 0; i < 8; i++)
        at[i] = i < count ? from[i] : 0;
    return words4{ pair_of(at[0], at[1]), pair_of(at[2], at[3]), pair_of(at[4], at[5]),
                   pair_of(at[6], at[7]) };
}

{{/scattered}}
/* Inputs begin … end - 1 of every row, normed, as pairs; a row takes stride words. */
static __device__ __forceinline__ void stage(SHARED_OF(unsigned) staged, int stride,
                                             SHARED_OF(float) scale, const float *x,
                                             long long x_step, const float *norm_w,
                                             const float *norm_b, int batch, int columns, int width,
                                             int begin, int end) {
    for (int row = 0; row < batch; row++) {
        const float by = scale[row], mean = scale[columns + row];
#pragma unroll 2
        for (int i = begin + 4 * (int)threadIdx.x; i < end; i += 4 * DECODE_THREADS) {
            float v[4];
            normed_four(v, x + row * x_step, norm_w, norm_b, i, width, by, mean);
            for (int j = 0; j < 4; j += 2)
                staged[row * stride + (i - begin + j) / 2] =
                    pair_of(operand_of(v[j]), operand_of(v[j + 1]));
        }
    }
    __syncthreads();
}

{{/device_halves}}
{{^device_halves}}
/* A warp takes 128 inputs of TILE rows at a step, a lane 16 bytes of each. */
enum { TILE = 4, STEP = 128 };

/* Inputs begin … end - 1 of every row, normed; a row takes stride floats. */
static __device__ __forceinline__ void stage(SHARED_OF(float) staged, int stride,
                                             SHARED_OF(float) scale, const float *x,
                                             long long x_step, const float *norm_w,
                                             const float *norm_b, int batch, int columns, int width,
                                             int begin, int end) {
    for (int row = 0; row < batch; row++) {
        const float by = scale[row], mean = scale[columns + row];
        for (int i = begin + 4 * (int)threadIdx.x; i < end; i += 4 * DECODE_THREADS) {
            float v[4];
            normed_four(v, x + row * x_step, norm_w, norm_b, i, width, by, mean);
            for (int j = 0; j < 4; j++)
                staged[row * stride + i - begin + j] = v[j];
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
{{#device_linears}}
{{> cuda/decode.cu}}
{{/device_linears}}
{{#head_linears}}
{{> cuda/decode.cu}}
{{/head_linears}}
{{#mixture_kernels}}
{{#expert_linears}}
{{> cuda/decode.cu}}
{{/expert_linears}}
{{/mixture_kernels}}
