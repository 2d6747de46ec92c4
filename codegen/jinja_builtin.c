/* jinja_builtin.c - calling what has a fixed name; functions. See jinja_builtin.h. */
#include "jinja_builtin.h"

#include <string.h>

/* The place of the parameter called name, -1: there is none; *required of number index. */
static int parameter_named(const char *parameters, const char *name) {
    int index = 0;
    for (const char *at = parameters; *at; index++) {
        const size_t bytes = strcspn(at, " !");
        if (bytes == strlen(name) && !memcmp(at, name, bytes))
            return index;
        at += bytes;
        at += strspn(at, " !");
    }
    return -1;
}

static bool bind(sc_jrun *run, const char *what, const sc_jbuiltin *b, sc_jvalue *to,
                 const sc_jarguments *all) {
    int index = 0, given = 0;
    for (; given < all->count && !all->name[given]; given++)
        if (given < SC_J_MOST_PARAMETERS)
            to[given] = all->value[given];
    for (int i = given; i < all->count; i++) {
        const int place = parameter_named(b->parameters, all->name[i]);
        if (place < 0 || to[place].type != SC_J_UNSET) {
            sc_j_fail(run, "%s%s takes no argument %s", what, b->name, all->name[i]);
            return false;
        }
        to[place] = all->value[i];
    }
    for (const char *at = b->parameters; *at; index++) {
        const size_t bytes = strcspn(at, " !");
        if (at[bytes] == '!' && to[index].type == SC_J_UNSET) {
            sc_j_fail(run, "%s%s lacks its argument %.*s", what, b->name, (int)bytes, at);
            return false;
        }
        at += bytes;
        at += strspn(at, " !");
    }
    if (given > index)
        sc_j_fail(run, "%s%s takes no argument number %d", what, b->name, index + 1);
    return !run->rc;
}

sc_jvalue sc_j_apply(sc_jrun *run, const char *what, const sc_jbuiltin *builtin, sc_jvalue self,
                     const sc_jarguments *arguments) {
    sc_jvalue to[SC_J_MOST_PARAMETERS] = { { 0 } };
    if (run->rc || (*builtin->parameters != '*' && !bind(run, what, builtin, to, arguments)))
        return sc_j_undefined("");
    run->called = builtin->name;
    return builtin->function(run, self, to, arguments);
}

const sc_jbuiltin *sc_j_find_in(const sc_jbuiltin *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}

#define FUNCTION(name)                                                                             \
    static sc_jvalue name(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument,                 \
                          const sc_jarguments *all)

FUNCTION(raise_exception) {
    (void)self, (void)all;
    const sc_jvalue text = sc_j_str(run, argument[0]);
    return sc_j_fail(run, "%.*s", (int)(text.bytes < 400 ? text.bytes : 400), text.text);
}

FUNCTION(strftime_now) {
    (void)self, (void)all;
    const sc_jvalue format = sc_j_want_string(run, "strftime_now: the format", argument[0]);
    char text[256], out[1024];
    struct tm now;
    if (run->rc)
        return format;
    if (format.bytes >= sizeof text - 1 || !localtime_r(&run->now, &now))
        return sc_j_fail(run, "strftime_now: the format is too long");
    memcpy(text, format.text, format.bytes);
    memcpy(text + format.bytes, "x",
           2); /* strftime says 0 of what is empty, and of too little room */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t bytes = strftime(out, sizeof out, text, &now);
#pragma GCC diagnostic pop
    if (!bytes)
        return sc_j_fail(run, "strftime_now: the date is too long");
    char *copy = sc_j_alloc(run, bytes, 1);
    return copy ? sc_j_string(memcpy(copy, out, bytes - 1), bytes - 1) : sc_j_undefined("");
}

FUNCTION(range) {
    enum { MOST = 100000 };
    (void)self, (void)all;
    const bool one = argument[1].type == SC_J_UNSET;
    int64_t from = one ? 0 : sc_j_want_int(run, "range: the start", argument[0], 0);
    const int64_t to = sc_j_want_int(run, "range: the end", argument[!one], 0),
                  by = sc_j_want_int(run, "range: the step", argument[2], 1);
    const sc_jvalue list = sc_j_list(run, SC_J_PLAIN);
    if (!by)
        return sc_j_fail(run, "range: the step is 0");
    for (int n = 0; (by > 0 ? from < to : from > to) && !run->rc; n++) {
        if (n == MOST)
            return sc_j_fail(run, "range: more than %d numbers", MOST);
        sc_j_append(run, list, sc_j_int(from));
        if (__builtin_add_overflow(from, by, &from))
            break;
    }
    return list;
}

static sc_jvalue from_arguments(sc_jrun *run, sc_jtype type, const sc_jarguments *all) {
    const sc_jvalue made = sc_j_dict(run, type);
    for (int i = 0; i < all->count && !run->rc; i++) {
        const sc_jvalue v = all->value[i];
        if (all->name[i]) {
            sc_j_set(run, made, sc_j_string(all->name[i], strlen(all->name[i])), v);
            continue;
        }
        if (v.type != SC_J_DICT || i)
            return sc_j_fail(run, "%s: what is copied is no dict",
                             type == SC_J_DICT ? "dict" : "namespace");
        for (size_t j = 0; j < v.dict->count && !run->rc; j++)
            sc_j_set(run, made, v.dict->pair[j].key, v.dict->pair[j].value);
    }
    return made;
}

FUNCTION(namespace) {
    (void)self, (void)argument;
    return from_arguments(run, SC_J_NAMESPACE, all);
}

FUNCTION(dict) {
    (void)self, (void)argument;
    return from_arguments(run, SC_J_DICT, all);
}

FUNCTION(beyond) {
    (void)argument, (void)all;
    return sc_j_fail(run, "%s is beyond the subset (docs/chat.md)", self.text);
}

const sc_jbuiltin *sc_j_find_function(const char *name) {
    static const sc_jbuiltin functions[] = {
        { "raise_exception", "message!", raise_exception },
        { "strftime_now", "format!", strftime_now },
        { "range", "start! stop step", range },
        { "namespace", "*", namespace },
        { "dict", "*", dict },
        { "lipsum", "*", beyond },
        { "cycler", "*", beyond },
        { "joiner", "*", beyond },
    };
    return sc_j_find_in(functions, sizeof functions / sizeof *functions, name);
}
