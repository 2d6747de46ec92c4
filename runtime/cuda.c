/* cuda.c - see cuda.h. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of cuda.h. */
enum {
    CUDA_ERROR_NO_DEVICE = 100,
    COMPUTE_CAPABILITY_MAJOR = 75,
    COMPUTE_CAPABILITY_MINOR = 76,
    STREAM_NON_BLOCKING = 1,
    EVENT_DISABLE_TIMING = 2,
    MEMHOSTALLOC_PORTABLE = 1,
    MEMHOSTALLOC_DEVICEMAP = 2,
    MEMORYTYPE_DEVICE = 2,
    MEMORYTYPE_UNIFIED = 4,
    POINTER_ATTRIBUTE_MEMORY_TYPE = 2
};

enum { OLDEST = 80 }; /* architecture that export makes device code for */

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

/* What the driver calls an error, "CUDA_ERROR_OUT_OF_MEMORY: out of memory". */
static const char *describe(const sc_cuda *cuda, CUresult result, char text[192]) {
    const char *name = NULL, *reason = NULL;
    cuda->api.GetErrorName(result, &name);
    cuda->api.GetErrorString(result, &reason);
    snprintf(text, 192, "%s: %s", name ? name : "unknown error", reason ? reason : "no text");
    return text;
}

static int fail(const sc_cuda *cuda, const char *call, CUresult result, sc_error *err) {
    char text[192];
    return sc_fail(err, SC_EENV, "%s: %s: %s", cuda->name, call, describe(cuda, result, text));
}

