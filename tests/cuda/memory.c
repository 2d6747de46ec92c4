/*
 * memory.c - see driver.h: allocations of the device and pinned ones.
 *
 * Each is a mapping of its own between two pages that nobody may touch. It lies at the mapping's
 * end, as far as its alignment of 256 bytes allows; what is left around it is checked by the free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

enum { ALIGN = 256, GRAVES = 1024, FILL = 0xff, TYPE_HOST = 1, TYPE_DEVICE = 2 };

typedef struct {
    unsigned char *at, *map; /* map: without the pages around it */
    size_t bytes, map_bytes;
    int type;
    context *owner;
    touch_list touches;
} allocation;

static struct {
    allocation **items; /* by address */
    size_t count, room;
    allocation graves[GRAVES]; /* freed, not to be touched; the oldest is given back */
    size_t buried;
} memory;

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* The first that begins behind the address. */
static size_t find_behind(CUdeviceptr at) {
    size_t low = 0, high = memory.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((uintptr_t)memory.items[middle]->at > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The live one that has the address; NULL: none. */
static allocation *find(CUdeviceptr at) {
    const size_t behind = find_behind(at);
    allocation *a = behind ? memory.items[behind - 1] : NULL;
    return a && at < (uintptr_t)a->at + a->bytes ? a : NULL;
}

static const allocation *find_grave(CUdeviceptr at) {
    for (size_t i = 0; i < GRAVES && i < memory.buried; i++) {
        const allocation *a = &memory.graves[i];
        if (at >= (uintptr_t)a->at && at < (uintptr_t)a->at + a->bytes)
            return a;
    }
    return NULL;
}

static bool map(allocation *a, size_t bytes) {
    const size_t page = page_bytes();
    if (bytes > SIZE_MAX / 4)
        return false;
    a->bytes = bytes;
    a->map_bytes = (bytes + page - 1) / page * page;
    unsigned char *all = mmap(NULL, a->map_bytes + 2 * page, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return false;
    a->map = all + page;
    if (mprotect(a->map, a->map_bytes, PROT_READ | PROT_WRITE)) {
        munmap(all, a->map_bytes + 2 * page);
        return false;
    }
    a->at = a->map + (a->map_bytes - (bytes + ALIGN - 1) / ALIGN * ALIGN);
    memset(a->map, FILL, a->map_bytes);
    return true;
}

static void unmap(const allocation *a) {
    munmap(a->map - page_bytes(), a->map_bytes + 2 * page_bytes());
}

static CUresult allocate(void **at, size_t bytes, int type) {
    allocation *a = calloc(1, sizeof *a);
    if (memory.count == memory.room) {
        const size_t room = memory.room ? 2 * memory.room : 64;
        allocation **items = realloc(memory.items, room * sizeof(allocation *));
        if (!items)
            abort();
        memory.items = items;
        memory.room = room;
    }
    if (!a || !map(a, bytes)) {
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->type = type;
    a->owner = driver_context();
    const size_t behind = find_behind((uintptr_t)a->at);
    memmove(memory.items + behind + 1, memory.items + behind,
            (memory.count++ - behind) * sizeof(allocation *));
    memory.items[behind] = a;
    *at = a->at;
    driver.log.allocated++;
    return CUDA_SUCCESS;
}

/* A device gives memory in units of its own. */
static size_t units(size_t bytes) { return (bytes + 511) / 512 * 512; }

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | ALLOCATES | WORK);
    context *current = driver_context();
    void *at = NULL;
    if (!result && (!out || !bytes))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result &&
        (bytes > driver.settings.memory || units(bytes) > driver.settings.memory - current->bytes))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = allocate(&at, bytes, TYPE_DEVICE);
    if (!result) {
        *out = (uintptr_t)at;
        current->bytes += units(bytes);
        driver.log.allocations++;
        driver.log.bytes += bytes;
        if (driver.log.bytes > driver.log.peak)
            driver.log.peak = driver.log.bytes;
    }
    return driver_leave(result);
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | ALLOCATES | WORK);
    if (!result && (!out || !bytes || flags > 7))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = allocate(out, bytes, TYPE_HOST);
    if (!result)
        driver.log.pinned++;
    return driver_leave(result);
}

CUresult cuMemGetInfo(size_t *left, size_t *all) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result && (!left || !all))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *all = driver.settings.memory;
        *left = driver.settings.memory - driver_context()->bytes;
    }
    return driver_leave(result);
}

/* --- the end of an allocation --- */

static bool is_filled(const unsigned char *from, const unsigned char *to) {
    while (from < to && *from == FILL)
        from++;
    return from == to;
}

static void bury(allocation *a) {
    allocation *grave = &memory.graves[memory.buried % GRAVES];
    if (memory.buried++ >= GRAVES)
        unmap(grave);
    madvise(a->map, a->map_bytes, MADV_DONTNEED);
    mprotect(a->map, a->map_bytes, PROT_NONE);
    free(a->touches.items);
    a->touches = (touch_list){ NULL, 0, 0 };
    *grave = *a;
    free(a);
}

