/* check_standin_graphs.c - captures and graphs of the stand-in driver. */
#include <check.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "support/kernels.h"
#include "support/rig.h"

Suite *standin_graphs_suite(void);

enum { SEEDS = 100, THREAD_LOCAL = 1, RELAXED = 2 };
enum {
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    UNSUPPORTED = 900,
    INVALIDATED = 901,
    MERGE = 902,
    UNMATCHED = 903,
    UNJOINED = 904,
    ISOLATION = 905,
    CAPTURED_EVENT = 907,
    WRONG_THREAD = 908
};

static rig r;

static void open_rig(void) { rig_open_seed(&r, 1); }

/* b does its mark beside a's, between two others of a. */
static void capture_marks(CUgraphExec *exec, const unsigned *marks) {
    CUgraph graph;
    RIG(&r, StreamBeginCapture, r.a, THREAD_LOCAL);
    RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + 1));
    rig_order(&r, r.a, r.b, 0);
    RIG_LAUNCH(&r, "mark_kernel", r.b, rig_word(marks), rig_word(marks + 2));
    RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + 3));
    rig_order(&r, r.b, r.a, 1);
    RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + 4));
    RIG(&r, StreamEndCapture, r.a, &graph);
    RIG(&r, GraphInstantiateWithFlags, exec, graph, 0);
    RIG(&r, GraphDestroy, graph);
}

START_TEST(branches_of_a_graph_run_in_any_order) {
    int first = 0, second_differs = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_open_seed(&r, seed);
        unsigned *marks = (unsigned *)rig_device(&r, 5 * sizeof *marks), before = 0;
        CUgraphExec exec;
        memset(marks, 0, 5 * sizeof *marks);
        capture_marks(&exec, marks);
        for (int launch = 0; launch < 2; launch++) {
            const unsigned base = marks[0];
            ck_assert_uint_eq(base, 4u * (unsigned)launch);
            RIG(&r, GraphLaunch, exec, r.a);
            ck_assert_uint_eq(marks[0], base);
            RIG(&r, StreamSynchronize, r.a);
            ck_assert_uint_eq(marks[1], base + 1);
            ck_assert_uint_eq(marks[2] + marks[3], 2 * base + 5);
            ck_assert_uint_eq(marks[4], base + 4);
            first += marks[2] == base + 2;
            second_differs += launch && (marks[2] == base + 2) != (before == 2);
            before = marks[2];
        }
        RIG(&r, GraphExecDestroy, exec);
        rig_free(&r, marks);
        rig_close(&r);
        standin_check_clean(__func__);
    }
    ck_assert_int_gt(first, SEEDS / 5);
    ck_assert_int_lt(first, 2 * SEEDS - SEEDS / 5);
    ck_assert_int_gt(second_differs, SEEDS / 10); /* each launch is an order of its own */
}
END_TEST

/* On two streams, and with work before and after. */
START_TEST(launches_of_a_graph_come_one_after_another) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rig_open_seed(&r, seed);
        unsigned *marks = (unsigned *)rig_device(&r, 7 * sizeof *marks);
        CUgraphExec exec;
        memset(marks, 0, 7 * sizeof *marks);
        capture_marks(&exec, marks);
        RIG_LAUNCH(&r, "mark_kernel", r.a, rig_word(marks), rig_word(marks + 5));
        RIG(&r, GraphLaunch, exec, r.a);
        RIG(&r, GraphLaunch, exec, r.b);
        RIG_LAUNCH(&r, "mark_kernel", r.b, rig_word(marks), rig_word(marks + 6));
        RIG(&r, StreamSynchronize, r.b);
        ck_assert_uint_eq(marks[5], 1);
        ck_assert_uint_eq(marks[1], 6);
        ck_assert_uint_eq(marks[4], 9);
        ck_assert_uint_eq(marks[6], 10);
        RIG(&r, GraphExecDestroy, exec);
        rig_free(&r, marks);
        rig_close(&r);
        standin_check_clean(__func__);
    }
}
END_TEST

