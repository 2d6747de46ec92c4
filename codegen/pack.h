/*
 * pack.h - NAME.weights: the checkpoint's tensors in the layout that the kernels read.
 *
 * Every tensor of the Plan must be there with its shape and a type we read; a tensor that the Plan
 * does not know is reported on stderr by the caller (extra). Reads and writes one panel at a time.
 */
#ifndef SC_PACK_H
#define SC_PACK_H

#include "plan.h"

/* Names, shapes and types against the Plan, before anything is written. *extra: a tensor that the
 * Plan does not use, or NULL. SC_EINPUT names what is missing or wrong. */
int sc_pack_check(const sc_plan *plan, const sc_tensors *tensors, const char **extra,
                  sc_error *err);

/* Writes the file through fd (open for reading and writing); path is for messages, progress (may be
 * NULL) is called with bytes done of the whole. */
int sc_pack_write(int fd, const char *path, const sc_plan *plan, const sc_tensors *tensors,
                  const char layout_hex[65], char sha256_hex[65],
                  void (*progress)(uint64_t, uint64_t), sc_error *err);

#endif
