/* standin_device.c - settings and log; devices, contexts, modules, streams and events. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin_own.h"

sc_standin_settings standin_settings;
sc_standin_log standin_log;
bool standin_broken;
CUstream standin_streams;

static bool set, initialised;
static int depth; /* of the stack of contexts */
static unsigned long long random_state;
static void *library; /* of kernels */
static void *wait_place[64];

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 0) : 0;
}

static void take(const sc_standin_settings *s) {
    standin_settings = *s;
    if (!standin_settings.memory)
        standin_settings.memory = (size_t)1 << 30;
    if (!standin_settings.sm)
        standin_settings.sm = 90;
    if (!standin_settings.driver)
        standin_settings.driver = 13000;
    if (!standin_settings.devices)
        standin_settings.devices = 1;
    random_state = standin_settings.seed * 2 + 1;
    set = true;
}

API void sc_standin_reset(const sc_standin_settings *settings) {
    standin_drop_ops();
    standin_drop_memory();
    take(settings);
    memset(&standin_log, 0, sizeof standin_log);
    memset(wait_place, 0, sizeof wait_place);
    standin_broken = initialised = false;
    depth = 0;
    for (CUstream s = standin_streams, next; s; s = next) {
        next = s->next;
        free(s);
    }
    standin_streams = NULL;
    library = NULL; /* those who opened it close it */
}

API void sc_standin_seed(unsigned long long seed) {
    standin_settings.seed = seed;
    random_state = seed * 2 + 1;
}

API void sc_standin_read(sc_standin_log *log) { *log = standin_log; }

API void sc_standin_mistake(const char *format, ...) {
    char text[sizeof standin_log.mistake];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!standin_log.mistakes++)
        memcpy(standin_log.mistake, text, sizeof text);
    if (!standin_settings.quiet)
        fprintf(stderr, "standin: %s\n", text);
    standin_broken = true;
}

/* xorshift64: Marsaglia 2003. */
int standin_random(int below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)(random_state % (unsigned long long)below);
}

int standin_enter(bool wants_context, int failure) {
    if (!set)
        take(&(sc_standin_settings){ .seed = (unsigned long long)number("SC_STANDIN_SEED"),
                                     .fail = number("SC_STANDIN_FAIL"),
                                     .drop_wait = (int)number("SC_STANDIN_DROP_WAIT"),
                                     .memory = (size_t)number("SC_STANDIN_MEMORY"),
                                     .sm = (int)number("SC_STANDIN_SM"),
                                     .driver = (int)number("SC_STANDIN_DRIVER"),
                                     .devices = (int)number("SC_STANDIN_DEVICES"),
                                     .kernels = getenv("SC_STANDIN_KERNELS") });
    if (++standin_log.calls == standin_settings.fail)
        return failure;
    if (wants_context && depth < 1)
        return ERROR_INVALID_CONTEXT;
    return SUCCESS;
}

/* ---- devices and contexts ---- */

API CUresult cuInit(unsigned flags) {
    const int rc = standin_enter(false, ERROR_UNKNOWN);
    if (rc || flags)
        return rc ? rc : ERROR_INVALID_VALUE;
    initialised = true;
    return standin_settings.devices < 1 ? ERROR_NO_DEVICE : SUCCESS;
}

static int enter_initialised(void) {
    const int rc = standin_enter(false, ERROR_UNKNOWN);
    return rc ? rc : initialised ? SUCCESS : ERROR_NOT_INITIALIZED;
}

API CUresult cuDriverGetVersion(int *version) {
    const int rc = standin_enter(false, ERROR_UNKNOWN);
    if (!rc)
        *version = standin_settings.driver;
    return rc;
}

