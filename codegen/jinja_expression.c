/* jinja_expression.c - expressions of a template to trees; see jinja_syntax.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_builtin.h"
#include "jinja_syntax.h"

static sc_jnode *or_expression(sc_jparser *p);
static sc_jnode *unary(sc_jparser *p, bool filtered);

static bool peek_name(const sc_jparser *p, const char *text) {
    return sc_j_peek(p, SC_J_NAME, text);
}
static bool peek_op(const sc_jparser *p, const char *text) {
    return sc_j_peek(p, SC_J_OPERATOR, text);
}
static bool take_name(sc_jparser *p, const char *text) { return sc_j_take(p, SC_J_NAME, text); }
static bool take_op(sc_jparser *p, const char *text) { return sc_j_take(p, SC_J_OPERATOR, text); }

static sc_jnode *binary(sc_jparser *p, sc_jnode_type type, sc_jop op, sc_jnode *a, sc_jnode *b) {
    sc_jnode *node = sc_j_node(p, type);
    if (node) {
        node->op = op;
        node->a = a;
        node->b = b;
    }
    return node;
}

/* Expressions up to the bracket that closes, a comma between them and perhaps behind the last. */
static sc_jnode *items(sc_jparser *p, const char *close) {
    sc_jnode *first = NULL, **last = &first;
    while (!p->rc && !take_op(p, close)) {
        *last = sc_j_expression(p);
        if (*last)
            last = &(*last)->next;
        if (!peek_op(p, close))
            sc_j_expect(p, SC_J_OPERATOR, ",");
    }
    return first;
}

static sc_jnode *dict(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_NEW_DICT);
    sc_jnode **last = node ? &node->a : NULL;
    while (!p->rc && !take_op(p, "}")) {
        *last = sc_j_expression(p);
        sc_j_expect(p, SC_J_OPERATOR, ":");
        if (p->rc)
            break;
        (*last)->next = sc_j_expression(p);
        if (!p->rc)
            last = &(*last)->next->next;
        if (!peek_op(p, "}"))
            sc_j_expect(p, SC_J_OPERATOR, ",");
    }
    return node;
}

/* ( ): grouping, or a tuple. */
static sc_jnode *parentheses(sc_jparser *p) {
    if (take_op(p, ")"))
        return sc_j_node(p, SC_J_NEW_TUPLE);
    sc_jnode *node = sc_j_tuple(p, false);
    sc_j_expect(p, SC_J_OPERATOR, ")");
    return node;
}

static sc_jnode *literal(sc_jparser *p, sc_jvalue value) {
    sc_jnode *node = sc_j_node(p, SC_J_CONST);
    if (node)
        node->value = value;
    return node;
}

static sc_jnode *number(sc_jparser *p) {
    const char *text = p->token->text;
    if (p->token->type == SC_J_REAL) {
        p->token++;
        return literal(p, sc_j_float(strtod(text, NULL)));
    }
    errno = 0;
    const long long value = strtoll(text, NULL, 10);
    if (errno)
        return sc_j_refuse(p, "the integer %s has more than 64 bits", text);
    p->token++;
    return literal(p, sc_j_int(value));
}

/* Strings that follow one another are one. */
static sc_jnode *strings(sc_jparser *p) {
    size_t bytes = 0, at = 0;
    const sc_jtoken *first = p->token;
    for (; p->token->type == SC_J_TEXT; p->token++)
        bytes += p->token->bytes;
    char *text = sc_pool_alloc(p->pool, bytes + 1, 1);
    if (!text) {
        p->rc = sc_oom(p->err, "reading a chat template");
        return NULL;
    }
    for (; first < p->token; at += first++->bytes)
        memcpy(text + at, first->text, first->bytes);
    return literal(p, sc_j_string(text, bytes));
}

