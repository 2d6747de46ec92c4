/*
 * cuda.h - the CUDA driver and cuBLASLt by dlopen: a device, its streams and its memory.
 *
 * Needs no toolkit: libcuda.so.1 comes with the driver and is opened when a device is asked for.
 * What is declared here is what cuda.h of the toolkit declares, as far as a casting uses it.
 *
 * Owner    the caller of open; everything is freed by close. Not for two threads at once.
 * Errors   SC_EENV names the call and what the driver says of it.
 * Source   CUDA Driver API reference, 12.x and 13.x.
 */
#ifndef SC_CUDA_H
#define SC_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* Device code as NAME_cubin.c has it: cubins of some architectures, PTX for later ones. */
typedef struct {
    int sm;  /* 90 */
    int ptx; /* not machine code but text, for this sm and later ones */
    const unsigned char *bytes;
    size_t size;
} sc_cubin;

typedef struct {
    int toolkit; /* that compiled them: 13000 */
    int count;
    const sc_cubin *cubin;
} sc_cubins;

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

/* CUDA_MEMCPY2D. */
typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch, dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch, WidthInBytes, Height;
} sc_copy_2d;

/* The driver's functions: name, and the version of it that is meant, as its symbol ends. */
#define SC_CUDA_FUNCTIONS(X)                                                                       \
    X(Init, "", (unsigned))                                                                        \
    X(DriverGetVersion, "", (int *))                                                               \
    X(DeviceGetCount, "", (int *))                                                                 \
    X(DeviceGet, "", (CUdevice *, int))                                                            \
    X(DeviceGetName, "", (char *, int, CUdevice))                                                  \
    X(DeviceGetAttribute, "", (int *, int, CUdevice))                                              \
    X(DevicePrimaryCtxRetain, "", (CUcontext *, CUdevice))                                         \
    X(DevicePrimaryCtxRelease, "_v2", (CUdevice))                                                  \
    X(CtxPushCurrent, "_v2", (CUcontext))                                                          \
    X(CtxPopCurrent, "_v2", (CUcontext *))                                                         \
    X(MemGetInfo, "_v2", (size_t *, size_t *))                                                     \
    X(MemAlloc, "_v2", (CUdeviceptr *, size_t))                                                    \
    X(MemFree, "_v2", (CUdeviceptr))                                                               \
    X(MemHostAlloc, "", (void **, size_t, unsigned))                                               \
    X(MemFreeHost, "", (void *))                                                                   \
    X(MemcpyAsync, "", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                               \
    X(Memcpy2DAsync, "_v2", (const sc_copy_2d *, CUstream))                                        \
    X(MemsetD8Async, "", (CUdeviceptr, unsigned char, size_t, CUstream))                           \
    X(StreamCreate, "", (CUstream *, unsigned))                                                    \
    X(StreamDestroy, "_v2", (CUstream))                                                            \
    X(StreamSynchronize, "", (CUstream))                                                           \
    X(StreamWaitEvent, "", (CUstream, CUevent, unsigned))                                          \
    X(StreamBeginCapture, "_v2", (CUstream, int))                                                  \
    X(StreamEndCapture, "", (CUstream, CUgraph *))                                                 \
    X(EventCreate, "", (CUevent *, unsigned))                                                      \
    X(EventDestroy, "_v2", (CUevent))                                                              \
    X(EventRecord, "", (CUevent, CUstream))                                                        \
    X(GraphInstantiateWithFlags, "", (CUgraphExec *, CUgraph, unsigned long long))                 \
    X(GraphLaunch, "", (CUgraphExec, CUstream))                                                    \
    X(GraphExecDestroy, "", (CUgraphExec))                                                         \
    X(GraphDestroy, "", (CUgraph))                                                                 \
    X(ModuleLoadData, "", (CUmodule *, const void *))                                              \
    X(ModuleUnload, "", (CUmodule))                                                                \
    X(ModuleGetFunction, "", (CUfunction *, CUmodule, const char *))                               \
    X(LaunchKernel, "",                                                                            \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
       void **, void **))                                                                          \
    X(PointerGetAttribute, "", (void *, int, CUdeviceptr))                                         \
    X(GetErrorName, "", (CUresult, const char **))                                                 \
    X(GetErrorString, "", (CUresult, const char **))

typedef struct {
#define SC_CUDA_MEMBER(name, version, arguments) CUresult(*name) arguments;
    SC_CUDA_FUNCTIONS(SC_CUDA_MEMBER)
#undef SC_CUDA_MEMBER
} sc_cuda_api;

enum { SC_CUDA_BOUNCE = 1 << 20 };

