/* jinja_methods.c - methods of texts, dicts, lists and loops. See jinja_builtin.h. */
#include <string.h>

#include "jinja_builtin.h"
#include "jinja_unicode.h"

#define METHOD(name)                                                                               \
    static sc_jvalue name(sc_jrun *run, sc_jvalue self, const sc_jvalue *argument,                 \
                          const sc_jarguments *all)
#define PLAIN(name, value) /* one that looks at its text alone */                                  \
    METHOD(name) {                                                                                 \
        (void)run, (void)argument, (void)all;                                                      \
        return value;                                                                              \
    }

PLAIN(upper, sc_j_recase(run, self, SC_J_UPPER))
PLAIN(lower, sc_j_recase(run, self, SC_J_LOWER))
PLAIN(swapcase, sc_j_recase(run, self, SC_J_SWAP))
PLAIN(title, sc_j_recase(run, self, SC_J_TITLE))
PLAIN(capitalize, sc_j_recase(run, self, SC_J_CAPITALIZE))
PLAIN(str_isalpha, sc_j_bool(sc_j_all(self, SC_J_ALPHA)))
PLAIN(str_isdigit, sc_j_bool(sc_j_all(self, SC_J_DIGIT)))
PLAIN(str_isalnum, sc_j_bool(sc_j_all(self, SC_J_ALNUM)))
PLAIN(str_isspace, sc_j_bool(sc_j_all(self, SC_J_SPACE)))
PLAIN(str_isupper, sc_j_bool(sc_j_all(self, SC_J_IS_UPPER)))
PLAIN(str_islower, sc_j_bool(sc_j_all(self, SC_J_IS_LOWER)))

static sc_jvalue strip_sides(sc_jrun *run, sc_jvalue self, sc_jvalue chars, bool left, bool right) {
    if (chars.type > SC_J_NONE)
        sc_j_want_string(run, "strip: the characters", chars);
    sc_j_step(run, self.bytes / 16);
    return sc_j_strip(self, chars, left, right);
}

METHOD(strip) {
    (void)all;
    return strip_sides(run, self, argument[0], true, true);
}

METHOD(lstrip) {
    (void)all;
    return strip_sides(run, self, argument[0], true, false);
}

METHOD(rstrip) {
    (void)all;
    return strip_sides(run, self, argument[0], false, true);
}

/* The last place of part at which it ends by limit; -1: none. */
static int64_t search_back(sc_jrun *run, sc_jvalue s, sc_jvalue part, size_t limit) {
    for (size_t at = limit >= part.bytes ? limit - part.bytes + 1 : 0; at && !run->rc; at--) {
        sc_j_step(run, 1 + part.bytes / 32);
        if (!memcmp(s.text + at - 1, part.text, part.bytes))
            return (int64_t)at - 1;
    }
    return -1;
}

static sc_jvalue between(sc_jvalue s, size_t begin, size_t end) {
    return sc_j_string(s.text + begin, end - begin);
}

static void turn_round(sc_jvalue list) {
    for (size_t i = 0, j = list.list->count; i + 1 < j; i++) {
        const sc_jvalue swap = list.list->item[i];
        list.list->item[i] = list.list->item[--j];
        list.list->item[j] = swap;
    }
}

/* Words: what white space parts, from the left or from the right. */
static sc_jvalue split_words(sc_jrun *run, sc_jvalue s, int64_t most, bool back) {
    const sc_jvalue list = sc_j_list(run, SC_J_PLAIN), unset = { 0 };
    s = sc_j_strip(s, unset, !back, back);
    while (s.bytes && !run->rc) {
        size_t begin = 0, end = 0;
        int32_t code;
        if (most >= 0 && (int64_t)list.list->count == most) {
            sc_j_append(run, list, s);
            break;
        }
        for (size_t at = 0, n; at < s.bytes; at += n) {
            n = sc_j_char(s.text + at, &code);
            if (sc_j_space(code) && !back)
                break;
            if (sc_j_space(code))
                begin = at + n;
            end = at + n;
        }
        end = back ? s.bytes : end;
        sc_j_step(run, s.bytes / 16);
        sc_j_append(run, list, between(s, begin, end));
        s = sc_j_strip(back ? between(s, 0, begin) : between(s, end, s.bytes), unset, !back, back);
    }
    if (back && !run->rc)
        turn_round(list);
    return list;
}

