/* fuzz_config.c - config.json as far as the Plan, which must then hold what it promises. */
#include "fuzz.h"

#include "../../codegen/export.h"
#include "../../codegen/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int plan(const cJSON *json, sc_pool *pool, sc_error *err) {
    sc_config *config;
    const sc_plan *made;
    sc_source source = { 0 };
    const sc_export_options options = { .arch = "generic" };
    int rc = sc_config_make(&config, pool, "config.json", json, NULL, false, err);
    if (rc)
        return rc;
    source.config = config;
    rc = sc_export_plan(&made, pool, &source, &options, err);
    if (!rc)
        fuzz_promise(!sc_plan_check(made, NULL), "a plan that was made holds");
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sc_error err = { 0 };
    cJSON *json = NULL;
    sc_pool *pool = sc_pool_create();
    int rc = sc_json_parse(&json, "config.json", (const char *)data, size, &err);
    if (!rc && pool)
        rc = plan(json, pool, &err);
    if (rc)
        fuzz_refusal(rc, &err);
    cJSON_Delete(json);
    sc_pool_destroy(pool);
    return 0;
}
