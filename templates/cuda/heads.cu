{{! heads.cu - what attention shares: heads of q and k as qkv leaves them, pieces of cached rows. }}
/*
 * One head of one token by one warp, to[at … at + dim - 1]: normed (norm_w not NULL), then rotated
 * (pairs above 0). Rotate-half: pair i is (x[i], x[i + pairs]). Squares are summed lane by lane,
 * then lanes by halves. Source: LlamaRMSNorm, apply_rotary_pos_emb.
 */
static __device__ __forceinline__ void load_head(SHARED_OF(float) to, int at, const float *from,
                                                 int dim, const float *norm_w, float eps,
                                                 const float *cosine, const float *sine,
                                                 int pairs) {
    const int lane = (int)threadIdx.x % 32;
    float sum = 0;
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < dim; i += 32) {
        const float x = from[i];
        to[at + i] = x;
        sum += x * x;
    }
    if (norm_w) {
        const float scale = 1.0f / sqrtf(warp_sum(sum) / (float)dim + eps);
        for (int i = lane; i < dim; i += 32)
            to[at + i] = to[at + i] * scale * norm_w[i];
    }
    __syncwarp();
    for (int i = lane; i < pairs; i += 32) {
        const float a = to[at + i], b = to[at + i + pairs];
        to[at + i] = a * cosine[i] - b * sine[i];
        to[at + i + pairs] = b * cosine[i] + a * sine[i];
    }
    __syncwarp();
}

{{#float_cache}}
/* Elements at … at + 3 of a cached row, zeros behind its end. */
static __device__ __forceinline__ void four_of(float v[4], const kv *row, int at, int dim) {
    four_floats(v, row, at, dim);
}

{{/float_cache}}
{{^float_cache}}
/* Elements at and at + 1 of a cached row, zeros behind its end. at is even. */
static __device__ __forceinline__ unsigned two_of(const kv *row, int at, int dim) {
    if (dim % 2 == 0)
        return at < dim ? *(const unsigned *)(row + at) : 0;
    return (at < dim ? row[at] : 0) | (unsigned)(at + 1 < dim ? row[at + 1] : 0) << 16;
}

/* Elements at … at + 7; rows lie side by side, so they are 16 bytes at once where dim, as at, is a
 * multiple of 8. */
static __device__ __forceinline__ words4 eight_of(const kv *row, int at, int dim) {
    if (dim % 8 == 0)
        return at < dim ? load16_cached(row + at) : words4{ 0, 0, 0, 0 };
    const words4 v = { two_of(row, at, dim), two_of(row, at + 2, dim), two_of(row, at + 4, dim),
                       two_of(row, at + 6, dim) };
    return v;
}

/* Of two rows of pairs: a column of them each, as mma wants b. */
static __device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) {
    return (a & 0xffff) | b << 16;
}

static __device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) {
    return a >> 16 | (b & 0xffff0000);
}

/* The larger of a pair's … of a quarter's: over the four lanes that share rows of d. */
static __device__ __forceinline__ float quarter_top(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

static __device__ __forceinline__ float quarter_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

/* q times 32 dimensions of 8 keys onto scores [16, 8]; low and high are q's rows. */
static __device__ __forceinline__ void score_step(float score[4], words4 low, words4 high,
                                                  words4 key) {
    const unsigned a[4] = { low.x, high.x, low.y, high.y }, b[2] = { key.x, key.y };
    const unsigned c[4] = { low.z, high.z, low.w, high.w }, d[2] = { key.z, key.w };
    {{device_kv_mma}}(score, a, b);
    {{device_kv_mma}}(score, c, d);
}

static __device__ __forceinline__ unsigned kv_pair(float low, float high) {
    return kv_of(low) | (unsigned)kv_of(high) << 16;
}

/* Two columns of sums [16, 8] each, += weights [16, 16] times a pair of dimensions of 16 values:
 * those of tokens 2t, 2t + 1, 2t + 8 and 2t + 9. */
static __device__ __forceinline__ void weigh_step(float even[4], float odd[4],
                                                  const unsigned weights[4],
                                                  const unsigned value[4]) {
    const unsigned low[2] = { low_halves(value[0], value[1]), low_halves(value[2], value[3]) };
    const unsigned high[2] = { high_halves(value[0], value[1]), high_halves(value[2], value[3]) };
    {{device_kv_mma}}(even, weights, low);
    {{device_kv_mma}}(odd, weights, high);
}

/* Sums of blocks of 64 dimensions from the first on, then of rest pairs more of each lane, += weights
 * [16, 16] times 16 values, of which value has the lane's: 8 dimensions of each at a time. */
static __device__ __forceinline__ void weigh_values(float (*sum)[2][4], int blocks, int rest,
                                                    const unsigned weights[4],
                                                    const kv *const value[4], int first, int dim) {
    const int row = (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int block = 0; block < blocks; block++) {
        words4 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = eight_of(value[i], first + block * 64 + row * 8, dim);
        const unsigned x[4] = { v[0].x, v[1].x, v[2].x, v[3].x };
        const unsigned y[4] = { v[0].y, v[1].y, v[2].y, v[3].y };
        const unsigned z[4] = { v[0].z, v[1].z, v[2].z, v[3].z };
        const unsigned w[4] = { v[0].w, v[1].w, v[2].w, v[3].w };
        weigh_step(sum[block * 4][0], sum[block * 4][1], weights, x);
        weigh_step(sum[block * 4 + 1][0], sum[block * 4 + 1][1], weights, y);
        weigh_step(sum[block * 4 + 2][0], sum[block * 4 + 2][1], weights, z);
        weigh_step(sum[block * 4 + 3][0], sum[block * 4 + 3][1], weights, w);
    }
#pragma unroll
    for (int i = 0; i < rest; i++) {
        const int d = first + blocks * 64 + (row * rest + i) * 2;
        const unsigned v[4] = { two_of(value[0], d, dim), two_of(value[1], d, dim),
                                two_of(value[2], d, dim), two_of(value[3], d, dim) };
        weigh_step(sum[blocks * 4 + i][0], sum[blocks * 4 + i][1], weights, v);
    }
}

{{/float_cache}}
