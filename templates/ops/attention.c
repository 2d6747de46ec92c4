/*
 * {{layer_list}}: {{layer_type}}, {{heads}} heads on {{kv_heads}} kv_heads.
{{#windowed}}
 * Query q sees keys q - {{window}} < k <= q.
{{/windowed}}
 *
 * A task is one row of the batch, one kv_head and up to {{tokens}} tokens: {{queries}} queries that
 * share their keys. Keys come in blocks of SC_PANEL, counted from the row's first token, so a query
 * adds up in the same order whatever chunk it came in. Softmax is the running one (Milakov and
 * Gimelshein 2018).
 */
enum {
    ATTENTION{{id}}_GROUP = {{group}},
    ATTENTION{{id}}_TOKENS = {{tokens}},
    ATTENTION{{id}}_QUERIES = {{queries}}
};

/* Where the layer keeps the position, or a position that a ring drove out in this step. */
static inline const kv *attention{{id}}_row(const kv *buffer, const kv *evicted, int64_t pos,
                                            int64_t stored, int64_t first, int64_t dim) {
{{#ring}}
    if (pos < stored)
        return evicted + (pos - first) * dim;
    return buffer + pos % SHAPE{{shape}}_SLOTS * dim;
{{/ring}}
{{^ring}}
    (void)evicted, (void)stored, (void)first;
    return buffer + pos * dim;
{{/ring}}
}

static void attention{{id}}_task(const step *s, int thread, int layer, int batch, int head,
                                 int64_t first_token) {
    thread_scratch *a = s->model->scratch + thread;
    const {{name}}_cache *cache = s->cache;
    const int64_t padding = cache->padding[batch], before = s->seen, seen = before + s->tokens;
    const int64_t tokens = least(ATTENTION{{id}}_TOKENS, s->tokens - first_token);
    const int64_t queries = tokens * ATTENTION{{id}}_GROUP;
    const int64_t row = batch * SHAPE{{shape}}_KV_HEADS + head;
    const int64_t stored = most(0, seen - SHAPE{{shape}}_SLOTS);
    const int64_t evicted_first = most(0, before - SHAPE{{shape}}_SLOTS + 1);
    const kv *keys = (const kv *)(const void *)(cache->arena + {{name}}_place[layer].keys) +
                     row * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_DIM;
    const kv *values = (const kv *)(const void *)(cache->arena + {{name}}_place[layer].values) +
                       row * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_V_DIM;
    const kv *old_keys =
        cache->evicted_keys[{{shape}}] + row * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_DIM;
    const kv *old_values =
        cache->evicted_values[{{shape}}] + row * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_V_DIM;

    for (int64_t q = 0; q < queries; q++) {
        const int64_t token = first_token + q / ATTENTION{{id}}_GROUP;
        const int64_t q_head = head * ATTENTION{{id}}_GROUP + q % ATTENTION{{id}}_GROUP;
        const float *from =
            s->model->qkv + (batch * s->tokens + token) * QKV_STRIDE + q_head * SHAPE{{shape}}_DIM;
        float *to = a->query[q];
        memcpy(to, from, SHAPE{{shape}}_DIM * sizeof *to);
{{#q_norm}}
        norm_row(to, s->weights->layer[layer].q_norm, SHAPE{{shape}}_DIM, {{q_norm_eps}}, to);
{{/q_norm}}
{{#roped}}
        rotate(to, s->model->cos{{rope}} + (batch * s->tokens + token) * ROPE{{rope}}_PAIRS,
               s->model->sin{{rope}} + (batch * s->tokens + token) * ROPE{{rope}}_PAIRS,
               ROPE{{rope}}_PAIRS);
{{/roped}}
        for (int64_t d = 0; d < SHAPE{{shape}}_DIM; d++)
            to[d] *= {{scale}};
        a->top[q] = -1e30f;
        a->total[q] = 0;
        memset(a->sum[q], 0, sizeof a->sum[q]);
    }

    /* Positions that some query of the task sees, as multiples of the block from the first token.
     */
    const int64_t last = before + first_token + tokens - 1 - padding;
    int64_t from = 0;
{{#windowed}}
    from = most(0, before + first_token - {{window}} + 1 - padding) / SC_PANEL * SC_PANEL;
{{/windowed}}
    for (int64_t block = from; block <= last; block += SC_PANEL) {
        for (int64_t i = 0; i < SC_PANEL; i++) {
            const int64_t pos = padding + block + i;
            const bool there = pos < seen && pos >= evicted_first;
            load_row(a->key_row[i],
                     there ? attention{{id}}_row(keys, old_keys, pos, stored, evicted_first,
                                                 SHAPE{{shape}}_DIM)
                           : NULL,
                     SHAPE{{shape}}_DIM);
            load_row(a->value[i],
                     there ? attention{{id}}_row(values, old_values, pos, stored, evicted_first,
                                                 SHAPE{{shape}}_V_DIM)
                           : NULL,
                     SHAPE{{shape}}_V_DIM);
        }
        transpose_keys(a, SHAPE{{shape}}_DIM);
        for (int64_t q = 0; q < queries; q += SC_TILE) {
            vec score[SC_TILE][2];
            const int rows = tile_f32(score, &a->key[0][0], SC_PANEL, a->query[q], ATTENTION_DIM,
                                      SHAPE{{shape}}_DIM, queries - q);
            for (int r = 0; r < rows; r++) {
                const int64_t pos =
                    before + first_token + (q + r) / ATTENTION{{id}}_GROUP - padding;
                int64_t oldest = 0;
{{#windowed}}
                oldest = pos - {{window}} + 1;
{{/windowed}}
                softmax_block(a, q + r, score[r], oldest - block, pos - block);
            }
        }
        for (int64_t d = 0; d < SHAPE{{shape}}_V_DIM; d += SC_PANEL)
            for (int64_t q = 0; q < queries; q += SC_TILE) {
                vec part[SC_TILE][2];
                const int rows = tile_f32_onto(part, &a->value[0][d], ATTENTION_DIM, a->weight[q],
                                               SC_PANEL, SC_PANEL, queries - q, &a->sum[q][d],
                                               ATTENTION_DIM, a->shrink + q);
                for (int r = 0; r < rows; r++)
                    for (int half = 0; half < 2; half++)
                        vec_store(&a->sum[q + r][d + half * SC_LANES], part[r][half]);
            }
    }
    for (int64_t q = 0; q < queries; q++) {
        const int64_t token = first_token + q / ATTENTION{{id}}_GROUP;
        const int64_t q_head = head * ATTENTION{{id}}_GROUP + q % ATTENTION{{id}}_GROUP;
        operand *to = s->model->attended + (batch * s->tokens + token) * ATTENDED_STRIDE +
                      q_head * SHAPE{{shape}}_V_DIM;
        const float total = a->total[q];
        for (int64_t d = 0; d < SHAPE{{shape}}_V_DIM; d++)
            to[d] = {{operand_from}}(total > 0 ? a->sum[q][d] / total : 0);
    }
}

/* K and V of the step go to the cache: normed, rotated, in its dtype. */
static void keep{{id}}(const step *s, int thread, int layer) {
    for (int64_t task = thread; task < BATCH * SHAPE{{shape}}_KV_HEADS; task += s->threads) {
        const int batch = (int)(task / SHAPE{{shape}}_KV_HEADS),
                  head = (int)(task % SHAPE{{shape}}_KV_HEADS);
        kv *keys = s->model->step_keys + task * BLOCK * ATTENTION_DIM;
        kv *values = s->model->step_values + task * BLOCK * ATTENTION_DIM;
        for (int64_t token = 0; token < s->tokens; token++) {
            const float *from = s->model->qkv + (batch * s->tokens + token) * QKV_STRIDE;
            float row[SHAPE{{shape}}_DIM];
            if (s->seen + token < s->cache->padding[batch]) {
                memset(keys + token * SHAPE{{shape}}_DIM, 0, SHAPE{{shape}}_DIM * sizeof *keys);
                memset(values + token * SHAPE{{shape}}_V_DIM, 0,
                       SHAPE{{shape}}_V_DIM * sizeof *values);
                continue;
            }
            memcpy(row, from + {{k_at}} + head * SHAPE{{shape}}_DIM, sizeof row);
{{#k_norm}}
            norm_row(row, s->weights->layer[layer].k_norm, SHAPE{{shape}}_DIM, {{k_norm_eps}}, row);
{{/k_norm}}
{{#roped}}
            rotate(row, s->model->cos{{rope}} + (batch * s->tokens + token) * ROPE{{rope}}_PAIRS,
                   s->model->sin{{rope}} + (batch * s->tokens + token) * ROPE{{rope}}_PAIRS,
                   ROPE{{rope}}_PAIRS);
{{/roped}}
            store_row(keys + token * SHAPE{{shape}}_DIM, row, SHAPE{{shape}}_DIM);
            store_row(values + token * SHAPE{{shape}}_V_DIM,
                      from + {{v_at}} + head * SHAPE{{shape}}_V_DIM, SHAPE{{shape}}_V_DIM);
        }
        {{name}}_put{{shape}}(s->cache, layer, batch, head, keys, values, s->tokens);
    }
}

static void attention{{id}}(const step *s, int thread, int layer) {
    const int64_t tiles = (s->tokens + ATTENTION{{id}}_TOKENS - 1) / ATTENTION{{id}}_TOKENS;
    const int64_t tasks = BATCH * SHAPE{{shape}}_KV_HEADS * tiles;
    for (int64_t task = thread; task < tasks; task += s->threads)
        attention{{id}}_task(s, thread, layer, (int)(task / tiles / SHAPE{{shape}}_KV_HEADS),
                             (int)(task / tiles % SHAPE{{shape}}_KV_HEADS),
                             task % tiles * ATTENTION{{id}}_TOKENS);
}

