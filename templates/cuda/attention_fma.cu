{{! attention_fma.cu - attention of a prefill on a float cache. }}
/*
 * {{layer_list}}: {{layer_type}}, {{heads}} heads on {{kv_heads}} kv_heads, all tokens of the pass.
{{#windowed}}
 * Query q sees keys q - {{window}} < k <= q.
{{/windowed}}
{{#chunked}}
 * Query q sees keys k <= q of its chunk: q / {{window}} = k / {{window}}.
{{/chunked}}
{{#sinks}}
 * A sink is one score more of a head in every softmax (Xiao et al. 2023, as GptOssAttention has it).
{{/sinks}}
 *
 * Grid [ceil(tokens * ATTENTION{{id}}_GROUP / ATTENTION{{id}}_QUERIES), batch * ATTEND{{id}}_HEADS], block
 * ATTENTION_THREADS, shared {{attention_shared}} bytes. A query is one head of one token; a block takes
 * ATTENTION{{id}}_QUERIES of a kv_head that follow one another, ATTENTION{{id}}_TEAM threads each. Keys come
 * in blocks of ATTENTION{{id}}_KEYS, counted from the row's first token, so that a query adds up in the
 * same order whatever pass it came in: dimensions and keys in rising order, scores of a block by its
 * team; softmax is the running one (Milakov and Gimelshein 2018).
 */
enum {
    ATTENTION{{id}}_KEYS = {{tile_keys}},
    ATTENTION{{id}}_TEAM = ATTENTION_THREADS / ATTENTION{{id}}_QUERIES,
    ATTENTION{{id}}_DEPTH = {{tile_depth}},  /* of a key or value: whole fours */
    ATTENTION{{id}}_STRIDE = {{tile_stride}}, /* to the next one: in other banks */
    ATTENTION{{id}}_SUMS = {{team_fours}},   /* fours of dimensions that a thread has */
    ATTENTION{{id}}_HEADS = {{heads}},
};

