/*
 * standin.h - the stand-in driver: libcuda.so.1 and libcublasLt.so.13 without a device, for tests.
 *
 * Device memory is memory of the process, kernels are host-built (launch.h), and a stream is a
 * queue that nothing empties until a call must wait. Then a seeded scheduler picks, again and
 * again, any operation that CUDA allows to run next: what works for one order only fails under
 * another seed. Copies read their source when they run; those of more than a page of 4 KiB run in
 * pieces. Fresh memory holds 0xff bytes, freed memory cannot be touched.
 *
 * Use      dlopen it by its path before anybody opens libcuda.so.1, or put its folder into
 *          LD_LIBRARY_PATH. tests/support/standin.h does the first.
 * Reports  what a program does wrong goes to stderr, "standin: …", into the log, and makes the next
 *          call that waits, and all after it, return CUDA_ERROR_ILLEGAL_ADDRESS:
 *          - two operations, at least one writing, that share bytes and that nothing orders: no
 *            stream, event, graph or wait of the host. Copies, sets and products; what a kernel
 *            touches is not known;
 *          - a copy onto itself, one from or to host memory that is not pinned, outside of an
 *            allocation or in freed memory; bytes changed around an allocation (found by its free);
 *          - pinned memory freed while operations use it, a free of what is not allocated;
 *          - what a kernel reports (launch.h).
 * Strict   the default stream, a handle of another context, a kernel without a parameter buffer, a
 *          graph launched into a capture, memset of pinned memory: errors here, not all elsewhere.
 * Source   CUDA Driver API reference 13.x: stream management, graph management, unified addressing.
 */
#ifndef SC_TEST_STANDIN_H
#define SC_TEST_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#include "../../runtime/cuda.h"

#define SC_STANDIN_EXPORT __attribute__((visibility("default")))

/* Zero is the default of every field. Environment variables have the same meaning: SC_STANDIN_SEED
 * and so on, in capitals. */
typedef struct {
    unsigned long long seed; /* 0: operations run in the order of the calls, kernels in theirs */
    /* The call of that number, from 1, fails and does nothing else; cuStreamEndCapture still ends
     * the capture. When it is a record, or a wait of a stream or of the host, the program has lost
     * an order that it asked for, and what races from then on is no report. */
    int64_t fail;
    int drop_wait; /* cuStreamWaitEvent does nothing where it is called from that place: places
                    * are numbered from 1, as they are first come to */
    size_t memory; /* of each device; 0: 1 GiB */
    int sm;        /* 0: 90 */
    int driver;    /* version; 0: 13000 */
    int devices;   /* 0: one, below 0: none. SC_STANDIN_DEVICES is the number itself */
    const char *kernels; /* library of host-built kernels; copied. NULL: SC_STANDIN_KERNELS */
    int quiet;           /* reports are not printed */
} sc_standin_settings;

/* Since the last reset. Live objects are leaks once everything is closed. */
typedef struct {
    int64_t calls;     /* that can fail: all but frees, destructions, pops, texts
                        * and the question whose a pointer is, asked of each that a caller brings */
    char failed[48];   /* the name of the one that was made to; "": none yet */
    int wait_places;   /* that call cuStreamWaitEvent */
    int mistakes;      /* reports */
    char mistake[256]; /* the first one, without "standin: "; "": none */
    int allocations, pinned, streams, events, modules, graphs, graph_execs, contexts; /* live */
    size_t bytes, peak;       /* of devices: live, and at most */
    int64_t allocated;        /* allocations made, the device's and pinned ones */
    int64_t launches, copies; /* that have run: kernels; copies and sets */
    int64_t graph_launches;   /* calls that put one on its stream */
} sc_standin_log;

/*
 * Begins anew, of a process that has not called the driver yet. NULL: by the environment. What is
 * still live is freed, so nobody may hold it. Not while another thread calls the driver.
 */
typedef void sc_standin_reset_fn(const sc_standin_settings *settings);
/* Goes on by another seed. */
typedef void sc_standin_seed_fn(unsigned long long seed);
typedef void sc_standin_log_fn(sc_standin_log *log);
SC_STANDIN_EXPORT sc_standin_reset_fn sc_standin_reset;
SC_STANDIN_EXPORT sc_standin_seed_fn sc_standin_seed;
SC_STANDIN_EXPORT sc_standin_log_fn sc_standin_read;

/* --- for libraries on top of the driver --- */

/* height rows of width bytes, pitch bytes apart. */
typedef struct {
    CUdeviceptr at;
    size_t width, pitch, height;
    int writes;
} sc_standin_range;

enum { SC_STANDIN_RANGES = 6, SC_STANDIN_ARGS = 256 };

typedef void sc_standin_work_fn(void *args);

/*
 * Puts a call of work on the stream, as a kernel would be; it gets a copy of args and may not call
 * the driver. ranges: all that it touches. what: its name in reports, constant.
 */
SC_STANDIN_EXPORT CUresult sc_standin_enqueue(CUstream stream, sc_standin_work_fn *work,
                                              const void *args, size_t bytes,
                                              const sc_standin_range *ranges, int count,
                                              const char *what);

/* Counts a call of such a library, by its name. Nonzero: it is the one that is to fail. */
SC_STANDIN_EXPORT int sc_standin_count(const char *call);

/* Whether the range lies in one live allocation. */
SC_STANDIN_EXPORT int sc_standin_holds(const sc_standin_range *range);

#endif
