/*
 * check_host.cu - kernels of tests/check_cuda_host.c: each shows one thing that host.h gives, or
 * breaks one rule that it watches.
 *
 * Grid and block are the test's; no kernel is a model of how a kernel should be written.
 */

DEVICE_TABLE float halves[4] = { 0.5f, 1.5f, 2.5f, 3.5f };

static __device__ __forceinline__ unsigned lane_id(void) { return threadIdx.x % 32; }

/* --- what works --- */

/* Who am I: every index of every thread, in the order of its number. */
extern "C" __global__ void index_kernel(int *y) {
    const unsigned thread = threadIdx.x + (threadIdx.y + threadIdx.z * blockDim.y) * blockDim.x;
    const unsigned block = blockIdx.x + (blockIdx.y + blockIdx.z * gridDim.y) * gridDim.x;
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    int *to = y + (block * threads + thread) * 6;
    to[0] = (int)threadIdx.x, to[1] = (int)threadIdx.y, to[2] = (int)threadIdx.z;
    to[3] = (int)blockIdx.x, to[4] = (int)blockIdx.y, to[5] = (int)blockIdx.z;
}

/* Turns 256 numbers round as often as asked: one missing barrier, and an old one comes out. */
extern "C" __global__ void __launch_bounds__(256)
    reverse_kernel(const float *__restrict__ x, float *__restrict__ y, long long times) {
    SHARED(float, row, 256);
    const unsigned i = threadIdx.x;
    row[i] = x[blockIdx.x * 256 + i];
    for (long long t = 0; t < times; t++) {
        __syncthreads();
        const float other = row[255 - i];
        __syncthreads();
        row[i] = other;
    }
    y[blockIdx.x * 256 + i] = row[i];
}

/* y [8, 32]: the four shuffles over whole warps, then over parts of 8 lanes. */
extern "C" __global__ void shuffle_kernel(int *y, long long by) {
    const int own = 100 + (int)lane_id(), n = (int)by;
    int *to = y + lane_id();
    to[0 * 32] = __shfl_sync(0xffffffff, own, n);
    to[1 * 32] = __shfl_up_sync(0xffffffff, own, (unsigned)n);
    to[2 * 32] = __shfl_down_sync(0xffffffff, own, (unsigned)n);
    to[3 * 32] = __shfl_xor_sync(0xffffffff, own, n);
    to[4 * 32] = __shfl_sync(0xffffffff, own, n, 8);
    to[5 * 32] = __shfl_up_sync(0xffffffff, own, (unsigned)n, 8);
    to[6 * 32] = __shfl_down_sync(0xffffffff, own, (unsigned)n, 8);
    to[7 * 32] = __shfl_xor_sync(0xffffffff, own, n, 8);
}

/* The other types, and a sum in a tree: y [3, threads]. */
extern "C" __global__ void shuffle_types_kernel(float *y) {
    const unsigned i = threadIdx.x, threads = blockDim.x;
    float sum = (float)i;
#pragma unroll
    for (int bits = 16; bits; bits >>= 1)
        sum += __shfl_xor_sync(0xffffffff, sum, bits);
    y[i] = sum;
    y[threads + i] = (float)__shfl_down_sync(0xffffffff, i + 0x80000000u, 1u);
    y[2 * threads + i] = (float)(__shfl_sync(0xffffffff, (long long)i << 40, 3) >> 40);
}

/* y [32, 4]: ballot, any, all of a predicate, over the upper lanes or over the lower ones. */
extern "C" __global__ void vote_kernel(unsigned *y, const int *predicate) {
    const unsigned lane = lane_id(), mask = lane < 12 ? 0xfff : 0xfffff000;
    y[lane * 4] = __ballot_sync(mask, predicate[lane]);
    y[lane * 4 + 1] = (unsigned)__any_sync(mask, predicate[lane]);
    y[lane * 4 + 2] = (unsigned)__all_sync(mask, predicate[lane]);
    __syncwarp();
    y[lane * 4 + 3] = (unsigned)__all_sync(0xffffffff, predicate[lane] < 2);
}

/* Every thread adds; the last block, known by its arrival, adds the blocks up. */
extern "C" __global__ void atomic_kernel(unsigned *number, int *total, float *sum,
                                         unsigned *wrapped, unsigned *arrived, float *of_block,
                                         float *all) {
    SHARED(float, part, 1);
    SHARED(int, last, 1);
    atomicAdd(number, 1u);
    atomicAdd(total, -2);
    atomicAdd(sum, 0.5f);
    atomicInc(wrapped, 6);
    if (threadIdx.x == 0) {
        part[0] = (float)(blockIdx.x + 1);
        of_block[blockIdx.x] = part[0];
        __threadfence();
        last[0] = block_arrive(arrived) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last[0] || threadIdx.x)
        return;
    *all = 0;
    for (unsigned i = 0; i < gridDim.x; i++)
        *all += of_block[i];
    *arrived = 0;
}

