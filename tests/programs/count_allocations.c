/*
 * count_allocations.c - what a casting allocates, over an allocator that counts.
 *
 *     count LIBRARY [WEIGHTS]
 *
 * prints the allocations of create (and open), and those of all calls after it. The allocator takes
 * the place of libc's for the whole process, libraries included; nothing is given back.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../runtime/casting.h"

enum { HEAP = 1 << 28, FLOATS = 1 << 18, TOKENS = 1 << 10 };

static _Alignas(64) unsigned char heap[HEAP]; /* zeros until it is handed out */
static _Atomic size_t used;
static _Atomic int calls;

/* The size lies in front of the block. */
static void *take(size_t alignment, size_t bytes) {
    size_t at = atomic_load(&used), from;
    calls++;
    do {
        from = (at + sizeof bytes + alignment - 1) / alignment * alignment;
        if (bytes > HEAP || from > HEAP - bytes)
            return NULL;
    } while (!atomic_compare_exchange_weak(&used, &at, from + bytes));
    memcpy(heap + from - sizeof bytes, &bytes, sizeof bytes);
    return heap + from;
}

void *malloc(size_t bytes) { return take(16, bytes); }

void *calloc(size_t count, size_t bytes) {
    return bytes && count > HEAP / bytes ? NULL : take(16, count * bytes);
}

void *realloc(void *old, size_t bytes) {
    size_t had = 0;
    void *block = take(16, bytes);
    if (old)
        memcpy(&had, (unsigned char *)old - sizeof had, sizeof had);
    if (block && had)
        memcpy(block, old, had < bytes ? had : bytes);
    return block;
}

void free(void *block) { (void)block; }

void *aligned_alloc(size_t alignment, size_t bytes) { return take(alignment, bytes); }

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = take(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    calls++;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

static float keys[FLOATS], values[FLOATS], logits[FLOATS];
static int64_t padding[TOKENS];
static int32_t rows[TOKENS], tokens[TOKENS];

#define TRY(call)                                                                                  \
    do {                                                                                           \
        sc_error err = { 0 };                                                                      \
        if ((call) < 0) {                                                                          \
            fprintf(stderr, "%s: %s\n", #call, err.message);                                       \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

/* Every call on every layer; n tokens, then 2 n, so that a ring wraps and evicts. */
static int use_cache(const sc_casting *c, sc_cache *cache, int n) {
    int64_t length, offset;
    TRY(c->cache_pad(cache, padding, &err));
    for (int layer = 0; layer < c->layers; layer++) {
        TRY(c->cache_prefetch(cache, layer, &err));
        TRY(c->cache_mask_sizes(cache, layer, n, &length, &offset, &err));
        TRY(c->cache_update(cache, layer, keys, values, n, &err));
        TRY(c->cache_visible(cache, layer, keys, values, &length, &err));
        TRY(c->cache_read(cache, layer, keys, values, &err));
        TRY(c->cache_offload(cache, layer, &err));
        TRY((int)c->cache_seq_length(cache, layer));
        TRY((int)c->cache_max_length(cache, layer));
    }
    TRY(c->cache_crop(cache, -1, &err));
    TRY(c->cache_reorder(cache, rows, &err));
    for (int layer = 0; layer < c->layers; layer++) {
        TRY(c->cache_update(cache, layer, keys, values, 2 * n, &err));
        TRY(c->cache_visible(cache, layer, keys, values, &length, &err));
        TRY(c->cache_read(cache, layer, keys, values, &err));
    }
    TRY(c->cache_reset(cache, &err));
    return 0;
}

/* A prompt in two pieces, all logits, then tokens one by one until the cache is full. */
static int use_model(const sc_casting *c, sc_model *model, sc_cache *cache, int n) {
    TRY(c->model_forward(model, cache, tokens, 2 * n, logits, 0, &err));
    TRY(c->model_forward(model, cache, tokens, n, logits, 1, &err));
    for (int i = 3 * n; i < c->max_cache_len; i++)
        TRY(c->model_forward(model, cache, tokens, 1, logits, 0, &err));
    TRY(c->cache_reset(cache, &err));
    return 0;
}

int main(int argc, char **argv) {
    const sc_options options = { .threads = 2 };
    sc_cache *cache = NULL;
    sc_model *model = NULL;
    const sc_casting *(*get)(void) = NULL;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library)
        *(void **)&get = dlsym(library, "slipcast_casting");
    if (!get)
        return 2;
    const sc_casting *c = get();
    const int n = c->max_cache_len / 4;
    calls = 0;
    TRY(c->cache_create(&cache, &err));
    if (argc > 2)
        TRY(c->model_open(&model, argv[2], &options, &err));
    const int creation = calls;
    calls = 0;
    if (use_cache(c, cache, n) || (model && use_model(c, model, cache, n)))
        return 1;
    const int later = calls;
    printf("%d %d\n", creation, later);
    if (model)
        c->model_close(model);
    c->cache_destroy(cache);
    return 0;
}
