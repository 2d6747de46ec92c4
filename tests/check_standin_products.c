/* check_standin_products.c - the stand-in for cuBLASLt, through runtime/cublaslt.h and by itself.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/cublaslt.h"
#include "../runtime/half.h"
#include "support/draw.h"
#include "support/kernels.h"
#include "support/rig.h"

Suite *standin_products_suite(void);

enum { WORKSPACE = 1 << 16, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

/* As runtime/cuda.h opens one: module, two streams, products on the first. */
static const sc_cubin code = { 80, 1, (const unsigned char *)"// code", 8 };
static const sc_cubins codes = { 12000, 1, &code };

static sc_cuda *cuda;
static sc_products *products;
static unsigned char *workspace;
static sc_error err;

static void open_products(sc_product_type type, uint64_t seed) {
    standin_open()->reset(
        &(sc_standin_settings){ .seed = seed, .kernels = rig_kernels, .quiet = 1 });
    ck_assert_msg(!sc_cuda_open(&cuda, "cuda", &codes, 0, &err), "%s", err.message);
    ck_assert_int_eq(sc_cuda_enter(cuda, &err), 0);
    ck_assert_int_eq(sc_cuda_alloc(cuda, &workspace, WORKSPACE, &err), 0);
    ck_assert_msg(!sc_products_open(&products, cuda, type, workspace, WORKSPACE, &err), "%s",
                  err.message);
}

static void close_products(void) {
    sc_products_close(products);
    sc_cuda_free(cuda, workspace);
    sc_cuda_leave(cuda);
    sc_cuda_close(cuda);
}

static size_t element_bytes(sc_product_type type) { return type == SC_PRODUCT_F32 ? 4 : 2; }

/* Whole numbers, so that every sum is exact, whatever its order. */
static void put(unsigned char *to, size_t i, float value, sc_product_type type) {
    const uint16_t half = type == SC_PRODUCT_F16 ? sc_to_f16(value) : sc_to_bf16(value);
    if (type == SC_PRODUCT_F32)
        memcpy(to + 4 * i, &value, 4);
    else
        memcpy(to + 2 * i, &half, 2);
}

static float get(const unsigned char *from, size_t i, sc_product_type type) {
    float value;
    uint16_t half;
    if (type == SC_PRODUCT_F32) {
        memcpy(&value, from + 4 * i, sizeof value);
        return value;
    }
    memcpy(&half, from + 2 * i, sizeof half);
    return type == SC_PRODUCT_F16 ? sc_from_f16(half) : sc_from_bf16(half);
}

enum { OUT = 5, DEPTH = 24, ROWS = 3, X_STRIDE = 32, Y_STRIDE = 9 };

typedef struct {
    unsigned char *w, *x;
    float *y;
    float want[ROWS * Y_STRIDE];
} example;

/* What lies between the rows is NaN (fresh memory), and stays. */
static void make_example(example *e, sc_product_type type, bool add) {
    float w[OUT][DEPTH], x[ROWS][DEPTH];
    uint64_t state = 7;
    unsigned char *y = NULL;
    ck_assert_int_eq(sc_cuda_alloc(cuda, &e->w, OUT * DEPTH * element_bytes(type), &err), 0);
    ck_assert_int_eq(sc_cuda_alloc(cuda, &e->x, ROWS * X_STRIDE * element_bytes(type), &err), 0);
    ck_assert_int_eq(sc_cuda_alloc(cuda, &y, sizeof e->want, &err), 0);
    e->y = (float *)(void *)y;
    memcpy(e->want, y, sizeof e->want);
    for (int i = 0; i < OUT; i++)
        for (int k = 0; k < DEPTH; k++)
            put(e->w, (size_t)(i * DEPTH + k), w[i][k] = (float)(draw(&state, 17) - 8), type);
    for (int j = 0; j < ROWS; j++)
        for (int k = 0; k < DEPTH; k++)
            put(e->x, (size_t)(j * X_STRIDE + k), x[j][k] = (float)(draw(&state, 17) - 8), type);
    for (int j = 0; j < ROWS; j++)
        for (int i = 0; i < OUT; i++) {
            float sum = add ? (float)(i - j) : 0;
            if (add)
                e->y[j * Y_STRIDE + i] = sum;
            for (int k = 0; k < DEPTH; k++)
                sum += w[i][k] * x[j][k];
            e->want[j * Y_STRIDE + i] = sum;
        }
}

