/* pool.c - see pool.h. */
#include "pool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    struct block *next;
    size_t used, size;
    max_align_t data[];
} block;

struct sc_pool {
    block *head;
};

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

sc_pool *sc_pool_create(void) { return calloc(1, sizeof(sc_pool)); }

void sc_pool_destroy(sc_pool *pool) {
    if (!pool)
        return;
    for (block *b = pool->head; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(pool);
}

void *sc_pool_alloc(sc_pool *pool, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    block *b = pool->head;
    if (!b || b->size - b->used < bytes) {
        const size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = calloc(1, sizeof *b + room);
        if (!b)
            return NULL;
        b->size = room;
        b->next = pool->head;
        pool->head = b;
    }
    void *p = (char *)b->data + b->used;
    b->used += bytes;
    return p;
}

char *sc_pool_strdup(sc_pool *pool, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = sc_pool_alloc(pool, 1, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *sc_pool_printf(sc_pool *pool, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : sc_pool_alloc(pool, 1, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

int sc_oom(sc_error *err, const char *what) {
    return sc_fail(err, SC_EENV, "out of memory while %s", what);
}

int sc_mul(long long *product, long long a, long long b, const char *what, sc_error *err) {
    long long result;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result))
        return sc_fail(err, SC_EINPUT, "%s: %lld * %lld is no size (check the sizes in the file)",
                       what, a, b);
    *product = result;
    return SC_OK;
}
