/* check_standin_reports.c - what the stand-in driver reports, and the errors that it returns. */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "support/kernels.h"
#include "support/rig.h"

Suite *standin_reports_suite(void);

enum { BYTES = 10000, ILLEGAL_ADDRESS = 700 };

static rig r;
static unsigned char *device, *pinned;
static unsigned char plain[BYTES];

static int copy(void *to, const void *from, size_t bytes, CUstream stream) {
    return rig_copy(&r, to, from, bytes, stream);
}

static int set(void *at, size_t bytes, CUstream stream) {
    return r.api->MemsetD8Async(rig_word(at), 0, bytes, stream);
}

/* Rows of 8 bytes, every 32. */
static int copy_rows(void *to, const void *from, size_t rows, CUstream stream) {
    const sc_copy_2d rows_of = { .srcMemoryType = 4,
                                 .srcDevice = rig_word(from),
                                 .srcPitch = 8,
                                 .dstMemoryType = 4,
                                 .dstDevice = rig_word(to),
                                 .dstPitch = 32,
                                 .WidthInBytes = 8,
                                 .Height = rows };
    return r.api->Memcpy2DAsync(&rows_of, stream);
}

/* --- wrong --- */

static int writes_meet(void) { return set(device, 100, r.a) | set(device + 99, 100, r.b); }

static int write_meets_read(void) {
    return copy(pinned, device, 100, r.a) | copy(device + 50, pinned + 5000, 8, r.b);
}

static int read_meets_write(void) { return set(device, 100, r.a) | copy(pinned, device, 1, r.b); }

static int rows_meet(void) { return copy_rows(device, pinned, 20, r.a) | set(device + 39, 1, r.b); }

static int rows_meet_rows(void) {
    return copy_rows(device, pinned, 20, r.a) | copy_rows(device + 7, pinned, 3, r.b);
}

/* The second a comes after b's, the first is not ordered to it. */
static int order_is_too_late(void) {
    const int rc = set(device, 8, r.b);
    rig_order(&r, r.a, r.b, 0);
    return rc | set(device, 8, r.a);
}

/* The host has waited for one of two streams. */
static int the_wrong_wait(void) {
    const int rc = set(device, 8, r.a) | set(device + 8, 8, r.b);
    RIG(&r, StreamSynchronize, r.b);
    return rc | set(device, 8, r.b);
}

static int a_graph_races_with_itself(void) {
    CUgraph graph;
    RIG(&r, StreamBeginCapture, r.a, 1);
    rig_order(&r, r.a, r.b, 0);
    const int rc = set(device, 8, r.a) | set(device, 8, r.b);
    rig_order(&r, r.b, r.a, 1);
    RIG(&r, StreamEndCapture, r.a, &graph);
    RIG(&r, GraphDestroy, graph);
    return rc;
}

static int a_graph_races_with_a_stream(void) {
    CUgraph graph;
    CUgraphExec exec;
    RIG(&r, StreamBeginCapture, r.a, 1);
    int rc = set(device, 8, r.a);
    RIG(&r, StreamEndCapture, r.a, &graph);
    RIG(&r, GraphInstantiateWithFlags, &exec, graph, 0);
    rc |= set(device + 7, 8, r.b);
    RIG(&r, GraphLaunch, exec, r.a);
    RIG(&r, GraphExecDestroy, exec);
    RIG(&r, GraphDestroy, graph);
    return rc;
}

static int onto_itself(void) { return copy(device + 10, device, 11, r.a); }

static int from_plain(void) { return copy(device, plain, 8, r.a); }

static int to_plain(void) { return copy(plain, device, 8, r.a); }

static int behind(void) { return copy(device + BYTES - 8, pinned, 9, r.a); }

static int before(void) { return copy(device, pinned - 1, 9, r.a); }

static int rows_behind(void) { return copy_rows(device, pinned, 313, r.a); } /* 312 * 32 + 8 fit */

static int freed(void) {
    void *gone = rig_device(&r, 64);
    rig_free(&r, gone);
    return copy(gone, pinned, 8, r.a);
}

