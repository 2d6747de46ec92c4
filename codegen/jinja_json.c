/* jinja_json.c - values from JSON and to it, as json.dumps writes; see jinja_value.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r */
#endif
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_unicode.h"
#include "json.h"

enum { INDENT_MOST = 32 };

typedef struct {
    sc_jrun *run;
    sc_jtext text;
    const sc_jdump *how;
    char indent[INDENT_MOST + 1];
    bool lines;
    const char *item, *key; /* separators */
    size_t item_bytes, key_bytes;
} dump;

static void put_string(dump *d, sc_jvalue s) {
    static const char shorts[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    sc_j_puts(d->run, &d->text, "\"");
    for (size_t at = 0, n; at < s.bytes && !d->run->rc; at += n) {
        int32_t code;
        char out[16];
        n = sc_j_char(s.text + at, &code);
        const char *known = code && code < 0x80 ? strchr(shorts, (int)code) : NULL;
        if (known)
            snprintf(out, sizeof out, "\\%c", letters[known - shorts]);
        else if (code < 0x20 || (d->how->ascii && code >= 0x7f && code < 0x10000 && code != 0x7f))
            snprintf(out, sizeof out, "\\u%04x", (unsigned)code);
        else if (d->how->ascii && code >= 0x10000) {
            const unsigned high = 0xd800 + ((unsigned)(code - 0x10000) >> 10),
                           low = 0xdc00 + ((unsigned)code & 0x3ff);
            snprintf(out, sizeof out, "\\u%04x\\u%04x", high, low);
        } else {
            sc_j_put(d->run, &d->text, s.text + at, n);
            continue;
        }
        sc_j_puts(d->run, &d->text, out);
    }
    sc_j_puts(d->run, &d->text, "\"");
}

static void put_line(dump *d, int level) {
    if (!d->lines)
        return;
    sc_j_puts(d->run, &d->text, "\n");
    for (int i = 0; i < level && !d->run->rc; i++)
        sc_j_puts(d->run, &d->text, d->indent);
}

static void put_value(dump *d, sc_jvalue v, int level);

/* Keys become strings: of numbers, true, false and none what they are as values. */
static void put_key(dump *d, sc_jvalue key) {
    if (key.type == SC_J_STRING)
        put_string(d, key);
    else {
        sc_j_puts(d->run, &d->text, "\"");
        put_value(d, key, 0);
        sc_j_puts(d->run, &d->text, "\"");
    }
}

static int by_key(const void *a, const void *b, void *run) {
    const sc_jpair *p = a, *q = b;
    return sc_j_order(run, p->key, q->key);
}

static void put_object(dump *d, const sc_jdict *dict, int level) {
    const sc_jpair *pairs = dict->pair;
    if (d->how->sorted && dict->count) {
        sc_jpair *sorted = sc_j_alloc(d->run, dict->count, sizeof *sorted);
        if (!sorted)
            return;
        memcpy(sorted, dict->pair, dict->count * sizeof *sorted);
        qsort_r(sorted, dict->count, sizeof *sorted, by_key, d->run);
        pairs = sorted;
    }
    sc_j_puts(d->run, &d->text, "{");
    for (size_t i = 0; i < dict->count && !d->run->rc; i++) {
        if (i)
            sc_j_put(d->run, &d->text, d->item, d->item_bytes);
        put_line(d, level + 1);
        put_key(d, pairs[i].key);
        sc_j_put(d->run, &d->text, d->key, d->key_bytes);
        put_value(d, pairs[i].value, level + 1);
    }
    if (dict->count)
        put_line(d, level);
    sc_j_puts(d->run, &d->text, "}");
}

static void put_array(dump *d, const sc_jlist *list, int level) {
    sc_j_puts(d->run, &d->text, "[");
    for (size_t i = 0; i < list->count && !d->run->rc; i++) {
        if (i)
            sc_j_put(d->run, &d->text, d->item, d->item_bytes);
        put_line(d, level + 1);
        put_value(d, list->item[i], level + 1);
    }
    if (list->count)
        put_line(d, level);
    sc_j_puts(d->run, &d->text, "]");
}

static void put_value(dump *d, sc_jvalue v, int level) {
    if (!sc_j_step(d->run, 1))
        return;
    if (level > 200)
        sc_j_fail(d->run, "tojson: a value nests deeper than 200");
    else if (v.type == SC_J_STRING)
        put_string(d, v);
    else if (v.type == SC_J_NONE)
        sc_j_puts(d->run, &d->text, "null");
    else if (v.type == SC_J_BOOL)
        sc_j_puts(d->run, &d->text, v.truth ? "true" : "false");
    else if (v.type == SC_J_FLOAT && !isfinite(v.real))
        sc_j_puts(d->run, &d->text, isnan(v.real) ? "NaN" : v.real > 0 ? "Infinity" : "-Infinity");
    else if (v.type == SC_J_INT || v.type == SC_J_FLOAT)
        sc_j_put_str(d->run, &d->text, v);
    else if (v.type == SC_J_DICT)
        put_object(d, v.dict, level);
    else if (v.type == SC_J_LIST && v.list->kind <= SC_J_TUPLE)
        put_array(d, v.list, level);
    else if (v.type == SC_J_UNDEFINED)
        sc_j_fail(d->run, "tojson: '%s' is undefined", v.text);
    else
        sc_j_fail(d->run, "tojson: there is no JSON for %s", sc_j_type_name(v));
}

sc_jvalue sc_j_dump(sc_jrun *run, sc_jvalue v, const sc_jdump *how) {
    dump d = { .run = run, .how = how, .item = ", ", .item_bytes = 2, .key = ": ", .key_bytes = 2 };
    int64_t width;
    if (sc_j_integer(how->indent, &width) && width <= INDENT_MOST) {
        memset(d.indent, ' ', width > 0 ? (size_t)width : 0);
        d.lines = true;
    } else if (how->indent.type == SC_J_STRING && how->indent.bytes <= INDENT_MOST) {
        memcpy(d.indent, how->indent.text, how->indent.bytes);
        d.lines = true;
    } else if (how->indent.type > SC_J_NONE)
        return sc_j_fail(run, "tojson: an indent is none, or at most %d wide", INDENT_MOST);
    if (d.lines)
        d.item_bytes = 1; /* the comma alone */
    if (how->item.type == SC_J_STRING) {
        d.item = how->item.text;
        d.item_bytes = how->item.bytes;
        d.key = how->key.text;
        d.key_bytes = how->key.bytes;
    }
    put_value(&d, v, 0);
    return sc_j_finish(&d.text);
}

static sc_jvalue copy_string(sc_jrun *run, const char *text) {
    const size_t bytes = strlen(text);
    if (!sc_json_utf8(text, bytes))
        return sc_j_fail(run, "a text that it is given is no UTF-8");
    char *copy = sc_j_alloc(run, bytes + 1, 1);
    return copy ? sc_j_string(memcpy(copy, text, bytes), bytes) : sc_j_undefined("");
}

sc_jvalue sc_j_load(sc_jrun *run, const cJSON *json) {
    const cJSON *item;
    sc_jvalue v = sc_j_none();
    if (!sc_j_step(run, 1))
        return v;
    if (cJSON_IsBool(json))
        return sc_j_bool(cJSON_IsTrue(json));
    if (cJSON_IsNumber(json)) {
        const double number = json->valuedouble;
        const bool whole = fabs(number) <= 0x1p53 && !(floor(number) < number);
        return whole ? sc_j_int((int64_t)number) : sc_j_float(number);
    }
    if (cJSON_IsString(json))
        return copy_string(run, json->valuestring);
    if (cJSON_IsArray(json)) {
        v = sc_j_list(run, SC_J_PLAIN);
        cJSON_ArrayForEach(item, json) sc_j_append(run, v, sc_j_load(run, item));
    } else if (cJSON_IsObject(json)) {
        v = sc_j_dict(run, SC_J_DICT);
        cJSON_ArrayForEach(item, json)
            sc_j_set(run, v, copy_string(run, item->string), sc_j_load(run, item));
    }
    return v;
}