/* A device in use: its primary context, two streams, the casting's device code. */
typedef struct {
    sc_cuda_api api;
    CUdevice device;
    int ordinal, sm; /* cuda:N; 90 */
    char name[64];   /* "cuda:0" */
    CUcontext context;
    CUmodule module;
    CUstream compute, copies;
    unsigned char *bounce; /* pinned, SC_CUDA_BOUNCE bytes: what callers pass goes through it */
    char failed[256];      /* the first call that did, and why; "": none so far */
} sc_cuda;

/*
 * name: "cuda:N", or "cuda", which is cuda:0. cubins: the device code. bytes: of device memory that
 * the caller will take; more than what is free is refused here, before anything is allocated.
 * SC_EUSAGE: no such name. SC_EENV: no driver, one too old for the device code, no such device, an
 * architecture without code, too little memory, no memory.
 */
int sc_cuda_open(sc_cuda **cuda, const char *name, const sc_cubins *cubins, size_t bytes,
                 sc_error *err);
void sc_cuda_close(sc_cuda *cuda); /* NULL is allowed; waits for what is under way */

/* Every call below wants the context current: enter, then leave. */
int sc_cuda_enter(sc_cuda *cuda, sc_error *err);
/* The same in the middle of some work: false, and a failure that finish will report. */
bool sc_cuda_resume(sc_cuda *cuda);
/* The same for those who are about to free all they have. false: it cannot be made current, or
 * there is none; they go on all the same, but do not leave: calls of the driver then fail, and what
 * is the device's goes with the context, when its last holder closes. */
bool sc_cuda_enter_last(sc_cuda *cuda);
void sc_cuda_leave(sc_cuda *cuda);

/* device: NULL when the size is 0. */
int sc_cuda_alloc(sc_cuda *cuda, unsigned char **device, size_t bytes, sc_error *err);
void sc_cuda_free(sc_cuda *cuda, unsigned char *device);
/* Pinned, at the same address for the device. */
int sc_cuda_alloc_host(sc_cuda *cuda, unsigned char **host, size_t bytes, sc_error *err);
void sc_cuda_free_host(sc_cuda *cuda, unsigned char *host);
/* Orders streams, takes no time. */
int sc_cuda_event(sc_cuda *cuda, CUevent *event, sc_error *err);
void sc_cuda_free_event(sc_cuda *cuda, CUevent event); /* NULL is allowed */
int sc_cuda_function(sc_cuda *cuda, CUfunction *function, const char *name, sc_error *err);

/*
 * Work on a stream. The first failure sticks in cuda->failed, and no copy or launch follows it;
 * sc_cuda_finish reports it. Addresses are the device's or pinned memory's.
 */
void sc_cuda_note(sc_cuda *cuda, CUresult result, const char *call);
/* The same for a library's status. */
void sc_cuda_note_status(sc_cuda *cuda, int status, const char *call);
#define SC_CUDA(cuda, call, ...) sc_cuda_note(cuda, (cuda)->api.call(__VA_ARGS__), "cu" #call)
void sc_cuda_copy(sc_cuda *cuda, CUstream stream, void *to, const void *from, size_t bytes);
/* runs pieces of bytes each, to_step and from_step apart. */
void sc_cuda_copy_runs(sc_cuda *cuda, CUstream stream, void *to, size_t to_step, const void *from,
                       size_t from_step, size_t bytes, size_t runs);
/*
 * The same where one side or both are a caller's memory, which may be any: the host's, pinned or
 * not, or the device's. Goes through the bounce and waits where it must; what came before on the
 * stream is done first.
 */
void sc_cuda_move_runs(sc_cuda *cuda, CUstream stream, void *to, size_t to_step, const void *from,
                       size_t from_step, size_t bytes, size_t runs);
void sc_cuda_zero(sc_cuda *cuda, CUstream stream, void *at, size_t bytes);
/* memset of any memory; waits for the stream where it is not the device's. */
void sc_cuda_fill(sc_cuda *cuda, CUstream stream, void *at, int byte, size_t bytes);
/* words: the kernel's arguments, 8 bytes each. */
void sc_cuda_launch(sc_cuda *cuda, CUstream stream, CUfunction function, unsigned grid_x,
                    unsigned grid_y, unsigned block, const uint64_t *words, size_t count);

/* Waits for both streams, whatever they say: for those who are about to free what may be in use. */
void sc_cuda_wait(sc_cuda *cuda);

/* Waits for the stream. SC_EENV: it, or any call since the last finish, failed; then nothing is
 * under way on the other one either. */
int sc_cuda_finish(sc_cuda *cuda, CUstream stream, sc_error *err);

#endif
