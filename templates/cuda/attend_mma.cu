/* Heads base … base + queries - 1 over the block's share. */
static __device__ __forceinline__ void attend{{id}}_queries(const attend{{id}}_share *t, const kv *keys,
                                                   const kv *values, SHARED_OF(unsigned) query,
                                                   int base, int queries) {
    SHARED(float, tops, ATTEND{{id}}_WARPS * 16);
    SHARED(float, totals, ATTEND{{id}}_WARPS * 16);
    SHARED(float, slice, ATTEND{{id}}_WARPS * ATTEND{{id}}_ROWS * ATTEND{{id}}_SLICE);
    const int thread = (int)threadIdx.x, warp = thread / 32, row = thread % 32 / 4;
    const int member = thread % 4;
    float sum[ATTEND{{id}}_SUMS][2][4], top[2] = { -1e30f, -1e30f }, total[2] = { 0, 0 };
#pragma unroll
    for (int i = 0; i < ATTEND{{id}}_SUMS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][0][j] = sum[i][1][j] = 0;
{{#sinks}}
    if (t->split == 0 && warp == 0) /* of one share, of its first warp */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            top[half] = t->sinks[least(base + row + half * 8, ATTEND{{id}}_GROUP - 1)];
            total[half] = 1;
        }
{{/sinks}}
{{#scored}}
    const int head[2] = { /* of rows row and row + 8; none that is not there */
        t->head * ATTEND{{id}}_GROUP + (int)least(base + row, ATTEND{{id}}_GROUP - 1),
        t->head * ATTEND{{id}}_GROUP + (int)least(base + row + 8, ATTEND{{id}}_GROUP - 1)
    };
{{/scored}}

    for (int key = t->begin + warp * 16; key < t->end; key += ATTEND{{id}}_WARPS * 16) {
        /* Keys behind the last are the last once more, and weigh nothing. */
        const int last = t->end - 1;
        const kv *low_key =
            keys + (long long)attend{{id}}_slot(t, (int)least(key + row, last)) * SHAPE{{shape}}_DIM;
        const kv *high_key =
            keys + (long long)attend{{id}}_slot(t, (int)least(key + 8 + row, last)) * SHAPE{{shape}}_DIM;
        const kv *value[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = values + (long long)attend{{id}}_slot(t, (int)least(key + 2 * member + i / 2 * 8 + i % 2, last)) *
                                    SHAPE{{shape}}_V_DIM;

        /* Columns of score[0] are keys key … key + 7, of score[1] the next 8. */
        float score[2][4] = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 } };
#pragma unroll 4
        for (int i = 0; i < ATTEND{{id}}_STEPS; i++) {
            const words4 k[2] = { eight_of(low_key, i * 32 + member * 8, SHAPE{{shape}}_DIM),
                                  eight_of(high_key, i * 32 + member * 8, SHAPE{{shape}}_DIM) };
            const int word = row * ATTEND{{id}}_QUERY + i * 16 + member * 4;
            const words4 low = { query[word], query[word + 1], query[word + 2], query[word + 3] };
{{#attend_wide}}
            const int next = word + 8 * ATTEND{{id}}_QUERY;
            const words4 high = { query[next], query[next + 1], query[next + 2], query[next + 3] };
{{/attend_wide}}
{{^attend_wide}}
            const words4 high = { 0, 0, 0, 0 };
{{/attend_wide}}
            score_step(score[0], low, high, k[0]);
            score_step(score[1], low, high, k[1]);
        }

        unsigned weight_of[4]; /* as mma wants a */
#pragma unroll
        for (int half = 0; half < {{attend_halves}}; half++) { /* rows row and row + 8 */
            float w[4], best = top[half];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = key + i / 2 * 8 + 2 * member + i % 2;
                w[i] = score[i / 2][half * 2 + i % 2] * {{scale}};
{{#scored}}
                w[i] = attention{{id}}_score(w[i], head[half], t->newest - at);
{{/scored}}
                w[i] = at < t->end ? w[i] : -1e30f;
                best = fmaxf(best, w[i]);
            }
            best = quarter_top(best);
            const float shrink = expf(top[half] - best);
            top[half] = best;
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[i] = expf(w[i] - best);
            total[half] = total[half] * shrink + quarter_sum(w[0] + w[1] + w[2] + w[3]);
            weight_of[half] = kv_pair(w[0], w[1]);
            weight_of[half + 2] = kv_pair(w[2], w[3]);
#pragma unroll
            for (int i = 0; i < ATTEND{{id}}_SUMS; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    sum[i][j][half * 2] *= shrink;
                    sum[i][j][half * 2 + 1] *= shrink;
                }
        }
{{^attend_wide}}
        weight_of[1] = weight_of[3] = 0;
{{/attend_wide}}

        weigh_values(sum, ATTEND{{id}}_BLOCKS, ATTEND{{id}}_REST, weight_of, value, 0, SHAPE{{shape}}_V_DIM);
    }

    /* All warps on the scale of the highest score. */
    if (member == 0) {
        tops[warp * 16 + row] = top[0];
        tops[warp * 16 + row + 8] = top[1];
    }
    __syncthreads();
    float shrink[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float best = -1e30f;
        for (int i = 0; i < ATTEND{{id}}_WARPS; i++)
            best = fmaxf(best, tops[i * 16 + row + half * 8]);
        shrink[half] = expf(top[half] - best);
        if (member == 0)
            totals[warp * 16 + row + half * 8] = total[half] * shrink[half];
    }

    /* 64 dimensions at a time, the rest last: a lane has pairs of two columns of d, 2 * member on. */
#pragma unroll
    for (int block = 0; block < ATTEND{{id}}_BLOCKS{{#has_rest}} + 1{{/has_rest}}; block++) {
        const int pairs = block < ATTEND{{id}}_BLOCKS ? 4 : ATTEND{{id}}_REST;
        if (block)
            __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) { /* j: of a pair, column, half */
                const int q = row + j / 4 * 8, d = ((2 * member + j / 2 % 2) * pairs + i) * 2 + j % 2;
                if (i < pairs && q < ATTEND{{id}}_ROWS)
                    slice[(warp * ATTEND{{id}}_ROWS + q) * ATTEND{{id}}_SLICE + d] =
                        sum[block * 4 + i][j % 2][j / 4 * 2 + j / 2 % 2] * shrink[j / 4];
            }
        __syncthreads();
        for (int item = thread; item < queries * pairs * 16; item += ATTEND_THREADS) {
            const int q = item / (pairs * 16), d = item % (pairs * 16);
            float all = 0, weights = 0;
            for (int i = 0; i < ATTEND{{id}}_WARPS; i++) {
                all += slice[(i * ATTEND{{id}}_ROWS + q) * ATTEND{{id}}_SLICE + d];
                weights += totals[i * 16 + q];
            }
            if (block * 64 + d < SHAPE{{shape}}_V_DIM)
                attend{{id}}_put(t, base + q, block * 64 + d, all, weights);
        }
    }
    if (t->used > 1 && thread < queries) {
        float best = -1e30f, weights = 0;
        for (int i = 0; i < ATTEND{{id}}_WARPS; i++) {
            best = fmaxf(best, tops[i * 16 + thread]);
            weights += totals[i * 16 + thread];
        }
        attend{{id}}_put_top(t, base + thread, best, weights);
    }
}

