/* jinja_value.c - see jinja_value.h. */
#include "jinja_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja_unicode.h"

sc_jvalue sc_j_fail(sc_jrun *run, const char *format, ...) {
    if (!run->rc) {
        char reason[512];
        va_list args;
        va_start(args, format);
        vsnprintf(reason, sizeof reason, format, args);
        va_end(args);
        run->rc = sc_fail(run->err, SC_EINPUT, "%s:%d: %s", run->name, run->line, reason);
    }
    return sc_j_undefined("");
}

bool sc_j_step(sc_jrun *run, size_t work) {
    if (run->rc)
        return false;
    if (work >= (size_t)run->steps) {
        sc_j_fail(run, "takes too many steps (a template may make 5 million)");
        return false;
    }
    run->steps -= (int64_t)work;
    return true;
}

void *sc_j_alloc(sc_jrun *run, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - 16 ||
        bytes + 16 > run->bytes) {
        sc_j_fail(run, "needs too much memory (a template may take 64 MiB)");
        return NULL;
    }
    if (!sc_j_step(run, bytes / 64))
        return NULL;
    void *memory = sc_pool_alloc(run->pool, count, size);
    if (!memory) {
        run->rc = sc_oom(run->err, "rendering a chat template");
        return NULL;
    }
    run->bytes -= bytes + 16;
    return memory;
}

/* Room for one more of size bytes: NULL and a failure, or the array, moved when it was full. */
static void *grow(sc_jrun *run, void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    const size_t wanted = *room ? 2 * *room : 8;
    void *bigger = sc_j_alloc(run, wanted, size);
    if (!bigger)
        return NULL;
    if (count)
        memcpy(bigger, array, count * size);
    *room = wanted;
    return bigger;
}

