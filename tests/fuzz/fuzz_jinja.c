/* fuzz_jinja.c - chat templates, read and rendered with a conversation. */
#include "fuzz.h"

#include "../../codegen/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char values[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \" H\u00e4 \\n\"}, {\"role\": "
        "\"assistant\", \"content\": \"\", \"parts\": [1, 2.5, null, true]}], \"bos_token\": "
        "\"<s>\", \"add_generation_prompt\": true}";
    sc_error err = { 0 };
    sc_pool *pool = sc_pool_create();
    cJSON *json = cJSON_Parse(values);
    const sc_jinja *template = NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (!pool || !json)
        abort();
    int rc = sc_jinja_read(&template, pool, "fuzz", (const char *)data, size, &err);
    if (!rc)
        rc = sc_jinja_render(&text, &bytes, template, json, 1764763200, &err);
    if (rc)
        fuzz_refusal(rc, &err);
    else
        fuzz_promise(!text[bytes], "a text ends in NUL");
    free(text);
    cJSON_Delete(json);
    sc_pool_destroy(pool);
    return 0;
}