#define TRY(cuda, err, call, ...)                                                                  \
    do {                                                                                           \
        const CUresult result_ = (cuda)->api.call(__VA_ARGS__);                                    \
        if (result_)                                                                               \
            return fail(cuda, "cu" #call, result_, err);                                           \
    } while (0)

void sc_cuda_note(sc_cuda *cuda, CUresult result, const char *call) {
    char text[192];
    if (result && !*cuda->failed)
        snprintf(cuda->failed, sizeof cuda->failed, "%s: %s", call, describe(cuda, result, text));
}

void sc_cuda_note_status(sc_cuda *cuda, int status, const char *call) {
    if (status && !*cuda->failed)
        snprintf(cuda->failed, sizeof cuda->failed, "%s: its status is %d", call, status);
}

/* "cuda" or "cuda:N". */
static int read_name(sc_cuda *cuda, const char *name, sc_error *err) {
    int end = 0;
    if (strcmp(name, "cuda") &&
        (sscanf(name, "cuda:%4d%n", &cuda->ordinal, &end) != 1 || name[end] || cuda->ordinal < 0))
        return sc_fail(err, SC_EUSAGE, "--device: \"%s\" is none of cpu, cuda:N, auto", name);
    snprintf(cuda->name, sizeof cuda->name, "cuda:%d", cuda->ordinal);
    return SC_OK;
}

static int load_driver(sc_cuda *cuda, sc_error *err) {
    static const char way_out[] = "install the NVIDIA driver, or --device cpu";
    /* Never closed: the driver keeps threads of its own. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sc_fail(err, SC_EENV, "%s: no driver: %s (%s)", cuda->name, dlerror(), way_out);
#define FIND(function, version, arguments)                                                         \
    *(void **)&cuda->api.function = dlsym(library, "cu" #function version);                        \
    if (!cuda->api.function)                                                                       \
        return sc_fail(err, SC_EENV,                                                               \
                       "%s: the driver is too old: it has no cu" #function version                 \
                       " (update it, or --device cpu)",                                            \
                       cuda->name);
    SC_CUDA_FUNCTIONS(FIND)
#undef FIND
    return SC_OK;
}

static int find_device(sc_cuda *cuda, sc_error *err) {
    int count = 0, major = 0, minor = 0;
    const CUresult begun = cuda->api.Init(0);
    if (begun && begun != CUDA_ERROR_NO_DEVICE)
        return fail(cuda, "cuInit", begun, err);
    if (!begun)
        TRY(cuda, err, DeviceGetCount, &count);
    if (cuda->ordinal >= count)
        return sc_fail(err, SC_EENV, "%s: no such device: there are %d (--device cpu)", cuda->name,
                       count);
    TRY(cuda, err, DeviceGet, &cuda->device, cuda->ordinal);
    TRY(cuda, err, DeviceGetAttribute, &major, COMPUTE_CAPABILITY_MAJOR, cuda->device);
    TRY(cuda, err, DeviceGetAttribute, &minor, COMPUTE_CAPABILITY_MINOR, cuda->device);
    cuda->sm = 10 * major + minor;
    return SC_OK;
}

/* Machine code of the same major version and no later minor one runs; PTX of any earlier one is
 * compiled by the driver. */
static const sc_cubin *choose(const sc_cuda *cuda, const sc_cubins *cubins) {
    const sc_cubin *best = NULL;
    for (int i = 0; i < cubins->count; i++) {
        const sc_cubin *c = &cubins->cubin[i];
        if (c->sm > cuda->sm || (!c->ptx && c->sm / 10 != cuda->sm / 10))
            continue;
        if (!best || (best->ptx && !c->ptx) || (best->ptx == c->ptx && c->sm > best->sm))
            best = c;
    }
    return best;
}

static int check_code(const sc_cuda *cuda, const sc_cubins *cubins, const sc_cubin **code,
                      sc_error *err) {
    int version = 0;
    TRY(cuda, err, DriverGetVersion, &version);
    if (version / 1000 < cubins->toolkit / 1000)
        return sc_fail(err, SC_EENV,
                       "%s: the driver is of CUDA %d.%d, the device code of %d.%d (update the "
                       "driver, export with an older NVRTC, or --device cpu)",
                       cuda->name, version / 1000, version % 1000 / 10, cubins->toolkit / 1000,
                       cubins->toolkit % 1000 / 10);
    *code = choose(cuda, cubins);
    if (*code)
        return SC_OK;
    char list[256] = "none";
    for (int i = 0, at = 0; i < cubins->count && at < 240; i++)
        at += snprintf(list + at, sizeof list - (size_t)at, "%ssm_%d%s", i ? ", " : "",
                       cubins->cubin[i].sm, cubins->cubin[i].ptx ? " (PTX)" : "");
    /* What has code for an earlier architecture has PTX of it, so it would do. */
    return sc_fail(err, SC_EENV,
                   "%s: its architecture sm_%d has no device code in this casting, which has %s "
                   "(%s--device cpu)",
                   cuda->name, cuda->sm, list,
                   cuda->sm < OLDEST ? "export can make it for sm_80 and later; "
                                     : "export with --arch sm_80, or ");
}

static int check_memory(const sc_cuda *cuda, size_t bytes, sc_error *err) {
    size_t left = 0, all = 0;
    TRY(cuda, err, MemGetInfo, &left, &all);
    if (bytes <= left)
        return SC_OK;
    return sc_fail(err, SC_EENV,
                   "%s: %zu bytes are wanted and %zu of %zu are free (a smaller --max-cache-len, "
                   "--offloading, --offload-weights, or --device cpu)",
                   cuda->name, bytes, left, all);
}

static int set_up(sc_cuda *cuda, const sc_cubins *cubins, size_t bytes, sc_error *err) {
    const sc_cubin *code = NULL;
    int rc = check_code(cuda, cubins, &code, err);
    if (rc)
        return rc;
    CUcontext context = NULL;
    TRY(cuda, err, DevicePrimaryCtxRetain, &context, cuda->device);
    cuda->context = context;
    rc = sc_cuda_enter(cuda, err);
    if (rc)
        return rc;
    rc = check_memory(cuda, bytes, err);
    CUresult result = 0;
    const char *call = "cuModuleLoadData";
    if (!rc)
        result = cuda->api.ModuleLoadData(&cuda->module, code->bytes);
    if (!rc && !result) {
        call = "cuStreamCreate";
        result = cuda->api.StreamCreate(&cuda->compute, STREAM_NON_BLOCKING);
    }
    if (!rc && !result)
        result = cuda->api.StreamCreate(&cuda->copies, STREAM_NON_BLOCKING);
    if (!rc && result)
        rc = fail(cuda, call, result, err);
    if (!rc)
        rc = sc_cuda_alloc_host(cuda, &cuda->bounce, SC_CUDA_BOUNCE, err);
    sc_cuda_leave(cuda);
    return rc;
}

int sc_cuda_open(sc_cuda **out, const char *name, const sc_cubins *cubins, size_t bytes,
                 sc_error *err) {
    sc_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return sc_fail(err, SC_EENV, "%s: no memory for %zu bytes", name, sizeof *cuda);
    int rc = read_name(cuda, name, err);
    if (!rc)
        rc = load_driver(cuda, err);
    if (!rc)
        rc = find_device(cuda, err);
    if (!rc)
        rc = set_up(cuda, cubins, bytes, err);
    if (rc)
        sc_cuda_close(cuda);
    else
        *out = cuda;
    return rc;
}

void sc_cuda_wait(sc_cuda *cuda) {
    if (cuda->compute)
        cuda->api.StreamSynchronize(cuda->compute);
    if (cuda->copies)
        cuda->api.StreamSynchronize(cuda->copies);
}

void sc_cuda_close(sc_cuda *cuda) {
    if (!cuda)
        return;
    const bool inside = sc_cuda_enter_last(cuda);
    sc_cuda_wait(cuda);
    sc_cuda_free_host(cuda, cuda->bounce);
    if (cuda->compute)
        cuda->api.StreamDestroy(cuda->compute);
    if (cuda->copies)
        cuda->api.StreamDestroy(cuda->copies);
    if (cuda->module)
        cuda->api.ModuleUnload(cuda->module);
    if (inside)
        sc_cuda_leave(cuda);
    if (cuda->context)
        cuda->api.DevicePrimaryCtxRelease(cuda->device);
    free(cuda);
}

bool sc_cuda_enter_last(sc_cuda *cuda) { return cuda->context && !sc_cuda_enter(cuda, NULL); }

int sc_cuda_enter(sc_cuda *cuda, sc_error *err) {
    TRY(cuda, err, CtxPushCurrent, cuda->context);
    return SC_OK;
}

bool sc_cuda_resume(sc_cuda *cuda) {
    const CUresult result = cuda->api.CtxPushCurrent(cuda->context);
    sc_cuda_note(cuda, result, "cuCtxPushCurrent");
    return !result;
}

void sc_cuda_leave(sc_cuda *cuda) {
    CUcontext ours;
    cuda->api.CtxPopCurrent(&ours);
}

int sc_cuda_alloc(sc_cuda *cuda, unsigned char **device, size_t bytes, sc_error *err) {
    CUdeviceptr at = 0;
    if (bytes)
        TRY(cuda, err, MemAlloc, &at, bytes);
    *device = (unsigned char *)(uintptr_t)at;
    return SC_OK;
}

void sc_cuda_free(sc_cuda *cuda, unsigned char *device) {
    if (device)
        cuda->api.MemFree(address(device));
}

int sc_cuda_alloc_host(sc_cuda *cuda, unsigned char **host, size_t bytes, sc_error *err) {
    void *at = NULL;
    if (bytes)
        TRY(cuda, err, MemHostAlloc, &at, bytes, MEMHOSTALLOC_PORTABLE | MEMHOSTALLOC_DEVICEMAP);
    *host = at;
    return SC_OK;
}

void sc_cuda_free_host(sc_cuda *cuda, unsigned char *host) {
    if (host)
        cuda->api.MemFreeHost(host);
}

int sc_cuda_event(sc_cuda *cuda, CUevent *event, sc_error *err) {
    TRY(cuda, err, EventCreate, event, EVENT_DISABLE_TIMING);
    return SC_OK;
}

void sc_cuda_free_event(sc_cuda *cuda, CUevent event) {
    if (event)
        cuda->api.EventDestroy(event);
}

int sc_cuda_function(sc_cuda *cuda, CUfunction *function, const char *name, sc_error *err) {
    const CUresult result = cuda->api.ModuleGetFunction(function, cuda->module, name);
    return result ? fail(cuda, name, result, err) : SC_OK;
}

void sc_cuda_copy(sc_cuda *cuda, CUstream stream, void *to, const void *from, size_t bytes) {
    if (bytes && !*cuda->failed)
        SC_CUDA(cuda, MemcpyAsync, address(to), address(from), bytes, stream);
}

void sc_cuda_copy_runs(sc_cuda *cuda, CUstream stream, void *to, size_t to_step, const void *from,
                       size_t from_step, size_t bytes, size_t runs) {
    const size_t most = INT32_MAX; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device */
    if (to_step == bytes && from_step == bytes) {
        sc_cuda_copy(cuda, stream, to, from, bytes * runs);
        return;
    }
    if (runs == 1 || to_step > most || from_step > most) {
        for (size_t i = 0; i < runs; i++)
            sc_cuda_copy(cuda, stream, (unsigned char *)to + i * to_step,
                         (const unsigned char *)from + i * from_step, bytes);
        return;
    }
    if (!bytes || !runs || *cuda->failed)
        return;
    const sc_copy_2d copy = { .srcMemoryType = MEMORYTYPE_UNIFIED,
                              .srcDevice = address(from),
                              .srcPitch = from_step,
                              .dstMemoryType = MEMORYTYPE_UNIFIED,
                              .dstDevice = address(to),
                              .dstPitch = to_step,
                              .WidthInBytes = bytes,
                              .Height = runs };
    SC_CUDA(cuda, Memcpy2DAsync, &copy, stream);
}

/* HOST or DEVICE; 0: the driver does not know it, so it is the host's and not pinned. */
static unsigned memory_of(const sc_cuda *cuda, const void *p) {
    unsigned type = 0;
    const CUresult unknown =
        cuda->api.PointerGetAttribute(&type, POINTER_ATTRIBUTE_MEMORY_TYPE, address(p));
    return unknown ? 0 : type;
}

/* One direction or the other, a bounce at a time: as many whole runs as it holds, or a piece of
 * one. */
static void bounce_runs(sc_cuda *cuda, CUstream stream, unsigned char *device, size_t device_step,
                        unsigned char *host, size_t host_step, size_t bytes, size_t runs,
                        int push) {
    const size_t piece = bytes < SC_CUDA_BOUNCE ? bytes : SC_CUDA_BOUNCE;
    const size_t at_once = SC_CUDA_BOUNCE / piece;
    for (size_t run = 0; run < runs; run += at_once) {
        const size_t count = runs - run < at_once ? runs - run : at_once;
        for (size_t at = 0; at < bytes; at += piece) {
            const size_t n = bytes - at < piece ? bytes - at : piece;
            unsigned char *there = device + run * device_step + at;
            unsigned char *here = host + run * host_step + at;
            for (size_t i = 0; i < count && push; i++)
                memcpy(cuda->bounce + i * n, here + i * host_step, n);
            if (push)
                sc_cuda_copy_runs(cuda, stream, there, device_step, cuda->bounce, n, n, count);
            else
                sc_cuda_copy_runs(cuda, stream, cuda->bounce, n, there, device_step, n, count);
            SC_CUDA(cuda, StreamSynchronize, stream);
            for (size_t i = 0; i < count && !push && !*cuda->failed; i++)
                memcpy(here + i * host_step, cuda->bounce + i * n, n);
        }
    }
}

void sc_cuda_move_runs(sc_cuda *cuda, CUstream stream, void *to, size_t to_step, const void *from,
                       size_t from_step, size_t bytes, size_t runs) {
    if (!bytes || !runs)
        return;
    const bool knows_to = memory_of(cuda, to), knows_from = memory_of(cuda, from);
    if (knows_to && knows_from)
        sc_cuda_copy_runs(cuda, stream, to, to_step, from, from_step, bytes, runs);
    else if (knows_to)
        bounce_runs(cuda, stream, to, to_step, (unsigned char *)(uintptr_t)from, from_step, bytes,
                    runs, 1);
    else if (knows_from)
        bounce_runs(cuda, stream, (unsigned char *)(uintptr_t)from, from_step, to, to_step, bytes,
                    runs, 0);
    else
        for (size_t i = 0; i < runs; i++)
            memcpy((unsigned char *)to + i * to_step, (const unsigned char *)from + i * from_step,
                   bytes);
}

void sc_cuda_zero(sc_cuda *cuda, CUstream stream, void *at, size_t bytes) {
    if (bytes)
        SC_CUDA(cuda, MemsetD8Async, address(at), 0, bytes, stream);
}

void sc_cuda_fill(sc_cuda *cuda, CUstream stream, void *at, int byte, size_t bytes) {
    if (bytes && memory_of(cuda, at) == MEMORYTYPE_DEVICE)
        SC_CUDA(cuda, MemsetD8Async, address(at), (unsigned char)byte, bytes, stream);
    else if (bytes) {
        SC_CUDA(cuda, StreamSynchronize, stream);
        memset(at, byte, bytes);
    }
}

void sc_cuda_launch(sc_cuda *cuda, CUstream stream, CUfunction function, unsigned grid_x,
                    unsigned grid_y, unsigned block, const uint64_t *words, size_t count) {
    enum { END = 0, POINTER = 1, SIZE = 2 }; /* CU_LAUNCH_PARAM_ */
    size_t bytes = count * sizeof *words;
    void *extra[] = { (void *)POINTER, (void *)(uintptr_t)words, (void *)SIZE, &bytes,
                      (void *)END };
    if (!*cuda->failed)
        SC_CUDA(cuda, LaunchKernel, function, grid_x, grid_y, 1, block, 1, 1, 0, stream, NULL,
                extra);
}

int sc_cuda_finish(sc_cuda *cuda, CUstream stream, sc_error *err) {
    SC_CUDA(cuda, StreamSynchronize, stream);
    if (!*cuda->failed)
        return SC_OK;
    sc_cuda_wait(cuda);
    const int rc = sc_fail(err, SC_EENV, "%s: %s", cuda->name, cuda->failed);
    *cuda->failed = 0;
    return rc;
}
