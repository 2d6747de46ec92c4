/* jinja_sequences.c - filters of many values. See jinja_builtin.h. */
#include <string.h>

#include "jinja_builtin.h"
#include "jinja_unicode.h"

#define FILTER(name)                                                                               \
    static sc_jvalue name(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument,                 \
                          const sc_jarguments *all)

static bool given(sc_jvalue v) { return v.type != SC_J_UNSET && v.type != SC_J_NONE; }
static bool asked(sc_jvalue v) { return v.type != SC_J_UNSET && sc_j_truth(v); }

/* The item, or what attribute names of it. */
static sc_jvalue part(sc_jrun *run, sc_jvalue item, sc_jvalue attribute) {
    return given(attribute) ? sc_j_path(run, item, attribute) : item;
}

FILTER(first) {
    (void)argument, (void)all;
    sc_jvalue *item;
    size_t count;
    return sc_j_items(run, self, &item, &count) && count ? *item
                                                         : sc_j_undefined("the first of nothing");
}

FILTER(last) {
    (void)argument, (void)all;
    sc_jvalue *item;
    size_t count;
    if (self.type == SC_J_LIST && self.list->kind == SC_J_GENERATOR)
        return sc_j_fail(run, "last: a generator cannot be walked backwards");
    return sc_j_items(run, self, &item, &count) && count ? item[count - 1]
                                                         : sc_j_undefined("the last of nothing");
}

FILTER(join) {
    (void)all;
    sc_jvalue *item;
    size_t count;
    sc_jtext text = { 0 };
    const sc_jvalue between =
        argument[0].type == SC_J_UNSET ? sc_j_string("", 0) : sc_j_str(run, argument[0]);
    if (!sc_j_items(run, self, &item, &count))
        return self;
    for (size_t i = 0; i < count && !run->rc; i++) {
        if (i)
            sc_j_put(run, &text, between.text, between.bytes);
        sc_j_put_str(run, &text, part(run, item[i], argument[1]));
    }
    return sc_j_finish(&text);
}

static sc_jvalue as_list(sc_jrun *run, sc_jkind kind, const sc_jvalue *item, size_t count) {
    const sc_jvalue made = sc_j_list(run, kind);
    for (size_t i = 0; i < count && !run->rc; i++)
        sc_j_append(run, made, item[i]);
    return made;
}

FILTER(list) {
    (void)argument, (void)all;
    sc_jvalue *item;
    size_t count;
    return sc_j_items(run, self, &item, &count) ? as_list(run, SC_J_PLAIN, item, count) : self;
}

FILTER(items) {
    (void)argument, (void)all;
    if (self.type != SC_J_DICT && self.type != SC_J_UNDEFINED)
        return sc_j_fail(run, "items of %s", sc_j_type_name(self));
    const sc_jvalue made = sc_j_list(run, SC_J_GENERATOR);
    for (size_t i = 0; self.type == SC_J_DICT && i < self.dict->count && !run->rc; i++)
        sc_j_append(run, made, sc_j_pair(run, self.dict->pair[i].key, self.dict->pair[i].value));
    return made;
}

FILTER(reverse) {
    (void)argument, (void)all;
    sc_jvalue *item;
    size_t count;
    if (!sc_j_items(run, self, &item, &count))
        return self;
    if (self.type != SC_J_STRING) {
        const sc_jvalue made = sc_j_list(run, SC_J_GENERATOR);
        for (size_t i = count; i && !run->rc; i--)
            sc_j_append(run, made, item[i - 1]);
        return made;
    }
    sc_jtext text = { 0 };
    for (size_t i = count; i && !run->rc; i--)
        sc_j_put(run, &text, item[i - 1].text, item[i - 1].bytes);
    return sc_j_finish(&text);
}

/* What is compared when an item is sorted: texts without their case, unless it matters. */
typedef struct {
    sc_jvalue key, item;
} keyed;

static sc_jvalue folded(sc_jrun *run, sc_jvalue v, bool cased) {
    return v.type == SC_J_STRING && !cased ? sc_j_recase(run, v, SC_J_LOWER) : v;
}

