/*
 * template.h - the template language: a C file with few holes, and the values that fill them.
 *
 * A template chooses and repeats, it never computes:
 *   {{name}}                 the value
 *   {{#list}}...{{/list}}    once per item of the list; with a flag, an if
 *   {{^list}}...{{/list}}    when the list has no item
 *   {{> ops/norm.c}}         the part templates/ops/norm.c, with the values in force here
 *   {{! why}}                a note, which leaves nothing behind
 * A note, a part or a section tag alone on its line swallows the line; a part keeps the indentation
 * it has in its own file. Everything else is copied byte by byte.
 *
 * Strict  An unknown name, an open section, a stray close or a tag that is none of the above is
 *         SC_EINPUT, "templates/cache.c:9:12: {{slots}}: no such value (...)". The branch not taken
 *         is only checked for its nesting.
 * Memory  Values live in the run's pool. Rendered text is the caller's, to free().
 */
#ifndef SC_TEMPLATE_H
#define SC_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "pool.h"

/* The files of templates/ and runtime/, compiled into the program (codegen/embed.c makes the
 * table), so that it needs no install path. Sorted by path; a NUL follows each file's size bytes.
 */
struct sc_embedded {
    const char *path; /* "templates/model.c", "runtime/error.h" */
    const unsigned char *bytes;
    size_t size;
};
extern const struct sc_embedded sc_embedded[];
extern const int sc_embedded_count;
/* Of this program's own sources: another one may emit something else from the same files. */
extern const unsigned long long sc_sources_sum;

/* The embedded file of that path. SC_EINPUT when there is none; outputs untouched. */
int sc_template_source(const unsigned char **bytes, size_t *size, const char *path, sc_error *err);

/* One scope of names. A name is a value or a list, never both. */
typedef struct sc_values sc_values;

/* An empty outermost scope, in the pool; NULL when no memory is left. */
sc_values *sc_values_make(sc_pool *pool);

/*
 * Give a name its text, which is copied. A second call replaces the first.
 * SC_EENV    no memory is left.
 * SC_ESTATE  the scope has a list of that name.
 */
int sc_values_set(sc_values *values, const char *name, const char *text);
int sc_values_int(sc_values *values, const char *name, long long number);

/* A C literal of type float: the fewest digits that read back as the same float, whole numbers
 * below 1e7 without an exponent; the locale plays no part. 1e-06f, 0.125f, 10000.0f, INFINITY, NAN.
 */
enum { SC_FLOAT_LITERAL = 64 };
const char *sc_float_literal(char text[SC_FLOAT_LITERAL], float number);
int sc_values_float(sc_values *values, const char *name, float number);

/* Appends an item to a list, which comes into being with its first one. A name that the item does
 * not have is looked up in values. NULL when no memory is left or name is a value. */
sc_values *sc_values_add(sc_values *values, const char *list);

/* A list of one empty item, or of none: what {{#name}} and {{^name}} choose by. A false flag is
 * also how a list without items is declared. Same failures as sc_values_set. */
int sc_values_flag(sc_values *values, const char *name, bool flag);

/* The first name that no rendering has used so far, NULL when all were. Items of one list count
 * together: a name used in one of them is used. For tests. */
const char *sc_values_unused(const sc_values *values);

/* Where a rendering comes from, piece by piece. */
typedef struct {
    size_t at;        /* byte of the rendered text that the piece begins at */
    const char *file; /* "templates/cuda/norm.cu" */
    int line;         /* of the piece's first byte there */
    bool value;       /* text of a {{name}}: all of it comes from that line */
} sc_template_piece;

typedef struct {
    sc_template_piece *piece; /* in rising order; the caller frees it */
    int count, room;
} sc_template_map;

/*
 * Renders the template templates/FILE into a NUL-terminated *text of *bytes bytes, the caller's.
 * map: zeros that get the pieces of the text, on failure too; NULL: nobody asks.
 * SC_EINPUT  the template is unknown or wrong (see Strict).
 * SC_EENV    no memory is left.
 */
int sc_template_render(char **text, size_t *bytes, sc_template_map *map, const char *file,
                       const sc_values *values, sc_error *err);

/* The same for a source at hand; name is what messages and pieces call it. Parts are the embedded
 * ones. */
int sc_template_render_text(char **text, size_t *bytes, sc_template_map *map, const char *name,
                            const char *source, const sc_values *values, sc_error *err);

/* The file and, in *template_line, its line that a line (1 …) of the rendered text begins on. NULL:
 * the map is empty, and *template_line untouched. */
const char *sc_template_origin(int *template_line, const sc_template_map *map, const char *text,
                               int line);

#endif
