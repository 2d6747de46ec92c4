/*
 * emit_scope.h - filling a scope of template values, one after another; the first failure sticks.
 */
#ifndef SC_EMIT_SCOPE_H
#define SC_EMIT_SCOPE_H

#include "plan.h"
#include "template.h"

typedef struct {
    sc_pool *pool;
    sc_values *values;
    int rc;
} sc_scope;

void sc_scope_text(sc_scope *s, const char *name, const char *value); /* NULL: no memory was left */
void sc_scope_number(sc_scope *s, const char *name, int64_t value);
void sc_scope_real(sc_scope *s, const char *name, float value);
void sc_scope_flag(sc_scope *s, const char *name, bool value);
/* A new item of that list. */
sc_scope sc_scope_item(sc_scope *s, const char *list);

/* As many blanks as text has letters: they align what goes on below it. */
const char *sc_blanks(sc_pool *pool, const char *text);

/* Text with _ for every byte that is not one of C's: the only way in which a string of the model
 * folder gets into a source. */
#define SC_IDENTIFIER "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
const char *sc_identifier(sc_pool *pool, const char *text);

/* The layers whose kind is wanted, "Layers 0-4, 6, 8" or "Layer 3", for a comment: a long list goes
 * on behind " * ". */
const char *sc_layer_list(sc_pool *pool, int layers, const int *kind, int wanted);

/* The kinds of layers: those whose operations' texts are equal share their code. */
typedef struct {
    int *kind;  /* [layers] */
    int *first; /* [kinds]: a layer of that kind */
    int kinds;
} sc_layer_kinds;

/* The first kind that has an operation equal to that one of the layer: whose function it calls.
 * *layers: all layers with such a one, as sc_layer_list has them. -1: no memory. */
int sc_op_owner(sc_pool *pool, const sc_plan *plan, const sc_layer_kinds *kinds, int layer,
                const sc_op *op, const char **layers);

/* emit_cache.c: places, shapes, buffers, states. */
void sc_emit_cache(sc_scope *top, const sc_plan *plan);
/* emit_model.c: kinds of layers, linears, ropes, weights. */
int sc_emit_model(sc_scope *top, const sc_plan *plan, sc_error *err);
/* emit_cuda.c: the types of a CUDA casting's device code and the shapes of its kernels, which are
 * added to the item of a linear or an attention. */
typedef struct {
    int64_t in, out; /* out: of each of a gated pair */
    int blocks;      /* of so many linears side by side */
    bool normed;     /* x is floats, normed on the way */
    bool gated;
    bool chosen; /* one row of x, by the weights of one of its experts */
} sc_cuda_linear;

/* Whether one token of every row is few enough for the linears of decode. */
bool sc_cuda_decodes(const sc_plan *plan);
void sc_emit_cuda(sc_scope *top, const sc_plan *plan);
void sc_emit_cuda_linear(sc_scope *s, const sc_plan *plan, const sc_cuda_linear *l);
void sc_emit_cuda_attention(sc_scope *s, const sc_plan *plan, const sc_attention *a, int shape);
void sc_emit_cuda_index(sc_scope *s, const sc_plan *plan, const sc_index *x);
/* Where it finds q, k and v, and puts what it makes: for its kernels and their launches. */
void sc_emit_cuda_spans(sc_scope *s, const sc_plan *plan, const sc_attention *a);
/* emit_device.c: a CUDA casting's weights and buffers on the device. */
void sc_emit_device(sc_scope *top, const sc_plan *plan);

#endif
