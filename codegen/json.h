/*
 * json.h - JSON files read strictly, through cJSON.
 *
 * cJSON alone is lenient; here is refused: nesting deeper than 64, a file over the caller's limit,
 * duplicate keys in one object, embedded NUL, bytes after the value, invalid UTF-8. Infinity and
 * NaN (published configs hold them) read as numbers. Look-up is case-sensitive.
 */
#ifndef SC_JSON_H
#define SC_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../runtime/error.h"

/* Reads path whole; *json is freed by the caller with cJSON_Delete. SC_EINPUT names file, line and
 * reason. */
int sc_json_read(cJSON **json, const char *path, size_t max_bytes, sc_error *err);
/* The same from memory; name stands for the file in messages. */
int sc_json_parse(cJSON **json, const char *name, const char *text, size_t bytes, sc_error *err);
/* The member of that exact name, or NULL. */
const cJSON *sc_json_get(const cJSON *object, const char *key);
/* An integer of at most 2^53 either way (2.9, 1e300 and "3" are none). 0: it is not one. */
int sc_json_int(const cJSON *item, int64_t *value);
/* text itself when it may stand in a one-line message, else "(unprintable)". */
const char *sc_json_printable(const char *text);
/* Whether these bytes are UTF-8 (no surrogates, no overlong forms) without a NUL. */
bool sc_json_utf8(const char *text, size_t bytes);

#endif
