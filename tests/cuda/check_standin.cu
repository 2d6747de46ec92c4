/* check_standin.cu - kernels for tests of the stand-in driver. */

extern "C" __global__ void mark_kernel(unsigned *counter, unsigned *turn) { *turn = ++*counter; }

extern "C" __global__ void write_kernel(int *at, long long value) { *at = (int)value; }

/* y += x, one element per thread. */
extern "C" __global__ void add_kernel(float *y, const float *x, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += x[i];
}

/* All words arrive: their sum. */
extern "C" __global__ void sum_kernel(long long *sum, long long a, long long b, long long c) {
    *sum = a + 10 * b + 100 * c;
}

/* A mistake that the host build reports. */
extern "C" __global__ void unwritten_kernel(float *y) {
    SHARED(float, tile, 32);
    y[threadIdx.x] = tile[threadIdx.x];
}

/* Blocks in the order that they came. */
extern "C" __global__ void order_kernel(unsigned *counter, unsigned *turn) {
    turn[blockIdx.x] = atomicAdd(counter, 1u);
}
