/*
 * json.h - JSON files read strictly, through cJSON.
 *
 * cJSON alone is lenient; here is refused: nesting deeper than 64, a file over the caller's limit,
 * duplicate keys in one object, embedded NUL, bytes after the value, invalid UTF-8. Infinity and NaN
 * (published configs hold them) read as numbers. Look-up is case-sensitive.
 */
#ifndef SC_JSON_H
#define SC_JSON_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "../runtime/error.h"

/* Reads path whole; *json is freed by the caller with cJSON_Delete. SC_EINPUT names file, line and reason. */
int sc_json_read(cJSON **json, const char *path, size_t max_bytes, sc_error *err);
/* The same from memory; name stands for the file in messages. */
int sc_json_parse(cJSON **json, const char *name, const char *text, size_t bytes, sc_error *err);
/* The member of that exact name, or NULL. */
const cJSON *sc_json_get(const cJSON *object, const char *key);
/* An integer that fits int64_t exactly (2.9, 1e300 and "3" are none). false: it is not one. */
int sc_json_int(const cJSON *item, int64_t *value);

#endif
