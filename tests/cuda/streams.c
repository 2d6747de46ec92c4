/* streams.c - see driver.h: queues, events, copies and sets. */
#include <string.h>

#include "driver.h"

enum { NON_BLOCKING = 1, EVENT_FLAGS = 7, PRIORITY_KEPT = 8 };

static CUstream chains[CHAINS]; /* the live ones, by chain */
static op_ref ended[CHAINS];    /* what the chain's last stream left behind */

static void drop_stream(object *self) {
    CUstream s = (CUstream)self;
    capture_leave(s);
    chains[s->chain] = NULL;
}

CUstream stream_of_chain(int chain) { return chains[chain]; }

/* A chain goes on counting where the stream before it stopped, and after its work; so one that was
 * used little is better. */
static int choose_chain(void) {
    int best = -1;
    for (int i = 0; i < CHAINS; i++)
        if (!chains[i] && (best < 0 || driver.clocks[i].at[i] < driver.clocks[best].at[best]))
            best = i;
    return best;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    const int chain = choose_chain();
    if (!result && (!out || flags > NON_BLOCKING))
        result = CUDA_ERROR_INVALID_VALUE;
    CUstream s = NULL;
    if (!result)
        s = chain < 0 ? NULL : object_create(STREAM, sizeof *s, drop_stream);
    if (!result && !s)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        s->chain = chain;
        s->node = -1;
        s->last = ended[chain];
        s->priority = driver_draw(UINT32_MAX);
        s->clock = driver.clocks[chain];
        chains[chain] = s;
        *out = s;
    }
    return driver_leave(result);
}

/* What is queued still runs. */
CUresult cuStreamDestroy(CUstream s) {
    CUresult result = driver_enter(__func__, CONTEXT);
    if (!result)
        result = object_check(s, STREAM);
    if (!result) {
        ended[s->chain] = s->last;
        driver.clocks[s->chain] = s->clock;
        object_destroy(&s->object);
    }
    return driver_leave(result);
}

CUresult cuStreamSynchronize(CUstream s) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK | ORDERS);
    if (!result)
        result = object_check(s, STREAM);
    if (!result && s->capture)
        result = capture_forbid_on(s);
    if (!result) {
        schedule_wait(s->last);
        clock_merge(&driver.host, &s->clock);
        result = driver_raise();
    }
    return driver_leave(result);
}

void streams_known(void) {
    for (int i = 0; i < CHAINS; i++)
        clock_merge(&driver.host, chains[i] ? &chains[i]->clock : &driver.clocks[i]);
}

/* --- events --- */

CUresult cuEventCreate(CUevent *out, unsigned flags) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result && (!out || flags > EVENT_FLAGS))
        result = CUDA_ERROR_INVALID_VALUE;
    CUevent e = NULL;
    if (!result) {
        e = object_create(EVENT, sizeof *e, NULL);
        result = e ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result)
        *out = e;
    return driver_leave(result);
}

CUresult cuEventDestroy(CUevent e) {
    CUresult result = driver_enter(__func__, CONTEXT);
    if (!result)
        result = object_check(e, EVENT);
    if (!result)
        object_destroy(&e->object);
    return driver_leave(result);
}

CUresult cuEventRecord(CUevent e, CUstream s) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK | ORDERS);
    if (!result)
        result = object_check(e, EVENT);
    if (!result)
        result = object_check(s, STREAM);
    if (!result && s->capture) {
        result = capture_record(s, e);
    } else if (!result) {
        e->recorded = true;
        e->capture = 0;
        e->last = s->last;
        e->clock = s->clock;
    }
    return driver_leave(result);
}

/* Whether the calls from this place are to do nothing. */
static bool is_dropped(const void *site) {
    int at = 0;
    while (at < driver.log.wait_places && driver.sites[at] != site)
        at++;
    if (at == driver.log.wait_places && at < SITES_MAX)
        driver.sites[driver.log.wait_places++] = site;
    return at + 1 == driver.settings.drop_wait;
}

static uint64_t priority_of(CUstream s) {
    if (!driver_draw(PRIORITY_KEPT))
        s->priority = driver_draw(UINT32_MAX);
    return s->priority;
}

static void wait_for(CUstream s, const struct CUevent_st *e) {
    const work nothing = { .kind = NOTHING, .what = "cuStreamWaitEvent" };
    op *o = schedule_add(&nothing, s->priority);
    schedule_after(o, s->last);
    schedule_after(o, e->last);
    s->last = schedule_go(o);
    clock_merge(&s->clock, &e->clock);
}

__attribute__((noinline)) CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    const void *site = __builtin_return_address(0);
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK | ORDERS);
    if (!result)
        result = flags ? CUDA_ERROR_INVALID_VALUE : object_check(s, STREAM);
    if (!result)
        result = object_check(e, EVENT);
    if (result || is_dropped(site))
        return driver_leave(result);
    if (s->capture || e->capture)
        result = capture_wait(s, e);
    else if (e->recorded)
        wait_for(s, e);
    return driver_leave(result);
}

/* --- work --- */

