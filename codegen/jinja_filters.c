/* jinja_filters.c - filters of one value: texts, numbers, JSON. See jinja_builtin.h. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_builtin.h"
#include "jinja_unicode.h"

#define FILTER(name)                                                                               \
    static sc_jvalue name(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument,                 \
                          const sc_jarguments *all)

FILTER(trim) {
    (void)all;
    const sc_jvalue text = sc_j_str(run, self);
    sc_j_step(run, text.bytes / 16);
    return sc_j_strip(text, argument[0], true, true);
}

FILTER(upper) {
    (void)argument, (void)all;
    return sc_j_recase(run, sc_j_str(run, self), SC_J_UPPER);
}

FILTER(lower) {
    (void)argument, (void)all;
    return sc_j_recase(run, sc_j_str(run, self), SC_J_LOWER);
}

FILTER(capitalize) {
    (void)argument, (void)all;
    return sc_j_recase(run, sc_j_str(run, self), SC_J_CAPITALIZE);
}

FILTER(string) {
    (void)argument, (void)all;
    return sc_j_str(run, self);
}

FILTER(length) {
    (void)argument, (void)all;
    return sc_j_int(sc_j_length(run, self));
}

/* Words here are what - white space and opening brackets part, unlike str.title. */
FILTER(title) {
    (void)argument, (void)all;
    const sc_jvalue s = sc_j_str(run, self);
    sc_jtext text = { 0 };
    bool begins = true;
    for (size_t at = 0, n; at < s.bytes && !run->rc; at += n) {
        int32_t code;
        n = sc_j_char(s.text + at, &code);
        const sc_jvalue one = sc_j_string(s.text + at, n),
                        cased = sc_j_recase(run, one, begins ? SC_J_UPPER : SC_J_LOWER);
        sc_j_put(run, &text, cased.text, cased.bytes);
        begins = sc_j_space(code) || (code && code < 0x80 && strchr("-({[<", (int)code));
    }
    return sc_j_finish(&text);
}

FILTER(replace) {
    (void)all;
    const sc_jvalue s = sc_j_str(run, self), old = sc_j_str(run, argument[0]),
                    new = sc_j_str(run, argument[1]);
    const int64_t most =
        argument[2].type == SC_J_NONE ? -1 : sc_j_want_int(run, "replace: count", argument[2], -1);
    return sc_j_replace(run, s, old, new, most);
}

FILTER(fallback) {
    (void)run, (void)all;
    const bool empty = argument[1].type != SC_J_UNSET && sc_j_truth(argument[1]);
    if (self.type != SC_J_UNDEFINED && (!empty || sc_j_truth(self)))
        return self;
    return argument[0].type == SC_J_UNSET ? sc_j_string("", 0) : argument[0];
}

FILTER(indent) {
    enum { WIDTH_MOST = 1000 };
    (void)all;
    static const char spaces[] = "    ";
    sc_jvalue by = argument[0];
    const bool first = argument[1].type != SC_J_UNSET && sc_j_truth(argument[1]),
               blank = argument[2].type != SC_J_UNSET && sc_j_truth(argument[2]);
    const sc_jvalue s = sc_j_want_string(run, "indent: what is indented", self);
    if (by.type == SC_J_UNSET)
        by = sc_j_string(spaces, 4);
    else if (by.type != SC_J_STRING) {
        const int64_t width = sc_j_want_int(run, "indent: width", by, 4);
        if (width > WIDTH_MOST)
            sc_j_fail(run, "indent: a width above %d", WIDTH_MOST);
        by = sc_j_binary(run, SC_J_MULTIPLY, sc_j_string(" ", 1), sc_j_int(width));
    }
    if (run->rc)
        return s;
    const sc_jvalue ended = sc_j_binary(run, SC_J_ADD, s, sc_j_string("\n", 1)),
                    lines = sc_j_lines(run, ended, false);
    sc_jtext text = { 0 };
    for (size_t i = 0; !run->rc && i < lines.list->count; i++) {
        const sc_jvalue line = lines.list->item[i];
        sc_j_puts(run, &text, i ? "\n" : "");
        if (i ? blank || line.bytes : first)
            sc_j_put(run, &text, by.text, by.bytes);
        sc_j_put(run, &text, line.text, line.bytes);
    }
    return sc_j_finish(&text);
}

/* A number as int() and float() read it: white space around it, single underscores between digits.
 */
static bool clean_number(char out[64], sc_jvalue s) {
    const sc_jvalue unset = { 0 }, bare = sc_j_strip(s, unset, true, true);
    size_t n = 0;
    if (!bare.bytes || bare.bytes >= 63)
        return false;
    for (size_t i = 0; i < bare.bytes; i++) {
        const char c = bare.text[i];
        if (c == '_') {
            if (!i || i + 1 == bare.bytes || !isalnum((unsigned char)bare.text[i - 1]) ||
                !isalnum((unsigned char)bare.text[i + 1]))
                return false;
        } else if (!isalnum((unsigned char)c) && !strchr("+-.", c))
            return false;
        else
            out[n++] = c;
    }
    out[n] = 0;
    return true;
}

static bool parse_float(sc_jvalue v, double *number) {
    char text[64], *end;
    if (sc_j_number(v, number))
        return true;
    if (v.type != SC_J_STRING || !clean_number(text, v) || strpbrk(text, "xXpP("))
        return false;
    *number = strtod(text, &end);
    return end != text && !*end;
}