static sc_product product_of(const example *e) {
    return (sc_product){ .w = e->w,
                         .x = e->x,
                         .y = e->y,
                         .out = OUT,
                         .in = DEPTH,
                         .depth = DEPTH,
                         .rows = ROWS,
                         .x_stride = X_STRIDE,
                         .y_stride = Y_STRIDE,
                         .count = 1 };
}

static void run_example(const example *e, bool add) {
    sc_product product = product_of(e);
    product.add = add;
    sc_products_run(products, cuda, &product);
}

static void free_example(example *e) {
    sc_cuda_free(cuda, e->w);
    sc_cuda_free(cuda, e->x);
    sc_cuda_free(cuda, (unsigned char *)e->y);
}

static const sc_product_type types[] = { SC_PRODUCT_F32, SC_PRODUCT_F16, SC_PRODUCT_BF16 };

START_TEST(a_product_is_the_sum_of_products) {
    for (int add = 0; add < 2; add++) {
        example e;
        open_products(types[_i], (uint64_t)add);
        make_example(&e, types[_i], add);
        run_example(&e, add);
        ck_assert_mem_ne(e.y, e.want, sizeof e.want); /* not yet */
        ck_assert_msg(!sc_cuda_finish(cuda, cuda->compute, &err), "%s", err.message);
        ck_assert_mem_eq(e.y, e.want, sizeof e.want);
        ck_assert_int_eq(workspace[0], 0xff);
        free_example(&e);
        close_products();
        standin_check_clean(__func__);
    }
}
END_TEST

START_TEST(a_product_can_be_captured) {
    example e;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    open_products(types[_i], 3);
    make_example(&e, types[_i], true);
    SC_CUDA(cuda, StreamBeginCapture, cuda->compute, 1);
    run_example(&e, true);
    SC_CUDA(cuda, StreamEndCapture, cuda->compute, &graph);
    SC_CUDA(cuda, GraphInstantiateWithFlags, &exec, graph, 0);
    SC_CUDA(cuda, GraphDestroy, graph);
    ck_assert_float_eq(e.y[1], 1); /* i - j: nothing is added yet */
    for (int launch = 0; launch < 2; launch++) {
        SC_CUDA(cuda, GraphLaunch, exec, cuda->compute);
        ck_assert_msg(!sc_cuda_finish(cuda, cuda->compute, &err), "%s", err.message);
        for (int j = 0; j < ROWS; j++)
            for (int i = 0; i < OUT; i++) {
                const float once = e.want[j * Y_STRIDE + i], before = (float)(i - j);
                ck_assert_float_eq(e.y[j * Y_STRIDE + i], launch ? 2 * once - before : once);
            }
    }
    SC_CUDA(cuda, GraphExecDestroy, exec);
    free_example(&e);
    close_products();
    standin_check_clean(__func__);
}
END_TEST

/* Three at once, of pieces of x to pieces of y that lie side by side, w one behind the other. */
START_TEST(products_side_by_side_are_those_one_by_one) {
    enum { COUNT = 3, IN = 8, STEP = 8 };
    const sc_product_type type = types[_i];
    example e;
    open_products(type, 5);
    make_example(&e, type, false);
    sc_product all = product_of(&e);
    all.out = 3;
    all.in = IN - 3; /* what lies behind is not read */
    all.depth = IN;
    all.count = COUNT;
    all.x_step = STEP;
    all.y_step = 3;
    float together[ROWS * Y_STRIDE];
    sc_products_run(products, cuda, &all);
    ck_assert_msg(!sc_cuda_finish(cuda, cuda->compute, &err), "%s", err.message);
    memcpy(together, e.y, sizeof together);
    memset(e.y, 0, sizeof together);
    for (int i = 0; i < COUNT; i++) {
        sc_product one = all;
        one.count = 1;
        one.w = e.w + (size_t)i * 3 * IN * element_bytes(type);
        one.x = e.x + (size_t)i * STEP * element_bytes(type);
        one.y = e.y + (size_t)i * 3;
        sc_products_run(products, cuda, &one);
    }
    ck_assert_msg(!sc_cuda_finish(cuda, cuda->compute, &err), "%s", err.message);
    ck_assert_mem_eq(e.y, together, sizeof together);
    float sum = 0; /* the last row's last of the last */
    for (int k = 0; k < IN - 3; k++)
        sum += get(e.w, (size_t)(2 * 3 * IN + 2 * IN + k), type) *
               get(e.x, (size_t)(2 * X_STRIDE + 2 * STEP + k), type);
    ck_assert_float_eq(together[2 * Y_STRIDE + 8], sum);
    free_example(&e);
    close_products();
    standin_check_clean(__func__);
}
END_TEST

