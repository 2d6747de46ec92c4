/* Of two candidates the better one: the higher logit, of equals the lower id. */
static __device__ __forceinline__ void keep_better(float *best, int *id, float other, int other_id) {
    if (other > *best || (other == *best && other_id < *id)) {
        *best = other;
        *id = other_id;
    }
}

/*
 * ids [batch]: where each row of logits [batch, VOCAB] is highest, the lowest such id.
 * Grid batch, block PICK_THREADS, shared 256 bytes. A thread looks at every PICK_THREADS-th logit;
 * then lanes by halves, then warps in order.
 */
extern "C" __global__ void __launch_bounds__(PICK_THREADS)
    pick_kernel(const step *s, const float *logits, int *ids) {
    SHARED(float, tops, PICK_THREADS / 32);
    SHARED(int, top_ids, PICK_THREADS / 32);
    const long long row = blockIdx.x;
    if (row >= s->batch)
        return;
    logits += row * VOCAB;
    float best = -__uint_as_float(0x7f800000);
    int id = VOCAB;
    for (int i = (int)threadIdx.x; i < VOCAB; i += PICK_THREADS)
        keep_better(&best, &id, logits[i], i);
    for (int apart = 16; apart; apart /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, best, apart);
        const int other_id = __shfl_xor_sync(0xffffffff, id, apart);
        keep_better(&best, &id, other, other_id);
    }
    if (threadIdx.x % 32 == 0) {
        tops[threadIdx.x / 32] = best;
        top_ids[threadIdx.x / 32] = id;
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < PICK_THREADS / 32; i++)
        keep_better(&best, &id, tops[i], top_ids[i]);
    ids[row] = id < VOCAB ? id : 0; /* no logit is a number: any id will do */
}

