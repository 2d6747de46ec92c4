/*
 * cublaslt.c - libcublasLt.so.13 without a device: plain products, on the stand-in driver's
 * streams.
 *
 * D = alpha op(A) op(B) + beta C, column-major, A and B of one type, all else float32; the sum of
 * an element runs in the order of k. What the real library would take and this one does not is
 * refused with CUBLAS_STATUS_NOT_SUPPORTED.
 *
 * Source  cuBLAS documentation 13.x, "Using the cublasLt API".
 */
#include <stdlib.h>
#include <string.h>

#include "../../runtime/half.h"
#include "standin.h"

typedef enum {
    STATUS_SUCCESS = 0,
    STATUS_ALLOC_FAILED = 3,
    STATUS_INVALID_VALUE = 7,
    STATUS_EXECUTION_FAILED = 13,
    STATUS_INTERNAL_ERROR = 14,
    STATUS_NOT_SUPPORTED = 15
} status;

/* Of cublasLt.h and library_types.h. */
enum {
    F32 = 0,
    F16 = 2,
    BF16 = 14,
    COMPUTE_32F = 68,
    OP_N = 0,
    OP_T = 1,
    DESC_TRANSA = 3,
    DESC_TRANSB = 4,
    LAYOUT_ROWS = 2,
    LAYOUT_COLS = 3,
    LAYOUT_LD = 4,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_OFFSET = 6,
    PREF_MAX_WORKSPACE_BYTES = 1,
    PREF_ALIGNMENT_A_BYTES = 5,
    PREF_ALIGNMENT_D_BYTES = 8
};

enum { ALIGN = 256, WORKSPACE = 4096, MARK = 0x73746e64 }; /* ALIGN: of every matrix by default */

typedef struct {
    uint32_t mark;
} handle;

typedef struct {
    int compute, scale, transposed[2];
} description;

typedef struct {
    int type;
    uint64_t rows, columns;
    int64_t leading;
    int32_t count;
    int64_t step; /* elements from one of them to the next */
} layout;

typedef struct {
    size_t workspace_bytes;
    uint32_t aligned[4]; /* bytes that addresses of A … D are multiples of */
} preference;

typedef struct {
    uint64_t data[8]; /* MARK and count, workspace bytes, m, n, k, type, alignments */
} algorithm;

typedef struct {
    algorithm algo;
    size_t workspace_bytes;
    status state;
    float waves;
    int reserved[4];
} heuristic;

/* A product with its addresses: what the stream's operation gets. */
typedef struct {
    const void *a, *b;
    const float *c;
    float *d;
    void *workspace;
    size_t workspace_bytes, m, n, k, lda, ldb, ldc, ldd;
    size_t count, step_a, step_b, step_c, step_d;
    int type, transposed_a, transposed_b;
    float alpha, beta;
} product;

_Static_assert(sizeof(product) <= SC_STANDIN_ARGS, "a stream's operation takes it");

#define FUNCTION(name, ...)                                                                        \
    SC_STANDIN_EXPORT status cublasLt##name(__VA_ARGS__);                                          \
    status cublasLt##name(__VA_ARGS__)

static status create(const char *call, void **out, size_t bytes, const void *value) {
    void *made = sc_standin_count(call) || !out ? NULL : malloc(bytes);
    if (!made)
        return out ? STATUS_ALLOC_FAILED : STATUS_INVALID_VALUE;
    memcpy(made, value, bytes);
    *out = made;
    return STATUS_SUCCESS;
}

static status destroy(void *made) {
    free(made);
    return made ? STATUS_SUCCESS : STATUS_INVALID_VALUE;
}

FUNCTION(Create, handle **out) {
    return create(__func__, (void **)out, sizeof(handle), &(handle){ MARK });
}

FUNCTION(Destroy, handle *h) { return destroy(h); }

FUNCTION(MatmulDescCreate, description **out, int compute, int scale) {
    if (compute != COMPUTE_32F || scale != F32)
        return STATUS_NOT_SUPPORTED;
    return create(__func__, (void **)out, sizeof(description),
                  &(description){ compute, scale, { OP_N, OP_N } });
}

