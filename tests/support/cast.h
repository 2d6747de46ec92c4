/*
 * cast.h - castings of a cache alone, for tests that call their public API.
 *
 * A shape becomes a cache specification, the command exports it, the casting's own Makefile builds
 * its library, with the sanitizers of this program, and dlopen hands it over.
 * Folders are build/test-castings/cache-SHAPE, made anew once in a run of the tests.
 */
#ifndef SC_TEST_CAST_H
#define SC_TEST_CAST_H

#include <stddef.h>
#include <stdint.h>

#include "../../runtime/casting.h"

enum { CAST_DIM = 2, CAST_LAYERS = 8 }; /* head_dim; the most layers */

typedef struct {
    char types[CAST_LAYERS + 1]; /* a letter per layer: s sliding, c chunked, f full, m moe */
    int window, max_cache_len;
    int batch, heads;
} cast_shape;

/* The casting of that shape; lives as long as the process. Fails the test. */
const sc_casting *cast_make(const cast_shape *shape);

/* The same of a specification; options are the command's. Its folder is spec-NAME. */
const sc_casting *cast_spec(const char *name, const char *json, const char *options);

/* Its folder, valid until the next call. */
const char *cast_folder(const cast_shape *shape);

/* Flags for a casting's make, so that it has the sanitizers of this program. */
extern const char *const cast_make_flags;

/* Those of them alone that name the sanitizers. */
extern const char *const cast_sanitize;

/* min(window, max_cache_len), or max_cache_len. */
int cast_slots(const cast_shape *shape, int layer);

/* Floats of K (or V) of one layer for that many tokens. */
size_t cast_floats(const cast_shape *shape, int64_t tokens);

/* All that a caller can ask of a cache but the file, as bytes (the caller frees): lengths, mask
 * sizes, stored rows and, with visible, what the last updates returned. */
char *cast_state(const cast_shape *shape, const sc_cache *cache, int visible, size_t *bytes);

/* The same of any casting, whatever its layers keep, row by row: states and indexer keys too. */
char *cast_seen(const sc_casting *casting, const sc_cache *cache, size_t *bytes);

/* Bytes of an element as callers pass it: "float32", "bfloat16", "float16". */
size_t cast_element(const char *dtype);

/* A file whole (the caller frees), or a file of these bytes. */
char *cast_file(const char *path, size_t *bytes);
void cast_write(const char *path, const char *data, size_t bytes);

#endif
