/*
 * host.h - CUDA's built-ins on the CPU, so that a .cu file compiles for the host.
 *
 * It is included by force, before the file itself, and host.cc is built along with it:
 *
 *     g++ -std=gnu++17 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wno-unknown-pragmas \
 *         -DSLIPCAST_HOST_KERNELS -include tests/cuda/host.h -x c++ FILE.cu tests/cuda/host.cc
 *
 * Every CUDA thread is a fiber. It runs until it waits: at a barrier, at a warp operation, or at
 * its end. So between two waits nothing interleaves; what depends on the order of threads is found
 * by another order (launch.h: seed), and races for shared memory by their marks (sc_shadow).
 *
 * Here is what kernels may use, no more: what is missing does not compile.
 *
 * Source  CUDA C++ Programming Guide, "C++ Language Extensions": synchronisation, votes, shuffles.
 *         PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
 */
#ifndef SC_TEST_HOST_H
#define SC_TEST_HOST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../runtime/half.h"
#include "launch.h"

#pragma GCC visibility push(hidden)

/* Qualifiers. Threads of a block share memory behind the compiler's back, so __restrict__ must
 * promise nothing here: a value could else be kept over a barrier. */
#define __global__ __attribute__((visibility("default")))
#define __device__ __attribute__((unused))
#define __constant__ __attribute__((unused))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#undef __restrict__
#define __restrict__
#define DEVICE_TABLE static const __attribute__((unused))

struct sc_index {
    unsigned x, y, z;
};

/* The running thread; it changes wherever a thread waits. id = x + (y + z * height) * width. */
struct sc_thread {
    sc_index index;
    unsigned id;
};
extern const sc_thread *sc_self;
extern sc_index sc_block, sc_block_size, sc_grid_size;

#define threadIdx (sc_self->index)
#define blockIdx sc_block
#define blockDim sc_block_size
#define gridDim sc_grid_size

/* Ends the launch with a report: where the running thread is, then the text. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void sc_fault(const char *format, ...);

/* The operations of a warp. All lanes of the mask come to the same one, then it happens. */
enum sc_operation { SC_SYNC, SC_SHUFFLE, SC_BALLOT, SC_ANY, SC_ALL, SC_MMA_BF16, SC_MMA_F16 };

/* What a lane brings to an operation, and what it takes away. */
struct sc_lane {
    unsigned long long value; /* shuffle: its value, then that of the source; vote: likewise */
    unsigned source;          /* shuffle: the lane to take from */
    float *d;                 /* mma: its fragments */
    const unsigned *a, *b;
};

/* Waits for the other threads of the block, of the warp. line: of the source, for reports. */
void sc_barrier(int line);
void sc_warp(sc_operation operation, unsigned mask, sc_lane *lane, int line);

/* --- barriers, votes, shuffles --- */

static inline void __syncthreads(int line = __builtin_LINE()) { sc_barrier(line); }

static inline void __syncwarp(unsigned mask = 0xffffffff, int line = __builtin_LINE()) {
    sc_lane lane = {};
    sc_warp(SC_SYNC, mask, &lane, line);
}

static inline unsigned sc_vote(sc_operation operation, unsigned mask, int predicate, int line) {
    sc_lane lane = {};
    lane.value = predicate != 0;
    sc_warp(operation, mask, &lane, line);
    return (unsigned)lane.value;
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return sc_vote(SC_BALLOT, mask, predicate, line);
}

static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return (int)sc_vote(SC_ANY, mask, predicate, line);
}

static inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return (int)sc_vote(SC_ALL, mask, predicate, line);
}

/* A warp is cut into parts of width lanes; a lane whose source lies outside its part, above it for
 * xor, keeps its own value. */
static inline unsigned sc_part(int width) { return sc_self->id % 32 & ~((unsigned)width - 1); }

static inline unsigned sc_source(unsigned source, int width) {
    const unsigned part = sc_part(width);
    return part | (source & ((unsigned)width - 1));
}

static inline unsigned sc_source_up(unsigned delta, int width) {
    const unsigned lane = sc_self->id % 32;
    return lane - sc_part(width) < delta ? lane : lane - delta;
}

static inline unsigned sc_source_down(unsigned delta, int width) {
    const unsigned lane = sc_self->id % 32, left = sc_part(width) + (unsigned)width - 1 - lane;
    return delta > left ? lane : lane + delta;
}

static inline unsigned sc_source_xor(unsigned mask, int width) {
    const unsigned lane = sc_self->id % 32, last = sc_part(width) + (unsigned)width - 1;
    return (lane ^ mask) > last ? lane : lane ^ mask;
}

