/* The group's heads over the block's share, 64 keys at a time: a warp makes the scores of 16 of them,
 * then its own dimensions of the sums of all. */
static __device__ __forceinline__ void attend{{id}}_queries(const attend{{id}}_share *t, const kv *keys,
                                                   const kv *values, SHARED_OF(unsigned) query) {
    SHARED(unsigned, weight_of, 16 * LATENT{{id}}_WEIGHTS);
    SHARED(float, tops, ATTEND{{id}}_WARPS * 16);
    SHARED(float, totals, ATTEND{{id}}_WARPS * 16);
    const int thread = (int)threadIdx.x, warp = thread / 32, row = thread % 32 / 4;
    const int member = thread % 4, own = warp * LATENT{{id}}_OWN, last = t->end - 1;
    float sum[LATENT{{id}}_SUMS][2][4], top[2] = { -1e30f, -1e30f }, total[2] = { 0, 0 };
#pragma unroll
    for (int i = 0; i < LATENT{{id}}_SUMS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][0][j] = sum[i][1][j] = 0;

    for (int first = t->begin; first < t->end; first += 64) {
        /* Keys behind the last are the last once more, and weigh nothing. */
        const int key = first + warp * 16;
        const long long low = attend{{id}}_slot(t, (int)least(key + row, last));
        const long long high = attend{{id}}_slot(t, (int)least(key + 8 + row, last));

        /* Columns of score[0] are keys key … key + 7, of score[1] the next 8. */
        float score[2][4] = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 } };
#pragma unroll 4
        for (int i = 0; i < LATENT{{id}}_STEPS; i++) {
            const bool turned = i >= LATENT{{id}}_KEY_STEPS;
            const kv *from = turned ? values : keys;
            const int dim = turned ? SHAPE{{shape}}_V_DIM : SHAPE{{shape}}_DIM;
            const int d = (turned ? i - LATENT{{id}}_KEY_STEPS : i) * 32 + member * 8;
            const int word = row * LATENT{{id}}_QUERY + i * 16 + member * 4, next = word + 8 * LATENT{{id}}_QUERY;
            const words4 a = { query[word], query[word + 1], query[word + 2], query[word + 3] };
            const words4 b = { query[next], query[next + 1], query[next + 2], query[next + 3] };
            score_step(score[0], a, b, eight_of(from + low * dim, d, dim));
            score_step(score[1], a, b, eight_of(from + high * dim, d, dim));
        }

        float w[2][4];
#pragma unroll
        for (int half = 0; half < 2; half++) { /* rows row and row + 8 */
            float best = -1e30f;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = key + i / 2 * 8 + 2 * member + i % 2;
                w[half][i] = at < t->end ? score[i / 2][half * 2 + i % 2] * {{scale}} : -1e30f;
                best = fmaxf(best, w[half][i]);
            }
            best = quarter_top(best);
            if (member == 0)
                tops[warp * 16 + row + half * 8] = best;
        }
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float best = top[half];
            for (int i = 0; i < ATTEND{{id}}_WARPS; i++)
                best = fmaxf(best, tops[i * 16 + row + half * 8]);
            const float shrink = expf(top[half] - best);
            top[half] = best;
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[half][i] = expf(w[half][i] - best);
            total[half] = total[half] * shrink +
                          quarter_sum(w[half][0] + w[half][1] + w[half][2] + w[half][3]);
            const int word = (row + half * 8) * LATENT{{id}}_WEIGHTS + warp * 8 + member;
            weight_of[word] = kv_pair(w[half][0], w[half][1]);
            weight_of[word + 4] = kv_pair(w[half][2], w[half][3]);
#pragma unroll
            for (int i = 0; i < LATENT{{id}}_SUMS; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    sum[i][j][half * 2] *= shrink;
                    sum[i][j][half * 2 + 1] *= shrink;
                }
        }
        __syncthreads();

        for (int at = first; at < t->end && at < first + 64; at += 16) {
            const int word = row * LATENT{{id}}_WEIGHTS + (at - first) / 2 + member;
            const int next = word + 8 * LATENT{{id}}_WEIGHTS;
            const unsigned a[4] = { weight_of[word], weight_of[next], weight_of[word + 4],
                                    weight_of[next + 4] };
            const kv *value[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                value[i] = keys + (long long)attend{{id}}_slot(t, (int)least(at + 2 * member + i / 2 * 8 + i % 2, last)) *
                                      SHAPE{{shape}}_DIM;
            weigh_values(sum, LATENT{{id}}_BLOCKS, LATENT{{id}}_REST, a, value, own, SHAPE{{shape}}_DIM);
        }
    }

    if (member == 0)
        for (int half = 0; half < 2; half++)
            totals[warp * 16 + row + half * 8] = total[half];
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int q = row + half * 8;
        float all = 0;
        for (int i = 0; i < ATTEND{{id}}_WARPS; i++)
            all += totals[i * 16 + q];
        if (q >= t->heads)
            continue;
#pragma unroll
        for (int i = 0; i < LATENT{{id}}_SUMS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) { /* of a pair, column: those of d, 2 * member on */
                const int block = i / 4, pairs = block < LATENT{{id}}_BLOCKS ? 4 : LATENT{{id}}_REST;
                const int d = own + block * 64 + ((2 * member + j / 2) * pairs + i % 4) * 2 + j % 2;
                if (d < SHAPE{{shape}}_DIM)
                    attend{{id}}_put(t, q, d, sum[i][j % 2][half * 2 + j / 2], all);
            }
        if (t->used > 1 && warp == 0 && member == 0)
            attend{{id}}_put_top(t, q, top[half], all);
    }
}

