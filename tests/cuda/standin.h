/*
 * standin.h - a CUDA driver that runs on the CPU, for tests: build/FLAVOUR/cuda/libcuda.so.1.
 *
 * Has the functions of the driver that runtime/cuda.h names, and no others. Nothing runs when it is
 * asked for: streams are queues, and when somebody must wait, whatever the CUDA model allows to run
 * next is drawn by a seed until the wait is over. Copies read and write when they run, large ones
 * in pieces between which others run. Kernels are those of a host-built library (launch.h).
 *
 * A test opens the library by its path, calls sc_standin_reset, and lets the runtime find it by its
 * name. Without reset the settings come from the environment: SC_STANDIN_SEED, _FAIL, _DROP_WAIT,
 * _MEMORY, _SM, _DRIVER, _DEVICES, _KERNELS. Not for two threads at once.
 *
 * A mistake (below) is written to stderr and to the log, and the next call that waits returns
 * CUDA_ERROR_ILLEGAL_ADDRESS, as does every later one:
 *   - two copies or fills that nothing orders, one of which writes what the other touches
 *   - a copy onto itself, to or from memory that is neither the device's nor pinned, or beyond
 *     what was allocated, or after it was freed; a free of what is under way
 *   - what sc_host_launch reports of a kernel
 */
#ifndef SC_STANDIN_H
#define SC_STANDIN_H

#include <stddef.h>

typedef struct {
    unsigned long long seed; /* 0: in the order of asking */
    long fail;     /* the n-th call (1 …) fails; 0: none. Calls that free are not counted */
    int drop_wait; /* the k-th place (1 …) that calls cuStreamWaitEvent is not heard */
    size_t memory; /* of the device; 0: 1 GiB */
    int sm, driver, devices; /* 0: 90, 13000, 1; devices -1: none */
    const char *kernels;     /* path of the library of kernels */
    int quiet;               /* mistakes are not written to stderr */
} sc_standin_settings;

typedef struct {
    long calls;      /* that could be made to fail */
    int wait_places; /* that call cuStreamWaitEvent */
    long mistakes;
    char mistake[256];                     /* the first one */
    long launches, copies, graph_launches; /* run so far */
    size_t peak;                           /* bytes of the device */
    /* What is still there. */
    int allocations, pinned, streams, events, modules, graphs, graph_execs, contexts;
} sc_standin_log;

/* Forgets everything; settings are copied. */
void sc_standin_reset(const sc_standin_settings *settings);
/* Goes on by another seed. */
void sc_standin_seed(unsigned long long seed);
void sc_standin_read(sc_standin_log *log);

/* For libcublasLt: runs call(data), of which bytes are kept, in its turn on the stream. Returns a
 * CUresult. */
int sc_standin_enqueue(void *stream, void (*call)(void *data), const void *data, size_t bytes);
/* Whether all these bytes are a live allocation's of the device. */
int sc_standin_owns(const void *at, size_t bytes);
void sc_standin_mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
