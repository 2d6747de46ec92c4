/*
 * gpu_device.h - what a device is, and how fast it copies: units (gpu_unit.h) of gpu-check.
 */
#ifndef SC_GPU_DEVICE_H
#define SC_GPU_DEVICE_H

#include "../../runtime/cuda.h"
#include "gpu_unit.h"

/* Opens it for copies alone. As long as it is open the device's context stays, so that others open
 * it in no time. What sc_cuda_open returns. */
int gpu_device_open(sc_cuda **cuda, const char *name, size_t bytes, sc_error *err);

/* what: "cuda:N". Adds name, sm, driver (13000), memory_bytes, free_bytes, multiprocessors,
 * memory_clock_khz, bus_bits; the last two are 0 where the driver does not say. SC_EENV: there is
 * no such device that could be used. */
int gpu_device_facts(cJSON *answer, const void *what, sc_error *err);

typedef struct {
    const char *device;
    size_t bytes;
} gpu_copy;

/* what: gpu_copy. Adds to_device and to_host: bytes per second of copies of that size between
 * pinned and device memory, each the median of some. */
int gpu_device_copies(cJSON *answer, const void *what, sc_error *err);

double gpu_seconds(void); /* of the monotonic clock */

enum { GPU_MOST_RUNS = 16 };
double gpu_median(double *runs, int count); /* sorts them */

#endif