API CUresult cuDeviceGetCount(int *count) {
    const int rc = enter_initialised();
    if (!rc)
        *count = standin_settings.devices < 0 ? 0 : standin_settings.devices;
    return rc;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    const int rc = enter_initialised();
    if (rc || ordinal < 0 || ordinal >= standin_settings.devices)
        return rc ? rc : ERROR_INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    const int rc = enter_initialised();
    if (!rc)
        snprintf(name, (size_t)room, "stand-in %d", device);
    return rc;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    enum { MAJOR = 75, MINOR = 76 };
    const int rc = enter_initialised();
    (void)device;
    if (rc || (attribute != MAJOR && attribute != MINOR))
        return rc ? rc : ERROR_INVALID_VALUE;
    *value = attribute == MAJOR ? standin_settings.sm / 10 : standin_settings.sm % 10;
    return SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    static int primary[8];
    const int rc = enter_initialised();
    if (rc || device >= 8)
        return rc ? rc : ERROR_INVALID_DEVICE;
    *context = (CUcontext)(void *)&primary[device];
    standin_log.contexts++;
    return SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    (void)device;
    standin_run_until(NULL);
    standin_log.contexts--;
    return SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(CUcontext context) {
    const int rc = enter_initialised();
    if (rc || !context)
        return rc ? rc : ERROR_INVALID_CONTEXT;
    depth++;
    return SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (depth < 1)
        return ERROR_INVALID_CONTEXT;
    depth--;
    *context = NULL;
    return SUCCESS;
}

/* ---- modules: the image is looked at, the kernels are the host's ---- */

static void *kernels(void) {
    if (!library && standin_settings.kernels)
        library = dlopen(standin_settings.kernels, RTLD_NOW | RTLD_LOCAL);
    return library;
}

void *standin_library(void) {
    void *launch = kernels() ? dlsym(kernels(), "sc_host_launch") : NULL;
    if (!launch)
        sc_standin_mistake("no library of kernels: %s", dlerror());
    return launch;
}

API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc)
        return rc;
    if (memcmp(image, "\177ELF", 4) && memcmp(image, "//", 2) && memcmp(image, "\n//", 3))
        return ERROR_INVALID_IMAGE;
    *module = (CUmodule)malloc(1);
    standin_log.modules++;
    return *module ? SUCCESS : ERROR_OUT_OF_MEMORY;
}

API CUresult cuModuleUnload(CUmodule module) {
    free(module);
    standin_log.modules--;
    return SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    (void)module;
    if (rc)
        return rc;
    *function = kernels() ? (CUfunction)dlsym(kernels(), name) : NULL;
    return *function ? SUCCESS : ERROR_NOT_FOUND;
}

API CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **params, void **extra) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    const uint64_t *words = NULL;
    size_t bytes = 0;
    if (rc)
        return rc;
    for (int i = 0; extra && extra[i]; i += 2)
        if (extra[i] == (void *)1)
            words = extra[i + 1];
        else if (extra[i] == (void *)2)
            bytes = *(size_t *)extra[i + 1];
    if (!function || !stream || params || (uint64_t)bx * by * bz > 1024 ||
        !(x && y && z && bx && by && bz) || x > 0x7fffffff || y > 65535 || z > 65535 || bytes % 8)
        return ERROR_INVALID_VALUE;
    work w = { .kind = OP_KERNEL,
               .function = (void *)function,
               .grid = { x, y, z },
               .block = { bx, by, bz },
               .shared = shared,
               .count = bytes / 8 };
    w.words = malloc(bytes + 8);
    if (!w.words)
        return ERROR_OUT_OF_MEMORY;
    memcpy(w.words, words, bytes);
    return standin_submit(stream, &w);
}

API int sc_standin_enqueue(void *stream, void (*call)(void *data), const void *data, size_t bytes) {
    work w = {
        .kind = OP_CALL, .call = call, .words = malloc(bytes + 8), .count = (bytes + 7) / 8
    };
    if (!w.words)
        return ERROR_OUT_OF_MEMORY;
    memcpy(w.words, data, bytes);
    return standin_submit(stream, &w);
}

/* ---- streams and events ---- */

API CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    (void)flags;
    if (rc)
        return rc;
    bool taken[CHAINS / 2] = { false };
    for (CUstream s = standin_streams; s; s = s->next)
        taken[s->chain] = true;
    int chain = 0;
    while (chain < CHAINS / 2 && taken[chain])
        chain++;
    CUstream made = chain < CHAINS / 2 ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return ERROR_OUT_OF_MEMORY;
    made->chain = chain;
    made->next = standin_streams;
    *stream = standin_streams = made;
    standin_log.streams++;
    return SUCCESS;
}

