/*
 * check_cache_random.c - random operations on a cache against a slow, obvious model that never
 * forgets. SLIPCAST_SEED=N runs that seed alone.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/draw.h"
#include "support/subject.h"

Suite *cache_random_suite(void);

enum { STEPS = 110, HISTORY = 2048 };

static const cast_shape random_shapes[] = {
    { "ff", 4, 6, 1, 2 },  { "s", 4, 10, 1, 2 },  { "s", 5, 5, 1, 2 },   { "sf", 3, 8, 3, 1 },
    { "ssf", 1, 6, 1, 2 }, { "ssf", 4, 8, 3, 2 }, { "ssf", 9, 6, 1, 1 },
};
enum { RANDOM_SHAPES = sizeof random_shapes / sizeof *random_shapes };

enum { SEEDS = 40 }; /* 1 to 40 */

/* All tokens that each row of a layer was given, in order; old: how many before its last update,
 * -1 when there is none to look at. */
typedef struct {
    int count, old;
    int id[SUBJECT_BATCHES][HISTORY];
} layer_model;

typedef struct {
    subject s;
    sc_cache *spare;
    layer_model layer[CAST_LAYERS];
    int last_ring; /* the sliding layer that was updated last */
    int serial;
    int accepted, refused;
    uint64_t random;
    char what[128];
} trial;

/* Of the tokens before an update, those that its queries still see: a window of W is the query and
 * the W - 1 before it. */
static int still_seen(const trial *t, int layer, int old) {
    const int others = cast_slots(&t->s.shape, layer) - 1;
    return t->s.shape.types[layer] == 's' && old > others ? others : old;
}

/* length positions of each row from there on; zeros behind the last token. */
static subject_rows model_rows(const trial *t, int layer, int from, int length) {
    const layer_model *m = &t->layer[layer];
    subject_rows r = { 0 };
    for (int b = 0; b < t->s.shape.batch; b++)
        for (int j = 0; j < length && from + j < m->count; j++)
            r.id[b][j] = m->id[b][from + j];
    return r;
}

static int larger(int a, int b) { return a > b ? a : b; }

static void check_mask(trial *t, int layer) {
    const int count = t->layer[layer].count, slots = cast_slots(&t->s.shape, layer),
              queries = 1 + draw(&t->random, t->s.shape.max_cache_len + 2),
              past = still_seen(t, layer, count), sliding_layer = t->s.shape.types[layer] == 's';
    int64_t length = -1, offset = -1;
    const int rc =
        t->s.api->cache_mask_sizes(t->s.cache, layer, queries, &length, &offset, &t->s.err);
    if (rc || length != (sliding_layer ? larger(slots, past + queries) : slots) ||
        offset != count - past)
        ck_abort_msg("%s: layer %d, %d queries on %d tokens: mask sizes %" PRId64 ", %" PRId64,
                     t->what, layer, queries, count, length, offset);
}

static void check_visible(trial *t, int layer) {
    const layer_model *m = &t->layer[layer];
    const int slots = cast_slots(&t->s.shape, layer);
    int64_t unused = -1;
    const int past = m->old < 0 ? 0 : still_seen(t, layer, m->old),
              length = larger(slots, past + m->count - m->old);
    if (m->old < 0 || (length > slots && layer != t->last_ring)) {
        if (t->s.api->cache_visible(t->s.cache, layer, NULL, NULL, &unused, NULL) != SC_ESTATE)
            ck_abort_msg("%s: layer %d shows an update that is gone", t->what, layer);
        return;
    }
    const subject_rows wanted = model_rows(t, layer, m->old - past, length);
    subject_assert_visible(&t->s, layer, length, &wanted, t->what);
}

static void check_all(trial *t) {
    for (int layer = 0; layer < t->s.layers; layer++) {
        const int count = t->layer[layer].count, slots = cast_slots(&t->s.shape, layer);
        const subject_rows stored = model_rows(t, layer, larger(0, count - slots), slots);
        if (t->s.api->cache_seq_length(t->s.cache, layer) != count)
            ck_abort_msg("%s: layer %d has %" PRId64 " tokens, not %d", t->what, layer,
                         t->s.api->cache_seq_length(t->s.cache, layer), count);
        check_mask(t, layer);
        check_visible(t, layer);
        subject_assert_read(&t->s, layer, &stored, t->what);
    }
}

static void expect(trial *t, int rc, int wanted, const char *op, int amount) {
    if (rc != wanted)
        ck_abort_msg("%s: %s(%d): %d, not %d", t->what, op, amount, rc, wanted);
    t->accepted += !rc;
    t->refused += rc != 0;
}

static void forget_updates(trial *t) {
    for (int layer = 0; layer < t->s.layers; layer++)
        t->layer[layer].old = -1;
}

/* A ring with its whole window takes any number of tokens, in parts of max_cache_len. */
static void random_update(trial *t) {
    const cast_shape *shape = &t->s.shape;
    const int layer = draw(&t->random, t->s.layers), most = shape->max_cache_len,
              tokens =
                  draw(&t->random, 2) ? 1 + draw(&t->random, 3) : 1 + draw(&t->random, most + 2),
              endless = shape->types[layer] == 's' && shape->window <= most;
    layer_model *m = &t->layer[layer];
    const int fits = tokens <= most && (endless || m->count + tokens <= most);
    subject_fill(&t->s, layer, t->serial, tokens);
    const int rc =
        t->s.api->cache_update(t->s.cache, layer, t->s.keys, t->s.values, tokens, &t->s.err);
    expect(t, rc, fits ? SC_OK : SC_EFULL, "update", tokens);
    if (fits) {
        for (int b = 0; b < shape->batch; b++)
            for (int i = 0; i < tokens; i++)
                m->id[b][m->count + i] = subject_token_id(t->serial + i, b);
        m->old = m->count;
        m->count += tokens;
        if (shape->types[layer] == 's')
            t->last_ring = layer;
    }
    t->serial += tokens;
}

