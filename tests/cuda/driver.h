/*
 * driver.h - what the files of the stand-in driver share: standin.h.
 *
 * One lock is held from driver_enter to driver_leave of every call; all else here wants it held.
 * Handles are checked by a magic number; what was destroyed is kept until the next reset for that.
 */
#ifndef SC_TEST_DRIVER_H
#define SC_TEST_DRIVER_H

#include <pthread.h>
#include <stdbool.h>

#include "launch.h"
#include "standin.h"

/* The driver's functions by their names in cuda.h, where macros hide the versions. */
#define DECLARE(name, version, arguments)                                                          \
    CUresult cu##name arguments __asm__("cu" #name version) SC_STANDIN_EXPORT;
SC_CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

/* CUresult. X(number, name, text) */
#define DRIVER_ERRORS(X)                                                                           \
    X(0, SUCCESS, "no error")                                                                      \
    X(1, ERROR_INVALID_VALUE, "invalid argument")                                                  \
    X(2, ERROR_OUT_OF_MEMORY, "out of memory")                                                     \
    X(3, ERROR_NOT_INITIALIZED, "initialization error")                                            \
    X(100, ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                  \
    X(101, ERROR_INVALID_DEVICE, "invalid device ordinal")                                         \
    X(200, ERROR_INVALID_IMAGE, "device kernel image is invalid")                                  \
    X(201, ERROR_INVALID_CONTEXT, "invalid device context")                                        \
    X(301, ERROR_FILE_NOT_FOUND, "file not found")                                                 \
    X(400, ERROR_INVALID_HANDLE, "invalid resource handle")                                        \
    X(401, ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")          \
    X(500, ERROR_NOT_FOUND, "named symbol not found")                                              \
    X(700, ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                      \
    X(709, ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                     \
    X(801, ERROR_NOT_SUPPORTED, "operation not supported")                                         \
    X(900, ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")   \
    X(901, ERROR_STREAM_CAPTURE_INVALIDATED,                                                       \
      "operation failed due to a previous error during capture")                                   \
    X(902, ERROR_STREAM_CAPTURE_MERGE,                                                             \
      "operation would result in a merge of separate capture sequences")                           \
    X(903, ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began") \
    X(904, ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                    \
    X(905, ERROR_STREAM_CAPTURE_ISOLATION,                                                         \
      "dependency created on uncaptured work in another stream")                                   \
    X(907, ERROR_CAPTURED_EVENT,                                                                   \
      "operation not permitted on an event last recorded in a capturing stream")                   \
    X(908, ERROR_STREAM_CAPTURE_WRONG_THREAD,                                                      \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
    X(999, ERROR_UNKNOWN, "unknown error")

#define AS_ENUM(number, name, text) CUDA_##name = number,
enum { DRIVER_ERRORS(AS_ENUM) };
#undef AS_ENUM

/* --- device.c: calls, settings, reports, contexts --- */

enum { DEVICES_MAX = 16, SITES_MAX = 256 };

/* Who is what before: entry c is how many operations of chain c (a stream has one) come before. */
enum { CHAINS = 128 };
typedef struct {
    uint32_t at[CHAINS];
} vector_clock;

typedef struct CUctx_st {
    CUdevice device;
    int retained;
    uint64_t round; /* of resets */
    size_t bytes;   /* allocated on the device */
} context;

typedef struct {
    sc_standin_settings settings;
    sc_standin_log log;
    bool set_up, initialised;
    bool broken; /* a report was made */
    bool raised; /* and a call has returned it: all do from now on */
    bool lost;   /* the call that was to fail is one that ORDERS */
    uint64_t round, random, next_id;
    context contexts[DEVICES_MAX];
    vector_clock host;           /* what the host has waited for */
    vector_clock clocks[CHAINS]; /* of streams that were destroyed, by chain */
    const void *sites[SITES_MAX];
} driver_state;
extern driver_state driver;

enum {
    COUNTED = 1,   /* it is one of the calls that can fail */
    CONTEXT = 2,   /* wants a current context */
    ALLOCATES = 4, /* fails with CUDA_ERROR_OUT_OF_MEMORY, and is not for a capture */
    WORK = 8,      /* returns what was raised */
    OUTSIDE = 16,  /* is not for a capture */
    ORDERS = 32    /* what comes after it may rely on it for an order */
};

/* Locks, always. The result is what the call returns, when it is not 0. call: its name. */
CUresult driver_enter(const char *call, unsigned flags);
CUresult driver_leave(CUresult result); /* unlocks; returns result */
context *driver_context(void);          /* the current one; NULL: none */
/* For calls that waited: the error that reports raise. */
CUresult driver_raise(void);
__attribute__((format(printf, 1, 2))) void driver_report(const char *format, ...);
uint64_t driver_draw(uint64_t below); /* 0 … below - 1 */

/* --- races.c: who touches what, in which order --- */

typedef struct {
    sc_standin_range range;
    int chain;
    uint32_t index; /* in its chain, from 1 */
    const char *what;
} touch;

typedef struct {
    touch *items;
    size_t count, room;
} touch_list;

void clock_merge(vector_clock *into, const vector_clock *other);
bool ranges_overlap(const sc_standin_range *a, const sc_standin_range *b);
/* Reports what races with now, whose clock it is, and keeps it for those that come later. host:
 * what comes before all that follows; NULL: nothing. */
void races_add(touch_list *list, const touch *now, const vector_clock *clock,
               const vector_clock *host);
/* An access that the host has not waited for; NULL: none. */
const touch *races_unfinished(const touch_list *list);

/* --- schedule.c: what runs when --- */

typedef enum { NOTHING, COPY, SET, KERNEL, CALL } work_kind;

/* One operation; COPY goes from range[1] to range[0], of the same width and height. */
typedef struct {
    work_kind kind;
    const char *what; /* in reports, constant */
    sc_standin_range range[SC_STANDIN_RANGES];
    int ranges;
    unsigned char value;
    CUfunction kernel;
    unsigned grid[3], block[3];
    unsigned long long shared, words[SC_HOST_WORDS];
    int word_count;
    sc_standin_work_fn *call;
    _Alignas(16) unsigned char args[SC_STANDIN_ARGS];
} work;

/* An operation that is queued. A reference is that of a finished one when the serials differ. */
typedef struct op op;
typedef struct {
    op *op;
    uint64_t serial;
} op_ref;

op *schedule_add(const work *what, uint64_t priority); /* waits for schedule_go */
void schedule_after(op *later, op_ref earlier);
op_ref schedule_go(op *added);
void schedule_wait(op_ref awaited); /* runs operations until that one is done */
void schedule_drain(void);          /* all */
void schedule_reset(void);

/* --- memory.c --- */

/* Reports and returns false for one that is not in a live allocation. */
bool memory_check(const sc_standin_range *range, const char *what);
bool memory_holds(const sc_standin_range *range);
/* What a program that has touched the address has touched. */
void memory_describe(CUdeviceptr at, char *text, size_t bytes);
bool memory_on_device(CUdeviceptr at); /* true too where there is nothing */
/* Its allocation's touches; NULL: no allocation. */
touch_list *memory_touches(CUdeviceptr at);
void memory_reset(void);

/* --- streams.c, graphs.c --- */

enum {
    STREAM = 0x53747265,
    EVENT = 0x4576656e,
    GRAPH = 0x47726170,
    EXEC = 0x45786563,
    MODULE = 0x4d6f6475,
    FUNCTION = 0x46756e63
};

typedef struct object object;
/* What every handle begins with. */
struct object {
    uint32_t magic; /* 0: destroyed */
    context *owner;
    object *next;
    void (*drop)(object *self); /* frees what it holds; NULL: nothing */
};

/* Zeroed, in the list of all; NULL: no memory. */
void *object_create(uint32_t magic, size_t bytes, void (*drop)(object *self));
void object_destroy(object *self); /* a handle to it is none from now on */
void objects_reset(void);
/* CUDA_ERROR_INVALID_HANDLE: none, or of another context. */
CUresult object_check(const void *handle, uint32_t magic);

typedef struct capture capture;

struct CUstream_st {
    object object;
    int chain;
    op_ref last;
    vector_clock clock;
    uint64_t priority;
    capture *capture;      /* that it takes part in; NULL: none */
    int node;              /* its last one there; -1: none */
    vector_clock captured; /* clock of the capture */
};

/* Puts work on the stream, or into the capture it takes part in. */
CUresult stream_put(CUstream stream, const work *what);
/* Checks the ranges, of an operation with that clock; makes it NOTHING when memory is not there. */
void stream_check(CUstream stream, work *what, const vector_clock *clock);
/* All streams are idle, and the host knows. */
void streams_known(void);
void streams_reset(void);
CUstream stream_of_chain(int chain); /* NULL: none */

/* The calling thread's calls that are not for a capture invalidate those that forbid them. */
CUresult capture_forbid(void);
/* A call on a stream that captures, which no capture takes: invalidates it. */
CUresult capture_forbid_on(CUstream stream);
CUresult capture_put(CUstream stream, const work *what);
CUresult capture_record(CUstream stream, CUevent event);
CUresult capture_wait(CUstream stream, CUevent event);
void capture_leave(CUstream stream); /* it is destroyed */
void captures_reset(void);

struct CUevent_st {
    object object;
    bool recorded;
    op_ref last;
    vector_clock clock;
    uint64_t capture; /* id of the capture that recorded it; 0: none */
    int node;
};

/* --- module.c --- */

int function_run(CUfunction kernel, const work *what, uint64_t seed, char *report, size_t bytes);
const char *function_name(CUfunction kernel);

#endif