static int freed_in_a_graph(void) {
    CUgraph graph;
    CUgraphExec exec;
    void *gone = rig_device(&r, 64);
    RIG(&r, StreamBeginCapture, r.a, 1);
    const int rc = set(gone, 8, r.a);
    RIG(&r, StreamEndCapture, r.a, &graph);
    RIG(&r, GraphInstantiateWithFlags, &exec, graph, 0);
    rig_free(&r, gone);
    RIG(&r, GraphLaunch, exec, r.a);
    RIG(&r, GraphExecDestroy, exec);
    RIG(&r, GraphDestroy, graph);
    return rc;
}

static int freed_twice(void) {
    void *gone = rig_device(&r, 64);
    rig_free(&r, gone);
    return r.api->MemFree(rig_word(gone)) != 1;
}

static int freed_inside(void) { return r.api->MemFree(rig_word(device + 1)) != 1; }

static int freed_in_use(void) {
    void *soon_gone = rig_pinned(&r, 64);
    const int rc = copy(device, soon_gone, 8, r.a);
    rig_free_pinned(&r, soon_gone);
    return rc;
}

static int written_around(void) {
    unsigned char *small = rig_device(&r, 100);
    RIG_LAUNCH(&r, "write_kernel", r.a, rig_word(small + 100), 0);
    rig_free(&r, small);
    return 0;
}

static int a_kernels_mistake(void) {
    RIG_LAUNCH(&r, "unwritten_kernel", r.a, rig_word(device));
    return 0;
}

static const struct {
    int (*run)(void);
    const char *report;
} reports[] = {
    { writes_meet, "cuMemsetD8Async writes what cuMemsetD8Async writes, and nothing orders them" },
    { write_meets_read, "cuMemcpyAsync writes what cuMemcpyAsync reads, and nothing orders them" },
    { read_meets_write,
      "cuMemcpyAsync reads what cuMemsetD8Async writes, and nothing orders them" },
    { rows_meet, "cuMemsetD8Async writes what cuMemcpy2DAsync writes, and nothing orders them" },
    { rows_meet_rows,
      "cuMemcpy2DAsync writes what cuMemcpy2DAsync writes, and nothing orders them" },
    { order_is_too_late,
      "cuMemsetD8Async writes what cuMemsetD8Async writes, and nothing orders them" },
    { the_wrong_wait,
      "cuMemsetD8Async writes what cuMemsetD8Async writes, and nothing orders them" },
    { a_graph_races_with_itself,
      "cuMemsetD8Async writes what cuMemsetD8Async writes, and nothing orders them" },
    { a_graph_races_with_a_stream,
      "cuMemsetD8Async writes what cuMemsetD8Async writes, and nothing orders them" },
    { onto_itself, "cuMemcpyAsync: a copy onto itself" },
    { from_plain, "cuMemcpyAsync reads 8 bytes of memory that is neither the device's nor pinned" },
    { to_plain, "cuMemcpyAsync writes 8 bytes of memory that is neither the device's nor pinned" },
    { behind, "cuMemcpyAsync writes bytes 9992 to 10001 of an allocation of 10000" },
    { before, "cuMemcpyAsync reads 9 bytes of memory that is neither the device's nor pinned" },
    { rows_behind, NULL },
    { freed, "cuMemcpyAsync writes 8 bytes of memory that was freed" },
    { freed_in_a_graph, "cuMemsetD8Async writes 8 bytes of memory that was freed" },
    { freed_twice, "cuMemFree: the memory was freed before" },
    { freed_inside, "cuMemFree: nothing begins there" },
    { freed_in_use,
      "cuMemFreeHost: the memory is in use: cuMemcpyAsync reads it, and nothing waited for that" },
    { written_around, "cuMemFree: something wrote outside of these 100 bytes" },
    { a_kernels_mistake, "unwritten_kernel: block (0,0,0), thread (0,0,0): tile[0]: read before it "
                         "was written" },
};

static void open_all(uint64_t seed) {
    rig_open_seed(&r, seed);
    device = rig_device(&r, BYTES);
    pinned = rig_pinned(&r, BYTES);
}

static void close_all(void) {
    rig_free(&r, device);
    rig_free_pinned(&r, pinned);
    rig_close(&r);
}

