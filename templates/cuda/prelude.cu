{{! prelude.cu - what device code stands on; tests/cuda/host.h has the same for the host. }}
#ifndef SLIPCAST_HOST_KERNELS
#pragma nv_diag_suppress 177 /* what a casting's dtypes do not need */
#define DEVICE_TABLE __device__ static const
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define SHARED_OF(type) type *

typedef struct __align__(16) {
    unsigned x, y, z, w;
} words4;

/* 16 aligned bytes that no kernel of this pass writes, each wanted once: weights. Volatile, so that
 * what is asked for before a barrier stays there. */
static __device__ __forceinline__ words4 load16(const void *p) {
    words4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

static __device__ __forceinline__ words4 load16_cached(const void *p) {
    return *(const words4 *)p;
}

{{#device_bf16}}
/* bfloat16, rounded to nearest even. */
static __device__ __forceinline__ unsigned short bf16_from_float(float x) {
    unsigned short half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

static __device__ __forceinline__ float float_from_bf16(unsigned short half) {
    return __uint_as_float((unsigned)half << 16);
}

{{/device_bf16}}
{{#device_f16}}
/* float16, rounded to nearest even. */
static __device__ __forceinline__ unsigned short half_from_float(float x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

static __device__ __forceinline__ float float_from_half(unsigned short half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

{{/device_f16}}
{{#device_mma}}
/*
 * d [16, 8] += a [16, 16] b [16, 8] by one warp. With g = lane / 4 and t = lane % 4 a lane has
 * d[0 … 3]: (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1)
 * a[0 … 3]: (g, 2t …) (g + 8, 2t …) (g, 2t + 8 …) (g + 8, 2t + 8 …), two side by side
 * b[0 … 1]: (2t …, g) (2t + 8 …, g), two one below the other
 * Source: PTX ISA, matrix fragments for mma.m16n8k16 with floating point type.
 */
{{#bf16_mma}}
static __device__ __forceinline__ void mma_bf16(float d[4], const unsigned a[4],
                                                const unsigned b[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

{{/bf16_mma}}
{{#f16_mma}}
static __device__ __forceinline__ void mma_f16(float d[4], const unsigned a[4],
                                               const unsigned b[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

{{/f16_mma}}
{{/device_mma}}
/* array[i] += value, whoever else adds. */
static __device__ __forceinline__ void shared_add(SHARED_OF(int) array, int i, int value) {
    atomicAdd(array + i, value);
}

/* How many blocks came to the counter before this one. One thread calls, behind a barrier: what its
 * block wrote before that is there for whoever comes later. */
static __device__ __forceinline__ unsigned block_arrive(unsigned *counter) {
    __threadfence();
    const unsigned before = atomicAdd(counter, 1u);
    __threadfence();
    return before;
}
#endif
