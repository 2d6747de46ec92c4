/*
 * fuzz_tokenizer.c - the packed tokenizer as a casting opens it.
 *
 * Length and checksum are put right first: a fuzzer does not find them, an attacker does.
 */
#include "fuzz.h"

#include "../../runtime/tokenizer.h"
#include "../../runtime/tokenizer_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_right(unsigned char *image, size_t size) {
    const size_t behind = offsetof(sc_tokenizer_header, checksum) + sizeof(uint64_t);
    const uint64_t bytes = size;
    if (size < sizeof(sc_tokenizer_header))
        return;
    memcpy(image + offsetof(sc_tokenizer_header, bytes), &bytes, sizeof bytes);
    const uint64_t sum = sc_tokenizer_checksum(image + behind, size - behind);
    memcpy(image + offsetof(sc_tokenizer_header, checksum), &sum, sizeof sum);
}

static void use(const sc_tokenizer *t) {
    static const char text[] = "It's a  truth, \xc3\xa9 1813 <s>\xff\n\xe2\x96\x81\xf0\x9f\x99\x82";
    sc_error err = { 0 };
    int32_t *ids = NULL;
    int count = 0;
    const char *bytes;
    size_t length;
    sc_decoder *d = NULL;
    const int rc = sc_tokenizer_encode(t, text, sizeof text - 1, true, &ids, &count, &err);
    if (rc)
        fuzz_refusal(rc, &err);
    if (sc_decoder_create(&d, t, true, false, &err) == 0) {
        for (int i = 0; i < count && !rc; i++)
            fuzz_promise(!sc_decoder_push(d, ids[i], &bytes, &length, &err), "an id decodes");
        for (int32_t id = 0; id < sc_tokenizer_size(t) && id < 4096; id++)
            if (!sc_decoder_push(d, id, &bytes, &length, &err) && length)
                (void)*(const volatile char *)(bytes + length - 1);
        fuzz_promise(!sc_decoder_end(d, &bytes, &length, &err), "a text ends");
    }
    sc_decoder_destroy(d);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    sc_error err = { 0 };
    sc_tokenizer *t = NULL;
    unsigned char *image = malloc(size + 1);
    if (!image)
        return 0;
    if (size)
        memcpy(image, data, size);
    put_right(image, size);
    const int fd = fuzz_file(path, image, size);
    const int rc = sc_tokenizer_open(&t, path, &err);
    if (rc)
        fuzz_refusal(rc, &err);
    else
        use(t);
    sc_tokenizer_close(t);
    close(fd);
    free(image);
    return 0;
}
