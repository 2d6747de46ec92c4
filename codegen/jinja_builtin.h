/*
 * jinja_builtin.h - what a template finds under a fixed name: filters, tests, methods, functions.
 *
 * Each names its parameters in one string, "width first blank": arguments come in that order or by
 * name; one with a "!" behind it has to be there. What is not given is SC_J_UNSET. "*" takes
 * whatever comes, to be found in the arguments alone.
 */
#ifndef SC_JINJA_BUILTIN_H
#define SC_JINJA_BUILTIN_H

#include "jinja_syntax.h"

enum { SC_J_MOST_PARAMETERS = 4 };

typedef struct {
    int count;
    const char **name; /* those without one come first, theirs is NULL */
    sc_jvalue *value;
} sc_jarguments;

/* self is what a filter or test is given, what a method belongs to; of a function undefined. */
typedef sc_jvalue sc_jfunction(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument,
                               const sc_jarguments *all);

struct sc_jbuiltin {
    const char *name;
    const char *parameters;
    sc_jfunction *function;
};

typedef struct sc_jscope sc_jscope;

/* A builtin with what it belongs to, or a macro with where it was defined. */
struct sc_jcallable {
    const sc_jbuiltin *builtin; /* NULL: a macro */
    sc_jvalue self;
    const sc_jnode *macro;
    sc_jscope *scope;
};

/* Binds the arguments and calls. what is "the filter ", for messages. */
sc_jvalue sc_j_apply(sc_jrun *run, const char *what, const sc_jbuiltin *builtin, sc_jvalue self,
                     const sc_jarguments *arguments);

/* NULL: there is no such one. */
const sc_jbuiltin *sc_j_find_filter(const char *name);
const sc_jbuiltin *sc_j_find_test(const char *name);
const sc_jbuiltin *sc_j_find_function(const char *name);
const sc_jbuiltin *sc_j_find_in(const sc_jbuiltin *table, size_t count, const char *name);

/* Filters of sequences stand in a file of their own. */
const sc_jbuiltin *sc_j_find_sequence_filter(const char *name);

/* The method of such a value, bound to it; undefined when it has none of that name. What changes a
 * value is refused: values do not change. */
sc_jvalue sc_j_method(sc_jrun *run, sc_jvalue of, const char *name);

/* jinja_operate.c: operators and attributes. */
sc_jvalue sc_j_binary(sc_jrun *run, sc_jop op, sc_jvalue a, sc_jvalue b);
bool sc_j_compare(sc_jrun *run, sc_jop op, sc_jvalue a, sc_jvalue b);
sc_jvalue sc_j_negate(sc_jrun *run, sc_jvalue v);
bool sc_j_contains(sc_jrun *run, sc_jvalue all, sc_jvalue one);
/* of.name, a method before a key; of[key], a key before a method. Undefined when there is none. */
sc_jvalue sc_j_attribute(sc_jrun *run, sc_jvalue of, const char *name);
sc_jvalue sc_j_subscript(sc_jrun *run, sc_jvalue of, sc_jvalue key);
sc_jvalue sc_j_slice(sc_jrun *run, sc_jvalue of, sc_jvalue start, sc_jvalue stop, sc_jvalue step);
/* "a.b.0" step by step, as attribute= of filters takes it; or a number. */
sc_jvalue sc_j_path(sc_jrun *run, sc_jvalue of, sc_jvalue path);

/* What an argument has to be; fails the run, and says of what. */
sc_jvalue sc_j_want_string(sc_jrun *run, const char *what, sc_jvalue v);
int64_t sc_j_want_int(sc_jrun *run, const char *what, sc_jvalue v, int64_t unset);

/* jinja_eval.c. */
sc_jvalue sc_j_eval(sc_jrun *run, sc_jscope *scope, const sc_jnode *node);
sc_jarguments sc_j_arguments(sc_jrun *run, sc_jscope *scope, const sc_jnode *chain);
sc_jvalue sc_j_call(sc_jrun *run, sc_jvalue callee, const sc_jarguments *arguments);

/* jinja_run.c: variables, the innermost scope first. */
sc_jscope *sc_j_scope(sc_jrun *run, sc_jscope *parent);
const sc_jvalue *sc_j_variable(sc_jrun *run, const sc_jscope *scope, const char *name);
void sc_j_define(sc_jrun *run, sc_jscope *scope, const char *name, sc_jvalue value);
sc_jvalue sc_j_call_macro(sc_jrun *run, const sc_jcallable *macro, const sc_jarguments *arguments);

#endif
