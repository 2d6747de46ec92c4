/*
 * check_cache_rows.c - every operation on rows of any kind of layer, against a slow, obvious model
 * that keeps all tokens.
 *
 * Source of what a cache shows: casting.h and docs/cache.md, as arrays of everything a row was
 * given. SLIPCAST_SEED=N runs the random sequences with that seed alone.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/draw.h"
#include "support/run.h"

Suite *cache_rows_suite(void);

#define FOLDER "build/test-castings/cache-rows"

enum {
    BATCHES = 3,
    LAYERS = 8,
    STATES = 8,
    HISTORY = 4096,
    CHANNELS = 3,
    COLUMNS = 4,
    RECURRENT = 10,
    HEADS = 2,
    KEY_DIM = 2,
    VALUE_DIM = 3,
    INDEX_DIM = 5,
    MOST = 40 /* more tokens than any call here takes or shows */
};

/* s sliding, f full, i indexed, l linear, h hybrid, w hybrid that slides, m moe. */
static const struct {
    const char *types;
    int window, max_cache_len, rewind, batch;
} shapes[] = {
    { "sf", 4, 12, 0, 3 }, { "sfs", 4, 12, 4, 2 }, { "ss", 3, 9, 3, 3 },  { "s", 4, 10, 4, 1 },
    { "sf", 5, 7, 6, 3 },  { "sff", 9, 6, 2, 2 },  { "ffi", 4, 8, 0, 3 }, { "sflhw", 4, 9, 0, 3 },
    { "lis", 3, 7, 2, 2 }, { "mwil", 2, 8, 3, 3 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const sc_casting *cast_shape_of(int i) {
    char json[4096], options[128], name[64];
    size_t at =
        (size_t)snprintf(json, sizeof json, "{\"model_type\": \"slipcast_cache\", \"layers\": [");
    for (const char *t = shapes[i].types; *t; t++) {
        const char *type = *t == 's'   ? "sliding_attention"
                           : *t == 'f' ? "full_attention"
                           : *t == 'i' ? "indexed_attention"
                           : *t == 'l' ? "linear_attention"
                           : *t == 'h' ? "hybrid"
                           : *t == 'w' ? "hybrid_sliding"
                                       : "moe";
        at += (size_t)snprintf(json + at, sizeof json - at, "%s{\"layer_type\": \"%s\"",
                               t == shapes[i].types ? "" : ", ", type);
        if (strchr("sfihw", *t))
            at += (size_t)snprintf(
                json + at, sizeof json - at,
                ", \"num_key_value_heads\": %d, \"head_dim\": %d, \"v_head_dim\": %d", HEADS,
                KEY_DIM, VALUE_DIM);
        if (strchr("sw", *t))
            at += (size_t)snprintf(json + at, sizeof json - at, ", \"sliding_window\": %d",
                                   shapes[i].window);
        if (*t == 'i')
            at += (size_t)snprintf(json + at, sizeof json - at, ", \"index_head_dim\": %d",
                                   INDEX_DIM);
        if (strchr("lhw", *t))
            at += (size_t)snprintf(json + at, sizeof json - at,
                                   ", \"states\": [{\"name\": \"conv_state\", \"shape\": [%d, "
                                   "%d]}, {\"name\": \"recurrent_state\", \"shape\": [2, %d]}]",
                                   CHANNELS, COLUMNS, RECURRENT / 2);
        at += (size_t)snprintf(json + at, sizeof json - at, "}");
    }
    snprintf(json + at, sizeof json - at, "]}");
    at = (size_t)snprintf(options, sizeof options, "--max-cache-len %d --batch-size %d",
                          shapes[i].max_cache_len, shapes[i].batch);
    if (shapes[i].rewind)
        snprintf(options + at, sizeof options - at, " --rewind %d", shapes[i].rewind);
    snprintf(name, sizeof name, "rows-%d", i);
    return cast_spec(name, json, options);
}

/* What one row of one layer was given, all of it. */
typedef struct {
    int count;       /* of tokens */
    int old;         /* before the last update; -1: none to look at */
    int lost;        /* positions below it are in no slot any more */
    int id[HISTORY]; /* by position */
    int indexed, index_id[HISTORY];
    int columns, column_id[HISTORY]; /* of the convolution, 0: not updated */
    int state_id;                    /* of the recurrent state, 0: not updated */
} row_model;

typedef struct {
    const sc_casting *api;
    sc_cache *cache;
    int i, layers, batch, max;
    row_model row[LAYERS][BATCHES];
    int last_ring[2][BATCHES]; /* the layer of that shape (s, w) that was updated last */
    int serial, accepted, refused;
    uint64_t random;
    float keys[BATCHES * HEADS * MOST * KEY_DIM], values[BATCHES * HEADS * MOST * VALUE_DIM];
    float other[BATCHES * CHANNELS * MOST];
    sc_error err;
    char what[96];
} trial;

static int more(int a, int b) { return a > b ? a : b; }
static int less(int a, int b) { return a < b ? a : b; }

static char type_of(const trial *t, int layer) { return shapes[t->i].types[layer]; }
static int has_kv(const trial *t, int layer) { return strchr("sfihw", type_of(t, layer)) != NULL; }
static int has_states(const trial *t, int layer) {
    return strchr("lhw", type_of(t, layer)) != NULL;
}
static int slides(const trial *t, int layer) { return strchr("sw", type_of(t, layer)) != NULL; }

/* Slots that are shown, and those that there are: window + rewind - 1, if that is not all. */
static int shown(const trial *t, int layer) {
    return slides(t, layer) ? less(shapes[t->i].window, t->max) : t->max;
}
static int whole(const trial *t, int layer) { /* a ring that has its window */
    return slides(t, layer) && shapes[t->i].window <= t->max;
}
static int slots(const trial *t, int layer) {
    return whole(t, layer) ? less(t->max, shapes[t->i].window + more(shapes[t->i].rewind, 1) - 1)
                           : t->max;
}

/* Every float is told from every other; id 0 stands for zero. */
static float number(int kind, int layer, int head, int id, int d) {
    uint64_t x = (((uint64_t)id * 8 + (uint64_t)kind) * LAYERS + (uint64_t)layer) * 8;
    x = ((x + (uint64_t)head) * 64 + (uint64_t)d + 1) * 0x9E3779B97F4A7C15u;
    return id ? (float)(1 + (x >> 40)) : 0;
}

/* Rows of one kind: [to - from, heads, tokens, dim], row b's tokens being serial * BATCHES + b. */
static void fill(float *out, int kind, int layer, int from, int to, int heads, int tokens, int dim,
                 int serial) {
    for (int b = from; b < to; b++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < tokens; i++)
                for (int d = 0; d < dim; d++)
                    *out++ = number(kind, layer, h, (serial + i) * BATCHES + b, d);
}

static void assert_id(const trial *t, const float *got, int kind, int layer, int head, int id,
                      int dim, const char *which, int row, int at) {
    for (int d = 0; d < dim; d++)
        if (got[d] != number(kind, layer, head, id, d))
            ck_abort_msg("%s: %s of layer %d, row %d, head %d, place %d, element %d: %g, not %g",
                         t->what, which, layer, row, head, at, d, (double)got[d],
                         (double)number(kind, layer, head, id, d));
}

/* keys and values [1, HEADS, length, dim] of one row, the first being position from. */
static void assert_positions(const trial *t, const float *keys, const float *values, int layer,
                             int row, int from, int length, int lost, const char *which) {
    const row_model *m = &t->row[layer][row];
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < length; i++) {
            const int pos = from + i, id = pos < m->count && pos >= lost ? m->id[pos] : 0;
            assert_id(t, keys + (h * length + i) * KEY_DIM, 0, layer, h, id, KEY_DIM, which, row,
                      i);
            assert_id(t, values + (h * length + i) * VALUE_DIM, 1, layer, h, id, VALUE_DIM, which,
                      row, i);
        }
}

/* First position and length of what the row's last update shows; 0: it shows nothing. */
static int visible_range(const trial *t, int layer, int row, int *first, int *length) {
    const row_model *m = &t->row[layer][row];
    *first = slides(t, layer) ? more(0, m->old - shown(t, layer) + 1) : 0;
    *length = more(shown(t, layer), m->count - *first);
    const int driven_out = *first < m->count - slots(t, layer);
    return m->old >= 0 && (!driven_out || t->last_ring[type_of(t, layer) == 'w'][row] == layer);
}

static void check_visible(trial *t, int layer) {
    int together = 1, first[BATCHES], length[BATCHES];
    int64_t got = -1;
    for (int b = 0; b < t->batch; b++) {
        const row_model *m = &t->row[layer][b];
        const int there = visible_range(t, layer, b, &first[b], &length[b]);
        const int rc =
            t->api->cache_visible_row(t->cache, layer, b, t->keys, t->values, &got, &t->err);
        ck_assert_msg(rc == (there ? SC_OK : SC_ESTATE) && (rc || got == length[b]),
                      "%s: layer %d, row %d: visible_row: %d, %" PRId64 " tokens", t->what, layer,
                      b, rc, got);
        if (there)
            assert_positions(t, t->keys, t->values, layer, b, first[b], length[b], 0,
                             "visible_row");
        together &= there && m->old == t->row[layer][0].old && m->count == t->row[layer][0].count;
    }
    const int rc = t->api->cache_visible(t->cache, layer, t->keys, t->values, &got, &t->err);
    ck_assert_msg(rc == (together ? SC_OK : SC_ESTATE) && (rc || got == length[0]),
                  "%s: layer %d: visible: %d, %" PRId64 " tokens", t->what, layer, rc, got);
    for (int b = 0; b < t->batch && !rc; b++)
        assert_positions(t, t->keys + b * HEADS * length[0] * KEY_DIM,
                         t->values + b * HEADS * length[0] * VALUE_DIM, layer, b, first[0],
                         length[0], 0, "visible");
}

/* W slots, n seen: offset max(n - W + 1, 0), and room for the window or all that is seen. */
static void check_lengths(trial *t, int layer) {
    const int queries = 1 + draw(&t->random, t->max + 2), w = shown(t, layer);
    int longest = 0, equal = 1;
    int64_t length = -1, offset = -1;
    for (int b = 0; b < t->batch; b++) {
        const int n = t->row[layer][b].count;
        const int from = slides(t, layer) ? more(0, n - w + 1) : 0;
        ck_assert_int_eq(t->api->cache_row_length(t->cache, layer, b), n);
        ck_assert_int_eq(
            t->api->cache_mask_sizes_row(t->cache, layer, b, queries, &length, &offset, &t->err),
            SC_OK);
        ck_assert_msg(offset == from &&
                          length == (slides(t, layer) ? more(w, n - from + queries) : w),
                      "%s: layer %d, row %d: mask sizes %" PRId64 ", %" PRId64, t->what, layer, b,
                      length, offset);
        longest = more(longest, n);
        equal &= n == t->row[layer][0].count;
    }
    ck_assert_int_eq(t->api->cache_seq_length(t->cache, layer), longest);
    int64_t all_length = -1, all_offset = -1;
    const int rc =
        t->api->cache_mask_sizes(t->cache, layer, queries, &all_length, &all_offset, &t->err);
    ck_assert_msg(rc == (equal ? SC_OK : SC_ESTATE), "%s: layer %d: mask_sizes: %d", t->what, layer,
                  rc);
    ck_assert(rc || (all_length == length && all_offset == offset));
}

static void check_read(trial *t, int layer) {
    const int w = shown(t, layer);
    ck_assert_int_eq(t->api->cache_read(t->cache, layer, t->keys, t->values, &t->err), SC_OK);
    for (int b = 0; b < t->batch; b++)
        assert_positions(t, t->keys + b * HEADS * w * KEY_DIM,
                         t->values + b * HEADS * w * VALUE_DIM, layer, b,
                         more(0, t->row[layer][b].count - w), w, t->row[layer][b].lost, "read");
}

static void check_states(trial *t, int layer) {
    ck_assert_int_eq(t->api->cache_read_conv(t->cache, layer, 0, t->other, &t->err), SC_OK);
    for (int b = 0; b < t->batch; b++)
        for (int c = 0; c < CHANNELS; c++)
            for (int i = 0; i < COLUMNS; i++) {
                const row_model *m = &t->row[layer][b];
                const int at = m->columns - COLUMNS + i;
                assert_id(t, t->other + (b * CHANNELS + c) * COLUMNS + i, 2, layer, c,
                          at < 0 ? 0 : m->column_id[at], 1, "conv_state", b, i);
            }
    ck_assert_int_eq(t->api->cache_read_recurrent(t->cache, layer, 0, t->other, &t->err), SC_OK);
    for (int b = 0; b < t->batch; b++)
        assert_id(t, t->other + b * RECURRENT, 3, layer, 0, t->row[layer][b].state_id, RECURRENT,
                  "recurrent_state", b, 0);
}

static void check_indexer(trial *t, int layer) {
    ck_assert_int_eq(t->api->cache_read_indexer(t->cache, layer, t->other, &t->err), SC_OK);
    for (int b = 0; b < t->batch; b++)
        for (int i = 0; i < t->max; i++) {
            const row_model *m = &t->row[layer][b];
            assert_id(t, t->other + (b * t->max + i) * INDEX_DIM, 4, layer, 0,
                      i < m->indexed ? m->index_id[i] : 0, INDEX_DIM, "indexer keys", b, i);
        }
}

static void check_all(trial *t) {
    for (int layer = 0; layer < t->layers; layer++) {
        if (has_kv(t, layer)) {
            check_lengths(t, layer);
            check_visible(t, layer);
            check_read(t, layer);
        }
        if (has_states(t, layer))
            check_states(t, layer);
        if (type_of(t, layer) == 'i')
            check_indexer(t, layer);
    }
}

static void expect(trial *t, int rc, int wanted, const char *op, int a, int b) {
    if (rc != wanted)
        ck_abort_msg("%s: %s(%d, %d): %d (%s), not %d", t->what, op, a, b, rc, t->err.message,
                     wanted);
    t->accepted += !rc;
    t->refused += rc != 0;
}

static void forget_updates(trial *t) {
    for (int layer = 0; layer < t->layers; layer++)
        for (int b = 0; b < t->batch; b++)
            t->row[layer][b].old = -1;
}

/* The rows that a call is about: all of them, or one, which may be none of the batch's. */
typedef struct {
    int from, to, one, valid;
} range;

static range draw_rows(trial *t) {
    const int one = draw(&t->random, 3) > 0,
              row = draw(&t->random, 12) ? draw(&t->random, t->batch) : draw(&t->random, 2) * 9 - 1;
    const int valid = !one || (row >= 0 && row < t->batch);
    return one ? (range){ valid ? row : 0, valid ? row + 1 : 1, row, valid }
               : (range){ 0, t->batch, -7, 1 };
}

static void random_update(trial *t) {
    const range r = draw_rows(t);
    const int layer = draw(&t->random, t->layers),
              tokens = draw(&t->random, 3) ? 1 + draw(&t->random, 3) : draw(&t->random, t->max + 3);
    const int valid = r.valid && has_kv(t, layer) && tokens > 0;
    int fits = tokens <= t->max;
    for (int b = r.from; b < r.to && valid; b++)
        fits &= whole(t, layer) || t->row[layer][b].count + tokens <= t->max;
    fill(t->keys, 0, layer, r.from, r.to, HEADS, tokens, KEY_DIM, t->serial);
    fill(t->values, 1, layer, r.from, r.to, HEADS, tokens, VALUE_DIM, t->serial);
    const int rc =
        r.one == -7
            ? t->api->cache_update(t->cache, layer, t->keys, t->values, tokens, &t->err)
            : t->api->cache_update_row(t->cache, layer, r.one, t->keys, t->values, tokens, &t->err);
    expect(t, rc, !valid ? SC_EUSAGE : fits ? SC_OK : SC_EFULL, "update", r.one, tokens);
    for (int b = r.from; b < r.to && !rc; b++) {
        row_model *m = &t->row[layer][b];
        ck_assert_int_le(m->count + tokens, HISTORY);
        m->old = m->count;
        for (int i = 0; i < tokens; i++)
            m->id[m->count++] = (t->serial + i) * BATCHES + b;
        m->lost = more(m->lost, m->count - slots(t, layer));
        if (slides(t, layer))
            t->last_ring[type_of(t, layer) == 'w'][b] = layer;
    }
    t->serial += tokens;
}

/* The first update shows zeros in front, to fill the state, later ones the old columns. */
static void random_conv(trial *t) {
    const range r = draw_rows(t);
    const int layer = draw(&t->random, t->layers), tokens = draw(&t->random, 7),
              valid = r.valid && has_states(t, layer) && tokens > 0,
              held = t->row[layer][r.from].columns > 0;
    static float shows[BATCHES * CHANNELS * MOST];
    int together = 1;
    int64_t columns = -1;
    for (int b = r.from; b < r.to; b++)
        together &= (t->row[layer][b].columns > 0) == held;
    if (!t->api->cache_update_conv) {
        ck_assert(t->api->cache_update_conv_row == NULL);
        return;
    }
    fill(t->other, 2, layer, r.from, r.to, CHANNELS, tokens, 1, t->serial);
    const int look = draw(&t->random, 2);
    float *visible = look ? shows : NULL;
    const int rc = r.one == -7 ? t->api->cache_update_conv(t->cache, layer, 0, t->other, tokens,
                                                           visible, &columns, &t->err)
                               : t->api->cache_update_conv_row(t->cache, layer, 0, r.one, t->other,
                                                               tokens, visible, &columns, &t->err);
    expect(t, rc, !valid ? SC_EUSAGE : together ? SC_OK : SC_ESTATE, "update_conv", r.one, tokens);
    if (!rc)
        ck_assert_int_eq(columns, held ? COLUMNS + tokens : more(COLUMNS, tokens));
    for (int b = r.from; b < r.to && !rc; b++) {
        row_model *m = &t->row[layer][b];
        for (int i = 0; i < tokens; i++)
            m->column_id[m->columns++] = (t->serial + i) * BATCHES + b;
        ck_assert_int_le(m->columns, HISTORY);
        for (int c = 0; c < CHANNELS && look; c++)
            for (int i = 0; i < (int)columns; i++) {
                const int at = m->columns - (int)columns + i;
                assert_id(t, shows + ((b - r.from) * CHANNELS + c) * columns + i, 2, layer, c,
                          at < 0 ? 0 : m->column_id[at], 1, "visible columns", b, i);
            }
    }
    t->serial += tokens;
}

static void random_recurrent(trial *t) {
    const range r = draw_rows(t);
    const int layer = draw(&t->random, t->layers);
    if (!t->api->cache_update_recurrent)
        return;
    fill(t->other, 3, layer, r.from, r.to, 1, 1, RECURRENT, t->serial);
    const int rc =
        r.one == -7
            ? t->api->cache_update_recurrent(t->cache, layer, 0, t->other, &t->err)
            : t->api->cache_update_recurrent_row(t->cache, layer, 0, r.one, t->other, &t->err);
    expect(t, rc, r.valid && has_states(t, layer) ? SC_OK : SC_EUSAGE, "update_recurrent", r.one,
           layer);
    for (int b = r.from; b < r.to && !rc; b++)
        t->row[layer][b].state_id = t->serial * BATCHES + b;
    t->serial++;
}

static void random_indexer(trial *t) {
    const range r = draw_rows(t);
    const int layer = draw(&t->random, t->layers), tokens = draw(&t->random, 4),
              valid = r.valid && type_of(t, layer) == 'i' && tokens > 0;
    int fits = 1;
    if (!t->api->cache_update_indexer) {
        ck_assert(t->api->cache_update_indexer_row == NULL);
        return;
    }
    for (int b = r.from; b < r.to; b++)
        fits &= t->row[layer][b].indexed + tokens <= t->max;
    fill(t->other, 4, layer, r.from, r.to, 1, tokens, INDEX_DIM, t->serial);
    const int rc =
        r.one == -7
            ? t->api->cache_update_indexer(t->cache, layer, t->other, tokens, &t->err)
            : t->api->cache_update_indexer_row(t->cache, layer, r.one, t->other, tokens, &t->err);
    expect(t, rc, !valid ? SC_EUSAGE : fits ? SC_OK : SC_EFULL, "update_indexer", r.one, tokens);
    for (int b = r.from; b < r.to && !rc; b++)
        for (int i = 0; i < tokens; i++) {
            row_model *m = &t->row[layer][b];
            m->index_id[m->indexed++] = (t->serial + i) * BATCHES + b;
        }
    t->serial += tokens;
}

static void reset_model(trial *t, int row) {
    for (int layer = 0; layer < t->layers; layer++) {
        memset(&t->row[layer][row], 0, sizeof t->row[layer][row]);
        t->row[layer][row].old = -1;
    }
}

static void random_reset(trial *t) {
    const range r = draw_rows(t);
    const int rc = r.one == -7 ? t->api->cache_reset(t->cache, &t->err)
                               : t->api->cache_reset_row(t->cache, r.one, &t->err);
    expect(t, rc, r.valid ? SC_OK : SC_EUSAGE, "reset", r.one, 0);
    for (int b = r.from; b < r.to && !rc; b++)
        reset_model(t, b);
}

static void become(trial *t, const int32_t *from) {
    static row_model was[BATCHES];
    for (int layer = 0; layer < t->layers; layer++) {
        memcpy(was, t->row[layer], sizeof was);
        for (int b = 0; b < t->batch; b++)
            t->row[layer][b] = was[from[b]];
    }
    forget_updates(t);
}

static void random_reorder(trial *t) {
    int32_t from[BATCHES] = { 0, 1, 2 };
    const int bad = !draw(&t->random, 6), copy = draw(&t->random, 2);
    int to = draw(&t->random, t->batch), source = draw(&t->random, t->batch);
    int rc;
    if (copy) {
        from[to] = source;
        if (bad && draw(&t->random, 2))
            to = t->batch;
        else if (bad)
            source = -1;
        rc = t->api->cache_copy_row(t->cache, source, to, &t->err);
    } else {
        for (int b = 0; b < t->batch; b++)
            from[b] = (int32_t)draw(&t->random, t->batch);
        if (bad)
            from[to] = draw(&t->random, 2) ? t->batch : -1;
        rc = t->api->cache_reorder(t->cache, from, &t->err);
    }
    expect(t, rc, bad ? SC_EUSAGE : SC_OK, copy ? "copy_row" : "reorder", source, to);
    if (!rc)
        become(t, from);
}

/* The next token must still find the window - 1 tokens before it. */
static void random_crop(trial *t) {
    const int amount = 1 - draw(&t->random, 6);
    int few = amount > 0, forgotten = 0;
    for (int layer = 0; layer < t->layers && amount < 0; layer++)
        for (int b = 0; b < t->batch; b++) {
            const row_model *m = &t->row[layer][b];
            const int left = m->count + amount;
            forgotten |= m->columns || m->state_id;
            if (!has_kv(t, layer))
                continue;
            few |= left < 0;
            forgotten |= whole(t, layer) && m->lost &&
                         (!shapes[t->i].rewind || more(0, left - shown(t, layer) + 1) < m->lost);
        }
    const int rc = t->api->cache_crop(t->cache, amount, &t->err);
    /* With two reasons to refuse, either may be given. */
    const int wanted = few && !(forgotten && rc == SC_EFULL) ? SC_EUSAGE : SC_EFULL;
    expect(t, rc, few || forgotten ? wanted : SC_OK, "crop", amount, 0);
    if (rc || !amount)
        return;
    for (int layer = 0; layer < t->layers; layer++)
        for (int b = 0; b < t->batch && has_kv(t, layer); b++) {
            row_model *m = &t->row[layer][b];
            m->count += amount;
            m->indexed = less(m->indexed, m->count);
        }
    forget_updates(t);
}

/* The session goes on in a new cache. */
static void random_move(trial *t) {
    static const char path[] = FOLDER "/moved";
    sc_cache *other;
    expect(t, t->api->cache_save(t->cache, path, &t->err), SC_OK, "save", 0, 0);
    t->api->cache_destroy(t->cache);
    ck_assert_int_eq(t->api->cache_create(&other, &t->err), SC_OK);
    t->cache = other;
    expect(t, t->api->cache_load(t->cache, path, &t->err), SC_OK, "load", 0, 0);
    forget_updates(t);
}

enum { STEPS = 240, SEEDS = 12 };

static void run_trial(trial *t, int shape, uint64_t seed) {
    ck_assert_int_le(STEPS * (shapes[shape].max_cache_len + 2), HISTORY);
    memset(t, 0, sizeof *t);
    t->api = cast_shape_of(shape);
    t->i = shape;
    t->layers = (int)strlen(shapes[shape].types);
    t->batch = shapes[shape].batch;
    t->max = shapes[shape].max_cache_len;
    t->serial = 1;
    t->random = seed * 0x9E3779B97F4A7C15u | 1;
    ck_assert_int_eq(t->api->cache_create(&t->cache, &t->err), SC_OK);
    forget_updates(t);
    for (int step = 0; step < STEPS; step++) {
        snprintf(t->what, sizeof t->what, "%s, shape %d: SLIPCAST_SEED=%" PRIu64 ", step %d",
                 shapes[shape].types, shape, seed, step);
        const int op = draw(&t->random, 100);
        if (op < 55)
            random_update(t);
        else if (op < 61)
            random_conv(t);
        else if (op < 64)
            random_recurrent(t);
        else if (op < 70)
            random_indexer(t);
        else if (op < 77)
            random_reset(t);
        else if (op < 87)
            random_reorder(t);
        else if (op < 97)
            random_crop(t);
        else
            random_move(t);
        check_all(t);
    }
    t->api->cache_destroy(t->cache);
}

START_TEST(random_operations_on_rows_do_what_the_model_does) {
    trial *t = malloc(sizeof *t);
    ck_assert_ptr_nonnull(t);
    const char *one = getenv("SLIPCAST_SEED");
    for (int i = 0; i < (one ? 1 : SEEDS); i++) {
        run_trial(t, _i, one ? strtoull(one, NULL, 10) : (uint64_t)i + 1);
        ck_assert_msg(one || (t->accepted > STEPS / 4 && t->refused > 5),
                      "%s: %d calls accepted, %d refused: too tame", t->what, t->accepted,
                      t->refused);
    }
    free(t);
}
END_TEST

/* ---- rewind: TRIALS, window 4, 7 slots, 10 tokens, back to 6 and no further ---- */

enum { REWIND_SHAPE = 3 };

/* The slow model plays the table's row: it says what read and visible give, before and after. */
START_TEST(a_ring_with_room_to_rewind_goes_back_so_far) {
    static const struct {
        int amount, code;
    } backs[] = { { -4, SC_OK }, { -5, SC_EFULL }, { 1, SC_EUSAGE }, { -11, SC_EUSAGE } };
    trial *t = calloc(1, sizeof *t);
    ck_assert_ptr_nonnull(t);
    *t = (trial){ .api = cast_shape_of(REWIND_SHAPE),
                  .i = REWIND_SHAPE,
                  .layers = 1,
                  .batch = 1,
                  .max = 10,
                  .serial = 1,
                  .random = 1,
                  .what = "10 tokens" };
    ck_assert_int_eq(slots(t, 0), 7);
    ck_assert_int_eq(t->api->cache_create(&t->cache, &t->err), SC_OK);
    row_model *m = &t->row[0][0];
    for (int push = 0; push < 2; push++) {
        const int tokens = push ? 7 : 10;
        fill(t->keys, 0, 0, 0, 1, HEADS, tokens, KEY_DIM, t->serial);
        fill(t->values, 1, 0, 0, 1, HEADS, tokens, VALUE_DIM, t->serial);
        ck_assert_int_eq(t->api->cache_update(t->cache, 0, t->keys, t->values, tokens, &t->err),
                         SC_OK);
        m->old = m->count;
        for (int i = 0; i < tokens; i++)
            m->id[m->count++] = (t->serial + i) * BATCHES;
        m->lost = more(m->lost, m->count - 7);
        t->serial += tokens;
        check_all(t);
        if (push)
            break;
        const int back = t->api->cache_crop(t->cache, backs[_i].amount, &t->err);
        ck_assert_int_eq(back, backs[_i].code);
        if (!back) {
            m->count = 6;
            m->old = -1;
        }
        check_all(t); /* a refusal changes nothing, what the last update shows included */
    }
    /* By hand: 6 of 10 left, 7 more; the first of them sees three before it, positions 3 … 12. */
    int64_t length = 0;
    ck_assert_int_eq(t->api->cache_visible(t->cache, 0, NULL, NULL, &length, NULL), SC_OK);
    ck_assert_int_eq(length, 3 + 7);
    ck_assert_int_eq(t->api->cache_seq_length(t->cache, 0), backs[_i].code ? 17 : 13);
    t->api->cache_destroy(t->cache);
    free(t);
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", FOLDER, FOLDER), 0);
    for (int i = 0; i < SHAPES; i++)
        cast_shape_of(i);
}

Suite *cache_rows_suite(void) {
    Suite *suite = suite_create("cache_rows");
    TCase *tests = tcase_create("rows");
    tcase_set_timeout(tests, 300);
    tcase_add_unchecked_fixture(tests, make_castings, NULL);
    tcase_add_loop_test(tests, a_ring_with_room_to_rewind_goes_back_so_far, 0, 4);
    tcase_add_loop_test(tests, random_operations_on_rows_do_what_the_model_does, 0, SHAPES);
    suite_add_tcase(suite, tests);
    return suite;
}
