/* check_standin.c - tests/cuda/standin.h: what runs when, which memory is whose, what is counted.
 * check_standin_graphs.c has captures, check_standin_reports.c reports and errors. */
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cast.h"
#include "support/kernels.h"
#include "support/rig.h"

Suite *standin_suite(void);

enum { SEEDS = 100, LARGE = 40000 };

/* Marks both streams, in an order when there is one; turn of a's mark, 1 or 2. */
static unsigned mark_both(const rig *r, bool ordered, unsigned *marks) {
    memset(marks, 0, 3 * sizeof *marks);
    RIG_LAUNCH(r, "mark_kernel", r->a, rig_word(marks), rig_word(marks + 1));
    if (ordered)
        rig_order(r, r->a, r->b, 0);
    RIG_LAUNCH(r, "mark_kernel", r->b, rig_word(marks), rig_word(marks + 2));
    ck_assert_uint_eq(marks[0], 0); /* nothing has run yet */
    RIG(r, StreamSynchronize, r->b);
    RIG(r, StreamSynchronize, r->a);
    ck_assert_uint_eq(marks[1] + marks[2], 3);
    return marks[1];
}

START_TEST(unordered_work_runs_in_both_orders) {
    int first = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        unsigned *marks = (unsigned *)rig_device(&r, 3 * sizeof *marks);
        first += mark_both(&r, false, marks) == 1;
        rig_free(&r, marks);
        rig_close(&r);
        standin_check_clean(__func__);
    }
    ck_assert_int_gt(first, SEEDS / 10);
    ck_assert_int_lt(first, SEEDS - SEEDS / 10);
}
END_TEST

START_TEST(ordered_work_runs_in_one_order) {
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        unsigned *marks = (unsigned *)rig_device(&r, 3 * sizeof *marks);
        ck_assert_uint_eq(mark_both(&r, true, marks), 1);
        rig_free(&r, marks);
        rig_close(&r);
        standin_check_clean(__func__);
    }
}
END_TEST

START_TEST(a_stream_keeps_its_order) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum { MARKS = 20 };
        rig r;
        rig_open_seed(&r, seed);
        unsigned *marks = (unsigned *)rig_device(&r, (MARKS + 1) * sizeof *marks);
        RIG(&r, MemsetD8Async, rig_word(marks), 0, (MARKS + 1) * sizeof *marks, r.a);
        for (int i = 1; i <= MARKS; i++)
            RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + i));
        RIG(&r, StreamSynchronize, r.a);
        for (unsigned i = 1; i <= MARKS; i++)
            ck_assert_uint_eq(marks[i], i);
        rig_free(&r, marks);
        rig_close(&r);
    }
}
END_TEST

/* An event means what came before its record, not what its stream got afterwards. */
START_TEST(a_wait_is_for_the_record) {
    int early = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        unsigned *marks = (unsigned *)rig_device(&r, 4 * sizeof *marks);
        memset(marks, 0, 4 * sizeof *marks);
        RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + 1));
        RIG(&r, EventRecord, r.event[0], r.a);
        RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + 2));
        RIG(&r, StreamWaitEvent, r.b, r.event[0], 0);
        RIG(&r, EventRecord, r.event[0], r.a); /* too late for the wait before */
        RIG_LAUNCH(&r, "mark_kernel", r.b, rig_word(marks), rig_word(marks + 3));
        RIG(&r, StreamSynchronize, r.b);
        RIG(&r, StreamSynchronize, r.a);
        ck_assert_uint_eq(marks[1], 1);
        early += marks[3] == 2;
        rig_free(&r, marks);
        rig_close(&r);
    }
    ck_assert_int_gt(early, 0);
    ck_assert_int_lt(early, SEEDS);
}
END_TEST

/* What the host writes after the call, and before it waits, may be what is copied. */
START_TEST(a_copy_reads_when_it_runs) {
    for (uint64_t seed = 0; seed < 4; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        unsigned char *pinned = rig_pinned(&r, LARGE), *device = rig_device(&r, LARGE);
        memset(pinned, 1, LARGE);
        ck_assert_int_eq(rig_copy(&r, device, pinned, LARGE, r.a), 0);
        memset(pinned, 2, LARGE);
        ck_assert_int_eq(device[0], 0xff); /* fresh */
        RIG(&r, StreamSynchronize, r.a);
        for (int i = 0; i < LARGE; i++)
            ck_assert_int_eq(device[i], 2);
        rig_free(&r, device);
        rig_free_pinned(&r, pinned);
        rig_close(&r);
        standin_check_clean(__func__);
    }
}
END_TEST

