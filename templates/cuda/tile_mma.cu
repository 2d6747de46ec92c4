{{! tile_mma.cu - W times x by mma, a step of inputs at a time. }}
/* sum [16, 8] += 32 inputs of 16 rows of W, a lane's two of them, times those of 8 rows of x. */
static __device__ __forceinline__ void multiply_step(float sum[4], words4 low, words4 high,
                                                     words4 x) {
    const unsigned a[4] = { low.x, high.x, low.y, high.y }, b[2] = { x.x, x.y };
    const unsigned c[4] = { low.z, high.z, low.w, high.w }, d[2] = { x.z, x.w };
    {{device_weight_mma}}(sum, a, b);
    {{device_weight_mma}}(sum, c, d);
}

