/*
 * nvrtc.h - CUDA C to machine code, by NVRTC, opened with dlopen: slipcast itself needs no toolkit.
 *
 * Looks in $CUDA_HOME or $CUDA_PATH (lib64, lib) when one is set, else where the loader does, then
 * in /usr/local/cuda. Threads  one compiles at a time: NVRTC has a lock of its own, so more would
 * only wait. Source   NVRTC reference, 12.x and 13.x.
 */
#ifndef SC_NVRTC_H
#define SC_NVRTC_H

#include <stdbool.h>

#include "pool.h"

typedef struct sc_nvrtc sc_nvrtc;

/* A cubin, or PTX with its NUL; in the pool. */
typedef struct {
    const unsigned char *bytes;
    size_t size;
} sc_nvrtc_code;

/* SC_EENV: there is no libnvrtc, or one without a function that is needed. */
int sc_nvrtc_open(sc_nvrtc **nvrtc, sc_pool *pool, sc_error *err);

/* 13000 of CUDA 13.0. */
int sc_nvrtc_version(const sc_nvrtc *nvrtc);

/*
 * Compiles a whole source, called `name` in messages, for sm (90): to a cubin and, unless ptx is
 * NULL, to the PTX on the way there, which later devices can be given. The same source makes the
 * same bytes, wherever and whenever. log (in the pool) is what NVRTC says, verbose: what kernels
 * take too; NULL when it did not come so far.
 * SC_EINPUT  the source does not compile; log says why.
 * SC_EENV    this NVRTC does not know sm, or fails.
 */
int sc_nvrtc_compile(sc_nvrtc_code *cubin, sc_nvrtc_code *ptx, const char **log,
                     const sc_nvrtc *nvrtc, sc_pool *pool, const char *name, const char *source,
                     int sm, bool verbose, sc_error *err);

#endif
