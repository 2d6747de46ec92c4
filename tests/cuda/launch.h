/*
 * launch.h - how a library of host-built kernels is called: tests/cuda/host.h makes such libraries.
 *
 * A library is one .cu file built together with tests/cuda/host.cc; it exports its kernels, by
 * their names, and sc_host_launch. tests/support/kernels.h builds and opens them.
 */
#ifndef SC_TEST_LAUNCH_H
#define SC_TEST_LAUNCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of a launch: words that a kernel takes, threads of a block, bytes of shared memory. */
enum { SC_HOST_WORDS = 16, SC_HOST_THREADS = 1024, SC_HOST_SHARED = 48 * 1024 };

/*
 * Runs a kernel of this library to its end, blocks one after another, a fiber per thread.
 *
 * kernel      its address, from dlsym
 * grid block  [x, y, z]
 * shared      bytes of dynamic shared memory: they count, no kernel can reach them
 * words       the parameters, each 8 bytes wide: pointers and long long
 * seed        0 takes blocks and threads in ascending order; any other number permutes the blocks,
 *             and the threads anew after every barrier
 * report      what went wrong, cut at report_bytes; may be NULL
 *
 * Nonzero (and a report) for a grid or block that no device takes, too many words, more than
 * SC_HOST_SHARED bytes, a barrier or warp operation that some threads do not reach, a shuffle from
 * a lane that takes no part, a shared array that is read before it is written, out of bounds or
 * raced for, and a load of 16 bytes that is not aligned. What the kernel has stored by then stays.
 *
 * One launch of a library runs at a time; a second thread waits.
 */
typedef int sc_host_launch_fn(void *kernel, const unsigned grid[3], const unsigned block[3],
                              unsigned long long shared, const unsigned long long *words, int count,
                              unsigned long long seed, char *report, size_t report_bytes);

__attribute__((visibility("default"))) sc_host_launch_fn sc_host_launch;

#ifdef __cplusplus
}
#endif

#endif
