/* standin_own.h - what the files of the stand-in driver share. */
#ifndef SC_STANDIN_OWN_H
#define SC_STANDIN_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "../../runtime/cuda.h"
#include "standin.h"

#define API __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    ERROR_INVALID_VALUE = 1,
    ERROR_OUT_OF_MEMORY = 2,
    ERROR_NOT_INITIALIZED = 3,
    ERROR_NO_DEVICE = 100,
    ERROR_INVALID_DEVICE = 101,
    ERROR_INVALID_IMAGE = 200,
    ERROR_INVALID_CONTEXT = 201,
    ERROR_INVALID_HANDLE = 400,
    ERROR_NOT_FOUND = 500,
    ERROR_ILLEGAL_ADDRESS = 700,
    ERROR_CAPTURE_UNSUPPORTED = 900,
    ERROR_CAPTURE_INVALIDATED = 901,
    ERROR_CAPTURE_UNJOINED = 904,
    ERROR_CAPTURE_ISOLATION = 905,
    ERROR_UNKNOWN = 999
};

enum { CHAINS = 32 }; /* streams, and streams that a graph has captured */

/* What an operation touches: rows of bytes, step apart. rows 0: nothing that is known. */
typedef struct {
    unsigned char *at;
    size_t bytes, step, rows;
} span;

typedef enum { OP_NOTHING, OP_COPY, OP_FILL, OP_KERNEL, OP_CALL } op_kind;

/* What is to be done, wherever it was asked for: on a stream or in a graph. */
typedef struct {
    op_kind kind;
    span to, from;
    unsigned char byte;
    void *function;
    unsigned grid[3], block[3], shared;
    uint64_t *words; /* malloc's, or a call's data */
    size_t count;
    void (*call)(void *data);
} work;

/* The same in its place among others. */
typedef struct op {
    work work;
    struct op **after; /* those that wait for it */
    int afters, room, waiting;
    bool done;
    size_t copied; /* bytes of a copy so far */
    int chain;
    uint32_t clock[CHAINS]; /* of every chain what came before it */
    struct op *next;        /* of all */
} op;

typedef struct CUgraph_st graph;

struct CUstream_st {
    int chain;
    op *last;       /* NULL: nothing under way */
    graph *capture; /* NULL: none */
    int node;       /* the last of it on this stream */
    struct CUstream_st *next;
};

struct CUevent_st {
    op *op;
    graph *capture;
    int node;
    bool recorded;
};

typedef struct {
    work work;
    int *before, befores;
    int chain;
} node;

struct CUgraph_st {
    node *node;
    int nodes, room;
    bool broken;
    CUstream origin;
};

extern sc_standin_settings standin_settings;
extern sc_standin_log standin_log;
extern bool standin_broken; /* a mistake was made */

/* Begins every function that can fail: the code that it must return at once, or SUCCESS. */
int standin_enter(bool wants_context, int failure);

int standin_random(int below); /* 0 … below - 1 */

/* memory.c */
bool standin_check(const span *s, const char *what); /* a mistake when it is nobody's */
void standin_drop_memory(void);

/* schedule.c */
op *standin_add(CUstream stream, const work *w, op *also);
op *standin_add_after(op **before, int befores, int chain, const work *w);
void standin_run_until(op *wanted); /* NULL: everything */
void standin_drop_ops(void);
int standin_submit(CUstream stream, const work *w); /* to the stream or what it captures */

/* device.c: sc_host_launch of the library of kernels, NULL: there is none. */
void *standin_library(void);

/* graphs.c */
int standin_capture(CUstream stream, const work *w, int also);
extern CUstream standin_streams;

#endif
