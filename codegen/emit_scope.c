/* emit_scope.c - see emit_scope.h. */
#include "emit_scope.h"

#include <string.h>

void sc_scope_text(sc_scope *s, const char *name, const char *value) {
    if (!s->rc)
        s->rc = value ? sc_values_set(s->values, name, value) : SC_EENV;
}

void sc_scope_number(sc_scope *s, const char *name, int64_t value) {
    if (!s->rc)
        s->rc = sc_values_int(s->values, name, value);
}

void sc_scope_real(sc_scope *s, const char *name, float value) {
    if (!s->rc)
        s->rc = sc_values_float(s->values, name, value);
}

void sc_scope_flag(sc_scope *s, const char *name, bool value) {
    if (!s->rc)
        s->rc = sc_values_flag(s->values, name, value);
}

sc_scope sc_scope_item(sc_scope *s, const char *list) {
    sc_scope next = { s->pool, s->rc ? NULL : sc_values_add(s->values, list), s->rc };
    if (!next.rc && !next.values)
        next.rc = s->rc = SC_EENV;
    return next;
}

const char *sc_blanks(sc_pool *pool, const char *text) {
    return text ? sc_pool_printf(pool, "%*s", (int)strlen(text), "") : NULL;
}

const char *sc_identifier(sc_pool *pool, const char *text) {
    char *made = sc_pool_strdup(pool, text);
    for (char *c = made; c && *(c += strspn(c, SC_IDENTIFIER));)
        *c = '_';
    return made;
}

const char *sc_layer_list(sc_pool *pool, int layers, const int *kind, int wanted) {
    enum { WIDTH = 48 };
    char *text = NULL;
    int count = 0;
    for (int i = 0; i < layers; i++) {
        if (kind[i] != wanted)
            continue;
        int last = i;
        while (last + 1 < layers && kind[last + 1] == wanted)
            last++;
        const char *line = text ? strrchr(text, '\n') : NULL;
        const char *comma = !text ? "" : strlen(line ? line : text) > WIDTH ? ",\n * " : ", ";
        text = last > i ? sc_pool_printf(pool, "%s%s%d-%d", text ? text : "", comma, i, last)
                        : sc_pool_printf(pool, "%s%s%d", text ? text : "", comma, i);
        if (!text)
            return NULL;
        count += last - i + 1;
        i = last;
    }
    return text ? sc_pool_printf(pool, "%s %s", count > 1 ? "Layers" : "Layer", text) : NULL;
}