static sc_jnode *primary(sc_jparser *p) {
    static const struct {
        const char *name;
        sc_jvalue value;
    } constants[] = {
        { "true", { .type = SC_J_BOOL, .truth = true } },
        { "True", { .type = SC_J_BOOL, .truth = true } },
        { "false", { .type = SC_J_BOOL } },
        { "False", { .type = SC_J_BOOL } },
        { "none", { .type = SC_J_NONE } },
        { "None", { .type = SC_J_NONE } },
    };
    sc_jnode *node;
    switch (p->token->type) {
    case SC_J_NAME:
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
            if (take_name(p, constants[i].name))
                return literal(p, constants[i].value);
        if (p->macros && (peek_name(p, "varargs") || peek_name(p, "kwargs")))
            return sc_j_refuse(p, "%s is beyond the subset (docs/chat.md)", p->token->text);
        node = sc_j_node(p, SC_J_NAMED);
        if (node)
            node->text = sc_j_expect_name(p);
        return node;
    case SC_J_TEXT:
        return strings(p);
    case SC_J_NUMBER:
    case SC_J_REAL:
        return number(p);
    case SC_J_OPERATOR:
        if (take_op(p, "("))
            return parentheses(p);
        if (take_op(p, "[")) {
            node = sc_j_node(p, SC_J_NEW_LIST);
            sc_jnode *chain = items(p, "]");
            if (node)
                node->a = chain;
            return node;
        }
        if (take_op(p, "{"))
            return dict(p);
        break;
    default:
        break;
    }
    return sc_j_refuse(p, "an expression is missing before \"%s\"", p->token->text);
}

/* ( is taken. */
static sc_jnode *arguments(sc_jparser *p) {
    sc_jnode *first = NULL, **last = &first;
    bool keywords = false;
    while (!p->rc && !take_op(p, ")")) {
        if (peek_op(p, "*") || peek_op(p, "**"))
            return sc_j_refuse(p, "a call with %s is beyond the subset (docs/chat.md)",
                               p->token->text);
        const bool keyword = p->token->type == SC_J_NAME && p->token[1].type == SC_J_OPERATOR &&
                             !strcmp(p->token[1].text, "=");
        if (keyword) {
            *last = sc_j_node(p, SC_J_KEYWORD);
            const char *name = sc_j_expect_name(p);
            sc_j_expect(p, SC_J_OPERATOR, "=");
            sc_jnode *value = sc_j_expression(p);
            if (*last) {
                (*last)->text = name;
                (*last)->a = value;
            }
        } else if (keywords)
            return sc_j_refuse(p, "an argument without a name follows one with a name");
        else
            *last = sc_j_expression(p);
        keywords |= keyword;
        if (*last)
            last = &(*last)->next;
        if (!peek_op(p, ")"))
            sc_j_expect(p, SC_J_OPERATOR, ",");
    }
    return first;
}

static sc_jnode *call(sc_jparser *p, sc_jnode *callee) {
    sc_jnode *node = sc_j_node(p, SC_J_CALL);
    sc_jnode *chain = arguments(p);
    if (node) {
        node->a = callee;
        node->b = chain;
    }
    return node;
}

static sc_jnode *attribute(sc_jparser *p, sc_jnode *of) {
    if (p->token->type == SC_J_NUMBER)
        return binary(p, SC_J_SUBSCRIPT, SC_J_ADD, of, number(p));
    sc_jnode *node = sc_j_node(p, SC_J_ATTRIBUTE);
    const char *name = sc_j_expect_name(p);
    if (node) {
        node->a = of;
        node->text = name;
    }
    return node;
}

/* [ is taken: an index, or a slice. */
static sc_jnode *subscript(sc_jparser *p, sc_jnode *of) {
    sc_jnode *part[3] = { NULL };
    int parts = 0;
    bool slice = false;
    while (!p->rc && parts < 3) {
        if (!peek_op(p, ":") && !peek_op(p, "]"))
            part[parts] = sc_j_expression(p);
        if (!take_op(p, ":"))
            break;
        slice = true;
        parts++;
    }
    sc_j_expect(p, SC_J_OPERATOR, "]");
    if (!slice && !part[0])
        return sc_j_refuse(p, "an index is missing between [ and ]");
    sc_jnode *node = sc_j_node(p, slice ? SC_J_SLICE : SC_J_SUBSCRIPT);
    if (node) {
        node->a = of;
        node->b = part[0];
        node->c = part[1];
        node->d = part[2];
    }
    return node;
}

sc_jnode *sc_j_postfix(sc_jparser *p, sc_jnode *node) {
    while (!p->rc) {
        if (take_op(p, "."))
            node = attribute(p, node);
        else if (take_op(p, "["))
            node = subscript(p, node);
        else if (take_op(p, "("))
            node = call(p, node);
        else
            break;
    }
    return node;
}

sc_jnode *sc_j_filters(sc_jparser *p, sc_jnode *input) {
    sc_jnode *node = input;
    do {
        node = sc_j_node(p, SC_J_FILTER);
        const char *name = sc_j_expect_name(p);
        if (p->rc)
            return NULL;
        node->text = name;
        node->builtin = sc_j_find_filter(name);
        if (!node->builtin)
            return sc_j_refuse(p, "the filter %s is beyond the subset (docs/chat.md)", name);
        node->a = input;
        if (take_op(p, "("))
            node->b = arguments(p);
        input = node;
    } while (!p->rc && take_op(p, "|"));
    return node;
}

