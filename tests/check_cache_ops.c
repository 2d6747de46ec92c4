/*
 * check_cache_ops.c - a cache's operations through its public API: cases from the field, files,
 * refusals, what is allocated, and random sequences against a slow, obvious model.
 *
 * SLIPCAST_SEED=N runs the random sequences with that seed alone. With -DALLOC_COUNT this file is
 * the program at its end, which counts allocations; a test builds it, without sanitizers.
 */
#ifndef ALLOC_COUNT
#include <check.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../runtime/checksum.h"
#include "support/cast.h"
#include "support/run.h"

Suite *cache_ops_suite(void);

#define FOLDER "build/test-castings/cache-ops"

enum { BATCHES = 4, ROW = 64 }; /* more than any shape here has: rows of a batch, tokens of one */

static const cast_shape sliding = { "s", 4, 10, 1, 2 }, full = { "f", 4, 5, 1, 2 },
                        mixed = { "sf", 3, 8, 3, 1 }, hybrid = { "sfsf", 4, 12, 1, 2 };

/* One cache under test, and buffers for all that it takes or returns. */
typedef struct {
    cast_shape shape;
    const sc_casting *api;
    sc_cache *cache;
    int layers;
    float *keys, *values;
    sc_error err;
} subject;

static subject begin(const cast_shape *shape) {
    subject s = { .shape = *shape, .api = cast_make(shape), .layers = (int)strlen(shape->types) };
    const size_t floats = cast_floats(shape, 2 * shape->max_cache_len + 4);
    s.keys = calloc(floats, sizeof(float));
    s.values = calloc(floats, sizeof(float));
    ck_assert(s.keys && s.values);
    ck_assert_int_eq(s.api->cache_create(&s.cache, &s.err), SC_OK);
    return s;
}

static void end(subject *s) {
    s->api->cache_destroy(s->cache);
    free(s->keys);
    free(s->values);
}

/* ---- tokens: every float that is stored is told from every other ---- */

static int token_id(int serial, int b) { return serial * BATCHES + b; }

/* The float at dimension d of a token; kind 0: key, 1: value. Id 0 is no token but zeros. */
static float number(int kind, int layer, int head, int id, int d) {
    return id ? (float)(1 + d + CAST_DIM * (kind + 2 * (head + 2 * (layer + CAST_LAYERS * id))))
              : 0;
}

static void fill(subject *s, int layer, int serial, int tokens) {
    float *k = s->keys, *v = s->values;
    for (int b = 0; b < s->shape.batch; b++)
        for (int h = 0; h < s->shape.heads; h++)
            for (int t = 0; t < tokens; t++)
                for (int d = 0; d < CAST_DIM; d++) {
                    *k++ = number(0, layer, h, token_id(serial + t, b), d);
                    *v++ = number(1, layer, h, token_id(serial + t, b), d);
                }
}

static void push(subject *s, int layer, int serial, int tokens) {
    fill(s, layer, serial, tokens);
    const int rc = s->api->cache_update(s->cache, layer, s->keys, s->values, tokens, &s->err);
    ck_assert_msg(!rc, "%s", s->err.message);
}

static void push_all(subject *s, int serial, int tokens) {
    for (int layer = 0; layer < s->layers; layer++)
        push(s, layer, serial, tokens);
}

/* The ids of tokens that a layer should show, per row of the batch. */
typedef struct {
    int id[BATCHES][ROW];
} rows;

/* These serials in every row, 0 for zeros; row b shows what row from[b] was given (NULL: b). */
static rows rows_of(const int *serials, int count, const int32_t *from) {
    rows r = { 0 };
    for (int b = 0; b < BATCHES; b++)
        for (int j = 0; j < count; j++)
            r.id[b][j] = serials[j] ? token_id(serials[j], from ? from[b] : b) : 0;
    return r;
}

/* The keys and values that the cache has just returned, [batch, heads, length, dim]. */
static void assert_tokens(const subject *s, int layer, int64_t length, const rows *wanted,
                          const char *what) {
    const float *got[2] = { s->keys, s->values };
    for (int b = 0; b < s->shape.batch; b++)
        for (int h = 0; h < s->shape.heads; h++)
            for (int64_t j = 0; j < length; j++)
                for (int i = 0; i < 2 * CAST_DIM; i++) {
                    const int kind = i % 2, d = i / 2;
                    const float want = number(kind, layer, h, wanted->id[b][j], d),
                                have = got[kind]
                                          [((b * s->shape.heads + h) * length + j) * CAST_DIM + d];
                    if (have != want)
                        ck_abort_msg("%s: layer %d, %s [%d, %d, %" PRId64 ", %d]: %g, not %g", what,
                                     layer, kind ? "value" : "key", b, h, j, d, (double)have,
                                     (double)want);
                }
}

static void assert_read(subject *s, int layer, const rows *wanted, const char *what) {
    if (s->api->cache_read(s->cache, layer, s->keys, s->values, &s->err))
        ck_abort_msg("%s: %s", what, s->err.message);
    assert_tokens(s, layer, cast_slots(&s->shape, layer), wanted, what);
}

static void assert_visible(subject *s, int layer, int64_t length, const rows *wanted,
                           const char *what) {
    int64_t got = -1;
    if (s->api->cache_visible(s->cache, layer, NULL, NULL, &got, &s->err) || got != length)
        ck_abort_msg("%s: layer %d shows %" PRId64 " tokens, not %" PRId64 " (%s)", what, layer,
                     got, length, s->err.message);
    if (s->api->cache_visible(s->cache, layer, s->keys, s->values, &got, &s->err) || got != length)
        ck_abort_msg("%s: layer %d: the second look differs", what, layer);
    assert_tokens(s, layer, length, wanted, what);
}

/* ---- what must not change when a call is refused ---- */

typedef struct {
    char *data;
    size_t bytes;
} state;

/* All that a caller can see, and the saved file, which has the padding too. */
static state state_of(const subject *s) {
    state now;
    size_t more;
    char *seen = cast_state(&s->shape, s->cache, 1, &now.bytes);
    ck_assert_int_eq(s->api->cache_save(s->cache, FOLDER "/state", NULL), SC_OK);
    char *file = cast_file(FOLDER "/state", &more);
    now.data = realloc(seen, now.bytes + more);
    ck_assert_ptr_nonnull(now.data);
    memcpy(now.data + now.bytes, file, more);
    now.bytes += more;
    free(file);
    return now;
}

static void assert_same(const state *a, const state *b, const char *what) {
    ck_assert_msg(a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes), "%s: not the same",
                  what);
}

