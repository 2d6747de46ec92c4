/* check_threads.c - runtime/threads.h and runtime/cpu.h: every thread runs, no barrier leaks. */
#include "../runtime/cpu.h"
#include "../runtime/threads.h"

#include <check.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

Suite *threads_suite(void);

static const int counts[] = { 1, 2, 3, 8 };

enum { COUNTS = 4, ROUNDS = 2000, RUNS = 2000 };

typedef struct {
    sc_threads *crew;
    int slot[SC_THREADS_MAX]; /* plain on purpose: only the barrier orders it */
    int times[SC_THREADS_MAX];
    _Atomic int wrong;
} shared;

static sc_threads *create(int threads) {
    sc_threads *crew = NULL;
    sc_error err;
    ck_assert_int_eq(sc_threads_create(&crew, threads, &err), SC_OK);
    return crew;
}

static void count_work(void *arg, int thread, int threads) {
    shared *s = arg;
    s->times[thread]++;
    if (threads != sc_threads_count(s->crew))
        atomic_fetch_add(&s->wrong, 1);
}

START_TEST(every_thread_runs_once) {
    shared s = { .crew = create(counts[_i]) };
    for (int run = 1; run <= RUNS; run++) {
        sc_threads_run(s.crew, count_work, &s);
        for (int t = 0; t < SC_THREADS_MAX; t++)
            ck_assert_int_eq(s.times[t], t < counts[_i] ? run : 0);
    }
    ck_assert_int_eq(s.wrong, 0);
    sc_threads_destroy(s.crew);
}
END_TEST

static void barrier_work(void *arg, int thread, int threads) {
    shared *s = arg;
    for (int round = 1; round <= ROUNDS; round++) {
        s->slot[thread] = round;
        sc_threads_barrier(s->crew);
        for (int t = 0; t < threads; t++)
            if (s->slot[t] != round)
                atomic_fetch_add(&s->wrong, 1);
        sc_threads_barrier(s->crew);
    }
}

START_TEST(barrier_holds_all) {
    shared s = { .crew = create(counts[_i]) };
    for (int run = 0; run < 3; run++)
        sc_threads_run(s.crew, barrier_work, &s);
    ck_assert_int_eq(s.wrong, 0);
    sc_threads_destroy(s.crew);
}
END_TEST

START_TEST(sleeping_workers_wake) {
    shared s = { .crew = create(counts[_i]) };
    for (int run = 1; run <= 20; run++) {
        usleep(2000);
        sc_threads_run(s.crew, count_work, &s);
        ck_assert_int_eq(s.times[counts[_i] - 1], run);
    }
    sc_threads_destroy(s.crew);
}
END_TEST

static void late_work(void *arg, int thread, int threads) {
    if (thread == threads - 1)
        usleep(3000); /* the others pass from spinning to sleep */
    barrier_work(arg, thread, threads);
}

START_TEST(late_thread_is_awaited) {
    shared s = { .crew = create(counts[_i]) };
    sc_threads_run(s.crew, late_work, &s);
    ck_assert_int_eq(s.wrong, 0);
    sc_threads_destroy(s.crew);
}
END_TEST

START_TEST(created_and_destroyed) {
    for (int i = 0; i < 50; i++)
        sc_threads_destroy(create(counts[_i]));
    sc_threads_destroy(NULL);
}
END_TEST

START_TEST(two_crews_at_once) {
    shared a = { .crew = create(2) }, b = { .crew = create(3) };
    sc_threads_run(a.crew, barrier_work, &a);
    sc_threads_run(b.crew, barrier_work, &b);
    ck_assert_int_eq(a.wrong + b.wrong, 0);
    sc_threads_destroy(a.crew);
    sc_threads_destroy(b.crew);
}
END_TEST

START_TEST(limits) {
    sc_threads *crew = NULL;
    sc_error err;
    ck_assert_int_eq(sc_threads_create(&crew, -1, &err), SC_EUSAGE);
    ck_assert_str_eq(err.message, "threads: -1 is not in 1..64 (0 takes every core)");
    ck_assert_int_eq(sc_threads_create(&crew, 65, NULL), SC_EUSAGE);
    ck_assert_ptr_null(crew);
    crew = create(0);
    ck_assert_int_ge(sc_threads_count(crew), 1);
    sc_threads_destroy(crew);
    crew = create(64);
    ck_assert_int_eq(sc_threads_count(crew), 64);
    shared s = { .crew = crew };
    sc_threads_run(crew, count_work, &s);
    ck_assert_int_eq(s.times[63], 1);
    sc_threads_destroy(crew);
}
END_TEST

START_TEST(cpu_names) {
    static const char *const names[] = { "generic", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" };
    int best = -1;
    sc_error err;
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], sc_cpu_native()) == 0)
            best = i;
    ck_assert_int_ge(best, 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(sc_cpu_check(names[i], &err), i <= best ? SC_OK : SC_EENV);
    ck_assert_int_eq(sc_cpu_check("x86-64-v9", &err), SC_EUSAGE);
}
END_TEST

Suite *threads_suite(void) {
    Suite *suite = suite_create("threads");
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, every_thread_runs_once, 0, COUNTS);
    tcase_add_loop_test(tests, barrier_holds_all, 0, COUNTS);
    tcase_add_loop_test(tests, sleeping_workers_wake, 0, COUNTS);
    tcase_add_loop_test(tests, late_thread_is_awaited, 0, COUNTS);
    tcase_add_loop_test(tests, created_and_destroyed, 0, COUNTS);
    tcase_add_test(tests, two_crews_at_once);
    tcase_add_test(tests, limits);
    tcase_add_test(tests, cpu_names);
    suite_add_tcase(suite, tests);
    return suite;
}
