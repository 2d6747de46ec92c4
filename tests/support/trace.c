/* trace.c - see trace.h. */
#include "trace.h"

#include <check.h>
#include <stdio.h>

#include "../../codegen/json.h"

cJSON *trace_read(const char *name) {
    char path[256];
    sc_error err = { 0 };
    cJSON *json;
    snprintf(path, sizeof path, "tests/reference/cache_traces/%s.json", name);
    ck_assert_msg(!sc_json_read(&json, path, 1 << 24, &err), "%s", err.message);
    return json;
}