static sc_jvalue split_any(sc_jrun *run, sc_jvalue s, const sc_jvalue *argument, bool back) {
    const int64_t most = sc_j_want_int(run, "split: maxsplit", argument[1], -1);
    if (argument[0].type <= SC_J_NONE && argument[0].type != SC_J_UNDEFINED)
        return split_words(run, s, most, back);
    const sc_jvalue list = sc_j_list(run, SC_J_PLAIN),
                    apart = sc_j_want_string(run, "split: the separator", argument[0]);
    if (!run->rc && !apart.bytes)
        sc_j_fail(run, "split: the separator is empty");
    size_t begin = 0, end = s.bytes;
    while (!run->rc && (most < 0 || (int64_t)list.list->count < most)) {
        const int64_t at =
            back ? search_back(run, s, apart, end) : sc_j_search(run, s, apart, begin);
        if (at < 0)
            break;
        sc_j_append(run, list,
                    back ? between(s, (size_t)at + apart.bytes, end)
                         : between(s, begin, (size_t)at));
        begin = back ? 0 : (size_t)at + apart.bytes;
        end = back ? (size_t)at : s.bytes;
    }
    sc_j_append(run, list, between(s, begin, end));
    if (back && !run->rc)
        turn_round(list);
    return list;
}

METHOD(split) {
    (void)all;
    return split_any(run, self, argument, false);
}

METHOD(rsplit) {
    (void)all;
    return split_any(run, self, argument, true);
}

METHOD(splitlines) {
    (void)all;
    return sc_j_lines(run, self, argument[0].type != SC_J_UNSET && sc_j_truth(argument[0]));
}

static sc_jvalue part_at(sc_jrun *run, sc_jvalue self, sc_jvalue apart, bool back) {
    const sc_jvalue made = sc_j_list(run, SC_J_TUPLE), empty = sc_j_string("", 0);
    sc_j_want_string(run, "partition: the separator", apart);
    if (run->rc || !apart.bytes)
        return sc_j_fail(run, "partition: the separator is empty");
    const int64_t at =
        back ? search_back(run, self, apart, self.bytes) : sc_j_search(run, self, apart, 0);
    const size_t cut = at < 0 ? back ? 0 : self.bytes : (size_t)at,
                 behind = at < 0 ? cut : cut + apart.bytes;
    sc_j_append(run, made, between(self, 0, cut));
    sc_j_append(run, made, at < 0 ? empty : apart);
    sc_j_append(run, made, between(self, behind, self.bytes));
    return made;
}

METHOD(partition) {
    (void)all;
    return part_at(run, self, argument[0], false);
}

METHOD(rpartition) {
    (void)all;
    return part_at(run, self, argument[0], true);
}

static bool has_end(sc_jvalue s, sc_jvalue part, bool front) {
    return s.bytes >= part.bytes &&
           !memcmp(front ? s.text : s.text + s.bytes - part.bytes, part.text, part.bytes);
}

/* One, or any of a tuple. */
static sc_jvalue has_any_end(sc_jrun *run, sc_jvalue s, sc_jvalue parts, bool front) {
    const bool tuple = parts.type == SC_J_LIST && parts.list->kind == SC_J_TUPLE;
    const sc_jvalue *part = tuple ? parts.list->item : &parts;
    for (size_t i = 0; i < (tuple ? parts.list->count : 1); i++) {
        sc_j_want_string(run, front ? "startswith: it" : "endswith: it", part[i]);
        if (!run->rc && has_end(s, part[i], front))
            return sc_j_bool(true);
    }
    return sc_j_bool(false);
}

METHOD(startswith) {
    (void)all;
    return has_any_end(run, self, argument[0], true);
}

METHOD(endswith) {
    (void)all;
    return has_any_end(run, self, argument[0], false);
}

METHOD(removeprefix) {
    (void)all;
    const sc_jvalue part = sc_j_want_string(run, "removeprefix: it", argument[0]);
    return !run->rc && has_end(self, part, true) ? between(self, part.bytes, self.bytes) : self;
}

METHOD(removesuffix) {
    (void)all;
    const sc_jvalue part = sc_j_want_string(run, "removesuffix: it", argument[0]);
    return !run->rc && has_end(self, part, false) ? between(self, 0, self.bytes - part.bytes)
                                                  : self;
}

