{{! pass.c - one pass over the layers as launches on the cache's streams. }}
/* Of one call: the cache's device is the model's, its streams take the launches. */
typedef struct {
    {{name}}_device *d;
    {{name}}_cache *cache;
    sc_cuda *cuda;
    int64_t batch, tokens, rows; /* rows: batch * tokens */
} pass;

static unsigned char *at(const pass *p, size_t offset) { return p->d->scratch + offset; }

static float *floats_at(const pass *p, size_t offset) { return (float *)(void *)at(p, offset); }

static void launch(const pass *p, int kernel, int64_t grid_x, int64_t grid_y, unsigned block,
                   const uint64_t *words, size_t count) {
    sc_cuda_launch(p->cuda, p->cuda->compute, p->d->kernel[kernel], (unsigned)grid_x,
                   (unsigned)grid_y, block, words, count);
}

/* The product; then the bias (NULL: none). */
static void product(const pass *p, const sc_product *product, const unsigned char *bias) {
    sc_products_run(p->d->products, p->cuda, product);
    if (bias)
        launch(p, bias_kernel, product->rows, 1, ROW_THREADS,
               WORDS(word(product->y), (uint64_t)product->y_stride, word(bias), (uint64_t)product->out,
                     (uint64_t)product->rows));
}

{{#offloading}}
static const int write_back[CACHE_SHAPES] = {
{{#shapes}}
    write_back{{id}}_kernel,
{{/shapes}}
};
static const int write_back_heads[CACHE_SHAPES] = {
{{#shapes}}
    SHAPE{{id}}_KV_HEADS,
{{/shapes}}
};

{{/offloading}}
{{#indexes}}
/* {{layer_list}}: the pass's keys go to the cache, then each query's best are listed, some queries at once. */
static void index{{id}}(const pass *p, int layer) {
    const unsigned char *keys = p->cache->arena + {{name}}_indexer[layer].offset;
    launch(p, index_keep{{id}}_kernel, p->rows, 1, ROW_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{k_at}})), word(keys)));
    for (int64_t row = 0; row < p->rows; row += INDEX_ROWS) {
        const int64_t left = p->rows - row, rows = left < INDEX_ROWS ? left : INDEX_ROWS;
        launch(p, index_score{{id}}_kernel, (SHAPE{{shape}}_SLOTS + INDEX_THREADS - 1) / INDEX_THREADS, rows, INDEX_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, {{q_at}})), word(at(p, {{weights_at}})), word(keys),
                     word(at(p, INDEX_SCORES_AT)), (uint64_t)row));
        launch(p, index_choose{{id}}_kernel, rows, 1, ROW_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, INDEX_SCORES_AT)), word(at(p, INDEX_CHOSEN_AT)), (uint64_t)row));
    }
}

{{/indexes}}
{{#attentions}}
{{#latent}}
/* {{layer_list}}: the pass's rows go to the cache, then its queries look at all. */
static void latent_attention{{id}}(const pass *p, kv *keys, kv *values) {
    launch(p, keep{{id}}_kernel, p->rows, KEEP{{id}}_GRID, ROW_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{q_at}})), word(at(p, {{q_rope_at}})), word(at(p, {{k_at}})),
                 word(at(p, {{v_at}})), 0, 0, word(at(p, ANGLES_AT)), word(keys), word(values), 0, 0,
                 word(at(p, QUERY_AT))));
    launch(p, latent{{id}}_kernel, p->rows * LATENT{{id}}_TILES, p->tokens == 1 ? ATTEND{{id}}_SPLITS : 1, ATTEND_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, QUERY_AT)), {{#indexed}}word(at(p, INDEX_CHOSEN_AT)), {{/indexed}}word(keys), word(values),
                 word(at(p, PARTIAL_AT)), word(at(p, ARRIVED_AT)), word(at(p, {{attended}}_AT))));
}

