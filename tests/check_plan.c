/* check_plan.c - where buffers lie: slots, the reference's plans, sums. */
#include <check.h>
#include <dirent.h>
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

/* Names of configs that the reference has plans of, sorted. */
static char published[128][64];
static int publications;

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static void list_published(void) {
    DIR *folder = opendir("tests/reference/cache_plans");
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const size_t length = strlen(entry->d_name);
        if (length > 5 && length < 64 && !strcmp(entry->d_name + length - 5, ".json"))
            snprintf(published[publications++], 64, "%.*s", (int)length - 5, entry->d_name);
    }
    if (folder)
        closedir(folder);
    qsort(published, (size_t)publications, sizeof *published, by_name);
}

/* As `plan --json` prints it. */
static cJSON *json_of(const sc_plan *plan) {
    char *text = NULL;
    size_t bytes;
    sc_error err = { 0 };
    FILE *out = open_memstream(&text, &bytes);
    sc_plan_print_json(out, plan);
    fclose(out);
    cJSON *json = NULL;
    ck_assert_msg(!sc_json_parse(&json, "plan", text, bytes, &err), "%s", err.message);
    free(text);
    return json;
}

/* Ours with the reference's options. */
static cJSON *plan_of(const char *config, const cJSON *wanted, sc_pool *pool) {
    sc_error err = { 0 };
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    ck_assert_msg(!sc_source_open(&source, pool, config, false, false, &err), "%s", err.message);
    sc_export_options options = { .max_cache_len = sc_json_get(wanted, "max_cache_len")->valueint,
                                  .batch_size = sc_json_get(wanted, "batch_size")->valueint,
                                  .dtype = sc_json_get(wanted, "dtype")->valuestring,
                                  .only_cache = true,
                                  .arch = "generic" };
    ck_assert_msg(!sc_export_plan(&plan, pool, source, &options, &err), "%s", err.message);
    ck_assert_msg(!sc_plan_check(plan, &err), "%s", err.message);
    cJSON *json = json_of(plan);
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

/* States have names, indices, shapes and dtypes of their own; ours say offsets too. */
static void same_states(const cJSON *ours, const cJSON *theirs) {
    static const char *const keys[] = { "name", "index", "shape", "dtype" };
    const cJSON *a = sc_json_get(ours, "states"), *b = sc_json_get(theirs, "states");
    ck_assert_int_eq(cJSON_GetArraySize(a), cJSON_GetArraySize(b));
    for (int i = 0; i < cJSON_GetArraySize(a); i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            same(cJSON_GetArrayItem(a, i), cJSON_GetArrayItem(b, i), keys[k]);
}

START_TEST(published_configs_get_the_plan_of_the_reference) {
    static const char *const layer_keys[] = { "index",         "layer_type",  "is_sliding",
                                              "key_shape",     "value_shape", "kv_dtype",
                                              "bytes",         "max_length",  "is_croppable",
                                              "is_compileable" };
    static const char *const cache_keys[] = { "bytes",          "max_length",     "is_croppable",
                                              "is_compileable", "sliding_layers", "linear_layers",
                                              "dummy_layers" };
    char path[256];
    sc_error err = { 0 };
    cJSON *reference = NULL;
    snprintf(path, sizeof path, "tests/reference/cache_plans/%s.json", published[_i / 2]);
    ck_assert_msg(!sc_json_read(&reference, path, 1 << 24, &err), "%s", err.message);
    const cJSON *wanted = sc_json_get(reference, _i % 2 ? "plan_1" : "plan_0");
    sc_pool *pool = sc_pool_create();
    snprintf(path, sizeof path, "tests/reference/configs/%s/config.json", published[_i / 2]);
    if (sc_json_get(wanted, "static_cache_error")) {
        sc_source *source = NULL;
        ck_assert_int_eq(sc_source_open(&source, pool, path, false, false, &err), SC_EINPUT);
        ck_assert_ptr_nonnull(strstr(err.message, "no static cache"));
    } else {
        cJSON *plan = plan_of(path, wanted, pool);
        const cJSON *ours = sc_json_get(plan, "layers"), *theirs = sc_json_get(wanted, "layers");
        ck_assert_int_eq(cJSON_GetArraySize(ours), cJSON_GetArraySize(theirs));
        for (int i = 0; i < cJSON_GetArraySize(ours); i++) {
            for (size_t k = 0; k < sizeof layer_keys / sizeof *layer_keys; k++)
                same(cJSON_GetArrayItem(ours, i), cJSON_GetArrayItem(theirs, i), layer_keys[k]);
            same_states(cJSON_GetArrayItem(ours, i), cJSON_GetArrayItem(theirs, i));
        }
        for (size_t k = 0; k < sizeof cache_keys / sizeof *cache_keys; k++)
            same(sc_json_get(plan, "cache"), sc_json_get(wanted, "cache"), cache_keys[k]);
        ck_assert_double_eq(sc_json_get(plan, "arena_bytes")->valuedouble -
                                sc_json_get(plan, "padding_bytes")->valuedouble,
                            sc_json_get(sc_json_get(wanted, "cache"), "bytes")->valuedouble);
        cJSON_Delete(plan);
    }
    cJSON_Delete(reference);
    sc_pool_destroy(pool);
}
END_TEST

/* The shape that our plan has for "LAYER.keys", "LAYER.conv_state.1", …; NULL: none. */
static const cJSON *shape_named(const cJSON *plan, const char *name) {
    const cJSON *layer = cJSON_GetArrayItem(sc_json_get(plan, "layers"), atoi(name)), *state;
    const char *what = strchr(name, '.') + 1;
    if (!strcmp(what, "keys") || !strcmp(what, "values"))
        return sc_json_get(layer, *what == 'k' ? "key_shape" : "value_shape");
    const char *index = strchr(what, '.');
    const size_t length = index ? (size_t)(index - what) : strlen(what);
    cJSON_ArrayForEach(state, sc_json_get(layer, "states")) {
        const char *ours = sc_json_get(state, "name")->valuestring;
        if (strlen(ours) == length && !strncmp(ours, what, length) &&
            sc_json_get(state, "index")->valueint == (index ? atoi(index + 1) : 0))
            return sc_json_get(state, "shape");
    }
    return NULL;
}

/* Small models of 44 kinds, in the new form of configs; shapes are those that the models wrote. */
START_TEST(small_models_get_the_buffers_that_they_filled) {
    cJSON *models = NULL;
    const cJSON *model, *shape;
    sc_error err = { 0 };
    int shapes = 0;
    ck_assert_int_eq(publications, 60);
    const char *path = "tests/reference/tiny_cache_shapes.json";
    ck_assert_msg(!sc_json_read(&models, path, 1 << 24, &err), "%s", err.message);
    cJSON_ArrayForEach(model, models) {
        sc_pool *pool = sc_pool_create();
        const sc_plan *made = NULL;
        sc_config *config = NULL;
        ck_assert_msg(!sc_config_make(&config, pool, model->string, sc_json_get(model, "config"),
                                      NULL, false, &err),
                      "%s", err.message);
        const sc_source source = { .config = config };
        const sc_export_options options = { .max_cache_len =
                                                sc_json_get(model, "max_cache_len")->valueint,
                                            .only_cache = true,
                                            .arch = "generic" };
        ck_assert_msg(!sc_export_plan(&made, pool, &source, &options, &err), "%s", err.message);
        cJSON *plan = json_of(made);
        int buffers = 0;
        for (int i = 0; i < made->layers; i++)
            buffers += 2 * (made->layer[i].keys.bytes > 0) + config->layer[i].states +
                       (made->layer[i].indexer_keys.bytes > 0);
        ck_assert_int_eq(buffers, cJSON_GetArraySize(sc_json_get(model, "shapes")));
        cJSON_ArrayForEach(shape, sc_json_get(model, "shapes")) {
            ck_assert_msg(cJSON_Compare(shape, shape_named(plan, shape->string), true),
                          "%s: %s has another shape", model->string, shape->string);
            shapes++;
        }
        cJSON_Delete(plan);
        sc_pool_destroy(pool);
    }
    ck_assert_int_gt(shapes, 200);
    cJSON_Delete(models);
}
END_TEST

START_TEST(a_buffer_out_of_its_place_is_found) {
    sc_pool *pool = sc_pool_create();
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    sc_error err = { 0 };
    const sc_export_options options = { .arch = "generic" };
    ck_assert(!sc_source_open(&source, pool, "examples/austen", false, false, &err));
    ck_assert(!sc_export_plan(&plan, pool, source, &options, &err));
    sc_plan broken = *plan;
    broken.arena_bytes++;
    ck_assert_int_eq(sc_plan_check(&broken, &err), SC_ECHECK);
    ck_assert_str_eq(err.message, "plan: the buffers add up to 655360 bytes, the arena has 655361");
    plan->layer[3].keys.offset -= 4;
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
    list_published(); /* nothing to loop over: the test after it fails */
    tcase_add_loop_test(tests, published_configs_get_the_plan_of_the_reference, 0,
                        2 * publications);
    tcase_add_test(tests, small_models_get_the_buffers_that_they_filled);
    tcase_add_test(tests, a_buffer_out_of_its_place_is_found);
    suite_add_tcase(suite, tests);
    return suite;
}