#define SC_SHUFFLES(type)                                                                          \
    static inline type sc_shuffle(unsigned mask, type value, unsigned source, int line) {          \
        sc_lane lane = {};                                                                         \
        memcpy(&lane.value, &value, sizeof value);                                                 \
        lane.source = source;                                                                      \
        sc_warp(SC_SHUFFLE, mask, &lane, line);                                                    \
        memcpy(&value, &lane.value, sizeof value);                                                 \
        return value;                                                                              \
    }                                                                                              \
    static inline type __shfl_sync(unsigned mask, type value, int source, int width = 32,          \
                                   int line = __builtin_LINE()) {                                  \
        return sc_shuffle(mask, value, sc_source((unsigned)source, width), line);                  \
    }                                                                                              \
    static inline type __shfl_up_sync(unsigned mask, type value, unsigned delta, int width = 32,   \
                                      int line = __builtin_LINE()) {                               \
        return sc_shuffle(mask, value, sc_source_up(delta, width), line);                          \
    }                                                                                              \
    static inline type __shfl_down_sync(unsigned mask, type value, unsigned delta, int width = 32, \
                                        int line = __builtin_LINE()) {                             \
        return sc_shuffle(mask, value, sc_source_down(delta, width), line);                        \
    }                                                                                              \
    static inline type __shfl_xor_sync(unsigned mask, type value, int bits, int width = 32,        \
                                       int line = __builtin_LINE()) {                              \
        return sc_shuffle(mask, value, sc_source_xor((unsigned)bits, width), line);                \
    }
SC_SHUFFLES(int)
SC_SHUFFLES(unsigned)
SC_SHUFFLES(float)
SC_SHUFFLES(long long)
SC_SHUFFLES(unsigned long long)
#undef SC_SHUFFLES

/* --- atomics and fences: fibers of one thread need no more --- */

static inline int atomicAdd(int *at, int value) {
    const int old = *at;
    *at = (int)((unsigned)old + (unsigned)value);
    return old;
}

static inline unsigned atomicAdd(unsigned *at, unsigned value) {
    const unsigned old = *at;
    *at = old + value;
    return old;
}

static inline float atomicAdd(float *at, float value) {
    const float old = *at;
    *at = old + value;
    return old;
}

/* Counts up to last, then starts again at 0. */
static inline unsigned atomicInc(unsigned *at, unsigned last) {
    const unsigned old = *at;
    *at = old >= last ? 0 : old + 1;
    return old;
}

static inline void __threadfence(void) {}

/* What this block is to the counter: the number of blocks that came before it. One thread calls. */
static inline unsigned block_arrive(unsigned *counter) { return atomicAdd(counter, 1u); }

/* --- numbers --- */

static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
static inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }

static inline unsigned short half_from_float(float x) { return sc_to_f16(x); }
static inline float float_from_half(unsigned short x) { return sc_from_f16(x); }
static inline unsigned short bf16_from_float(float x) { return sc_to_bf16(x); }
static inline float float_from_bf16(unsigned short x) { return sc_from_bf16(x); }

/* --- 16 bytes at once; load16 is for what no kernel writes --- */

typedef struct {
    unsigned x, y, z, w;
} words4;

static inline void sc_aligned(const void *at, const char *what, int line) {
    if ((uintptr_t)at % 16)
        sc_fault("line %d: %s: address ends in %x, it must be a multiple of 16", line, what,
                 (unsigned)((uintptr_t)at % 16));
}

static inline words4 load16(const void *from, int line = __builtin_LINE()) {
    words4 v;
    sc_aligned(from, "load16", line);
    memcpy(&v, from, sizeof v);
    return v;
}