/* The same product of addresses that are multiples of less is chosen for anew. */
START_TEST(a_product_is_chosen_for_its_addresses) {
    example e;
    open_products(SC_PRODUCT_F32, 2);
    make_example(&e, SC_PRODUCT_F32, false);
    run_example(&e, false);
    ck_assert_msg(!sc_cuda_finish(cuda, cuda->compute, &err), "%s", err.message);
    sc_product other = product_of(&e);
    other.x = e.x + 16; /* of 256 before */
    other.y = e.y + 1;
    other.rows = ROWS - 1;
    for (int turn = 0; turn < 2; turn++, other.x = e.x) {
        sc_products_run(products, cuda, &other);
        ck_assert_msg(!sc_cuda_finish(cuda, cuda->compute, &err), "%s", err.message);
    }
    free_example(&e);
    close_products();
    standin_check_clean(__func__);
}
END_TEST

/* A copy that nothing orders races with a product: its inputs, its result, its workspace. */
START_TEST(a_product_takes_part_in_races) {
    static const char *const reports[] = {
        "cuMemsetD8Async writes what cublasLtMatmul reads, and nothing orders them",
        "cuMemsetD8Async writes what cublasLtMatmul reads, and nothing orders them",
        "cuMemsetD8Async writes what cublasLtMatmul writes, and nothing orders them",
        "cuMemsetD8Async writes what cublasLtMatmul writes, and nothing orders them",
        "",
    };
    example e;
    const char *text;
    open_products(SC_PRODUCT_F32, 1);
    make_example(&e, SC_PRODUCT_F32, false);
    run_example(&e, false);
    void *const at[] = { e.w, e.x, e.y, workspace, e.x + DEPTH * 4 }; /* the last: a gap */
    sc_cuda_zero(cuda, cuda->copies, at[_i], 8);
    rig_reports(&text);
    ck_assert_str_eq(text, reports[_i]);
    ck_assert_int_eq(sc_cuda_finish(cuda, cuda->compute, &err), *text ? SC_EENV : SC_OK);
    free_example(&e);
    close_products();
}
END_TEST

START_TEST(a_product_must_lie_on_the_device) {
    example e;
    open_products(SC_PRODUCT_BF16, 1);
    make_example(&e, SC_PRODUCT_BF16, false);
    const example right = e;
    e.w += _i == 0 ? 2 : 0;             /* its last row leaves it */
    e.x += _i == 1 ? 16 * X_STRIDE : 0; /* the last row leaves the allocation */
    e.y = _i == 2 ? e.want : e.y;       /* the host's */
    run_example(&e, false);
    ck_assert_int_eq(sc_cuda_finish(cuda, cuda->compute, &err), SC_EENV);
    ck_assert_ptr_nonnull(strstr(err.message, "cublasLtMatmul: its status is 7"));
    e = right;
    free_example(&e);
    close_products();
    standin_check_clean(__func__);
}
END_TEST

/* --- the library by itself --- */

typedef int (*create_fn)(void **, int, int);
typedef int (*create_layout_fn)(void **, int, uint64_t, uint64_t, int64_t);
typedef int (*set_fn)(void *, int, const void *, size_t);
typedef int (*destroy_fn)(void *);

static void *find(const char *name) {
    void *function = dlsym(standin_open()->cublaslt, name);
    ck_assert_msg(function != NULL, "%s", name);
    return function;
}

