/*
 * cublaslt.c - a cuBLASLt for the stand-in driver, tests only: libcublasLt.so.13.
 *
 * The functions that runtime/cublaslt.c names, for D = alpha op(A) B + beta C with A transposed,
 * A and B of float, half or bfloat16, C and D of float. A product is an operation of its stream.
 * Source: cuBLASLt reference; the numbers of attributes are those of cublasLt.h.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/half.h"
#include "standin.h"

#define API __attribute__((visibility("default")))

enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15, R_32F = 0, R_16F = 2, R_16BF = 14 };

typedef struct {
    int type;
    uint64_t rows, columns;
    int64_t leading;
} layout;

typedef struct {
    int transposed[2];
} desc;

typedef struct {
    uint64_t data[8];
} algorithm;

typedef struct {
    algorithm algo;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} heuristic;

API int cublasLtCreate(void **handle);
API int cublasLtDestroy(void *handle);
API int cublasLtMatmulDescCreate(desc **d, int compute, int scale);
API int cublasLtMatmulDescDestroy(desc *d);
API int cublasLtMatmulDescSetAttribute(desc *d, int attribute, const void *value, size_t bytes);
API int cublasLtMatrixLayoutCreate(layout **l, int type, uint64_t rows, uint64_t columns,
                                   int64_t ld);
API int cublasLtMatrixLayoutDestroy(layout *l);
API int cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes);
API int cublasLtMatmulPreferenceCreate(void **p);
API int cublasLtMatmulPreferenceDestroy(void *p);
API int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value,
                                             size_t bytes);
API int cublasLtMatmulAlgoGetHeuristic(void *handle, desc *d, layout *a, layout *b, layout *c,
                                       layout *e, void *p, int wanted, heuristic *results,
                                       int *found);
API int cublasLtMatmul(void *handle, desc *d, const void *alpha, const void *a, layout *la,
                       const void *b, layout *lb, const void *beta, const void *c, layout *lc,
                       void *e, layout *le, const algorithm *algo, void *workspace, size_t bytes,
                       void *stream);

static int make(void **made, size_t bytes) {
    *made = calloc(1, bytes);
    return *made ? 0 : 3;
}

int cublasLtCreate(void **handle) { return make(handle, 1); }
int cublasLtDestroy(void *handle) {
    free(handle);
    return 0;
}

int cublasLtMatmulDescCreate(desc **d, int compute, int scale) {
    enum { COMPUTE_32F = 68 };
    return compute != COMPUTE_32F || scale != R_32F ? NOT_SUPPORTED : make((void **)d, sizeof **d);
}
int cublasLtMatmulDescDestroy(desc *d) {
    free(d);
    return 0;
}
int cublasLtMatmulDescSetAttribute(desc *d, int attribute, const void *value, size_t bytes) {
    enum { TRANSA = 3, TRANSB = 4 };
    if ((attribute != TRANSA && attribute != TRANSB) || bytes != sizeof(int))
        return INVALID_VALUE;
    memcpy(&d->transposed[attribute - TRANSA], value, bytes);
    return 0;
}

int cublasLtMatrixLayoutCreate(layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    const int rc = make((void **)l, sizeof **l);
    if (!rc)
        **l = (layout){ type, rows, columns, ld };
    return rc;
}
int cublasLtMatrixLayoutDestroy(layout *l) {
    free(l);
    return 0;
}
int cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes) {
    enum { ROWS = 2, COLS = 3, LD = 4 };
    if (attribute < ROWS || attribute > LD || bytes != 8)
        return INVALID_VALUE;
    memcpy(attribute == ROWS   ? (void *)&l->rows
           : attribute == COLS ? (void *)&l->columns
                               : (void *)&l->leading,
           value, bytes);
    return 0;
}

int cublasLtMatmulPreferenceCreate(void **p) { return make(p, 1); }
int cublasLtMatmulPreferenceDestroy(void *p) {
    free(p);
    return 0;
}
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes) {
    (void)p, (void)value;
    return attribute == 1 && bytes == sizeof(size_t) ? 0 : INVALID_VALUE;
}

static size_t size_of(int type) { return type == R_32F ? 4 : 2; }

/* What is wrong with these shapes, 0: nothing. */
static int check(const desc *d, const layout *a, const layout *b, const layout *c,
                 const layout *e) {
    if (!d->transposed[0] || d->transposed[1] || a->type != b->type || c->type != R_32F ||
        e->type != R_32F || (a->type != R_32F && a->type != R_16F && a->type != R_16BF))
        return NOT_SUPPORTED;
    if (a->rows != b->rows || a->columns != e->rows || b->columns != e->columns ||
        c->rows != e->rows || c->columns != e->columns)
        return INVALID_VALUE;
    const layout *const all[] = { a, b, c, e };
    for (int i = 0; i < 4; i++)
        if (all[i]->leading < (int64_t)all[i]->rows || !all[i]->rows || !all[i]->columns)
            return INVALID_VALUE;
    return 0;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, desc *d, layout *a, layout *b, layout *c,
                                   layout *e, void *p, int wanted, heuristic *results, int *found) {
    (void)handle, (void)p;
    const int rc = wanted < 1 ? INVALID_VALUE : check(d, a, b, c, e);
    memset(results, 0, sizeof *results);
    results->algo.data[0] =
        a->rows * 31 + a->columns * 7 + b->columns; /* good for this shape alone */
    *found = !rc;
    return rc;
}

