/* check_plan.c - where buffers lie: slots, the reference's plans, sums. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/export.h"
#include "../codegen/json.h"

Suite *plan_suite(void);

static const struct {
    sc_layer_type type;
    int64_t max_cache_len, sliding_window, slots;
} slots_table[] = {
    { SC_FULL_ATTENTION, 4096, 512, 4096 },   /* a window does not touch a full layer */
    { SC_SLIDING_ATTENTION, 4096, 512, 512 }, /* the usual case */
    { SC_SLIDING_ATTENTION, 256, 512, 256 },  /* cache shorter than the window */
    { SC_SLIDING_ATTENTION, 512, 512, 512 },  /* exactly the window */
    { SC_SLIDING_ATTENTION, 16, 1, 1 },       /* a window of one */
};

START_TEST(a_layer_keeps_the_tokens_that_it_can_see) {
    int64_t slots = -1;
    ck_assert_int_eq(sc_plan_slots(&slots, slots_table[_i].type, slots_table[_i].max_cache_len,
                                   slots_table[_i].sliding_window, NULL),
                     SC_OK);
    ck_assert_int_eq(slots, slots_table[_i].slots);
}
END_TEST

START_TEST(a_length_that_is_not_positive_is_refused) {
    int64_t slots = 7;
    ck_assert_int_eq(sc_plan_slots(&slots, SC_FULL_ATTENTION, 0, 0, NULL), SC_EINPUT);
    ck_assert_int_eq(sc_plan_slots(&slots, SC_SLIDING_ATTENTION, 4, 0, NULL), SC_EINPUT);
    ck_assert_int_eq(slots, 7);
}
END_TEST

static const char *const published[] = { "llama-2-7b",      "llama-3.1-8b",   "llama-3.2-1b",
                                         "smollm2-135m",    "tinyllama-1.1b", "mistral-7b-v0.1",
                                         "mistral-7b-v0.3", "qwen2-0.5b",     "qwen3-0.6b",
                                         "qwen3-4b" };
enum { PUBLISHED = sizeof published / sizeof *published };

/* Ours as JSON, as `plan --json` prints it. */
static cJSON *plan_of(const char *config, const cJSON *wanted, sc_pool *pool) {
    sc_error err = { 0 };
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    ck_assert_msg(!sc_source_open(&source, pool, config, false, &err), "%s", err.message);
    sc_export_options options = { .max_cache_len = sc_json_get(wanted, "max_cache_len")->valueint,
                                  .batch_size = sc_json_get(wanted, "batch_size")->valueint,
                                  .dtype = sc_json_get(wanted, "dtype")->valuestring,
                                  .arch = "generic" };
    ck_assert_msg(!sc_export_plan(&plan, pool, source, &options, &err), "%s", err.message);
    ck_assert_msg(!sc_plan_check(plan, &err), "%s", err.message);
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    sc_plan_print_json(out, plan);
    fclose(out);
    cJSON *json = NULL;
    ck_assert_msg(!sc_json_parse(&json, "plan", text, bytes, &err), "%s", err.message);
    free(text);
    sc_source_close(source);
    return json;
}

static void same(const cJSON *ours, const cJSON *theirs, const char *key) {
    char *a = cJSON_PrintUnformatted(sc_json_get(ours, key));
    char *b = cJSON_PrintUnformatted(sc_json_get(theirs, key));
    ck_assert_msg(a && b && !strcmp(a, b), "%s: %s, the reference has %s", key, a, b);
    cJSON_free(a);
    cJSON_free(b);
}

START_TEST(published_configs_get_the_plan_of_the_reference) {
    char path[256];
    sc_error err = { 0 };
    cJSON *reference = NULL;
    snprintf(path, sizeof path, "tests/reference/cache_plans/%s.json", published[_i / 2]);
    ck_assert_msg(!sc_json_read(&reference, path, 1 << 24, &err), "%s", err.message);
    const cJSON *wanted = sc_json_get(reference, _i % 2 ? "plan_1" : "plan_0");
    sc_pool *pool = sc_pool_create();
    snprintf(path, sizeof path, "tests/reference/configs/%s/config.json", published[_i / 2]);
    cJSON *plan = plan_of(path, wanted, pool);
    const cJSON *ours = sc_json_get(plan, "layers"), *theirs = sc_json_get(wanted, "layers");
    const cJSON *totals = sc_json_get(wanted, "cache");
    ck_assert_int_eq(cJSON_GetArraySize(ours), cJSON_GetArraySize(theirs));
    for (int i = 0; i < cJSON_GetArraySize(ours); i++) {
        static const char *const keys[] = { "layer_type", "key_shape",  "value_shape",
                                            "bytes",      "max_length", "is_croppable" };
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            same(cJSON_GetArrayItem(ours, i), cJSON_GetArrayItem(theirs, i), keys[k]);
    }
    same(plan, totals, "max_length");
    ck_assert_double_eq(sc_json_get(plan, "arena_bytes")->valuedouble,
                        sc_json_get(totals, "bytes")->valuedouble);
    cJSON_Delete(plan);
    cJSON_Delete(reference);
    sc_pool_destroy(pool);
}
END_TEST

START_TEST(a_buffer_out_of_its_place_is_found) {
    sc_pool *pool = sc_pool_create();
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    sc_error err = { 0 };
    const sc_export_options options = { .arch = "generic" };
    ck_assert(!sc_source_open(&source, pool, "examples/austen", false, &err));
    ck_assert(!sc_export_plan(&plan, pool, source, &options, &err));
    sc_plan broken = *plan;
    broken.arena_bytes++;
    ck_assert_int_eq(sc_plan_check(&broken, &err), SC_ECHECK);
    ck_assert_str_eq(err.message, "plan: the buffers add up to 655360 bytes, the arena has 655361");
    plan->layer[3].keys_offset -= 4;
    ck_assert_int_eq(sc_plan_check(plan, &err), SC_ECHECK);
    ck_assert_str_eq(err.message, "plan: layer 3: its buffers do not follow the last one's");
    sc_source_close(source);
    sc_pool_destroy(pool);
}
END_TEST

Suite *plan_suite(void) {
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_add_loop_test(tests, a_layer_keeps_the_tokens_that_it_can_see, 0,
                        (int)(sizeof slots_table / sizeof *slots_table));
    tcase_add_test(tests, a_length_that_is_not_positive_is_refused);
    tcase_add_loop_test(tests, published_configs_get_the_plan_of_the_reference, 0, 2 * PUBLISHED);
    tcase_add_test(tests, a_buffer_out_of_its_place_is_found);
    suite_add_tcase(suite, tests);
    return suite;
}
