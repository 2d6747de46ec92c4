/*
 * {{layer_list}}: {{layer_type}}, {{heads}} heads on {{kv_heads}} kv_heads.
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
 * A task is one row of the batch, {{group}} heads of one kv_head and up to {{tokens}} tokens: {{queries}} queries that
 * share their keys. Keys come in blocks of SC_PANEL, counted from the row's first token, so a query
 * adds up in the same order whatever chunk it came in. Softmax is the running one (Milakov and
 * Gimelshein 2018).
 */
enum {
    ATTENTION{{id}}_GROUP = {{group}},
    ATTENTION{{id}}_SPLITS = {{groups}}, /* tasks that share a kv_head */
    ATTENTION{{id}}_SCORE = SHAPE{{shape}}_DIM{{#latent}} + SHAPE{{shape}}_V_DIM{{/latent}},
    ATTENTION{{id}}_SUM = SHAPE{{shape}}_{{#expanded}}V_{{/expanded}}DIM,
    ATTENTION{{id}}_TASKS = SHAPE{{shape}}_KV_HEADS * ATTENTION{{id}}_SPLITS,
    ATTENTION{{id}}_TOKENS = {{tokens}},
{{#limited}}
    ATTENTION{{id}}_WINDOW = {{window}},
{{/limited}}
};

static const float attention{{id}}_scale = {{scale}}; /* of q.k */
{{#alibi}}

/* Of each head: a key weighs that much less for every position that it lies back (Press 2021). */
static const float attention{{id}}_slope[{{heads}}] = {
    {{slopes}}
};
{{/alibi}}

/* One task: the tokens first … first + tokens - 1 of a step, and where their keys are. */
typedef struct {
    const {{name}}_layer_weights *weights;
    int batch, head; /* batch: of the pass; head: of the tasks */
    int64_t first, tokens;
{{#indexed}}
    const float *chosen; /* the first token's scores by slot: -INFINITY is not seen */
{{/indexed}}
    int64_t padding; /* of the row */
    int64_t begin;   /* tokens in the cache before this step */
    int64_t seen;    /* this step's included */
    int64_t oldest;  /* the first position that is still kept somewhere */
    const kv *keys, *values, *evicted_keys, *evicted_values;
} attention{{id}}_task;

static attention{{id}}_task attention{{id}}_begin(const step *s, int layer, const {{name}}_layer_weights *w,
                                    int64_t index, int64_t tiles) {
    const {{name}}_cache *c = s->cache;
    attention{{id}}_task t = { .weights = w };
    t.batch = (int)(index / tiles / ATTENTION{{id}}_TASKS);
    t.head = (int)(index / tiles % ATTENTION{{id}}_TASKS);
    const int64_t row =
        s->row[t.batch] * (int64_t)SHAPE{{shape}}_KV_HEADS + t.head / ATTENTION{{id}}_SPLITS;
    t.first = index % tiles * ATTENTION{{id}}_TOKENS;
    t.tokens = least(ATTENTION{{id}}_TOKENS, s->tokens - t.first);
    t.padding = padding_of(s, t.batch);
{{#indexed}}
    t.chosen = s->model->index_scores + (t.batch * s->tokens + t.first) * INDEX_STRIDE;
{{/indexed}}
    t.begin = s->seen[t.batch];
    t.seen = t.begin + s->tokens;
    t.oldest = most(0, t.begin - SHAPE{{shape}}_LENGTH + 1);
    t.keys = keys_of(c, layer) + row * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_KEY;
    t.values = values_of(c, layer) + row * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_VALUE;
    t.evicted_keys = c->evicted_keys[{{shape}}] + row * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_KEY;
    t.evicted_values = c->evicted_values[{{shape}}] + row * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_VALUE;
    return t;
}

/* Where a position's row is: in its slot, or among those that the ring drove out in this step. */
static inline const kv *attention{{id}}_row(const attention{{id}}_task *t, const kv *slots, const kv *evicted,
                                    int64_t pos, int64_t units) {
    if (pos < t->oldest || pos >= t->seen)
        return NULL;
{{#ring}}
    if (pos < t->seen - SHAPE{{shape}}_SLOTS)
        return evicted + (pos - t->oldest) * units;
    return slots + pos % SHAPE{{shape}}_SLOTS * units;
{{/ring}}
{{^ring}}
    (void)evicted; /* a full layer drives nothing out */
    return slots + pos * units;
{{/ring}}
}
{{#limited}}

/* The first key that a query sees. */
static inline int64_t attention{{id}}_first(int64_t query) {
{{#chunked}}
    return query < 0 ? 0 : query / ATTENTION{{id}}_WINDOW * ATTENTION{{id}}_WINDOW;
{{/chunked}}
{{#windowed}}
    return most(0, query - ATTENTION{{id}}_WINDOW + 1);
{{/windowed}}
}
{{/limited}}

/* The task's queries: {{#q_norm}}normed, {{/q_norm}}{{#roped}}rotated, {{/roped}}scaled; their softmax begins {{#sinks}}with the sink{{/sinks}}{{^sinks}}empty{{/sinks}}. */
static void attention{{id}}_queries(const step *s, const attention{{id}}_task *t, thread_scratch *a) {
    for (int64_t q = 0; q < t->tokens * ATTENTION{{id}}_GROUP; q++) {
        const int64_t row = t->batch * s->tokens + t->first + q / ATTENTION{{id}}_GROUP;
        const int64_t head = t->head * ATTENTION{{id}}_GROUP + q % ATTENTION{{id}}_GROUP;
        float *to = a->query[q];
        memcpy(to, {{q_from}} + head * SHAPE{{shape}}_DIM, SHAPE{{shape}}_DIM * sizeof *to);
{{#latent}}
        memcpy(to + SHAPE{{shape}}_DIM, {{q_rope_from}} + head * SHAPE{{shape}}_V_DIM,
               SHAPE{{shape}}_V_DIM * sizeof *to);
{{/latent}}
{{#q_norm}}
        norm_row(to, t->weights->{{q_norm_field}}, SHAPE{{shape}}_DIM, {{norm_eps}}, to);
{{/q_norm}}
{{#roped}}
        rotate(to, s->model->cos{{rope}} + row * ROPE{{rope}}_PAIRS, s->model->sin{{rope}} + row * ROPE{{rope}}_PAIRS,
               ROPE{{rope}}_PAIRS);
{{/roped}}
        for (int64_t d = 0; d < ATTENTION{{id}}_SCORE; d++)
            to[d] *= attention{{id}}_scale;
{{#sinks}}
        a->top[q] = t->weights->sinks[head];
        a->total[q] = 1;
{{/sinks}}
{{^sinks}}
        a->top[q] = -1e30f;
        a->total[q] = 0;
{{/sinks}}
        memset(a->sum[q], 0, sizeof a->sum[q]);
    }
}

{{#latent}}
/* Makes the block's rows ready, those of positions pos … on: a key is the latent and the turned part
 * behind it (transposed, a->key), a value the latent of the same row. Returns the values [SC_PANEL,
 * *stride]. */
static const float *attention{{id}}_load(const attention{{id}}_task *t, thread_scratch *a, int64_t pos,
                                    int64_t *stride) {
    for (int64_t i = 0; i < SC_PANEL; i++) {
        load_row(a->key_row[i],
                 attention{{id}}_row(t, t->keys, t->evicted_keys, pos + i, SHAPE{{shape}}_KEY),
                 SHAPE{{shape}}_DIM);
        load_row(a->key_row[i] + SHAPE{{shape}}_DIM,
                 attention{{id}}_row(t, t->values, t->evicted_values, pos + i, SHAPE{{shape}}_VALUE),
                 SHAPE{{shape}}_V_DIM);
    }
    transpose_keys(a, &a->key_row[0][0], ATTENTION_DIM, ATTENTION{{id}}_SCORE);
    *stride = ATTENTION_DIM;
    return &a->key_row[0][0];
}

{{/latent}}
{{#expanded}}
/*
 * Makes the block's keys (transposed, a->key) and values ready, those of positions pos … on.
 * Returns the values [SC_PANEL, *stride]. Where the cache has all of them side by side,
{{#kv_floats}}
 * as floats and in whole panels, they are read in place;
{{/kv_floats}}
{{^kv_floats}}
 * one run is converted;
{{/kv_floats}}
 * else they are gathered row by row, zeros for what is not there.
 */
static const float *attention{{id}}_load(const attention{{id}}_task *t, thread_scratch *a, int64_t pos,
                                    int64_t *stride) {
{{#ring}}
    const int64_t slot = pos % SHAPE{{shape}}_SLOTS, kept = most(0, t->seen - SHAPE{{shape}}_SLOTS);
    const bool run = pos >= kept && pos + SC_PANEL <= t->seen && slot + SC_PANEL <= SHAPE{{shape}}_SLOTS;
{{/ring}}
{{^ring}}
    const int64_t slot = pos;
    const bool run = pos + SC_PANEL <= t->seen;
{{/ring}}
    *stride = ATTENTION_DIM;
    if (run) {
        const kv *keys = t->keys + slot * SHAPE{{shape}}_KEY, *values = t->values + slot * SHAPE{{shape}}_VALUE;
{{#kv_floats}}
        if (SHAPE{{shape}}_DIM % SC_PANEL == 0 && SHAPE{{shape}}_V_DIM % SC_PANEL == 0) {
            transpose_keys(a, keys, SHAPE{{shape}}_DIM, SHAPE{{shape}}_DIM);
            *stride = SHAPE{{shape}}_V_DIM;
            return values;
        }
{{/kv_floats}}
        for (int64_t i = 0; i < SC_PANEL; i++) {
            load_row(a->key_row[i], keys + i * SHAPE{{shape}}_KEY, SHAPE{{shape}}_DIM);
            load_row(a->value[i], values + i * SHAPE{{shape}}_VALUE, SHAPE{{shape}}_V_DIM);
        }
    } else
        for (int64_t i = 0; i < SC_PANEL; i++) {
            load_row(a->key_row[i],
                     attention{{id}}_row(t, t->keys, t->evicted_keys, pos + i, SHAPE{{shape}}_KEY),
                     SHAPE{{shape}}_DIM);
            load_row(a->value[i],
                     attention{{id}}_row(t, t->values, t->evicted_values, pos + i, SHAPE{{shape}}_VALUE),
                     SHAPE{{shape}}_V_DIM);
        }
    transpose_keys(a, &a->key_row[0][0], ATTENTION_DIM, SHAPE{{shape}}_DIM);
    return &a->value[0][0];
}

{{/expanded}}
/* Folds the keys from position padding + block on, SC_PANEL of them, into every query. */
static void attention{{id}}_block(const attention{{id}}_task *t, thread_scratch *a, int64_t block) {
    const int64_t queries = t->tokens * ATTENTION{{id}}_GROUP;
    int64_t stride;
    const float *values = attention{{id}}_load(t, a, t->padding + block, &stride);
    for (int64_t q = 0; q < queries; q += SC_TILE) {
        vec score[SC_TILE][2];
        const int rows = tile_f32(score, &a->key[0][0], SC_PANEL, a->query[q], ATTENTION_DIM,
                                  ATTENTION{{id}}_SCORE, queries - q);
        for (int r = 0; r < rows; r++) {
            /* Counted from the block's first key. */
            const int64_t token = t->first + (q + r) / ATTENTION{{id}}_GROUP;
            const int64_t pos = t->begin + token - t->padding - block;
{{#softcapped}}
            for (int half = 0; half < 2; half++)
                score[r][half] = vec_softcap(score[r][half], vec_set({{softcap}}));
{{/softcapped}}
{{#alibi}}
            const float slope =
                attention{{id}}_slope[t->head * ATTENTION{{id}}_GROUP + (q + r) % ATTENTION{{id}}_GROUP];
            float bias[SC_PANEL];
            for (int64_t i = 0; i < SC_PANEL; i++)
                bias[i] = slope * (float)(i - pos);
            score[r][0] += vec_load(bias);
            score[r][1] += vec_load(bias + SC_LANES);
{{/alibi}}
{{#indexed}}
            const float *chosen = t->chosen + (q + r) / ATTENTION{{id}}_GROUP * INDEX_STRIDE +
                                  t->padding + block;
            float seen[SC_PANEL];
            vec_store(seen, score[r][0]);
            vec_store(seen + SC_LANES, score[r][1]);
            for (int64_t i = 0; i < SC_PANEL; i++)
                seen[i] = chosen[i] > -INFINITY ? seen[i] : -1e30f;
            score[r][0] = vec_load(seen);
            score[r][1] = vec_load(seen + SC_LANES);
{{/indexed}}
{{#limited}}
            softmax_block(a, q + r, score[r], attention{{id}}_first(pos + block) - block, pos);
{{/limited}}
{{^limited}}
            softmax_block(a, q + r, score[r], 0, pos);
{{/limited}}
        }
    }
    for (int64_t d = 0; d < ATTENTION{{id}}_SUM; d += SC_PANEL)
        for (int64_t q = 0; q < queries; q += SC_TILE)
            weigh_values(a, values + d, stride, q, d, queries - q);
}

static void attention{{id}}_end(const step *s, const attention{{id}}_task *t, const thread_scratch *a) {
    for (int64_t q = 0; q < t->tokens * ATTENTION{{id}}_GROUP; q++) {
        const int64_t row = t->batch * s->tokens + t->first + q / ATTENTION{{id}}_GROUP;
        const int64_t head = t->head * ATTENTION{{id}}_GROUP + q % ATTENTION{{id}}_GROUP;
        {{out_ctype}} *to = s->model->{{out}} + row * {{out_stride}} + head * ATTENTION{{id}}_SUM;
        for (int64_t d = 0; d < ATTENTION{{id}}_SUM; d++) /* padding sees nothing: zeros */
            to[d] = {{out_from}}(a->total[q] > 0 ? a->sum[q][d] / a->total[q] : 0);
    }
}

{{#indexed}}
/* Whether some query of the task sees a key of the block: most are read by none. */
static bool attention{{id}}_any(const attention{{id}}_task *t, int64_t block) {
    for (int64_t token = 0; token < t->tokens; token++)
        for (int64_t i = 0; i < SC_PANEL; i++)
            if (t->chosen[token * INDEX_STRIDE + t->padding + block + i] > -INFINITY)
                return true;
    return false;
}

{{/indexed}}
/* On the keys and values of that layer of the cache. */
static void attention{{id}}(const step *s, int thread, int layer, const {{name}}_layer_weights *w) {
    thread_scratch *a = s->model->scratch + thread;
    const int64_t tiles = (s->tokens + ATTENTION{{id}}_TOKENS - 1) / ATTENTION{{id}}_TOKENS;
    for (int64_t i = thread; i < s->batch * ATTENTION{{id}}_TASKS * tiles; i += s->threads) {
        const attention{{id}}_task t = attention{{id}}_begin(s, layer, w, i, tiles);
        /* Blocks that some query of the task sees. */
        const int64_t first = t.begin + t.first - t.padding, last = first + t.tokens - 1;
        int64_t block = 0;
{{#limited}}
        block = attention{{id}}_first(first) / SC_PANEL * SC_PANEL;
{{/limited}}
        attention{{id}}_queries(s, &t, a);
        for (; block <= last; block += SC_PANEL)
{{#indexed}}
            if (attention{{id}}_any(&t, block))
{{/indexed}}
            attention{{id}}_block(&t, a, block);
        attention{{id}}_end(s, &t, a);
    }
}

{{#keeps}}
/* K and V of the step go to the cache: {{#k_norm}}normed, {{/k_norm}}{{#roped}}rotated, {{/roped}}in its dtype. */
static void keep{{id}}(const step *s, int thread, int layer) {
    for (int64_t task = thread; task < s->batch * SHAPE{{shape}}_KV_HEADS; task += s->threads) {
        const int batch = (int)(task / SHAPE{{shape}}_KV_HEADS), head = (int)(task % SHAPE{{shape}}_KV_HEADS);
        kv_value *keys = s->model->step_keys + task * BLOCK * ATTENTION_DIM;
        kv_value *values = s->model->step_values + task * BLOCK * ATTENTION_DIM;
        for (int64_t token = 0; token < s->tokens; token++) {
            const int64_t row = batch * s->tokens + token;
            kv_value *key_to = keys + token * SHAPE{{shape}}_DIM, *value_to = values + token * SHAPE{{shape}}_V_DIM;
            if (s->seen[batch] + token < padding_of(s, batch)) {
                memset(key_to, 0, SHAPE{{shape}}_DIM * sizeof *keys);
                memset(value_to, 0, SHAPE{{shape}}_V_DIM * sizeof *values);
                continue;
            }
            float key[SHAPE{{shape}}_DIM];
            memcpy(key, {{k_from}} + head * SHAPE{{shape}}_DIM, sizeof key);
{{#k_norm}}
            norm_row(key, s->weights->layer[layer].{{k_norm_field}}, SHAPE{{shape}}_DIM, {{norm_eps}}, key);
{{/k_norm}}
{{#roped}}
            rotate(key, s->model->cos{{rope}} + row * ROPE{{rope}}_PAIRS, s->model->sin{{rope}} + row * ROPE{{rope}}_PAIRS,
                   ROPE{{rope}}_PAIRS);
{{/roped}}
            kv_store(key_to, key, SHAPE{{shape}}_DIM);
            kv_store(value_to, {{v_from}} + head * SHAPE{{shape}}_V_DIM, SHAPE{{shape}}_V_DIM);
        }
        {{name}}_put{{shape}}(s->cache, layer, s->row[batch], head, keys, values, s->tokens);
    }
}

{{/keeps}}