FUNCTION(MatmulDescDestroy, description *desc) { return destroy(desc); }

FUNCTION(MatmulDescSetAttribute, description *desc, int which, const void *value, size_t bytes) {
    int operation;
    if (sc_standin_count(__func__))
        return STATUS_INTERNAL_ERROR;
    if (!desc || !value || bytes != sizeof operation)
        return STATUS_INVALID_VALUE;
    if (which != DESC_TRANSA && which != DESC_TRANSB)
        return STATUS_NOT_SUPPORTED;
    memcpy(&operation, value, sizeof operation);
    if (operation != OP_N && operation != OP_T)
        return STATUS_NOT_SUPPORTED;
    desc->transposed[which - DESC_TRANSA] = operation;
    return STATUS_SUCCESS;
}

FUNCTION(MatrixLayoutCreate, layout **out, int type, uint64_t rows, uint64_t columns,
         int64_t leading) {
    if (type != F32 && type != F16 && type != BF16)
        return STATUS_NOT_SUPPORTED;
    return create(__func__, (void **)out, sizeof(layout),
                  &(layout){ type, rows, columns, leading, 1, 0 });
}

FUNCTION(MatrixLayoutDestroy, layout *l) { return destroy(l); }

FUNCTION(MatrixLayoutSetAttribute, layout *l, int which, const void *value, size_t bytes) {
    if (sc_standin_count(__func__))
        return STATUS_INTERNAL_ERROR;
    if (!l || !value || bytes != (which == LAYOUT_BATCH_COUNT ? 4 : 8))
        return STATUS_INVALID_VALUE;
    switch (which) {
    case LAYOUT_ROWS:
        memcpy(&l->rows, value, bytes);
        return STATUS_SUCCESS;
    case LAYOUT_COLS:
        memcpy(&l->columns, value, bytes);
        return STATUS_SUCCESS;
    case LAYOUT_LD:
        memcpy(&l->leading, value, bytes);
        return STATUS_SUCCESS;
    case LAYOUT_BATCH_COUNT:
        memcpy(&l->count, value, bytes);
        return STATUS_SUCCESS;
    case LAYOUT_BATCH_OFFSET:
        memcpy(&l->step, value, bytes);
        return STATUS_SUCCESS;
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

FUNCTION(MatmulPreferenceCreate, preference **out) {
    return create(__func__, (void **)out, sizeof(preference),
                  &(preference){ 0, { ALIGN, ALIGN, ALIGN, ALIGN } });
}

FUNCTION(MatmulPreferenceDestroy, preference *p) { return destroy(p); }

FUNCTION(MatmulPreferenceSetAttribute, preference *p, int which, const void *value, size_t bytes) {
    if (sc_standin_count(__func__))
        return STATUS_INTERNAL_ERROR;
    const int alignment = which >= PREF_ALIGNMENT_A_BYTES && which <= PREF_ALIGNMENT_D_BYTES;
    if (!p || !value || bytes != (alignment ? sizeof *p->aligned : sizeof p->workspace_bytes))
        return STATUS_INVALID_VALUE;
    if (alignment)
        memcpy(&p->aligned[which - PREF_ALIGNMENT_A_BYTES], value, bytes);
    else if (which == PREF_MAX_WORKSPACE_BYTES)
        memcpy(&p->workspace_bytes, value, bytes);
    else
        return STATUS_NOT_SUPPORTED;
    return STATUS_SUCCESS;
}

/* --- products --- */

static size_t element_bytes(int type) { return type == F32 ? 4 : 2; }

/* Whether several lie side by side in their rows, or one behind the other. */
static int is_beside(const layout *l) {
    return l->step >= 0 &&
           (uint64_t)(l->count - 1) * (uint64_t)l->step + l->rows <= (uint64_t)l->leading;
}

static int is_behind(const layout *l) {
    return (uint64_t)l->step == l->columns * (uint64_t)l->leading;
}

static int is_layout(const layout *l) {
    return l && l->rows && l->columns && l->leading > 0 && (uint64_t)l->leading >= l->rows &&
           l->count > 0 && l->columns <= SIZE_MAX / 8 / (uint64_t)l->leading / (uint64_t)l->count;
}

/* Sizes that fit, of types that go together. */
static status check(product *p, const description *desc, const layout *a, const layout *b,
                    const layout *c, const layout *d) {
    if (!desc || !is_layout(a) || !is_layout(b) || !is_layout(c) || !is_layout(d))
        return STATUS_INVALID_VALUE;
    const int ta = desc->transposed[0], tb = desc->transposed[1];
    p->m = ta ? a->columns : a->rows;
    p->k = ta ? a->rows : a->columns;
    p->n = tb ? b->rows : b->columns;
    if (p->k != (tb ? b->columns : b->rows) || d->rows != p->m || d->columns != p->n ||
        c->rows != p->m || c->columns != p->n)
        return STATUS_INVALID_VALUE;
    if (a->count != d->count || b->count != d->count || c->count != d->count)
        return STATUS_INVALID_VALUE;
    if (a->type != b->type || c->type != F32 || d->type != F32)
        return STATUS_NOT_SUPPORTED;
    const layout *const all[] = { a, b, c, d };
    for (int i = 0; i < 4; i++)
        if (d->count > 1 && !is_beside(all[i]) && !is_behind(all[i]))
            return STATUS_NOT_SUPPORTED;
    if (d->count > 1 && (uint64_t)d->step < d->rows) /* inputs may overlap */
        return STATUS_INVALID_VALUE;
    p->count = (size_t)d->count;
    p->step_a = (size_t)a->step;
    p->step_b = (size_t)b->step;
    p->step_c = (size_t)c->step;
    p->step_d = (size_t)d->step;
    p->lda = (size_t)a->leading;
    p->ldb = (size_t)b->leading;
    p->ldc = (size_t)c->leading;
    p->ldd = (size_t)d->leading;
    p->type = a->type;
    p->transposed_a = ta;
    p->transposed_b = tb;
    return STATUS_SUCCESS;
}

/* It wants some of the workspace when there is any, so that a product without it is noticed. */
FUNCTION(MatmulAlgoGetHeuristic, handle *h, description *desc, layout *a, layout *b, layout *c,
         layout *d, preference *wish, int asked, heuristic *results, int *found) {
    product p = { 0 };
    if (sc_standin_count(__func__))
        return STATUS_INTERNAL_ERROR;
    if (!h || h->mark != MARK || !wish || asked < 1 || !results || !found)
        return STATUS_INVALID_VALUE;
    const status s = check(&p, desc, a, b, c, d);
    if (s)
        return s;
    const size_t bytes = wish->workspace_bytes < WORKSPACE ? wish->workspace_bytes : WORKSPACE;
    *results = (heuristic){
        .algo = { { MARK + (p.count << 32), bytes, p.m, p.n, p.k, (uint64_t)p.type,
                    wish->aligned[0] + ((uint64_t)wish->aligned[1] << 32),
                    wish->aligned[2] + ((uint64_t)wish->aligned[3] << 32) } },
        .workspace_bytes = bytes,
        .waves = 1,
    };
    *found = 1;
    return STATUS_SUCCESS;
}

static float element(const void *base, int type, size_t at) {
    if (type == F32)
        return ((const float *)base)[at];
    const uint16_t half = ((const uint16_t *)base)[at];
    return type == F16 ? sc_from_f16(half) : sc_from_bf16(half);
}

/* op(X) as floats, [lines, k]: a line is what one element of the product sums over. */
static float *unfold(const void *x, int type, size_t lines, size_t k, size_t line_step,
                     size_t k_step) {
    float *all = malloc(lines * k * sizeof *all);
    for (size_t line = 0; all && line < lines; line++)
        for (size_t i = 0; i < k; i++)
            all[line * k + i] = element(x, type, line * line_step + i * k_step);
    return all;
}

/* The i-th of the products. */
static void multiply_one(const product *p, size_t i) {
    const size_t size = element_bytes(p->type);
    float *a = unfold((const char *)p->a + i * p->step_a * size, p->type, p->m, p->k,
                      p->transposed_a ? p->lda : 1, p->transposed_a ? 1 : p->lda);
    float *b = unfold((const char *)p->b + i * p->step_b * size, p->type, p->n, p->k,
                      p->transposed_b ? 1 : p->ldb, p->transposed_b ? p->ldb : 1);
    const float *c = p->c + i * p->step_c;
    float *d = p->d + i * p->step_d;
    if (!a || !b)
        abort();
    for (size_t column = 0; column < p->n; column++)
        for (size_t row = 0; row < p->m; row++) {
            float sum = 0;
            for (size_t l = 0; l < p->k; l++)
                sum += a[row * p->k + l] * b[column * p->k + l];
            sum *= p->alpha;
            if (p->beta != 0.0f) /* what is not added may be NaN */
                sum += p->beta * c[column * p->ldc + row];
            d[column * p->ldd + row] = sum;
        }
    free(a);
    free(b);
}

static void multiply(void *args) {
    const product *p = args;
    for (size_t i = 0; i < p->count; i++)
        multiply_one(p, i);
    if (p->workspace_bytes)
        memset(p->workspace, 0xff, p->workspace_bytes); /* it is nobody else's */
}

/* Of several side by side what lies between them too. */
static sc_standin_range range_of(const void *at, const layout *l, int writes) {
    const size_t bytes = element_bytes(l->type), others = (size_t)l->count - 1;
    const int beside = others && is_beside(l);
    return (sc_standin_range){ (uintptr_t)at,
                               (l->rows + (beside ? others * (size_t)l->step : 0)) * bytes,
                               (size_t)l->leading * bytes,
                               l->columns * (beside ? 1 : (size_t)l->count), writes };
}

static int is_ours(const sc_standin_range *ranges, int count) {
    for (int i = 0; i < count; i++)
        if (!ranges[i].at || !sc_standin_holds(&ranges[i]))
            return 0;
    return 1;
}

/* The algorithm is of the same product, and of addresses like these. */
static int is_known(const algorithm *algo, const product *p, size_t workspace_bytes) {
    const uintptr_t at[] = { (uintptr_t)p->a, (uintptr_t)p->b, (uintptr_t)p->c, (uintptr_t)p->d };
    for (int i = 0; i < 4; i++)
        if (at[i] % (uint32_t)(algo->data[6 + i / 2] >> i % 2 * 32))
            return 0;
    return algo->data[0] == MARK + (p->count << 32) && algo->data[1] <= workspace_bytes &&
           algo->data[2] == p->m && algo->data[3] == p->n && algo->data[4] == p->k &&
           algo->data[5] == (uint64_t)p->type;
}

FUNCTION(Matmul, handle *h, description *desc, const void *alpha, const void *a, layout *la,
         const void *b, layout *lb, const void *beta, const void *c, layout *lc, void *d,
         layout *ld, const algorithm *algo, void *workspace, size_t workspace_bytes,
         CUstream stream) {
    product p = { .a = a, .b = b, .c = c, .d = d };
    if (sc_standin_count(__func__))
        return STATUS_EXECUTION_FAILED;
    if (!h || h->mark != MARK || !alpha || !beta)
        return STATUS_INVALID_VALUE;
    const status s = check(&p, desc, la, lb, lc, ld);
    if (s)
        return s;
    if (algo && !is_known(algo, &p, workspace_bytes))
        return STATUS_INVALID_VALUE;
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    p.workspace = workspace;
    p.workspace_bytes = algo ? (size_t)algo->data[1] : 0;
    sc_standin_range ranges[5] = { range_of(d, ld, 1), range_of(a, la, 0), range_of(b, lb, 0) };
    int count = 3;
    if (p.beta != 0.0f)
        ranges[count++] = range_of(c, lc, 0);
    if (p.workspace_bytes)
        ranges[count++] =
            (sc_standin_range){ (uintptr_t)workspace, p.workspace_bytes, p.workspace_bytes, 1, 1 };
    if (!is_ours(ranges, count))
        return STATUS_INVALID_VALUE;
    return sc_standin_enqueue(stream, multiply, &p, sizeof p, ranges, count, "cublasLtMatmul")
               ? STATUS_EXECUTION_FAILED
               : STATUS_SUCCESS;
}