/* Merges runs of twice the length, again and again: stable. */
static keyed *sorted(sc_jrun *run, keyed *from, size_t count, bool down) {
    keyed *to = sc_j_alloc(run, count, sizeof *to);
    for (size_t width = 1; width < count && !run->rc; width *= 2) {
        for (size_t begin = 0; begin < count && !run->rc; begin += 2 * width) {
            const size_t middle = begin + width < count ? begin + width : count,
                         end = begin + 2 * width < count ? begin + 2 * width : count;
            size_t a = begin, b = middle;
            for (size_t i = begin; i < end; i++) {
                int order = a < middle && b < end ? sc_j_order(run, from[b].key, from[a].key) : 0;
                order = down ? -order : order;
                to[i] = b == end || (a < middle && order >= 0) ? from[a++] : from[b++];
            }
        }
        keyed *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static sc_jvalue sort_keyed(sc_jrun *run, keyed *pairs, size_t count, bool down) {
    const sc_jvalue made = sc_j_list(run, SC_J_PLAIN);
    if (!run->rc && count)
        pairs = sorted(run, pairs, count, down);
    for (size_t i = 0; i < count && !run->rc; i++)
        sc_j_append(run, made, pairs[i].item);
    return made;
}

FILTER(sort) {
    (void)all;
    sc_jvalue *item;
    size_t count;
    if (argument[2].type == SC_J_STRING && memchr(argument[2].text, ',', argument[2].bytes))
        return sc_j_fail(run, "sort by several attributes is beyond the subset (docs/chat.md)");
    if (!sc_j_items(run, self, &item, &count))
        return self;
    keyed *pairs = sc_j_alloc(run, count, sizeof *pairs);
    for (size_t i = 0; pairs && i < count && !run->rc; i++)
        pairs[i] =
            (keyed){ folded(run, part(run, item[i], argument[2]), asked(argument[1])), item[i] };
    return sort_keyed(run, pairs, count, asked(argument[0]));
}

FILTER(dictsort) {
    (void)all;
    const bool by_value = argument[1].type != SC_J_UNSET && sc_j_is_string(argument[1], "value");
    if (self.type != SC_J_DICT)
        return sc_j_fail(run, "dictsort of %s", sc_j_type_name(self));
    keyed *pairs = sc_j_alloc(run, self.dict->count, sizeof *pairs);
    for (size_t i = 0; pairs && i < self.dict->count && !run->rc; i++) {
        const sc_jpair p = self.dict->pair[i];
        pairs[i] = (keyed){ folded(run, by_value ? p.value : p.key, asked(argument[0])),
                            sc_j_pair(run, p.key, p.value) };
    }
    return sort_keyed(run, pairs, self.dict->count, asked(argument[2]));
}

FILTER(unique) {
    (void)all;
    sc_jvalue *item;
    size_t count;
    const sc_jvalue made = sc_j_list(run, SC_J_GENERATOR), seen = sc_j_list(run, SC_J_PLAIN);
    if (!sc_j_items(run, self, &item, &count))
        return self;
    for (size_t i = 0; i < count && !run->rc; i++) {
        const sc_jvalue key = folded(run, part(run, item[i], argument[1]), asked(argument[0]));
        if (sc_j_contains(run, seen, key))
            continue;
        sc_j_append(run, seen, key);
        sc_j_append(run, made, item[i]);
    }
    return made;
}

static sc_jvalue extreme(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument, int sign) {
    sc_jvalue *item, best = sc_j_undefined("the greatest or least of nothing"), key = best;
    size_t count;
    if (!sc_j_items(run, self, &item, &count))
        return self;
    for (size_t i = 0; i < count && !run->rc; i++) {
        const sc_jvalue one = folded(run, part(run, item[i], argument[1]), asked(argument[0]));
        if (i && sign * sc_j_order(run, one, key) <= 0)
            continue;
        best = item[i];
        key = one;
    }
    return best;
}

FILTER(greatest) {
    (void)all;
    return extreme(run, self, argument, 1);
}

FILTER(least) {
    (void)all;
    return extreme(run, self, argument, -1);
}

FILTER(sum) {
    (void)all;
    sc_jvalue *item, total = argument[1].type == SC_J_UNSET ? sc_j_int(0) : argument[1];
    size_t count;
    if (!sc_j_items(run, self, &item, &count))
        return self;
    for (size_t i = 0; i < count && !run->rc; i++)
        total = sc_j_binary(run, SC_J_ADD, total, part(run, item[i], argument[0]));
    return total;
}

static const sc_jvalue *named(const sc_jarguments *all, const char *name) {
    for (int i = 0; i < all->count; i++)
        if (all->name[i] && !strcmp(all->name[i], name))
            return &all->value[i];
    return NULL;
}

/* What is left of the arguments behind the first count ones. */
static sc_jarguments behind(const sc_jarguments *all, int count) {
    return (sc_jarguments){ all->count - count, all->name + count, all->value + count };
}

/* The builtin that argument number index names. */
static const sc_jbuiltin *builtin_at(sc_jrun *run, const sc_jarguments *all, int index,
                                     const char *kind,
                                     const sc_jbuiltin *(*find)(const char *name)) {
    char name[64] = "";
    if (index < all->count && !all->name[index] && all->value[index].type == SC_J_STRING &&
        all->value[index].bytes < sizeof name)
        memcpy(name, all->value[index].text, all->value[index].bytes);
    const sc_jbuiltin *found = find(name);
    if (!found)
        sc_j_fail(run, "the %s %s is beyond the subset (docs/chat.md)", kind, name);
    return found;
}

/* map(attribute=a, default=d), or map("filter", …). What is false has no items, here and below. */
FILTER(map) {
    (void)argument;
    sc_jvalue *item;
    size_t count;
    const sc_jvalue made = sc_j_list(run, SC_J_GENERATOR);
    const sc_jvalue *attribute = named(all, "attribute"), *fallback = named(all, "default");
    const sc_jbuiltin *filter =
        attribute ? NULL : builtin_at(run, all, 0, "filter", sc_j_find_filter);
    if (run->rc || !sc_j_truth(self) || !sc_j_items(run, self, &item, &count))
        return made;
    for (size_t i = 0; i < count && !run->rc; i++) {
        const sc_jarguments rest = filter ? behind(all, 1) : *all;
        sc_jvalue one = filter ? sc_j_apply(run, "the filter ", filter, item[i], &rest)
                               : sc_j_path(run, item[i], *attribute);
        if (!filter && fallback && one.type == SC_J_UNDEFINED)
            one = *fallback;
        sc_j_append(run, made, one);
    }
    return made;
}

/* Those that a test, or truth, answers with wanted; of an attribute: argument 0 names it. */
static sc_jvalue choose(sc_jrun *run, sc_jvalue self, const sc_jarguments *all, bool attribute,
                        bool wanted) {
    sc_jvalue *item;
    size_t count;
    const sc_jvalue made = sc_j_list(run, SC_J_GENERATOR);
    if (attribute && (!all->count || all->name[0]))
        return sc_j_fail(run, "selectattr and rejectattr want an attribute's name");
    const bool tested = all->count > attribute;
    const sc_jbuiltin *test =
        tested ? builtin_at(run, all, attribute, "test", sc_j_find_test) : NULL;
    if (run->rc || !sc_j_truth(self) || !sc_j_items(run, self, &item, &count))
        return made;
    for (size_t i = 0; i < count && !run->rc; i++) {
        sc_jvalue one = attribute ? sc_j_path(run, item[i], all->value[0]) : item[i];
        if (tested) {
            const sc_jarguments rest = behind(all, attribute + 1);
            one = sc_j_apply(run, "the test ", test, one, &rest);
        }
        if (sc_j_truth(one) == wanted)
            sc_j_append(run, made, item[i]);
    }
    return made;
}

FILTER(select) {
    (void)argument;
    return choose(run, self, all, false, true);
}

FILTER(reject) {
    (void)argument;
    return choose(run, self, all, false, false);
}

FILTER(selectattr) {
    (void)argument;
    return choose(run, self, all, true, true);
}

FILTER(rejectattr) {
    (void)argument;
    return choose(run, self, all, true, false);
}

const sc_jbuiltin *sc_j_find_sequence_filter(const char *name) {
    static const sc_jbuiltin filters[] = {
        { "first", "", first },
        { "last", "", last },
        { "join", "d attribute", join },
        { "list", "", list },
        { "items", "", items },
        { "reverse", "", reverse },
        { "sort", "reverse case_sensitive attribute", sort },
        { "dictsort", "case_sensitive by reverse", dictsort },
        { "unique", "case_sensitive attribute", unique },
        { "max", "case_sensitive attribute", greatest },
        { "min", "case_sensitive attribute", least },
        { "sum", "attribute start", sum },
        { "map", "*", map },
        { "select", "*", select },
        { "reject", "*", reject },
        { "selectattr", "*", selectattr },
        { "rejectattr", "*", rejectattr },
    };
    return sc_j_find_in(filters, sizeof filters / sizeof *filters, name);
}
