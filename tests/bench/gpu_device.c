/* gpu_device.c - see gpu_device.h. */
#include "gpu_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of cuda.h. */
enum { MULTIPROCESSOR_COUNT = 16, MEMORY_CLOCK_RATE = 36, GLOBAL_MEMORY_BUS_WIDTH = 37 };

double gpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpu_median(double *runs, int count) {
    qsort(runs, (size_t)count, sizeof *runs, ascending);
    return count % 2 ? runs[count / 2] : (runs[count / 2 - 1] + runs[count / 2]) / 2;
}

/* Device code without a kernel. */
int gpu_device_open(sc_cuda **cuda, const char *name, size_t bytes, sc_error *err) {
    static const unsigned char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
    static const sc_cubin cubin = { 80, 1, ptx, sizeof ptx };
    static const sc_cubins cubins = { 11000, 1, &cubin };
    return sc_cuda_open(cuda, name, &cubins, bytes, err);
}

static int attribute(const sc_cuda *cuda, int which) {
    int value = 0;
    return cuda->api.DeviceGetAttribute(&value, which, cuda->device) ? 0 : value;
}

int gpu_device_facts(cJSON *answer, const void *what, sc_error *err) {
    sc_cuda *cuda = NULL;
    int rc = gpu_device_open(&cuda, what, 0, err);
    if (rc)
        return rc;
    char name[256] = "";
    int driver = 0;
    size_t left = 0, all = 0;
    rc = sc_cuda_enter(cuda, err);
    if (!rc) {
        SC_CUDA(cuda, DeviceGetName, name, (int)sizeof name, cuda->device);
        SC_CUDA(cuda, DriverGetVersion, &driver);
        SC_CUDA(cuda, MemGetInfo, &left, &all);
        cJSON_AddStringToObject(answer, "name", name);
        cJSON_AddNumberToObject(answer, "sm", cuda->sm);
        cJSON_AddNumberToObject(answer, "driver", driver);
        cJSON_AddNumberToObject(answer, "memory_bytes", (double)all);
        cJSON_AddNumberToObject(answer, "free_bytes", (double)left);
        cJSON_AddNumberToObject(answer, "multiprocessors", attribute(cuda, MULTIPROCESSOR_COUNT));
        cJSON_AddNumberToObject(answer, "memory_clock_khz", attribute(cuda, MEMORY_CLOCK_RATE));
        cJSON_AddNumberToObject(answer, "bus_bits", attribute(cuda, GLOBAL_MEMORY_BUS_WIDTH));
        rc = sc_cuda_finish(cuda, cuda->compute, err);
        sc_cuda_leave(cuda);
    }
    sc_cuda_close(cuda);
    return rc;
}

/* Bytes per second of copies that follow one another on a stream. */
static int time_copies(double *rate, sc_cuda *cuda, void *to, const void *from, size_t bytes,
                       sc_error *err) {
    enum { RUNS = 5, COPIES = 4 };
    double runs[RUNS];
    for (int run = -1; run < RUNS; run++) { /* the first warms up */
        const double begin = gpu_seconds();
        for (int i = 0; i < COPIES; i++)
            sc_cuda_copy(cuda, cuda->copies, to, from, bytes);
        const int rc = sc_cuda_finish(cuda, cuda->copies, err);
        if (rc)
            return rc;
        if (run >= 0)
            runs[run] = (double)bytes * COPIES / (gpu_seconds() - begin);
    }
    *rate = gpu_median(runs, RUNS);
    return SC_OK;
}

int gpu_device_copies(cJSON *answer, const void *what, sc_error *err) {
    const gpu_copy *copy = what;
    sc_cuda *cuda = NULL;
    unsigned char *device = NULL, *host = NULL;
    double to_device = 0, to_host = 0;
    int rc = gpu_device_open(&cuda, copy->device, copy->bytes, err);
    if (rc)
        return rc;
    rc = sc_cuda_enter(cuda, err);
    if (!rc) {
        rc = sc_cuda_alloc(cuda, &device, copy->bytes, err);
        if (!rc)
            rc = sc_cuda_alloc_host(cuda, &host, copy->bytes, err);
        if (!rc) {
            memset(host, 1, copy->bytes);
            rc = time_copies(&to_device, cuda, device, host, copy->bytes, err);
        }
        if (!rc)
            rc = time_copies(&to_host, cuda, host, device, copy->bytes, err);
        sc_cuda_free_host(cuda, host);
        sc_cuda_free(cuda, device);
        sc_cuda_leave(cuda);
    }
    sc_cuda_close(cuda);
    cJSON_AddNumberToObject(answer, "to_device", to_device);
    cJSON_AddNumberToObject(answer, "to_host", to_host);
    return rc;
}
