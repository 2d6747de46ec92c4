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
    const sc_layer_kinds *kinds;
    const char *weights; /* where those of the list begin, as C */
    int kernels;
    sc_cuda_kernel *kernel;
    bool act[SC_ACTS], limits; /* what some linear ends with */
    bool scattered;            /* some linear's operands do not begin at whole loads */
} sc_cuda_set;

int sc_cuda_begin(sc_cuda_set *set, sc_error *err);
/* The list's operations as items of that name of the scope; layer: one that has it, -1: none. */
void sc_cuda_list(sc_cuda_set *set, sc_scope *scope, const char *name, const sc_op_list *list,
                  int layer);
/* The head, and what all of them have used. */
void sc_cuda_end(sc_cuda_set *set);

/* ---- what the files of one operation each are made of ---- */

/* The kernel's name, stem0, stem1, … in order of first use; *is_new: it was not there before.
 * Operations whose texts are equal share it. */
const char *sc_cuda_kernel_name(sc_cuda_set *set, const char *stem, const char *text, bool *is_new);
/* Where the span's floats lie in the scratch, where the weight ("NULL": none), as C. */
const char *sc_cuda_floats_at(const sc_cuda_set *set, sc_span span);
const char *sc_cuda_weight_at(const sc_cuda_set *set, const sc_weight *weight);
/* The activation's function, which is then there. */
const char *sc_cuda_act(sc_cuda_set *set, sc_activation act);
/* y_…: what is written, and twin_…: its operands beside it where it has such. */
void sc_cuda_target(const sc_cuda_set *set, sc_scope *s, sc_span y);

/* emit_cuda_states.c: operations that remember. */
void sc_cuda_conv(sc_cuda_set *set, sc_scope *item, const sc_op *op);
void sc_cuda_state_space(sc_cuda_set *set, sc_scope *item, const sc_op *op);
void sc_cuda_delta_rule(sc_cuda_set *set, sc_scope *item, const sc_op *op);

#endif