typedef struct {
    layout a, b, c, e;
    const void *pa, *pb, *pc;
    void *pe;
    float alpha, beta;
} product;

static float element(const void *p, int type, size_t i) {
    if (type == R_32F)
        return ((const float *)p)[i];
    const uint16_t half = ((const uint16_t *)p)[i];
    return type == R_16F ? sc_from_f16(half) : sc_from_bf16(half);
}

static void multiply(void *data) {
    const product *m = data;
    for (uint64_t column = 0; column < m->e.columns; column++)
        for (uint64_t row = 0; row < m->e.rows; row++) {
            float sum = 0;
            for (uint64_t k = 0; k < m->a.rows; k++)
                sum += element(m->pa, m->a.type, row * (size_t)m->a.leading + k) *
                       element(m->pb, m->b.type, column * (size_t)m->b.leading + k);
            float *to = (float *)m->pe + column * (size_t)m->e.leading + row;
            const float old = ((const float *)m->pc)[column * (size_t)m->c.leading + row];
            *to = m->alpha * sum + (m->beta < 0 || m->beta > 0 ? m->beta * old : 0);
        }
}

static bool owns(const layout *l, const void *at) {
    return (uintptr_t)at % 16 == 0 &&
           sc_standin_owns(at, ((size_t)(l->columns - 1) * (size_t)l->leading + l->rows) *
                                   size_of(l->type));
}

int cublasLtMatmul(void *handle, desc *d, const void *alpha, const void *a, layout *la,
                   const void *b, layout *lb, const void *beta, const void *c, layout *lc, void *e,
                   layout *le, const algorithm *algo, void *workspace, size_t bytes, void *stream) {
    (void)handle;
    const int rc = check(d, la, lb, lc, le);
    if (rc)
        return rc;
    if (!owns(la, a) || !owns(lb, b) || !owns(lc, c) || !owns(le, e) ||
        (bytes && !sc_standin_owns(workspace, bytes)) ||
        (algo && algo->data[0] != la->rows * 31 + la->columns * 7 + lb->columns))
        return INVALID_VALUE;
    const product m = {
        *la, *lb, *lc, *le, a, b, c, e, *(const float *)alpha, *(const float *)beta
    };
    return sc_standin_enqueue(stream, multiply, &m, sizeof m) ? 13 : 0;
}
