/* cublaslt.c - see cublaslt.h. */
#include "cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of cublasLt.h and cublas_api.h, 12.x and 13.x. */
enum {
    COMPUTE_32F = 68,
    OP_T = 1,
    DESC_TRANSA = 3,
    LAYOUT_ROWS = 2,
    LAYOUT_COLS = 3,
    LAYOUT_LD = 4,
    PREF_MAX_WORKSPACE_BYTES = 1,
    STATUS_NOT_SUPPORTED = 15
};

typedef int status;
typedef struct lt_handle *handle;
typedef struct lt_desc *desc;
typedef struct lt_layout *layout;
typedef struct lt_preference *preference;

typedef struct {
    uint64_t data[8];
} algorithm;

typedef struct {
    algorithm algo;
    size_t workspace_bytes;
    status state;
    float waves;
    int reserved[4];
} heuristic;

#define FUNCTIONS(X)                                                                               \
    X(Create, (handle *))                                                                          \
    X(Destroy, (handle))                                                                           \
    X(MatmulDescCreate, (desc *, int, int))                                                        \
    X(MatmulDescDestroy, (desc))                                                                   \
    X(MatmulDescSetAttribute, (desc, int, const void *, size_t))                                   \
    X(MatrixLayoutCreate, (layout *, int, uint64_t, uint64_t, int64_t))                            \
    X(MatrixLayoutDestroy, (layout))                                                               \
    X(MatrixLayoutSetAttribute, (layout, int, const void *, size_t))                               \
    X(MatmulPreferenceCreate, (preference *))                                                      \
    X(MatmulPreferenceDestroy, (preference))                                                       \
    X(MatmulPreferenceSetAttribute, (preference, int, const void *, size_t))                       \
    X(MatmulAlgoGetHeuristic,                                                                      \
      (handle, desc, layout, layout, layout, layout, preference, int, heuristic *, int *))         \
    X(Matmul,                                                                                      \
      (handle, desc, const void *, const void *, layout, const void *, layout, const void *,       \
       const void *, layout, void *, layout, const algorithm *, void *, size_t, CUstream))

/* A product that was asked for, and how cuBLASLt would do it. */
typedef struct {
    int64_t out, depth, x_stride, y_stride, rows;
    algorithm algo;
} choice;

enum { CHOICES = 64 };

struct sc_products {
    sc_cuda *cuda;
#define MEMBER(name, arguments) status(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
    handle handle;
    desc product;
    layout w, x, y;
    preference preference;
    void *workspace;
    size_t workspace_bytes;
    choice known[CHOICES]; /* a new one takes the place of the oldest */
    int asked;
};

