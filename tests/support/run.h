/*
 * run.h - the command and its castings as tests use them.
 *
 * Castings are built in build/test-castings, made anew by the first test of a run that needs them.
 */
#ifndef SC_TEST_RUN_H
#define SC_TEST_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "../../codegen/tensors.h"

/* Runs a shell command; output (stdout) and talk (stderr), cut at 64 KiB, may be NULL. $SLIPCAST is
 * set. Returns the exit status. */
__attribute__((format(printf, 3, 4))) int run(char **output, char **talk, const char *format, ...);

/* A fixture, for what builds many castings: the files of runtime/, which all of them have, are
 * compiled once (tests/support/cc is CC from here on). */
void run_share_runtime(void);

/* A tensor of a file as floats (caller frees), shape into shape[8]; fails the test when it is
 * missing. */
float *tensor_floats(const sc_tensors *tensors, const char *name, int *rank, int64_t *shape);

/* Largest |a - b|; both must hold count. *worst: its index. */
double largest_difference(const float *a, const float *b, size_t count, size_t *worst);

#endif
