/* fuzz_gguf.c - sc_gguf_open, and what its config and tokenizer go through afterwards. */
#include "fuzz.h"

#include "../../codegen/config.h"
#include "../../codegen/gguf.h"
#include "../../codegen/tokenizer_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The tokenizer alone, as a file of a vocabulary is opened. */
static void use_vocabulary(const char *path) {
    sc_error err = { 0 };
    sc_gguf *gguf = NULL;
    unsigned char *image = NULL;
    size_t bytes;
    sc_pool *pool = sc_pool_create();
    int rc = pool ? sc_gguf_open_vocabulary(&gguf, pool, path, &err) : SC_OK;
    if (!rc && gguf && gguf->tokenizer)
        rc = sc_tokenizer_pack(&image, &bytes, gguf->tokenizer, path, &err);
    if (rc)
        fuzz_refusal(rc, &err);
    free(image);
    sc_gguf_close(gguf);
    sc_pool_destroy(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    sc_error err = { 0 };
    sc_gguf *gguf = NULL;
    sc_config *config;
    unsigned char *image = NULL;
    size_t bytes;
    sc_pool *pool = sc_pool_create();
    const int fd = fuzz_file(path, data, size);
    int rc = pool ? sc_gguf_open(&gguf, pool, path, &err) : SC_OK;
    if (rc)
        fuzz_refusal(rc, &err);
    if (gguf) {
        rc = sc_config_make(&config, pool, path, gguf->config, gguf->generation, false, &err);
        if (rc)
            fuzz_refusal(rc, &err);
        rc = gguf->tokenizer ? sc_tokenizer_pack(&image, &bytes, gguf->tokenizer, path, &err)
                             : SC_OK;
        if (rc)
            fuzz_refusal(rc, &err);
    }
    free(image);
    sc_gguf_close(gguf);
    use_vocabulary(path);
    close(fd);
    sc_pool_destroy(pool);
    return 0;
}
