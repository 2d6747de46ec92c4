/* device.c - see driver.h: devices, their primary contexts, names of errors. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum { STACK_MAX = 64 };

/* Contexts that the thread has pushed; those of an earlier reset count for nothing. */
static _Thread_local struct {
    uint64_t round;
    int depth;
    context *pushed[STACK_MAX];
} stack;

context *driver_context(void) {
    return stack.depth && stack.round == driver.round ? stack.pushed[stack.depth - 1] : NULL;
}

CUresult cuInit(unsigned flags) {
    CUresult result = driver_enter(__func__, COUNTED);
    if (!result)
        result = flags                     ? CUDA_ERROR_INVALID_VALUE
                 : driver.settings.devices ? CUDA_SUCCESS
                                           : CUDA_ERROR_NO_DEVICE;
    if (!result)
        driver.initialised = true;
    return driver_leave(result);
}

CUresult cuDriverGetVersion(int *version) {
    CUresult result = driver_enter(__func__, COUNTED);
    if (!result && !version)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *version = driver.settings.driver;
    return driver_leave(result);
}

/* Of a call that needs cuInit, a device and somewhere to write. */
static CUresult enter_device(const char *call, CUdevice device, const void *out, unsigned flags) {
    const CUresult result = driver_enter(call, flags);
    if (result)
        return result;
    if (!driver.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (device < 0 || device >= driver.settings.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
    const CUresult result = enter_device(__func__, 0, count, COUNTED);
    if (!result)
        *count = driver.settings.devices;
    return driver_leave(result);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    const CUresult result = enter_device(__func__, ordinal, device, COUNTED);
    if (!result)
        *device = ordinal;
    return driver_leave(result);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    CUresult result = enter_device(__func__, device, name, COUNTED);
    if (!result && bytes <= 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        snprintf(name, (size_t)bytes, "Stand-in %d", device);
    return driver_leave(result);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CUresult result = enter_device(__func__, device, value, COUNTED);
    if (result)
        return driver_leave(result);
    switch (attribute) {
    case 1: /* MAX_THREADS_PER_BLOCK */
        *value = SC_HOST_THREADS;
        break;
    case 8: /* MAX_SHARED_MEMORY_PER_BLOCK */
        *value = SC_HOST_SHARED;
        break;
    case 10: /* WARP_SIZE */
        *value = 32;
        break;
    case 16: /* MULTIPROCESSOR_COUNT */
        *value = 8;
        break;
    case 36: /* MEMORY_CLOCK_RATE, kHz: of a memory of 16 GB/s with the next one */
        *value = 1000000;
        break;
    case 37: /* GLOBAL_MEMORY_BUS_WIDTH, bits */
        *value = 64;
        break;
    case 75: /* COMPUTE_CAPABILITY_MAJOR */
        *value = driver.settings.sm / 10;
        break;
    case 76: /* COMPUTE_CAPABILITY_MINOR */
        *value = driver.settings.sm % 10;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return driver_leave(result);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    const CUresult result = enter_device(__func__, device, out, COUNTED);
    if (!result) {
        context *c = &driver.contexts[device];
        c->device = device;
        c->retained++;
        *out = c;
    }
    return driver_leave(result);
}

/* The last release waits for all work, and ends what was raised; what is still live stays counted,
 * as the leak that it is. */
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    CUresult result = enter_device(__func__, device, &stack, 0);
    if (!result && !driver.contexts[device].retained)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result && !--driver.contexts[device].retained) {
        schedule_drain();
        driver.broken = driver.raised = false;
    }
    return driver_leave(result);
}

static bool is_context(const context *c) {
    for (int i = 0; i < driver.settings.devices; i++)
        if (c == &driver.contexts[i])
            return c->retained > 0;
    return false;
}

CUresult cuCtxPushCurrent(CUcontext pushed) {
    CUresult result = driver_enter(__func__, COUNTED);
    if (stack.round != driver.round)
        stack.depth = 0;
    stack.round = driver.round;
    if (!result && !driver.initialised)
        result = CUDA_ERROR_NOT_INITIALIZED;
    if (!result && (!is_context(pushed) || stack.depth == STACK_MAX))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        stack.pushed[stack.depth++] = pushed;
    return driver_leave(result);
}

CUresult cuCtxPopCurrent(CUcontext *popped) {
    CUresult result = driver_enter(__func__, 0);
    context *current = driver_context();
    if (!result && !current)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result) {
        stack.depth--;
        if (popped)
            *popped = current;
    }
    return driver_leave(result);
}

static const struct {
    CUresult number;
    const char *name, *text;
} errors[] = {
#define AS_ROW(number, name, text) { number, "CUDA_" #name, text },
    DRIVER_ERRORS(AS_ROW)
#undef AS_ROW
};

static CUresult find_text(CUresult number, const char **out, bool name) {
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].number == number)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult number, const char **name) {
    return find_text(number, name, true);
}

CUresult cuGetErrorString(CUresult number, const char **text) {
    return find_text(number, text, false);
}
