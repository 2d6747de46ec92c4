{{! attention_mma.cu - attention of a prefill on a 16-bit cache. }}
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
 * ATTENTION{{id}}_QUERIES of a kv_head that follow one another, a warp 16 of them, the rows of d of
 * mma.m16n8k16. Keys come in blocks of ATTENTION{{id}}_KEYS, counted from the row's first token, so that a
 * query adds up in the same order whatever pass it came in; softmax is the running one (Dao 2022,
 * FlashAttention; Milakov and Gimelshein 2018). A thread holds 2 queries' scores of a quarter of the
 * keys, and their sums of a quarter of the dimensions.
 */
enum {
    ATTENTION{{id}}_KEYS = {{tile_keys}},
    ATTENTION{{id}}_TILES = ATTENTION{{id}}_KEYS / 8,
    ATTENTION{{id}}_STEPS = {{key_steps}},  /* of 32 dimensions of a key */
    ATTENTION{{id}}_KEY = {{query_words}},   /* words from one key to the next: in other banks */
    ATTENTION{{id}}_BLOCKS = {{value_blocks}}, /* of 64 dimensions of a value */
    ATTENTION{{id}}_REST = {{value_rest}},   /* pairs of the other dimensions that a lane has */
    ATTENTION{{id}}_SUMS = {{value_pairs}},  /* pairs of dimensions that a lane has */
    ATTENTION{{id}}_VALUE = {{value_words}}, /* words from one value to the next */
    ATTENTION{{id}}_HEADS = {{heads}},
};

extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention{{id}}_kernel(const step *s, const kv *q, const kv *keys, const kv *values,
                      const kv *evicted_keys, const kv *evicted_values, {{attended_ctype}} *attended{{#sinks}}, const float *sinks{{/sinks}}) {
    SHARED(unsigned, key, ATTENTION{{id}}_KEYS * ATTENTION{{id}}_KEY);
    SHARED(unsigned, value, ATTENTION{{id}}_KEYS * ATTENTION{{id}}_VALUE);
    const int thread = (int)threadIdx.x, row = thread % 32 / 4, member = thread % 4;
    const int batch = (int)blockIdx.y / SHAPE{{shape}}_KV_HEADS, head = (int)blockIdx.y % SHAPE{{shape}}_KV_HEADS;
    const int queries = batch < s->batch ? (int)s->tokens * ATTENTION{{id}}_GROUP : 0;
    /* The last queries, which see most, begin first. */
    const int tile = (int)(gridDim.x - 1 - blockIdx.x) * ATTENTION{{id}}_QUERIES;
    if (tile >= queries)
        return;
    const long long end = s->seen[batch] + s->tokens, padding = s->padding[batch];
    const long long place = s->row[batch] * SHAPE{{shape}}_KV_HEADS + head;
    keys += place * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_DIM;
    values += place * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_V_DIM;
{{#ring}}
    const long long oldest = most(0, s->seen[batch] - SHAPE{{shape}}_LENGTH + 1);
    evicted_keys += place * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_DIM;
    evicted_values += place * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_V_DIM;
{{/ring}}
{{^ring}}
    (void)evicted_keys; /* a full layer drives nothing out */
    (void)evicted_values;
{{/ring}}

    /* A lane's two queries; behind the last one it is that once more, and not kept. */
    int query[2];
    long long pos[2]; /* from the row's first token that is no padding */
    const kv *from[2];
{{#scored}}
    int query_head[2];
{{/scored}}
#pragma unroll
    for (int half = 0; half < 2; half++) {
        query[half] = tile + thread / 32 * 16 + row + half * 8;
        const int last = query[half] < queries ? query[half] : queries - 1;
        const int token = last / ATTENTION{{id}}_GROUP, group = last % ATTENTION{{id}}_GROUP;
        pos[half] = s->seen[batch] + token - padding;
{{#scored}}
        query_head[half] = head * ATTENTION{{id}}_GROUP + group;
{{/scored}}
        from[half] = q + ((batch * s->tokens + token) * ATTENTION{{id}}_HEADS + head * ATTENTION{{id}}_GROUP + group) *
                             SHAPE{{shape}}_DIM;
    }
{{#query_held}}
    words4 held[ATTENTION{{id}}_STEPS][2];
#pragma unroll
    for (int i = 0; i < ATTENTION{{id}}_STEPS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            held[i][half] = eight_of(from[half], i * 32 + member * 8, SHAPE{{shape}}_DIM);
{{/query_held}}
    float sum[ATTENTION{{id}}_SUMS][2][4], top[2] = { -1e30f, -1e30f }, total[2] = { 0, 0 };
#pragma unroll
    for (int i = 0; i < ATTENTION{{id}}_SUMS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][0][j] = sum[i][1][j] = 0;
{{#sinks}}
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int last = query[half] < queries ? query[half] : queries - 1;
        top[half] = sinks[head * ATTENTION{{id}}_GROUP + last % ATTENTION{{id}}_GROUP];
        total[half] = 1;
    }
{{/sinks}}

    /* Blocks that some query of the tile sees. */
    const int behind = tile + ATTENTION{{id}}_QUERIES < queries ? tile + ATTENTION{{id}}_QUERIES : queries;
    const long long newest = s->seen[batch] + (behind - 1) / ATTENTION{{id}}_GROUP - padding;
{{#windowed}}
    const long long seen_first = s->seen[batch] + tile / ATTENTION{{id}}_GROUP - padding - {{window}} + 1;
    long long block = most(0, seen_first) / ATTENTION{{id}}_KEYS * ATTENTION{{id}}_KEYS;
{{/windowed}}
{{#chunked}}
    long long block = most(0, s->seen[batch] + tile / ATTENTION{{id}}_GROUP - padding) / {{window}} * {{window}} / ATTENTION{{id}}_KEYS *
                      ATTENTION{{id}}_KEYS;
{{/chunked}}
{{^limited}}
    long long block = 0;
{{/limited}}
    for (; block <= newest; block += ATTENTION{{id}}_KEYS) {
        __syncthreads();
{{#ring}}
        const unsigned first_slot = (unsigned)((padding + block) % SHAPE{{shape}}_SLOTS);
{{/ring}}
#pragma unroll 4
        for (int i = thread; i < ATTENTION{{id}}_KEYS * ATTENTION{{id}}_STEPS * 4; i += ATTENTION_THREADS) {
            const int k = i / (ATTENTION{{id}}_STEPS * 4), d = i % (ATTENTION{{id}}_STEPS * 4) * 8;
            const long long at = padding + block + k;
            words4 v = { 0, 0, 0, 0 };
{{#ring}}
            if (at >= oldest && at < end)
                v = eight_of(at < end - SHAPE{{shape}}_SLOTS
                                 ? evicted_keys + (at - oldest) * SHAPE{{shape}}_DIM
                                 : keys + (long long)((first_slot + (unsigned)k) % SHAPE{{shape}}_SLOTS) * SHAPE{{shape}}_DIM,
                             d, SHAPE{{shape}}_DIM);
{{/ring}}
{{^ring}}
            if (at < end)
                v = eight_of(keys + at * SHAPE{{shape}}_DIM, d, SHAPE{{shape}}_DIM);
{{/ring}}
            key[k * ATTENTION{{id}}_KEY + d / 2] = v.x;
            key[k * ATTENTION{{id}}_KEY + d / 2 + 1] = v.y;
            key[k * ATTENTION{{id}}_KEY + d / 2 + 2] = v.z;
            key[k * ATTENTION{{id}}_KEY + d / 2 + 3] = v.w;
        }
#pragma unroll 4
        for (int i = thread; i < ATTENTION{{id}}_KEYS * ATTENTION{{id}}_SUMS * 2; i += ATTENTION_THREADS) {
            const int k = i / (ATTENTION{{id}}_SUMS * 2), d = i % (ATTENTION{{id}}_SUMS * 2) * 8;
            const long long at = padding + block + k;
            words4 v = { 0, 0, 0, 0 };
{{#ring}}
            if (at >= oldest && at < end)
                v = eight_of(at < end - SHAPE{{shape}}_SLOTS
                                 ? evicted_values + (at - oldest) * SHAPE{{shape}}_V_DIM
                                 : values + (long long)((first_slot + (unsigned)k) % SHAPE{{shape}}_SLOTS) * SHAPE{{shape}}_V_DIM,
                             d, SHAPE{{shape}}_V_DIM);
{{/ring}}
{{^ring}}
            if (at < end)
                v = eight_of(values + at * SHAPE{{shape}}_V_DIM, d, SHAPE{{shape}}_V_DIM);
{{/ring}}
            value[k * ATTENTION{{id}}_VALUE + d / 2] = v.x;
            value[k * ATTENTION{{id}}_VALUE + d / 2 + 1] = v.y;
            value[k * ATTENTION{{id}}_VALUE + d / 2 + 2] = v.z;
            value[k * ATTENTION{{id}}_VALUE + d / 2 + 3] = v.w;
        }
        __syncthreads();

        float score[ATTENTION{{id}}_TILES][4]; /* columns of [i] are keys block + 8 * i … */
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_TILES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                score[i][j] = 0;
#pragma unroll
        for (int d = 0; d < ATTENTION{{id}}_STEPS; d++) {
{{#query_held}}
            const words4 low = held[d][0], high = held[d][1];
{{/query_held}}
{{^query_held}}
            const words4 low = eight_of(from[0], d * 32 + member * 8, SHAPE{{shape}}_DIM);
            const words4 high = eight_of(from[1], d * 32 + member * 8, SHAPE{{shape}}_DIM);
{{/query_held}}
#pragma unroll
            for (int i = 0; i < ATTENTION{{id}}_TILES; i++) {
                const int word = (i * 8 + row) * ATTENTION{{id}}_KEY + d * 16 + member * 4;
                const words4 k = { key[word], key[word + 1], key[word + 2], key[word + 3] };
                score_step(score[i], low, high, k);
            }
        }

        /* Scores become weights, as mma wants a. What no query of a row sees weighs nothing. */
        unsigned weight_of[ATTENTION{{id}}_TILES][2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int newest_key = (int)most(-1, least(pos[half] - block, ATTENTION{{id}}_KEYS));
{{#chunked}}
            const int oldest_key =
                (int)most(0, least(most(0, pos[half]) / {{window}} * {{window}} - block, ATTENTION{{id}}_KEYS));
{{/chunked}}
{{#windowed}}
            const int oldest_key = (int)most(0, least(pos[half] - {{window}} + 1 - block, ATTENTION{{id}}_KEYS));
{{/windowed}}
            float best = top[half], part = 0;
#pragma unroll
            for (int i = 0; i < ATTENTION{{id}}_TILES; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const int k = i * 8 + member * 2 + j;
                    const bool sees = k <= newest_key{{#limited}} && k >= oldest_key{{/limited}};
                    float scaled = score[i][half * 2 + j] * {{scale}};
{{#scored}}
                    scaled = attention{{id}}_score(scaled, query_head[half], pos[half] - block - k);
{{/scored}}
                    score[i][half * 2 + j] = sees ? scaled : -1e30f;
                    best = fmaxf(best, score[i][half * 2 + j]);
                }
            best = quarter_top(best);
            const float base = best > -1e29f ? best : 0; /* nothing is seen yet: weights are 0 */
            const float shrink = expf(top[half] - base);
            top[half] = best;
#pragma unroll
            for (int i = 0; i < ATTENTION{{id}}_TILES; i++) {
                const float a = expf(score[i][half * 2] - base), b = expf(score[i][half * 2 + 1] - base);
                part += a + b;
                weight_of[i][half] = kv_pair(a, b);
            }
            total[half] = total[half] * shrink + quarter_sum(part);
#pragma unroll
            for (int i = 0; i < ATTENTION{{id}}_SUMS; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    sum[i][j][half * 2] *= shrink;
                    sum[i][j][half * 2 + 1] *= shrink;
                }
        }

        /* 16 keys at a time. */
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_TILES; i += 2) {
            const unsigned a[4] = { weight_of[i][0], weight_of[i][1], weight_of[i + 1][0], weight_of[i + 1][1] };
            const int word = (i * 8 + 2 * member) * ATTENTION{{id}}_VALUE;
#pragma unroll
            for (int d = 0; d < ATTENTION{{id}}_SUMS; d++) {
                const int at = d < ATTENTION{{id}}_BLOCKS * 4
                                   ? d / 4 * 32 + row * 4 + d % 4
                                   : ATTENTION{{id}}_BLOCKS * 32 + row * ATTENTION{{id}}_REST + d - ATTENTION{{id}}_BLOCKS * 4;
                const unsigned v[4] = { value[word + at], value[word + ATTENTION{{id}}_VALUE + at],
                                        value[word + 8 * ATTENTION{{id}}_VALUE + at],
                                        value[word + 9 * ATTENTION{{id}}_VALUE + at] };
                weigh_step(sum[d][0], sum[d][1], a, v);
            }
        }
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (query[half] >= queries)
            continue;
        const int token = query[half] / ATTENTION{{id}}_GROUP, group = query[half] % ATTENTION{{id}}_GROUP;
        {{attended_ctype}} *to = attended + (batch * s->tokens + token) * {{attended_row}} +
                      (head * ATTENTION{{id}}_GROUP + group) * SHAPE{{shape}}_V_DIM;
        const float by = total[half] > 0 ? 1.0f / total[half] : 0; /* padding sees nothing: zeros */
#pragma unroll
        for (int i = 0; i < ATTENTION{{id}}_SUMS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) { /* j: of a pair, column */
                const int column = 2 * member + j / 2;
                const int d = i < ATTENTION{{id}}_BLOCKS * 4
                                  ? i / 4 * 64 + (column * 4 + i % 4) * 2 + j % 2
                                  : ATTENTION{{id}}_BLOCKS * 64 +
                                        (column * ATTENTION{{id}}_REST + i - ATTENTION{{id}}_BLOCKS * 4) * 2 + j % 2;
                if (d < SHAPE{{shape}}_V_DIM)
                    to[d] = {{attended_from}}(sum[i][j % 2][half * 2 + j / 2] * by);
            }
    }
}