/* An argument without parentheses: `is divisibleby 3`. */
static bool bare_argument(const sc_jparser *p) {
    switch (p->token->type) {
    case SC_J_NAME:
        return !peek_name(p, "else") && !peek_name(p, "or") && !peek_name(p, "and");
    case SC_J_TEXT:
    case SC_J_NUMBER:
    case SC_J_REAL:
        return true;
    default:
        return peek_op(p, "[") || peek_op(p, "{");
    }
}

/* is is taken. */
static sc_jnode *test(sc_jparser *p, sc_jnode *of) {
    const bool negated = take_name(p, "not");
    sc_jnode *node = sc_j_node(p, SC_J_TEST);
    const char *name = sc_j_expect_name(p);
    if (p->rc)
        return NULL;
    node->a = of;
    node->text = name;
    node->builtin = sc_j_find_test(name);
    if (!node->builtin)
        return sc_j_refuse(p, "the test %s is beyond the subset (docs/chat.md)", name);
    if (take_op(p, "("))
        node->b = arguments(p);
    else if (bare_argument(p)) {
        if (peek_name(p, "is"))
            return sc_j_refuse(p, "tests cannot follow one another");
        node->b = sc_j_postfix(p, primary(p));
    }
    return negated ? binary(p, SC_J_NOT, SC_J_ADD, node, NULL) : node;
}

static sc_jnode *filtered(sc_jparser *p, sc_jnode *node) {
    while (!p->rc) {
        if (take_op(p, "|"))
            node = sc_j_filters(p, node);
        else if (take_name(p, "is"))
            node = test(p, node);
        else if (take_op(p, "("))
            node = call(p, node);
        else
            break;
    }
    return node;
}

static sc_jnode *unary(sc_jparser *p, bool with_filters) {
    if (!sc_j_deeper(p))
        return NULL;
    sc_jnode *node;
    if (take_op(p, "-"))
        node = binary(p, SC_J_NEGATE, SC_J_ADD, unary(p, false), NULL);
    else if (take_op(p, "+"))
        node = binary(p, SC_J_PLUS, SC_J_ADD, unary(p, false), NULL);
    else
        node = primary(p);
    node = sc_j_postfix(p, node);
    if (with_filters)
        node = filtered(p, node);
    p->depth--;
    return node;
}

typedef struct {
    const char *text;
    sc_jop op;
} operator_name;

/* operand (op operand)*, from the left. */
static sc_jnode *chained(sc_jparser *p, const operator_name *names, int count,
                         sc_jnode *(*operand)(sc_jparser *)) {
    sc_jnode *node = operand(p);
    for (int i = 0; i < count && !p->rc; i++)
        if (take_op(p, names[i].text)) {
            node = binary(p, SC_J_BINARY, names[i].op, node, operand(p));
            i = -1;
        }
    return node;
}

static sc_jnode *filtered_unary(sc_jparser *p) { return unary(p, true); }

static sc_jnode *power(sc_jparser *p) {
    static const operator_name names[] = { { "**", SC_J_POWER } };
    return chained(p, names, 1, filtered_unary);
}

static sc_jnode *product(sc_jparser *p) {
    static const operator_name names[] = { { "*", SC_J_MULTIPLY },
                                           { "/", SC_J_DIVIDE },
                                           { "//", SC_J_FLOOR_DIVIDE },
                                           { "%", SC_J_MODULO } };
    return chained(p, names, 4, power);
}

static sc_jnode *concatenation(sc_jparser *p) {
    sc_jnode *first = product(p), **last;
    if (p->rc || !peek_op(p, "~"))
        return first;
    last = &first->next;
    while (!p->rc && take_op(p, "~")) {
        *last = product(p);
        if (*last)
            last = &(*last)->next;
    }
    return binary(p, SC_J_CONCAT, SC_J_ADD, first, NULL);
}

static sc_jnode *sum(sc_jparser *p) {
    static const operator_name names[] = { { "+", SC_J_ADD }, { "-", SC_J_SUBTRACT } };
    return chained(p, names, 2, concatenation);
}

