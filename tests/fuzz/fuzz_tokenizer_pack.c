/* fuzz_tokenizer_pack.c - tokenizer.json: what packs must open and encode. */
#include "fuzz.h"

#include "../../codegen/json.h"
#include "../../codegen/tokenizer_pack.h"
#include "../../runtime/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_image(const unsigned char *image, size_t bytes) {
    static const char text[] = "It's a  truth, \xc3\xa9 1813 <s>\n\xe2\x96\x81\xf0\x9f\x99\x82";
    char path[64];
    sc_error err = { 0 };
    sc_tokenizer *t = NULL;
    int32_t *ids = NULL;
    int count;
    const int fd = fuzz_file(path, image, bytes);
    int rc = sc_tokenizer_open(&t, path, &err);
    if (!rc)
        rc = sc_tokenizer_encode(t, text, sizeof text - 1, true, &ids, &count, &err);
    if (rc)
        fuzz_refusal(rc, &err);
    free(ids);
    sc_tokenizer_close(t);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sc_error err = { 0 };
    cJSON *json = NULL;
    unsigned char *image = NULL;
    size_t bytes = 0;
    int rc = sc_json_parse(&json, "tokenizer.json", (const char *)data, size, &err);
    if (!rc)
        rc = sc_tokenizer_pack(&image, &bytes, json, "tokenizer.json", &err);
    if (rc)
        fuzz_refusal(rc, &err);
    else
        use_image(image, bytes);
    free(image);
    cJSON_Delete(json);
    return 0;
}