START_TEST(a_graphs_copies_read_at_every_launch) {
    open_rig();
    unsigned char *pinned = rig_pinned(&r, 8), *device = rig_device(&r, 8);
    CUgraph graph;
    CUgraphExec exec;
    RIG(&r, StreamBeginCapture, r.a, THREAD_LOCAL);
    ck_assert_int_eq(rig_copy(&r, device, pinned, 8, r.a), 0);
    RIG(&r, StreamEndCapture, r.a, &graph);
    RIG(&r, GraphInstantiateWithFlags, &exec, graph, 0);
    ck_assert_int_eq(device[0], 0xff);
    for (int i = 1; i < 4; i++) {
        memset(pinned, i, 8);
        RIG(&r, GraphLaunch, exec, r.a);
        RIG(&r, StreamSynchronize, r.a);
        ck_assert_int_eq(device[7], i);
    }
    RIG(&r, GraphExecDestroy, exec);
    RIG(&r, GraphDestroy, graph);
    rig_free(&r, device);
    rig_free_pinned(&r, pinned);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

/* --- errors: each ends with the end of its capture --- */

static CUgraph graph;

static int end_capture(CUstream stream) {
    graph = (CUgraph)&graph;
    return r.api->StreamEndCapture(stream, &graph);
}

static void fork_to_b(void) { rig_order(&r, r.a, r.b, 0); }

static void no_join(void) {
    fork_to_b();
    RIG_LAUNCH(&r, "write_kernel", r.b, 0, 0);
    ck_assert_int_eq(end_capture(r.a), UNJOINED);
}

static void foreign_wait(void) {
    RIG(&r, EventRecord, r.event[1], r.b); /* b takes no part */
    ck_assert_int_eq(r.api->StreamWaitEvent(r.a, r.event[1], 0), ISOLATION);
    ck_assert_int_eq(r.api->StreamWaitEvent(r.a, r.event[1], 0), INVALIDATED);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void synchronise(void) {
    fork_to_b();
    ck_assert_int_eq(r.api->StreamSynchronize(r.b), UNSUPPORTED);
    ck_assert_int_eq(r.api->StreamSynchronize(r.a), INVALIDATED);
    ck_assert_int_eq(r.api->EventRecord(r.event[1], r.a), INVALIDATED);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void allocate(void) {
    CUdeviceptr at;
    ck_assert_int_eq(r.api->MemAlloc(&at, 8), UNSUPPORTED);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void allocate_pinned(void) {
    void *at;
    ck_assert_int_eq(r.api->MemHostAlloc(&at, 8, 0), UNSUPPORTED);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void end_elsewhere(void) {
    fork_to_b();
    ck_assert_int_eq(end_capture(r.b), UNMATCHED);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void begin_twice(void) {
    ck_assert_int_eq(r.api->StreamBeginCapture(r.a, THREAD_LOCAL), ILLEGAL_STATE);
    ck_assert_int_eq(r.api->StreamBeginCapture(r.b, 3), 1);
    ck_assert_int_eq(end_capture(r.b), ILLEGAL_STATE);
    ck_assert_int_eq(end_capture(r.a), 0);
    RIG(&r, GraphDestroy, graph);
    ck_assert_int_eq(r.api->GraphDestroy(graph), INVALID_HANDLE);
    graph = NULL;
}

static void merge(void) {
    RIG(&r, EventRecord, r.event[0], r.a);
    RIG(&r, StreamBeginCapture, r.b, THREAD_LOCAL);
    ck_assert_int_eq(r.api->StreamWaitEvent(r.b, r.event[0], 0), MERGE);
    ck_assert_int_eq(end_capture(r.b), INVALIDATED);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void late_wait(void) {
    RIG(&r, EventRecord, r.event[0], r.a);
    ck_assert_int_eq(end_capture(r.a), 0);
    RIG(&r, GraphDestroy, graph);
    graph = NULL;
    ck_assert_int_eq(r.api->StreamWaitEvent(r.b, r.event[0], 0), CAPTURED_EVENT);
    RIG(&r, EventRecord, r.event[0], r.a);
    RIG(&r, StreamWaitEvent, r.b, r.event[0], 0);
}

static void *end_in_thread(void *unused) {
    RIG(&r, CtxPushCurrent, r.context);
    ck_assert_int_eq(end_capture(r.a), WRONG_THREAD);
    void *at;
    RIG(&r, MemHostAlloc, &at, 8, 0); /* another thread's capture */
    rig_free_pinned(&r, at);
    RIG(&r, CtxPopCurrent, &r.context);
    return unused;
}

static void other_thread(void) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_in_thread, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(end_capture(r.a), INVALIDATED);
}

static void (*const errors[])(void) = { no_join,         foreign_wait,  synchronise, allocate,
                                        allocate_pinned, end_elsewhere, begin_twice, merge,
                                        late_wait,       other_thread };

START_TEST(a_capture_ends_with_the_drivers_error) {
    open_rig();
    RIG(&r, StreamBeginCapture, r.a, THREAD_LOCAL);
    RIG_LAUNCH(&r, "write_kernel", r.a, 0, 0);
    errors[_i]();
    ck_assert_ptr_null(graph);
    RIG(&r, StreamSynchronize, r.a);
    RIG(&r, StreamSynchronize, r.b);
    /* Both streams are as good as new. */
    unsigned *marks = (unsigned *)rig_device(&r, 5 * sizeof *marks);
    memset(marks, 0, 5 * sizeof *marks);
    CUgraphExec exec;
    capture_marks(&exec, marks);
    RIG(&r, GraphLaunch, exec, r.a);
    RIG(&r, StreamSynchronize, r.a);
    ck_assert_uint_eq(marks[4], 4);
    RIG(&r, GraphExecDestroy, exec);
    rig_free(&r, marks);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

/* A fork without work needs no join; a relaxed capture takes allocations. */
START_TEST(a_capture_takes_what_does_no_harm) {
    open_rig();
    RIG(&r, StreamBeginCapture, r.a, RELAXED);
    fork_to_b();
    void *at = rig_device(&r, 8);
    rig_free(&r, at);
    RIG(&r, StreamWaitEvent, r.a, r.event[3], 0); /* never recorded */
    ck_assert_int_eq(end_capture(r.a), 0);
    CUgraphExec exec;
    RIG(&r, GraphInstantiateWithFlags, &exec, graph, 0); /* it is empty */
    RIG(&r, GraphLaunch, exec, r.b);
    RIG(&r, StreamSynchronize, r.b);
    RIG(&r, GraphExecDestroy, exec);
    RIG(&r, GraphDestroy, graph);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(a_stream_that_goes_takes_its_capture_along) {
    open_rig();
    CUstream more;
    RIG(&r, StreamCreate, &more, 1);
    RIG(&r, StreamBeginCapture, more, THREAD_LOCAL);
    rig_order(&r, more, r.b, 0);
    RIG_LAUNCH(&r, "write_kernel", more, 0, 0);
    RIG(&r, StreamDestroy, more);
    RIG(&r, StreamSynchronize, r.b); /* it is free again */
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

Suite *standin_graphs_suite(void) {
    Suite *suite = suite_create("standin_graphs");
    if (!kernels_available("standin_graphs"))
        return suite;
    TCase *tests = tcase_create("graphs");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, branches_of_a_graph_run_in_any_order);
    tcase_add_test(tests, launches_of_a_graph_come_one_after_another);
    tcase_add_test(tests, a_graphs_copies_read_at_every_launch);
    tcase_add_loop_test(tests, a_capture_ends_with_the_drivers_error, 0,
                        (int)(sizeof errors / sizeof *errors));
    tcase_add_test(tests, a_capture_takes_what_does_no_harm);
    tcase_add_test(tests, a_stream_that_goes_takes_its_capture_along);
    suite_add_tcase(suite, tests);
    return suite;
}
