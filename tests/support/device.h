/*
 * device.h - CUDA castings on the stand-in driver (tests/cuda/standin.h), for tests.
 *
 * A casting is exported, its device code built for the host, and opened; what stands for its cubins
 * are bytes that only look like some. Needs a C++ compiler, no toolkit and no device.
 */
#ifndef SC_TEST_DEVICE_H
#define SC_TEST_DEVICE_H

#include <stdbool.h>

#include "../../runtime/casting.h"
#include "../cuda/standin.h"

typedef struct {
    const sc_casting *api;
    char kernels[192]; /* the library of its kernels */
    char weights[192];
} device_casting;

/* Exports model with the options, as NAME in build/test-castings; made once in a run. */
const device_casting *device_cast(const char *name, const char *model, const char *options);

/* The driver begins anew, with the casting's kernels; settings may be NULL. */
void device_begin(const device_casting *casting, const sc_standin_settings *settings);
sc_standin_log device_log(void);
/* Is there what these tests need? If not, says once what is left out. */
bool device_available(void);

#endif
