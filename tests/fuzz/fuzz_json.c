/* fuzz_json.c - sc_json_parse: what it takes, it takes again from its own print. */
#include "fuzz.h"

#include "../../codegen/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sc_error err = { 0 };
    cJSON *json = NULL, *again = NULL;
    const int rc = sc_json_parse(&json, "fuzz.json", (const char *)data, size, &err);
    if (rc) {
        fuzz_refusal(rc, &err);
        return 0;
    }
    char *text = cJSON_PrintUnformatted(json);
    if (text)
        fuzz_promise(!sc_json_parse(&again, "again.json", text, strlen(text), NULL),
                     "a printed tree reads");
    cJSON_free(text);
    cJSON_Delete(again);
    cJSON_Delete(json);
    return 0;
}