/* What one operation writes it may read only as a whole, where it reads it. */
static void check_own(const work *w) {
    for (int i = 0; i < w->ranges; i++)
        for (int j = 0; j < w->ranges; j++) {
            const sc_standin_range *a = &w->range[i], *b = &w->range[j];
            const bool same = a->at == b->at && a->width == b->width && a->pitch == b->pitch &&
                              a->height == b->height && !b->writes;
            if (i != j && a->writes && !same && ranges_overlap(a, b))
                driver_report("%s: writes over what it reads", w->what);
        }
}

void stream_check(CUstream s, work *w, const vector_clock *clock) {
    if (w->kind == CALL)
        check_own(w);
    if (w->kind == KERNEL && object_check(w->kernel, FUNCTION)) {
        driver_report("%s: the kernel's module was unloaded", w->what);
        w->kind = NOTHING;
    }
    for (int i = 0; i < w->ranges; i++)
        if (!memory_check(&w->range[i], w->what))
            w->kind = NOTHING;
    for (int i = 0; i < w->ranges && w->kind != NOTHING; i++) {
        const touch now = { w->range[i], s->chain, clock->at[s->chain], w->what };
        races_add(memory_touches(now.range.at), &now, clock, &driver.host);
    }
}

CUresult stream_put(CUstream s, const work *what) {
    if (s->capture)
        return capture_put(s, what);
    work w = *what;
    clock_merge(&s->clock, &driver.host);
    s->clock.at[s->chain]++;
    stream_check(s, &w, &s->clock);
    op *o = schedule_add(&w, priority_of(s));
    schedule_after(o, s->last);
    s->last = schedule_go(o);
    return CUDA_SUCCESS;
}

/* A copy or a set, already entered. */
static CUresult put_bytes(CUstream s, work *w) {
    const CUresult result = object_check(s, STREAM);
    if (result || !w->range[0].width || !w->range[0].height)
        return result;
    if (w->kind == COPY && ranges_overlap(&w->range[0], &w->range[1])) {
        driver_report("%s: a copy onto itself", w->what);
        return CUDA_SUCCESS;
    }
    return stream_put(s, w);
}

static sc_standin_range row(CUdeviceptr at, size_t bytes, int writes) {
    return (sc_standin_range){ at, bytes, bytes, 1, writes };
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result && bytes && (!to || !from))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        work w = { .kind = COPY,
                   .what = "cuMemcpyAsync",
                   .range = { row(to, bytes, 1), row(from, bytes, 0) },
                   .ranges = 2 };
        result = put_bytes(s, &w);
    }
    return driver_leave(result);
}

CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream s) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result && bytes && (!at || !memory_on_device(at)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        work w = { .kind = SET,
                   .what = "cuMemsetD8Async",
                   .range = { row(at, bytes, 1) },
                   .ranges = 1,
                   .value = value };
        result = put_bytes(s, &w);
    }
    return driver_leave(result);
}

/* One side of a copy. Nonzero: no such memory type, or a pitch that no device takes. */
static CUresult side(sc_standin_range *range, int type, const void *host, CUdeviceptr device,
                     size_t x, size_t y, size_t pitch, const sc_copy_2d *copy, int writes) {
    enum { HOST = 1, DEVICE = 2, UNIFIED = 4 };
    const size_t pitch_max = 0x7fffffff;
    if (type != HOST && type != DEVICE && type != UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    const CUdeviceptr base = type == HOST ? (uintptr_t)host : device;
    if (!base || pitch > pitch_max || x > pitch || copy->WidthInBytes > pitch - x ||
        copy->Height > SIZE_MAX / 2 / pitch - y)
        return CUDA_ERROR_INVALID_VALUE;
    *range =
        (sc_standin_range){ base + y * pitch + x, copy->WidthInBytes, pitch, copy->Height, writes };
    return CUDA_SUCCESS;
}

CUresult cuMemcpy2DAsync(const sc_copy_2d *c, CUstream s) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    work w = { .kind = COPY, .what = "cuMemcpy2DAsync", .ranges = 2 };
    if (!result && !c)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (!c->WidthInBytes || !c->Height))
        return driver_leave(object_check(s, STREAM));
    if (!result)
        result = side(&w.range[0], c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
                      c->dstY, c->dstPitch, c, 1);
    if (!result)
        result = side(&w.range[1], c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes,
                      c->srcY, c->srcPitch, c, 0);
    if (!result)
        result = put_bytes(s, &w);
    return driver_leave(result);
}

CUresult sc_standin_enqueue(CUstream s, sc_standin_work_fn *call, const void *args, size_t bytes,
                            const sc_standin_range *ranges, int count, const char *what) {
    CUresult result = driver_enter(__func__, CONTEXT | WORK);
    if (!result)
        result = object_check(s, STREAM);
    if (!result && (bytes > SC_STANDIN_ARGS || count > SC_STANDIN_RANGES))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        work w = { .kind = CALL, .what = what, .ranges = count, .call = call };
        memcpy(w.args, args, bytes);
        memcpy(w.range, ranges, (size_t)count * sizeof *ranges);
        result = stream_put(s, &w);
    }
    return driver_leave(result);
}

/* Clocks begin again with the host's. */
void streams_reset(void) {
    memset(chains, 0, sizeof chains);
    memset(ended, 0, sizeof ended);
}
