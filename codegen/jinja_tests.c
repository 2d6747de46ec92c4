/* jinja_tests.c - what may stand behind `is`. See jinja_builtin.h. */
#include "jinja_builtin.h"
#include "jinja_unicode.h"

#define TEST(name)                                                                                 \
    static sc_jvalue name(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument,                 \
                          const sc_jarguments *all)
#define PLAIN(name, condition) /* one that looks at the value alone */                             \
    TEST(name) {                                                                                   \
        (void)run, (void)argument, (void)all;                                                      \
        return sc_j_bool(condition);                                                               \
    }
#define RELATION(name, op) /* one that compares it with its argument */                            \
    TEST(name) {                                                                                   \
        (void)all;                                                                                 \
        return sc_j_bool(sc_j_compare(run, op, self, argument[0]));                                \
    }

static bool has_items(sc_jvalue v) {
    return v.type == SC_J_UNDEFINED || v.type == SC_J_STRING || v.type == SC_J_LIST ||
           v.type == SC_J_DICT;
}

/* One that has a length and can be indexed: a dict too, no generator or view. */
static bool is_sequence(sc_jvalue v) {
    return has_items(v) && (v.type != SC_J_LIST || v.list->kind <= SC_J_TUPLE);
}

static bool is_number(sc_jvalue v) {
    return v.type == SC_J_BOOL || v.type == SC_J_INT || v.type == SC_J_FLOAT;
}

static bool is_same(sc_jvalue a, sc_jvalue b) {
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case SC_J_NONE:
        return true;
    case SC_J_BOOL:
        return a.truth == b.truth;
    case SC_J_INT:
        return a.integer == b.integer;
    case SC_J_STRING:
        return a.text == b.text && a.bytes == b.bytes;
    default:
        return a.list == b.list;
    }
}

PLAIN(defined, self.type != SC_J_UNDEFINED)
PLAIN(undefined, self.type == SC_J_UNDEFINED)
PLAIN(none, self.type == SC_J_NONE)
PLAIN(boolean, self.type == SC_J_BOOL)
PLAIN(is_true, self.type == SC_J_BOOL && self.truth)
PLAIN(is_false, self.type == SC_J_BOOL && !self.truth)
PLAIN(integer, self.type == SC_J_INT)
PLAIN(floating, self.type == SC_J_FLOAT)
PLAIN(number, is_number(self))
PLAIN(string, self.type == SC_J_STRING)
PLAIN(mapping, self.type == SC_J_DICT)
PLAIN(iterable, has_items(self))
PLAIN(sequence, is_sequence(self))
PLAIN(callable, self.type == SC_J_CALLABLE)
PLAIN(sameas, is_same(self, argument[0]))
PLAIN(lower, sc_j_all(sc_j_str(run, self), SC_J_IS_LOWER))
PLAIN(upper, sc_j_all(sc_j_str(run, self), SC_J_IS_UPPER))
RELATION(equal, SC_J_EQ)
RELATION(unequal, SC_J_NE)
RELATION(less, SC_J_LT)
RELATION(less_equal, SC_J_LE)
RELATION(greater, SC_J_GT)
RELATION(greater_equal, SC_J_GE)
RELATION(in, SC_J_IN)

static sc_jvalue divides(sc_jrun *run, sc_jvalue self, sc_jvalue by, int64_t rest) {
    return sc_j_bool(sc_j_equal(run, sc_j_binary(run, SC_J_MODULO, self, by), sc_j_int(rest)));
}

TEST(odd) {
    (void)argument, (void)all;
    return divides(run, self, sc_j_int(2), 1);
}

TEST(even) {
    (void)argument, (void)all;
    return divides(run, self, sc_j_int(2), 0);
}

TEST(divisibleby) {
    (void)all;
    return divides(run, self, argument[0], 0);
}

const sc_jbuiltin *sc_j_find_test(const char *name) {
    static const sc_jbuiltin tests[] = {
        { "defined", "", defined },
        { "undefined", "", undefined },
        { "none", "", none },
        { "boolean", "", boolean },
        { "true", "", is_true },
        { "false", "", is_false },
        { "integer", "", integer },
        { "float", "", floating },
        { "number", "", number },
        { "string", "", string },
        { "mapping", "", mapping },
        { "iterable", "", iterable },
        { "sequence", "", sequence },
        { "callable", "", callable },
        { "sameas", "other!", sameas },
        { "lower", "", lower },
        { "upper", "", upper },
        { "odd", "", odd },
        { "even", "", even },
        { "divisibleby", "num!", divisibleby },
        { "in", "seq!", in },
        { "eq", "other!", equal },
        { "equalto", "other!", equal },
        { "==", "other!", equal },
        { "ne", "other!", unequal },
        { "!=", "other!", unequal },
        { "lt", "other!", less },
        { "lessthan", "other!", less },
        { "<", "other!", less },
        { "le", "other!", less_equal },
        { "<=", "other!", less_equal },
        { "gt", "other!", greater },
        { "greaterthan", "other!", greater },
        { ">", "other!", greater },
        { "ge", "other!", greater_equal },
        { ">=", "other!", greater_equal },
    };
    return sc_j_find_in(tests, sizeof tests / sizeof *tests, name);
}