static inline words4 load16_cached(const void *from, int line = __builtin_LINE()) {
    words4 v;
    sc_aligned(from, "load16_cached", line);
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store16(void *to, words4 v, int line = __builtin_LINE()) {
    sc_aligned(to, "store16", line);
    memcpy(to, &v, sizeof v);
}

/* --- d[16, 8] += a[16, 16] * b[16, 8] over a warp, in float32 --- */

static inline void mma_bf16(float d[4], const unsigned a[4], const unsigned b[2],
                            int line = __builtin_LINE()) {
    sc_lane lane = {};
    lane.d = d, lane.a = a, lane.b = b;
    sc_warp(SC_MMA_BF16, 0xffffffff, &lane, line);
}

static inline void mma_f16(float d[4], const unsigned a[4], const unsigned b[2],
                           int line = __builtin_LINE()) {
    sc_lane lane = {};
    lane.d = d, lane.a = a, lane.b = b;
    sc_warp(SC_MMA_F16, 0xffffffff, &lane, line);
}

/* --- shared memory --- */

/*
 * Who last touched an element, and when. Times count the barriers and warp operations of all blocks
 * so far, from 1; they never go back, so what an earlier block wrote shows by its time alone.
 */
struct sc_shadow {
    unsigned written;      /* when; 0: never */
    unsigned added;        /* when it was added to, by whomever; 0: never */
    unsigned read;         /* the latest read since then; 0: none */
    unsigned lanes;        /* that read it since then */
    unsigned short writer; /* thread */
    unsigned short warp;   /* of those lanes, or SC_WARPS for several */
};
enum { SC_WARPS = SC_HOST_THREADS / 32 };

extern unsigned sc_now;          /* the time */
extern unsigned sc_block_start;  /* when this block began */
extern unsigned sc_last_barrier; /* when all threads of the block last met */

/* What every array has, whatever its type. */
struct sc_array {
    const char *name;
    sc_shadow *shadow;
    unsigned count, element_bytes;
    unsigned entered; /* the block that has been here last, by its start */
    unsigned cleared; /* the round of times that its shadow is of */
};

/* The first thread of a block that passes a declaration counts its bytes. */
void sc_enter(sc_array *array);

/* A race is none when the two threads have met since: finds out, and ends the launch if not. */
void sc_check_written(const sc_array *array, long long i, const char *what);
void sc_check_read(const sc_array *array, long long i);
[[noreturn]] void sc_fault_added(const sc_array *array, long long i, const char *what);

static inline void sc_bounds(const sc_array *array, long long i) {
    if (i < 0 || i >= (long long)array->count)
        sc_fault("%s[%lld]: out of bounds, it has %u elements", array->name, i, array->count);
}

static inline void sc_note_read(const sc_array *array, long long i) {
    sc_bounds(array, i);
    sc_shadow *s = &array->shadow[i];
    if (s->written < sc_block_start)
        sc_fault("%s[%lld]: read before it was written", array->name, i);
    if (s->added >= sc_last_barrier)
        sc_fault_added(array, i, "read");
    if (s->written >= sc_last_barrier && s->writer != sc_self->id)
        sc_check_written(array, i, "read");
    const unsigned short warp = (unsigned short)(sc_self->id / 32);
    if (s->read < sc_last_barrier) {
        s->lanes = 0;
        s->warp = warp;
    } else if (s->warp != warp) {
        s->warp = SC_WARPS;
    }
    s->lanes |= 1u << sc_self->id % 32;
    s->read = sc_now;
}

/* Threads may write the same value at once: it is then defined who wins. */
static inline void sc_note_write(const sc_array *array, long long i, int same) {
    sc_bounds(array, i);
    sc_shadow *s = &array->shadow[i];
    if (s->added >= sc_last_barrier)
        sc_fault_added(array, i, "written");
    if (s->written >= sc_last_barrier && s->writer != sc_self->id && !same)
        sc_check_written(array, i, "written");
    if (s->read >= sc_last_barrier)
        sc_check_read(array, i);
    s->written = sc_now;
    s->read = 0;
    s->writer = (unsigned short)sc_self->id;
}

/* Threads may add to an element side by side; what it becomes is there behind a barrier. */
static inline void sc_note_add(const sc_array *array, long long i) {
    sc_bounds(array, i);
    sc_shadow *s = &array->shadow[i];
    if (s->written < sc_block_start)
        sc_fault("%s[%lld]: added to before it was written", array->name, i);
    if (s->written >= sc_last_barrier && s->writer != sc_self->id)
        sc_check_written(array, i, "added to");
    if (s->read >= sc_last_barrier)
        sc_check_read(array, i);
    s->added = sc_now;
}

template <class type> struct sc_shared;

/* name[i], as something to read or to write. */
template <class type> struct sc_element {
    const sc_shared<type> *array;
    long long i;

    operator type() const {
        sc_note_read(array, i);
        return array->data[i];
    }
    type operator=(type value) const {
        sc_bounds(array, i);
        sc_note_write(array, i, !memcmp(&array->data[i], &value, sizeof value));
        return array->data[i] = value;
    }
    type operator=(const sc_element &other) const { return *this = (type)other; }
    type operator+=(type value) const { return *this = (type)(*this + value); }
    type operator-=(type value) const { return *this = (type)(*this - value); }
    type operator*=(type value) const { return *this = (type)(*this * value); }

    sc_element(const sc_shared<type> *of, long long at) : array(of), i(at) {}
    sc_element(const sc_element &) = default;
};

template <class type> struct sc_shared : sc_array {
    type *data;

    sc_element<type> operator[](long long i) const { return sc_element<type>(this, i); }
};

/* name[i] += value, whoever else adds. */
static inline void shared_add(const sc_shared<int> &array, long long i, int value) {
    sc_note_add(&array, i);
    array.data[i] += value;
}

/* Inside a kernel or a function that it calls. A function takes one as SHARED_OF(type) name. */
#define SHARED_OF(type) const sc_shared<type> &
#define SHARED(type, name, count)                                                                  \
    static type name##_data[count];                                                                \
    static sc_shadow name##_shadow[count];                                                         \
    static sc_shared<type> name = { { #name, name##_shadow, (count), sizeof(type), 0, 0 },         \
                                    name##_data };                                                 \
    sc_enter(&name)

#pragma GCC visibility pop

#endif
