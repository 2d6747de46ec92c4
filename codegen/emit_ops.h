/*
 * emit_ops.h - the operations of a graph as values: a function per distinct linear and attention, a
 * call per row operation.
 */
#ifndef SC_EMIT_OPS_H
#define SC_EMIT_OPS_H

#include "emit_scope.h"

enum { SC_MOST_LINEARS = 256 };

typedef struct {
    sc_scope *top;
    const sc_plan *plan;
    const sc_layer_kinds *kinds;
    int kind;            /* of the layer */
    int owner;           /* the kind whose function the operation calls */
    const char *layers;  /* that call it, as a comment says it */
    const char *weights; /* where an operation finds them, as C */
    int linears;
    struct {
        const char *text, *field, *name; /* sc_op_text; of its weight; of its function */
    } linear[SC_MOST_LINEARS];
    bool *fresh; /* [graph->values]: the operands beside the floats are those of the same floats */
    bool used[SC_ROWS];
    bool head_norms, rotates;   /* attention's own */
    bool rounds, uses_softplus; /* what layers that remember use */
    bool stores;                /* operands, a vector at a time */
} sc_op_set;

/* "QKV" of "qkv". */
const char *sc_macro(sc_pool *pool, const char *name);

/* "m->x + row * X_STRIDE + 64" of a span; "vec_silu" of an activation, "" of none. */
const char *sc_row_of(const sc_op_set *set, sc_span span);
const char *sc_act_name(sc_activation act);

/* An item of that list for an operation: of the sections that there are per kind, its own alone. */
sc_scope sc_emit_op_item(sc_scope *scope, const char *list, sc_op_kind kind);
/* The values of a function that its owner has: an item of that list, with its id and whose it is.
 */
sc_scope sc_emit_function(sc_op_set *set, const char *list);

/* emit_states.c: a function each. */
void sc_emit_conv(sc_op_set *set, const sc_conv *c);
void sc_emit_state_space(sc_op_set *set, const sc_state_space *o);
void sc_emit_delta_rule(sc_op_set *set, const sc_delta_rule *d);

int sc_emit_begin(sc_op_set *set, sc_error *err);
/* The operations as items of that list of the scope; layer: one whose operations they are, -1:
 * none. */
void sc_emit_list(sc_op_set *set, sc_scope *scope, const char *name, const sc_op_list *list,
                  int layer);
/* What all of them have used. */
void sc_emit_end(sc_op_set *set);

#endif