static bool comparison(sc_jparser *p, sc_jop *op) {
    static const operator_name names[] = {
        { "==", SC_J_EQ }, { "!=", SC_J_NE }, { "<", SC_J_LT },
        { "<=", SC_J_LE }, { ">", SC_J_GT },  { ">=", SC_J_GE }
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (take_op(p, names[i].text)) {
            *op = names[i].op;
            return true;
        }
    *op = SC_J_IN;
    if (take_name(p, "in"))
        return true;
    const bool negated =
        peek_name(p, "not") && p->token[1].type == SC_J_NAME && !strcmp(p->token[1].text, "in");
    if (negated) {
        p->token += 2;
        *op = SC_J_NOT_IN;
    }
    return negated;
}

static sc_jnode *compare(sc_jparser *p) {
    sc_jnode *first = sum(p), *chain = NULL, **last = &chain;
    sc_jop op;
    while (!p->rc && comparison(p, &op)) {
        *last = binary(p, SC_J_OPERAND, op, sum(p), NULL);
        if (*last)
            last = &(*last)->next;
    }
    return chain ? binary(p, SC_J_COMPARE, SC_J_ADD, first, chain) : first;
}

static sc_jnode *not_expression(sc_jparser *p) {
    if (!take_name(p, "not"))
        return compare(p);
    if (!sc_j_deeper(p))
        return NULL;
    sc_jnode *node = binary(p, SC_J_NOT, SC_J_ADD, not_expression(p), NULL);
    p->depth--;
    return node;
}

static sc_jnode *and_expression(sc_jparser *p) {
    sc_jnode *node = not_expression(p);
    while (!p->rc && take_name(p, "and"))
        node = binary(p, SC_J_AND, SC_J_ADD, node, not_expression(p));
    return node;
}

static sc_jnode *or_expression(sc_jparser *p) {
    sc_jnode *node = and_expression(p);
    while (!p->rc && take_name(p, "or"))
        node = binary(p, SC_J_OR, SC_J_ADD, node, and_expression(p));
    return node;
}

sc_jnode *sc_j_expression(sc_jparser *p) {
    if (!sc_j_deeper(p))
        return NULL;
    sc_jnode *node = or_expression(p);
    while (!p->rc && take_name(p, "if")) {
        sc_jnode *choice = binary(p, SC_J_CHOICE, SC_J_ADD, or_expression(p), node);
        if (choice && take_name(p, "else"))
            choice->c = sc_j_expression(p);
        node = choice;
    }
    p->depth--;
    return node;
}

/* Where a tuple without parentheses ends. */
static bool tuple_ends(const sc_jparser *p) {
    return p->token->type == SC_J_VAR_END || p->token->type == SC_J_BLOCK_END || peek_op(p, ")") ||
           peek_name(p, "in");
}

static sc_jnode *gather(sc_jparser *p, sc_jnode *(*one)(sc_jparser *)) {
    sc_jnode *first = one(p);
    if (p->rc || !peek_op(p, ","))
        return first;
    sc_jnode **last = &first->next;
    while (!p->rc && take_op(p, ",") && !tuple_ends(p)) {
        *last = one(p);
        if (*last)
            last = &(*last)->next;
    }
    return binary(p, SC_J_NEW_TUPLE, SC_J_ADD, first, NULL);
}

sc_jnode *sc_j_tuple(sc_jparser *p, bool plain) {
    return gather(p, plain ? or_expression : sc_j_expression);
}

static sc_jnode *name_target(sc_jparser *p) {
    static const char *const reserved[] = { "true", "True", "false", "False", "none", "None" };
    sc_jnode *node = sc_j_node(p, SC_J_NAMED);
    const char *name = sc_j_expect_name(p);
    if (!node || !name)
        return NULL;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (!strcmp(name, reserved[i]))
            return sc_j_refuse(p, "%s cannot be set", name);
    node->text = name;
    return node;
}

static sc_jnode *simple_target(sc_jparser *p) {
    if (!sc_j_deeper(p))
        return NULL;
    sc_jnode *node;
    if (take_op(p, "(")) {
        node = gather(p, simple_target);
        sc_j_expect(p, SC_J_OPERATOR, ")");
    } else
        node = name_target(p);
    p->depth--;
    return node;
}

static sc_jnode *namespace_target(sc_jparser *p) {
    sc_jnode *node = simple_target(p);
    return !p->rc && node->type == SC_J_NAMED && take_op(p, ".") ? attribute(p, node) : node;
}

sc_jnode *sc_j_target(sc_jparser *p, bool namespaces) {
    return gather(p, namespaces ? namespace_target : simple_target);
}
