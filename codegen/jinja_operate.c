/* jinja_operate.c - operators, attributes and slices as Python has them; see jinja_builtin.h. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_builtin.h"
#include "jinja_unicode.h"

static const char *const symbols[] = { "+",  "-", "*",  "/", "//", "%",  "**",    "==",
                                       "!=", "<", "<=", ">", ">=", "in", "not in" };

static sc_jvalue no_operator(sc_jrun *run, sc_jop op, sc_jvalue a, sc_jvalue b) {
    if (a.type == SC_J_UNDEFINED || b.type == SC_J_UNDEFINED)
        return sc_j_fail(run, "'%s' is undefined", a.type == SC_J_UNDEFINED ? a.text : b.text);
    return sc_j_fail(run, "%s %s %s: there is no such operation", sc_j_type_name(a), symbols[op],
                     sc_j_type_name(b));
}

static sc_jvalue overflow(sc_jrun *run, sc_jop op) {
    return sc_j_fail(run, "%s: the result has more than 64 bits", symbols[op]);
}

static sc_jvalue int_power(sc_jrun *run, int64_t base, int64_t exponent) {
    int64_t result = 1;
    if (exponent < 0)
        return base ? sc_j_float(pow((double)base, (double)exponent))
                    : sc_j_fail(run, "0 to a negative power");
    if (base >= -1 && base <= 1) /* however great the exponent */
        return sc_j_int(base == -1 ? (exponent % 2 ? -1 : 1) : base == 0 ? exponent == 0 : 1);
    for (; exponent; exponent--)
        if (__builtin_mul_overflow(result, base, &result))
            return overflow(run, SC_J_POWER);
    return sc_j_int(result);
}

static sc_jvalue int_binary(sc_jrun *run, sc_jop op, int64_t a, int64_t b) {
    int64_t r;
    switch (op) {
    case SC_J_ADD:
        return __builtin_add_overflow(a, b, &r) ? overflow(run, op) : sc_j_int(r);
    case SC_J_SUBTRACT:
        return __builtin_sub_overflow(a, b, &r) ? overflow(run, op) : sc_j_int(r);
    case SC_J_MULTIPLY:
        return __builtin_mul_overflow(a, b, &r) ? overflow(run, op) : sc_j_int(r);
    case SC_J_POWER:
        return int_power(run, a, b);
    default:
        break;
    }
    if (!b)
        return sc_j_fail(run, "%s: a division by zero", symbols[op]);
    if (op == SC_J_DIVIDE)
        return sc_j_float((double)a / (double)b);
    if (b == -1) /* INT64_MIN / -1 */
        return op == SC_J_MODULO ? sc_j_int(0) : a == INT64_MIN ? overflow(run, op) : sc_j_int(-a);
    const int64_t rest = a % b;
    const bool down = rest && (rest < 0) != (b < 0); /* the result goes towards minus infinity */
    return sc_j_int(op == SC_J_MODULO ? rest + (down ? b : 0) : a / b - down);
}

static sc_jvalue float_binary(sc_jrun *run, sc_jop op, double a, double b) {
    if (op == SC_J_ADD)
        return sc_j_float(a + b);
    if (op == SC_J_SUBTRACT)
        return sc_j_float(a - b);
    if (op == SC_J_MULTIPLY)
        return sc_j_float(a * b);
    const bool zero = !(b < 0) && !(b > 0) && !isnan(b);
    if (op == SC_J_POWER) {
        const double r = pow(a, b);
        if (isnan(r) && !isnan(a) && !isnan(b))
            return sc_j_fail(run, "a negative number to a broken power");
        if (isinf(r) && isfinite(a) && isfinite(b))
            return sc_j_fail(run, "**: the result is no number");
        return sc_j_float(r);
    }
    if (zero)
        return sc_j_fail(run, "%s: a division by zero", symbols[op]);
    if (op == SC_J_DIVIDE)
        return sc_j_float(a / b);
    double rest = fmod(a, b);
    const bool down = (rest < 0 || rest > 0) && (rest < 0) != (b < 0);
    if (op == SC_J_FLOOR_DIVIDE) {
        double whole = (a - rest) / b - down, floored = floor(whole);
        if (whole - floored > 0.5)
            floored += 1;
        return sc_j_float(whole < 0 || whole > 0 ? floored : copysign(0, a / b));
    }
    rest += down ? b : 0;
    return sc_j_float(rest < 0 || rest > 0 ? rest : copysign(0, b));
}

