{{! latent.cu - latent attention, of one token as of a pass: q has been taken to what is cached. }}
/*
 * {{layer_list}}: {{layer_type}}, {{heads}} heads on one cached row: {{head_dim}} elements that are a key and, summed
 * up, the value of all heads, and {{v_head_dim}} more that are key alone (DeepSeek-V2, 2405.04434).
{{#indexed}}
 * A token sees the keys that the indexer has chosen for it.
{{/indexed}}
 *
 * Grid [rows of the pass * LATENT{{id}}_TILES, shares], block ATTEND_THREADS, shared {{attend_shared}} bytes. A block takes
 * a share of what one token sees, a multiple of ATTEND{{id}}_SHARE keys, for ATTEND{{id}}_GROUP of its heads; blocks
 * without a share leave. Of several blocks the one that ends last adds up their parts in order.
{{^kv_floats}}
 * Heads are the rows of a of mma.m16n8k16. Sum: keys in rising order, 16 at a time.
{{/kv_floats}}
{{#kv_floats}}
 * A thread takes one key of ATTEND_THREADS, then some dimensions of the sum. Sum: keys in rising order.
{{/kv_floats}}
 * Softmax is the running one (Milakov and Gimelshein 2018).
 */
enum {
    ATTEND{{id}}_GROUP = {{attend_queries}}, /* heads of a block */
    ATTEND{{id}}_QUERIES = ATTEND{{id}}_GROUP,
    ATTEND{{id}}_SHARE = 64,
    ATTEND{{id}}_WARPS = ATTEND_THREADS / 32,
    ATTEND{{id}}_PARTS = BATCH * LATENT{{id}}_TILES * ATTEND{{id}}_SPLITS * ATTEND{{id}}_GROUP,
    LATENT{{id}}_Q = SHAPE{{shape}}_DIM + SHAPE{{shape}}_V_DIM, /* elements of a query */
{{^kv_floats}}
    LATENT{{id}}_KEY_STEPS = {{key_steps}}, /* of 32 dimensions of a key, then of what is key alone */
    LATENT{{id}}_STEPS = {{latent_steps}},
    LATENT{{id}}_QUERY = {{query_words}}, /* words from one query to the next: in other banks */
    LATENT{{id}}_WEIGHTS = 36, /* words from one query's 64 weights to the next one's */
    LATENT{{id}}_SUMS = {{value_pairs}}, /* pairs of dimensions that a lane has */
    LATENT{{id}}_OWN = 16 * LATENT{{id}}_SUMS, /* dimensions of a warp */
    LATENT{{id}}_BLOCKS = {{value_blocks}}, /* of 64 of them */
    LATENT{{id}}_REST = {{value_rest}},   /* pairs of the others that a lane has */
{{/kv_floats}}
{{#kv_floats}}
    ATTEND{{id}}_DEPTH = {{query_depth}}, /* of a query in shared memory */
    ATTEND{{id}}_SUMS = (ATTEND{{id}}_QUERIES * {{sum_dim}} + ATTEND_THREADS - 1) / ATTEND_THREADS,
{{/kv_floats}}
};

{{> cuda/shares.cu}}
{{#kv_floats}}
{{> cuda/attend_fma.cu}}
{{/kv_floats}}
{{^kv_floats}}
{{> cuda/latent_mma.cu}}
{{/kv_floats}}
extern "C" __global__ void __launch_bounds__(ATTEND_THREADS, 2)
    latent{{id}}_kernel(const step *s, const kv *q, {{#indexed}}const int *chosen, {{/indexed}}const kv *keys, const kv *values,
                   float *partial, unsigned *arrived, {{attended_ctype}} *attended) {
{{#kv_floats}}
    SHARED(float, query, ATTEND{{id}}_QUERIES * ATTEND{{id}}_DEPTH);
{{/kv_floats}}
{{^kv_floats}}
    SHARED(unsigned, query, 16 * LATENT{{id}}_QUERY);
{{/kv_floats}}
    attend{{id}}_share t;
    const int thread = (int)threadIdx.x;
    const long long row = blockIdx.x / LATENT{{id}}_TILES;
    t.batch = (int)(row / s->tokens);
    t.head = (int)(blockIdx.x % LATENT{{id}}_TILES) * ATTEND{{id}}_GROUP;
    t.split = (int)blockIdx.y;
    if (t.batch >= s->batch)
        return;
    const long long pos = s->seen[t.batch] + row % s->tokens, padding = s->padding[t.batch];
    const int seen = (int){{#indexed}}least({{top_k}}, most(0, pos - padding + 1)){{/indexed}}{{^indexed}}most(0, pos - padding + 1){{/indexed}}, shares = (int)gridDim.y;
    const int share = ((seen + shares - 1) / shares + ATTEND{{id}}_SHARE - 1) / ATTEND{{id}}_SHARE * ATTEND{{id}}_SHARE;
    t.used = seen ? (seen + share - 1) / share : 1;
    if (t.split >= t.used)
        return;
    t.begin = t.split * share;
    t.end = (int)least(seen, t.begin + share);
    t.slot = (int)padding;
    t.heads = (int)least(ATTEND{{id}}_GROUP, {{heads}} - t.head);
{{#indexed}}
    t.chosen = chosen + row * INDEX_CHOSEN;
{{/indexed}}
    t.sums = partial + (long long)blockIdx.x * ATTEND{{id}}_SPLITS * ATTEND{{id}}_GROUP * {{sum_dim}};
    t.tops = partial + (long long)ATTEND{{id}}_PARTS * {{sum_dim}} +
             (long long)blockIdx.x * ATTEND{{id}}_SPLITS * ATTEND{{id}}_GROUP * 2;
    t.attended = attended + row * {{attended_row}} + t.head * {{sum_dim}};
    keys += s->row[t.batch] * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_DIM;
    values += s->row[t.batch] * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_V_DIM;
    q += (row * {{heads}} + t.head) * LATENT{{id}}_Q;
    if (!seen) { /* padding */
        for (int i = thread; i < t.heads * {{sum_dim}}; i += ATTEND_THREADS)
            t.attended[i] = 0;
        return;
    }
{{#kv_floats}}
    for (int i = thread; i < ATTEND{{id}}_QUERIES * ATTEND{{id}}_DEPTH; i += ATTEND_THREADS) {
        const int n = i / ATTEND{{id}}_DEPTH, at = i % ATTEND{{id}}_DEPTH;
        const int d = at < {{key_depth}} ? at : at - {{key_depth}} + SHAPE{{shape}}_DIM;
        const bool there = n < t.heads && (at < {{key_depth}} ? d < SHAPE{{shape}}_DIM : d < LATENT{{id}}_Q);
        query[i] = there ? q[n * LATENT{{id}}_Q + d] * {{scale}} : 0;
    }
    __syncthreads();
    attend{{id}}_queries(&t, keys, values, query, 0, t.heads);
{{/kv_floats}}
{{^kv_floats}}
    for (int i = thread; i < 16 * LATENT{{id}}_QUERY; i += ATTEND_THREADS) {
        const int n = i / LATENT{{id}}_QUERY, at = i % LATENT{{id}}_QUERY * 2;
        const int turned = at - LATENT{{id}}_KEY_STEPS * 32; /* below 0: of a key */
        const int end = turned < 0 ? (int)SHAPE{{shape}}_DIM : (int)LATENT{{id}}_Q;
        const int d = turned < 0 ? at : turned + SHAPE{{shape}}_DIM;
        const kv *from = q + n * LATENT{{id}}_Q + d;
        const kv low = n < t.heads && d < end ? from[0] : 0, high = n < t.heads && d + 1 < end ? from[1] : 0;
        query[i] = low | (unsigned)high << 16;
    }
    __syncthreads();
    attend{{id}}_queries(&t, keys, values, query);
{{/kv_floats}}
    attend{{id}}_join(&t, arrived + blockIdx.x);
}

