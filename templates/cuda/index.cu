{{! index.cu - which keys a query sees: the indexer's keys, their scores, the best of them. }}
/*
 * {{layer_list}}: an indexer of {{heads}} heads lets a query see {{top_k}} keys, those that score highest: the sum over
 * its heads of weight * max(q . k, 0). Of equals the earlier ones (DeepseekV32Indexer).
 *
 * index_keep: grid rows, block ROW_THREADS: a row's key goes to the cache, zeros of padding.
 * index_score: grid [ceil(SLOTS / INDEX_THREADS), rows], block INDEX_THREADS, shared {{index_shared}} bytes: a thread has
 * one key of one query. Dimensions, then heads in rising order.
 * index_choose: grid rows, block ROW_THREADS: the least score that is seen is found 8 bits at a time by a
 * histogram; then slots are listed in rising order.
 */
enum {
    INDEX{{id}}_HEADS = {{heads}},
    INDEX{{id}}_DIM = {{dim}},
    INDEX{{id}}_TOP_K = {{top_k}},
    INDEX{{id}}_AT_ONCE = {{index_at_once}}, /* heads in shared memory */
    INDEX{{id}}_BINS = 256,
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    index_keep{{id}}_kernel(const step *s, const float *k, weight *keys) {
    const long long row = blockIdx.x, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
    const long long pos = s->seen[batch] + row % s->tokens;
    keys += (s->row[batch] * SHAPE{{shape}}_SLOTS + pos) * INDEX{{id}}_DIM;
    for (int i = (int)threadIdx.x; i < INDEX{{id}}_DIM; i += ROW_THREADS)
        keys[i] = pos < s->padding[batch] ? (weight)0 : operand_of(k[row * {{k_row}} + i]);
}

/* A query's scores of all keys that it may see, unless it sees them all. */
extern "C" __global__ void __launch_bounds__(INDEX_THREADS)
    index_score{{id}}_kernel(const step *s, const float *q, const float *weights, const weight *keys, float *scores,
                        long long first) {
    SHARED(float, query, INDEX{{id}}_AT_ONCE * INDEX{{id}}_DIM);
    const long long row = first + blockIdx.y, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
    const long long pos = s->seen[batch] + row % s->tokens, padding = s->padding[batch];
    const long long begin = padding + (long long)blockIdx.x * INDEX_THREADS, slot = begin + threadIdx.x;
    if (begin > pos || pos - padding < INDEX{{id}}_TOP_K)
        return;
    const weight *key = keys + (s->row[batch] * SHAPE{{shape}}_SLOTS + least(slot, pos)) * INDEX{{id}}_DIM;
    float total = 0;
    for (int base = 0; base < INDEX{{id}}_HEADS; base += INDEX{{id}}_AT_ONCE) {
        const int heads = (int)least(INDEX{{id}}_AT_ONCE, INDEX{{id}}_HEADS - base);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < heads * INDEX{{id}}_DIM; i += INDEX_THREADS)
            query[i] = q[row * {{q_row}} + base * INDEX{{id}}_DIM + i];
        __syncthreads();
        for (int head = 0; head < heads; head += 8) {
            float dot[8] = { 0, 0, 0, 0, 0, 0, 0, 0 };
#pragma unroll 4
            for (int d = 0; d < INDEX{{id}}_DIM; d++) {
                const float k = weight_float(key[d]);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (head + i < heads)
                        dot[i] = fmaf(query[(head + i) * INDEX{{id}}_DIM + d], k, dot[i]);
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (head + i < heads)
                    total = fmaf(fmaxf(dot[i], 0), weights[row * {{weights_row}} + base + head + i], total);
        }
    }
    if (slot <= pos)
        scores[(long long)blockIdx.y * INDEX_STRIDE + slot - padding] = total;
}

/* Numbers whose order is that of the floats. */
static __device__ __forceinline__ unsigned index{{id}}_order(float x) {
    const unsigned bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The TOP_K-th score from above, as such a number; *equals: how many of those are seen. */
static __device__ __forceinline__ unsigned index{{id}}_least(const float *score, int count, int *equals) {
    SHARED(int, bin, INDEX{{id}}_BINS);
    SHARED(int, found, 2);
    const int thread = (int)threadIdx.x;
    unsigned least_seen = 0;
    int wanted = INDEX{{id}}_TOP_K;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = thread; i < INDEX{{id}}_BINS; i += ROW_THREADS)
            bin[i] = 0;
        __syncthreads();
        for (int i = thread; i < count; i += ROW_THREADS) {
            const unsigned order = index{{id}}_order(score[i]);
            if (shift == 24 || order >> (shift + 8) == least_seen >> (shift + 8))
                shared_add(bin, (int)(order >> shift & 255), 1);
        }
        __syncthreads();
        if (thread == 0) {
            int at = INDEX{{id}}_BINS - 1, left = wanted;
            while (at > 0 && bin[at] < left)
                left -= bin[at--];
            found[0] = at;
            found[1] = left;
        }
        __syncthreads();
        least_seen |= (unsigned)found[0] << shift;
        wanted = found[1];
    }
    *equals = wanted;
    return least_seen;
}

/* How many threads before this one say yes; *all: how many of the block do. */
static __device__ __forceinline__ int index{{id}}_before(bool yes, SHARED_OF(int) of_warp, int *all) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const unsigned votes = __ballot_sync(0xffffffff, yes);
    int before = __popc(votes & ((1u << lane) - 1));
    __syncthreads();
    if (lane == 0)
        of_warp[warp] = __popc(votes);
    __syncthreads();
    *all = 0;
    for (int i = 0; i < BLOCK_WARPS; i++) {
        before += i < warp ? of_warp[i] : 0;
        *all += of_warp[i];
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    index_choose{{id}}_kernel(const step *s, const float *scores, int *chosen, long long first) {
    SHARED(int, of_warp, BLOCK_WARPS);
    const long long row = first + blockIdx.x, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
    const int padding = (int)s->padding[batch];
    const int count = (int)most(0, s->seen[batch] + row % s->tokens + 1 - padding);
    const float *score = scores + (long long)blockIdx.x * INDEX_STRIDE;
    chosen += row * INDEX_CHOSEN;
    if (count <= INDEX{{id}}_TOP_K) {
        for (int i = (int)threadIdx.x; i < count; i += ROW_THREADS)
            chosen[i] = padding + i;
        return;
    }
    int equals, listed = 0;
    const unsigned least_seen = index{{id}}_least(score, count, &equals);
    for (int begin = 0; begin < count; begin += ROW_THREADS) {
        const int i = begin + (int)threadIdx.x;
        const unsigned order = i < count ? index{{id}}_order(score[i]) : 0;
        int ties, here;
        const int tie = index{{id}}_before(i < count && order == least_seen, of_warp, &ties);
        const bool seen = i < count && (order > least_seen || (order == least_seen && tie < equals));
        const int place = listed + index{{id}}_before(seen, of_warp, &here);
        if (seen)
            chosen[place] = padding + i;
        listed += here;
        equals -= ties < equals ? ties : equals;
    }
}