static sc_jvalue join_lists(sc_jrun *run, const sc_jlist *a, const sc_jlist *b) {
    const sc_jvalue list = sc_j_list(run, a->kind);
    for (size_t i = 0; i < a->count && !run->rc; i++)
        sc_j_append(run, list, a->item[i]);
    for (size_t i = 0; i < b->count && !run->rc; i++)
        sc_j_append(run, list, b->item[i]);
    return list;
}

static sc_jvalue repeat(sc_jrun *run, sc_jvalue what, int64_t times) {
    if (what.type == SC_J_STRING) {
        sc_jtext text = { 0 };
        for (; times > 0 && what.bytes && sc_j_step(run, 1); times--)
            sc_j_put(run, &text, what.text, what.bytes);
        return sc_j_finish(&text);
    }
    const sc_jvalue list = sc_j_list(run, what.list->kind);
    for (; times > 0 && what.list->count && sc_j_step(run, 1); times--)
        for (size_t i = 0; i < what.list->count && !run->rc; i++)
            sc_j_append(run, list, what.list->item[i]);
    return list;
}

static bool repeats(sc_jvalue v) {
    return v.type == SC_J_STRING || (v.type == SC_J_LIST && v.list->kind <= SC_J_TUPLE);
}

sc_jvalue sc_j_binary(sc_jrun *run, sc_jop op, sc_jvalue a, sc_jvalue b) {
    int64_t i, j;
    double x, y;
    if (run->rc)
        return a;
    if (sc_j_integer(a, &i) && sc_j_integer(b, &j))
        return int_binary(run, op, i, j);
    if (sc_j_number(a, &x) && sc_j_number(b, &y))
        return float_binary(run, op, x, y);
    if (op == SC_J_ADD && a.type == SC_J_STRING && b.type == SC_J_STRING) {
        sc_jtext text = { 0 };
        sc_j_put(run, &text, a.text, a.bytes);
        sc_j_put(run, &text, b.text, b.bytes);
        return sc_j_finish(&text);
    }
    if (op == SC_J_ADD && repeats(a) && a.type == b.type && a.list->kind == b.list->kind)
        return join_lists(run, a.list, b.list);
    if (op == SC_J_MULTIPLY && repeats(a) && sc_j_integer(b, &i))
        return repeat(run, a, i);
    if (op == SC_J_MULTIPLY && repeats(b) && sc_j_integer(a, &i))
        return repeat(run, b, i);
    if (op == SC_J_MODULO && a.type == SC_J_STRING)
        return sc_j_fail(run, "formatting with %% is beyond the subset (docs/chat.md)");
    return no_operator(run, op, a, b);
}

sc_jvalue sc_j_negate(sc_jrun *run, sc_jvalue v) {
    int64_t integer;
    if (v.type == SC_J_FLOAT)
        return sc_j_float(-v.real);
    if (sc_j_integer(v, &integer))
        return int_binary(run, SC_J_SUBTRACT, 0, integer);
    return v.type == SC_J_UNDEFINED
               ? no_operator(run, SC_J_SUBTRACT, v, v)
               : sc_j_fail(run, "- %s: there is no such operation", sc_j_type_name(v));
}

bool sc_j_contains(sc_jrun *run, sc_jvalue all, sc_jvalue one) {
    if (all.type == SC_J_STRING && one.type == SC_J_STRING)
        return sc_j_search(run, all, one, 0) >= 0;
    if (all.type == SC_J_STRING || all.type == SC_J_NAMESPACE) {
        no_operator(run, SC_J_IN, one, all);
        return false;
    }
    if (all.type == SC_J_DICT && one.type <= SC_J_STRING)
        return sc_j_find(run, all, one);
    if (all.type == SC_J_DICT) {
        sc_j_fail(run, "%s cannot be a key of a dict", sc_j_type_name(one));
        return false;
    }
    sc_jvalue *item;
    size_t count;
    if (!sc_j_items(run, all, &item, &count))
        return false;
    for (size_t i = 0; i < count && !run->rc; i++)
        if (sc_j_equal(run, item[i], one))
            return true;
    return false;
}

