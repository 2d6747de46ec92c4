/* jinja_eval.c - the value of an expression; see jinja_builtin.h. */
#include <string.h>

#include "jinja_builtin.h"

static sc_jvalue new_list(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    const sc_jvalue list = sc_j_list(run, node->type == SC_J_NEW_TUPLE ? SC_J_TUPLE : SC_J_PLAIN);
    for (const sc_jnode *item = node->a; item && !run->rc; item = item->next)
        sc_j_append(run, list, sc_j_eval(run, scope, item));
    return list;
}

static sc_jvalue new_dict(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    const sc_jvalue dict = sc_j_dict(run, SC_J_DICT);
    for (const sc_jnode *key = node->a; key && !run->rc; key = key->next->next) {
        const sc_jvalue name = sc_j_eval(run, scope, key);
        sc_j_set(run, dict, name, sc_j_eval(run, scope, key->next));
    }
    return dict;
}

/* a < b < c: every operand once, as far as it holds. */
static sc_jvalue compare(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jvalue left = sc_j_eval(run, scope, node->a);
    for (const sc_jnode *operand = node->b; operand && !run->rc; operand = operand->next) {
        const sc_jvalue right = sc_j_eval(run, scope, operand->a);
        if (!sc_j_compare(run, operand->op, left, right))
            return sc_j_bool(false);
        left = right;
    }
    return sc_j_bool(true);
}

static sc_jvalue concat(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jtext text = { 0 };
    for (const sc_jnode *part = node->a; part && !run->rc; part = part->next)
        sc_j_put_str(run, &text, sc_j_eval(run, scope, part));
    return sc_j_finish(&text);
}

static sc_jvalue name(sc_jrun *run, const sc_jscope *scope, const char *text) {
    const sc_jvalue *variable = sc_j_variable(run, scope, text);
    if (variable)
        return *variable;
    const sc_jbuiltin *function = sc_j_find_function(text);
    if (!function)
        return sc_j_undefined(text);
    sc_jcallable *callable = sc_j_alloc(run, 1, sizeof *callable);
    if (!callable)
        return sc_j_undefined(text);
    callable->builtin = function;
    callable->self = sc_j_undefined(text);
    return (sc_jvalue){ .type = SC_J_CALLABLE, .callable = callable };
}

sc_jarguments sc_j_arguments(sc_jrun *run, sc_jscope *scope, const sc_jnode *chain) {
    sc_jarguments to = { 0 };
    size_t count = 0;
    for (const sc_jnode *one = chain; one; one = one->next)
        count++;
    if (!count)
        return to;
    to.name = sc_j_alloc(run, count, sizeof *to.name);
    to.value = sc_j_alloc(run, count, sizeof *to.value);
    for (; chain && !run->rc; chain = chain->next) {
        const bool keyword = chain->type == SC_J_KEYWORD;
        for (int i = 0; keyword && i < to.count; i++)
            if (to.name[i] && !strcmp(to.name[i], chain->text))
                sc_j_fail(run, "the argument %s is given twice", chain->text);
        to.name[to.count] = keyword ? chain->text : NULL;
        to.value[to.count++] = sc_j_eval(run, scope, keyword ? chain->a : chain);
    }
    return to;
}

sc_jvalue sc_j_call(sc_jrun *run, sc_jvalue callee, const sc_jarguments *arguments) {
    if (run->rc)
        return callee;
    if (callee.type == SC_J_UNDEFINED)
        return sc_j_fail(run, "'%s' is undefined (it is called)", callee.text);
    if (callee.type != SC_J_CALLABLE)
        return sc_j_fail(run, "%s cannot be called", sc_j_type_name(callee));
    const sc_jcallable *c = callee.callable;
    return c->builtin ? sc_j_apply(run, "", c->builtin, c->self, arguments)
                      : sc_j_call_macro(run, c, arguments);
}

