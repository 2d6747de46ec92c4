{{! forward.c - passes one after another, or a graph of one; open and close. }}
{{#begins}}
/* What comes between the embedding and the layers. */
static void begin_ops(const pass *p) {
{{#device_first_ops}}
{{> cuda/op.c}}
{{/device_first_ops}}
}

{{/begins}}
{{#closes}}
/* What comes between the layers and the head. */
static void close_ops(const pass *p) {
{{#device_last_ops}}
{{> cuda/op.c}}
{{/device_last_ops}}
}

{{/closes}}
/* The id's row, then all layers; the streams that bring what is on the host begin and end with it. */
static size_t step_bytes(const pass *p) {
    return offsetof(step, ids) + (size_t)p->rows * sizeof(int32_t);
}

static void all_layers(const pass *p) {
    {{name}}_device *d = p->d;
    sc_cuda_copy(p->cuda, p->cuda->compute, at(p, STEP_AT), d->step, step_bytes(p));
{{#offloading}}
    {{name}}_cache_fork(p->cache);
{{/offloading}}
{{#weights_offloaded}}
    SC_CUDA(p->cuda, EventRecord, d->weights_begun, p->cuda->compute);
    SC_CUDA(p->cuda, StreamWaitEvent, d->cuda->copies, d->weights_begun, 0);
{{/weights_offloaded}}
    launch(p, embed_kernel, p->rows, 1, ROW_THREADS,
           WORDS(word(at(p, STEP_AT)), word(d->block + {{embed_tokens_at}}), word(at(p, {{embed_at}})),
                 {{#embed_twin}}word(at(p, {{embed_twin_at}})), {{/embed_twin}}word(at(p, ANGLES_AT))));
{{#begins}}
    begin_ops(p);
{{/begins}}
{{#layer_calls}}
    layer{{kind}}(p, {{layer}});
{{/layer_calls}}
{{#weights_offloaded}}
    SC_CUDA(p->cuda, EventRecord, d->weights_ended, d->cuda->copies);
    SC_CUDA(p->cuda, StreamWaitEvent, p->cuda->compute, d->weights_ended, 0);
{{/weights_offloaded}}
{{#offloading}}
    {{name}}_cache_join(p->cache);
{{/offloading}}
}

{{#head_linears}}
/* Logits of the pass's rows first, first + every, …: HEAD_ROWS at most. */
static void product_head(const pass *p, int64_t first, int64_t every, int64_t rows) {
    const sc_product made = {
        .w = p->d->block + {{lm_head_at}},
        .x = at(p, {{x_at}} + (size_t)(first * {{x_row}}) * {{x_size}}),
        .y = floats_at(p, LOGITS_AT),
        .out = VOCAB,
        .in = {{lm_head_depth}},
        .depth = {{lm_head_depth}},
        .rows = rows,
        .x_stride = every * {{x_row}},
        .y_stride = VOCAB,
        .count = 1,
    };
    product(p, &made, NULL);
{{#ended}}
    launch(p, end_lm_head_kernel, rows, (VOCAB + END_COLUMNS - 1) / END_COLUMNS, ROW_THREADS,
           WORDS(word(at(p, LOGITS_AT)), word({{bias_w}}), word(at(p, LOGITS_AT)), (uint64_t)rows));
{{/ended}}
}

/* Logits of each row's last token, and the best id of each. */
static void head(const pass *p) {
{{#closes_first}}
    close_ops(p);
{{/closes_first}}
{{#decode_linears}}
    launch(p, lm_head_kernel, lm_head_GRID, 1, DECODE_THREADS,
           WORDS(word(at(p, STEP_AT)),
                 word(at(p, {{decode_x_at}} + (size_t)((p->tokens - 1) * {{decode_x_row}}) * {{decode_x_size}})),
                 (uint64_t)(p->tokens * {{decode_x_row}}), word({{norm_w}}), {{#norm_biased}}word({{norm_b}}), {{/norm_biased}}word(p->d->block + {{lm_head_at}}),
                 word({{bias_w}}), word(at(p, LOGITS_AT))));
{{/decode_linears}}
{{^decode_linears}}
    product_head(p, p->tokens - 1, p->tokens, p->batch);
{{/decode_linears}}
    launch(p, pick_kernel, p->batch, 1, PICK_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, LOGITS_AT)), word(at(p, CHOSEN_AT))));
}

{{/head_linears}}
/* ---- one token of every row: a graph that is replayed ---- */

{{#offloading}}
/* Slots that are fetched: a graph holds as long as that does. */
static bool is_current(const {{name}}_cache *cache, int64_t fetched) {
    return cache->graph_fetched == fetched &&
           !memcmp(cache->graph_before, cache->slot_layer, sizeof cache->slot_layer);
}

{{/offloading}}
static void drop_graph({{name}}_cache *cache) {
    if (cache->graph)
        cache->cuda->api.GraphExecDestroy(cache->graph);
    cache->graph = NULL;
}

void {{name}}_device_forget({{name}}_cache *cache) {
    {{name}}_device *d = cache->graph_model;
    drop_graph(cache);
    for ({{name}}_cache **link = d ? &d->captured : NULL; link && *link; link = &(*link)->next_captured)
        if (*link == cache) {
            *link = cache->next_captured;
            break;
        }
    cache->graph_model = NULL;
}

static void one_token(const pass *p) {
    all_layers(p);
    head(p);
}

/* Captures what one_token does; every row of the cache takes part, the step says which count. */
static void capture(pass *p) {
    enum { THREAD_LOCAL = 1 };
    CUgraph graph = NULL;
    {{name}}_cache *cache = p->cache;
    {{name}}_device_forget(cache);
{{#offloading}}
    cache->graph_fetched = {{name}}_cache_fetched(cache);
    memcpy(cache->graph_before, cache->slot_layer, sizeof cache->slot_layer);
{{/offloading}}
    SC_CUDA(p->cuda, StreamBeginCapture, p->cuda->compute, THREAD_LOCAL);
    one_token(p);
    SC_CUDA(p->cuda, StreamEndCapture, p->cuda->compute, &graph);
{{#offloading}}
    memcpy(cache->graph_after, cache->slot_layer, sizeof cache->slot_layer);
    {{name}}_cache_occupy(cache, cache->graph_before);
{{/offloading}}
    if (!*p->cuda->failed)
        SC_CUDA(p->cuda, GraphInstantiateWithFlags, &cache->graph, graph, 0);
    if (graph)
        p->cuda->api.GraphDestroy(graph);
    if (*p->cuda->failed) {
        drop_graph(cache);
        return;
    }
    cache->graph_model = p->d;
    cache->next_captured = p->d->captured;
    p->d->captured = cache;
}

static void replay(pass *p) {
    {{name}}_cache *cache = p->cache;
    pass all = *p;
    all.batch = all.rows = BATCH;
    const bool mine = cache->graph && cache->graph_model == p->d;
    if (!mine{{#offloading}} || !is_current(cache, {{name}}_cache_fetched(cache)){{/offloading}})
        capture(&all);
    if (!cache->graph)
        return;
    SC_CUDA(p->cuda, GraphLaunch, cache->graph, p->cuda->compute);
{{#offloading}}
    {{name}}_cache_occupy(cache, cache->graph_after);
{{/offloading}}
}

/* ---- a call ---- */

/* What the pass leaves to its caller. */
typedef struct {
    float *logits; /* NULL: none */
    int64_t stride; /* floats from one row of the batch to the next */
    bool all;
    int32_t *chosen; /* NULL: none */
} wanted;

static void pull(const pass *p, void *to, size_t to_step, size_t from, size_t bytes, size_t count) {
    sc_cuda_move_runs(p->cuda, p->cuda->compute, to, to_step, at(p, from), bytes, bytes, count);
}

/* Every position's logits, some rows at once. */
static void pull_all(const pass *p, const wanted *out) {
{{#closes}}
    close_ops(p);
{{/closes}}
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t token = 0; token < p->tokens; token += HEAD_ROWS) {
            const int64_t left = p->tokens - token, rows = left < HEAD_ROWS ? left : HEAD_ROWS;
            product_head(p, b * p->tokens + token, 1, rows);
            pull(p, out->logits + b * out->stride + token * VOCAB, 0, LOGITS_AT,
                 (size_t)(rows * VOCAB) * sizeof(float), 1);
        }
}

static int run(pass *p, const wanted *out, sc_error *err) {
    if (p->tokens == 1 && p->d->graph)
        replay(p);
    else
        all_layers(p);
    if (out->all && out->logits && p->tokens > 1)
        pull_all(p, out);
    else if (out->logits || out->chosen) {
        if (p->tokens > 1 || !p->d->graph)
            head(p);
        if (out->logits)
            pull(p, out->logits, (size_t)out->stride * sizeof(float), LOGITS_AT,
                 VOCAB * sizeof(float), (size_t)p->batch);
        if (out->chosen)
            pull(p, out->chosen, 0, CHOSEN_AT, (size_t)p->batch * sizeof(int32_t), 1);
    }
    return sc_cuda_finish(p->cuda, p->cuda->compute, err);
}

/* The pinned step of this pass: tokens done … of every row. */
static void fill_step(const pass *p, const int32_t *rows, const int32_t *tokens, int64_t stride) {
    step *s = p->d->step;
    s->batch = p->batch;
    s->tokens = p->tokens;
    for (int64_t b = 0; b < p->batch; b++) {
        s->row[b] = rows[b];
        s->seen[b] = p->cache->now.seen[0][rows[b]];
        s->padding[b] = p->cache->now.padding[rows[b]];
        memcpy(s->ids + b * p->tokens, tokens + b * stride,
               (size_t)p->tokens * sizeof *tokens);
    }
}

static int forward(pass *p, const int32_t *rows, const int32_t *tokens, int n, float *logits,
                   bool all, int32_t *chosen, sc_error *err) {
    for (int64_t done = 0; done < n; done += p->tokens) {
        p->tokens = n - done < DEVICE_BLOCK ? n - done : DEVICE_BLOCK;
        p->rows = p->batch * p->tokens;
        const bool last = done + p->tokens == n;
        const wanted out = { .logits = !logits ? NULL : all ? logits + done * VOCAB : last ? logits : NULL,
                             .stride = all ? (int64_t)n * VOCAB : VOCAB,
                             .all = all,
                             .chosen = last ? chosen : NULL };
        fill_step(p, rows, tokens + done, n);
{{#offloading}}
        p->cache->ahead = p->tokens;
{{/offloading}}
        const int rc = run(p, &out, err);
        if (rc)
            return rc;
        for (int layer = 0; layer < LAYERS; layer++)
            for (int64_t b = 0; b < p->batch; b++)
                {{name}}_cache_advance(p->cache, layer, rows[b], p->tokens);
{{#has_indexer}}
        for (int layer = 0; layer < LAYERS; layer++)
            for (int64_t b = 0; b < p->batch && {{name}}_indexer[layer].dim; b++)
                p->cache->now.indexed[layer][rows[b]] += p->tokens;
{{/has_indexer}}
{{#has_states}}
        for (int i = 0; i < STATES; i++)
            for (int64_t b = 0; b < p->batch; b++)
                p->cache->now.held[i][rows[b]] = 1;
{{/has_states}}
    }
    return SC_OK;
}

{{#weights_offloaded}}
/* Every pass begins with the first of the layers whose weights are on the host in its slot. */
static int begin_anew({{name}}_device *d, sc_error *err) {
    const pass p = { .d = d, .cuda = d->cuda };
    fetch_weights(&p, next_on_host(LAYERS - 1));
    const int rc = settle(d, err);
    d->lost = rc != SC_OK;
    return rc;
}

{{/weights_offloaded}}
int {{name}}_device_forward({{name}}_device *device, {{name}}_cache *cache, const int32_t *rows, int batch,
                            const int32_t *tokens, int n, float *logits, bool all, int32_t *chosen,
                            sc_error *err) {
    if (!device || !cache->cuda || cache->cuda->ordinal != device->cuda->ordinal)
        return sc_fail(err, SC_EUSAGE, "{{name}}: the model is on %s and the cache on %s (create it there)",
                       device ? device->cuda->name : "cpu", cache->cuda ? cache->cuda->name : "cpu");
    pass p = { .d = device, .cache = cache, .cuda = cache->cuda, .batch = batch };
    int rc = {{name}}_cache_whole(cache, err);
    if (!rc)
        rc = sc_cuda_enter(p.cuda, err);
    if (rc)
        return rc;
{{#weights_offloaded}}
    if (device->lost)
        rc = begin_anew(device, err);
{{/weights_offloaded}}
    if (!rc) {
        rc = forward(&p, rows, tokens, n, logits, all, chosen, err);
        cache->torn = rc != SC_OK;
    }
    if (rc) { /* its own streams may still be at work, and its slots hold anything */
        sc_cuda_wait(device->cuda);
{{#weights_offloaded}}
        device->lost = true;
{{/weights_offloaded}}
    }
    sc_cuda_leave(p.cuda);
    return rc;
}

/* ---- open and close ---- */

static int set_up({{name}}_device *d, const sc_weights *file, sc_error *err) {
    unsigned char *pinned = NULL;
    int rc = sc_cuda_alloc(d->cuda, &d->block, DEVICE_WEIGHTS_BYTES + DEVICE_SCRATCH_BYTES, err);
    if (!rc)
        rc = sc_cuda_alloc_host(d->cuda, &pinned, sizeof *d->step, err);
    d->step = (step *)(void *)pinned;
{{#weights_offloaded}}
    if (!rc)
        rc = sc_cuda_alloc_host(d->cuda, &d->host_weights, HOST_WEIGHTS_BYTES, err);
    CUevent *const events[] = { &d->weights_begun, &d->weights_filled[0], &d->weights_filled[1],
                                &d->weights_read[0], &d->weights_read[1], &d->weights_ended };
    for (size_t i = 0; i < sizeof events / sizeof *events && !rc; i++)
        rc = sc_cuda_event(d->cuda, events[i], err);
{{/weights_offloaded}}
    for (int i = 0; i < KERNELS && !rc; i++)
        rc = sc_cuda_function(d->cuda, &d->kernel[i], kernel_name[i], err);
    if (rc)
        return rc;
    memset(d->step, 0, sizeof *d->step);
    d->scratch = d->block + DEVICE_WEIGHTS_BYTES;
    rc = sc_products_open(&d->products, d->cuda, {{product_type}}, d->scratch + WORKSPACE_AT,
                          {{workspace_bytes}}, err);
    if (!rc)
        rc = unpack_weights(d, file, err);
{{#weights_offloaded}}
    d->lost = true; /* nothing is in the slots yet */
{{/weights_offloaded}}
    return rc;
}

int {{name}}_device_open({{name}}_device **device, const char *name, const sc_weights *file, bool graph,
                         sc_error *err) {
    {{name}}_device *d = calloc(1, sizeof *d);
    if (!d)
        return sc_fail(err, SC_EENV, "{{name}}: no memory for %zu bytes", sizeof *d);
    d->graph = graph;
    int rc = sc_cuda_open(&d->cuda, name, &{{name}}_cubins, DEVICE_WEIGHTS_BYTES + DEVICE_SCRATCH_BYTES,
                          err);
    if (!rc)
        rc = sc_cuda_enter(d->cuda, err);
    if (!rc) {
        rc = set_up(d, file, err);
        sc_cuda_leave(d->cuda);
    }
    if (rc)
        {{name}}_device_close(d);
    else
        *device = d;
    return rc;
}

void {{name}}_device_close({{name}}_device *d) {
    if (!d)
        return;
    if (d->cuda) {
        const bool inside = sc_cuda_enter_last(d->cuda);
        sc_cuda_wait(d->cuda);
        while (d->captured)
            {{name}}_device_forget(d->captured);
        sc_products_close(d->products);
{{#weights_offloaded}}
        CUevent const events[] = { d->weights_begun,   d->weights_filled[0], d->weights_filled[1],
                                   d->weights_read[0], d->weights_read[1],   d->weights_ended };
        for (size_t i = 0; i < sizeof events / sizeof *events; i++)
            sc_cuda_free_event(d->cuda, events[i]);
        sc_cuda_free_host(d->cuda, d->host_weights);
{{/weights_offloaded}}
        sc_cuda_free_host(d->cuda, (unsigned char *)d->step);
        sc_cuda_free(d->cuda, d->block);
        if (inside)
            sc_cuda_leave(d->cuda);
    }
    sc_cuda_close(d->cuda);
    free(d);
}

const char *{{name}}_device_name(const {{name}}_device *device) { return device->cuda->name; }
