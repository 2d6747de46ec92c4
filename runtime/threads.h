/*
 * threads.h - a fixed crew of threads that runs one function at a time, and its barrier.
 *
 * The caller of sc_threads_run is thread 0; the crew holds the others. Between runs they spin
 * briefly and then sleep. With 1 thread everything is a plain call. With more threads than the
 * process may use cores nobody spins, as a spinning waiter would hold up the one it waits for.
 *
 * Owner    the caller; sc_threads_create takes all memory, nothing is allocated afterwards.
 * Rules    one run at a time: no run inside work, no two callers at once. Destroy outside of runs.
 */
#ifndef SC_THREADS_H
#define SC_THREADS_H

#include "error.h"

#define SC_THREADS_MAX 64

typedef struct sc_threads sc_threads;

/*
 * threads: 1..64, or 0 for the cores that this process's affinity allows (64 at most).
 * SC_EUSAGE for any other number, SC_EENV without memory or when no thread can be started.
 */
int sc_threads_create(sc_threads **out, int threads, sc_error *err);

/* Ends the threads and frees the crew; NULL is allowed. */
void sc_threads_destroy(sc_threads *crew);

/* How many threads take part in a run, the caller included. */
int sc_threads_count(const sc_threads *crew);

/* Every thread calls work(arg, thread, threads) once; returns when all have returned. */
void sc_threads_run(sc_threads *crew, void (*work)(void *arg, int thread, int threads), void *arg);

/*
 * Inside work: waits until every thread of the crew is here. What any thread wrote before is seen
 * by all after. Every thread must come equally often.
 */
void sc_threads_barrier(sc_threads *crew);

#endif