/* Threads from n on return; the others meet without them, in the block and in the warp. */
extern "C" __global__ void return_kernel(float *y, long long n) {
    SHARED(float, row, 256);
    const unsigned i = threadIdx.x;
    if (i >= n)
        return;
    row[i] = (float)i;
    __syncthreads();
    y[i] = row[n - 1 - i] + (float)__all_sync(0xffffffff, 1);
    __syncthreads();
    if (i % 2)
        return;
    __syncwarp();
    y[i] += 1000;
}

/* a [16, 16], b [16, 8], d [16, 8], row by row; the fragments are gathered element by element. */
static __device__ __forceinline__ unsigned a_index(unsigned lane, unsigned i) {
    const unsigned row = lane / 4 + (i < 2 || (i >= 4 && i < 6) ? 0 : 8);
    return row * 16 + lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
}

static __device__ __forceinline__ unsigned b_index(unsigned lane, unsigned i) {
    return (lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8)) * 8 + lane / 4;
}

static __device__ __forceinline__ unsigned d_index(unsigned lane, unsigned i) {
    return (lane / 4 + (i < 2 ? 0 : 8)) * 8 + lane % 4 * 2 + (i & 1);
}

extern "C" __global__ void mma_kernel(const unsigned short *a, const unsigned short *b, float *d,
                                      long long is_half) {
    const unsigned lane = threadIdx.x % 32;
    unsigned pairs_a[4], pairs_b[2];
    float sums[4];
    for (unsigned r = 0; r < 4; r++) {
        pairs_a[r] = a[a_index(lane, 2 * r)] | (unsigned)a[a_index(lane, 2 * r + 1)] << 16;
        sums[r] = d[d_index(lane, r)];
    }
    for (unsigned r = 0; r < 2; r++)
        pairs_b[r] = b[b_index(lane, 2 * r)] | (unsigned)b[b_index(lane, 2 * r + 1)] << 16;
    if (is_half)
        mma_f16(sums, pairs_a, pairs_b);
    else
        mma_bf16(sums, pairs_a, pairs_b);
    for (unsigned r = 0; r < 4; r++)
        d[d_index(lane, r)] = sums[r];
}

/* Turn by turn who runs: y [blocks * threads, 2] of block and thread; counter starts at 0. */
extern "C" __global__ void order_kernel(int *y, unsigned *counter) {
    for (int i = 0; i < 2; i++) {
        const unsigned turn = atomicAdd(counter, 1u);
        y[2 * turn] = (int)blockIdx.x;
        y[2 * turn + 1] = (int)threadIdx.x;
        __syncthreads();
    }
}

extern "C" __global__ void words_kernel(long long *y, long long a, long long b, long long c,
                                        long long d, long long e, long long f, long long g,
                                        long long h, long long i, long long j, long long k,
                                        long long l, long long m, long long n, long long o) {
    const long long words[15] = { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o };
    for (int at = 0; at < 15; at++)
        y[at] = words[at];
}

/* 16 bytes at a time, halves to floats and back, a table, all types of shared arrays. */
extern "C" __global__ void numbers_kernel(const void *x, void *y, float *z) {
    SHARED(unsigned, pairs, 4);
    SHARED(unsigned short, half, 2);
    SHARED(int, whole, 1);
    const words4 v = load16(x);
    store16(y, load16_cached(x));
    pairs[0] = v.x, pairs[1] = v.y, pairs[2] = v.z, pairs[3] = v.w;
    pairs[3] = pairs[2];
    half[0] = half_from_float(halves[1]);
    half[1] = bf16_from_float(halves[2]);
    whole[0] = 3;
    whole[0] += 4;
    z[0] = __uint_as_float(pairs[3]);
    z[1] = float_from_half(half[0]);
    z[2] = float_from_bf16(half[1]);
    z[3] = (float)whole[0];
    z[4] = __float_as_uint(1.0f) == 0x3f800000 ? fmaf(expf(0), sqrtf(4), fmaxf(1, 2)) : 0;
}

/* An array handed on, and lanes that meet in parts of the warp: no race, whatever the order. */
static __device__ void pass_on(SHARED_OF(float) row, unsigned lane) { row[lane] = (float)lane; }

extern "C" __global__ void part_kernel(float *y) {
    SHARED(float, row, 32);
    const unsigned lane = threadIdx.x;
    pass_on(row, lane);
    if (lane < 8) {
        __syncwarp(0xff); /* 0 … 7 know of one another */
        if (lane < 4)
            __syncwarp(0x0f);
    }
    if (lane == 7 || lane == 20)
        __syncwarp(1u << 7 | 1u << 20); /* 20 learns of 0 … 7 from 7 */
    if (lane == 20)
        y[0] = row[3];
    if (lane == 2)
        row[6] = row[5];
}

/* --- what is reported. Lines count from the kernel's own: the messages name them. --- */

#line 1
extern "C" __global__ void half_barrier_kernel(float *y) {
    if (threadIdx.x < 16)
        __shfl_xor_sync(0xffffffff, *y, 1);
    else
        __syncthreads();
}

