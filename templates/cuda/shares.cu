{{! shares.cu - what several blocks of attention to one row's keys say, and how one adds it up. }}
/* A block's share of one row's {{#expanded}}kv_head{{/expanded}}{{#latent}}heads, GROUP of them{{/latent}}: keys begin … end - 1 of those that the {{#expanded}}new {{/expanded}}token sees. */
typedef struct {
    int batch, head, split;
{{#latent}}
    int heads;            /* that there are of the group */
{{/latent}}
    int begin, end, used; /* used: shares, of which this is the split-th */
    int slot;             /* of the first key that is seen, then round the ring */
    float *sums;          /* [SPLITS, GROUP, {{sum_dim}}] of this row's {{#expanded}}kv_head{{/expanded}}{{#latent}}group{{/latent}} */
    float *tops;          /* [SPLITS, GROUP, 2]: highest score, sum of weights */
    {{attended_ctype}} *attended;    /* [GROUP, {{sum_dim}}] of it */
{{#sinks}}
    const float *sinks;   /* [GROUP] of it */
{{/sinks}}
{{#indexed}}
    const int *chosen;    /* slots of the keys that are seen, in rising order */
{{/indexed}}
{{#scored}}
    int newest;           /* the last key that is seen, counted from the first */
{{/scored}}
} attend{{id}}_share;

static __device__ __forceinline__ int attend{{id}}_slot(const attend{{id}}_share *t, int key) {
{{#ring}}
    const int slot = t->slot + key;
    return slot < SHAPE{{shape}}_SLOTS ? slot : slot - SHAPE{{shape}}_SLOTS;
{{/ring}}
{{^ring}}
    return {{#indexed}}t->chosen[key]{{/indexed}}{{^indexed}}t->slot + key{{/indexed}};
{{/ring}}
}

/* Query q's sum over its share, d on: the outcome if there is no other share. */
static __device__ __forceinline__ void attend{{id}}_put(const attend{{id}}_share *t, int q, int d, float sum,
                                               float total) {
    if (t->used == 1)
        t->attended[q * {{sum_dim}} + d] = {{attended_from}}(sum / total);
    else
        t->sums[(t->split * ATTEND{{id}}_GROUP + q) * {{sum_dim}} + d] = sum;
}

static __device__ __forceinline__ void attend{{id}}_put_top(const attend{{id}}_share *t, int q, float top,
                                                   float total) {
    t->tops[(t->split * ATTEND{{id}}_GROUP + q) * 2] = top;
    t->tops[(t->split * ATTEND{{id}}_GROUP + q) * 2 + 1] = total;
}

/* The parts of all shares become the outcome. */
static __device__ __forceinline__ void attend{{id}}_combine(const attend{{id}}_share *t) {
    SHARED(float, factor, ATTEND{{id}}_QUERIES * ATTEND{{id}}_SPLITS);
    const int thread = (int)threadIdx.x, lane = thread % 32, quarter = ({{sum_dim}} + 3) / 4;
    for (int base = 0; base < ATTEND{{id}}_GROUP; base += ATTEND{{id}}_QUERIES) {
        const int queries = {{#expanded}}(int)least(ATTEND{{id}}_QUERIES, ATTEND{{id}}_GROUP - base){{/expanded}}{{#latent}}t->heads{{/latent}};
        __syncthreads();
        for (int q = thread / 32; q < queries; q += ATTEND{{id}}_WARPS) {
            const float *tops = t->tops + (base + q) * 2;
            float top = -1e30f, total = 0;
            for (int i = lane; i < t->used; i += 32)
                top = fmaxf(top, tops[i * ATTEND{{id}}_GROUP * 2]);
            for (int apart = 16; apart; apart /= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, apart));
            for (int i = lane; i < t->used; i += 32)
                total += expf(tops[i * ATTEND{{id}}_GROUP * 2] - top) * tops[i * ATTEND{{id}}_GROUP * 2 + 1];
            total = warp_sum(total);
            for (int i = lane; i < t->used; i += 32)
                factor[q * ATTEND{{id}}_SPLITS + i] = expf(tops[i * ATTEND{{id}}_GROUP * 2] - top) / total;
        }
        __syncthreads();
        for (int item = thread; item < queries * quarter; item += ATTEND_THREADS) {
            const int q = item / quarter, d = item % quarter * 4;
            const float *sums = t->sums + (base + q) * {{sum_dim}};
            float sum[4] = { 0, 0, 0, 0 };
#pragma unroll 2
            for (int i = 0; i < t->used; i++) {
                float v[4];
                four_floats(v, sums + i * ATTEND{{id}}_GROUP * {{sum_dim}}, d, {{sum_dim}});
                for (int j = 0; j < 4; j++)
                    sum[j] += factor[q * ATTEND{{id}}_SPLITS + i] * v[j];
            }
            for (int j = 0; j < 4 && d + j < {{sum_dim}}; j++)
                t->attended[(base + q) * {{sum_dim}} + d + j] = {{attended_from}}(sum[j]);
        }
    }
}

/* Of several blocks the one that comes last has the outcome. */
static __device__ __forceinline__ void attend{{id}}_join(const attend{{id}}_share *t, unsigned *arrived) {
    SHARED(int, is_last, 1);
    if (t->used == 1)
        return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last[0] = block_arrive(arrived) == (unsigned)t->used - 1;
    __syncthreads();
    if (!is_last[0])
        return;
    attend{{id}}_combine(t);
    if (threadIdx.x == 0)
        *arrived = 0;
}