void sc_j_put(sc_jrun *run, sc_jtext *text, const char *bytes, size_t count) {
    if (run->rc || !count)
        return;
    if (count > SC_J_MOST_OUTPUT - text->count) {
        sc_j_fail(run, "makes too long a text (16 MiB at most)");
        return;
    }
    if (text->count + count > text->room) {
        const size_t room = 2 * (text->count + count) + 64;
        char *bigger = sc_j_alloc(run, room, 1);
        if (!bigger)
            return;
        if (text->count)
            memcpy(bigger, text->bytes, text->count);
        text->bytes = bigger;
        text->room = room;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    sc_j_step(run, count / 64);
}

void sc_j_puts(sc_jrun *run, sc_jtext *text, const char *string) {
    sc_j_put(run, text, string, strlen(string));
}

sc_jvalue sc_j_finish(const sc_jtext *text) {
    return sc_j_string(text->bytes ? text->bytes : "", text->count);
}

sc_jvalue sc_j_list(sc_jrun *run, sc_jkind kind) {
    sc_jlist *list = sc_j_alloc(run, 1, sizeof *list);
    if (!list)
        return sc_j_undefined("");
    list->kind = kind;
    return (sc_jvalue){ .type = SC_J_LIST, .list = list };
}

sc_jvalue sc_j_dict(sc_jrun *run, sc_jtype type) {
    sc_jdict *dict = sc_j_alloc(run, 1, sizeof *dict);
    return dict ? (sc_jvalue){ .type = type, .dict = dict } : sc_j_undefined("");
}

void sc_j_append(sc_jrun *run, sc_jvalue list, sc_jvalue item) {
    if (run->rc)
        return;
    sc_jvalue *items =
        grow(run, list.list->item, list.list->count, &list.list->room, sizeof *items);
    if (!items)
        return;
    list.list->item = items;
    items[list.list->count++] = item;
}

static sc_jpair *find_pair(sc_jrun *run, sc_jvalue dict, sc_jvalue key) {
    if (!sc_j_step(run, dict.dict->count / 8))
        return NULL;
    for (size_t i = 0; i < dict.dict->count; i++)
        if (sc_j_equal(run, dict.dict->pair[i].key, key))
            return &dict.dict->pair[i];
    return NULL;
}

void sc_j_set(sc_jrun *run, sc_jvalue dict, sc_jvalue key, sc_jvalue value) {
    if (run->rc)
        return;
    if (key.type == SC_J_UNDEFINED || key.type > SC_J_STRING) {
        sc_j_fail(run, "a key of a dict is %s (only strings, numbers and none can be)",
                  sc_j_type_name(key));
        return;
    }
    sc_jpair *old = find_pair(run, dict, key);
    if (old)
        old->value = value;
    if (old || run->rc)
        return;
    sc_jpair *pairs = grow(run, dict.dict->pair, dict.dict->count, &dict.dict->room, sizeof *pairs);
    if (!pairs)
        return;
    dict.dict->pair = pairs;
    pairs[dict.dict->count++] = (sc_jpair){ key, value };
}

sc_jvalue sc_j_pair(sc_jrun *run, sc_jvalue first, sc_jvalue second) {
    const sc_jvalue pair = sc_j_list(run, SC_J_TUPLE);
    sc_j_append(run, pair, first);
    sc_j_append(run, pair, second);
    return pair;
}

bool sc_j_is_string(sc_jvalue v, const char *text) {
    return v.type == SC_J_STRING && v.bytes == strlen(text) && !memcmp(v.text, text, v.bytes);
}

bool sc_j_truth(sc_jvalue v) {
    switch (v.type) {
    case SC_J_BOOL:
        return v.truth;
    case SC_J_INT:
        return v.integer != 0;
    case SC_J_FLOAT:
        return v.real < 0 || v.real > 0 || isnan(v.real);
    case SC_J_STRING:
        return v.bytes > 0;
    case SC_J_LIST:
        return v.list->kind == SC_J_GENERATOR || v.list->count;
    case SC_J_DICT:
        return v.dict->count > 0;
    case SC_J_NAMESPACE:
    case SC_J_LOOP:
    case SC_J_CALLABLE:
        return true;
    case SC_J_UNSET:
    case SC_J_UNDEFINED:
    case SC_J_NONE:
        break;
    }
    return false;
}

bool sc_j_integer(sc_jvalue v, int64_t *integer) {
    if (v.type != SC_J_INT && v.type != SC_J_BOOL)
        return false;
    *integer = v.type == SC_J_INT ? v.integer : v.truth;
    return true;
}

bool sc_j_number(sc_jvalue v, double *number) {
    int64_t integer;
    if (v.type == SC_J_FLOAT)
        *number = v.real;
    else if (sc_j_integer(v, &integer))
        *number = (double)integer;
    else
        return false;
    return true;
}

const sc_jvalue *sc_j_find(sc_jrun *run, sc_jvalue dict, sc_jvalue key) {
    const sc_jpair *pair = find_pair(run, dict, key);
    return pair ? &pair->value : NULL;
}

static bool equal_lists(sc_jrun *run, const sc_jlist *a, const sc_jlist *b) {
    if (a == b)
        return true;
    if (a->kind != b->kind || a->kind == SC_J_GENERATOR || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!sc_j_equal(run, a->item[i], b->item[i]))
            return false;
    return true;
}

static bool equal_dicts(sc_jrun *run, sc_jvalue a, sc_jvalue b) {
    if (a.dict->count != b.dict->count)
        return false;
    for (size_t i = 0; i < a.dict->count; i++) {
        const sc_jvalue *other = sc_j_find(run, b, a.dict->pair[i].key);
        if (!other || !sc_j_equal(run, a.dict->pair[i].value, *other))
            return false;
    }
    return true;
}

static bool nest(sc_jrun *run) {
    if (run->depth >= SC_J_MOST_DEPTH)
        sc_j_fail(run, "nests deeper than %d", SC_J_MOST_DEPTH);
    return !run->rc;
}

bool sc_j_equal(sc_jrun *run, sc_jvalue a, sc_jvalue b) {
    int64_t i, j;
    double x, y;
    if (!sc_j_step(run, 1))
        return false;
    if (sc_j_integer(a, &i) && sc_j_integer(b, &j))
        return i == j;
    if (sc_j_number(a, &x) && sc_j_number(b, &y))
        return !(x < y) && !(x > y) && !isnan(x) && !isnan(y);
    if (a.type != b.type)
        return false;
    bool equal = false;
    switch (a.type) {
    case SC_J_STRING:
        return a.bytes == b.bytes && sc_j_step(run, a.bytes / 64) &&
               !memcmp(a.text, b.text, a.bytes);
    case SC_J_LIST:
    case SC_J_DICT:
        if (!nest(run))
            return false;
        run->depth++;
        equal = a.type == SC_J_LIST ? equal_lists(run, a.list, b.list) : equal_dicts(run, a, b);
        run->depth--;
        return equal;
    case SC_J_NAMESPACE:
        return a.dict == b.dict;
    case SC_J_LOOP:
        return a.loop == b.loop;
    case SC_J_CALLABLE:
        return a.callable == b.callable;
    default:
        return true; /* undefined, none */
    }
}

static int sign(int64_t n) { return n > 0 ? 1 : n < 0 ? -1 : 0; }

static int order_lists(sc_jrun *run, const sc_jlist *a, const sc_jlist *b) {
    for (size_t i = 0; i < a->count && i < b->count && !run->rc; i++)
        if (!sc_j_equal(run, a->item[i], b->item[i]))
            return sc_j_order(run, a->item[i], b->item[i]);
    return a->count < b->count ? -1 : a->count > b->count;
}

int sc_j_order(sc_jrun *run, sc_jvalue a, sc_jvalue b) {
    int64_t i, j;
    double x, y;
    if (!sc_j_step(run, 1))
        return 0;
    if (sc_j_integer(a, &i) && sc_j_integer(b, &j))
        return i < j ? -1 : i > j;
    if (sc_j_number(a, &x) && sc_j_number(b, &y))
        return x < y ? -1 : x > y;
    if (a.type == SC_J_STRING && b.type == SC_J_STRING) { /* UTF-8 sorts as its code points do */
        const size_t least = a.bytes < b.bytes ? a.bytes : b.bytes;
        sc_j_step(run, least / 64);
        const int c = memcmp(a.text, b.text, least);
        return c ? sign(c) : a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
    }
    if (a.type == SC_J_LIST && b.type == SC_J_LIST && a.list->kind == b.list->kind &&
        a.list->kind <= SC_J_TUPLE && nest(run)) {
        run->depth++;
        const int order = order_lists(run, a.list, b.list);
        run->depth--;
        return order;
    }
    sc_j_fail(run, "%s and %s have no order", sc_j_type_name(a), sc_j_type_name(b));
    return 0;
}

const char *sc_j_type_name(sc_jvalue v) {
    static const char *const names[] = { "nothing", "undefined", "None", "bool",
                                         "int",     "float",     "str",  "list",
                                         "dict",    "namespace", "loop", "a function" };
    static const char *const kinds[] = { "list",      "tuple",       "generator",
                                         "dict_keys", "dict_values", "dict_items" };
    return v.type == SC_J_LIST ? kinds[v.list->kind] : names[v.type];
}

static bool list_items(sc_jrun *run, sc_jvalue all, sc_jvalue **item, size_t *count) {
    if (run->rc)
        return false;
    *item = all.list->item;
    *count = all.list->count;
    return sc_j_step(run, *count / 8);
}

bool sc_j_items(sc_jrun *run, sc_jvalue v, sc_jvalue **item, size_t *count) {
    *item = NULL;
    *count = 0;
    if (v.type == SC_J_LIST) {
        const bool fine = list_items(run, v, item, count);
        if (v.list->kind == SC_J_GENERATOR)
            *v.list = (sc_jlist){ .kind = SC_J_GENERATOR };
        return fine;
    }
    if (v.type == SC_J_UNDEFINED)
        return !run->rc;
    if (v.type != SC_J_DICT && v.type != SC_J_STRING) {
        sc_j_fail(run, "%s cannot be walked over", sc_j_type_name(v));
        return false;
    }
    const sc_jvalue all = sc_j_list(run, SC_J_PLAIN);
    if (v.type == SC_J_DICT)
        for (size_t i = 0; i < v.dict->count && !run->rc; i++)
            sc_j_append(run, all, v.dict->pair[i].key);
    else
        for (size_t at = 0, n; at < v.bytes && !run->rc; at += n) {
            int32_t code;
            n = sc_j_char(v.text + at, &code);
            sc_j_append(run, all, sc_j_string(v.text + at, n));
        }
    return list_items(run, all, item, count);
}

int64_t sc_j_length(sc_jrun *run, sc_jvalue v) {
    if (v.type == SC_J_STRING) {
        sc_j_step(run, v.bytes / 16);
        return (int64_t)sc_j_chars(v.text, v.bytes);
    }
    if (v.type == SC_J_LIST && v.list->kind != SC_J_GENERATOR)
        return (int64_t)v.list->count;
    if (v.type == SC_J_DICT)
        return (int64_t)v.dict->count;
    if (v.type == SC_J_UNDEFINED)
        return 0;
    sc_j_fail(run, "%s has no length", sc_j_type_name(v));
    return -1;
}
