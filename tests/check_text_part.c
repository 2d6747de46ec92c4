/* check_text_part.c - multimodal checkpoints: the text model alone, whatever its tensors are
 * called. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../codegen/json.h"
#include "../codegen/safetensors.h"
#include "../codegen/text_part.h"
#include "support/run.h"

Suite *text_part_suite(void);

/* How uploads name what the plain model calls model.… and lm_head. */
static const struct {
    const char *text, *model_type, *prefix, *head, *vision, *skipped;
} forms[] = {
    { "gemma3_text", "gemma3", "language_model.model.", "language_model.lm_head.",
      "vision_tower.a.weight", "skipped: vision_tower (1 tensor)" },
    { "mistral", "mistral3", "language_model.model.", "language_model.lm_head.",
      "multi_modal_projector.linear_1.weight", "skipped: multi_modal_projector (1 tensor)" },
    { "llama4_text", "llama4", "language_model.model.", "language_model.lm_head.",
      "vision_model.class_embedding", "skipped: vision_model (1 tensor)" },
    { "gemma3n_text", "gemma3n", "model.language_model.", "lm_head.", "model.audio_tower.w",
      "skipped: audio_tower (1 tensor)" },
    { "gemma4_text", "gemma4", "model.language_model.", "lm_head.", "model.embed_vision.w",
      "skipped: embed_vision (1 tensor)" },
};

static unsigned char *read_all(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    unsigned char *bytes = malloc(1 << 22);
    *size = fread(bytes, 1, 1 << 22, f);
    fclose(f);
    return bytes;
}

/* The name that the upload gives a tensor. */
static void rename_tensor(char name[256], const char *old, int form) {
    if (!strncmp(old, "model.", 6))
        snprintf(name, 256, "%s%s", forms[form].prefix, old + 6);
    else if (!strncmp(old, "lm_head.", 8))
        snprintf(name, 256, "%s%s", forms[form].head, old + 8);
    else
        snprintf(name, 256, "%s", old);
}

/* The same file with other names, and one tensor of a vision model behind the others. */
static void write_weights(const char *from, const char *to, int form) {
    size_t size;
    unsigned char *bytes = read_all(from, &size);
    size_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    cJSON *old = cJSON_ParseWithLength((char *)bytes + 8, length), *header = cJSON_CreateObject();
    while (old->child) {
        cJSON *item = cJSON_DetachItemViaPointer(old, old->child);
        char name[256];
        rename_tensor(name, item->string, form);
        cJSON_AddItemToObject(header, name, item);
    }
    const size_t data = size - 8 - length;
    char entry[160];
    snprintf(entry, sizeof entry, "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
             data, data + 4);
    cJSON_AddItemToObject(header, forms[form].vision, cJSON_Parse(entry));
    char *text = cJSON_PrintUnformatted(header);
    const size_t n = strlen(text);
    FILE *f = fopen(to, "wb");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 8; i++)
        fputc((int)(n >> 8 * i & 255), f);
    fwrite(text, 1, n, f);
    fwrite(bytes + 8 + length, 1, data, f);
    fwrite("\0\0\0\0", 1, 4, f);
    fclose(f);
    free(text);
    free(bytes);
    cJSON_Delete(old);
    cJSON_Delete(header);
}

static void write_config(const char *from, const char *to, int form) {
    size_t size;
    unsigned char *bytes = read_all(from, &size);
    FILE *f = fopen(to, "wb");
    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "{\"model_type\": \"%s\", \"vision_config\": {\"hidden_size\": 8}, \"text_config\": ",
            forms[form].model_type);
    fwrite(bytes, 1, size, f);
    fputs("}", f);
    fclose(f);
    free(bytes);
}

static char *dump_of(const char *model, const char *dump, size_t *size) {
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST run %s --max-cache-len 44 --token-ids 5,9,200,31,7,7,88,14 "
                         "--max-new-tokens 3 --ignore-eos --dump %s",
                         model, dump),
                     0);
    return (char *)read_all(dump, size);
}