START_TEST(what_it_cannot_do_is_refused) {
    create_fn create;
    create_layout_fn create_layout;
    set_fn set, set_layout;
    destroy_fn destroy, destroy_layout;
    *(void **)&create = find("cublasLtMatmulDescCreate");
    *(void **)&create_layout = find("cublasLtMatrixLayoutCreate");
    *(void **)&set = find("cublasLtMatmulDescSetAttribute");
    *(void **)&set_layout = find("cublasLtMatrixLayoutSetAttribute");
    *(void **)&destroy = find("cublasLtMatmulDescDestroy");
    *(void **)&destroy_layout = find("cublasLtMatrixLayoutDestroy");
    void *desc = NULL, *layout = NULL;
    const int conjugate = 2;
    const uint64_t rows = 3;
    standin_open()->reset(&(sc_standin_settings){ .quiet = 1 });
    ck_assert_int_eq(create(&desc, 64, 0), NOT_SUPPORTED); /* COMPUTE_16F */
    ck_assert_int_eq(create(NULL, 68, 0), INVALID_VALUE);
    ck_assert_int_eq(create(&desc, 68, 0), 0);
    ck_assert_int_eq(set(desc, 3, &conjugate, sizeof conjugate), NOT_SUPPORTED);
    ck_assert_int_eq(set(desc, 99, &conjugate, sizeof conjugate), NOT_SUPPORTED);
    ck_assert_int_eq(set(desc, 3, &conjugate, 8), INVALID_VALUE);
    ck_assert_int_eq(create_layout(&layout, 1, 4, 4, 4), NOT_SUPPORTED); /* R_64F */
    ck_assert_int_eq(create_layout(&layout, 0, 4, 4, 4), 0);
    ck_assert_int_eq(set_layout(layout, 2, &rows, sizeof rows), 0);
    ck_assert_int_eq(set_layout(layout, 2, &rows, 4), INVALID_VALUE);
    ck_assert_int_eq(set_layout(layout, 1, &rows, sizeof rows), NOT_SUPPORTED); /* ORDER */
    ck_assert_int_eq(destroy(desc), 0);
    ck_assert_int_eq(destroy_layout(layout), 0);
    ck_assert_int_eq(destroy(NULL), INVALID_VALUE);
}
END_TEST

/* A product whose leading dimension is less than its rows. */
START_TEST(rows_must_fit_their_stride) {
    example e;
    open_products(SC_PRODUCT_F32, 1);
    make_example(&e, SC_PRODUCT_F32, false);
    sc_product wrong = product_of(&e);
    wrong.y_stride = OUT - 1;
    sc_products_run(products, cuda, &wrong);
    ck_assert_int_eq(sc_cuda_finish(cuda, cuda->compute, &err), SC_EENV);
    ck_assert_ptr_nonnull(strstr(err.message, "cublasLtMatmul: its status is 7"));
    free_example(&e);
    close_products();
    standin_check_clean(__func__);
}
END_TEST

START_TEST(every_call_of_it_can_fail) {
    sc_standin_log log;
    open_products(SC_PRODUCT_F32, 1);
    standin_open()->log(&log);
    const int64_t calls = log.calls;
    close_products();
    int failed = 0;
    for (int64_t fail = 1; fail <= calls; fail++) {
        standin_open()->reset(&(sc_standin_settings){ .fail = fail, .kernels = rig_kernels });
        if (sc_cuda_open(&cuda, "cuda", &codes, 0, &err))
            continue;
        workspace = NULL;
        if (!sc_cuda_enter(cuda, &err)) {
            if (!sc_cuda_alloc(cuda, &workspace, WORKSPACE, &err)) {
                products = NULL;
                const int rc =
                    sc_products_open(&products, cuda, SC_PRODUCT_F32, workspace, WORKSPACE, &err);
                ck_assert_int_eq(rc, SC_EENV);
                failed++;
            }
            sc_cuda_free(cuda, workspace);
            sc_cuda_leave(cuda);
        }
        sc_cuda_close(cuda);
        standin_check_clean(__func__);
    }
    ck_assert_int_eq(failed, 8); /* the calls of sc_products_open */
}
END_TEST

Suite *standin_products_suite(void) {
    Suite *suite = suite_create("standin_products");
    if (!kernels_available("standin_products"))
        return suite;
    TCase *tests = tcase_create("products");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_product_is_the_sum_of_products, 0, 3);
    tcase_add_loop_test(tests, a_product_can_be_captured, 0, 3);
    tcase_add_loop_test(tests, products_side_by_side_are_those_one_by_one, 0, 3);
    tcase_add_test(tests, a_product_is_chosen_for_its_addresses);
    tcase_add_loop_test(tests, a_product_takes_part_in_races, 0, 5);
    tcase_add_loop_test(tests, a_product_must_lie_on_the_device, 0, 3);
    tcase_add_test(tests, what_it_cannot_do_is_refused);
    tcase_add_test(tests, rows_must_fit_their_stride);
    tcase_add_test(tests, every_call_of_it_can_fail);
    suite_add_tcase(suite, tests);
    return suite;
}
