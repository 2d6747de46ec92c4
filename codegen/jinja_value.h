/*
 * jinja_value.h - what a template computes with, and the budget that it computes on.
 *
 * Values behave as Python's: true division, floor division and modulo, repr, chained comparison,
 * strings of code points (kept as UTF-8). They are passed by value and share what they point to;
 * nothing is changed once made but a namespace, a loop and a generator, which yields its items
 * once.
 *
 * Owner    everything lives in the run's pool and goes with it.
 * Failure  the first one stays in the run (rc, *err); whoever fails returns undefined and whoever
 *          loops looks at run->rc. Allocation returns NULL then.
 */
#ifndef SC_JINJA_VALUE_H
#define SC_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "pool.h"

typedef enum {
    SC_J_UNSET, /* an argument that was not given */
    SC_J_UNDEFINED,
    SC_J_NONE,
    SC_J_BOOL,
    SC_J_INT,
    SC_J_FLOAT,
    SC_J_STRING,
    SC_J_LIST,
    SC_J_DICT,
    SC_J_NAMESPACE,
    SC_J_LOOP,
    SC_J_CALLABLE
} sc_jtype;

/* What Python would have in a list's place. A view is what a dict's methods return; a generator is
 * true whatever it yields, has no length, and is empty once it was walked. */
typedef enum {
    SC_J_PLAIN,
    SC_J_TUPLE,
    SC_J_GENERATOR,
    SC_J_KEYS,
    SC_J_VALUES,
    SC_J_ITEMS
} sc_jkind;

typedef struct sc_jlist sc_jlist;
typedef struct sc_jdict sc_jdict;
typedef struct sc_jloop sc_jloop;
typedef struct sc_jcallable sc_jcallable;

typedef struct {
    sc_jtype type;
    union {
        bool truth;
        int64_t integer;
        double real;
        struct {
            const char *text; /* UTF-8; of undefined: its name, ended by NUL */
            size_t bytes;
        };
        sc_jlist *list;
        sc_jdict *dict; /* a namespace's members too */
        sc_jloop *loop;
        const sc_jcallable *callable;
    };
} sc_jvalue;

struct sc_jlist {
    sc_jkind kind;
    size_t count, room;
    sc_jvalue *item;
};

typedef struct {
    sc_jvalue key, value;
} sc_jpair;

struct sc_jdict { /* in order of insertion; keys are none, numbers or strings */
    size_t count, room;
    sc_jpair *pair;
};

struct sc_jloop {
    size_t index; /* from 0 */
    size_t count;
    const sc_jvalue *item;
    sc_jvalue changed; /* what changed() was last asked about, unset before */
};

typedef struct {
    char *bytes;
    size_t count, room;
} sc_jtext;

typedef struct {
    const char *name; /* the template's, for messages */
    int line;         /* what is being done stands there */
    sc_pool *pool;
    size_t bytes;  /* left to take */
    int64_t steps; /* left to make */
    int depth;     /* of evaluation */
    time_t now;
    int rc;
    sc_error *err;
    sc_jtext *out;      /* where output goes */
    const char *called; /* the builtin that runs, for messages */
    sc_jvalue input;    /* what a filter block, or a set block with filters, holds */
} sc_jrun;

enum { SC_J_MOST_DEPTH = 1000, SC_J_MOST_OUTPUT = 16 << 20 };

/* Fails the run, SC_EINPUT, "name:line: …"; undefined. */
__attribute__((format(printf, 2, 3))) sc_jvalue sc_j_fail(sc_jrun *run, const char *format, ...);
/* Counts work; false when there was a failure or no step is left. */
bool sc_j_step(sc_jrun *run, size_t work);
void *sc_j_alloc(sc_jrun *run, size_t count, size_t size);

/* Texts under construction. put fails the run past SC_J_MOST_OUTPUT. */
void sc_j_put(sc_jrun *run, sc_jtext *text, const char *bytes, size_t count);
void sc_j_puts(sc_jrun *run, sc_jtext *text, const char *string);
sc_jvalue sc_j_finish(const sc_jtext *text); /* as a string */

/* Making values. */
static inline sc_jvalue sc_j_none(void) { return (sc_jvalue){ .type = SC_J_NONE }; }
static inline sc_jvalue sc_j_bool(bool truth) {
    return (sc_jvalue){ .type = SC_J_BOOL, .truth = truth };
}
static inline sc_jvalue sc_j_int(int64_t integer) {
    return (sc_jvalue){ .type = SC_J_INT, .integer = integer };
}
static inline sc_jvalue sc_j_float(double real) {
    return (sc_jvalue){ .type = SC_J_FLOAT, .real = real };
}
static inline sc_jvalue sc_j_string(const char *text, size_t bytes) {
    return (sc_jvalue){ .type = SC_J_STRING, .text = text, .bytes = bytes };
}
/* name ends in NUL and lives as long as the run. */
static inline sc_jvalue sc_j_undefined(const char *name) {
    return (sc_jvalue){ .type = SC_J_UNDEFINED, .text = name };
}
sc_jvalue sc_j_list(sc_jrun *run, sc_jkind kind); /* empty */
sc_jvalue sc_j_dict(sc_jrun *run, sc_jtype type); /* empty; of type dict or namespace */
void sc_j_append(sc_jrun *run, sc_jvalue list, sc_jvalue item);
void sc_j_set(sc_jrun *run, sc_jvalue dict, sc_jvalue key, sc_jvalue value);
sc_jvalue sc_j_pair(sc_jrun *run, sc_jvalue first, sc_jvalue second); /* a tuple */

/* Looking at them. */
bool sc_j_is_string(sc_jvalue v, const char *text);
bool sc_j_truth(sc_jvalue v);
/* bool, int or float, as a double. */
bool sc_j_number(sc_jvalue v, double *number);
/* bool or int. */
bool sc_j_integer(sc_jvalue v, int64_t *integer);
/* What stands under key, NULL when there is nothing. */
const sc_jvalue *sc_j_find(sc_jrun *run, sc_jvalue dict, sc_jvalue key);
bool sc_j_equal(sc_jrun *run, sc_jvalue a, sc_jvalue b);
/* -1, 0, 1; fails the run where Python has no order. */
int sc_j_order(sc_jrun *run, sc_jvalue a, sc_jvalue b);
/* "str", "int", "dict" … as Python names them. */
const char *sc_j_type_name(sc_jvalue v);
/* The items that a walk over it meets: of a list, a dict's keys, a string's characters, none of
 * undefined. A generator is empty afterwards. Fails the run on anything else. */
bool sc_j_items(sc_jrun *run, sc_jvalue v, sc_jvalue **item, size_t *count);
/* len(), -1 and a failure where there is none. */
int64_t sc_j_length(sc_jrun *run, sc_jvalue v);

/* str() and repr(), jinja_text.c. A string is its own str(). */
sc_jvalue sc_j_str(sc_jrun *run, sc_jvalue v);
void sc_j_put_str(sc_jrun *run, sc_jtext *text, sc_jvalue v);
void sc_j_put_float(sc_jrun *run, sc_jtext *text, double real);

/* json.dumps, jinja_json.c: indent below 0 is none; fails the run on what JSON has not. */
typedef struct {
    sc_jvalue indent;    /* none, a number, or a string */
    sc_jvalue item, key; /* the separators, unset: the usual ones */
    bool ascii, sorted;
} sc_jdump;
sc_jvalue sc_j_dump(sc_jrun *run, sc_jvalue v, const sc_jdump *how);
struct cJSON;
sc_jvalue sc_j_load(sc_jrun *run, const struct cJSON *json);

#endif
