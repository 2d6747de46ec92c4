/* score[i] += what a cached row and the i-th query are to each other, the first at query[at]. */
static __device__ __forceinline__ void attend{{id}}_dots(float score[4], SHARED_OF(float) query, int at,
                                                int queries, const kv *row, int dim) {
#pragma unroll 1
    for (int d = 0; d < dim; d += 4) {
        float k[4];
        four_of(k, row, d, dim);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < queries)
                for (int j = 0; j < 4; j++)
                    score[i] = fmaf(query[at + i * ATTEND{{id}}_DEPTH + d + j], k[j], score[i]);
    }
}

/* Heads base … base + queries - 1 over the block's share. */
static __device__ __forceinline__ void attend{{id}}_queries(const attend{{id}}_share *t, const kv *keys,
                                                   const kv *values, SHARED_OF(float) query,
                                                   int base, int queries) {
    SHARED(float, weight_of, ATTEND{{id}}_QUERIES * ATTEND_THREADS);
    SHARED(float, tops, ATTEND{{id}}_QUERIES);
    SHARED(float, totals, ATTEND{{id}}_QUERIES);
    SHARED(float, shrink, ATTEND{{id}}_QUERIES);
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    float sum[ATTEND{{id}}_SUMS];
#pragma unroll
    for (int i = 0; i < ATTEND{{id}}_SUMS; i++)
        sum[i] = 0;
    if (thread < queries) {
{{#sinks}}
        tops[thread] = t->split ? -1e30f : t->sinks[base + thread]; /* of one share */
        totals[thread] = t->split ? 0.0f : 1.0f;
{{/sinks}}
{{^sinks}}
        tops[thread] = -1e30f;
        totals[thread] = 0;
{{/sinks}}
    }
    for (int first = t->begin; first < t->end; first += ATTEND_THREADS) {
        const int here = (int)least(ATTEND_THREADS, t->end - first);
        __syncthreads();
        /* A thread's key times every query, dimensions in rising order. */
        const long long slot = attend{{id}}_slot(t, first + (int)least(thread, here - 1));
        const kv *key = keys + slot * SHAPE{{shape}}_DIM;
{{#latent}}
        const kv *turned = values + slot * SHAPE{{shape}}_V_DIM;
{{/latent}}
        for (int q = 0; q < queries; q += 4) {
            float score[4] = { 0, 0, 0, 0 };
            attend{{id}}_dots(score, query, q * ATTEND{{id}}_DEPTH, queries - q, key, SHAPE{{shape}}_DIM);
{{#latent}}
            attend{{id}}_dots(score, query, q * ATTEND{{id}}_DEPTH + {{key_depth}}, queries - q, turned, SHAPE{{shape}}_V_DIM);
{{/latent}}
            for (int i = 0; i < 4 && q + i < queries; i++)
                weight_of[(q + i) * ATTEND_THREADS + thread] =
{{#scored}}
                    thread < here ? attention{{id}}_score(score[i], t->head * ATTEND{{id}}_GROUP + base + q + i,
                                                    t->newest - first - thread)
                                  : -1e30f;
{{/scored}}
{{^scored}}
                    thread < here ? score[i] : -1e30f;
{{/scored}}
        }
        __syncthreads();
        /* A warp folds a query's scores into its running softmax. */
        for (int q = warp; q < queries; q += ATTEND{{id}}_WARPS) {
            const float before = tops[q];
            float top = before, total = 0;
            for (int i = lane; i < ATTEND_THREADS; i += 32)
                top = fmaxf(top, weight_of[q * ATTEND_THREADS + i]);
            for (int apart = 16; apart; apart /= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, apart));
            for (int i = lane; i < ATTEND_THREADS; i += 32) {
                const float w = expf(weight_of[q * ATTEND_THREADS + i] - top);
                weight_of[q * ATTEND_THREADS + i] = w;
                total += w;
            }
            total = warp_sum(total);
            __syncwarp();
            if (lane == 0) {
                shrink[q] = expf(before - top);
                totals[q] = totals[q] * shrink[q] + total;
                tops[q] = top;
            }
        }
        __syncthreads();
        /* A thread's dimensions of the sums. */
#pragma unroll
        for (int i = 0; i < ATTEND{{id}}_SUMS; i++) {
            const int q = (i * ATTEND_THREADS + thread) / {{sum_dim}}, d = (i * ATTEND_THREADS + thread) % {{sum_dim}};
            if (q >= queries)
                continue;
            sum[i] *= shrink[q];
#pragma unroll 4
            for (int j = 0; j < here; j++)
                sum[i] = fmaf(weight_of[q * ATTEND_THREADS + j],
                              {{#latent}}keys{{/latent}}{{^latent}}values{{/latent}}[(long long)attend{{id}}_slot(t, first + j) * {{sum_dim}} + d], sum[i]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ATTEND{{id}}_SUMS; i++) {
        const int q = (i * ATTEND_THREADS + thread) / {{sum_dim}}, d = (i * ATTEND_THREADS + thread) % {{sum_dim}};
        if (q < queries)
            attend{{id}}_put(t, base + q, d, sum[i], totals[q]);
    }
    if (t->used > 1 && thread < queries)
        attend{{id}}_put_top(t, base + thread, tops[thread], totals[thread]);
}

