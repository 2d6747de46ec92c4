/* jinja_text.c - str() and repr() as Python writes them; see jinja_value.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_unicode.h"

/* The shortest decimal that reads back as the same double, with an exponent from 1e16 and below
 * 1e-4. */
void sc_j_put_float(sc_jrun *run, sc_jtext *text, double real) {
    enum { DIGITS = 17 };
    char shortest[DIGITS + 16], out[64];
    if (isnan(real) || isinf(real)) {
        sc_j_puts(run, text, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = 0; precision < DIGITS; precision++) {
        snprintf(shortest, sizeof shortest, "%.*e", precision, real);
        const double back = strtod(shortest, NULL);
        if (!(back < real) && !(back > real))
            break;
    }
    char *mark = strchr(shortest, 'e');
    const int exponent = atoi(mark + 1);
    if (exponent < -4 || exponent >= 16) {
        sc_j_puts(run, text, shortest);
        return;
    }
    *mark = 0;
    const int digits = (int)strlen(shortest) - (*shortest == '-') - (strchr(shortest, '.') != NULL);
    const int places = digits - 1 - exponent;
    snprintf(out, sizeof out, "%.*f", places < 1 ? 1 : places, real);
    sc_j_puts(run, text, out);
}

static void put_repr_string(sc_jrun *run, sc_jtext *text, sc_jvalue s) {
    const char quote = memchr(s.text, '\'', s.bytes) && !memchr(s.text, '"', s.bytes) ? '"' : '\'';
    sc_j_put(run, text, &quote, 1);
    for (size_t at = 0, n; at < s.bytes && !run->rc; at += n) {
        int32_t code;
        char out[16];
        n = sc_j_char(s.text + at, &code);
        if (code == quote || code == '\\')
            snprintf(out, sizeof out, "\\%c", (char)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            snprintf(out, sizeof out, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (sc_j_printable(code)) {
            sc_j_put(run, text, s.text + at, n);
            continue;
        } else if (code < 0x100)
            snprintf(out, sizeof out, "\\x%02x", (unsigned)code);
        else if (code < 0x10000)
            snprintf(out, sizeof out, "\\u%04x", (unsigned)code);
        else
            snprintf(out, sizeof out, "\\U%08x", (unsigned)code);
        sc_j_puts(run, text, out);
    }
    sc_j_put(run, text, &quote, 1);
}

static void put_repr(sc_jrun *run, sc_jtext *text, sc_jvalue v);

static void put_list(sc_jrun *run, sc_jtext *text, const sc_jlist *list) {
    static const char *const open[] = {
        "[", "(", "<generator", "dict_keys([", "dict_values([", "dict_items(["
    };
    static const char *const close[] = { "]", ")", ">", "])", "])", "])" };
    sc_j_puts(run, text, open[list->kind]);
    if (list->kind != SC_J_GENERATOR)
        for (size_t i = 0; i < list->count && !run->rc; i++) {
            sc_j_puts(run, text, i ? ", " : "");
            put_repr(run, text, list->item[i]);
        }
    if (list->kind == SC_J_TUPLE && list->count == 1)
        sc_j_puts(run, text, ",");
    sc_j_puts(run, text, close[list->kind]);
}

static void put_dict(sc_jrun *run, sc_jtext *text, const sc_jdict *dict) {
    sc_j_puts(run, text, "{");
    for (size_t i = 0; i < dict->count && !run->rc; i++) {
        sc_j_puts(run, text, i ? ", " : "");
        put_repr(run, text, dict->pair[i].key);
        sc_j_puts(run, text, ": ");
        put_repr(run, text, dict->pair[i].value);
    }
    sc_j_puts(run, text, "}");
}

static void put_nested(sc_jrun *run, sc_jtext *text, sc_jvalue v) {
    if (run->depth >= SC_J_MOST_DEPTH) {
        sc_j_fail(run, "prints a value that nests deeper than %d", SC_J_MOST_DEPTH);
        return;
    }
    run->depth++;
    if (v.type == SC_J_LIST)
        put_list(run, text, v.list);
    else if (v.type == SC_J_DICT)
        put_dict(run, text, v.dict);
    else {
        sc_j_puts(run, text, "<Namespace ");
        put_dict(run, text, v.dict);
        sc_j_puts(run, text, ">");
    }
    run->depth--;
}

static void put_repr(sc_jrun *run, sc_jtext *text, sc_jvalue v) {
    if (v.type == SC_J_STRING)
        put_repr_string(run, text, v);
    else if (v.type == SC_J_UNDEFINED)
        sc_j_puts(run, text, "Undefined");
    else
        sc_j_put_str(run, text, v);
}

void sc_j_put_str(sc_jrun *run, sc_jtext *text, sc_jvalue v) {
    char out[32];
    if (!sc_j_step(run, 1))
        return;
    switch (v.type) {
    case SC_J_UNSET:
    case SC_J_UNDEFINED:
        break;
    case SC_J_NONE:
        sc_j_puts(run, text, "None");
        break;
    case SC_J_BOOL:
        sc_j_puts(run, text, v.truth ? "True" : "False");
        break;
    case SC_J_INT:
        snprintf(out, sizeof out, "%" PRId64, v.integer);
        sc_j_puts(run, text, out);
        break;
    case SC_J_FLOAT:
        sc_j_put_float(run, text, v.real);
        break;
    case SC_J_STRING:
        sc_j_put(run, text, v.text, v.bytes);
        break;
    case SC_J_LIST:
    case SC_J_DICT:
    case SC_J_NAMESPACE:
        put_nested(run, text, v);
        break;
    case SC_J_LOOP:
    case SC_J_CALLABLE:
        sc_j_fail(run, "%s cannot be printed", sc_j_type_name(v));
    }
}

sc_jvalue sc_j_str(sc_jrun *run, sc_jvalue v) {
    if (v.type == SC_J_STRING)
        return v;
    sc_jtext text = { 0 };
    sc_j_put_str(run, &text, v);
    return sc_j_finish(&text);
}
