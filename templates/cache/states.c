{{! states.c - what a layer keeps besides keys and values: convolutions, recurrent states, indexer keys. }}
{{#has_indexer}}
const indexer_place {{name}}_indexer[LAYERS] = {
{{#places}}
    { {{indexer_offset}}, {{index_head_dim}} },
{{/places}}
};

static int check_indexer(int layer, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (rc || {{name}}_indexer[layer].dim)
        return rc;
    return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d has no indexer keys", layer);
}

{{/has_indexer}}
{{#has_states}}
const state_place {{name}}_state[STATES] = {
{{#states}}
    { {{layer}}, {{index}}, {{recurrent}}, {{offset}}, {{size}}, {{channels}}, {{columns}} }, /* {{what}} */
{{/states}}
};

/* Convolutions go back no further than they have columns, and those are gone. */
static int check_states_crop(const {{name}}_cache *cache, int layer, sc_error *err) {
    for (int i = 0; i < STATES; i++)
        for (int row = 0; row < BATCH && {{name}}_state[i].layer == layer; row++)
            if (cache->now.held[i][row])
                return sc_fail(err, SC_EFULL,
                               "{{name}}: cache: layer %d: cannot go back: its states are of the "
                               "last token only",
                               layer);
    return SC_OK;
}

/* The layer's conv_state or recurrent_state of that index. */
static int find_state(int *state, int layer, int index, int recurrent, sc_error *err) {
    const int rc = check_layer(layer, err);
    if (rc)
        return rc;
    for (int i = 0; i < STATES; i++)
        if ({{name}}_state[i].layer == layer && {{name}}_state[i].index == index &&
            {{name}}_state[i].recurrent == recurrent) {
            *state = i;
            return SC_OK;
        }
    sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d has no %s %d", layer,
            recurrent ? "recurrent_state" : "conv_state", index);
    return SC_EUSAGE; /* said so that the compiler sees *state used only where it is set */
}

/* One channel: what it had, then what is new. The last columns stay; the last shown are shown. */
static void shift(unsigned char *kept, const unsigned char *fresh, unsigned char *shown,
                  size_t columns, size_t tokens, size_t width) {
    if (shown && width <= tokens)
        memcpy(shown, fresh + (tokens - width), width);
    else if (shown) {
        memcpy(shown, kept + (columns + tokens - width), width - tokens);
        memcpy(shown + (width - tokens), fresh, tokens);
    }
    if (tokens >= columns)
        memcpy(kept, fresh + (tokens - columns), columns);
    else {
        memmove(kept, kept + tokens, columns - tokens);
        memcpy(kept + (columns - tokens), fresh, tokens);
    }
}

{{> cache/device_states.c}}
/* LinearAttentionLayer.update_conv_state: the first update is padded with zeros on its left, the
 * later ones show the old columns before the new. */
static int64_t shown_columns(const {{name}}_cache *cache, int i, int row, int tokens) {
    const int64_t columns = {{name}}_state[i].columns;
    return cache->now.held[i][row] ? columns + tokens : most(columns, tokens);
}

static void update_conv_row({{name}}_cache *cache, int i, int row, const unsigned char *inputs,
                            int tokens, unsigned char *visible) {
    const size_t size = {{name}}_state[i].size, fresh = (size_t)tokens * size;
    const size_t kept = (size_t){{name}}_state[i].columns * size;
    const size_t shown = (size_t)shown_columns(cache, i, row, tokens) * size;
{{#cuda}}
    if (cache->cuda) {
        shift_on_device(cache, i, row, inputs, fresh, visible, shown);
        cache->now.held[i][row] = 1;
        return;
    }
{{/cuda}}
    for (size_t channel = 0; channel < (size_t){{name}}_state[i].channels; channel++)
        shift(state_row(cache, i, row) + channel * kept, inputs + channel * fresh,
              visible ? visible + channel * shown : NULL, kept, fresh, shown);
    cache->now.held[i][row] = 1;
}

/* Rows from … to - 1; inputs and visible begin with those of row from. */
static int update_conv_rows({{name}}_cache *cache, int layer, int index, int from, int to,
                            const unsigned char *inputs, int tokens, unsigned char *visible,
                            int64_t *columns, sc_error *err) {
    int i;
    const int rc = find_state(&i, layer, index, 0, err);
    if (rc)
        return rc;
{{#cuda}}
    if ({{name}}_cache_whole(cache, err))
        return SC_ESTATE;
{{/cuda}}
    if (tokens < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d: an update of %d tokens", layer,
                       tokens);
    const int64_t shown = shown_columns(cache, i, from, tokens);
    for (int row = from + 1; row < to; row++)
        if (shown_columns(cache, i, row, tokens) != shown)
            return sc_fail(
                err, SC_ESTATE,
                "{{name}}: cache: layer %d: rows 0 and %d show other lengths (update row by row)",
                layer, row);
    for (int row = from; row < to; row++) {
        const size_t at = (size_t)((row - from) * {{name}}_state[i].channels) * {{name}}_state[i].size;
        update_conv_row(cache, i, row, inputs + at * (size_t)tokens, tokens,
                        visible ? visible + at * (size_t)shown : NULL);
    }
    if (columns)
        *columns = shown;
    return {{changed}};
}

API int {{name}}_cache_update_conv({{name}}_cache *cache, int layer, int index, const void *inputs,
                                 int tokens, void *visible, int64_t *columns, sc_error *err) {
    return update_conv_rows(cache, layer, index, 0, BATCH, inputs, tokens, visible, columns, err);
}

API int {{name}}_cache_update_conv_row({{name}}_cache *cache, int layer, int index, int row,
                                     const void *inputs, int tokens, void *visible,
                                     int64_t *columns, sc_error *err) {
    const int rc = check_row(row, err);
    return rc ? rc
              : update_conv_rows(cache, layer, index, row, row + 1, inputs, tokens, visible,
                                 columns, err);
}

/* Rows from … to - 1; state begins with that of row from. */
static int update_recurrent_rows({{name}}_cache *cache, int layer, int index, int from, int to,
                                 const void *state, sc_error *err) {
    int i;
    const int rc = find_state(&i, layer, index, 1, err);
    if (rc)
        return rc;
{{#cuda}}
    if ({{name}}_cache_whole(cache, err))
        return SC_ESTATE;
{{/cuda}}
    {{copy}}state_row(cache, i, from), state, (size_t)(to - from) * state_bytes(i));
    for (int row = from; row < to; row++)
        cache->now.held[i][row] = 1;
    return {{changed}};
}

API int {{name}}_cache_update_recurrent({{name}}_cache *cache, int layer, int index, const void *state,
                                      sc_error *err) {
    return update_recurrent_rows(cache, layer, index, 0, BATCH, state, err);
}

API int {{name}}_cache_update_recurrent_row({{name}}_cache *cache, int layer, int index, int row,
                                          const void *state, sc_error *err) {
    const int rc = check_row(row, err);
    return rc ? rc : update_recurrent_rows(cache, layer, index, row, row + 1, state, err);
}

/* [BATCH] rows of the layer's state of that index. */
static int read_state(const {{name}}_cache *cache, int layer, int index, int recurrent, void *state,
                      sc_error *err) {
    int i;
    const int rc = find_state(&i, layer, index, recurrent, err);
    if (rc)
        return rc;
    {{copy}}state, state_row(cache, i, 0), BATCH * state_bytes(i));
    return {{settled}};
}

API int {{name}}_cache_read_conv(const {{name}}_cache *cache, int layer, int index, void *state,
                               sc_error *err) {
    return read_state(cache, layer, index, 0, state, err);
}

API int {{name}}_cache_read_recurrent(const {{name}}_cache *cache, int layer, int index, void *state,
                                    sc_error *err) {
    return read_state(cache, layer, index, 1, state, err);
}

{{/has_states}}
{{#has_indexer}}
/* StaticIndexedLayer.update_indexer: keys [rows, tokens, dim] of rows from … to - 1. */
static int update_indexer_rows({{name}}_cache *cache, int layer, int from, int to, const void *keys,
                               int tokens, sc_error *err) {
    const int rc = check_indexer(layer, err);
    if (rc)
        return rc;
{{#cuda}}
    if ({{name}}_cache_whole(cache, err))
        return SC_ESTATE;
{{/cuda}}
    const size_t width = (size_t){{name}}_indexer[layer].dim * sizeof(indexer_key);
    const int64_t slots = shape_of(layer)->slots;
    if (tokens < 1)
        return sc_fail(err, SC_EUSAGE, "{{name}}: cache: layer %d: an update of %d tokens", layer,
                       tokens);
    for (int row = from; row < to; row++)
        if (tokens > slots - cache->now.indexed[layer][row])
            return sc_fail(err, SC_EFULL,
                           "{{name}}: cache: layer %d: %d indexer keys at position %lld, room for "
                           "%lld (max_cache_len is %d)",
                           layer, tokens, (long long)cache->now.indexed[layer][row],
                           (long long)(slots - cache->now.indexed[layer][row]), MAX_CACHE_LEN);
    for (int row = from; row < to; row++) {
        {{copy}}cache->arena + {{name}}_indexer[layer].offset +
                   (size_t)(row * slots + cache->now.indexed[layer][row]) * width,
               (const unsigned char *)keys + (size_t)((row - from) * tokens) * width,
               (size_t)tokens * width);
        cache->now.indexed[layer][row] += tokens;
    }
    return {{changed}};
}

API int {{name}}_cache_update_indexer({{name}}_cache *cache, int layer, const void *keys, int tokens,
                                    sc_error *err) {
    return update_indexer_rows(cache, layer, 0, BATCH, keys, tokens, err);
}

API int {{name}}_cache_update_indexer_row({{name}}_cache *cache, int layer, int row, const void *keys,
                                        int tokens, sc_error *err) {
    const int rc = check_row(row, err);
    return rc ? rc : update_indexer_rows(cache, layer, row, row + 1, keys, tokens, err);
}

API int {{name}}_cache_read_indexer(const {{name}}_cache *cache, int layer, void *keys, sc_error *err) {
    const int rc = check_indexer(layer, err);
    if (rc)
        return rc;
    const size_t width = (size_t){{name}}_indexer[layer].dim * sizeof(indexer_key);
    const int64_t slots = shape_of(layer)->slots;
    for (int row = 0; row < BATCH; row++) {
        /* A crop leaves keys behind its end. */
        unsigned char *to = (unsigned char *)keys + (size_t)(row * slots) * width;
        const size_t used = (size_t)cache->now.indexed[layer][row] * width;
        {{copy}}to, cache->arena + {{name}}_indexer[layer].offset + (size_t)(row * slots) * width, used);
        {{fill}}to + used, 0, (size_t)slots * width - used);
    }
    return {{settled}};
}

{{/has_indexer}}
