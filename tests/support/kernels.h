/*
 * kernels.h - device code built for the host, for tests: tests/cuda/host.h.
 */
#ifndef SC_TEST_KERNELS_H
#define SC_TEST_KERNELS_H

#include "../cuda/launch.h"

/* Whether there is a C++ compiler: $CXX, or the one that goes with this program's. If not, says
 * once what is left out. */
int kernels_available(const char *left_out);

/*
 * Builds FILE.cu into library, with the sanitizers of this program (but not TSan's); fails the
 * test. The path of library ends in .so; options are the compiler's.
 */
void kernels_build(const char *library, const char *cu, const char *options);

/* The command that kernels_build runs, up to the files: for a test that builds by other means.
 * Constant. */
const char *kernels_command(void);

/* Opens such a library. It stays until dlclose. */
void *kernels_open(const char *library);

#endif