METHOD(replace) {
    (void)all;
    const sc_jvalue old = sc_j_want_string(run, "replace: the old text", argument[0]),
                    new = sc_j_want_string(run, "replace: the new text", argument[1]);
    const int64_t most = sc_j_want_int(run, "replace: count", argument[2], -1);
    return run->rc ? self : sc_j_replace(run, self, old, new, most);
}

METHOD(join) {
    (void)all;
    sc_jvalue *item;
    size_t count;
    sc_jtext text = { 0 };
    if (!sc_j_items(run, argument[0], &item, &count))
        return self;
    for (size_t i = 0; i < count && !run->rc; i++) {
        sc_j_want_string(run, "join: an item", item[i]);
        if (i)
            sc_j_put(run, &text, self.text, self.bytes);
        if (!run->rc)
            sc_j_put(run, &text, item[i].text, item[i].bytes);
    }
    return sc_j_finish(&text);
}

static sc_jvalue found_at(sc_jrun *run, sc_jvalue self, sc_jvalue part, bool back) {
    sc_j_want_string(run, "find: it", part);
    if (run->rc)
        return self;
    const int64_t at =
        back ? search_back(run, self, part, self.bytes) : sc_j_search(run, self, part, 0);
    return sc_j_int(at < 0 ? -1 : (int64_t)sc_j_chars(self.text, (size_t)at));
}

METHOD(find) {
    (void)all;
    return found_at(run, self, argument[0], false);
}

METHOD(rfind) {
    (void)all;
    return found_at(run, self, argument[0], true);
}

static sc_jvalue places(sc_jrun *run, sc_jvalue self, sc_jvalue one, int64_t *first) {
    int64_t count = 0;
    *first = -1;
    for (size_t i = 0; i < self.list->count && !run->rc; i++)
        if (sc_j_equal(run, self.list->item[i], one)) {
            *first = count++ ? *first : (int64_t)i;
        }
    return sc_j_int(count);
}

METHOD(index_of) {
    (void)all;
    int64_t first = -1;
    if (self.type == SC_J_STRING)
        first = found_at(run, self, argument[0], false).integer;
    else
        places(run, self, argument[0], &first);
    return first < 0 ? sc_j_fail(run, "index: it is not there") : sc_j_int(first);
}

METHOD(count) {
    (void)all;
    int64_t first, times = 0;
    if (self.type == SC_J_LIST)
        return places(run, self, argument[0], &first);
    const sc_jvalue part = sc_j_want_string(run, "count: it", argument[0]);
    if (!run->rc && !part.bytes)
        return sc_j_int((int64_t)sc_j_chars(self.text, self.bytes) + 1);
    for (int64_t at = 0; !run->rc; times++) {
        at = sc_j_search(run, self, part, (size_t)at);
        if (at < 0)
            break;
        at += (int64_t)part.bytes;
    }
    return sc_j_int(times);
}

METHOD(get) {
    (void)all;
    const sc_jvalue *found =
        argument[0].type <= SC_J_STRING ? sc_j_find(run, self, argument[0]) : NULL;
    return found ? *found : argument[1].type == SC_J_UNSET ? sc_j_none() : argument[1];
}

static sc_jvalue view(sc_jrun *run, sc_jvalue self, sc_jkind kind) {
    const sc_jvalue made = sc_j_list(run, kind);
    for (size_t i = 0; i < self.dict->count && !run->rc; i++) {
        const sc_jpair p = self.dict->pair[i];
        sc_j_append(run, made,
                    kind == SC_J_KEYS     ? p.key
                    : kind == SC_J_VALUES ? p.value
                                          : sc_j_pair(run, p.key, p.value));
    }
    return made;
}

PLAIN(keys, view(run, self, SC_J_KEYS))
PLAIN(values, view(run, self, SC_J_VALUES))
PLAIN(items, view(run, self, SC_J_ITEMS))
PLAIN(copy, self) /* nothing changes either */

METHOD(cycle) {
    (void)argument;
    if (!all->count)
        return sc_j_fail(run, "loop.cycle of nothing");
    return all->value[self.loop->index % (size_t)all->count];
}

METHOD(changed) {
    (void)argument;
    const sc_jvalue now = sc_j_list(run, SC_J_TUPLE);
    for (int i = 0; i < all->count; i++)
        sc_j_append(run, now, all->value[i]);
    const bool same =
        self.loop->changed.type != SC_J_UNSET && sc_j_equal(run, now, self.loop->changed);
    self.loop->changed = now;
    return sc_j_bool(!same);
}

