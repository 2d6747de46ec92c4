/* config_read.c - see config_read.h. */
#include "config_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families.h"
#include "json.h"

enum { ENTRIES = 96, NOTES = 16 };

const char *sc_read_number_text(sc_pool *pool, double value) {
    char text[40];
    if (fabs(value) < 1e15 && floor(value) >= value)
        return sc_pool_printf(pool, "%lld", (long long)value);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) >= value && strtod(text, NULL) <= value)
            break;
    }
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.';
    return sc_pool_strdup(pool, text);
}

static int grow(sc_reader *r, void **list, int count, int most, size_t size) {
    if (!count)
        *list = sc_pool_alloc(r->pool, (size_t)most, size);
    if (!*list && !r->rc)
        r->rc = sc_oom(r->err, "reading the config");
    return *list && count < most;
}

void sc_read_record(sc_reader *r, const char *key, const char *value, const char *from) {
    sc_config *c = r->config;
    for (int i = 0; i < c->entries; i++) /* the layers' reader may have been there before */
        if (value && !strcmp(c->entry[i].key, key) && !strcmp(c->entry[i].value, value) &&
            !strcmp(c->entry[i].from, from))
            return;
    if (value && grow(r, (void **)&c->entry, c->entries, ENTRIES, sizeof *c->entry))
        c->entry[c->entries++] = (sc_config_entry){ key, value, from };
}

void sc_read_record_count(sc_reader *r, const char *key, int64_t value, const char *from) {
    sc_read_record(r, key, value ? sc_pool_printf(r->pool, "%lld", (long long)value) : "null",
                   from);
}

void sc_read_note(sc_reader *r, const char *text) {
    sc_config *c = r->config;
    if (text && grow(r, (void **)&c->note, c->notes, NOTES, sizeof *c->note))
        c->note[c->notes++] = text;
}

void sc_read_fail(sc_reader *r, const char *key, const char *reason) {
    if (!r->rc)
        r->rc = sc_fail(r->err, SC_EINPUT, "%s: %s%s: %s", r->file, r->prefix, key, reason);
}

void sc_read_unsupported(sc_reader *r, const char *key, const char *reason) {
    if (!r->config->unsupported)
        r->config->unsupported =
            sc_pool_printf(r->pool, "%s: %s%s: %s", r->file, r->prefix, key, reason);
}

const char *sc_read_by_default(const sc_reader *r) {
    return sc_pool_printf(r->pool, "default of %s", r->config->model_type);
}

const char *sc_read_quote(const sc_reader *r, const cJSON *item) {
    if (cJSON_IsNumber(item) && !isfinite(item->valuedouble))
        return isnan(item->valuedouble) ? "NaN" : item->valuedouble > 0 ? "Infinity" : "-Infinity";
    char *text = cJSON_PrintUnformatted(item);
    const char *copy = sc_pool_printf(r->pool, "%.60s", text ? text : "?");
    cJSON_free(text);
    return copy ? sc_json_printable(copy) : "?";
}

void sc_read_same(sc_reader *r, const char *a_name, const cJSON *a, const char *b_name,
                  const cJSON *b) {
    if (a && b && !cJSON_IsNull(a) && !cJSON_IsNull(b) && !cJSON_Compare(a, b, true))
        sc_read_fail(r, a_name,
                     sc_pool_printf(r->pool, "%s, but %s is %s (keep one)", sc_read_quote(r, a),
                                    b_name, sc_read_quote(r, b)));
}

const cJSON *sc_read_item(sc_reader *r, const char *key) {
    const cJSON *item = sc_json_get(r->json, key);
    const sc_alias *alias = r->config->family->alias;
    for (; alias && alias->key; alias++) {
        if (strcmp(alias->key, key))
            continue;
        const cJSON *stored = sc_json_get(r->json, alias->stored);
        sc_read_same(r, alias->stored, stored, key, item);
        if (stored && (!item || cJSON_IsNull(item)))
            item = stored;
    }
    return item;
}

static int64_t whole(sc_reader *r, const char *key, const cJSON *item, int64_t least) {
    int64_t value = 0;
    if (!sc_json_int(item, &value) || value < least || value > SC_LARGEST) {
        sc_read_fail(r, item->string ? item->string : key,
                     sc_pool_printf(r->pool, "%s is no whole number in %lld … %d",
                                    sc_read_quote(r, item), (long long)least, SC_LARGEST));
        return 0;
    }
    return value;
}

int64_t sc_read_count(sc_reader *r, const char *key, int64_t fallback, bool null_ok) {
    const cJSON *item = sc_read_item(r, key);
    if (r->rc)
        return 0;
    if (!item && fallback == SC_NULL && !null_ok) {
        sc_read_fail(r, key, "is missing");
        return 0;
    }
    if (!item) {
        const int64_t value = fallback == SC_NULL ? 0 : fallback;
        sc_read_record_count(r, key, value, sc_read_by_default(r));
        return value;
    }
    if (cJSON_IsNull(item)) {
        if (null_ok)
            sc_read_record(r, key, "null", r->file);
        else
            sc_read_fail(r, key, "null, a number is wanted (remove the key for the default)");
        return 0;
    }
    const int64_t value = whole(r, key, item, 1);
    if (!r->rc)
        sc_read_record_count(r, key, value, r->file);
    return value;
}

int64_t sc_read_from_zero(sc_reader *r, const char *key, int64_t fallback) {
    const cJSON *item = sc_read_item(r, key);
    const int64_t value = r->rc || !item ? fallback : whole(r, key, item, 0);
    if (!r->rc)
        sc_read_record(r, key, sc_pool_printf(r->pool, "%lld", (long long)value),
                       item ? r->file : sc_read_by_default(r));
    return value;
}

bool sc_read_flag(sc_reader *r, const char *key, bool fallback) {
    const cJSON *item = sc_read_item(r, key);
    if (r->rc)
        return fallback;
    if (item && !cJSON_IsBool(item)) {
        sc_read_fail(
            r, key,
            sc_pool_printf(r->pool, "%s is neither true nor false", sc_read_quote(r, item)));
        return fallback;
    }
    const bool value = item ? cJSON_IsTrue(item) : fallback;
    sc_read_record(r, key, value ? "true" : "false", item ? r->file : sc_read_by_default(r));
    return value;
}

double sc_read_real(sc_reader *r, const cJSON *object, const char *where, const char *key,
                    double fallback) {
    const cJSON *item = sc_json_get(object, key);
    const char *full = sc_pool_printf(r->pool, "%s%s", where, key);
    if (r->rc || !full)
        return fallback;
    const double value = item ? item->valuedouble : fallback;
    if (item && (!cJSON_IsNumber(item) || !(value > 0) || isinf(value))) {
        sc_read_fail(r, full,
                     sc_pool_printf(r->pool, "%s is no number above 0", sc_read_quote(r, item)));
        return fallback;
    }
    sc_read_record(r, full, sc_read_number_text(r->pool, value),
                   item ? r->file : sc_read_by_default(r));
    return value;
}

double sc_read_real_there(sc_reader *r, const cJSON *object, const char *where, const char *key) {
    if (!sc_json_get(object, key))
        sc_read_fail(r, sc_pool_printf(r->pool, "%s%s", where, key), "is missing");
    return sc_read_real(r, object, where, key, 1);
}
