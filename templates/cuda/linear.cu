{{! linear.cu - the linears of decode: up to DECODE_ROWS rows of one token each, bound by reading W once. }}
enum { DECODE_WARPS = DECODE_THREADS / 32 };

/* scale[row] = 1 / sqrt(mean(x^2) + eps): a thread squares four elements of every 4 *
 * DECODE_THREADS in rising order. */
static __device__ __forceinline__ void norm_scales(SHARED_OF(float) scale, SHARED_OF(float) sums,
                                                   const float *x, long long x_step, int batch,
                                                   int width, float eps) {
    for (int row = 0; row < batch; row++) {
        float sum = 0;
#pragma unroll 4
        for (int i = 4 * (int)threadIdx.x; i < width; i += 4 * DECODE_THREADS) {
            float v[4];
            four_floats(v, x + row * x_step, i, width);
            for (int j = 0; j < 4; j++)
                sum += v[j] * v[j];
        }
        sum = block_sum(sum, sums);
        if (threadIdx.x == 0)
            scale[row] = 1.0f / sqrtf(sum / (float)width + eps);
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
                                             int width, int begin, int end) {
    for (int row = 0; row < batch; row++) {
        const float by = scale[row];
#pragma unroll 4
        for (int i = begin + 4 * (int)threadIdx.x; i < end; i += 4 * DECODE_THREADS) {
            float v[4], n[4];
            four_floats(v, x + row * x_step, i, width);
            four_floats(n, norm_w, i, width);
            for (int j = 0; j < 4; j += 2)
                staged[row * stride + (i - begin + j) / 2] =
                    pair_of(operand_of(v[j] * by * n[j]), operand_of(v[j + 1] * by * n[j + 1]));
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
                                             long long x_step, const float *norm_w, int batch,
                                             int width, int begin, int end) {
    for (int row = 0; row < batch; row++) {
        const float by = scale[row];
        for (int i = begin + 4 * (int)threadIdx.x; i < end; i += 4 * DECODE_THREADS) {
            float v[4], n[4];
            four_floats(v, x + row * x_step, i, width);
            four_floats(n, norm_w, i, width);
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
