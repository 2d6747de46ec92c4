/*
 * dump.h - writes tensors to a safetensors file.
 *
 *     sc_dump *dump;
 *     sc_dump_begin(&dump, path);
 *     sc_dump_add(dump, "logits", "F32", 2, shape, logits);
 *     rc = sc_dump_end(dump, err);
 *
 * The first failure sticks: later calls repeat its code, and sc_dump_end says what it was, so only
 * sc_dump_end need be checked. Names and shapes are copied; data is only pointed to and must live
 * until the end. The file appears whole or not at all.
 * Source   the safetensors format: 8 bytes of header length, a JSON header, the data.
 */
#ifndef SC_DUMP_H
#define SC_DUMP_H

#include "error.h"

#include <stdint.h>

#define SC_DUMP_RANK_MAX 8

typedef struct sc_dump sc_dump;

/* SC_EENV without memory; *out is NULL then, which the others take for that failure. */
int sc_dump_begin(sc_dump **out, const char *path);

/*
 * dtype "F32", "I32", "BF16" or "F16"; rank 0..8 (0: one element, shape may be NULL). SC_EUSAGE:
 * another dtype or rank, a negative or overflowing shape, a name twice or unprintable; SC_EENV: no
 * memory.
 */
int sc_dump_add(sc_dump *dump, const char *name, const char *dtype, int rank, const int64_t *shape,
                const void *data);

/* Writes aside, syncs, renames, and frees dump in every case. SC_EENV if writing fails. */
int sc_dump_end(sc_dump *dump, sc_error *err);

#endif
