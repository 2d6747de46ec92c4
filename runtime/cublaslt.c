/* cublaslt.c - see cublaslt.h. */
#include "cublaslt.h"

#include <dlfcn.h>
#include <stdbool.h>
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
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_OFFSET = 6,
    PREF_MAX_WORKSPACE_BYTES = 1,
    PREF_ALIGNMENT_A_BYTES = 5, /* then of B, C, D */
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

/* What cuBLASLt chooses by. */
typedef struct {
    int64_t out, in, depth, rows, x_stride, y_stride, count, x_step, y_step;
    int64_t w_bytes, x_bytes, y_bytes; /* that the addresses of each are multiples of */
} subject;

/* A product that was asked for, and how cuBLASLt would do it. */
typedef struct {
    subject of;
    algorithm algo;
} choice;

enum { CHOICES = 64 };

struct sc_products {
    sc_cuda *cuda;
#define MEMBER(name, arguments) status(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
    sc_product_type type;
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

static status make(sc_products *p) {
    const int transposed = OP_T;
    status s = p->Create(&p->handle);
    if (!s)
        s = p->MatmulDescCreate(&p->product, COMPUTE_32F, SC_PRODUCT_F32);
    if (!s)
        s = p->MatmulDescSetAttribute(p->product, DESC_TRANSA, &transposed, sizeof transposed);
    if (!s)
        s = p->MatrixLayoutCreate(&p->w, (int)p->type, 16, 16, 16);
    if (!s)
        s = p->MatrixLayoutCreate(&p->x, (int)p->type, 16, 16, 16);
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
    p->type = type;
    p->workspace = workspace;
    p->workspace_bytes = workspace_bytes;
    int rc = load(p, err);
    const status made = rc ? 0 : make(p);
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

static status shape(layout l, const sc_products *p, int64_t rows, int64_t columns, int64_t leading,
                    int64_t count, int64_t step) {
    const int32_t times = (int32_t)count;
    status s = p->MatrixLayoutSetAttribute(l, LAYOUT_ROWS, &rows, sizeof rows);
    if (!s)
        s = p->MatrixLayoutSetAttribute(l, LAYOUT_COLS, &columns, sizeof columns);
    if (!s)
        s = p->MatrixLayoutSetAttribute(l, LAYOUT_LD, &leading, sizeof leading);
    if (!s)
        s = p->MatrixLayoutSetAttribute(l, LAYOUT_BATCH_COUNT, &times, sizeof times);
    if (!s)
        s = p->MatrixLayoutSetAttribute(l, LAYOUT_BATCH_OFFSET, &step, sizeof step);
    return s;
}

/* The largest power of two, up to what cuBLASLt takes for granted, that divides both. */
static int64_t bytes_dividing(const void *at, int64_t step_bytes) {
    enum { MOST = 256 };
    const int64_t all = (int64_t)(uintptr_t)at | step_bytes | MOST;
    return all & -all;
}

static status promise(const sc_products *p, const subject *wanted) {
    const int64_t of[] = { wanted->w_bytes, wanted->x_bytes, wanted->y_bytes, wanted->y_bytes };
    status s = 0;
    for (int i = 0; i < 4 && !s; i++) {
        const uint32_t bytes = (uint32_t)of[i];
        s = p->MatmulPreferenceSetAttribute(p->preference, PREF_ALIGNMENT_A_BYTES + i, &bytes,
                                            sizeof bytes);
    }
    return s;
}

/* How to do the product whose layouts are set: what was chosen before, or cuBLASLt's best. */
static status choose(sc_products *p, const subject *wanted, const algorithm **algo) {
    for (int i = 0; i < CHOICES && i < p->asked; i++)
        if (!memcmp(&p->known[i].of, wanted, sizeof *wanted)) {
            *algo = &p->known[i].algo;
            return 0;
        }
    heuristic best;
    int found = 0;
    memset(&best, 0, sizeof best);
    status s = promise(p, wanted);
    if (!s)
        s = p->MatmulAlgoGetHeuristic(p->handle, p->product, p->w, p->x, p->y, p->y, p->preference,
                                      1, &best, &found);
    if (s || !found)
        return s ? s : STATUS_NOT_SUPPORTED;
    choice *c = &p->known[p->asked++ % CHOICES];
    *c = (choice){ .of = *wanted, .algo = best.algo };
    *algo = &c->algo;
    return 0;
}

/* A row of ours is a column of cuBLASLt's: y = (w transposed) x, [out, rows]. */
void sc_products_run(sc_products *p, sc_cuda *on, const sc_product *o) {
    static const float one = 1, zero = 0;
    const int64_t size = p->type == SC_PRODUCT_F32 ? 4 : 2, w_step = o->out * o->depth;
    const bool several = o->count > 1; /* of one, steps say nothing */
    const subject wanted = {
        .out = o->out,
        .in = o->in,
        .depth = o->depth,
        .rows = o->rows,
        .x_stride = o->x_stride,
        .y_stride = o->y_stride,
        .count = o->count,
        .x_step = several ? o->x_step : 0,
        .y_step = several ? o->y_step : 0,
        .w_bytes = bytes_dividing(o->w, several ? w_step * size : 0),
        .x_bytes = bytes_dividing(o->x, several ? o->x_step * size : 0),
        .y_bytes = bytes_dividing(o->y, several ? o->y_step * 4 : 0),
    };
    const algorithm *algo = NULL;
    if (*on->failed)
        return;
    status s = shape(p->w, p, o->in, o->out, o->depth, o->count, several ? w_step : 0);
    if (!s)
        s = shape(p->x, p, o->in, o->rows, o->x_stride, o->count, wanted.x_step);
    if (!s)
        s = shape(p->y, p, o->out, o->rows, o->y_stride, o->count, wanted.y_step);
    if (!s)
        s = choose(p, &wanted, &algo);
    if (!s)
        s = p->Matmul(p->handle, p->product, &one, o->w, p->w, o->x, p->x, o->add ? &one : &zero,
                      o->y, p->y, o->y, p->y, algo, p->workspace, p->workspace_bytes, on->compute);
    sc_cuda_note_status(on, s, "cublasLtMatmul");
}
