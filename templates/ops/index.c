/*
 * {{layer_list}}: an indexer of {{heads}} heads lets a query see {{top_k}} keys, those that score highest:
 * the sum over its heads of weight * max(q . k, 0). Of equals the earlier ones (DeepseekV32Indexer).
 *
 * m->index_scores holds a query's scores by slot, -INFINITY for what it must not see. A score is one
 * sum in one order, however queries and slots are shared out.
 */
enum {
    INDEX{{id}}_HEADS = {{heads}},
    INDEX{{id}}_DIM = {{dim}},
    INDEX{{id}}_TOP_K = {{top_k}},
    INDEX{{id}}_RUN = 8 * SC_PANEL, /* slots of a task */
};

static inline indexer_key *index{{id}}_keys(const step *s, int layer, int64_t batch) {
    return (indexer_key *)(void *)(s->cache->arena + {{name}}_indexer[layer].offset) +
           s->row[batch] * (int64_t)SHAPE{{shape}}_SLOTS * INDEX{{id}}_DIM;
}

/* The pass's keys, in the cache's dtype; zeros of padding. */
static void keep_index{{id}}(const step *s, int thread, int layer) {
    const {{name}}_model *m = s->model;
    for (int64_t row = first_row(s, thread); row < first_row(s, thread + 1); row++) {
        const int64_t batch = row / s->tokens, pos = s->seen[batch] + row % s->tokens;
        const float *key = {{k}};
        indexer_key *to = index{{id}}_keys(s, layer, batch) + pos * INDEX{{id}}_DIM;
        for (int64_t i = 0; i < INDEX{{id}}_DIM; i++)
            to[i] = pos < padding_of(s, batch) ? 0 : weight_of(key[i]);
    }
}

/* One run of slots for one query. */
static void score_run{{id}}(const step *s, thread_scratch *a, int layer, int64_t row, int64_t from,
                      int64_t end) {
    const {{name}}_model *m = s->model;
    const float *query = {{q}}, *head_weight = {{weights}};
    const indexer_key *keys = index{{id}}_keys(s, layer, row / s->tokens);
    for (int64_t head = 0; head < INDEX{{id}}_HEADS; head++)
        memcpy(a->query[head], query + head * INDEX{{id}}_DIM, INDEX{{id}}_DIM * sizeof *query);
    for (int64_t slot = from; slot < end; slot += SC_PANEL) {
        for (int64_t i = 0; i < SC_PANEL; i++)
            for (int64_t d = 0; d < INDEX{{id}}_DIM; d++)
                a->key_row[i][d] =
                    slot + i < end ? weight_float(keys[(slot + i) * INDEX{{id}}_DIM + d]) : 0;
        transpose_keys(a, &a->key_row[0][0], ATTENTION_DIM, INDEX{{id}}_DIM);
        vec total[2] = { { 0 }, { 0 } };
        for (int64_t head = 0; head < INDEX{{id}}_HEADS; head += SC_TILE) {
            vec score[SC_TILE][2];
            const int heads = tile_f32(score, &a->key[0][0], SC_PANEL, a->query[head], ATTENTION_DIM,
                                       INDEX{{id}}_DIM, INDEX{{id}}_HEADS - head);
            for (int h = 0; h < heads; h++)
                for (int half = 0; half < 2; half++)
                    total[half] += vec_relu(score[h][half]) * vec_set(head_weight[head + h]);
        }
        for (int half = 0; half < 2; half++)
            vec_store(m->index_scores + row * INDEX_STRIDE + slot + half * SC_LANES, total[half]);
    }
}

static void score_index{{id}}(const step *s, int thread, int layer) {
    int64_t longest = 0;
    for (int64_t b = 0; b < s->batch; b++)
        longest = most(longest, s->seen[b] + s->tokens);
    const int64_t runs = (longest + INDEX{{id}}_RUN - 1) / INDEX{{id}}_RUN;
    for (int64_t i = thread; i < s->rows * runs; i += s->threads) {
        const int64_t row = i / runs, from = i % runs * INDEX{{id}}_RUN;
        const int64_t end = s->seen[row / s->tokens] + row % s->tokens + 1;
        if (from < end)
            score_run{{id}}(s, s->model->scratch + thread, layer, row, from,
                      least(end, from + INDEX{{id}}_RUN));
    }
}

/* Numbers whose order is that of the floats. */
static inline uint32_t index{{id}}_order(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(0x80000000);
}

/* The least score that is seen is found bit by bit, by how many there are from a number on. */
static void choose_index{{id}}(const step *s, int thread) {
    for (int64_t row = first_row(s, thread); row < first_row(s, thread + 1); row++) {
        const int64_t batch = row / s->tokens, from = padding_of(s, batch);
        const int64_t count = s->seen[batch] + row % s->tokens + 1 - from;
        float *score = s->model->index_scores + row * INDEX_STRIDE + from;
        uint32_t least_seen = 0;
        int64_t equals = INDEX{{id}}_TOP_K; /* of those that score the least, how many are seen */
        if (count <= INDEX{{id}}_TOP_K)
            continue;
        for (int bit = 31; bit >= 0; bit--) {
            const uint32_t tried = least_seen | UINT32_C(1) << bit;
            int64_t above = 0;
            for (int64_t i = 0; i < count; i++)
                above += index{{id}}_order(score[i]) >= tried;
            if (above >= INDEX{{id}}_TOP_K)
                least_seen = tried;
        }
        for (int64_t i = 0; i < count; i++)
            equals -= index{{id}}_order(score[i]) > least_seen;
        for (int64_t i = 0; i < count; i++) {
            const uint32_t order = index{{id}}_order(score[i]);
            if (order < least_seen || (order == least_seen && equals-- <= 0))
                score[i] = -INFINITY;
        }
    }
}