FILTER(to_float) {
    (void)all;
    double number;
    if (self.type == SC_J_UNDEFINED)
        return sc_j_fail(run, "'%s' is undefined", self.text);
    if (parse_float(self, &number))
        return sc_j_float(number);
    return argument[0].type == SC_J_UNSET ? sc_j_float(0) : argument[0];
}

/* 0x, 0o, 0b before the digits when they agree with the base. */
static bool parse_int(sc_jrun *run, sc_jvalue s, int64_t base, int64_t *integer) {
    char text[64], *end;
    if (!clean_number(text, s) || base < 2 || base > 36)
        return false;
    char *digits = text + (*text == '-' || *text == '+');
    const char mark = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0;
    if (mark && *digits == '0' && tolower((unsigned char)digits[1]) == mark)
        memmove(digits, digits + 2, strlen(digits + 2) + 1);
    if (!isalnum((unsigned char)*digits))
        return false;
    errno = 0;
    const long long value = strtoll(text, &end, (int)base);
    if (*end)
        return false;
    if (errno)
        sc_j_fail(run, "int: %s has more than 64 bits", text);
    *integer = value;
    return true;
}

FILTER(to_int) {
    (void)all;
    int64_t integer = 0;
    double number;
    const int64_t base = sc_j_want_int(run, "int: base", argument[1], 10);
    if (self.type == SC_J_UNDEFINED)
        return sc_j_fail(run, "'%s' is undefined", self.text);
    if (sc_j_integer(self, &integer) ||
        (self.type == SC_J_STRING && parse_int(run, self, base, &integer)))
        return sc_j_int(integer);
    if (parse_float(self, &number) && fabs(number) < 0x1p63)
        return sc_j_int((int64_t)number);
    if (self.type == SC_J_FLOAT && isinf(self.real))
        return sc_j_fail(run, "int: infinity is none");
    return argument[0].type == SC_J_UNSET ? sc_j_int(0) : argument[0];
}

FILTER(absolute) {
    (void)argument, (void)all;
    int64_t integer;
    if (self.type == SC_J_FLOAT)
        return sc_j_float(fabs(self.real));
    if (!sc_j_integer(self, &integer))
        return sc_j_fail(run, "abs of %s", sc_j_type_name(self));
    return integer < 0 ? sc_j_negate(run, self) : sc_j_int(integer);
}

FILTER(round_filter) {
    (void)all;
    double number;
    int64_t integer;
    char text[512];
    const int64_t places = sc_j_want_int(run, "round: precision", argument[0], 0);
    if (run->rc || !sc_j_number(self, &number))
        return sc_j_fail(run, "round of %s", sc_j_type_name(self));
    if (places < 0 || places > 20)
        return sc_j_fail(run, "round: a precision of 0 to 20 is in the subset (docs/chat.md)");
    const bool common = argument[1].type == SC_J_UNSET || sc_j_is_string(argument[1], "common");
    if (common && sc_j_integer(self, &integer))
        return sc_j_int(integer);
    if (common) { /* of equally near ones the even one, of the number as it is */
        snprintf(text, sizeof text, "%.*f", (int)places, number);
        return sc_j_float(strtod(text, NULL));
    }
    const double scale = pow(10, (double)places);
    if (sc_j_is_string(argument[1], "ceil"))
        return sc_j_float(ceil(number * scale) / scale);
    return sc_j_is_string(argument[1], "floor")
               ? sc_j_float(floor(number * scale) / scale)
               : sc_j_fail(run, "round: the method is none of common, ceil, floor");
}

FILTER(tojson) {
    (void)all;
    sc_jdump how = { .indent = argument[1].type == SC_J_UNSET ? sc_j_none() : argument[1],
                     .ascii = argument[0].type != SC_J_UNSET && sc_j_truth(argument[0]),
                     .sorted = argument[3].type != SC_J_UNSET && sc_j_truth(argument[3]) };
    const sc_jvalue apart = argument[2];
    if (apart.type == SC_J_LIST && apart.list->count == 2 &&
        apart.list->item[0].type == SC_J_STRING && apart.list->item[1].type == SC_J_STRING) {
        how.item = apart.list->item[0];
        how.key = apart.list->item[1];
    } else if (apart.type > SC_J_NONE)
        return sc_j_fail(run, "tojson: separators are two strings");
    return sc_j_dump(run, self, &how);
}

/* The attribute alone, never a key. */
FILTER(attr) {
    (void)all;
    return self.type == SC_J_DICT || self.type == SC_J_LIST
               ? sc_j_undefined("an attribute")
               : sc_j_subscript(run, self, sc_j_want_string(run, "attr: the name", argument[0]));
}

const sc_jbuiltin *sc_j_find_filter(const char *name) {
    static const sc_jbuiltin filters[] = {
        { "trim", "chars", trim },
        { "upper", "", upper },
        { "lower", "", lower },
        { "title", "", title },
        { "capitalize", "", capitalize },
        { "string", "", string },
        { "safe", "", string }, /* nothing is escaped here */
        { "length", "", length },
        { "count", "", length },
        { "replace", "old! new! count", replace },
        { "default", "default_value boolean", fallback },
        { "d", "default_value boolean", fallback },
        { "indent", "width first blank", indent },
        { "int", "default base", to_int },
        { "float", "default", to_float },
        { "abs", "", absolute },
        { "round", "precision method", round_filter },
        { "tojson", "ensure_ascii indent separators sort_keys", tojson },
        { "attr", "name!", attr },
    };
    const sc_jbuiltin *found = sc_j_find_in(filters, sizeof filters / sizeof *filters, name);
    return found ? found : sc_j_find_sequence_filter(name);
}