/* Under every seed, for it is the order that is missing, not a bad one that came. */
START_TEST(what_is_wrong_is_reported) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        const char *text;
        open_all(seed);
        ck_assert_int_eq(reports[_i].run(), 0);
        const int broken = reports[_i].report ? ILLEGAL_ADDRESS : 0;
        ck_assert_int_eq(r.api->StreamSynchronize(r.a), broken);
        ck_assert_int_eq(r.api->StreamSynchronize(r.b), broken);
        ck_assert_int_eq(set(device, 1, r.a), broken); /* it stays */
        RIG(&r, StreamDestroy, r.a);
        RIG(&r, StreamDestroy, r.b);
        ck_assert_int_eq(rig_reports(&text), broken != 0);
        ck_assert_str_eq(text, broken ? reports[_i].report : "");
    }
}
END_TEST

/* --- right --- */

static int streams_apart(void) {
    return set(device, 100, r.a) | set(device + 100, 100, r.b) | copy(pinned, device + 500, 9, r.a);
}

static int two_readers(void) {
    return copy(pinned, device, 100, r.a) | copy(pinned + 100, device, 100, r.b);
}

static int rows_between_rows(void) {
    return copy_rows(device, pinned, 20, r.a) | copy_rows(device + 8, pinned, 20, r.b) |
           set(device + 19 * 32 + 16, 100, r.a);
}

static int by_an_event(void) {
    int rc = set(device, 8, r.a);
    rig_order(&r, r.a, r.b, 0);
    rc |= set(device, 8, r.b);
    rig_order(&r, r.b, r.a, 0);
    return rc | copy(pinned, device, 8, r.a);
}

static int by_the_host(void) {
    const int rc = set(device, 8, r.a);
    RIG(&r, StreamSynchronize, r.a);
    return rc | set(device, 8, r.b);
}

/* a, b, a third one: the order goes through the middle. */
static int through_another(void) {
    CUstream third;
    RIG(&r, StreamCreate, &third, 1);
    int rc = set(device, 8, r.a);
    rig_order(&r, r.a, r.b, 0);
    rig_order(&r, r.b, third, 1);
    rc |= set(device, 8, third);
    RIG(&r, StreamSynchronize, third);
    RIG(&r, StreamDestroy, third);
    return rc;
}

static int by_a_free(void) {
    const int rc = set(device, 8, r.a);
    rig_free(&r, rig_device(&r, 8)); /* waits for the device */
    return rc | set(device, 8, r.b);
}

static int graph_after_graph(void) {
    CUgraph graph;
    CUgraphExec exec;
    RIG(&r, StreamBeginCapture, r.a, 1);
    rig_order(&r, r.a, r.b, 0);
    int rc = set(device, 8, r.a) | set(device + 8, 8, r.b);
    rig_order(&r, r.b, r.a, 1);
    rc |= set(device, 16, r.a);
    RIG(&r, StreamEndCapture, r.a, &graph);
    RIG(&r, GraphInstantiateWithFlags, &exec, graph, 0);
    RIG(&r, GraphLaunch, exec, r.a);
    RIG(&r, GraphLaunch, exec, r.b);
    rc |= set(device, 16, r.b);
    RIG(&r, GraphExecDestroy, exec);
    RIG(&r, GraphDestroy, graph);
    return rc;
}

static int (*const right[])(void) = { streams_apart, two_readers,      rows_between_rows,
                                      by_an_event,   by_the_host,      through_another,
                                      by_a_free,     graph_after_graph };

START_TEST(what_is_right_is_not_reported) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        open_all(seed);
        ck_assert_int_eq(right[_i](), 0);
        RIG(&r, StreamSynchronize, r.a);
        RIG(&r, StreamSynchronize, r.b);
        close_all();
        standin_check_clean(__func__);
    }
}
END_TEST

Suite *standin_reports_suite(void) {
    Suite *suite = suite_create("standin_reports");
    if (!kernels_available("standin_reports"))
        return suite;
    TCase *tests = tcase_create("reports");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, what_is_wrong_is_reported, 0,
                        (int)(sizeof reports / sizeof *reports));
    tcase_add_loop_test(tests, what_is_right_is_not_reported, 0,
                        (int)(sizeof right / sizeof *right));
    suite_add_tcase(suite, tests);
    return suite;
}
