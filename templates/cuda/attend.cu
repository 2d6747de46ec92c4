{{! attend.cu - attention of one token per row: norms, rope, the new key and value, all in one launch. }}
/*
 * {{layer_list}}: {{layer_type}}, {{heads}} heads on {{kv_heads}} kv_heads, one new token in each row.
{{#windowed}}
 * Position q sees {{window}} keys, itself the last.
{{/windowed}}
{{#chunked}}
 * Position q sees keys k <= q of its chunk: q / {{window}} = k / {{window}}.
{{/chunked}}
{{#sinks}}
 * A sink is one score more of a head in every softmax (Xiao et al. 2023, as GptOssAttention has it).
{{/sinks}}
 *
 * Grid [ATTEND{{id}}_SPLITS, batch * ATTEND{{id}}_HEADS], block ATTEND_THREADS, shared {{attend_shared}} bytes. A
 * block takes a share of what one row's kv_head sees, a multiple of ATTEND{{id}}_SHARE keys, for the
 * {{device_group}} heads on it; blocks without a share leave. The last one puts the new key and value into
 * their slot first. Of several blocks the one that ends last adds up their parts in order.
{{^kv_floats}}
 *
 * A warp takes 16 keys at a time by mma.m16n8k16, heads being the rows of a: scores, their running
 * softmax (Milakov and Gimelshein 2018), values. A thread reads 8 dimensions of two keys at a step,
 * then 8 of four values. Sum: a warp's keys in rising order, warps in order, shares in order.
{{/kv_floats}}
{{#kv_floats}}
 *
 * A thread takes one key of ATTEND_THREADS, then some dimensions of the sum of values; softmax is
 * the running one (Milakov and Gimelshein 2018). Sum: keys in rising order, shares in order.
{{/kv_floats}}
 */