/* Keys or values block … of a row's kv_head, zeros for what is not there. */
static __device__ __forceinline__ void attention{{id}}_load(SHARED_OF(float) to, const kv *slots,
                                                   const kv *evicted, long long first,
                                                   long long oldest, long long end, int dim) {
    for (int i = (int)threadIdx.x; i < ATTENTION{{id}}_KEYS * ATTENTION{{id}}_DEPTH; i += ATTENTION_THREADS) {
        const int k = i / ATTENTION{{id}}_DEPTH, d = i % ATTENTION{{id}}_DEPTH;
        const long long at = first + k;
        float x = 0;
        if (at >= oldest && at < end && d < dim)
{{#ring}}
            x = at < end - SHAPE{{shape}}_SLOTS ? evicted[(at - oldest) * dim + d]
                                      : slots[at % SHAPE{{shape}}_SLOTS * dim + d];
{{/ring}}
{{^ring}}
            x = slots[at * dim + d];
        (void)evicted; /* a full layer drives nothing out */
{{/ring}}
        to[k * ATTENTION{{id}}_STRIDE + d] = x;
    }
}

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention{{id}}_kernel(const step *s, const kv *q, const kv *keys, const kv *values,
                      const kv *evicted_keys, const kv *evicted_values, {{attended_ctype}} *attended{{#sinks}}, const float *sinks{{/sinks}}) {
    SHARED(float, query, ATTENTION{{id}}_QUERIES * ATTENTION{{id}}_STRIDE);
    SHARED(float, cached, ATTENTION{{id}}_KEYS * ATTENTION{{id}}_STRIDE);
    SHARED(float, weight_of, ATTENTION{{id}}_QUERIES * (ATTENTION{{id}}_KEYS + 1));
    const int thread = (int)threadIdx.x, mine = thread / ATTENTION{{id}}_TEAM, member = thread % ATTENTION{{id}}_TEAM;
    const int batch = (int)blockIdx.y / SHAPE{{shape}}_KV_HEADS, head = (int)blockIdx.y % SHAPE{{shape}}_KV_HEADS;
    const int queries = batch < s->batch ? (int)s->tokens * ATTENTION{{id}}_GROUP : 0;
    /* The last queries, which see most, begin first. */
    const int tile = (int)(gridDim.x - 1 - blockIdx.x) * ATTENTION{{id}}_QUERIES;
    if (tile >= queries)
        return;
    const long long seen = s->seen[batch], end = seen + s->tokens, padding = s->padding[batch];
    const long long place = s->row[batch] * SHAPE{{shape}}_KV_HEADS + head;
    const long long oldest = most(0, seen - SHAPE{{shape}}_LENGTH + 1);
    keys += place * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_DIM;
    values += place * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_V_DIM;
    evicted_keys += place * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_DIM;
    evicted_values += place * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_V_DIM;
    for (int i = thread; i < ATTENTION{{id}}_QUERIES * ATTENTION{{id}}_DEPTH; i += ATTENTION_THREADS) {
        const int other = tile + i / ATTENTION{{id}}_DEPTH, d = i % ATTENTION{{id}}_DEPTH;
        const int token = other / ATTENTION{{id}}_GROUP, group = other % ATTENTION{{id}}_GROUP;
        const long long row = (batch * s->tokens + token) * ATTENTION{{id}}_HEADS + head * ATTENTION{{id}}_GROUP + group;
        query[i / ATTENTION{{id}}_DEPTH * ATTENTION{{id}}_STRIDE + d] =
            other < queries && d < SHAPE{{shape}}_DIM ? q[row * SHAPE{{shape}}_DIM + d] * {{scale}} : 0;
    }
    const int last = tile + mine < queries ? tile + mine : queries - 1;
    const long long pos = seen + last / ATTENTION{{id}}_GROUP - padding; /* from the first that is no padding */
{{#sinks}}
    float sum[ATTENTION{{id}}_SUMS][4], total = 1;
    float top = sinks[head * ATTENTION{{id}}_GROUP + last % ATTENTION{{id}}_GROUP];
{{/sinks}}
{{^sinks}}
    float sum[ATTENTION{{id}}_SUMS][4], top = -1e30f, total = 0;
{{/sinks}}
#pragma unroll
    for (int i = 0; i < ATTENTION{{id}}_SUMS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][j] = 0;

    /* Blocks that some query of the tile sees. */
    const int behind = tile + ATTENTION{{id}}_QUERIES < queries ? tile + ATTENTION{{id}}_QUERIES : queries;
    const long long newest = seen + (behind - 1) / ATTENTION{{id}}_GROUP - padding;
{{#windowed}}
    const long long seen_first = seen + tile / ATTENTION{{id}}_GROUP - padding - {{window}} + 1;
    long long block = most(0, seen_first) / ATTENTION{{id}}_KEYS * ATTENTION{{id}}_KEYS;
{{/windowed}}
{{#chunked}}
    long long block = most(0, seen + tile / ATTENTION{{id}}_GROUP - padding) / {{window}} * {{window}} / ATTENTION{{id}}_KEYS *
                      ATTENTION{{id}}_KEYS;
{{/chunked}}
{{^limited}}
    long long block = 0;
{{/limited}}
    for (; block <= newest; block += ATTENTION{{id}}_KEYS) {
        __syncthreads();
        attention{{id}}_load(cached, keys, evicted_keys, padding + block, oldest, end, SHAPE{{shape}}_DIM);
        __syncthreads();
        float score[ATTENTION{{id}}_KEYS / ATTENTION{{id}}_TEAM], best = top, part = 0;
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_KEYS / ATTENTION{{id}}_TEAM; i++)
            score[i] = 0;
        for (int d = 0; d < {{dim_depth}}; d += 4)
#pragma unroll
            for (int i = 0; i < ATTENTION{{id}}_KEYS / ATTENTION{{id}}_TEAM; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    score[i] = fmaf(query[mine * ATTENTION{{id}}_STRIDE + d + j],
                                    cached[(i * ATTENTION{{id}}_TEAM + member) * ATTENTION{{id}}_STRIDE + d + j], score[i]);
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_KEYS / ATTENTION{{id}}_TEAM; i++) {
            const long long k = block + i * ATTENTION{{id}}_TEAM + member;
{{#scored}}
            score[i] = attention{{id}}_score(score[i], head * ATTENTION{{id}}_GROUP + last % ATTENTION{{id}}_GROUP, pos - k);
{{/scored}}
            if (k > pos{{#windowed}} || k <= pos - {{window}}{{/windowed}}{{#chunked}} || k < pos / {{window}} * {{window}}{{/chunked}})
                score[i] = -1e30f;
            best = fmaxf(best, score[i]);
        }
#pragma unroll
        for (int apart = ATTENTION{{id}}_TEAM / 2; apart; apart /= 2)
            best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, apart));
        const float base = best > -1e29f ? best : 0; /* nothing is seen yet: weights are 0 */
        const float shrink = expf(top - base);
        top = best;
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_KEYS / ATTENTION{{id}}_TEAM; i++) {
            const float w = expf(score[i] - base);
            weight_of[mine * (ATTENTION{{id}}_KEYS + 1) + i * ATTENTION{{id}}_TEAM + member] = w;
            part += w;
        }
#pragma unroll
        for (int apart = ATTENTION{{id}}_TEAM / 2; apart; apart /= 2)
            part += __shfl_xor_sync(0xffffffff, part, apart);
        total = total * shrink + part;
        __syncthreads();
        attention{{id}}_load(cached, values, evicted_values, padding + block, oldest, end, SHAPE{{shape}}_V_DIM);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_SUMS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] *= shrink;
        for (int k = 0; k < ATTENTION{{id}}_KEYS; k++) {
            const float w = weight_of[mine * (ATTENTION{{id}}_KEYS + 1) + k];
#pragma unroll
            for (int i = 0; i < ATTENTION{{id}}_SUMS; i++) {
                const int d = (i * ATTENTION{{id}}_TEAM + member) * 4;
                if (d >= SHAPE{{shape}}_V_DIM)
                    continue;
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] = fmaf(w, cached[k * ATTENTION{{id}}_STRIDE + d + j], sum[i][j]);
            }
        }
    }

    if (tile + mine >= queries)
        return;
    const int token = last / ATTENTION{{id}}_GROUP, group = last % ATTENTION{{id}}_GROUP;
    {{attended_ctype}} *to = attended + (batch * s->tokens + token) * {{attended_row}} +
                  (head * ATTENTION{{id}}_GROUP + group) * SHAPE{{shape}}_V_DIM;
#pragma unroll
    for (int i = 0; i < ATTENTION{{id}}_SUMS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int d = (i * ATTENTION{{id}}_TEAM + member) * 4 + j;
            if (d < SHAPE{{shape}}_V_DIM) /* padding sees nothing: zeros */
                to[d] = {{attended_from}}(total > 0 ? sum[i][j] / total : 0);
        }
}

