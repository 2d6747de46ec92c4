/*
 * update.c - what one token costs a full cache layer: a ring, a full layer, a buffer that is
 * shifted.
 *
 * usage: update LIBRARY LAYER
 *
 * LIBRARY is a casting of a cache, LAYER one of its layers. Prints "update_ns shift_ns": the mean
 * time of NAME_cache_update with one token when the layer is full (a full layer: nearly), and of
 * what transformers' StaticSlidingWindowLayer does instead, moving the whole buffer of the same
 * size up by one row and writing the last. Medians of nine runs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../runtime/casting.h"

enum { RUNS = 9, UPDATES = 200, SHIFTS = 20 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *runs) {
    qsort(runs, RUNS, sizeof *runs, ascending);
    return runs[RUNS / 2];
}

int main(int argc, char **argv) {
    const sc_casting *(*get)(void) = NULL;
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library)
        *(void **)&get = dlsym(library, "slipcast_casting");
    if (!get) {
        fprintf(stderr, "usage: update LIBRARY LAYER\n");
        return 2;
    }
    const sc_casting *c = get();
    const int index = atoi(argv[2]);
    const sc_casting_layer *layer = &c->layer[index];
    const size_t rows = (size_t)(c->batch * layer->kv_heads), slots = (size_t)layer->slots;
    const size_t row = (size_t)layer->head_dim * sizeof(float), bytes = rows * slots * row;
    char *keys = calloc(1, bytes), *values = calloc(1, bytes);
    sc_cache *cache = NULL;
    sc_error err = { 0, "no memory" };
    double update[RUNS], shift[RUNS];
    int rc = keys && values ? c->cache_create(&cache, &err) : -1;
    /* A ring is full, and goes round; a full layer must have room for the updates. */
    const int ring = !strcmp(layer->layer_type, "sliding_attention");
    const int fill = (int)slots - (ring ? 0 : RUNS * UPDATES);
    if (!rc)
        rc = c->cache_reset(cache, &err); /* touches every page */
    if (!rc)
        rc = c->cache_update(cache, index, keys, values, fill, &err);
    for (int run = 0; run < RUNS && !rc; run++) {
        double begin = now_ns();
        for (int i = 0; i < UPDATES && !rc; i++)
            rc = c->cache_update(cache, index, keys, values, 1, &err);
        update[run] = (now_ns() - begin) / UPDATES;
        begin = now_ns();
        for (int i = 0; i < SHIFTS; i++)
            for (size_t r = 0; r < rows; r++) {
                memmove(keys + r * slots * row, keys + (r * slots + 1) * row, (slots - 1) * row);
                memmove(values + r * slots * row, values + (r * slots + 1) * row,
                        (slots - 1) * row);
            }
        shift[run] = (now_ns() - begin) / SHIFTS;
    }
    if (rc) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%.0f %.0f\n", median(update), median(shift));
    c->cache_destroy(cache);
    free(keys);
    free(values);
    return 0;
}
