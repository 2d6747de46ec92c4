/* schedule.c - see driver.h: operations as a graph, of which any that is ready may run next. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { PIECE_BYTES = 4096, PIECES_MAX = 4, BLOCK = 256, PRIORITY_TURNS = 16 };

struct op {
    uint64_t serial; /* 0: free */
    uint64_t priority;
    work work;
    unsigned waits;       /* for so many others, and for schedule_go */
    unsigned pieces, ran; /* ran: a bit for each */
    op **next;            /* those that wait for it */
    size_t nexts, next_room;
    op *free; /* the next free one */
};

static struct {
    uint64_t serials;
    size_t pending;
    op **ready;
    size_t ready_count, ready_room;
    op *free;
    op **blocks; /* of BLOCK operations each, kept for the next */
    size_t block_count;
} queue;

static void *grow(void *array, size_t *room, size_t item) {
    const size_t wanted = *room ? 2 * *room : 16;
    void *larger = realloc(array, wanted * item);
    if (!larger)
        abort(); /* a test that has no memory has no result */
    *room = wanted;
    return larger;
}

static op *take_free(void) {
    if (!queue.free) {
        op *block = calloc(BLOCK, sizeof *block);
        op **blocks = realloc(queue.blocks, (queue.block_count + 1) * sizeof *blocks);
        if (!block || !blocks)
            abort();
        queue.blocks = blocks;
        queue.blocks[queue.block_count++] = block;
        for (int i = BLOCK - 1; i >= 0; i--) {
            block[i].free = queue.free;
            queue.free = &block[i];
        }
    }
    op *o = queue.free;
    queue.free = o->free;
    return o;
}

static unsigned count_pieces(const work *w) {
    const size_t bytes = w->range[0].width * w->range[0].height;
    if ((w->kind != COPY && w->kind != SET) || bytes <= PIECE_BYTES || !driver.settings.seed)
        return 1;
    return 2 + (unsigned)driver_draw(PIECES_MAX - 1);
}

op *schedule_add(const work *what, uint64_t priority) {
    op *o = take_free();
    o->serial = ++queue.serials;
    o->priority = priority;
    o->work = *what;
    o->waits = 1;
    o->pieces = count_pieces(what);
    o->ran = 0;
    o->nexts = 0;
    queue.pending++;
    return o;
}

static bool is_pending(op_ref ref) { return ref.op && ref.op->serial == ref.serial; }

void schedule_after(op *later, op_ref earlier) {
    if (!is_pending(earlier))
        return;
    op *o = earlier.op;
    if (o->nexts == o->next_room)
        o->next = grow(o->next, &o->next_room, sizeof *o->next);
    o->next[o->nexts++] = later;
    later->waits++;
}

/* One wait less for it, and when it is done, for those behind it: what does nothing is done at
 * once. The list of those to look at runs through `free`, which a pending one has no use for. */
static void release(op *o) {
    o->free = NULL;
    while (o) {
        op *rest = o->free;
        if (--o->waits) {
            o = rest;
            continue;
        }
        if (o->work.kind == NOTHING) {
            for (size_t i = 0; i < o->nexts; i++) {
                /* One that waits twice for the same is not listed twice at once. */
                if (o->next[i]->waits > 1) {
                    o->next[i]->waits--;
                    continue;
                }
                o->next[i]->free = rest;
                rest = o->next[i];
            }
            o->serial = 0;
            o->free = queue.free;
            queue.free = o;
            queue.pending--;
        } else {
            if (queue.ready_count == queue.ready_room)
                queue.ready = grow(queue.ready, &queue.ready_room, sizeof(op *));
            queue.ready[queue.ready_count++] = o;
        }
        o = rest;
    }
}

op_ref schedule_go(op *added) {
    const op_ref ref = { added, added->serial };
    release(added);
    return ref;
}

/* --- running --- */