enum {
    ATTEND{{id}}_GROUP = {{device_group}},
    ATTEND{{id}}_SHARE = 64,
    ATTEND{{id}}_WARPS = ATTEND_THREADS / 32,
    ATTEND{{id}}_QUERIES = {{attend_queries}}, /* heads at once */
    ATTEND{{id}}_PARTS = BATCH * SHAPE{{shape}}_KV_HEADS * ATTEND{{id}}_SPLITS * ATTEND{{id}}_GROUP,
{{^kv_floats}}
    ATTEND{{id}}_ROWS = {{attend_rows}},   /* of a that are in use */
    ATTEND{{id}}_STEPS = {{key_steps}},  /* of 32 dimensions of a key */
    ATTEND{{id}}_QUERY = {{query_words}}, /* words from one query to the next: in other banks */
    ATTEND{{id}}_BLOCKS = {{value_blocks}}, /* of 64 dimensions of a value */
    ATTEND{{id}}_REST = {{value_rest}},   /* pairs of the other dimensions that a lane has */
    ATTEND{{id}}_SUMS = {{value_pairs}},  /* pairs of dimensions that a lane has */
    ATTEND{{id}}_SLICE = 68, /* floats from one query's 64 dimensions to the next one's */
{{/kv_floats}}
{{#kv_floats}}
    ATTEND{{id}}_DEPTH = {{key_depth}}, /* of a query in shared memory */
    ATTEND{{id}}_SUMS = (ATTEND{{id}}_QUERIES * {{sum_dim}} + ATTEND_THREADS - 1) / ATTEND_THREADS,
{{/kv_floats}}
};

{{> cuda/shares.cu}}
{{#kv_floats}}
{{> cuda/attend_fma.cu}}
{{/kv_floats}}
{{^kv_floats}}
{{> cuda/attend_mma.cu}}
{{/kv_floats}}
extern "C" __global__ void __launch_bounds__(ATTEND_THREADS, 2)
    attend{{id}}_kernel(const step *s, const float *q, const float *k, const float *v, const float *q_norm,
                   const float *k_norm, const float *angles, kv *keys, kv *values, float *partial, unsigned *arrived,
                   {{attended_ctype}} *attended{{#sinks}}, const float *sinks{{/sinks}}) {
    SHARED(float, head_row, ATTEND{{id}}_WARPS * SHAPE{{shape}}_DIM);
    attend{{id}}_share t;
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    t.split = (int)blockIdx.x;
    t.batch = (int)blockIdx.y / SHAPE{{shape}}_KV_HEADS;
    t.head = (int)blockIdx.y % SHAPE{{shape}}_KV_HEADS;
    if (t.batch >= s->batch)
        return;
    const long long pos = s->seen[t.batch], padding = s->padding[t.batch];
{{#windowed}}
    const long long first = most(padding, pos - {{window}} + 1);
{{/windowed}}
{{#chunked}}
    const long long first = padding + most(0, pos - padding) / {{window}} * {{window}};
{{/chunked}}
{{^limited}}
    const long long first = padding;
{{/limited}}
    const int seen = (int)most(0, pos - first + 1);
    const int share = ((seen + ATTEND{{id}}_SPLITS - 1) / ATTEND{{id}}_SPLITS + ATTEND{{id}}_SHARE - 1) /
                      ATTEND{{id}}_SHARE * ATTEND{{id}}_SHARE;
    t.used = seen ? (seen + share - 1) / share : 1;
    if (t.split >= t.used)
        return;
    t.begin = t.split * share;
    t.end = (int)least(seen, t.begin + share);
{{#sinks}}
    t.sinks = sinks + t.head * ATTEND{{id}}_GROUP;
{{/sinks}}
{{#scored}}
    t.newest = seen - 1;
{{/scored}}
{{#ring}}
    t.slot = (int)(first % SHAPE{{shape}}_SLOTS);
{{/ring}}
{{^ring}}
    t.slot = (int)first;
{{/ring}}
    t.sums = partial + (long long)blockIdx.y * ATTEND{{id}}_SPLITS * ATTEND{{id}}_GROUP * SHAPE{{shape}}_V_DIM;
    t.tops = partial + (long long)ATTEND{{id}}_PARTS * SHAPE{{shape}}_V_DIM +
             (long long)blockIdx.y * ATTEND{{id}}_SPLITS * ATTEND{{id}}_GROUP * 2;
    t.attended = attended + t.batch * (long long){{attended_row}} + t.head * ATTEND{{id}}_GROUP * SHAPE{{shape}}_V_DIM;
    const long long at = (s->row[t.batch] * SHAPE{{shape}}_KV_HEADS + t.head) * SHAPE{{shape}}_SLOTS;
    keys += at * SHAPE{{shape}}_DIM;
    values += at * SHAPE{{shape}}_V_DIM;
    q += t.batch * (long long){{q_row}} + t.head * ATTEND{{id}}_GROUP * SHAPE{{shape}}_DIM;
{{#keeps}}
    k += t.batch * (long long){{k_row}} + t.head * SHAPE{{shape}}_DIM;
    v += t.batch * (long long){{v_row}} + t.head * SHAPE{{shape}}_V_DIM;
{{/keeps}}
{{^keeps}}
    (void)k; /* they are in the cache: another layer's */
    (void)v;
    (void)k_norm;
{{/keeps}}
{{^q_norm}}
    (void)q_norm;
{{/q_norm}}
{{#keeps}}
{{^k_norm}}
    (void)k_norm;
{{/k_norm}}
{{/keeps}}
{{#roped}}
    const float *cosine = angles + ROPE{{rope}}_COS + t.batch * ROPE{{rope}}_PAIRS;
    const float *sine = angles + ROPE{{rope}}_SIN + t.batch * ROPE{{rope}}_PAIRS;
{{/roped}}
{{^roped}}
    (void)angles;
{{/roped}}

{{#keeps}}
    /* The new key and value; a padding token's are zero. */
    if (t.split == t.used - 1 && warp < 2) {
{{#ring}}
        const long long slot = pos % SHAPE{{shape}}_SLOTS;
{{/ring}}
{{^ring}}
        const long long slot = pos;
{{/ring}}
        if (warp == 0) {
            load_head(head_row, 0, k, SHAPE{{shape}}_DIM, {{#k_norm}}k_norm, {{norm_eps}}{{/k_norm}}{{^k_norm}}0, 0{{/k_norm}},
                      {{#roped}}cosine, sine, ROPE{{rope}}_PAIRS{{/roped}}{{^roped}}0, 0, 0{{/roped}});
            for (int i = lane; i < SHAPE{{shape}}_DIM; i += 32)
                keys[slot * SHAPE{{shape}}_DIM + i] = seen ? kv_of(head_row[i]) : (kv)0;
        } else
            for (int i = lane; i < SHAPE{{shape}}_V_DIM; i += 32)
                values[slot * SHAPE{{shape}}_V_DIM + i] =
                    seen ? kv_of(v[i]) : (kv)0;
    }
{{/keeps}}
    if (!seen) {
        for (int i = thread; i < ATTEND{{id}}_GROUP * SHAPE{{shape}}_V_DIM; i += ATTEND_THREADS)
            t.attended[i] = 0;
        return;
    }
    for (int base = 0; base < ATTEND{{id}}_GROUP; base += ATTEND{{id}}_QUERIES) {
{{#kv_floats}}
        SHARED(float, query, ATTEND{{id}}_QUERIES * ATTEND{{id}}_DEPTH);
{{/kv_floats}}
{{^kv_floats}}
        SHARED(unsigned, query, ATTEND{{id}}_ROWS * ATTEND{{id}}_QUERY);
{{/kv_floats}}
        const int queries = (int)least(ATTEND{{id}}_QUERIES, ATTEND{{id}}_GROUP - base);
        __syncthreads();
        /* From the last warp down: the first ones have the new key and value to write. */
        for (int n = ATTEND{{id}}_WARPS - 1 - warp; n < {{attend_rows}}; n += ATTEND{{id}}_WARPS) {
            const int row = warp * SHAPE{{shape}}_DIM;
            if (n < queries)
                load_head(head_row, row, q + (base + n) * SHAPE{{shape}}_DIM, SHAPE{{shape}}_DIM,
                          {{#q_norm}}q_norm, {{norm_eps}}{{/q_norm}}{{^q_norm}}0, 0{{/q_norm}}, {{#roped}}cosine, sine, ROPE{{rope}}_PAIRS{{/roped}}{{^roped}}0, 0, 0{{/roped}});
{{#kv_floats}}
            for (int i = lane; i < ATTEND{{id}}_DEPTH; i += 32)
                query[n * ATTEND{{id}}_DEPTH + i] = n < queries && i < SHAPE{{shape}}_DIM ? head_row[row + i] * {{scale}} : 0;
{{/kv_floats}}
{{^kv_floats}}
            for (int i = lane; i < ATTEND{{id}}_QUERY; i += 32) {
                const float low = n < queries && 2 * i < SHAPE{{shape}}_DIM ? (float)head_row[row + 2 * i] : 0;
                const float high =
                    n < queries && 2 * i + 1 < SHAPE{{shape}}_DIM ? (float)head_row[row + 2 * i + 1] : 0;
                query[n * ATTEND{{id}}_QUERY + i] = kv_pair(low, high);
            }
{{/kv_floats}}
        }
        __syncthreads();
        attend{{id}}_queries(&t, keys, values, query, base, queries);
    }
    attend{{id}}_join(&t, arrived + blockIdx.y);
}

