/*
 * tokenize.c - texts through one tokenizer: tokenize FILE [plain] <TEXTS
 *
 * FILE is a tokenizer.json or a GGUF. TEXTS are a line with a count of bytes, those bytes, and so
 * on. Of each come a line of ids, a line with a count of bytes, and the text that the ids decode to
 * without control tokens. With plain nothing is added around a text. Exits with 0, or with 1 and
 * the message.
 */
#include "../../codegen/gguf.h"
#include "../../codegen/json.h"
#include "../../codegen/pool.h"
#include "../../codegen/tokenizer_pack.h"
#include "../../runtime/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_MAX = 256 << 20 };

static int pack(const char *path, unsigned char **image, size_t *bytes, sc_error *err) {
    const size_t length = strlen(path);
    sc_pool *pool = sc_pool_create();
    cJSON *json = NULL;
    sc_gguf *gguf = NULL;
    int rc = pool ? SC_OK : sc_fail(err, SC_EENV, "out of memory");
    if (!rc && length > 5 && strcmp(path + length - 5, ".gguf") == 0)
        rc = sc_gguf_open_vocabulary(&gguf, pool, path, err);
    else if (!rc)
        rc = sc_json_read(&json, path, JSON_MAX, err);
    const cJSON *tokenizer = gguf ? gguf->tokenizer : json;
    if (!rc && !tokenizer)
        rc = sc_fail(err, SC_EINPUT, "%s: its tokenizer.ggml.model is not supported", path);
    if (!rc)
        rc = sc_tokenizer_pack(image, bytes, tokenizer, path, err);
    cJSON_Delete(json);
    sc_gguf_close(gguf);
    sc_pool_destroy(pool);
    return rc;
}

static int put_decoded(const sc_tokenizer *t, const int32_t *ids, int count, sc_error *err) {
    sc_decoder *d = NULL;
    char *all = NULL;
    size_t bytes = 0, more = 0;
    const char *text;
    int rc = sc_decoder_create(&d, t, false, false, err);
    FILE *out = rc ? NULL : open_memstream(&all, &bytes);
    for (int i = 0; !rc && out && i <= count; i++) {
        rc = i < count ? sc_decoder_push(d, ids[i], &text, &more, err)
                       : sc_decoder_end(d, &text, &more, err);
        if (!rc)
            fwrite(text, 1, more, out);
    }
    if (out)
        fclose(out);
    if (!rc) {
        printf("%zu\n", bytes);
        fwrite(all, 1, bytes, stdout);
    }
    free(all);
    sc_decoder_destroy(d);
    return rc;
}

static int tokenize(const sc_tokenizer *t, const char *text, size_t n, bool special,
                    sc_error *err) {
    int32_t *ids = NULL;
    int count = 0;
    int rc = sc_tokenizer_encode(t, text, n, special, &ids, &count, err);
    for (int i = 0; !rc && i < count; i++)
        printf(i ? " %d" : "%d", (int)ids[i]);
    if (!rc) {
        putchar('\n');
        rc = put_decoded(t, ids, count, err);
    }
    free(ids);
    return rc;
}

int main(int argc, char **argv) {
    sc_error err = { 0 };
    sc_tokenizer *t = NULL;
    unsigned char *image = NULL;
    size_t bytes = 0, n = 0;
    if (argc < 2)
        return 2;
    int rc = pack(argv[1], &image, &bytes, &err);
    if (!rc)
        rc = sc_tokenizer_open_image(&t, image, bytes, argv[1], &err);
    while (!rc && scanf("%zu", &n) == 1 && getchar() == '\n') {
        char *text = malloc(n + 1);
        if (!text || fread(text, 1, n, stdin) != n)
            rc = sc_fail(&err, SC_EINPUT, "a text is shorter than it says");
        else
            rc = tokenize(t, text, n, argc == 2, &err);
        free(text);
    }
    sc_tokenizer_close(t);
    free(image);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    return rc ? 1 : 0;
}
