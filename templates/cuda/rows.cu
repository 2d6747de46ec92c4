{{! rows.cu - small helpers: conversions, pieces of rows, sums of a warp. }}
static __device__ __forceinline__ long long least(long long a, long long b) { return a < b ? a : b; }
static __device__ __forceinline__ long long most(long long a, long long b) { return a > b ? a : b; }

static __device__ __forceinline__ float weight_float(weight w) { return {{device_weight_to}}(w); }
static __device__ __forceinline__ operand operand_of(float x) { return {{device_weight_from}}(x); }
static __device__ __forceinline__ kv kv_of(float x) { return {{device_kv_from}}(x); }

/* Elements at … at + 3 of a vector of count, zeros behind its end. It begins at a multiple of 16
 * bytes where count, as here, is one of 4. */
static __device__ __forceinline__ void four_floats(float v[4], const float *from, int at,
                                                   int count) {
    if (count % 4 == 0) {
        const words4 w = at < count ? load16_cached(from + at) : words4{ 0, 0, 0, 0 };
        v[0] = __uint_as_float(w.x);
        v[1] = __uint_as_float(w.y);
        v[2] = __uint_as_float(w.z);
        v[3] = __uint_as_float(w.w);
    } else {
        for (int i = 0; i < 4; i++)
            v[i] = at + i < count ? from[at + i] : 0;
    }
}

/* One element of a row as floats, as operands or as both; the other is 0, known here. */
static __device__ __forceinline__ void put(float *y, operand *to, int i, float x) {
    if (y)
        y[i] = x;
    if (to)
        to[i] = operand_of(x);
}
{{#device_halves}}

/* Two halves in 32 bits, the first one low. */
static __device__ __forceinline__ unsigned pair_of(unsigned short low, unsigned short high) {
    return low | (unsigned)high << 16;
}
{{/device_halves}}

/* Over all lanes, the same in each: halves, quarters, … are added. */
static __device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int apart = 16; apart; apart /= 2)
        x += __shfl_xor_sync(0xffffffff, x, apart);
    return x;
}

/* Sum over the block of 256 of what each thread has, the same in all: lanes by halves, warps in
 * order. */
enum { BLOCK_WARPS = ROW_THREADS / 32 };

static __device__ __forceinline__ float block_sum(float x, SHARED_OF(float) sums) {
    float total = 0;
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = x;
    __syncthreads();
    for (int i = 0; i < BLOCK_WARPS; i++)
        total += sums[i];
    return total;
}

