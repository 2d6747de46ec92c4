/* check_emit.c - templates and values fit each other: none unknown, none unused. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/emit.h"
#include "../codegen/export.h"

Suite *emit_suite(void);

static const char *const models[] = { "llama", "llama_rope3_bias", "mistral",
                                      "qwen2", "qwen2_sliding",    "qwen3",
                                      "lfm2",  "mamba2",           "falcon_h1",
                                      "jamba", "nemotron_h",       "qwen3_next" };
enum { MODELS = sizeof models / sizeof *models };

static const char *const templates[] = { "Makefile", "casting.h", "internal.h",
                                         "cache.c",  "table.c",   "weights.h",
                                         "model.c",  "weights.c", "main.c" };
static const bool of_model[] = { false, false, false, false, false, true, true, true, true };

static const sc_plan *plan_of(const char *model, const char *dtype, sc_pool *pool,
                              sc_source **source) {
    char path[256];
    sc_error err = { 0 };
    const sc_plan *plan = NULL;
    const sc_export_options options = { .dtype = dtype, .arch = "x86-64-v4-bf16" };
    snprintf(path, sizeof path, "tests/reference/tiny/%s", model);
    ck_assert_msg(!sc_source_open(source, pool, path, false, false, &err), "%s", err.message);
    ck_assert_msg(!sc_export_plan(&plan, pool, *source, &options, &err), "%s", err.message);
    return plan;
}

/* The first value that no template of this casting uses, "": all are used. */
static void first_unused(char unused[64], const sc_plan *plan, const sc_config *config,
                         sc_pool *pool) {
    sc_values *values = NULL;
    sc_error err = { 0 };
    ck_assert(!sc_emit_values(&values, pool, plan, config, &err));
    for (size_t t = 0; t < sizeof templates / sizeof *templates; t++) {
        if (!plan->graph && of_model[t])
            continue;
        char *text = NULL;
        size_t bytes;
        ck_assert_msg(!sc_template_render(&text, &bytes, NULL, templates[t], values, &err), "%s",
                      err.message);
        ck_assert_msg(!strstr(text, "{{"), "%s: a hole is left", templates[t]);
        free(text);
    }
    const char *name = sc_values_unused(values);
    snprintf(unused, 64, "%s", name ? name : "");
}

/* Some value is of use in one casting and not in another, so all together must use it. */
static void assert_used(char unused[][64], int castings) {
    for (int i = 0; i < castings; i++) {
        bool everywhere = *unused[i] != 0;
        for (int j = 0; j < castings; j++)
            everywhere &= !strcmp(unused[i], unused[j]);
        ck_assert_msg(!everywhere, "%s: no template uses it", unused[i]);
    }
}

START_TEST(every_value_is_used_by_some_template) {
    static const char *const dtypes[] = { "float32", "bfloat16", "float16" };
    char unused[3 * MODELS][64];
    for (int i = 0; i < 3 * MODELS; i++) {
        sc_pool *pool = sc_pool_create();
        sc_source *source = NULL;
        const sc_plan *plan = plan_of(models[i / 3], dtypes[i % 3], pool, &source);
        first_unused(unused[i], plan, source->config, pool);
        sc_source_close(source);
        sc_pool_destroy(pool);
    }
    assert_used(unused, 3 * MODELS);
}
END_TEST

/* Caches alone: with states, indexer keys, sharing, nothing but states. */
START_TEST(every_value_of_a_cache_is_used) {
    static const char *const configs[] = { "falcon-h1-0.5b", "deepseek-v3.2", "gemma-4-e2b",
                                           "mistral-7b-v0.1", "mamba-codestral-7b" };
    enum { CONFIGS = sizeof configs / sizeof *configs };
    char unused[CONFIGS][64];
    for (int i = 0; i < CONFIGS; i++) {
        sc_pool *pool = sc_pool_create();
        sc_source *source = NULL;
        const sc_plan *plan = NULL;
        sc_error err = { 0 };
        char path[256];
        const sc_export_options options = { .arch = "generic", .only_cache = true };
        snprintf(path, sizeof path, "tests/reference/configs/%s/config.json", configs[i]);
        ck_assert_msg(!sc_source_open(&source, pool, path, false, false, &err), "%s", err.message);
        ck_assert_msg(!sc_export_plan(&plan, pool, source, &options, &err), "%s", err.message);
        first_unused(unused[i], plan, source->config, pool);
        sc_source_close(source);
        sc_pool_destroy(pool);
    }
    assert_used(unused, CONFIGS);
}
END_TEST

START_TEST(the_layout_names_what_the_weights_must_be) {
    sc_pool *pool = sc_pool_create();
    sc_source *source[4];
    char hex[4][65];
    const char *const dtypes[] = { "float32", "float32", "bfloat16", "float16" };
    for (int i = 0; i < 4; i++) {
        const sc_plan *plan = plan_of(i == 1 ? "qwen3" : "llama", dtypes[i], pool, &source[i]);
        ck_assert(!sc_emit_layout(hex[i], pool, plan, NULL));
        sc_source_close(source[i]);
    }
    ck_assert_str_ne(hex[0], hex[1]);
    ck_assert_str_ne(hex[0], hex[2]);
    ck_assert_str_ne(hex[2], hex[3]);
    sc_pool_destroy(pool);
}
END_TEST

Suite *emit_suite(void) {
    Suite *suite = suite_create("emit");
    TCase *tests = tcase_create("emit");
    tcase_add_test(tests, every_value_is_used_by_some_template);
    tcase_add_test(tests, every_value_of_a_cache_is_used);
    tcase_add_test(tests, the_layout_names_what_the_weights_must_be);
    suite_add_tcase(suite, tests);
    return suite;
}
