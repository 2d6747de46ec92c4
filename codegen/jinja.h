/*
 * jinja.h - chat templates: the subset of Jinja that published ones use, with no access to
 * anything.
 *
 * A template sees the values it is given and nothing else: no files, no environment, no attribute
 * that is not a key of a value; the clock alone through strftime_now. It changes nothing but its
 * own variables and namespaces. docs/chat.md lists the subset; what is beyond it is refused by its
 * name when the template is read, and by its line.
 *
 * Set up as transformers does it: trim_blocks and lstrip_blocks on, break and continue, generation
 * tags that pass through, tojson without ASCII escapes, a missing name prints as nothing.
 *
 * Bounds   1 MiB of template, nesting 100 deep; a rendering makes at most 5 million steps (work
 * that grows with the data counts as more), 64 MiB of values and 16 MiB of text, 1000 nested
 *          evaluations. Numbers have 64 bits.
 * Source   the Jinja documentation, 3.1; Python's str, repr and number rules;
 *          transformers, utils/chat_template_utils.py.
 */
#ifndef SC_JINJA_H
#define SC_JINJA_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <time.h>

#include "pool.h"

typedef struct sc_jinja sc_jinja;

/*
 * Reads a template (UTF-8, no NUL); it lives in the pool and does not need text afterwards. name is
 * for messages and stays the caller's: "name:line: reason". SC_EINPUT: no template, or beyond the
 * subset; SC_EENV: no memory.
 */
int sc_jinja_read(const sc_jinja **made, sc_pool *pool, const char *name, const char *text,
                  size_t bytes, sc_error *err);

/*
 * The text that it makes of values, an object whose members are the template's variables (UTF-8;
 * numbers without a fraction are integers there). *text is malloc'd, a NUL behind its *bytes. now
 * is what strftime_now shows, in local time. SC_EINPUT: a value is no UTF-8, or the template asks
 * for what is not there, calls raise_exception, or goes over a bound; SC_EENV: no memory.
 */
int sc_jinja_render(char **text, size_t *bytes, const sc_jinja *template, const cJSON *values,
                    time_t now, sc_error *err);

#endif
