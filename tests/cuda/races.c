/* races.c - see driver.h: vector clocks, and accesses that nothing orders. */
#include <stdlib.h>

#include "driver.h"

void clock_merge(vector_clock *into, const vector_clock *other) {
    for (int i = 0; i < CHAINS; i++)
        if (other->at[i] > into->at[i])
            into->at[i] = other->at[i];
}

/* Rows that follow one another without a gap are one row. */
static sc_standin_range flatten(const sc_standin_range *range) {
    sc_standin_range r = *range;
    if (r.height == 1 || r.pitch == r.width) {
        r.width *= r.height;
        r.height = 1;
        r.pitch = r.width;
    }
    return r;
}

static CUdeviceptr end_of(const sc_standin_range *r) {
    return r->at + (r->height - 1) * r->pitch + r->width;
}

/* Whether some row of r has a byte of first … end - 1: row k covers from at + k * pitch on. */
static bool row_touches(const sc_standin_range *r, CUdeviceptr first, CUdeviceptr end) {
    if (end <= r->at || first >= end_of(r))
        return false;
    size_t last = (size_t)(end - 1 - r->at) / r->pitch; /* the last row that begins before end */
    if (last >= r->height)
        last = r->height - 1;
    return r->at + last * r->pitch + r->width > first;
}

bool ranges_overlap(const sc_standin_range *a, const sc_standin_range *b) {
    sc_standin_range few = flatten(a), many = flatten(b);
    if (few.at >= end_of(&many) || many.at >= end_of(&few))
        return false;
    if (few.height > many.height) {
        const sc_standin_range other = few;
        few = many;
        many = other;
    }
    for (size_t row = 0; row < few.height; row++) {
        const CUdeviceptr first = few.at + row * few.pitch;
        if (row_touches(&many, first, first + few.width))
            return true;
    }
    return false;
}

static bool covers(const sc_standin_range *larger, const sc_standin_range *smaller) {
    const sc_standin_range a = flatten(larger), b = flatten(smaller);
    if (a.height == 1)
        return a.at <= b.at && end_of(&b) <= end_of(&a);
    return a.at == b.at && a.width == b.width && a.pitch == b.pitch && a.height >= b.height;
}

static bool is_before(const touch *a, const vector_clock *clock) {
    return a->index <= clock->at[a->chain];
}

/*
 * What the host has waited for comes before all that is called from now on. An earlier access that
 * a later, ordered one covers, which writes if it wrote, is dropped too: what will race with it
 * races with the later one as well. So a list does not grow while the same places are used again.
 */
void races_add(touch_list *list, const touch *now, const vector_clock *clock,
               const vector_clock *host) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const touch *a = &list->items[i];
        const bool before = is_before(a, clock);
        if (!before && !driver.lost && (a->range.writes || now->range.writes) &&
            ranges_overlap(&a->range, &now->range))
            driver_report("%s %s what %s %s, and nothing orders them", now->what,
                          now->range.writes ? "writes" : "reads", a->what,
                          a->range.writes ? "writes" : "reads");
        if ((host && is_before(a, host)) ||
            (before && (now->range.writes || !a->range.writes) && covers(&now->range, &a->range)))
            continue;
        list->items[kept++] = *a;
    }
    list->count = kept;
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 16;
        touch *items = realloc(list->items, room * sizeof *items);
        if (!items)
            abort();
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = *now;
}

const touch *races_unfinished(const touch_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (!is_before(&list->items[i], &driver.host))
            return &list->items[i];
    return NULL;
}