/* All work is done first, and from then on the host knows it: the driver waits for the device. */
static CUresult release(CUdeviceptr at, int type, const char *call) {
    allocation *a = find(at);
    if (!a || (uintptr_t)a->at != at || a->type != type) {
        driver_report("%s: %s", call,
                      find_grave(at) ? "the memory was freed before" : "nothing begins there");
        return CUDA_ERROR_INVALID_VALUE;
    }
    const touch *user = type == TYPE_HOST ? races_unfinished(&a->touches) : NULL;
    if (user)
        driver_report("%s: the memory is in use: %s %s it, and nothing waited for that", call,
                      user->what, user->range.writes ? "writes" : "reads");
    schedule_drain();
    streams_known();
    if (!is_filled(a->map, a->at) || !is_filled(a->at + a->bytes, a->map + a->map_bytes))
        driver_report("%s: something wrote outside of these %zu bytes", call, a->bytes);
    const size_t behind = find_behind(at);
    memmove(memory.items + behind - 1, memory.items + behind,
            (memory.count-- - behind) * sizeof(allocation *));
    if (type == TYPE_DEVICE) {
        a->owner->bytes -= units(a->bytes);
        driver.log.bytes -= a->bytes;
        driver.log.allocations--;
    } else {
        driver.log.pinned--;
    }
    bury(a);
    return driver_raise();
}

CUresult cuMemFree(CUdeviceptr at) {
    CUresult result = driver_enter(__func__, CONTEXT | OUTSIDE);
    if (!result)
        result = release(at, TYPE_DEVICE, "cuMemFree");
    return driver_leave(result);
}

CUresult cuMemFreeHost(void *at) {
    CUresult result = driver_enter(__func__, CONTEXT | OUTSIDE);
    if (!result)
        result = release((uintptr_t)at, TYPE_HOST, "cuMemFreeHost");
    return driver_leave(result);
}

void memory_reset(void) {
    for (size_t i = 0; i < memory.count; i++) {
        unmap(memory.items[i]);
        free(memory.items[i]->touches.items);
        free(memory.items[i]);
    }
    for (size_t i = 0; i < GRAVES && i < memory.buried; i++)
        unmap(&memory.graves[i]);
    free(memory.items);
    memset(&memory, 0, sizeof memory);
}

/* --- questions --- */

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr at) {
    enum { MEMORY_TYPE = 2 };
    CUresult result = driver_enter(__func__, CONTEXT);
    const allocation *a = result ? NULL : find(at);
    if (!result && (!value || attribute != MEMORY_TYPE || !a))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *(unsigned *)value = (unsigned)a->type;
    return driver_leave(result);
}

/* Bytes from the first to the end of the last. */
static size_t extent(const sc_standin_range *r) { return (r->height - 1) * r->pitch + r->width; }

bool memory_holds(const sc_standin_range *r) {
    const allocation *a = find(r->at);
    return a && extent(r) <= (uintptr_t)a->at + a->bytes - r->at;
}

int sc_standin_holds(const sc_standin_range *range) {
    driver_enter(__func__, 0);
    const int holds = memory_holds(range);
    driver_leave(0);
    return holds;
}

bool memory_check(const sc_standin_range *r, const char *what) {
    const char *verb = r->writes ? "writes" : "reads";
    const allocation *a = find(r->at);
    if (a && memory_holds(r))
        return true;
    if (a)
        driver_report("%s %s bytes %zu to %zu of an allocation of %zu", what, verb,
                      (size_t)(r->at - (uintptr_t)a->at),
                      (size_t)(r->at - (uintptr_t)a->at) + extent(r), a->bytes);
    else
        driver_report("%s %s %zu bytes of memory that %s", what, verb, extent(r),
                      find_grave(r->at) ? "was freed" : "is neither the device's nor pinned");
    return false;
}

void memory_describe(CUdeviceptr at, char *text, size_t bytes) {
    const size_t behind = find_behind(at);
    const allocation *before = behind ? memory.items[behind - 1] : NULL;
    const allocation *grave = find_grave(at);
    if (grave)
        snprintf(text, bytes, "byte %zu of %zu that were freed",
                 (size_t)(at - (uintptr_t)grave->at), grave->bytes);
    else if (before && at - (uintptr_t)before->at < before->bytes + page_bytes())
        snprintf(text, bytes, "byte %zu of an allocation of %zu",
                 (size_t)(at - (uintptr_t)before->at), before->bytes);
    else
        snprintf(text, bytes, "memory that nobody allocated");
}

bool memory_on_device(CUdeviceptr at) {
    const allocation *a = find(at);
    return !a || a->type == TYPE_DEVICE;
}

touch_list *memory_touches(CUdeviceptr at) {
    allocation *a = find(at);
    return a ? &a->touches : NULL;
}
