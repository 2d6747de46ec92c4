/* threads.c - see threads.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#endif
#include "threads.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

/* A pause takes 40 to 140 cycles on today's x86: about 100 and 50 microseconds. */
enum { BARRIER_SPINS = 4000, IDLE_SPINS = 2000, LINE = 64 };

/* A counter that threads wait on until it moves. One cache line each, so no two slow each other. */
typedef struct {
    _Alignas(LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} gate;

typedef struct {
    sc_threads *crew;
    int thread;
    pthread_t handle;
} worker;

struct sc_threads {
    gate start; /* moves when a run begins, or the crew ends */
    gate phase; /* moves when a barrier opens */
    _Alignas(LINE) _Atomic uint32_t arrived;
    _Alignas(LINE) int threads;
    int started; /* workers that exist: threads - 1, less when create fails */
    int barrier_spins, idle_spins;
    void (*work)(void *arg, int thread, int threads); /* NULL: end */
    void *arg;
    worker workers[SC_THREADS_MAX];
};

_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is 4 bytes");

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* May return early; the callers look again. */
static void sleep_while(gate *g, uint32_t seen) {
#ifdef __linux__
    syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    (void)g;
    (void)seen;
    sched_yield();
#endif
}

static void wait_past(gate *g, uint32_t seen, int spins) {
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(&g->value, memory_order_acquire) != seen)
            return;
        relax();
    }
    /* Counted before the last look, as open_gate moves before it counts: one sees the other. */
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) == seen)
        sleep_while(g, seen);
    atomic_fetch_sub_explicit(&g->sleepers, 1, memory_order_relaxed);
}

static void open_gate(gate *g) {
    atomic_fetch_add(&g->value, 1);
    if (atomic_load(&g->sleepers) == 0)
        return; /* the common case costs no system call */
#ifdef __linux__
    syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#endif
}

void sc_threads_barrier(sc_threads *crew) {
    uint32_t threads = (uint32_t)crew->threads;
    if (threads == 1)
        return;
    /* Read before arriving: until this thread arrives the phase cannot move. */
    uint32_t seen = atomic_load_explicit(&crew->phase.value, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&crew->arrived, 1, memory_order_acq_rel) + 1 == threads) {
        atomic_store_explicit(&crew->arrived, 0, memory_order_relaxed);
        open_gate(&crew->phase);
    } else {
        wait_past(&crew->phase, seen, crew->barrier_spins);
    }
}

static void *work_until_end(void *arg) {
    worker *self = arg;
    sc_threads *crew = self->crew;
    for (uint32_t seen = 0;; seen++) {
        wait_past(&crew->start, seen, crew->idle_spins);
        if (!crew->work)
            return NULL;
        crew->work(crew->arg, self->thread, crew->threads);
        sc_threads_barrier(crew);
    }
}

void sc_threads_run(sc_threads *crew, void (*work)(void *arg, int thread, int threads), void *arg) {
    if (crew->threads > 1) {
        crew->work = work;
        crew->arg = arg;
        open_gate(&crew->start);
    }
    work(arg, 0, crew->threads);
    sc_threads_barrier(crew);
}

static int available_cores(void) {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > INT_MAX ? INT_MAX : (int)online;
}

/* Signals stay with the caller's threads: a worker must not run a handler in mid-kernel. */
static int start_workers(sc_threads *crew) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    while (crew->started < crew->threads - 1 && rc == 0) {
        worker *next = &crew->workers[crew->started];
        next->crew = crew;
        next->thread = crew->started + 1;
        rc = pthread_create(&next->handle, NULL, work_until_end, next);
        crew->started += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int sc_threads_create(sc_threads **out, int threads, sc_error *err) {
    if (threads < 0 || threads > SC_THREADS_MAX)
        return sc_fail(err, SC_EUSAGE, "threads: %d is not in 1..%d (0 takes every core)", threads,
                       SC_THREADS_MAX);
    int cores = available_cores();
    if (threads == 0)
        threads = cores < SC_THREADS_MAX ? cores : SC_THREADS_MAX;
    sc_threads *crew = aligned_alloc(LINE, sizeof *crew);
    if (!crew)
        return sc_fail(err, SC_EENV, "threads: no memory for %zu bytes", sizeof *crew);
    memset(crew, 0, sizeof *crew);
    crew->threads = threads;
    crew->barrier_spins = threads > cores ? 0 : BARRIER_SPINS;
    crew->idle_spins = threads > cores ? 0 : IDLE_SPINS;
    int rc = start_workers(crew);
    if (rc) {
        sc_threads_destroy(crew);
        return sc_fail(err, SC_EENV, "threads: cannot start %d: %s (ask for fewer)", threads,
                       strerror(rc));
    }
    *out = crew;
    return SC_OK;
}

void sc_threads_destroy(sc_threads *crew) {
    if (!crew)
        return;
    crew->work = NULL;
    open_gate(&crew->start);
    for (int i = 0; i < crew->started; i++)
        pthread_join(crew->workers[i].handle, NULL);
    free(crew);
}

int sc_threads_count(const sc_threads *crew) { return crew->threads; }
