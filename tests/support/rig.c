/* rig.c - see rig.h. */
#include "rig.h"

#include <check.h>
#include <string.h>

#include "kernels.h"
#include "once.h"

const char rig_kernels[] = "build/test-castings/check_standin.so";

void rig_build(void) {
    if (!once_begin(rig_kernels))
        return;
    kernels_build(rig_kernels, "tests/cuda/check_standin.cu", "");
    once_end();
}

void rig_check(CUresult result, const char *call, const char *file, int line) {
    const char *name = "";
    if (result)
        standin_open()->api.GetErrorName(result, &name);
    ck_assert_msg(!result, "%s:%d: %s: %d %s", file, line, call, result, name);
}

uint64_t rig_word(const void *p) { return (uint64_t)(uintptr_t)p; }

void rig_open(rig *r, const sc_standin_settings *settings) {
    sc_standin_settings all = *settings;
    all.kernels = rig_kernels;
    standin_open()->reset(&all);
    memset(r, 0, sizeof *r);
    r->api = &standin_open()->api;
    RIG(r, Init, 0);
    RIG(r, DeviceGet, &r->device, 0);
    RIG(r, DevicePrimaryCtxRetain, &r->context, r->device);
    RIG(r, CtxPushCurrent, r->context);
    RIG(r, ModuleLoadData, &r->module, "// code");
    RIG(r, StreamCreate, &r->a, 1);
    RIG(r, StreamCreate, &r->b, 1);
    for (int i = 0; i < RIG_EVENTS; i++)
        RIG(r, EventCreate, &r->event[i], 2);
}

void rig_open_seed(rig *r, uint64_t seed) {
    rig_open(r, &(sc_standin_settings){ .seed = seed, .quiet = 1 });
}

void rig_close(rig *r) {
    for (int i = 0; i < RIG_EVENTS; i++)
        RIG(r, EventDestroy, r->event[i]);
    RIG(r, StreamDestroy, r->a);
    RIG(r, StreamDestroy, r->b);
    RIG(r, ModuleUnload, r->module);
    RIG(r, CtxPopCurrent, &r->context);
    RIG(r, DevicePrimaryCtxRelease, r->device);
}

unsigned char *rig_device(const rig *r, size_t bytes) {
    CUdeviceptr at = 0;
    RIG(r, MemAlloc, &at, bytes);
    return (unsigned char *)(uintptr_t)at;
}

unsigned char *rig_pinned(const rig *r, size_t bytes) {
    void *at = NULL;
    RIG(r, MemHostAlloc, &at, bytes, 1);
    return at;
}

/* After a report it says so too: what matters is that nothing is left. */
void rig_free(const rig *r, void *device) { r->api->MemFree(rig_word(device)); }

void rig_free_pinned(const rig *r, void *pinned) { r->api->MemFreeHost(pinned); }

CUresult rig_copy(const rig *r, void *to, const void *from, size_t bytes, CUstream stream) {
    return r->api->MemcpyAsync(rig_word(to), rig_word(from), bytes, stream);
}

CUresult rig_launch(const rig *r, const char *kernel, unsigned blocks, CUstream stream,
                    const uint64_t *words, int count) {
    size_t bytes = (size_t)count * 8;
    void *extra[] = { (void *)1, (void *)(uintptr_t)words, (void *)2, &bytes, NULL };
    CUfunction function;
    RIG(r, ModuleGetFunction, &function, r->module, kernel);
    return r->api->LaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
}

void rig_order(const rig *r, CUstream earlier, CUstream later, int event) {
    RIG(r, EventRecord, r->event[event], earlier);
    RIG(r, StreamWaitEvent, later, r->event[event], 0);
}

int rig_reports(const char **text) {
    static sc_standin_log log;
    standin_open()->log(&log);
    if (text)
        *text = log.mistake;
    return log.mistakes;
}
