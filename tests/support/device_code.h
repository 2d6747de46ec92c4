/*
 * device_code.h - templates/cuda/device.cu of small models, built for the host: what the tests of
 * kernels launch. The models differ in all that the templates choose by.
 */
#ifndef SC_TEST_DEVICE_CODE_H
#define SC_TEST_DEVICE_CODE_H

#include "../../codegen/plan.h"

typedef struct {
    const char *family;
    int hidden, heads, kv_heads, head_dim, ffn, vocab;
    int window; /* 0: none */
    int max_cache_len, batch, rewind;
    sc_dtype dtype, kv;
    bool bias, offloading;
} device_model;

enum { DEVICE_MODELS = 10 };
extern const device_model device_models[DEVICE_MODELS];

typedef struct {
    const device_model *model;
    const sc_plan *plan;
    void *library;
} device_code;

/* Of that model, for as long as the process runs; built once in a run. Fails the test. */
const device_code *device_code_make(int model);

/* A constant of the device code: "DEVICE_BLOCK". Fails the test if support/device_code.c does not
 * list it. */
int64_t device_code_constant(const device_code *code, const char *name);

/* Parameters of a kernel: pointers and numbers. */
typedef unsigned long long word;
static inline word at(const void *p) { return (word)(uintptr_t)p; }

/* Runs a kernel on blocks [grid_x, grid_y] of threads; fails the test with the host's report. */
void device_code_launch(const device_code *code, const char *kernel, int64_t grid_x, int64_t grid_y,
                        int64_t threads, const word *words, int count, word seed);

#define LAUNCH(code, kernel, grid_x, grid_y, threads, seed, ...)                                   \
    device_code_launch(code, kernel, grid_x, grid_y, threads, (const word[]){ __VA_ARGS__ },       \
                       (int)(sizeof((const word[]){ __VA_ARGS__ }) / sizeof(word)), seed)

/* Device memory: aligned as the device's, every byte 0xff, which is no number as a float or half.
 * Not a byte longer than asked for, so that a sanitizer sees what lies outside. free() it. */
void *device_alloc(size_t bytes);

/* The step of device code, of rows of their own cache row, length and padding. */
typedef struct {
    int batch, tokens;
    const int64_t *row, *seen, *padding; /* [batch] */
    const int32_t *ids;                  /* [batch, tokens]; NULL: all 0 */
} device_pass;

void *device_step(const device_code *code, const device_pass *pass); /* free() it */

/* Element i of a buffer of that dtype, rounded to it. */
double device_get(const void *buffer, sc_dtype dtype, int64_t i);
void device_put(void *buffer, sc_dtype dtype, int64_t i, double x);
double device_round(sc_dtype dtype, double x);
size_t device_bytes(sc_dtype dtype);

/* Drawn from -scale … scale. */
void *device_draw(sc_dtype dtype, int64_t count, double scale, uint64_t *state); /* free() it */

/* |ours - wanted| <= bound, and ours is a number. */
void device_compare(const char *what, int64_t i, double ours, double wanted, double bound);

#endif
