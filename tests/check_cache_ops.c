/*
 * check_cache_ops.c - a cache's operations through its public API: pushes, rewind, reset, reorder,
 * refusals, cases from the field, and what is allocated.
 */
#include <check.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/run.h"
#include "support/subject.h"

Suite *cache_ops_suite(void);

static const cast_shape sliding = { "s", 4, 10, 1, 2 }, full = { "f", 4, 5, 1, 2 },
                        mixed = { "sf", 3, 8, 3, 1 }, hybrid = { "sfsf", 4, 12, 1, 2 };

/* ---- pushes: the table of the field's cases, window 4, computed with transformers 5.24.0 ---- */

typedef struct {
    int tokens;
    int64_t length, offset; /* mask sizes before the push */
    int visible[SUBJECT_ROW], stored[4];
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
    subject s = subject_begin(&sliding);
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
        subject_push(&s, 0, serial, p->tokens);
        serial += p->tokens;
        const subject_rows visible = subject_rows_of(p->visible, SUBJECT_ROW, NULL),
                           stored = subject_rows_of(p->stored, 4, NULL);
        subject_assert_visible(&s, 0, p->length, &visible, what);
        subject_assert_read(&s, 0, &stored, what);
    }
    subject_end(&s);
}
END_TEST

/* ---- rewind ---- */

