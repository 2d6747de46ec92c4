/*
 * ptxas.h - what a model's kernels take of a device, as ptxas says: for tests and `make
 * cuda-report`.
 *
 * Needs NVRTC, no device and no driver.
 */
#ifndef SC_TEST_PTXAS_H
#define SC_TEST_PTXAS_H

#include "../../codegen/export.h"
#include "../../codegen/nvrtc.h"

typedef struct {
    char kernel[96];
    int registers;    /* of a thread */
    int shared;       /* bytes of a block, static */
    int stack, spill; /* bytes of a thread in local memory: its frame, stores and loads of spills */
} ptxas_kernel;

typedef struct {
    int kernels;
    const ptxas_kernel *kernel; /* in the source's order */
    const char *warnings;       /* lines of the log with one; "" */
} ptxas_report;

/* Of a verbose log; in the pool. SC_EENV: no memory; SC_EINPUT: it is not as ptxas writes. */
int ptxas_read(ptxas_report *report, sc_pool *pool, const char *log, sc_error *err);

/* Compiles the device code of a casting of model (no weights are wanted) for sm. Errors are the
 * export's. */
int ptxas_compile(ptxas_report *report, const sc_nvrtc *nvrtc, sc_pool *pool, const char *model,
                  const sc_export_options *options, int sm, sc_error *err);

/* Does it work for one token? Prefill, the cache's moves and loading are the rest. */
bool ptxas_is_decode(const ptxas_kernel *kernel);

#endif