static void assert_unchanged(const subject *s, state *before, const char *what) {
    state now = state_of(s);
    assert_same(before, &now, what);
    free(now.data);
    free(before->data);
}

/* The call, which is given err, fails with that code and text, and again when nobody listens;
 * neither changes anything. */
#define ASSERT_REFUSED(s, refusal, part, ...)                                                      \
    do {                                                                                           \
        state before_ = state_of(s);                                                               \
        sc_error *err = &(s)->err;                                                                 \
        *err = (sc_error){ 0 };                                                                    \
        ck_assert_int_eq((__VA_ARGS__), refusal);                                                  \
        ck_assert_int_eq(err->code, refusal);                                                      \
        ck_assert_msg(strstr(err->message, part) != NULL, "%s: without \"%s\"", err->message,      \
                      part);                                                                       \
        err = NULL;                                                                                \
        ck_assert_int_eq((__VA_ARGS__), refusal);                                                  \
        assert_unchanged(s, &before_, #__VA_ARGS__);                                               \
    } while (0)

/* ---- pushes: the table of the field's cases, window 4, computed with transformers 5.24.0 ---- */

typedef struct {
    int tokens;
    int64_t length, offset; /* mask sizes before the push */
    int visible[ROW], stored[4];
} pushed;

static const pushed pushes[][4] = {
    { { 3, 4, 0, { 1, 2, 3, 0 }, { 1, 2, 3, 0 } },
      { 1, 4, 0, { 1, 2, 3, 4 }, { 1, 2, 3, 4 } },
      { 1, 4, 1, { 2, 3, 4, 5 }, { 2, 3, 4, 5 } },
      { 1, 4, 2, { 3, 4, 5, 6 }, { 3, 4, 5, 6 } } },
    { { 6, 6, 0, { 1, 2, 3, 4, 5, 6 }, { 3, 4, 5, 6 } },
      { 1, 4, 3, { 4, 5, 6, 7 }, { 4, 5, 6, 7 } },
      { 2, 5, 4, { 5, 6, 7, 8, 9 }, { 6, 7, 8, 9 } } },
    { { 2, 4, 0, { 1, 2, 0, 0 }, { 1, 2, 0, 0 } },
      { 3, 5, 0, { 1, 2, 3, 4, 5 }, { 2, 3, 4, 5 } },
      { 2, 5, 2, { 3, 4, 5, 6, 7 }, { 4, 5, 6, 7 } } },
    { { 4, 4, 0, { 1, 2, 3, 4 }, { 1, 2, 3, 4 } },
      { 4, 7, 1, { 2, 3, 4, 5, 6, 7, 8 }, { 5, 6, 7, 8 } },
      { 4, 7, 5, { 6, 7, 8, 9, 10, 11, 12 }, { 9, 10, 11, 12 } } },
};
enum { PUSHES = sizeof pushes / sizeof *pushes };

START_TEST(a_push_shows_and_keeps_what_the_reference_does) {
    subject s = begin(&sliding);
    int serial = 1;
    for (int i = 0; i < 4 && pushes[_i][i].tokens; i++) {
        const pushed *p = &pushes[_i][i];
        char what[64];
        snprintf(what, sizeof what, "row %d, push %d", _i, i);
        int64_t length = -1, offset = -1;
        ck_assert_int_eq(s.api->cache_mask_sizes(s.cache, 0, p->tokens, &length, &offset, &s.err),
                         SC_OK);
        ck_assert_msg(length == p->length && offset == p->offset,
                      "%s: mask sizes %" PRId64 ", %" PRId64, what, length, offset);
        push(&s, 0, serial, p->tokens);
        serial += p->tokens;
        const rows visible = rows_of(p->visible, ROW, NULL), stored = rows_of(p->stored, 4, NULL);
        assert_visible(&s, 0, p->length, &visible, what);
        assert_read(&s, 0, &stored, what);
    }
    end(&s);
}
END_TEST

/* ---- rewind ---- */

/* Three tokens, one taken back, another in its place: the reference has 1 2 9 on both kinds. */
START_TEST(a_token_taken_back_makes_room_for_another) {
    const cast_shape *const shapes[] = { &full, &sliding };
    subject s = begin(shapes[_i]);
    const int slots = cast_slots(&s.shape, 0);
    const rows two = rows_of((const int[]){ 1, 2 }, 2, NULL),
               other = rows_of((const int[]){ 1, 2, 9 }, 3, NULL);
    int64_t length = -1;
    push(&s, 0, 1, 3);
    ck_assert_int_eq(s.api->cache_crop(s.cache, -1, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 2);
    assert_read(&s, 0, &two, "after crop");
    ck_assert_int_eq(s.api->cache_visible(s.cache, 0, NULL, NULL, &length, &s.err), SC_ESTATE);
    ck_assert_int_eq(length, -1);
    push(&s, 0, 9, 1);
    assert_visible(&s, 0, slots, &other, "after the other");
    assert_read(&s, 0, &other, "after the other");
    end(&s);
}
END_TEST

/* The reference corrupts such a ring; casting.h promises SC_EFULL. */
START_TEST(a_ring_that_has_forgotten_does_not_go_back) {
    subject s = begin(&sliding);
    push(&s, 0, 1, 6);
    ASSERT_REFUSED(&s, SC_EFULL, "by 2: its ring of 4 slots has seen 6",
                   s.api->cache_crop(s.cache, -2, err));
    end(&s);
}
END_TEST

START_TEST(a_crop_that_one_layer_refuses_changes_none) {
    subject s = begin(&hybrid);
    push_all(&s, 1, 4);
    push(&s, 2, 5, 1); /* a ring: one token more than its slots */
    ASSERT_REFUSED(&s, SC_EFULL, "layer 2", s.api->cache_crop(s.cache, -1, err));
    end(&s);
    s = begin(&hybrid);
    push(&s, 0, 1, 3);
    push(&s, 1, 1, 1);
    push(&s, 2, 1, 3);
    push(&s, 3, 1, 3);
    ASSERT_REFUSED(&s, SC_EUSAGE, "layer 1: crop by -2 of 1", s.api->cache_crop(s.cache, -2, err));
    end(&s);
}
END_TEST

START_TEST(a_crop_takes_a_count_of_what_is_there) {
    subject s = begin(&full);
    push(&s, 0, 1, 3);
    ASSERT_REFUSED(&s, SC_EUSAGE, "crop by 1", s.api->cache_crop(s.cache, 1, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "crop by -4 of 3", s.api->cache_crop(s.cache, -4, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "of 3", s.api->cache_crop(s.cache, INT64_MIN, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "crop by", s.api->cache_crop(s.cache, INT64_MAX, err));
    state before = state_of(&s);
    ck_assert_int_eq(s.api->cache_crop(s.cache, 0, &s.err), SC_OK);
    assert_unchanged(&s, &before, "crop by 0");
    ck_assert_int_eq(s.api->cache_crop(s.cache, -3, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 0);
    end(&s);
}
END_TEST

/* ---- reset and reorder ---- */

START_TEST(a_reset_cache_is_as_good_as_new) {
    subject s = begin(&hybrid);
    state fresh = state_of(&s);
    push_all(&s, 1, 7);
    state first = state_of(&s);
    ck_assert_int_eq(s.api->cache_reset(s.cache, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_pad(s.cache, (const int64_t[]){ 2 }, &s.err), SC_OK);
    push_all(&s, 20, 3);
    push_all(&s, 23, 8);
    ck_assert_int_eq(s.api->cache_reset(s.cache, &s.err), SC_OK);
    const rows zeros = { 0 };
    for (int layer = 0; layer < s.layers; layer++) {
        ck_assert_int_eq(s.api->cache_seq_length(s.cache, layer), 0);
        assert_read(&s, layer, &zeros, "after reset");
    }
    state again = state_of(&s);
    assert_same(&fresh, &again, "a new cache and one after reset");
    push_all(&s, 1, 7);
    assert_unchanged(&s, &first, "the same prompt after reset");
    free(fresh.data);
    free(again.data);
    end(&s);
}
END_TEST

/* int64 number i of a saved cache's lengths and paddings: docs/cache.md, "Save and load". */
/* Where the numbers of a saved cache are, of the shapes below: seen and kept [layers][batch],
 * padding [batch]. */
static int seen_at(const cast_shape *shape, int layer, int row) {
    return layer * shape->batch + row;
}

static int padding_at(const cast_shape *shape, int row) {
    return 2 * (int)strlen(shape->types) * shape->batch + row;
}

static int64_t saved_number(const subject *s, int i) {
    size_t bytes;
    int64_t value;
    ck_assert_int_eq(s->api->cache_save(s->cache, FOLDER "/numbers", NULL), SC_OK);
    char *file = cast_file(FOLDER "/numbers", &bytes);
    memcpy(&value, file + 40 + 8 * i, sizeof value);
    free(file);
    return value;
}

START_TEST(a_reorder_moves_rows_in_every_layer) {
    static const int32_t beams[BATCHES] = { 2, 0, 0 };
    subject s = begin(&mixed);
    ck_assert_int_eq(s.api->cache_pad(s.cache, (const int64_t[]){ 4, 5, 6 }, &s.err), SC_OK);
    push_all(&s, 1, 5);
    ck_assert_int_eq(s.api->cache_reorder(s.cache, beams, &s.err), SC_OK);
    const rows ring = rows_of((const int[]){ 3, 4, 5 }, 3, beams),
               line = rows_of((const int[]){ 1, 2, 3, 4, 5 }, 5, beams);
    assert_read(&s, 0, &ring, "ring");
    assert_read(&s, 1, &line, "full");
    for (int b = 0; b < 3; b++)
        ck_assert_int_eq(saved_number(&s, padding_at(&s.shape, b)), 4 + beams[b]);
    /* What comes next joins the rows as they are now. */
    rows next = rows_of((const int[]){ 4, 5 }, 2, beams);
    for (int b = 0; b < 3; b++)
        next.id[b][2] = token_id(6, b);
    push(&s, 0, 6, 1);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 6);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 1), 5);
    assert_visible(&s, 0, 3, &next, "ring, next");
    end(&s);
}
END_TEST

START_TEST(a_beam_that_is_none_is_refused) {
    subject s = begin(&mixed);
    push_all(&s, 1, 5);
    ASSERT_REFUSED(&s, SC_EUSAGE, "beam_idx[1]: 3",
                   s.api->cache_reorder(s.cache, (const int32_t[]){ 2, 3, 0 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "beam_idx[2]: -1",
                   s.api->cache_reorder(s.cache, (const int32_t[]){ 1, 0, -1 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "beam_idx[0]: -2147483648",
                   s.api->cache_reorder(s.cache, (const int32_t[]){ INT32_MIN, 0, 0 }, err));
    end(&s);
}
END_TEST

/* ---- save and load ---- */

/* docs/cache.md, "Save and load": the fields, then the used slots of K and V, float32. */
static size_t file_bytes(const cast_shape *shape, int seen) {
    const size_t layers = strlen(shape->types), batch = (size_t)shape->batch;
    size_t bytes = 8 + 32 + 2 * 8 * layers * batch + 8 * batch + 8;
    for (int layer = 0; layer < (int)layers; layer++) {
        const int slots = cast_slots(shape, layer);
        bytes += 2 * sizeof(float) * cast_floats(shape, seen < slots ? seen : slots);
    }
    return bytes;
}

/* A ring that has wrapped, a full layer that has room, padding: a session of the mixed shape. */
static void make_session(subject *s, int serial) {
    ck_assert_int_eq(s->api->cache_pad(s->cache, (const int64_t[]){ 0, 2, serial % 8 }, &s->err),
                     SC_OK);
    push_all(s, serial, 4);
    push_all(s, serial + 4, 1);
}

static void save(const subject *s, const char *path) {
    sc_error err = { 0 };
    ck_assert_msg(!s->api->cache_save(s->cache, path, &err), "%s", err.message);
}

START_TEST(a_file_holds_the_used_slots_and_no_more) {
    subject s = begin(&mixed);
    for (int seen = 0; seen <= s.shape.max_cache_len; seen++) {
        size_t bytes;
        if (seen)
            push_all(&s, seen, 1);
        save(&s, FOLDER "/sizes");
        free(cast_file(FOLDER "/sizes", &bytes));
        ck_assert_uint_eq(bytes, file_bytes(&s.shape, seen));
        ck_assert_int_eq(saved_number(&s, 0), seen);
        ck_assert_int_eq(saved_number(&s, seen_at(&s.shape, 1, 2)), seen);
    }
    const size_t arena = 2 * sizeof(float) * cast_floats(&mixed, 3 + 8);
    ck_assert_uint_lt(file_bytes(&mixed, 2), arena);
    end(&s);
}
END_TEST

START_TEST(a_loaded_session_goes_on_like_the_saved_one) {
    subject a = begin(&mixed), b = begin(&mixed);
    size_t bytes, other_bytes;
    int64_t length = -1;
    make_session(&a, 1);
    save(&a, FOLDER "/session");
    push_all(&b, 50, 8);
    ck_assert_int_eq(b.api->cache_load(b.cache, FOLDER "/session", &b.err), SC_OK);
    const rows ring = rows_of((const int[]){ 3, 4, 5 }, 3, NULL),
               line = rows_of((const int[]){ 1, 2, 3, 4, 5 }, 5, NULL);
    assert_read(&b, 0, &ring, "loaded ring");
    assert_read(&b, 1, &line, "loaded full layer");
    for (int layer = 0; layer < b.layers; layer++)
        ck_assert_int_eq(b.api->cache_visible(b.cache, layer, NULL, NULL, &length, NULL),
                         SC_ESTATE);
    save(&b, FOLDER "/again");
    char *file = cast_file(FOLDER "/session", &bytes),
         *again = cast_file(FOLDER "/again", &other_bytes);
    ck_assert_uint_eq(bytes, other_bytes);
    ck_assert(!memcmp(file, again, bytes));
    push_all(&a, 6, 3);
    push_all(&b, 6, 3);
    state wanted = state_of(&a);
    assert_unchanged(&b, &wanted, "both sessions, three tokens later");
    free(file);
    free(again);
    end(&a);
    end(&b);
}
END_TEST

/* Load says no, names the file, and all that can be seen is as in seen. */
static void refuse_load(subject *s, const char *path, const state *seen, const char *how,
                        size_t at) {
    size_t bytes;
    s->err = (sc_error){ 0 };
    const int rc = s->api->cache_load(s->cache, path, &s->err);
    if (rc != SC_EINPUT || s->err.code != rc || !strstr(s->err.message, path))
        ck_abort_msg("%s %zu: %d: %s", how, at, rc, s->err.message);
    char *now = cast_state(&s->shape, s->cache, 1, &bytes);
    if (bytes != seen->bytes || memcmp(now, seen->data, bytes))
        ck_abort_msg("%s %zu: refused, but the cache has changed", how, at);
    free(now);
}

START_TEST(a_file_that_is_cut_changed_or_too_long_is_refused) {
    static const char path[] = FOLDER "/damaged";
    subject a = begin(&mixed), s = begin(&mixed);
    size_t bytes;
    make_session(&a, 1);
    make_session(&s, 50);
    save(&a, path);
    char *data = cast_file(path, &bytes); /* with room behind */
    state before = state_of(&s), seen;
    seen.data = cast_state(&s.shape, s.cache, 1, &seen.bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        cast_write(path, data, cut);
        refuse_load(&s, path, &seen, "cut at", cut);
    }
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        cast_write(path, data, bytes);
        refuse_load(&s, path, &seen, "other bit", bit);
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    }
    memset(data + bytes, 0, 64);
    for (size_t more = 1; more <= 64; more++) {
        cast_write(path, data, bytes + more);
        refuse_load(&s, path, &seen, "too long by", more);
    }
    assert_unchanged(&s, &before, "files that were refused");
    cast_write(path, data, bytes);
    ck_assert_int_eq(s.api->cache_load(s.cache, path, &s.err), SC_OK);
    free(data);
    free(seen.data);
    end(&a);
    end(&s);
}
END_TEST

typedef struct {
    int i;
    int64_t value;
} forged;

/* A session, its full layer full, some of whose int64 numbers are others, with the checksum that
 * belongs to it. */
static void forge(const char *path, const forged *number, int numbers) {
    const size_t checksum_at = 40 + 8 * (2 * 2 * 3 + 3); /* of the mixed shape: 2 layers, 3 rows */
    subject a = begin(&mixed);
    size_t bytes;
    sc_checksum sum;
    make_session(&a, 1);
    push(&a, 1, 6, 3);
    save(&a, path);
    char *data = cast_file(path, &bytes);
    for (int i = 0; i < numbers; i++)
        memcpy(data + 40 + 8 * number[i].i, &number[i].value, sizeof number[i].value);
    sc_checksum_begin(&sum);
    sc_checksum_add(&sum, data, checksum_at);
    sc_checksum_add(&sum, data + checksum_at + 8, bytes - checksum_at - 8);
    const uint64_t end_of_sum = sc_checksum_end(&sum);
    memcpy(data + checksum_at, &end_of_sum, sizeof end_of_sum);
    cast_write(path, data, bytes);
    free(data);
    end(&a);
}

/* seen is at 0 … 5, three rows of the ring, then of the full layer; kept at 6 … 11. */
static const forged impossible[] = {
    { 0, -1 },  { 3, INT64_MIN }, /* lengths below 0 */
    { 4, 9 },                     /* max_cache_len is 8 */
    { 1, 2 },   { 3, 7 },         /* less than there is */
    { 6, 0 },   { 6, 3 },         /* the ring has seen 5: it keeps 2, 3, 4 */
    { 6, -1 },  { 9, 1 },         /* a full layer keeps all */
    { 12, -1 }, { 14, 8 },        /* paddings that pad refuses */
};
enum { IMPOSSIBLE = sizeof impossible / sizeof *impossible };

START_TEST(a_file_with_impossible_numbers_is_refused) {
    static const char path[] = FOLDER "/forged";
    subject s = begin(&mixed);
    make_session(&s, 50);
    forge(path, &impossible[_i], 1);
    ASSERT_REFUSED(&s, SC_EINPUT, path, s.api->cache_load(s.cache, path, err));
    end(&s);
}
END_TEST

/* A ring takes any number of tokens, and then one more is one too many. W = 3, q = 4. */
START_TEST(a_ring_that_has_seen_all_tokens_overflows_nothing) {
    static const char path[] = FOLDER "/forged";
    subject s = begin(&mixed);
    int64_t length, offset;
    forge(path,
          (const forged[]){ { 0, INT64_MAX },
                            { 1, INT64_MAX },
                            { 2, INT64_MAX },
                            { 6, INT64_MAX - 3 },
                            { 7, INT64_MAX - 3 },
                            { 8, INT64_MAX - 3 } },
          6);
    ck_assert_int_eq(s.api->cache_load(s.cache, path, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), INT64_MAX);
    ck_assert_int_eq(s.api->cache_mask_sizes(s.cache, 0, 4, &length, &offset, &s.err), SC_OK);
    ck_assert_int_eq(offset, INT64_MAX - 2);
    ck_assert_int_eq(length, 3 + 4 - 1);
    fill(&s, 0, 6, 1);
    ASSERT_REFUSED(&s, SC_EFULL, "room for 0",
                   s.api->cache_update(s.cache, 0, s.keys, s.values, 1, err));
    end(&s);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_refused) {
    static const char path[] = FOLDER "/nowhere/session";
    subject s = begin(&mixed);
    make_session(&s, 1);
    state before = state_of(&s);
    const int rc = s.api->cache_load(s.cache, path, &s.err);
    ck_assert(rc == SC_EINPUT || rc == SC_EENV);
    ck_assert_int_eq(s.err.code, rc);
    ck_assert_ptr_nonnull(strstr(s.err.message, path));
    ck_assert_int_eq(s.api->cache_load(s.cache, path, NULL), rc);
    ck_assert_int_lt(s.api->cache_load(s.cache, FOLDER, NULL), 0);
    assert_unchanged(&s, &before, "no file");
    end(&s);
}
END_TEST

static const struct {
    cast_shape mine, other;
} strangers[] = {
    { { "s", 4, 10, 1, 2 }, { "f", 4, 4, 1, 2 } },    /* the type alone: both have 4 slots */
    { { "s", 4, 10, 1, 2 }, { "s", 5, 16, 1, 2 } },   /* the window */
    { { "f", 4, 5, 1, 2 }, { "f", 4, 4, 1, 2 } },     /* max_cache_len */
    { { "f", 4, 5, 1, 2 }, { "f", 4, 5, 3, 2 } },     /* batch */
    { { "f", 4, 5, 1, 2 }, { "f", 4, 5, 1, 1 } },     /* heads */
    { { "s", 5, 5, 1, 2 }, { "ss", 5, 20, 1, 2 } },   /* layers */
    { { "ssf", 9, 6, 1, 1 }, { "sff", 9, 6, 1, 1 } }, /* which layer has which shape */
};
enum { STRANGERS = sizeof strangers / sizeof *strangers };

START_TEST(a_file_of_another_casting_is_refused) {
    static const char path[] = FOLDER "/stranger";
    const int row = _i / 2, turned = _i % 2;
    subject a = begin(turned ? &strangers[row].mine : &strangers[row].other),
            s = begin(turned ? &strangers[row].other : &strangers[row].mine);
    push_all(&a, 1, 3);
    push_all(&s, 7, 2);
    save(&a, path);
    ASSERT_REFUSED(&s, SC_EINPUT, path, s.api->cache_load(s.cache, path, err));
    end(&a);
    end(&s);
}
END_TEST

static int entries(const char *folder) {
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return count;
}

/* A disk that is full after so many bytes. */
static int save_within(subject *s, const char *path, size_t bytes) {
    struct rlimit was;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    const struct rlimit small = { bytes, was.rlim_max };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    s->err = (sc_error){ 0 };
    const int rc = s->api->cache_save(s->cache, path, &s->err);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, handler);
    return rc;
}

START_TEST(a_save_that_fails_half_way_leaves_the_old_file) {
    static const char path[] = FOLDER "/full/session";
    subject s = begin(&mixed);
    size_t bytes, now_bytes;
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s/full && mkdir %s/full", FOLDER, FOLDER), 0);
    make_session(&s, 1);
    save(&s, path);
    char *old = cast_file(path, &bytes);
    push_all(&s, 6, 1);
    const size_t whole = file_bytes(&mixed, 6);
    for (size_t room = 0; room < whole; room += room < whole - 20 ? 19 : 1) {
        state before = state_of(&s);
        ck_assert_int_eq(save_within(&s, path, room), SC_EENV);
        ck_assert_int_eq(s.err.code, SC_EENV);
        ck_assert_ptr_nonnull(strstr(s.err.message, path));
        assert_unchanged(&s, &before, "a save that fails");
        char *now = cast_file(path, &now_bytes);
        ck_assert(now_bytes == bytes && !memcmp(now, old, bytes));
        ck_assert_int_eq(entries(FOLDER "/full"), 1);
        free(now);
    }
    ck_assert_int_eq(save_within(&s, path, whole), SC_OK);
    free(cast_file(path, &now_bytes));
    ck_assert_uint_eq(now_bytes, whole);
    ck_assert_int_eq(entries(FOLDER "/full"), 1);
    free(old);
    end(&s);
}
END_TEST

START_TEST(a_save_to_an_impossible_place_leaves_nothing_behind) {
    static const char folder[] = FOLDER "/place", kept[] = FOLDER "/place/kept";
    static const char *const paths[] = { FOLDER "/place/none/session", /* no such folder */
                                         FOLDER "/place/kept/session", /* a file in the way */
                                         FOLDER "/place" };            /* a folder, not empty */
    subject s = begin(&mixed);
    size_t bytes;
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir %s", folder, folder), 0);
    cast_write(kept, "old", 3);
    make_session(&s, 1);
    const int around = entries(FOLDER);
    ck_assert_int_eq(s.api->cache_save(s.cache, paths[_i], &s.err), SC_EENV);
    ck_assert_int_eq(s.err.code, SC_EENV);
    ck_assert_ptr_nonnull(strstr(s.err.message, paths[_i]));
    ck_assert_int_eq(s.api->cache_save(s.cache, paths[_i], NULL), SC_EENV);
    ck_assert_int_eq(entries(folder), 1);
    ck_assert_int_eq(entries(FOLDER), around);
    char *old = cast_file(kept, &bytes);
    ck_assert(bytes == 3 && !memcmp(old, "old", 3));
    free(old);
    end(&s);
}
END_TEST

/* ---- refusals: casting.h says which code, error.h what it means ---- */

START_TEST(padding_is_checked_and_comes_first) {
    static const int64_t most[] = { 7, 0, 1 };
    subject s = begin(&mixed);
    ck_assert_int_eq(s.api->cache_pad(s.cache, most, &s.err), SC_OK);
    for (int b = 0; b < 3; b++)
        ck_assert_int_eq(saved_number(&s, padding_at(&s.shape, b)), most[b]);
    ASSERT_REFUSED(&s, SC_EUSAGE, "padding[1]: -1",
                   s.api->cache_pad(s.cache, (const int64_t[]){ 3, -1, 3 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "padding[2]: 8",
                   s.api->cache_pad(s.cache, (const int64_t[]){ 3, 3, 8 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "padding[0]: 4294967296",
                   s.api->cache_pad(s.cache, (const int64_t[]){ (int64_t)1 << 32, 3, 3 }, err));
    push(&s, 1, 1, 1); /* any layer will do */
    ASSERT_REFUSED(&s, SC_ESTATE, "layer 1 has 1 token",
                   s.api->cache_pad(s.cache, (const int64_t[]){ 0, 0, 0 }, err));
    ck_assert_int_eq(s.api->cache_reset(s.cache, &s.err), SC_OK);
    ck_assert_int_eq(saved_number(&s, padding_at(&s.shape, 0)), 0);
    ck_assert_int_eq(s.api->cache_pad(s.cache, most, &s.err), SC_OK);
    end(&s);
}
END_TEST

/* After 5 tokens on each layer of sf, window 3, max_cache_len 8. */
static const struct {
    int layer, tokens, code;
    const char *part;
} bad_updates[] = {
    { -1, 1, SC_EUSAGE, "layer -1 is none" },
    { 2, 1, SC_EUSAGE, "layer 2 is none" },
    { INT_MIN, 1, SC_EUSAGE, "layer -2147483648 is none" },
    { INT_MAX, 1, SC_EUSAGE, "layer 2147483647 is none" },
    { 0, 0, SC_EUSAGE, "layer 0: an update of 0" },
    { 1, -1, SC_EUSAGE, "layer 1: an update of -1" },
    { 0, INT_MIN, SC_EUSAGE, "layer 0: an update of -2147483648" },
    { 1, 4, SC_EFULL, "layer 1: 4 tokens at position 5, room for 3" },
    { 1, INT_MAX, SC_EFULL, "layer 1: 2147483647 tokens at position 5, room for 3" },
    { 0, 9, SC_EFULL, "layer 0: 9 tokens in one update, at most 8" },
    { 0, INT_MAX, SC_EFULL, "layer 0: 2147483647 tokens in one update, at most 8" },
};
enum { BAD_UPDATES = sizeof bad_updates / sizeof *bad_updates };

START_TEST(an_update_that_does_not_fit_changes_nothing) {
    subject s = begin(&mixed);
    push_all(&s, 1, 5);
    fill(&s, 0, 50, s.shape.max_cache_len + 2);
    ASSERT_REFUSED(&s, bad_updates[_i].code, bad_updates[_i].part,
                   s.api->cache_update(s.cache, bad_updates[_i].layer, s.keys, s.values,
                                       bad_updates[_i].tokens, err));
    push(&s, 0, 6, 8);
    push(&s, 1, 6, 3);
    end(&s);
}
END_TEST

/* Law 2: the reference forgets here. Window 9, five of six slots used. */
START_TEST(a_cache_shorter_than_its_window_fills_up) {
    static const cast_shape shape = { "ssf", 9, 6, 1, 1 };
    subject s = begin(&shape);
    push_all(&s, 1, 5);
    fill(&s, 0, 6, 2);
    for (int layer = 0; layer < s.layers; layer++)
        ASSERT_REFUSED(&s, SC_EFULL, "2 tokens at position 5, room for 1",
                       s.api->cache_update(s.cache, layer, s.keys, s.values, 2, err));
    push_all(&s, 6, 1);
    ASSERT_REFUSED(&s, SC_EFULL, "1 tokens at position 6, room for 0",
                   s.api->cache_update(s.cache, 0, s.keys, s.values, 1, err));
    end(&s);
}
END_TEST

START_TEST(a_layer_that_is_none_is_refused_by_every_call) {
    static const int none[] = { -1, 2, INT_MIN, INT_MAX };
    const int layer = none[_i];
    subject s = begin(&mixed);
    char part[64];
    int64_t length = -7, offset = -7;
    snprintf(part, sizeof part, "layer %d is none", layer);
    push_all(&s, 1, 5);
    s.keys[0] = s.values[0] = 0.25f;
    ASSERT_REFUSED(&s, SC_EUSAGE, part,
                   s.api->cache_visible(s.cache, layer, s.keys, s.values, &length, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, part, s.api->cache_read(s.cache, layer, s.keys, s.values, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, part,
                   s.api->cache_mask_sizes(s.cache, layer, 1, &length, &offset, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, part, s.api->cache_offload(s.cache, layer, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, part, s.api->cache_prefetch(s.cache, layer, err));
    ck_assert(length == -7 && offset == -7 && s.keys[0] == 0.25f && s.values[0] == 0.25f);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, layer), -1);
    ck_assert_int_eq(s.api->cache_max_length(s.cache, layer), layer == -1 ? 8 : -2);
    end(&s);
}
END_TEST

START_TEST(lengths_and_masks_are_those_of_the_layer) {
    subject s = begin(&mixed);
    int64_t length = -7, offset = -7;
    ASSERT_REFUSED(&s, SC_ESTATE, "layer 0",
                   s.api->cache_visible(s.cache, 0, s.keys, s.values, &length, err));
    push(&s, 0, 1, 5);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 5);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 1), 0);
    ck_assert_int_eq(s.api->cache_max_length(s.cache, 0), 3);
    ck_assert_int_eq(s.api->cache_max_length(s.cache, 1), 8);
    ASSERT_REFUSED(&s, SC_EUSAGE, "query_length 0",
                   s.api->cache_mask_sizes(s.cache, 0, 0, &length, &offset, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "query_length -2147483648",
                   s.api->cache_mask_sizes(s.cache, 1, INT_MIN, &length, &offset, err));
    ck_assert(length == -7 && offset == -7);
    ck_assert_int_eq(s.api->cache_mask_sizes(s.cache, 0, INT_MAX, &length, &offset, NULL), SC_OK);
    ck_assert_int_eq(offset, 3); /* max(n - W + 1, 0) and W + q - 1 */
    ck_assert_int_eq(length, 3 + (int64_t)INT_MAX - 1);
    end(&s);
}
END_TEST

/* ---- nothing is allocated after create and open ---- */

#define COUNT FOLDER "/count"

START_TEST(nothing_is_allocated_after_create_and_open) {
    char *printed;
    int creation = 0, later = -1;
    cast_make(&hybrid);
    ck_assert_int_eq(
        run(NULL, NULL,
            "rm -rf %s && mkdir %s && "
            "$SLIPCAST export %s-config/config.json -o %s/cast --name cast --only cache "
            "--arch generic --max-cache-len 12 && make -C %s/cast CFLAGS=-O1 LDFLAGS= libcast.so "
            "&& "
            "$SLIPCAST export examples/austen -o %s/austen --name austen --max-cache-len 64 "
            "--quiet && make -C %s/austen CFLAGS=-O1 LDFLAGS= libausten.so && "
            "$SLIPCAST export examples/austen -o %s/host --name austen --max-cache-len 64 "
            "--offloading --quiet && make -C %s/host CFLAGS=-O1 LDFLAGS= libausten.so && "
            "${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -O1 -fno-builtin -DALLOC_COUNT "
            "tests/check_cache_ops.c -rdynamic -ldl -o %s/count",
            COUNT, COUNT, cast_folder(&hybrid), COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT),
        0);
    const char *const casting[] = { "cast/libcast.so",
                                    "austen/libausten.so " COUNT "/austen/austen.weights",
                                    "host/libausten.so " COUNT "/host/austen.weights" };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(run(&printed, NULL, "%s/count %s/%s", COUNT, COUNT, casting[i]), 0);
        ck_assert_int_eq(sscanf(printed, "%d %d", &creation, &later), 2);
        ck_assert_int_ge(creation,
                         1 + 3 * (i > 0)); /* open takes weights, threads and scratch too */
        ck_assert_int_eq(later, 0);
        free(printed);
    }
}
END_TEST

/* ---- random operations against a model that never forgets ---- */

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
    int id[BATCHES][HISTORY];
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

static int draw(trial *t, int below) { /* xorshift64* */
    t->random ^= t->random >> 12;
    t->random ^= t->random << 25;
    t->random ^= t->random >> 27;
    return (int)((t->random * 2685821657736338717u >> 33) % (unsigned)below);
}

/* Of the tokens before an update, those that its queries still see: a window of W is the query and
 * the W - 1 before it. */
static int still_seen(const trial *t, int layer, int old) {
    const int others = cast_slots(&t->s.shape, layer) - 1;
    return t->s.shape.types[layer] == 's' && old > others ? others : old;
}

/* length positions of each row from there on; zeros behind the last token. */
static rows model_rows(const trial *t, int layer, int from, int length) {
    const layer_model *m = &t->layer[layer];
    rows r = { 0 };
    for (int b = 0; b < t->s.shape.batch; b++)
        for (int j = 0; j < length && from + j < m->count; j++)
            r.id[b][j] = m->id[b][from + j];
    return r;
}

static int larger(int a, int b) { return a > b ? a : b; }

static void check_mask(trial *t, int layer) {
    const int count = t->layer[layer].count, slots = cast_slots(&t->s.shape, layer),
              queries = 1 + draw(t, t->s.shape.max_cache_len + 2),
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
    const rows wanted = model_rows(t, layer, m->old - past, length);
    assert_visible(&t->s, layer, length, &wanted, t->what);
}

static void check_all(trial *t) {
    for (int layer = 0; layer < t->s.layers; layer++) {
        const int count = t->layer[layer].count, slots = cast_slots(&t->s.shape, layer);
        const rows stored = model_rows(t, layer, larger(0, count - slots), slots);
        if (t->s.api->cache_seq_length(t->s.cache, layer) != count)
            ck_abort_msg("%s: layer %d has %" PRId64 " tokens, not %d", t->what, layer,
                         t->s.api->cache_seq_length(t->s.cache, layer), count);
        check_mask(t, layer);
        check_visible(t, layer);
        assert_read(&t->s, layer, &stored, t->what);
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
    const int layer = draw(t, t->s.layers), most = shape->max_cache_len,
              tokens = draw(t, 2) ? 1 + draw(t, 3) : 1 + draw(t, most + 2),
              endless = shape->types[layer] == 's' && shape->window <= most;
    layer_model *m = &t->layer[layer];
    const int fits = tokens <= most && (endless || m->count + tokens <= most);
    fill(&t->s, layer, t->serial, tokens);
    const int rc =
        t->s.api->cache_update(t->s.cache, layer, t->s.keys, t->s.values, tokens, &t->s.err);
    expect(t, rc, fits ? SC_OK : SC_EFULL, "update", tokens);
    if (fits) {
        for (int b = 0; b < shape->batch; b++)
            for (int i = 0; i < tokens; i++)
                m->id[b][m->count + i] = token_id(t->serial + i, b);
        m->old = m->count;
        m->count += tokens;
        if (shape->types[layer] == 's')
            t->last_ring = layer;
    }
    t->serial += tokens;
}

static void random_crop(trial *t) {
    const int amount = 1 - draw(t, 5);
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
    const int batch = t->s.shape.batch, bad = !draw(t, 6);
    int32_t from[BATCHES];
    for (int b = 0; b < batch; b++)
        from[b] = draw(t, batch);
    if (bad)
        from[draw(t, batch)] = draw(t, 2) ? batch : -1;
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
    static const char path[] = FOLDER "/moved";
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
    *t = (trial){ .s = begin(shape), .serial = 1, .random = seed * 0x9E3779B97F4A7C15u | 1 };
    ck_assert_int_eq(t->s.api->cache_create(&t->spare, &t->s.err), SC_OK);
    forget_updates(t);
    for (int step = 0; step < STEPS; step++) {
        snprintf(t->what, sizeof t->what,
                 "%s, window %d, max_cache_len %d, batch %d: SLIPCAST_SEED=%" PRIu64 ", step %d",
                 shape->types, shape->window, shape->max_cache_len, shape->batch, seed, step);
        /* Of 100: 72 updates, 9 crops, 9 reorders, 6 resets, 4 moves. */
        const int op = draw(t, 100);
        if (op < 72)
            random_update(t);
        else
            ops[(op >= 81) + (op >= 90) + (op >= 96)](t);
        check_all(t);
    }
    t->s.api->cache_destroy(t->spare);
    end(&t->s);
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
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", FOLDER, FOLDER), 0);
    cast_make(&hybrid);
    cast_make(&full);
    for (int i = 0; i < RANDOM_SHAPES; i++)
        cast_make(&random_shapes[i]);
    for (int i = 0; i < STRANGERS; i++) {
        cast_make(&strangers[i].mine);
        cast_make(&strangers[i].other);
    }
}

Suite *cache_ops_suite(void) {
    Suite *suite = suite_create("cache_ops");
    TCase *ops = tcase_create("operations");
    tcase_set_timeout(ops, 300);
    tcase_add_unchecked_fixture(ops, make_castings, NULL);
    tcase_add_loop_test(ops, a_push_shows_and_keeps_what_the_reference_does, 0, PUSHES);
    tcase_add_loop_test(ops, a_token_taken_back_makes_room_for_another, 0, 2);
    tcase_add_test(ops, a_ring_that_has_forgotten_does_not_go_back);
    tcase_add_test(ops, a_crop_that_one_layer_refuses_changes_none);
    tcase_add_test(ops, a_crop_takes_a_count_of_what_is_there);
    tcase_add_test(ops, a_reset_cache_is_as_good_as_new);
    tcase_add_test(ops, a_reorder_moves_rows_in_every_layer);
    tcase_add_test(ops, a_beam_that_is_none_is_refused);
    tcase_add_test(ops, a_file_holds_the_used_slots_and_no_more);
    tcase_add_test(ops, a_loaded_session_goes_on_like_the_saved_one);
    tcase_add_test(ops, a_file_that_is_cut_changed_or_too_long_is_refused);
    tcase_add_loop_test(ops, a_file_with_impossible_numbers_is_refused, 0, IMPOSSIBLE);
    tcase_add_test(ops, a_ring_that_has_seen_all_tokens_overflows_nothing);
    tcase_add_test(ops, a_file_that_is_not_there_is_refused);
    tcase_add_loop_test(ops, a_file_of_another_casting_is_refused, 0, 2 * STRANGERS);
    tcase_add_test(ops, a_save_that_fails_half_way_leaves_the_old_file);
    tcase_add_loop_test(ops, a_save_to_an_impossible_place_leaves_nothing_behind, 0, 3);
    tcase_add_test(ops, padding_is_checked_and_comes_first);
    tcase_add_loop_test(ops, an_update_that_does_not_fit_changes_nothing, 0, BAD_UPDATES);
    tcase_add_test(ops, a_cache_shorter_than_its_window_fills_up);
    tcase_add_loop_test(ops, a_layer_that_is_none_is_refused_by_every_call, 0, 4);
    tcase_add_test(ops, lengths_and_masks_are_those_of_the_layer);
    tcase_add_test(ops, nothing_is_allocated_after_create_and_open);
    tcase_add_loop_test(ops, random_operations_do_what_the_model_does, 0, RANDOM_SHAPES);
    suite_add_tcase(suite, ops);
    return suite;
}

#else /* ALLOC_COUNT: the program that runs a casting over an allocator of its own, which counts   \
       */
/*
 *     count LIBRARY [WEIGHTS]
 *
 * prints the allocations of create (and open), and those of all calls after it. The allocator takes
 * the place of libc's for the whole process, libraries included; nothing is given back.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../runtime/casting.h"

enum { HEAP = 1 << 28, FLOATS = 1 << 18, TOKENS = 1 << 10 };

static _Alignas(64) unsigned char heap[HEAP]; /* zeros until it is handed out */
static _Atomic size_t used;
static _Atomic int calls;

/* The size lies in front of the block. */
static void *take(size_t alignment, size_t bytes) {
    size_t at = atomic_load(&used), from;
    calls++;
    do {
        from = (at + sizeof bytes + alignment - 1) / alignment * alignment;
        if (bytes > HEAP || from > HEAP - bytes)
            return NULL;
    } while (!atomic_compare_exchange_weak(&used, &at, from + bytes));
    memcpy(heap + from - sizeof bytes, &bytes, sizeof bytes);
    return heap + from;
}

void *malloc(size_t bytes) { return take(16, bytes); }

void *calloc(size_t count, size_t bytes) {
    return bytes && count > HEAP / bytes ? NULL : take(16, count * bytes);
}

void *realloc(void *old, size_t bytes) {
    size_t had = 0;
    void *block = take(16, bytes);
    if (old)
        memcpy(&had, (unsigned char *)old - sizeof had, sizeof had);
    if (block && had)
        memcpy(block, old, had < bytes ? had : bytes);
    return block;
}

void free(void *block) { (void)block; }

void *aligned_alloc(size_t alignment, size_t bytes) { return take(alignment, bytes); }

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = take(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    calls++;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

static float keys[FLOATS], values[FLOATS], logits[FLOATS];
static int64_t padding[TOKENS];
static int32_t rows[TOKENS], tokens[TOKENS];

#define TRY(call)                                                                                  \
    do {                                                                                           \
        sc_error err = { 0 };                                                                      \
        if ((call) < 0) {                                                                          \
            fprintf(stderr, "%s: %s\n", #call, err.message);                                       \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

/* Every call on every layer; n tokens, then 2 n, so that a ring wraps and evicts. */
static int use_cache(const sc_casting *c, sc_cache *cache, int n) {
    int64_t length, offset;
    TRY(c->cache_pad(cache, padding, &err));
    for (int layer = 0; layer < c->layers; layer++) {
        TRY(c->cache_prefetch(cache, layer, &err));
        TRY(c->cache_mask_sizes(cache, layer, n, &length, &offset, &err));
        TRY(c->cache_update(cache, layer, keys, values, n, &err));
        TRY(c->cache_visible(cache, layer, keys, values, &length, &err));
        TRY(c->cache_read(cache, layer, keys, values, &err));
        TRY(c->cache_offload(cache, layer, &err));
        TRY((int)c->cache_seq_length(cache, layer));
        TRY((int)c->cache_max_length(cache, layer));
    }
    TRY(c->cache_crop(cache, -1, &err));
    TRY(c->cache_reorder(cache, rows, &err));
    for (int layer = 0; layer < c->layers; layer++) {
        TRY(c->cache_update(cache, layer, keys, values, 2 * n, &err));
        TRY(c->cache_visible(cache, layer, keys, values, &length, &err));
        TRY(c->cache_read(cache, layer, keys, values, &err));
    }
    TRY(c->cache_reset(cache, &err));
    return 0;
}

/* A prompt in two pieces, all logits, then tokens one by one until the cache is full. */
static int use_model(const sc_casting *c, sc_model *model, sc_cache *cache, int n) {
    TRY(c->model_forward(model, cache, tokens, 2 * n, logits, 0, &err));
    TRY(c->model_forward(model, cache, tokens, n, logits, 1, &err));
    for (int i = 3 * n; i < c->max_cache_len; i++)
        TRY(c->model_forward(model, cache, tokens, 1, logits, 0, &err));
    TRY(c->cache_reset(cache, &err));
    return 0;
}

int main(int argc, char **argv) {
    const sc_options options = { .threads = 2 };
    sc_cache *cache = NULL;
    sc_model *model = NULL;
    const sc_casting *(*get)(void) = NULL;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library)
        *(void **)&get = dlsym(library, "slipcast_casting");
    if (!get)
        return 2;
    const sc_casting *c = get();
    const int n = c->max_cache_len / 4;
    calls = 0;
    TRY(c->cache_create(&cache, &err));
    if (argc > 2)
        TRY(c->model_open(&model, argv[2], &options, &err));
    const int creation = calls;
    calls = 0;
    if (use_cache(c, cache, n) || (model && use_model(c, model, cache, n)))
        return 1;
    const int later = calls;
    printf("%d %d\n", creation, later);
    if (model)
        c->model_close(model);
    c->cache_destroy(cache);
    return 0;
}
#endif