{{/latent}}
{{#expanded}}
/* {{layer_list}}: the pass's keys and values go to the cache, then its queries look at all. */
static void prefill_attention{{id}}(const pass *p, const unsigned char *q_norm, const unsigned char *k_norm,
                               {{#sinks}}const unsigned char *sinks, {{/sinks}}kv *keys, kv *values) {
    kv *evicted_keys = p->cache->evicted_keys[{{shape}}], *evicted_values = p->cache->evicted_values[{{shape}}];
    launch(p, keep{{id}}_kernel, p->rows, KEEP{{id}}_GRID, ROW_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{q_at}})),
                 {{#keeps}}word(at(p, {{k_at}})), word(at(p, {{v_at}})){{/keeps}}{{^keeps}}0, 0{{/keeps}}, word(q_norm),
                 word(k_norm), word(at(p, ANGLES_AT)), word(keys), word(values), word(evicted_keys),
                 word(evicted_values), word(at(p, QUERY_AT))));
    launch(p, attention{{id}}_kernel, (p->tokens * ATTENTION{{id}}_GROUP + ATTENTION{{id}}_QUERIES - 1) / ATTENTION{{id}}_QUERIES,
           p->batch * ATTEND{{id}}_HEADS, ATTENTION_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, QUERY_AT)), word(keys), word(values),
                 word(evicted_keys), word(evicted_values), word(at(p, {{attended}}_AT)){{#sinks}}, word(sinks){{/sinks}}));
}

{{/expanded}}
{{/attentions}}
{{#offloading}}
/* What the pass gave an offloaded layer goes home, on the copy stream. */
static void give_back(const pass *p, int layer) {
    if (!{{name}}_cache_used(p->cache, layer))
        return;
    const int shape = {{name}}_place[layer].shape;
    sc_cuda_launch(p->cuda, p->cuda->copies, p->d->kernel[write_back[shape]],
                   (unsigned)(p->batch * write_back_heads[shape]), 1, ROW_THREADS,
                   WORDS(word(at(p, STEP_AT)), word(keys_of(p->cache, layer)),
                         word(values_of(p->cache, layer)), word(home_keys(p->cache, layer)),
                         word(home_values(p->cache, layer))));
    {{name}}_cache_end(p->cache, layer);
}

{{/offloading}}

{{#weights_offloaded}}
/* ---- weights that live on the host: two slots take turns ---- */

static void fetch_weights(const pass *p, int layer) {
    {{name}}_device *d = p->d;
    const int slot = runs[layer].slot;
    sc_cuda_copy(p->cuda, d->cuda->copies, d->block + weight_slot[slot],
                 d->host_weights + runs[layer].offset, runs[layer].bytes);
    SC_CUDA(p->cuda, EventRecord, d->weights_filled[slot], d->cuda->copies);
}

/* The next layer whose weights are on the host, round and round. */
static int next_on_host(int layer) {
    do
        layer = (layer + 1) % LAYERS;
    while (runs[layer].slot < 0);
    return layer;
}

/* The layer's weights; while it computes, the next ones are on their way. Those of the pass's first
 * such layer were brought by the pass before. */
static const unsigned char *begin_weights(const pass *p, int layer) {
    {{name}}_device *d = p->d;
    const int slot = runs[layer].slot;
    if (slot < 0)
        return d->block + runs[layer].offset;
    const int next = next_on_host(layer);
    if (runs[next].slot != slot)
        fetch_weights(p, next);
    if (layer != next_on_host(LAYERS - 1))
        SC_CUDA(p->cuda, StreamWaitEvent, p->cuda->compute, d->weights_filled[slot], 0);
    return d->block + weight_slot[slot];
}

/* The slot may be filled anew once the layer is computed. */
static void end_weights(const pass *p, int layer) {
    {{name}}_device *d = p->d;
    const int slot = runs[layer].slot, next = slot < 0 ? -1 : next_on_host(layer);
    if (slot < 0)
        return;
    SC_CUDA(p->cuda, EventRecord, d->weights_read[slot], p->cuda->compute);
    SC_CUDA(p->cuda, StreamWaitEvent, d->cuda->copies, d->weights_read[slot], 0);
    if (next != layer && runs[next].slot == slot)
        fetch_weights(p, next);
}

{{/weights_offloaded}}
{{^weights_offloaded}}
static const unsigned char *begin_weights(const pass *p, int layer) {
    return p->d->block + runs[layer].offset;
}

{{/weights_offloaded}}
{{#device_linears}}
/* {{what}}: in a pass of one token by a kernel of its own, else by a product. */
static void {{fn}}(const pass *p{{#normed}}, const unsigned char *norm{{/normed}}{{#norm_biased}}, const unsigned char *norm_bias{{/norm_biased}}, const unsigned char *w,
       {{fn_pad}}      const unsigned char *bias) {
{{#decode_linears}}
    if (p->tokens == 1) {
        launch(p, {{fn}}_kernel, {{fn}}_GRID, {{blocks}}, DECODE_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, {{decode_x_at}})), {{decode_x_row}},
                     {{#normed}}word(norm){{/normed}}{{^normed}}0{{/normed}}, {{#norm_biased}}word(norm_bias), {{/norm_biased}}word(w), word(bias), word(at(p, {{y_at}})){{#twin}}, word(at(p, {{twin_at}})){{/twin}}));
        return;
    }
{{/decode_linears}}
{{#normed}}
    launch(p, {{norm_fn}}_kernel, p->rows, 1, ROW_THREADS, WORDS(word(p->d->scratch), word(norm){{#norm_biased}}, word(norm_bias){{/norm_biased}}));
{{/normed}}
    const sc_product made = {
        .w = w,
        .x = at(p, {{x_at}}),
        .y = floats_at(p, {{#ended}}SUMS_AT{{/ended}}{{^ended}}{{y_at}}{{/ended}}),
        .out = {{fn}}_OUT,
        .in = {{#several}}{{in}}{{/several}}{{^several}}{{fn}}_DEPTH{{/several}},
        .depth = {{fn}}_DEPTH,
        .rows = p->rows,
        .x_stride = {{x_row}},
        .y_stride = {{#ended}}SUMS_STRIDE{{/ended}}{{^ended}}{{y_row}}{{/ended}},
        .count = {{blocks}},
{{#several}}
        .x_step = {{block_x}},
        .y_step = {{block_y}},
{{/several}}
{{^ended}}
        .add = {{adds}},
{{/ended}}
    };
{{#ended}}
    product(p, &made, NULL);
    launch(p, end_{{fn}}_kernel, p->rows, ({{outs}} + END_COLUMNS - 1) / END_COLUMNS, ROW_THREADS,
           WORDS(word(at(p, SUMS_AT)), word(bias), word(at(p, {{y_at}})), {{#twin}}word(at(p, {{twin_at}})), {{/twin}}(uint64_t)p->rows));
{{/ended}}
{{^ended}}
    product(p, &made, bias);
{{/ended}}
}

{{/device_linears}}
{{#mixture_kernels}}
/* {{experts}} experts, {{top_k}} for each row. In a pass of one token a choice's weights are read by themselves, else
 * those of an expert once for all rows that chose it. */
static void {{mixture}}(const pass *p, const unsigned char *gate_up, const unsigned char *gate_up_bias,
                     const unsigned char *down, const unsigned char *down_bias) {
{{#decode_linears}}
    if (p->tokens == 1) {
        const int64_t choices = p->batch * {{mixture}}_CHOSEN;
        launch(p, {{mixture}}_up_kernel, {{mixture}}_up_GRID, choices, DECODE_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, {{x_at}})), {{x_row}}, 0, word(gate_up), word(gate_up_bias),
                     word(at(p, EXPERT_FFN_AT)), word(at(p, {{route_at}}))));
        launch(p, {{mixture}}_down_kernel, {{mixture}}_down_GRID, choices, DECODE_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, EXPERT_FFN_AT)), EXPERT_DEPTH, 0, word(down), word(down_bias),
                     word(at(p, EXPERT_Y_AT)), word(at(p, {{route_at}}))));
    } else
{{/decode_linears}}
    {
        launch(p, {{mixture}}_sort_kernel, {{mixture}}_EXPERTS, 1, ROW_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, {{route_at}})), word(at(p, EXPERT_RANGES_AT)),
                     word(at(p, EXPERT_ORDER_AT))));
        launch(p, {{mixture}}_up_all_kernel, {{mixture}}_up_TILES_GRID, {{mixture}}_EXPERTS, EXPERT_THREADS,
               WORDS(word(at(p, EXPERT_RANGES_AT)), word(at(p, EXPERT_ORDER_AT)),
                     word(at(p, {{x_at}})), word(gate_up), word(gate_up_bias), word(at(p, {{route_at}})),
                     word(at(p, EXPERT_FFN_AT))));
        launch(p, {{mixture}}_down_all_kernel, {{mixture}}_down_TILES_GRID, {{mixture}}_EXPERTS, EXPERT_THREADS,
               WORDS(word(at(p, EXPERT_RANGES_AT)), word(at(p, EXPERT_ORDER_AT)),
                     word(at(p, EXPERT_FFN_AT)), word(down), word(down_bias), word(at(p, {{route_at}})),
                     word(at(p, EXPERT_Y_AT))));
    }
    launch(p, {{mixture}}_add_kernel, p->rows, 1, ROW_THREADS,
           WORDS(word(at(p, STEP_AT)), word(at(p, {{route_at}})), word(at(p, EXPERT_Y_AT)),
                 word(at(p, {{y_at}})){{#twin}}, word(at(p, {{twin_at}})){{/twin}}));
}

{{/mixture_kernels}}
{{#kinds}}
/* {{layer_list}}. */
static void layer{{id}}(const pass *p, int layer) {
    const unsigned char *w = begin_weights(p, layer);
{{#device_ops}}
{{> cuda/op.c}}
{{#index}}
    index{{index_id}}(p, layer);
{{/index}}
{{#attention}}
{{#offloading}}
    {{name}}_cache_begin(p->cache, {{source}});
{{/offloading}}
    kv *keys = keys_of(p->cache, {{source}}), *values = values_of(p->cache, {{source}});
{{#latent}}
    latent_attention{{attention_id}}(p, keys, values);
{{/latent}}
{{#expanded}}
    if (p->tokens == 1)
        launch(p, attend{{attention_id}}_kernel, ATTEND{{attention_id}}_SPLITS, p->batch * ATTEND{{attention_id}}_HEADS, ATTEND_THREADS,
               WORDS(word(at(p, STEP_AT)), word(at(p, {{q_at}})),
                     {{#keeps}}word(at(p, {{k_at}})), word(at(p, {{v_at}})){{/keeps}}{{^keeps}}0, 0{{/keeps}},
                     word({{q_norm_w}}), word({{k_norm_w}}), word(at(p, ANGLES_AT)), word(keys), word(values),
                     word(at(p, PARTIAL_AT)), word(at(p, ARRIVED_AT)), word(at(p, {{attended}}_AT)){{#sinks}}, word({{sinks_w}}){{/sinks}}));
    else
        prefill_attention{{attention_id}}(p, {{q_norm_w}}, {{k_norm_w}}, {{#sinks}}{{sinks_w}}, {{/sinks}}keys, values);
{{/expanded}}
{{#keeps}}
{{#offloading}}
    give_back(p, layer);
{{/offloading}}
{{/keeps}}
{{^keeps}}
{{#offloading}}
    if ({{name}}_cache_used(p->cache, {{source}})) /* nothing new is in it */
        {{name}}_cache_end(p->cache, {{source}});
{{/offloading}}
{{/keeps}}
{{/attention}}
{{/device_ops}}
{{#weights_offloaded}}
    end_weights(p, layer);
{{/weights_offloaded}}
}

{{/kinds}}