#line 1
extern "C" __global__ void two_barriers_kernel(float *y) {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
    *y = 1;
}

#line 1
extern "C" __global__ void missing_lane_kernel(float *y) {
    if (threadIdx.x == 5)
        __syncwarp(0x3f);
    if (threadIdx.x == 4)
        __syncwarp(0x10);
    *y = 1;
}

#line 1
extern "C" __global__ void two_operations_kernel(float *y) {
    if (threadIdx.x)
        __syncwarp();
    else
        *y = __shfl_sync(0xffffffff, 1.0f, 0);
}

#line 1
extern "C" __global__ void own_lane_kernel(float *y) {
    *y = (float)__any_sync(1u << (threadIdx.x + 1) % 32, 1);
}

#line 1
extern "C" __global__ void gone_lane_kernel(float *y) {
    if (threadIdx.x >= 24)
        return;
    y[threadIdx.x] = __shfl_xor_sync(0xffffffff, (float)threadIdx.x, 16);
}

#line 1
extern "C" __global__ void part_mma_kernel(float *y) {
    const unsigned a[4] = { 0 }, b[2] = { 0 };
    float d[4] = { 0 };
    if (threadIdx.x < 31)
        mma_bf16(d, a, b);
    *y = d[0];
}

#line 1
extern "C" __global__ void unwritten_kernel(float *y) {
    SHARED(float, tile, 64);
    if (threadIdx.x != 7)
        tile[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

/* Block 0 writes, block 1 reads: nothing lives from one to the other. */
#line 1
extern "C" __global__ void other_block_kernel(float *y) {
    SHARED(float, tile, 1);
    if (blockIdx.x == 0)
        tile[0] = 1;
    else
        *y = tile[0];
}

#line 1
extern "C" __global__ void above_kernel(float *y, long long at) {
    SHARED(unsigned short, tile, 64);
    tile[at] = (unsigned short)*y;
}

#line 1
extern "C" __global__ void read_race_kernel(float *y) {
    SHARED(float, tile, 64);
    tile[threadIdx.x] = 1;
    __syncthreads();
    tile[threadIdx.x] = 2;
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}

#line 1
extern "C" __global__ void write_race_kernel(float *y) {
    SHARED(float, tile, 64);
    tile[threadIdx.x / 32] = *y + (float)threadIdx.x;
}

/* The same value from everybody is no race. */
#line 1
extern "C" __global__ void same_value_kernel(float *y) {
    SHARED(float, tile, 1);
    tile[0] = 7;
    __syncthreads();
    y[0] = tile[0];
}

#line 1
extern "C" __global__ void overwrite_kernel(float *y, long long by) {
    SHARED(float, tile, 64);
    tile[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    if (threadIdx.x + 1 < blockDim.x)
        y[threadIdx.x] = tile[threadIdx.x + 1];
    if (by == 1) /* a warp that knows of itself alone */
        __syncwarp();
    if (by == 2)
        __syncthreads();
    tile[threadIdx.x] = 0;
}

#line 1
extern "C" __global__ void several_readers_kernel(float *y) {
    SHARED(float, tile, 1);
    if (threadIdx.x == 0)
        tile[0] = 1;
    __syncthreads();
    y[threadIdx.x] = tile[0];
    __syncwarp();
    if (threadIdx.x == 63)
        tile[0] = 2;
}

#line 1
extern "C" __global__ void warp_race_kernel(float *y, long long by) {
    SHARED(float, tile, 32);
    tile[threadIdx.x] = 1;
    __syncthreads();
    tile[threadIdx.x] = 2;
    if (by)
        __syncwarp();
    else if (threadIdx.x < 16)
        __syncwarp(0xffff);
    y[threadIdx.x] = tile[31 - threadIdx.x];
}

#line 1
extern "C" __global__ void misaligned_kernel(const unsigned char *x, unsigned char *y,
                                             long long kind) {
    if (kind == 0)
        store16(y, load16(x + 4));
    else if (kind == 1)
        store16(y, load16_cached(x + 8));
    else
        store16(y + 1, load16(x));
}

#line 1
extern "C" __global__ void large_kernel(float *y) {
    SHARED(float, first, 8192);
    SHARED(float, second, 4096);
    first[threadIdx.x] = 0;
    second[threadIdx.x] = *y;
}

/* A histogram that all threads add to. by: 1 leaves out the barrier behind it, 2 that before it, 3
 * the zeros. */
#line 1
extern "C" __global__ void shared_add_kernel(int *y, long long by) {
    SHARED(int, count, 4);
    if (threadIdx.x < 4 && by != 3)
        count[threadIdx.x] = 0;
    if (by != 2)
        __syncthreads();
    shared_add(count, (int)(threadIdx.x % 4), (int)threadIdx.x);
    if (by != 1)
        __syncthreads();
    if (threadIdx.x < 4)
        y[threadIdx.x] = count[threadIdx.x];
}
