/*
 * pool.h - the memory of one run of the generator: taken piece by piece, dropped once.
 *
 * Stages never free. A failed allocation returns NULL; callers turn that into SC_EENV
 * with sc_oom.
 */
#ifndef SC_POOL_H
#define SC_POOL_H

#include <stddef.h>

#include "../runtime/error.h"

typedef struct sc_pool sc_pool;

sc_pool *sc_pool_create(void);
void sc_pool_destroy(sc_pool *pool);

/* Zeroed memory for count things of size bytes, 16-byte aligned; NULL when none is left or the
 * product overflows. Lives until the pool is destroyed. */
void *sc_pool_alloc(sc_pool *pool, size_t count, size_t size);
char *sc_pool_strdup(sc_pool *pool, const char *text);
__attribute__((format(printf, 2, 3))) char *sc_pool_printf(sc_pool *pool, const char *format, ...);

/* SC_EENV, "out of memory while WHAT". */
int sc_oom(sc_error *err, const char *what);

/* a * b into *product; SC_EINPUT (message names what) when a factor is negative or it overflows
 * int64_t. The one helper through which sizes from files are multiplied. */
int sc_mul(long long *product, long long a, long long b, const char *what, sc_error *err);

#endif