/* Three tokens, one taken back, another in its place: the reference has 1 2 9 on both kinds. */
START_TEST(a_token_taken_back_makes_room_for_another) {
    const cast_shape *const shapes[] = { &full, &sliding };
    subject s = subject_begin(shapes[_i]);
    const int slots = cast_slots(&s.shape, 0);
    const subject_rows two = subject_rows_of((const int[]){ 1, 2 }, 2, NULL),
                       other = subject_rows_of((const int[]){ 1, 2, 9 }, 3, NULL);
    int64_t length = -1;
    subject_push(&s, 0, 1, 3);
    ck_assert_int_eq(s.api->cache_crop(s.cache, -1, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 2);
    subject_assert_read(&s, 0, &two, "after crop");
    ck_assert_int_eq(s.api->cache_visible(s.cache, 0, NULL, NULL, &length, &s.err), SC_ESTATE);
    ck_assert_int_eq(length, -1);
    subject_push(&s, 0, 9, 1);
    subject_assert_visible(&s, 0, slots, &other, "after the other");
    subject_assert_read(&s, 0, &other, "after the other");
    subject_end(&s);
}
END_TEST

/* The reference corrupts such a ring; casting.h promises SC_EFULL. */
START_TEST(a_ring_that_has_forgotten_does_not_go_back) {
    subject s = subject_begin(&sliding);
    subject_push(&s, 0, 1, 6);
    ASSERT_REFUSED(&s, SC_EFULL, "by 2: its ring of 4 slots has seen 6",
                   s.api->cache_crop(s.cache, -2, err));
    subject_end(&s);
}
END_TEST

START_TEST(a_crop_that_one_layer_refuses_changes_none) {
    subject s = subject_begin(&hybrid);
    subject_push_all(&s, 1, 4);
    subject_push(&s, 2, 5, 1); /* a ring: one token more than its slots */
    ASSERT_REFUSED(&s, SC_EFULL, "layer 2", s.api->cache_crop(s.cache, -1, err));
    subject_end(&s);
    s = subject_begin(&hybrid);
    subject_push(&s, 0, 1, 3);
    subject_push(&s, 1, 1, 1);
    subject_push(&s, 2, 1, 3);
    subject_push(&s, 3, 1, 3);
    ASSERT_REFUSED(&s, SC_EUSAGE, "layer 1: crop by -2 of 1", s.api->cache_crop(s.cache, -2, err));
    subject_end(&s);
}
END_TEST

START_TEST(a_crop_takes_a_count_of_what_is_there) {
    subject s = subject_begin(&full);
    subject_push(&s, 0, 1, 3);
    ASSERT_REFUSED(&s, SC_EUSAGE, "crop by 1", s.api->cache_crop(s.cache, 1, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "crop by -4 of 3", s.api->cache_crop(s.cache, -4, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "of 3", s.api->cache_crop(s.cache, INT64_MIN, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "crop by", s.api->cache_crop(s.cache, INT64_MAX, err));
    subject_state before = subject_state_of(&s);
    ck_assert_int_eq(s.api->cache_crop(s.cache, 0, &s.err), SC_OK);
    subject_assert_unchanged(&s, &before, "crop by 0");
    ck_assert_int_eq(s.api->cache_crop(s.cache, -3, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 0);
    subject_end(&s);
}
END_TEST

/* ---- reset and reorder ---- */

START_TEST(a_reset_cache_is_as_good_as_new) {
    subject s = subject_begin(&hybrid);
    subject_state fresh = subject_state_of(&s);
    subject_push_all(&s, 1, 7);
    subject_state first = subject_state_of(&s);
    ck_assert_int_eq(s.api->cache_reset(s.cache, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_pad(s.cache, (const int64_t[]){ 2 }, &s.err), SC_OK);
    subject_push_all(&s, 20, 3);
    subject_push_all(&s, 23, 8);
    ck_assert_int_eq(s.api->cache_reset(s.cache, &s.err), SC_OK);
    const subject_rows zeros = { 0 };
    for (int layer = 0; layer < s.layers; layer++) {
        ck_assert_int_eq(s.api->cache_seq_length(s.cache, layer), 0);
        subject_assert_read(&s, layer, &zeros, "after reset");
    }
    subject_state again = subject_state_of(&s);
    subject_assert_same(&fresh, &again, "a new cache and one after reset");
    subject_push_all(&s, 1, 7);
    subject_assert_unchanged(&s, &first, "the same prompt after reset");
    free(fresh.data);
    free(again.data);
    subject_end(&s);
}
END_TEST

START_TEST(a_reorder_moves_rows_in_every_layer) {
    static const int32_t beams[SUBJECT_BATCHES] = { 2, 0, 0 };
    subject s = subject_begin(&mixed);
    ck_assert_int_eq(s.api->cache_pad(s.cache, (const int64_t[]){ 4, 5, 6 }, &s.err), SC_OK);
    subject_push_all(&s, 1, 5);
    ck_assert_int_eq(s.api->cache_reorder(s.cache, beams, &s.err), SC_OK);
    const subject_rows ring = subject_rows_of((const int[]){ 3, 4, 5 }, 3, beams),
                       line = subject_rows_of((const int[]){ 1, 2, 3, 4, 5 }, 5, beams);
    subject_assert_read(&s, 0, &ring, "ring");
    subject_assert_read(&s, 1, &line, "full");
    for (int b = 0; b < 3; b++)
        ck_assert_int_eq(subject_padding(&s, b), 4 + beams[b]);
    /* What comes next joins the rows as they are now. */
    subject_rows next = subject_rows_of((const int[]){ 4, 5 }, 2, beams);
    for (int b = 0; b < 3; b++)
        next.id[b][2] = subject_token_id(6, b);
    subject_push(&s, 0, 6, 1);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), 6);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 1), 5);
    subject_assert_visible(&s, 0, 3, &next, "ring, next");
    subject_end(&s);
}
END_TEST

START_TEST(a_beam_that_is_none_is_refused) {
    subject s = subject_begin(&mixed);
    subject_push_all(&s, 1, 5);
    ASSERT_REFUSED(&s, SC_EUSAGE, "beam_idx[1]: 3",
                   s.api->cache_reorder(s.cache, (const int32_t[]){ 2, 3, 0 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "beam_idx[2]: -1",
                   s.api->cache_reorder(s.cache, (const int32_t[]){ 1, 0, -1 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "beam_idx[0]: -2147483648",
                   s.api->cache_reorder(s.cache, (const int32_t[]){ INT32_MIN, 0, 0 }, err));
    subject_end(&s);
}
END_TEST

/* ---- refusals: casting.h says which code, error.h what it means ---- */

START_TEST(padding_is_checked_and_comes_first) {
    static const int64_t most[] = { 7, 0, 1 };
    subject s = subject_begin(&mixed);
    ck_assert_int_eq(s.api->cache_pad(s.cache, most, &s.err), SC_OK);
    for (int b = 0; b < 3; b++)
        ck_assert_int_eq(subject_padding(&s, b), most[b]);
    ASSERT_REFUSED(&s, SC_EUSAGE, "padding[1]: -1",
                   s.api->cache_pad(s.cache, (const int64_t[]){ 3, -1, 3 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "padding[2]: 8",
                   s.api->cache_pad(s.cache, (const int64_t[]){ 3, 3, 8 }, err));
    ASSERT_REFUSED(&s, SC_EUSAGE, "padding[0]: 4294967296",
                   s.api->cache_pad(s.cache, (const int64_t[]){ (int64_t)1 << 32, 3, 3 }, err));
    subject_push(&s, 1, 1, 1); /* any layer will do */
    ASSERT_REFUSED(&s, SC_ESTATE, "layer 1 has 1 token",
                   s.api->cache_pad(s.cache, (const int64_t[]){ 0, 0, 0 }, err));
    ck_assert_int_eq(s.api->cache_reset(s.cache, &s.err), SC_OK);
    ck_assert_int_eq(subject_padding(&s, 0), 0);
    ck_assert_int_eq(s.api->cache_pad(s.cache, most, &s.err), SC_OK);
    subject_end(&s);
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
    subject s = subject_begin(&mixed);
    subject_push_all(&s, 1, 5);
    subject_fill(&s, 0, 50, s.shape.max_cache_len + 2);
    ASSERT_REFUSED(&s, bad_updates[_i].code, bad_updates[_i].part,
                   s.api->cache_update(s.cache, bad_updates[_i].layer, s.keys, s.values,
                                       bad_updates[_i].tokens, err));
    subject_push(&s, 0, 6, 8);
    subject_push(&s, 1, 6, 3);
    subject_end(&s);
}
END_TEST

/* Law 2: the reference forgets here. Window 9, five of six slots used. */
START_TEST(a_cache_shorter_than_its_window_fills_up) {
    static const cast_shape shape = { "ssf", 9, 6, 1, 1 };
    subject s = subject_begin(&shape);
    subject_push_all(&s, 1, 5);
    subject_fill(&s, 0, 6, 2);
    for (int layer = 0; layer < s.layers; layer++)
        ASSERT_REFUSED(&s, SC_EFULL, "2 tokens at position 5, room for 1",
                       s.api->cache_update(s.cache, layer, s.keys, s.values, 2, err));
    subject_push_all(&s, 6, 1);
    ASSERT_REFUSED(&s, SC_EFULL, "1 tokens at position 6, room for 0",
                   s.api->cache_update(s.cache, 0, s.keys, s.values, 1, err));
    subject_end(&s);
}
END_TEST

START_TEST(a_layer_that_is_none_is_refused_by_every_call) {
    static const int none[] = { -1, 2, INT_MIN, INT_MAX };
    const int layer = none[_i];
    subject s = subject_begin(&mixed);
    char part[64];
    int64_t length = -7, offset = -7;
    snprintf(part, sizeof part, "layer %d is none", layer);
    subject_push_all(&s, 1, 5);
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
    subject_end(&s);
}
END_TEST

START_TEST(lengths_and_masks_are_those_of_the_layer) {
    subject s = subject_begin(&mixed);
    int64_t length = -7, offset = -7;
    ASSERT_REFUSED(&s, SC_ESTATE, "layer 0",
                   s.api->cache_visible(s.cache, 0, s.keys, s.values, &length, err));
    subject_push(&s, 0, 1, 5);
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
    subject_end(&s);
}
END_TEST

/* ---- nothing is allocated after create and open ---- */

#define COUNT "build/test-castings/cache-ops-count"

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
            "${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -O1 -fno-builtin "
            "tests/programs/count_allocations.c -rdynamic -ldl -o %s/count",
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

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    const cast_shape *const shapes[] = { &sliding, &full, &mixed, &hybrid };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        cast_make(shapes[i]);
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
    tcase_add_test(ops, padding_is_checked_and_comes_first);
    tcase_add_loop_test(ops, an_update_that_does_not_fit_changes_nothing, 0, BAD_UPDATES);
    tcase_add_test(ops, a_cache_shorter_than_its_window_fills_up);
    tcase_add_loop_test(ops, a_layer_that_is_none_is_refused_by_every_call, 0, 4);
    tcase_add_test(ops, lengths_and_masks_are_those_of_the_layer);
    tcase_add_test(ops, nothing_is_allocated_after_create_and_open);
    suite_add_tcase(suite, ops);
    return suite;
}