bool sc_j_compare(sc_jrun *run, sc_jop op, sc_jvalue a, sc_jvalue b) {
    double x, y;
    if (run->rc)
        return false;
    if (op == SC_J_EQ || op == SC_J_NE)
        return sc_j_equal(run, a, b) == (op == SC_J_EQ);
    if (op == SC_J_IN || op == SC_J_NOT_IN)
        return sc_j_contains(run, b, a) == (op == SC_J_IN);
    if (a.type == SC_J_UNDEFINED || b.type == SC_J_UNDEFINED) {
        no_operator(run, op, a, b);
        return false;
    }
    if (sc_j_number(a, &x) && sc_j_number(b, &y) && (isnan(x) || isnan(y)))
        return false;
    const int order = sc_j_order(run, a, b);
    return op == SC_J_LT   ? order < 0
           : op == SC_J_LE ? order <= 0
           : op == SC_J_GT ? order > 0
                           : order >= 0;
}

static sc_jvalue loop_attribute(const sc_jloop *loop, const char *name) {
    const struct {
        const char *name;
        sc_jvalue value;
    } members[] = {
        { "index", sc_j_int((int64_t)loop->index + 1) },
        { "index0", sc_j_int((int64_t)loop->index) },
        { "revindex", sc_j_int((int64_t)(loop->count - loop->index)) },
        { "revindex0", sc_j_int((int64_t)(loop->count - loop->index) - 1) },
        { "first", sc_j_bool(!loop->index) },
        { "last", sc_j_bool(loop->index + 1 == loop->count) },
        { "length", sc_j_int((int64_t)loop->count) },
        { "depth", sc_j_int(1) /* only recursive loops go deeper */ },
        { "depth0", sc_j_int(0) },
        { "previtem", loop->index ? loop->item[loop->index - 1] : sc_j_undefined("previtem") },
        { "nextitem", loop->index + 1 < loop->count ? loop->item[loop->index + 1]
                                                    : sc_j_undefined("nextitem") },
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strcmp(members[i].name, name))
            return members[i].value;
    return sc_j_undefined(name);
}

static sc_jvalue key_of(sc_jrun *run, sc_jvalue dict, const char *name) {
    const sc_jvalue *found = sc_j_find(run, dict, sc_j_string(name, strlen(name)));
    return found ? *found : sc_j_undefined(name);
}

sc_jvalue sc_j_attribute(sc_jrun *run, sc_jvalue of, const char *name) {
    if (run->rc)
        return of;
    if (of.type == SC_J_UNDEFINED)
        return sc_j_fail(run, "'%s' is undefined (its '%s' is asked for)", of.text, name);
    if (of.type == SC_J_NAMESPACE)
        return key_of(run, of, name);
    const sc_jvalue method = sc_j_method(run, of, name);
    if (method.type != SC_J_UNDEFINED || run->rc)
        return method;
    if (of.type == SC_J_LOOP)
        return loop_attribute(of.loop, name);
    return of.type == SC_J_DICT ? key_of(run, of, name) : sc_j_undefined(name);
}

