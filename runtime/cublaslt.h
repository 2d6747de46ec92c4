/*
 * cublaslt.h - matrix products of a prefill, by cuBLASLt, opened with dlopen.
 *
 * Owner    the caller of open; nothing is allocated on the device, the workspace is the caller's.
 * Errors   of open: SC_EENV, no library or one that lacks a function. Of run: kept by the device,
 *          as those of all its calls (cuda.h).
 */
#ifndef SC_CUBLASLT_H
#define SC_CUBLASLT_H

#include "cuda.h"

/* What weights and operands are made of: cudaDataType. */
typedef enum { SC_PRODUCT_F32 = 0, SC_PRODUCT_F16 = 2, SC_PRODUCT_BF16 = 14 } sc_product_type;

typedef struct sc_products sc_products;

/* The context is current. */
int sc_products_open(sc_products **products, sc_cuda *cuda, sc_product_type type, void *workspace,
                     size_t workspace_bytes, sc_error *err);
void sc_products_close(sc_products *products); /* NULL is allowed */

/*
 * y [rows, y_stride] = in elements of each row of x [rows, x_stride] times as many of w [out,
 * depth] the other way round, onto what is in y when add is set; count of them, of x + i * x_step
 * to y + i * y_step, whose w follow one another. y is float, sums are; depth is a whole number of
 * 16 bytes.
 */
typedef struct {
    const void *w, *x;
    float *y;
    int64_t out, in, depth, rows, x_stride, y_stride;
    int64_t count, x_step, y_step;
    int add;
} sc_product;

/* On the compute stream of `on`, which is of the same device and keeps what fails. */
void sc_products_run(sc_products *products, sc_cuda *on, const sc_product *product);

#endif