/* A kernel of another stream sees half of a large copy. */
START_TEST(large_copies_run_in_pieces) {
    int halves = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        float *x = (float *)rig_device(&r, LARGE), *seen = (float *)rig_device(&r, 8);
        float *zeros = (float *)rig_pinned(&r, LARGE);
        memset(zeros, 0, LARGE);
        memset(seen, 0, 8);
        memset(x, 0x3f, LARGE);
        ck_assert_int_eq(rig_copy(&r, x, zeros, LARGE, r.a), 0);
        RIG_LAUNCH(&r, "add_kernel", r.b, rig_word(seen), rig_word(x), 1);
        RIG_LAUNCH(&r, "add_kernel", r.b, rig_word(seen + 1), rig_word(x + LARGE / 4 - 1), 1);
        RIG(&r, StreamSynchronize, r.b);
        RIG(&r, StreamSynchronize, r.a);
        halves += (seen[0] > 0) != (seen[1] > 0);
        rig_free(&r, x);
        rig_free(&r, seen);
        rig_free_pinned(&r, zeros);
        rig_close(&r);
        standin_check_clean(__func__);
    }
    ck_assert_int_gt(halves, 0);
}
END_TEST

START_TEST(rows_are_copied_with_their_pitches) {
    enum { WIDTH = 100, HEIGHT = 70, FROM = 128, TO = 160 };
    for (uint64_t seed = 0; seed < 8; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        unsigned char *from = rig_pinned(&r, FROM * HEIGHT), *to = rig_device(&r, TO * HEIGHT);
        for (int i = 0; i < FROM * HEIGHT; i++)
            from[i] = (unsigned char)(i % 251);
        const sc_copy_2d copy = { .srcMemoryType = 4,
                                  .srcDevice = rig_word(from),
                                  .srcXInBytes = 3,
                                  .srcPitch = FROM,
                                  .dstMemoryType = 4,
                                  .dstDevice = rig_word(to),
                                  .dstY = 1,
                                  .dstPitch = TO,
                                  .WidthInBytes = WIDTH,
                                  .Height = HEIGHT - 1 };
        RIG(&r, Memcpy2DAsync, &copy, r.a);
        RIG(&r, StreamSynchronize, r.a);
        for (int row = 0; row < HEIGHT; row++)
            for (int i = 0; i < TO; i++)
                ck_assert_int_eq(to[row * TO + i],
                                 row && i < WIDTH ? from[(row - 1) * FROM + 3 + i] : 0xff);
        rig_free(&r, to);
        rig_free_pinned(&r, from);
        rig_close(&r);
        standin_check_clean(__func__);
    }
}
END_TEST

START_TEST(kernels_get_their_words_and_an_order) {
    enum { BLOCKS = 16 };
    int moved = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        rig r;
        rig_open_seed(&r, seed);
        long long *sum = (long long *)(void *)rig_device(&r, 8);
        unsigned *turns = (unsigned *)rig_device(&r, (BLOCKS + 1) * 4);
        memset(turns, 0, 4);
        RIG_LAUNCH(&r, "sum_kernel", r.a, rig_word(sum), 1, 2, (uint64_t)-3);
        const uint64_t words[] = { rig_word(turns), rig_word(turns + 1) };
        ck_assert_int_eq(rig_launch(&r, "order_kernel", BLOCKS, r.a, words, 2), 0);
        RIG(&r, StreamSynchronize, r.a);
        ck_assert_int_eq(*sum, 1 + 20 - 300);
        moved += turns[1] != 0;
        ck_assert(seed || !turns[1]); /* without a seed blocks come in their order */
        rig_free(&r, sum);
        rig_free(&r, turns);
        rig_close(&r);
    }
    ck_assert_int_gt(moved, 3);
}
END_TEST

static const char deaths[] = "build/test-castings/standin-deaths";

/* What a kernel is told that must not come back: it writes to byte `at` of 4096. */
static void write_in_child(size_t at, bool freed) {
    rig r;
    if (!freopen(deaths, "w", stderr))
        _exit(1);
    rig_open_seed(&r, 1);
    unsigned char *device = rig_device(&r, 4096);
    if (freed)
        rig_free(&r, device);
    RIG_LAUNCH(&r, "write_kernel", r.a, rig_word(device + at), 5);
    RIG(&r, StreamSynchronize, r.a);
    _exit(0);
}