METHOD(changes) {
    (void)argument, (void)all;
    return sc_j_fail(run, "%s would change a %s: a template cannot", run->called,
                     sc_j_type_name(self));
}

METHOD(beyond) {
    (void)argument, (void)all;
    return sc_j_fail(run, "the method %s of %s is beyond the subset (docs/chat.md)", run->called,
                     sc_j_type_name(self));
}

static const sc_jbuiltin of_string[] = {
    { "strip", "chars", strip },
    { "lstrip", "chars", lstrip },
    { "rstrip", "chars", rstrip },
    { "split", "sep maxsplit", split },
    { "rsplit", "sep maxsplit", rsplit },
    { "splitlines", "keepends", splitlines },
    { "partition", "sep!", partition },
    { "rpartition", "sep!", rpartition },
    { "startswith", "prefix!", startswith },
    { "endswith", "suffix!", endswith },
    { "removeprefix", "prefix!", removeprefix },
    { "removesuffix", "suffix!", removesuffix },
    { "replace", "old! new! count", replace },
    { "join", "iterable!", join },
    { "find", "sub!", find },
    { "rfind", "sub!", rfind },
    { "index", "sub!", index_of },
    { "count", "sub!", count },
    { "upper", "", upper },
    { "lower", "", lower },
    { "swapcase", "", swapcase },
    { "title", "", title },
    { "capitalize", "", capitalize },
    { "isalpha", "", str_isalpha },
    { "isdigit", "", str_isdigit },
    { "isalnum", "", str_isalnum },
    { "isspace", "", str_isspace },
    { "isupper", "", str_isupper },
    { "islower", "", str_islower },
    { "format", "*", beyond },
    { "encode", "*", beyond },
    { "zfill", "*", beyond },
    { "ljust", "*", beyond },
    { "rjust", "*", beyond },
    { "center", "*", beyond },
    { "casefold", "*", beyond },
    { "expandtabs", "*", beyond },
    { "format_map", "*", beyond },
    { "isascii", "*", beyond },
    { "isdecimal", "*", beyond },
    { "isidentifier", "*", beyond },
    { "isnumeric", "*", beyond },
    { "isprintable", "*", beyond },
    { "istitle", "*", beyond },
    { "maketrans", "*", beyond },
    { "rindex", "*", beyond },
    { "translate", "*", beyond },
};
static const sc_jbuiltin of_dict[] = {
    { "get", "key! default", get }, { "keys", "", keys },        { "values", "", values },
    { "items", "", items },         { "copy", "", copy },        { "update", "*", changes },
    { "pop", "*", changes },        { "clear", "*", changes },   { "setdefault", "*", changes },
    { "popitem", "*", changes },    { "fromkeys", "*", beyond },
};
static const sc_jbuiltin of_list[] = {
    { "index", "value!", index_of }, { "count", "value!", count }, { "copy", "", copy },
    { "append", "*", changes },      { "extend", "*", changes },   { "insert", "*", changes },
    { "pop", "*", changes },         { "remove", "*", changes },   { "clear", "*", changes },
    { "reverse", "*", changes },     { "sort", "*", changes },
};
static const sc_jbuiltin of_loop[] = { { "cycle", "*", cycle }, { "changed", "*", changed } };

sc_jvalue sc_j_method(sc_jrun *run, sc_jvalue of, const char *name) {
#define FIND(table) sc_j_find_in(table, sizeof(table) / sizeof *(table), name)
    const sc_jbuiltin *found = NULL;
    if (of.type == SC_J_STRING)
        found = FIND(of_string);
    else if (of.type == SC_J_DICT)
        found = FIND(of_dict);
    else if (of.type == SC_J_LIST && of.list->kind <= SC_J_TUPLE)
        found = FIND(of_list);
    else if (of.type == SC_J_LOOP)
        found = FIND(of_loop);
    sc_jcallable *bound = found ? sc_j_alloc(run, 1, sizeof *bound) : NULL;
    if (!bound)
        return sc_j_undefined(name);
    bound->builtin = found;
    bound->self = of;
    return (sc_jvalue){ .type = SC_J_CALLABLE, .callable = bound };
#undef FIND
}
