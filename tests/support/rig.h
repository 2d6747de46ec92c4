/*
 * rig.h - a device of the stand-in driver with two streams and some events, for tests of it.
 *
 * Kernels are those of tests/cuda/check_standin.cu, built once in a run by rig_build.
 */
#ifndef SC_TEST_RIG_H
#define SC_TEST_RIG_H

#include "standin.h"

enum { RIG_EVENTS = 6 };

typedef struct {
    const sc_cuda_api *api;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUstream a, b;
    CUevent event[RIG_EVENTS];
} rig;

/* The library of kernels, as SC_STANDIN_KERNELS takes it; a fixture. It leaves the driver closed:
 * of a libcuda.so.1 that the parent has open, NVRTC's tests would take functions that are not
 * there. */
void rig_build(void);
extern const char rig_kernels[];

/* Resets the stand-in to these settings (kernels are the rig's), opens everything. */
void rig_open(rig *r, const sc_standin_settings *settings);
/* The same with a seed; reports are not printed. */
void rig_open_seed(rig *r, uint64_t seed);
/* Destroys it. What a test has allocated it frees before. */
void rig_close(rig *r);

/* Fails the test unless the call succeeds. */
#define RIG(r, call, ...) rig_check((r)->api->call(__VA_ARGS__), "cu" #call, __FILE__, __LINE__)
void rig_check(CUresult result, const char *call, const char *file, int line);

unsigned char *rig_device(const rig *r, size_t bytes);
unsigned char *rig_pinned(const rig *r, size_t bytes);
void rig_free(const rig *r, void *device);
void rig_free_pinned(const rig *r, void *pinned);

CUresult rig_copy(const rig *r, void *to, const void *from, size_t bytes, CUstream stream);
/* One thread per block; words up to 4. */
CUresult rig_launch(const rig *r, const char *kernel, unsigned blocks, CUstream stream,
                    const uint64_t *words, int count);
#define RIG_LAUNCH(r, kernel, stream, ...)                                                         \
    rig_check(rig_launch(r, kernel, 1, stream, (const uint64_t[]){ __VA_ARGS__ },                  \
                         (int)(sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8)),                    \
              kernel, __FILE__, __LINE__)

/* The later stream goes on after what the earlier one holds now. */
void rig_order(const rig *r, CUstream earlier, CUstream later, int event);

uint64_t rig_word(const void *p);

/* Reports so far; text (of the first) may be NULL. */
int rig_reports(const char **text);

#endif
