/*
 * nvrtc.h - CUDA C to machine code, by NVRTC, opened with dlopen: slipcast itself needs no toolkit.
 *
 * Source   NVRTC reference, 12.x and 13.x.
 */
#ifndef SC_NVRTC_H
#define SC_NVRTC_H

#include <stdbool.h>

#include "pool.h"

typedef struct sc_nvrtc sc_nvrtc;

/* SC_EENV: there is no libnvrtc, or one without a function that is needed. */
int sc_nvrtc_open(sc_nvrtc **nvrtc, sc_pool *pool, sc_error *err);

/* 13000 of CUDA 13.0. */
int sc_nvrtc_version(const sc_nvrtc *nvrtc);

/*
 * Compiles a whole source, called `name` in messages, for sm (90) to a cubin, or to PTX that later
 * devices can be given. verbose: ptxas says what kernels take. bytes and log are in the pool; the
 * same source makes the same bytes, wherever and whenever. SC_EENV: this NVRTC does not know sm, or
 * fails; SC_EINPUT: the source does not compile, log says why.
 */
int sc_nvrtc_compile(const sc_nvrtc *nvrtc, sc_pool *pool, const char *name, const char *source,
                     int sm, bool ptx, bool verbose, unsigned char **bytes, size_t *size,
                     char **log, sc_error *err);

#endif
