/*
 * jinja_syntax.h - a template as tokens, and as a tree.
 *
 * Source  the Jinja documentation, 3.1: "Whitespace Control", "Expressions", "List of Control
 *         Structures".
 */
#ifndef SC_JINJA_SYNTAX_H
#define SC_JINJA_SYNTAX_H

#include "jinja_value.h"

typedef enum {
    SC_J_END_OF_TEMPLATE,
    SC_J_DATA,      /* text between tags */
    SC_J_VAR_BEGIN, /* {{ */
    SC_J_VAR_END,
    SC_J_BLOCK_BEGIN, /* {% */
    SC_J_BLOCK_END,
    SC_J_NAME,
    SC_J_TEXT,   /* a string literal, its escapes undone */
    SC_J_NUMBER, /* text is the literal without underscores */
    SC_J_REAL,
    SC_J_OPERATOR /* text is + - ** == [ … */
} sc_jtoken_type;

typedef struct {
    sc_jtoken_type type;
    int line;
    const char *text; /* ended by NUL */
    size_t bytes;
} sc_jtoken;

/* All tokens, the last SC_J_END_OF_TEMPLATE, in the pool. text is UTF-8 without NUL. */
int sc_jinja_lex(const sc_jtoken **token, sc_pool *pool, const char *name, const char *text,
                 size_t bytes, sc_error *err);

/* What there is under a fixed name: filters, tests, methods, functions. */
typedef struct sc_jbuiltin sc_jbuiltin;

typedef enum {
    /* Expressions. a, b … are children; a chain is linked by next. */
    SC_J_CONST,    /* value */
    SC_J_NAMED,    /* text */
    SC_J_INPUT,    /* what stands before the first | of a block's filters */
    SC_J_NEW_LIST, /* a: chain */
    SC_J_NEW_TUPLE,
    SC_J_NEW_DICT, /* a: chain of key, value, key, … */
    SC_J_NOT,      /* a */
    SC_J_NEGATE,
    SC_J_PLUS,
    SC_J_AND, /* a, b */
    SC_J_OR,
    SC_J_BINARY,    /* op, a, b */
    SC_J_COMPARE,   /* a; b: chain of OPERAND */
    SC_J_OPERAND,   /* op, a */
    SC_J_CONCAT,    /* a: chain */
    SC_J_CHOICE,    /* a if b else c (NULL: undefined) */
    SC_J_ATTRIBUTE, /* a.text */
    SC_J_SUBSCRIPT, /* a[b] */
    SC_J_SLICE,     /* a[b:c:d], each of them or NULL */
    SC_J_CALL,      /* a(b: chain, with KEYWORD last) */
    SC_J_KEYWORD,   /* text=a */
    SC_J_FILTER,    /* a | builtin(b) */
    SC_J_TEST,      /* a is builtin(b) */
    /* Statements; bodies are chains. */
    SC_J_WRITE,        /* value, text between tags */
    SC_J_PRINT,        /* a */
    SC_J_IF,           /* a: condition, b: body, c: the else body; an elif is an IF alone there */
    SC_J_FOR,          /* a: target, b: iterable, c: condition or NULL, d: body, e: else body */
    SC_J_SET,          /* a: target, b: expression */
    SC_J_SET_BLOCK,    /* a: target, b: filters on INPUT, d: body */
    SC_J_MACRO,        /* text, a: chain of KEYWORD (its a: the default or NULL), d: body */
    SC_J_CALL_BLOCK,   /* b: the call, a and d: caller's parameters and body */
    SC_J_FILTER_BLOCK, /* b: filters on INPUT, d: body */
    SC_J_WITH,         /* a: chain of SET, d: body; also what only opens a scope */
    SC_J_BREAK,
    SC_J_CONTINUE
} sc_jnode_type;

typedef enum {
    SC_J_ADD,
    SC_J_SUBTRACT,
    SC_J_MULTIPLY,
    SC_J_DIVIDE,
    SC_J_FLOOR_DIVIDE,
    SC_J_MODULO,
    SC_J_POWER,
    SC_J_EQ,
    SC_J_NE,
    SC_J_LT,
    SC_J_LE,
    SC_J_GT,
    SC_J_GE,
    SC_J_IN,
    SC_J_NOT_IN
} sc_jop;

typedef struct sc_jnode sc_jnode;
struct sc_jnode {
    sc_jnode_type type;
    sc_jop op;
    int line;
    const char *text;
    sc_jvalue value;
    const sc_jbuiltin *builtin;
    sc_jnode *a, *b, *c, *d, *e, *next;
};

/* jinja_parse.c reads statements, jinja_expression.c what stands in them. */
typedef struct {
    const char *name;
    const sc_jtoken *token; /* the next one */
    sc_pool *pool;
    sc_error *err;
    int rc;
    int depth;          /* of nesting */
    int loops;          /* around, within the macro */
    int macros;         /* around */
    const char *opened; /* the innermost block's tag, for messages */
} sc_jparser;

enum { SC_J_MOST_NESTING = 100 };

/* Fails the parser (the first time), SC_EINPUT, "name:line: …"; NULL. */
__attribute__((format(printf, 2, 3))) sc_jnode *sc_j_refuse(sc_jparser *p, const char *format, ...);
sc_jnode *sc_j_node(sc_jparser *p, sc_jnode_type type);
/* Is the next token this? And if so, is it taken? */
bool sc_j_peek(const sc_jparser *p, sc_jtoken_type type, const char *text);
bool sc_j_take(sc_jparser *p, sc_jtoken_type type, const char *text);
/* It must be. */
void sc_j_expect(sc_jparser *p, sc_jtoken_type type, const char *text);
const char *sc_j_expect_name(sc_jparser *p);
bool sc_j_deeper(sc_jparser *p); /* false and a failure beyond SC_J_MOST_NESTING; then depth-- */

sc_jnode *sc_j_expression(sc_jparser *p);
/* a, b, … as a tuple, one alone as it is; plain: without `x if y`. */
sc_jnode *sc_j_tuple(sc_jparser *p, bool plain);
/* What may be set: names, a tuple of them, name.attribute. */
sc_jnode *sc_j_target(sc_jparser *p, bool namespaces);
/* name | filter | … on input; begins behind the first |. */
sc_jnode *sc_j_filters(sc_jparser *p, sc_jnode *input);
sc_jnode *sc_j_postfix(sc_jparser *p, sc_jnode *node);

/* The template's statements. */
int sc_jinja_parse(sc_jnode **body, sc_pool *pool, const char *name, const sc_jtoken *token,
                   sc_error *err);

#endif
