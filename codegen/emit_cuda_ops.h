/*
 * emit_cuda_ops.h - the operations of a graph as values of a CUDA casting: a kernel per distinct
 * chain of row operations, linear and mixture, a launch per operation.
 */
#ifndef SC_EMIT_CUDA_OPS_H
#define SC_EMIT_CUDA_OPS_H

#include "emit_ops.h"

/* What has a kernel so far: operations whose texts are equal share it. */
typedef struct {
    const char *text, *stem, *name; /* stem: name without its number */
} sc_cuda_kernel;

typedef struct {
    sc_scope *top;
    const sc_plan *plan;
    int kind;            /* of the layer */
    const char *weights; /* where those of the list begin, as C */
    int kernels;
    sc_cuda_kernel *kernel;
    bool act[SC_ACTS], limits; /* what some linear ends with */
} sc_cuda_set;

int sc_cuda_begin(sc_cuda_set *set, sc_error *err);
/* The list's operations as items of that name of the scope. */
void sc_cuda_list(sc_cuda_set *set, sc_scope *scope, const char *name, const sc_op_list *list);
/* The head, and what all of them have used. */
void sc_cuda_end(sc_cuda_set *set);

#endif
