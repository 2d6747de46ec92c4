/*
 * tensors.h - the tensors of a checkpoint, whatever file they come from.
 *
 * Shapes are row-major, outermost first, as in PyTorch (GGUF's reversed dims are turned round by
 * its reader; names are the Hugging Face ones there too). Data is read in pieces with pread, never
 * mapped: an export's peak memory does not grow with the model.
 */
#ifndef SC_TENSORS_H
#define SC_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool.h"

typedef enum {
    SC_F32,
    SC_F16,
    SC_BF16,
    SC_Q8_0,
    SC_Q4_0,
    SC_Q4_1,
    SC_Q5_0,
    SC_Q5_1,
    SC_MXFP4,      /* of a checkpoint: mxfp4.h */
    SC_FP8_E4M3,   /* of a cache */
    SC_DTYPE_OTHER /* known to the file format, not readable as a weight (I64, BOOL, Q4_K, …) */
} sc_dtype;

enum { SC_TENSOR_RANK = 8 };

typedef struct sc_tensor sc_tensor;

struct sc_tensor {
    const char *name; /* as the Graph knows it: model.layers.0.self_attn.q_proj.weight */
    const char *file; /* path of the file it lies in */
    const char *type; /* the file's word for the type: "BF16", "Q4_K" */
    sc_dtype dtype;
    int rank;
    int64_t shape[SC_TENSOR_RANK];
    uint64_t offset; /* of its first byte, from the start of the file */
    uint64_t bytes;
    int fd;
    /* GGUF's llama stores q_proj and k_proj with each head's rows interleaved; rows are read back
     * in the checkpoint's order when this is the number of heads (0: as stored). */
    int64_t interleaved_heads;
    const sc_tensor *scales; /* of SC_MXFP4: one byte per block */
};

typedef struct {
    const char *path; /* of the folder or file, for messages */
    int count;
    sc_tensor *tensor; /* sorted by name (strcmp) */
    int files;
    int *fd; /* open descriptors */
} sc_tensors;

/* NULL when there is none of that name. */
const sc_tensor *sc_tensors_find(const sc_tensors *tensors, const char *name);

/* Rows first … first+rows-1 (a row: the last dimension; all other dimensions counted as rows) as
 * float32 into out [rows, width]. SC_EINPUT: the file ends early; SC_EENV: it cannot be read. */
int sc_tensor_read(const sc_tensor *tensor, int64_t first, int64_t rows, float *out, sc_error *err);

/* For the readers. Exactly bytes from offset on: SC_EINPUT when the file ends early. */
int sc_tensors_pread(int fd, const char *file, void *out, size_t bytes, uint64_t offset,
                     sc_error *err);
/* Opens a regular file: SC_EINPUT when it is none or does not exist, SC_EENV otherwise. */
int sc_tensors_open_fd(int *fd, uint64_t *bytes, const char *file, sc_error *err);
/* Sorts by name; SC_EINPUT when one is there twice. */
int sc_tensors_sort(sc_tensors *tensors, sc_error *err);

/* Closes the files; the rest belongs to the pool. NULL is allowed. */
void sc_tensors_close(sc_tensors *tensors);

#endif