API CUresult cuStreamDestroy_v2(CUstream stream) {
    for (CUstream *s = &standin_streams; *s; s = &(*s)->next)
        if (*s == stream) {
            if (stream->last)
                standin_run_until(stream->last);
            *s = stream->next;
            free(stream);
            standin_log.streams--;
            return SUCCESS;
        }
    return ERROR_INVALID_HANDLE;
}

API CUresult cuStreamSynchronize(CUstream stream) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc)
        return rc;
    if (stream->capture) {
        stream->capture->broken = true;
        return ERROR_CAPTURE_UNSUPPORTED;
    }
    if (stream->last)
        standin_run_until(stream->last);
    return standin_broken ? ERROR_ILLEGAL_ADDRESS : SUCCESS;
}

API CUresult cuEventCreate(CUevent *event, unsigned flags) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    (void)flags;
    if (rc)
        return rc;
    *event = calloc(1, sizeof **event);
    standin_log.events += *event != NULL;
    return *event ? SUCCESS : ERROR_OUT_OF_MEMORY;
}

API CUresult cuEventDestroy_v2(CUevent event) {
    free(event);
    standin_log.events--;
    return SUCCESS;
}

API CUresult cuEventRecord(CUevent event, CUstream stream) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc)
        return rc;
    event->recorded = true;
    event->capture = stream->capture;
    event->node = stream->node;
    event->op = stream->capture ? NULL : stream->last;
    return SUCCESS;
}

/* Is this place of the program the one that is not heard? */
static bool is_dropped(void *place) {
    int i = 0;
    while (i < standin_log.wait_places && wait_place[i] != place)
        i++;
    if (i == standin_log.wait_places && i < 64)
        wait_place[standin_log.wait_places++] = place;
    return i + 1 == standin_settings.drop_wait;
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    const work nothing = { .kind = OP_NOTHING };
    if (rc || flags)
        return rc ? rc : ERROR_INVALID_VALUE;
    if (is_dropped(__builtin_return_address(0)) || !event->recorded)
        return SUCCESS;
    if (event->capture) { /* it pulls the stream into its capture */
        if (stream->capture && stream->capture != event->capture)
            return ERROR_CAPTURE_ISOLATION;
        if (!stream->capture) {
            stream->capture = event->capture;
            stream->node = -1;
        }
        return standin_capture(stream, &nothing, event->node);
    }
    if (stream->capture) {
        stream->capture->broken = true;
        return ERROR_CAPTURE_ISOLATION;
    }
    standin_add(stream, &nothing, event->op);
    return SUCCESS;
}

API CUresult cuGetErrorName(CUresult result, const char **name) {
    static const struct {
        int code;
        const char *name;
    } names[] = { { 0, "CUDA_SUCCESS" },
                  { 1, "CUDA_ERROR_INVALID_VALUE" },
                  { 2, "CUDA_ERROR_OUT_OF_MEMORY" },
                  { 3, "CUDA_ERROR_NOT_INITIALIZED" },
                  { 100, "CUDA_ERROR_NO_DEVICE" },
                  { 101, "CUDA_ERROR_INVALID_DEVICE" },
                  { 200, "CUDA_ERROR_INVALID_IMAGE" },
                  { 201, "CUDA_ERROR_INVALID_CONTEXT" },
                  { 400, "CUDA_ERROR_INVALID_HANDLE" },
                  { 500, "CUDA_ERROR_NOT_FOUND" },
                  { 700, "CUDA_ERROR_ILLEGAL_ADDRESS" },
                  { 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
                  { 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
                  { 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" },
                  { 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" },
                  { 999, "CUDA_ERROR_UNKNOWN" } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == result) {
            *name = names[i].name;
            return SUCCESS;
        }
    return ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorString(CUresult result, const char **text) {
    (void)result;
    *text = standin_log.mistakes ? standin_log.mistake : "the stand-in was told to";
    return SUCCESS;
}
