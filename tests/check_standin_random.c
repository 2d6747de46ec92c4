/*
 * check_standin_random.c - random programs on four streams, against the definition: two sets race
 * when their bytes meet and no path of streams, events, waits of the host and launches joins them.
 */
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "support/draw.h"
#include "support/kernels.h"
#include "support/rig.h"

Suite *standin_random_suite(void);

enum { STREAMS = 4, EVENTS = 3, STEPS = 40, BYTES = 24, PROGRAMS = 400, BITS = 64 };

/* A set of operations: bit i is the i-th. */
typedef uint64_t ops;

/* What a program has done so far, by the definition. */
typedef struct {
    int count;
    ops before[BITS]; /* of each operation */
    ops done[STREAMS],
        at[EVENTS]; /* what the next one of a stream, a wait for an event, is after */
    ops host;
    int from[BITS], to[BITS]; /* bytes that it writes; reads: when writes is not set */
    bool writes[BITS];
    bool race;
} model;

static rig r;
static CUstream streams[STREAMS];
static unsigned char *device, *aside;

static void model_op(model *m, int stream, int from, int to, bool writes) {
    const int i = m->count++;
    m->before[i] = m->done[stream] | m->host;
    m->from[i] = from;
    m->to[i] = to;
    m->writes[i] = writes;
    for (int j = 0; j < i; j++)
        if (!(m->before[i] >> j & 1) && (writes || m->writes[j]) && from < m->to[j] &&
            m->from[j] < to)
            m->race = true;
    m->done[stream] = m->before[i] | (ops)1 << i;
}

/* One step of the program and of the model. captured: no waits of the host. */
static void step(model *m, uint64_t *state, bool captured) {
    const int kind = draw(state, captured ? 9 : 10), s = draw(state, STREAMS);
    const int event = draw(state, EVENTS);
    const int from = draw(state, BYTES), to = from + 1 + draw(state, BYTES - from) / 3;
    const size_t bytes = (size_t)(to - from);
    if (kind < 4) {
        RIG(&r, MemsetD8Async, rig_word(device + from), 0, bytes, streams[s]);
        model_op(m, s, from, to, true);
    } else if (kind < 5) { /* each to a place of its own */
        ck_assert_int_eq(rig_copy(&r, aside + m->count * BYTES, device + from, bytes, streams[s]),
                         0);
        model_op(m, s, from, to, false);
    } else if (kind < 7) {
        RIG(&r, EventRecord, r.event[event], streams[s]);
        m->at[event] = m->done[s];
    } else if (kind < 9) {
        RIG(&r, StreamWaitEvent, streams[s], r.event[event], 0);
        m->done[s] |= m->at[event];
    } else {
        RIG(&r, StreamSynchronize, streams[s]);
        m->host |= m->done[s];
    }
}

static void open_program(uint64_t seed) {
    rig_open_seed(&r, seed);
    device = rig_device(&r, BYTES);
    aside = rig_device(&r, BITS * BYTES);
    for (int i = 0; i < STREAMS; i++)
        RIG(&r, StreamCreate, &streams[i], 1);
}

static void close_program(void) {
    for (int i = 0; i < STREAMS; i++)
        RIG(&r, StreamDestroy, streams[i]);
    rig_free(&r, device);
    rig_free(&r, aside);
}

START_TEST(a_race_is_what_nothing_orders) {
    int races = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        uint64_t state = seed * 77;
        model m = { 0 };
        open_program(seed);
        while (m.count < STEPS && !m.race) {
            step(&m, &state, false);
            ck_assert_msg((rig_reports(NULL) > 0) == m.race, "program %d, operation %d", (int)seed,
                          m.count);
        }
        races += m.race;
        close_program();
    }
    ck_assert_int_gt(races, PROGRAMS / 4);
}
END_TEST