static const struct {
    size_t at;
    bool freed;
    const char *says;
} touches[] = {
    { 4092, false, NULL },
    { 4096, false, "standin: write_kernel touches byte 4096 of an allocation of 4096\n" },
    { 12, true, "standin: write_kernel touches byte 12 of 4096 that were freed\n" },
};

START_TEST(a_kernel_dies_of_what_is_not_allocated) {
    fflush(NULL);
    const pid_t child = fork();
    if (!child)
        write_in_child(touches[_i].at, touches[_i].freed);
    int status = 0;
    size_t bytes = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status != 0, touches[_i].says != NULL);
    char *text = cast_file(deaths, &bytes);
    if (touches[_i].says)
        ck_assert_int_eq(strncmp(text, touches[_i].says, strlen(touches[_i].says)), 0);
    free(text);
}
END_TEST

START_TEST(many_operations_are_quick) {
    enum { OPERATIONS = 20000 };
    rig r;
    rig_open_seed(&r, 3);
    unsigned char *x = rig_device(&r, 4 * OPERATIONS), *y = rig_device(&r, 4 * OPERATIONS);
    for (int i = 0; i < OPERATIONS; i++) {
        ck_assert_int_eq(rig_copy(&r, y + 4 * i, x + 4 * i, 4, i % 2 ? r.a : r.b), 0);
        if (i % 8 == 0)
            rig_order(&r, r.a, r.b, 0);
        if (i % 100 == 0)
            RIG(&r, StreamSynchronize, r.a);
    }
    RIG(&r, StreamSynchronize, r.a);
    RIG(&r, StreamSynchronize, r.b);
    rig_free(&r, x);
    rig_free(&r, y);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(what_is_live_is_counted) {
    rig r;
    rig_open_seed(&r, 1);
    void *x = rig_device(&r, 1000), *y = rig_device(&r, 500), *p = rig_pinned(&r, 7);
    rig_free(&r, y);
    RIG(&r, MemsetD8Async, rig_word(x), 0, 1000, r.a);
    RIG_LAUNCH(&r, "write_kernel", r.b, rig_word(x), 5);
    sc_standin_log log;
    standin_open()->log(&log);
    ck_assert_int_eq(log.copies + log.launches, 0);
    RIG(&r, StreamSynchronize, r.a);
    RIG(&r, StreamSynchronize, r.b);
    standin_open()->log(&log);
    ck_assert_int_eq(log.copies, 1);
    ck_assert_int_eq(log.launches, 1);
    ck_assert_int_eq(log.allocations, 1);
    ck_assert_int_eq(log.pinned, 1);
    ck_assert_int_eq(log.allocated, 3);
    ck_assert_uint_eq(log.bytes, 1000);
    ck_assert_uint_eq(log.peak, 1500);
    ck_assert_int_eq(log.streams, 2);
    ck_assert_int_eq(log.events, RIG_EVENTS);
    ck_assert_int_eq(log.modules, 1);
    ck_assert_int_eq(log.contexts, 1);
    rig_free(&r, x);
    rig_free_pinned(&r, p);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

Suite *standin_suite(void) {
    Suite *suite = suite_create("standin");
    if (!kernels_available("standin"))
        return suite;
    TCase *tests = tcase_create("order");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, unordered_work_runs_in_both_orders);
    tcase_add_test(tests, ordered_work_runs_in_one_order);
    tcase_add_test(tests, a_stream_keeps_its_order);
    tcase_add_test(tests, a_wait_is_for_the_record);
    tcase_add_test(tests, a_copy_reads_when_it_runs);
    tcase_add_test(tests, large_copies_run_in_pieces);
    tcase_add_test(tests, rows_are_copied_with_their_pitches);
    tcase_add_test(tests, kernels_get_their_words_and_an_order);
    tcase_add_loop_test(tests, a_kernel_dies_of_what_is_not_allocated, 0,
                        (int)(sizeof touches / sizeof *touches));
    tcase_add_test(tests, many_operations_are_quick);
    tcase_add_test(tests, what_is_live_is_counted);
    suite_add_tcase(suite, tests);
    return suite;
}