static void random_crop(trial *t) {
    const int amount = 1 - draw(&t->random, 5);
    int few = amount > 0, forgotten = 0;
    for (int layer = 0; layer < t->s.layers && amount; layer++) {
        const int count = t->layer[layer].count;
        few |= count + amount < 0;
        forgotten |= t->s.shape.types[layer] == 's' && count > cast_slots(&t->s.shape, layer);
    }
    const int rc = t->s.api->cache_crop(t->s.cache, amount, &t->s.err);
    /* With two reasons to refuse, either may be given. */
    const int wanted = few && !(forgotten && rc == SC_EFULL) ? SC_EUSAGE : SC_EFULL;
    expect(t, rc, few || forgotten ? wanted : SC_OK, "crop", amount);
    if (rc || !amount)
        return;
    for (int layer = 0; layer < t->s.layers; layer++)
        t->layer[layer].count += amount;
    forget_updates(t);
}

static void random_reorder(trial *t) {
    static layer_model was;
    const int batch = t->s.shape.batch, bad = !draw(&t->random, 6);
    int32_t from[SUBJECT_BATCHES];
    for (int b = 0; b < batch; b++)
        from[b] = draw(&t->random, batch);
    if (bad)
        from[draw(&t->random, batch)] = draw(&t->random, 2) ? batch : -1;
    const int rc = t->s.api->cache_reorder(t->s.cache, from, &t->s.err);
    expect(t, rc, bad ? SC_EUSAGE : SC_OK, "reorder", from[0]);
    if (bad)
        return;
    for (int layer = 0; layer < t->s.layers; layer++) {
        was = t->layer[layer];
        for (int b = 0; b < batch; b++)
            memcpy(t->layer[layer].id[b], was.id[from[b]], sizeof was.id[0]);
    }
    forget_updates(t);
}

static void random_reset(trial *t) {
    expect(t, t->s.api->cache_reset(t->s.cache, &t->s.err), SC_OK, "reset", 0);
    for (int layer = 0; layer < t->s.layers; layer++)
        t->layer[layer].count = 0;
    forget_updates(t);
}

/* The session goes on in the other cache, over whatever that one holds. */
static void random_move(trial *t) {
    static const char path[] = "build/test-castings/cache-random-moved";
    expect(t, t->s.api->cache_save(t->s.cache, path, &t->s.err), SC_OK, "save", 0);
    expect(t, t->s.api->cache_load(t->spare, path, &t->s.err), SC_OK, "load", 0);
    sc_cache *other = t->spare;
    t->spare = t->s.cache;
    t->s.cache = other;
    forget_updates(t);
}

static void run_trial(trial *t, const cast_shape *shape, uint64_t seed) {
    static void (*const ops[])(trial *) = { random_crop, random_reorder, random_reset,
                                            random_move };
    ck_assert_int_le(STEPS * (shape->max_cache_len + 2), HISTORY);
    *t =
        (trial){ .s = subject_begin(shape), .serial = 1, .random = seed * 0x9E3779B97F4A7C15u | 1 };
    ck_assert_int_eq(t->s.api->cache_create(&t->spare, &t->s.err), SC_OK);
    forget_updates(t);
    for (int step = 0; step < STEPS; step++) {
        snprintf(t->what, sizeof t->what,
                 "%s, window %d, max_cache_len %d, batch %d: SLIPCAST_SEED=%" PRIu64 ", step %d",
                 shape->types, shape->window, shape->max_cache_len, shape->batch, seed, step);
        /* Of 100: 72 updates, 9 crops, 9 reorders, 6 resets, 4 moves. */
        const int op = draw(&t->random, 100);
        if (op < 72)
            random_update(t);
        else
            ops[(op >= 81) + (op >= 90) + (op >= 96)](t);
        check_all(t);
    }
    t->s.api->cache_destroy(t->spare);
    subject_end(&t->s);
}

START_TEST(random_operations_do_what_the_model_does) {
    static trial t;
    const char *one = getenv("SLIPCAST_SEED");
    for (int i = 0; i < (one ? 1 : SEEDS); i++) {
        run_trial(&t, &random_shapes[_i], one ? strtoull(one, NULL, 10) : (uint64_t)i + 1);
        ck_assert_msg(one || (t.accepted > STEPS / 4 && t.refused > 0),
                      "%s: %d calls accepted, %d refused: too tame", t.what, t.accepted, t.refused);
    }
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    for (int i = 0; i < RANDOM_SHAPES; i++)
        cast_make(&random_shapes[i]);
}

Suite *cache_random_suite(void) {
    Suite *suite = suite_create("cache_random");
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 300);
    tcase_add_unchecked_fixture(random, make_castings, NULL);
    tcase_add_loop_test(random, random_operations_do_what_the_model_does, 0, RANDOM_SHAPES);
    suite_add_tcase(suite, random);
    return suite;
}
