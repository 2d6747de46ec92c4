/* check_fuzz.c - replays tests/fuzz/corpus through every entry, without a fuzzer. */
#include "fuzz/fuzz.h"

#include <check.h>
#include <dirent.h>

Suite *fuzz_suite(void);

#define LLVMFuzzerTestOneInput fuzz_config
#include "fuzz/fuzz_config.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_gguf
#include "fuzz/fuzz_gguf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_jinja
#include "fuzz/fuzz_jinja.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_json
#include "fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "fuzz/fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_template
#include "fuzz/fuzz_template.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_tokenizer
#include "fuzz/fuzz_tokenizer.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_tokenizer_pack
#include "fuzz/fuzz_tokenizer_pack.c"
#undef LLVMFuzzerTestOneInput

static const struct {
    const char *name;
    int (*entry)(const uint8_t *, size_t);
} entries[] = {
    { "config", fuzz_config },
    { "gguf", fuzz_gguf },
    { "jinja", fuzz_jinja },
    { "json", fuzz_json },
    { "safetensors", fuzz_safetensors },
    { "template", fuzz_template },
    { "tokenizer", fuzz_tokenizer },
    { "tokenizer_pack", fuzz_tokenizer_pack },
};
enum { ENTRIES = sizeof entries / sizeof *entries, LARGEST = 1 << 20 };

START_TEST(no_file_of_the_corpus_breaks_a_reader) {
    char path[512];
    int count = 0;
    unsigned char *data = malloc(LARGEST);
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", entries[_i].name);
    DIR *dir = opendir(path);
    ck_assert_msg(dir && data, "%s", path);
    for (struct dirent *file; (file = readdir(dir));) {
        if (file->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", entries[_i].name, file->d_name);
        FILE *f = fopen(path, "rb");
        ck_assert_msg(f != NULL, "%s", path);
        const size_t size = fread(data, 1, LARGEST, f);
        fclose(f);
        ck_assert_msg(!entries[_i].entry(data, size), "%s", path);
        for (size_t cut = 0; cut < size; cut += size / 64 + 1) /* and what is cut short */
            entries[_i].entry(data, cut);
        count++;
    }
    closedir(dir);
    free(data);
    ck_assert_int_gt(count, 0);
}
END_TEST

Suite *fuzz_suite(void) {
    Suite *suite = suite_create("fuzz");
    TCase *replay = tcase_create("replay");
    tcase_set_timeout(replay, 120);
    tcase_add_loop_test(replay, no_file_of_the_corpus_breaks_a_reader, 0, ENTRIES);
    suite_add_tcase(suite, replay);
    return suite;
}
