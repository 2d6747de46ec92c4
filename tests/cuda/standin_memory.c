/* standin_memory.c - the device's memory and pinned memory: pages of this process, watched. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin_own.h"

enum { BLOCKS = 4096, FRESH = 0xff }; /* FRESH: NaN as float, bfloat16 and float16 */

static struct {
    unsigned char *at; /* what the caller has; pages around it are nobody's */
    size_t bytes, mapped;
    bool pinned, live;
} blocks[BLOCKS];
static int count;

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* The block ends, to 256 bytes, where its pages do. */
static int allocate(unsigned char **at, size_t bytes, bool pinned) {
    const size_t whole = (bytes + 255) / 256 * 256, pages = (whole + page() - 1) / page() * page();
    if (!bytes || count == BLOCKS)
        return bytes ? ERROR_OUT_OF_MEMORY : ERROR_INVALID_VALUE;
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += blocks[i].live && !blocks[i].pinned ? blocks[i].bytes : 0;
    if (!pinned && bytes > standin_settings.memory - used)
        return ERROR_OUT_OF_MEMORY;
    unsigned char *base =
        mmap(NULL, pages + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page(), pages, PROT_READ | PROT_WRITE))
        return ERROR_OUT_OF_MEMORY;
    *at = base + page() + (pages - whole);
    memset(*at, FRESH, whole);
    blocks[count].at = *at;
    blocks[count].bytes = bytes;
    blocks[count].mapped = pages;
    blocks[count].pinned = pinned;
    blocks[count++].live = true;
    used += pinned ? 0 : bytes;
    standin_log.peak = used > standin_log.peak ? used : standin_log.peak;
    return SUCCESS;
}

static int find(const void *at, bool live_only) {
    for (int i = count - 1; i >= 0; i--)
        if ((const unsigned char *)at >= blocks[i].at &&
            (const unsigned char *)at < blocks[i].at + blocks[i].bytes &&
            (blocks[i].live || !live_only))
            return i;
    return -1;
}

/* Its pages stay, so that whoever still uses them is stopped. */
static int release(const void *at, bool pinned) {
    const int i = find(at, true);
    if (i < 0 || blocks[i].at != at || blocks[i].pinned != pinned)
        return ERROR_INVALID_VALUE;
    standin_run_until(NULL); /* the driver waits too */
    blocks[i].live = false;
    mprotect((void *)((uintptr_t)at / page() * page()), blocks[i].mapped, PROT_NONE);
    return SUCCESS;
}

void standin_drop_memory(void) {
    for (int i = 0; i < count; i++) {
        unsigned char *first = (unsigned char *)((uintptr_t)blocks[i].at / page() * page());
        munmap(first - page(), blocks[i].mapped + 2 * page());
    }
    count = 0;
}

bool standin_check(const span *s, const char *what) {
    const size_t reach = s->rows ? (s->rows - 1) * s->step + s->bytes : 0;
    const int i = find(s->at, false);
    if (i >= 0 && blocks[i].live && reach <= (size_t)(blocks[i].at + blocks[i].bytes - s->at))
        return true;
    sc_standin_mistake("a copy of %zu bytes: what it is %s, %p, is %s", reach, what, (void *)s->at,
                       i < 0             ? "neither the device's nor pinned"
                       : !blocks[i].live ? "freed"
                                         : "shorter than that");
    return false;
}

API int sc_standin_owns(const void *at, size_t bytes) {
    const int i = find(at, true);
    return i >= 0 && !blocks[i].pinned &&
           bytes <= (size_t)(blocks[i].at + blocks[i].bytes - (const unsigned char *)at);
}

API CUresult cuMemAlloc_v2(CUdeviceptr *device, size_t bytes) {
    const int rc = standin_enter(true, ERROR_OUT_OF_MEMORY);
    unsigned char *at;
    if (rc)
        return rc;
    for (CUstream s = standin_streams; s; s = s->next)
        if (s->capture)
            return ERROR_CAPTURE_UNSUPPORTED;
    const int made = allocate(&at, bytes, false);
    if (!made) {
        *device = (CUdeviceptr)(uintptr_t)at;
        standin_log.allocations++;
    }
    return made;
}

API CUresult cuMemFree_v2(CUdeviceptr device) {
    const int rc = release((void *)(uintptr_t)device, false);
    standin_log.allocations -= !rc;
    return rc;
}

API CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
    (void)flags;
    const int rc = standin_enter(true, ERROR_OUT_OF_MEMORY);
    unsigned char *at;
    if (rc)
        return rc;
    const int made = allocate(&at, bytes, true);
    if (!made) {
        *host = at;
        standin_log.pinned++;
    }
    return made;
}

API CUresult cuMemFreeHost(void *host) {
    const int rc = release(host, true);
    standin_log.pinned -= !rc;
    return rc;
}

API CUresult cuMemGetInfo_v2(size_t *left, size_t *whole) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc)
        return rc;
    *left = *whole = standin_settings.memory;
    for (int i = 0; i < count; i++)
        *left -= blocks[i].live && !blocks[i].pinned ? blocks[i].bytes : 0;
    return SUCCESS;
}

/* MEMORY_TYPE alone; asked of every caller's pointer, so not one of those that fail. */
API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr at) {
    const int i = find((void *)(uintptr_t)at, true);
    if (attribute != 2 || i < 0)
        return ERROR_INVALID_VALUE;
    *(unsigned *)value = blocks[i].pinned ? 1 : 2;
    return SUCCESS;
}

/* ---- copies ---- */

static unsigned char *pointer(CUdeviceptr p) { return (unsigned char *)(uintptr_t)p; }

static int copy(span to, span from, CUstream stream) {
    const work w = { .kind = OP_COPY, .to = to, .from = from };
    const size_t reach = (to.rows - 1) * to.step + to.bytes,
                 other = (from.rows - 1) * from.step + from.bytes;
    if (!stream || to.step < to.bytes || from.step < from.bytes)
        return ERROR_INVALID_VALUE;
    if (to.at < from.at + other && from.at < to.at + reach)
        sc_standin_mistake("a copy of %zu bytes onto itself", reach);
    if (!standin_check(&to, "to") || !standin_check(&from, "from"))
        return SUCCESS; /* the next one that waits will hear of it */
    return standin_submit(stream, &w);
}

API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc || !bytes)
        return rc;
    return copy((span){ pointer(to), bytes, bytes, 1 }, (span){ pointer(from), bytes, bytes, 1 },
                stream);
}

API CUresult cuMemcpy2DAsync_v2(const sc_copy_2d *c, CUstream stream) {
    enum { UNIFIED = 4 };
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc)
        return rc;
    if (c->srcMemoryType != UNIFIED || c->dstMemoryType != UNIFIED || c->srcXInBytes || c->srcY ||
        c->dstXInBytes || c->dstY)
        return ERROR_INVALID_VALUE;
    if (!c->WidthInBytes || !c->Height)
        return SUCCESS;
    return copy((span){ pointer(c->dstDevice), c->WidthInBytes, c->dstPitch, c->Height },
                (span){ pointer(c->srcDevice), c->WidthInBytes, c->srcPitch, c->Height }, stream);
}

API CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char byte, size_t bytes, CUstream stream) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    if (rc)
        return rc;
    const work w = { .kind = OP_FILL, .to = { pointer(at), bytes, bytes, 1 }, .byte = byte };
    if (!stream || !sc_standin_owns(pointer(at), bytes))
        return ERROR_INVALID_VALUE;
    return standin_submit(stream, &w);
}