/* Never closed, as the driver is not. */
static int load(sc_products *p, sc_error *err) {
    static const char *const files[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
    void *library = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sc_fail(err, SC_EENV,
                       "%s: libcublasLt.so.13 or .12 cannot be opened: %s (install CUDA's cuBLAS, "
                       "or --device cpu)",
                       p->cuda->name, dlerror());
#define FIND(function, arguments)                                                                  \
    *(void **)&p->function = dlsym(library, "cublasLt" #function);                                 \
    if (!p->function)                                                                              \
        return sc_fail(err, SC_EENV, "%s: cuBLASLt has no cublasLt" #function " (update it)",      \
                       p->cuda->name);
    FUNCTIONS(FIND)
#undef FIND
    return SC_OK;
}

static status make(sc_products *p, sc_product_type type) {
    const int transposed = OP_T;
    status s = p->Create(&p->handle);
    if (!s)
        s = p->MatmulDescCreate(&p->product, COMPUTE_32F, SC_PRODUCT_F32);
    if (!s)
        s = p->MatmulDescSetAttribute(p->product, DESC_TRANSA, &transposed, sizeof transposed);
    if (!s)
        s = p->MatrixLayoutCreate(&p->w, (int)type, 16, 16, 16);
    if (!s)
        s = p->MatrixLayoutCreate(&p->x, (int)type, 16, 16, 16);
    if (!s)
        s = p->MatrixLayoutCreate(&p->y, SC_PRODUCT_F32, 16, 16, 16);
    if (!s)
        s = p->MatmulPreferenceCreate(&p->preference);
    if (!s)
        s = p->MatmulPreferenceSetAttribute(p->preference, PREF_MAX_WORKSPACE_BYTES,
                                            &p->workspace_bytes, sizeof p->workspace_bytes);
    return s;
}

int sc_products_open(sc_products **products, sc_cuda *cuda, sc_product_type type, void *workspace,
                     size_t workspace_bytes, sc_error *err) {
    sc_products *p = calloc(1, sizeof *p);
    if (!p)
        return sc_fail(err, SC_EENV, "%s: no memory for %zu bytes", cuda->name, sizeof *p);
    p->cuda = cuda;
    p->workspace = workspace;
    p->workspace_bytes = workspace_bytes;
    int rc = load(p, err);
    const status made = rc ? 0 : make(p, type);
    if (made)
        rc = sc_fail(err, SC_EENV, "%s: cuBLASLt cannot be used: its status is %d", cuda->name,
                     made);
    if (rc)
        sc_products_close(p);
    else
        *products = p;
    return rc;
}

void sc_products_close(sc_products *p) {
    if (!p)
        return;
    if (p->preference)
        p->MatmulPreferenceDestroy(p->preference);
    if (p->y)
        p->MatrixLayoutDestroy(p->y);
    if (p->x)
        p->MatrixLayoutDestroy(p->x);
    if (p->w)
        p->MatrixLayoutDestroy(p->w);
    if (p->product)
        p->MatmulDescDestroy(p->product);
    if (p->handle)
        p->Destroy(p->handle);
    free(p);
}

static status shape(const sc_products *p, layout l, uint64_t rows, uint64_t columns,
                    int64_t leading) {
    status s = p->MatrixLayoutSetAttribute(l, LAYOUT_ROWS, &rows, sizeof rows);
    if (!s)
        s = p->MatrixLayoutSetAttribute(l, LAYOUT_COLS, &columns, sizeof columns);
    if (!s)
        s = p->MatrixLayoutSetAttribute(l, LAYOUT_LD, &leading, sizeof leading);
    return s;
}

/* How to do the product whose layouts are set: what was chosen before, or cuBLASLt's best. */
static status choose(sc_products *p, const choice *wanted, const algorithm **algo) {
    for (int i = 0; i < CHOICES && i < p->asked; i++) {
        const choice *c = &p->known[i];
        if (c->out == wanted->out && c->depth == wanted->depth && c->x_stride == wanted->x_stride &&
            c->y_stride == wanted->y_stride && c->rows == wanted->rows) {
            *algo = &c->algo;
            return 0;
        }
    }
    heuristic best;
    int found = 0;
    memset(&best, 0, sizeof best);
    const status s = p->MatmulAlgoGetHeuristic(p->handle, p->product, p->w, p->x, p->y, p->y,
                                               p->preference, 1, &best, &found);
    if (s || !found)
        return s ? s : STATUS_NOT_SUPPORTED;
    choice *c = &p->known[p->asked++ % CHOICES];
    *c = *wanted;
    c->algo = best.algo;
    *algo = &c->algo;
    return 0;
}

/* A row of ours is a column of cuBLASLt's: y = (w transposed) x, [out, rows]. */
void sc_products_run(sc_products *p, sc_cuda *on, float *y, int64_t y_stride, const void *w,
                     int64_t out, int64_t depth, const void *x, int64_t x_stride, int64_t rows,
                     int add) {
    static const float one = 1, zero = 0;
    const choice wanted = {
        .out = out, .depth = depth, .x_stride = x_stride, .y_stride = y_stride, .rows = rows
    };
    const algorithm *algo = NULL;
    if (*on->failed)
        return;
    status s = shape(p, p->w, (uint64_t)depth, (uint64_t)out, depth);
    if (!s)
        s = shape(p, p->x, (uint64_t)depth, (uint64_t)rows, x_stride);
    if (!s)
        s = shape(p, p->y, (uint64_t)out, (uint64_t)rows, y_stride);
    if (!s)
        s = choose(p, &wanted, &algo);
    if (!s)
        s = p->Matmul(p->handle, p->product, &one, w, p->w, x, p->x, add ? &one : &zero, y, p->y, y,
                      p->y, algo, p->workspace, p->workspace_bytes, on->compute);
    sc_cuda_note_status(on, s, "cublasLtMatmul");
}