/* Bytes from … to of a copy or set, counted row by row. */
static void run_bytes(const work *w, size_t from, size_t to) {
    const sc_standin_range *out = &w->range[0], *in = &w->range[1];
    for (size_t at = from; at < to;) {
        const size_t row = at / out->width, column = at % out->width;
        const size_t left = out->width - column, n = left < to - at ? left : to - at;
        unsigned char *there = (unsigned char *)(uintptr_t)out->at + row * out->pitch + column;
        if (w->kind == SET)
            memset(there, w->value, n);
        else
            memcpy(there, (unsigned char *)(uintptr_t)in->at + row * in->pitch + column, n);
        at += n;
    }
}

static void run_piece(op *o) {
    const size_t bytes = o->work.range[0].width * o->work.range[0].height;
    unsigned piece = 0, skip = 0;
    for (unsigned i = 0; i < o->pieces; i++)
        skip += !(o->ran >> i & 1);
    skip = o->pieces > 1 ? (unsigned)driver_draw(skip) : 0;
    while ((o->ran >> piece & 1) || skip--)
        piece++;
    run_bytes(&o->work, bytes / o->pieces * piece,
              piece + 1 == o->pieces ? bytes : bytes / o->pieces * (piece + 1));
    o->ran |= 1u << piece;
}

static void run_kernel(const op *o) {
    char report[512] = "";
    const uint64_t seed = driver.settings.seed ? 1 + driver_draw(UINT32_MAX) : 0;
    if (function_run(o->work.kernel, &o->work, seed, report, sizeof report))
        driver_report("%s: %s", function_name(o->work.kernel), report);
    driver.log.launches++;
}

/* Whether the operation is done. */
static bool run_some(op *o) {
    if (o->work.kind == KERNEL) {
        run_kernel(o);
        return true;
    }
    if (o->work.kind == CALL) {
        o->work.call(o->work.args);
        return true;
    }
    run_piece(o);
    if (o->ran != (1u << o->pieces) - 1)
        return false;
    driver.log.copies++;
    return true;
}

/* Uniformly, or by priority, so that some streams starve while others run ahead; in the order of
 * the calls when there is no seed. */
static size_t pick(bool by_priority) {
    size_t best = 0;
    if (driver.settings.seed && !by_priority)
        return (size_t)driver_draw(queue.ready_count);
    for (size_t i = 1; i < queue.ready_count; i++) {
        const op *a = queue.ready[i], *b = queue.ready[best];
        const bool first = a->serial < b->serial;
        if (driver.settings.seed && a->priority != b->priority ? a->priority > b->priority : first)
            best = i;
    }
    return best;
}

static void step(bool by_priority) {
    assert(queue.ready_count);
    const size_t at = pick(by_priority);
    op *o = queue.ready[at];
    if (!run_some(o))
        return;
    queue.ready[at] = queue.ready[--queue.ready_count];
    o->work.kind = NOTHING;
    o->waits = 1;
    release(o);
}

static void run_while(op_ref awaited, bool all) {
    while (all ? queue.pending > 0 : is_pending(awaited)) {
        const bool by_priority = driver.settings.seed && driver_draw(2);
        for (int turn = 0; turn < PRIORITY_TURNS; turn++)
            if (all ? queue.pending > 0 : is_pending(awaited))
                step(by_priority);
    }
}

void schedule_wait(op_ref awaited) { run_while(awaited, false); }

void schedule_drain(void) { run_while((op_ref){ NULL, 0 }, true); }

/* Forgets what has not run. Serials go on, so that no old reference is valid again. */
void schedule_reset(void) {
    for (size_t i = 0; i < queue.block_count; i++) {
        for (int j = 0; j < BLOCK; j++)
            free(queue.blocks[i][j].next);
        free(queue.blocks[i]);
    }
    free(queue.blocks);
    free(queue.ready);
    const uint64_t serials = queue.serials;
    memset(&queue, 0, sizeof queue);
    queue.serials = serials;
}
