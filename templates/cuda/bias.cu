/*
 * y [rows, stride] += bias [width].
 * Grid rows, block ROW_THREADS; a thread adds to every ROW_THREADS-th element of a row.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    bias_kernel(float *y, long long stride, const float *bias, long long width, long long rows) {
    const long long row = blockIdx.x;
    if (row >= rows)
        return;
    for (long long i = threadIdx.x; i < width; i += ROW_THREADS)
        y[row * stride + i] += bias[i];
}

