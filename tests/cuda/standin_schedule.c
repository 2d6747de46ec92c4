/* standin_schedule.c - operations under way, in any order that their streams and events allow. */
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "standin_own.h"

enum { PIECE = 4096 }; /* of a copy: others may run between two */

static op *all;    /* every operation since reset */
static op **ready; /* those that wait for nothing */
static int readies, ready_room, pending;
static uint32_t host_clock[CHAINS], chain_clock[CHAINS];
static sc_host_launch_fn *launcher;

static void *grown(void *list, int count, int *room, size_t size) {
    if (count < *room)
        return list;
    *room = *room ? 2 * *room : 16;
    void *more = realloc(list, (size_t)*room * size);
    if (!more)
        abort();
    return more;
}

static void make_ready(op *o) {
    ready = grown(ready, readies, &ready_room, sizeof *ready);
    ready[readies++] = o;
}

/* ---- races of copies and fills ---- */

typedef struct {
    span span;
    bool writes;
    uint32_t clock;
    int chain;
} touched;

static touched *touches;
static int touch_count, touch_room;

static bool overlap(const span *a, const span *b) {
    if (!a->rows || !b->rows || a->at + (a->rows - 1) * a->step + a->bytes <= b->at ||
        b->at + (b->rows - 1) * b->step + b->bytes <= a->at)
        return false;
    for (size_t i = 0; i < a->rows; i++) { /* is a row of b's in this one? */
        const unsigned char *from = a->at + i * a->step, *to = from + a->bytes;
        if (to <= b->at)
            continue;
        const size_t first = b->rows > 1 && from > b->at ? (size_t)(from - b->at) / b->step : 0;
        for (size_t k = first; k < b->rows && k <= first + 1; k++)
            if (b->at + k * b->step < to && from < b->at + k * b->step + b->bytes)
                return true;
        if (b->rows > 1 && first == 0 && from < b->at && to > b->at)
            return true;
    }
    return false;
}

static void touch(const op *o, const span *s, bool writes) {
    if (!s->rows)
        return;
    int kept = 0;
    for (int i = 0; i < touch_count; i++) {
        const touched *t = &touches[i];
        if (host_clock[t->chain] >= t->clock)
            continue; /* somebody has waited for it */
        touches[kept++] = *t;
        if ((writes || t->writes) && o->clock[t->chain] < t->clock && overlap(s, &t->span))
            sc_standin_mistake("two copies of %zu and %zu bytes are not ordered and meet at %p",
                               s->bytes * s->rows, t->span.bytes * t->span.rows, (void *)s->at);
    }
    touch_count = kept;
    touches = grown(touches, touch_count, &touch_room, sizeof *touches);
    touches[touch_count++] = (touched){ *s, writes, o->clock[o->chain], o->chain };
}

/* ---- adding ---- */

op *standin_add_after(op **before, int befores, int chain, const work *w) {
    op *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->work = *w;
    o->chain = chain;
    memcpy(o->clock, host_clock, sizeof o->clock);
    for (int i = 0; i < befores; i++) {
        op *b = before[i];
        if (!b)
            continue;
        for (int k = 0; k < CHAINS; k++)
            o->clock[k] = b->clock[k] > o->clock[k] ? b->clock[k] : o->clock[k];
        if (b->done)
            continue;
        b->after = grown(b->after, b->afters, &b->room, sizeof(op *));
        b->after[b->afters++] = o;
        o->waiting++;
    }
    o->clock[chain] = ++chain_clock[chain];
    o->next = all;
    all = o;
    pending++;
    touch(o, &w->to, true);
    touch(o, &w->from, false);
    if (!o->waiting)
        make_ready(o);
    return o;
}

op *standin_add(CUstream stream, const work *w, op *also) {
    stream->last = standin_add_after((op *[]){ stream->last, also }, 2, stream->chain, w);
    return stream->last;
}

int standin_submit(CUstream stream, const work *w) {
    if (stream->capture)
        return standin_capture(stream, w, -1);
    standin_add(stream, w, NULL);
    return SUCCESS;
}

/* ---- running ---- */

/* The bytes done … of a copy, at most PIECE or all of a small one; false: there are more. */
static bool copy_piece(op *o) {
    const work *w = &o->work;
    const size_t bytes = w->to.bytes * w->to.rows;
    const size_t end =
        standin_settings.seed && bytes - o->copied > PIECE ? o->copied + PIECE : bytes;
    while (o->copied < end) {
        const size_t row = o->copied / w->to.bytes, at = o->copied % w->to.bytes;
        size_t n = w->to.bytes - at;
        n = n < end - o->copied ? n : end - o->copied;
        memmove(w->to.at + row * w->to.step + at, w->from.at + row * w->from.step + at, n);
        o->copied += n;
    }
    return o->copied == bytes;
}

static void launch(const work *w) {
    char report[512] = "";
    standin_log.launches++;
    if (!launcher)
        *(void **)&launcher = standin_library();
    if (!launcher)
        return;
    const unsigned long long seed =
        standin_settings.seed ? (unsigned long long)standin_random(1 << 30) + 1 : 0;
    if (launcher(w->function, w->grid, w->block, w->shared, (const unsigned long long *)w->words,
                 (int)w->count, seed, report, sizeof report))
        sc_standin_mistake("a kernel: %s", report);
}

static bool perform(op *o) {
    const work *w = &o->work;
    switch (w->kind) {
    case OP_NOTHING:
        break;
    case OP_COPY:
        if (!o->copied && !(standin_check(&w->to, "to") && standin_check(&w->from, "from")))
            break;
        if (!copy_piece(o))
            return false;
        standin_log.copies++;
        break;
    case OP_FILL:
        for (size_t i = 0; i < w->to.rows && standin_check(&w->to, "filled"); i++)
            memset(w->to.at + i * w->to.step, w->byte, w->to.bytes);
        break;
    case OP_KERNEL:
        launch(w);
        break;
    case OP_CALL:
        w->call(w->words);
        break;
    }
    return true;
}

void standin_run_until(op *wanted) {
    while (wanted ? !wanted->done : pending > 0) {
        if (!readies) {
            sc_standin_mistake("everything waits for something");
            return;
        }
        const int i = standin_settings.seed ? standin_random(readies) : 0;
        op *o = ready[i];
        if (!perform(o))
            continue;
        if (standin_settings.seed)
            ready[i] = ready[--readies];
        else
            memmove(ready, ready + 1, (size_t)--readies * sizeof *ready);
        o->done = true;
        pending--;
        for (int k = 0; k < o->afters; k++)
            if (!--o->after[k]->waiting)
                make_ready(o->after[k]);
    }
    for (int k = 0; k < CHAINS; k++) { /* the host has seen it */
        const uint32_t seen = wanted ? wanted->clock[k] : chain_clock[k];
        host_clock[k] = seen > host_clock[k] ? seen : host_clock[k];
    }
}

void standin_drop_ops(void) {
    for (op *o = all, *next; o; o = next) {
        next = o->next;
        free(o->after);
        free(o->work.words);
        free(o);
    }
    all = NULL;
    readies = pending = touch_count = 0;
    memset(host_clock, 0, sizeof host_clock);
    memset(chain_clock, 0, sizeof chain_clock);
    launcher = NULL;
}