/* The same within a capture, whose streams all come in first and are all joined in the end. */
START_TEST(a_graphs_race_is_what_nothing_orders) {
    int races = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        uint64_t state = seed * 99;
        model m = { 0 };
        CUgraph graph;
        open_program(seed);
        RIG(&r, StreamBeginCapture, streams[0], 1);
        for (int i = 0; i < EVENTS; i++)
            RIG(&r, EventRecord, r.event[i], streams[0]);
        for (int i = 1; i < STREAMS; i++)
            RIG(&r, StreamWaitEvent, streams[i], r.event[0], 0);
        while (m.count < STEPS / 2 && !m.race) {
            step(&m, &state, true);
            ck_assert_msg((rig_reports(NULL) > 0) == m.race, "program %d, operation %d", (int)seed,
                          m.count);
        }
        races += m.race;
        for (int i = 1; i < STREAMS; i++)
            rig_order(&r, streams[i], streams[0], 0);
        RIG(&r, StreamEndCapture, streams[0], &graph);
        RIG(&r, GraphDestroy, graph);
        close_program();
    }
    ck_assert_int_gt(races, PROGRAMS / 4);
}
END_TEST

/* Every operation marks its turn; turns are in the order of the model. As a graph too. */
static void check_order(uint64_t seed, bool captured) {
    uint64_t state = seed * 55;
    model m = { 0 };
    open_program(seed);
    unsigned *marks = (unsigned *)rig_device(&r, (BITS + 1) * sizeof *marks);
    memset(marks, 0, sizeof *marks);
    if (captured)
        RIG(&r, StreamBeginCapture, streams[0], 1);
    for (int i = 0; i < EVENTS; i++)
        RIG(&r, EventRecord, r.event[i], streams[0]);
    for (int i = 1; i < STREAMS; i++)
        RIG(&r, StreamWaitEvent, streams[i], r.event[0], 0);
    while (m.count < STEPS) {
        const int kind = draw(&state, 4), s = draw(&state, STREAMS), e = draw(&state, EVENTS);
        if (kind < 2) {
            model_op(&m, s, 0, 0, true);
            RIG_LAUNCH(&r, "mark_kernel", streams[s], rig_word(marks), rig_word(marks + m.count));
        } else if (kind == 2) {
            RIG(&r, EventRecord, r.event[e], streams[s]);
            m.at[e] = m.done[s];
        } else {
            RIG(&r, StreamWaitEvent, streams[s], r.event[e], 0);
            m.done[s] |= m.at[e];
        }
    }
    for (int i = 1; i < STREAMS; i++)
        rig_order(&r, streams[i], streams[0], 0);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    if (captured) {
        RIG(&r, StreamEndCapture, streams[0], &graph);
        RIG(&r, GraphInstantiateWithFlags, &exec, graph, 0);
        RIG(&r, GraphDestroy, graph);
        RIG(&r, GraphLaunch, exec, streams[0]);
        RIG(&r, GraphExecDestroy, exec); /* what was launched runs all the same */
    }
    ck_assert_uint_eq(marks[0], 0);
    RIG(&r, StreamSynchronize, streams[0]);
    ck_assert_uint_eq(marks[0], STEPS);
    for (int i = 0; i < STEPS; i++)
        for (int j = 0; j < i; j++)
            ck_assert(!(m.before[i] >> j & 1) || marks[1 + j] < marks[1 + i]);
    rig_free(&r, marks);
    close_program();
    rig_close(&r);
    standin_check_clean(__func__);
}

START_TEST(operations_come_in_an_order_that_is_allowed) {
    for (uint64_t seed = 1; seed <= PROGRAMS / 10; seed++)
        check_order(seed, _i);
}
END_TEST

Suite *standin_random_suite(void) {
    Suite *suite = suite_create("standin_random");
    if (!kernels_available("standin_random"))
        return suite;
    TCase *tests = tcase_create("random");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_race_is_what_nothing_orders);
    tcase_add_test(tests, a_graphs_race_is_what_nothing_orders);
    tcase_add_loop_test(tests, operations_come_in_an_order_that_is_allowed, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}
