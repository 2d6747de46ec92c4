/*
 * standin.h - the stand-in driver for a test: tests/cuda/standin.h says what it does.
 *
 * runtime/cuda.h finds it after standin_open, as libcuda.so.1, and so does a casting; a program
 * that a test starts wants standin_folder in LD_LIBRARY_PATH. Not in a process that has opened the
 * real driver.
 */
#ifndef SC_TEST_SUPPORT_STANDIN_H
#define SC_TEST_SUPPORT_STANDIN_H

#include "../cuda/standin.h"

typedef struct {
    sc_cuda_api api;
    sc_standin_reset_fn *reset;
    sc_standin_seed_fn *seed;
    sc_standin_log_fn *log;
    void *library, *cublaslt; /* for dlsym */
} standin;

/* Opens both libraries, once; they stay. Fails the test. */
const standin *standin_open(void);

/* Where they are; constant. */
const char *standin_folder(void);

/* Fails the test, and says what it was about, when something is still live or was reported. */
void standin_check_clean(const char *what);

#endif