START_TEST(the_text_model_is_cast_as_if_it_were_alone) {
    char plain[128], from[160];
    snprintf(plain, sizeof plain, "tests/reference/tiny/%s", forms[_i].text);
    mkdir("build/multimodal", 0777);
    snprintf(from, sizeof from, "%s/model.safetensors", plain);
    write_weights(from, "build/multimodal/model.safetensors", _i);
    snprintf(from, sizeof from, "%s/config.json", plain);
    write_config(from, "build/multimodal/config.json", _i);
    size_t size, other;
    char *alone = dump_of(plain, "build/text_part-alone.safetensors", &size);
    char *part = dump_of("build/multimodal", "build/text_part-part.safetensors", &other);
    ck_assert_uint_eq(size, other);
    ck_assert_msg(!memcmp(alone, part, size), "%s differs", forms[_i].model_type);
    free(alone);
    free(part);
    char *said;
    ck_assert_int_eq(run(NULL, &said, "$SLIPCAST export build/multimodal -o build/text_part"), 0);
    ck_assert_msg(strstr(said, forms[_i].skipped) != NULL, "%s", said);
    free(said);
    ck_assert_int_eq(system("rm -r build/multimodal build/text_part"), 0);
}
END_TEST

static const struct {
    const char *name[4];
    const char *kept[3], *skipped;
} names[] = {
    { { "lm_head.weight", "model.norm.weight" }, { "lm_head.weight", "model.norm.weight" }, NULL },
    { { "language_model.model.norm.weight", "vision_tower.a.w", "vision_tower.b.w" },
      { "model.norm.weight" },
      "vision_tower (2 tensors)" },
    { { "model.audio_tower.a", "model.language_model.norm.weight", "model.vision_tower.b.w" },
      { "model.norm.weight" },
      "audio_tower (1 tensor), vision_tower (1 tensor)" },
};

START_TEST(names_become_those_of_the_text_model) {
    sc_error err = { 0 };
    sc_pool *pool = sc_pool_create();
    sc_tensor tensor[4] = { { 0 } };
    sc_tensors all = { .tensor = tensor };
    for (int i = 0; i < 4 && names[_i].name[i]; i++)
        tensor[all.count++] = (sc_tensor){ .name = names[_i].name[i], .file = "f" };
    const char *skipped;
    ck_assert_int_eq(sc_text_part(&all, &skipped, pool, &err), 0);
    int i = 0;
    for (; i < 3 && names[_i].kept[i]; i++) {
        ck_assert_int_lt(i, all.count);
        ck_assert_str_eq(all.tensor[i].name, names[_i].kept[i]);
    }
    ck_assert_int_eq(i, all.count);
    ck_assert(!skipped == !names[_i].skipped);
    if (skipped)
        ck_assert_str_eq(skipped, names[_i].skipped);
    sc_pool_destroy(pool);
}
END_TEST

START_TEST(two_tensors_of_one_name_are_refused) {
    sc_error err = { 0 };
    sc_pool *pool = sc_pool_create();
    sc_tensor tensor[] = { { .name = "language_model.lm_head.weight", .file = "f" },
                           { .name = "lm_head.weight", .file = "f" } };
    sc_tensors all = { .count = 2, .tensor = tensor };
    const char *skipped;
    ck_assert_int_eq(sc_text_part(&all, &skipped, pool, &err), SC_EINPUT);
    ck_assert_msg(strstr(err.message, "lm_head.weight: the tensor is there twice") != NULL, "%s",
                  err.message);
    sc_pool_destroy(pool);
}
END_TEST

Suite *text_part_suite(void) {
    Suite *suite = suite_create("text_part");
    TCase *tests = tcase_create("text_part");
    tcase_set_timeout(tests, 300);
    tcase_add_unchecked_fixture(tests, run_share_runtime, NULL);
    tcase_add_loop_test(tests, the_text_model_is_cast_as_if_it_were_alone, 0,
                        (int)(sizeof forms / sizeof *forms));
    tcase_add_loop_test(tests, names_become_those_of_the_text_model, 0,
                        (int)(sizeof names / sizeof *names));
    tcase_add_test(tests, two_tensors_of_one_name_are_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