static sc_jvalue call(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    const sc_jvalue callee = sc_j_eval(run, scope, node->a);
    const sc_jarguments arguments = sc_j_arguments(run, scope, node->b);
    run->line = node->line;
    return sc_j_call(run, callee, &arguments);
}

static sc_jvalue filter(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    const sc_jvalue self = sc_j_eval(run, scope, node->a);
    const sc_jarguments arguments = sc_j_arguments(run, scope, node->b);
    run->line = node->line;
    return sc_j_apply(run, node->type == SC_J_FILTER ? "the filter " : "the test ", node->builtin,
                      self, &arguments);
}

static sc_jvalue slice(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    const sc_jvalue of = sc_j_eval(run, scope, node->a);
    const sc_jvalue start = node->b ? sc_j_eval(run, scope, node->b) : (sc_jvalue){ 0 },
                    stop = node->c ? sc_j_eval(run, scope, node->c) : (sc_jvalue){ 0 },
                    step = node->d ? sc_j_eval(run, scope, node->d) : (sc_jvalue){ 0 };
    return sc_j_slice(run, of, start, stop, step);
}

static sc_jvalue plus(sc_jrun *run, sc_jvalue v) {
    double number;
    int64_t integer;
    if (sc_j_integer(v, &integer))
        return sc_j_int(integer);
    return run->rc || sc_j_number(v, &number)
               ? v
               : sc_j_fail(run, "+ %s: there is no such operation", sc_j_type_name(v));
}

static sc_jvalue eval(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jvalue a;
    switch (node->type) {
    case SC_J_CONST:
        return node->value;
    case SC_J_NAMED:
        return name(run, scope, node->text);
    case SC_J_INPUT:
        return run->input;
    case SC_J_NEW_LIST:
    case SC_J_NEW_TUPLE:
        return new_list(run, scope, node);
    case SC_J_NEW_DICT:
        return new_dict(run, scope, node);
    case SC_J_NOT:
        return sc_j_bool(!sc_j_truth(sc_j_eval(run, scope, node->a)));
    case SC_J_NEGATE:
        a = sc_j_eval(run, scope, node->a);
        return run->rc ? a : sc_j_negate(run, a);
    case SC_J_PLUS:
        return plus(run, sc_j_eval(run, scope, node->a));
    case SC_J_AND:
    case SC_J_OR:
        a = sc_j_eval(run, scope, node->a);
        return sc_j_truth(a) == (node->type == SC_J_OR) ? a : sc_j_eval(run, scope, node->b);
    case SC_J_BINARY:
        a = sc_j_eval(run, scope, node->a);
        return sc_j_binary(run, node->op, a, sc_j_eval(run, scope, node->b));
    case SC_J_COMPARE:
        return compare(run, scope, node);
    case SC_J_CONCAT:
        return concat(run, scope, node);
    case SC_J_CHOICE:
        if (sc_j_truth(sc_j_eval(run, scope, node->a)))
            return sc_j_eval(run, scope, node->b);
        return node->c ? sc_j_eval(run, scope, node->c) : sc_j_undefined("a choice without else");
    case SC_J_ATTRIBUTE:
        return sc_j_attribute(run, sc_j_eval(run, scope, node->a), node->text);
    case SC_J_SUBSCRIPT:
        a = sc_j_eval(run, scope, node->a);
        return sc_j_subscript(run, a, sc_j_eval(run, scope, node->b));
    case SC_J_SLICE:
        return slice(run, scope, node);
    case SC_J_CALL:
        return call(run, scope, node);
    case SC_J_FILTER:
    case SC_J_TEST:
        return filter(run, scope, node);
    default:
        return sc_j_undefined("");
    }
}

sc_jvalue sc_j_eval(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    if (!sc_j_step(run, 1))
        return sc_j_undefined("");
    if (run->depth >= SC_J_MOST_DEPTH)
        return sc_j_fail(run, "nests deeper than %d", SC_J_MOST_DEPTH);
    run->depth++;
    run->line = node->line;
    const sc_jvalue value = eval(run, scope, node);
    run->depth--;
    return value;
}