static const char *terminated(sc_jrun *run, const char *text, size_t bytes) {
    char *copy = sc_j_alloc(run, bytes + 1, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* The place of an index that may count from the end; false outside. */
static bool place(int64_t index, size_t count, size_t *at) {
    if (index < 0)
        index += (int64_t)count;
    *at = (size_t)index;
    return index >= 0 && *at < count;
}

sc_jvalue sc_j_subscript(sc_jrun *run, sc_jvalue of, sc_jvalue key) {
    int64_t index;
    size_t at;
    if (run->rc)
        return of;
    if (of.type == SC_J_UNDEFINED)
        return sc_j_fail(run, "'%s' is undefined (an item of it is asked for)", of.text);
    if (of.type == SC_J_DICT && key.type <= SC_J_STRING) {
        const sc_jvalue *found = sc_j_find(run, of, key);
        if (found)
            return *found;
    }
    if (key.type == SC_J_STRING) {
        const char *name = terminated(run, key.text, key.bytes);
        return !name                  ? sc_j_undefined("")
               : of.type == SC_J_DICT ? sc_j_method(run, of, name)
                                      : sc_j_attribute(run, of, name);
    }
    if (!sc_j_integer(key, &index))
        return sc_j_undefined("an item");
    if (of.type == SC_J_LIST && of.list->kind <= SC_J_TUPLE && place(index, of.list->count, &at))
        return of.list->item[at];
    if (of.type == SC_J_STRING && place(index, sc_j_chars(of.text, of.bytes), &at)) {
        int32_t code;
        sc_j_step(run, of.bytes / 16);
        const char *begin = of.text + sc_j_offset(of.text, of.bytes, at);
        return sc_j_string(begin, sc_j_char(begin, &code));
    }
    return sc_j_undefined("an item");
}

static int64_t bounded(int64_t index, int64_t count, int64_t least, int64_t most) {
    index += index < 0 ? count : 0;
    return index < least ? least : index > most ? most : index;
}

sc_jvalue sc_j_slice(sc_jrun *run, sc_jvalue of, sc_jvalue start, sc_jvalue stop, sc_jvalue step) {
    int64_t by = 1, count;
    if (run->rc)
        return of;
    if (!repeats(of)) {
        if (of.type == SC_J_UNDEFINED)
            return sc_j_fail(run, "'%s' is undefined (a slice of it is asked for)", of.text);
        return sc_j_fail(run, "there are no slices of %s", sc_j_type_name(of));
    }
    const sc_jvalue ends[] = { start, stop, step };
    for (int i = 0; i < 3; i++)
        if (ends[i].type > SC_J_NONE && !sc_j_integer(ends[i], &by))
            return sc_j_fail(run, "a slice from or to %s", sc_j_type_name(ends[i]));
    by = sc_j_want_int(run, "a slice's step", step.type == SC_J_NONE ? sc_j_int(1) : step, 1);
    if (!by || by == INT64_MIN)
        return sc_j_fail(run, "a slice's step is zero or too large");
    count = sc_j_length(run, of);
    const int64_t least = by < 0 ? -1 : 0, most = by < 0 ? count - 1 : count;
    int64_t from = by < 0 ? most : least, to = by < 0 ? least : most;
    if (sc_j_integer(start, &from))
        from = bounded(from, count, least, most);
    if (sc_j_integer(stop, &to))
        to = bounded(to, count, least, most);
    if (of.type == SC_J_STRING && by == 1) {
        const size_t begin = sc_j_offset(of.text, of.bytes, (size_t)from),
                     end = sc_j_offset(of.text, of.bytes, (size_t)to);
        return sc_j_string(of.text + begin, end > begin ? end - begin : 0);
    }
    sc_jvalue *item;
    size_t items;
    sc_jtext text = { 0 };
    const sc_jvalue list = sc_j_list(run, of.type == SC_J_LIST ? of.list->kind : SC_J_PLAIN);
    if (!sc_j_items(run, of, &item, &items))
        return of;
    for (int64_t i = from; (by > 0 ? i < to : i > to) && !run->rc;) {
        if (of.type == SC_J_STRING)
            sc_j_put(run, &text, item[i].text, item[i].bytes);
        else
            sc_j_append(run, list, item[i]);
        if (__builtin_add_overflow(i, by, &i))
            break;
    }
    return of.type == SC_J_STRING ? sc_j_finish(&text) : list;
}

sc_jvalue sc_j_path(sc_jrun *run, sc_jvalue of, sc_jvalue path) {
    if (path.type != SC_J_STRING)
        return sc_j_subscript(run, of, path);
    for (size_t at = 0; at <= path.bytes && !run->rc;) {
        const char *dot = memchr(path.text + at, '.', path.bytes - at);
        const size_t bytes = dot ? (size_t)(dot - path.text) - at : path.bytes - at;
        const char *part = terminated(run, path.text + at, bytes);
        if (!part)
            break;
        const bool number = bytes && bytes < 10 && strspn(part, "0123456789") == bytes;
        of = sc_j_subscript(run, of, number ? sc_j_int(atoi(part)) : sc_j_string(part, bytes));
        at += bytes + 1;
    }
    return of;
}

sc_jvalue sc_j_want_string(sc_jrun *run, const char *what, sc_jvalue v) {
    if (v.type == SC_J_STRING)
        return v;
    return v.type == SC_J_UNDEFINED
               ? sc_j_fail(run, "'%s' is undefined", v.text)
               : sc_j_fail(run, "%s is no string: %s", what, sc_j_type_name(v));
}

int64_t sc_j_want_int(sc_jrun *run, const char *what, sc_jvalue v, int64_t unset) {
    int64_t integer = unset;
    if (v.type != SC_J_UNSET && !sc_j_integer(v, &integer))
        sc_j_fail(run, "%s is no integer: %s", what, sc_j_type_name(v));
    return integer;
}
