/* check_config.c - config.json -> sc_config: what each family reads, and what is refused. */
#include "../codegen/config.h"
#include "../codegen/json.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static sc_pool *pool;

static void begin(void) { pool = sc_pool_create(); }

static void end(void) { sc_pool_destroy(pool); }

static int make(sc_config **c, const char *text, const char *generation, sc_error *err) {
    cJSON *json = NULL, *gen = NULL;
    int rc = sc_json_parse(&json, "config.json", text, strlen(text), err);
    if (!rc && generation)
        rc = sc_json_parse(&gen, "generation_config.json", generation, strlen(generation), err);
    if (!rc)
        rc = sc_config_make(c, pool, "config.json", json, gen, err);
    cJSON_Delete(json);
    cJSON_Delete(gen);
    return rc;
}

static sc_config *made(const char *text, const char *generation) {
    sc_config *c = NULL;
    sc_error err = { 0 };
    ck_assert_msg(!make(&c, text, generation, &err), "%s: %s", text, err.message);
    return c;
}

#define SMALL                                                                                      \
    "\"vocab_size\":99,\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,"
#define KV2 SMALL "\"num_key_value_heads\":2,"
#define QWEN3 "{\"model_type\":\"qwen3\"," KV2 "\"num_hidden_layers\":5,\"sliding_window\":"
#define LLAMA "{\"model_type\":\"llama\"," SMALL "\"num_hidden_layers\":2"
#define MISTRAL "{\"model_type\":\"mistral\"," KV2 "\"num_hidden_layers\":2"

static const struct {
    const char *text, *layers; /* f full, s sliding */
    int kv_heads, window, notes;
} layer_table[] = {
    { QWEN3 "8,\"use_sliding_window\":false}", "fffff", 2, 0, 1 },
    { QWEN3 "8,\"use_sliding_window\":true}", "fffff", 2, 8, 1 },
    { QWEN3 "8,\"use_sliding_window\":true,\"max_window_layers\":2}", "ffsss", 2, 8, 0 },
    { QWEN3 "null,\"use_sliding_window\":true}", "fffff", 2, 0, 0 },
    { QWEN3 "8,\"use_sliding_window\":true,\"layer_types\":[\"attention\",\"sliding_attention\","
            "\"attention\",\"full_attention\",\"attention\"]}",
      "fsfff", 2, 8, 0 },
    { LLAMA "}", "ff", 4, 0, 0 },
    { LLAMA ",\"num_key_value_heads\":null}", "ff", 4, 0, 0 },
    { MISTRAL "}", "ss", 2, 4096, 0 },
    { MISTRAL ",\"sliding_window\":null}", "ff", 2, 0, 0 },
    { "{\"model_type\":\"x\",\"text_config\":" LLAMA "}}", "ff", 4, 0, 0 },
};

START_TEST(layers_of) {
    const sc_config *c = made(layer_table[_i].text, NULL);
    const char *want = layer_table[_i].layers;
    ck_assert_int_eq(c->num_hidden_layers, (int64_t)strlen(want));
    for (size_t i = 0; want[i]; i++)
        ck_assert_int_eq(c->layer_types[i][0], want[i]);
    ck_assert_int_eq(c->num_key_value_heads, layer_table[_i].kv_heads);
    ck_assert_int_eq(c->sliding_window, layer_table[_i].window);
    ck_assert_int_eq(c->notes, layer_table[_i].notes);
    if (c->notes)
        ck_assert_ptr_nonnull(strstr(c->note[0], "sliding_window: 8 is not used"));
}
END_TEST

static const struct {
    const char *key, *value, *from;
} origin_table[] = {
    { "hidden_size", "64", "config.json" },
    { "max_position_embeddings", "2048", "default of llama" },
    { "num_key_value_heads", "4", "rule: num_attention_heads" },
    { "head_dim", "16", "rule: hidden_size / num_attention_heads" },
    { "rms_norm_eps", "0.0015", "config.json" },
    { "tie_word_embeddings", "false", "default of llama" },
    { "dtype", "bfloat16", "config.json" },
};

START_TEST(every_value_says_where_it_came_from) {
    const sc_config *c = made(LLAMA ",\"rms_norm_eps\":0.0015,\"torch_dtype\":\"bfloat16\"}", NULL);
    const sc_config_entry *last = NULL; /* null first, then what a rule makes of it */
    for (int i = 0; i < c->entries; i++)
        if (!strcmp(c->entry[i].key, origin_table[_i].key))
            last = &c->entry[i];
    ck_assert_ptr_nonnull(last);
    ck_assert_str_eq(last->value, origin_table[_i].value);
    ck_assert_str_eq(last->from, origin_table[_i].from);
}
END_TEST

START_TEST(old_and_new_rope_read_alike) {
    const sc_config *a =
        made(LLAMA ",\"rope_theta\":500000.0,\"rope_scaling\":{\"type\":\"linear\","
                   "\"factor\":4.0}}",
             NULL);
    const sc_config *b = made(LLAMA ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4,"
                                    "\"rope_theta\":500000}}",
                              NULL);
    ck_assert_str_eq(a->rope.rope_type, "linear");
    ck_assert_str_eq(b->rope.rope_type, "linear");
    ck_assert_double_eq(a->rope.rope_theta, 500000);
    ck_assert_double_eq(b->rope.rope_theta, 500000);
    ck_assert_double_eq(a->rope.factor, 4);
    ck_assert_double_eq(b->rope.factor, 4);
}
END_TEST

START_TEST(the_generation_config_wins_for_eos) {
    const char *text = LLAMA ",\"eos_token_id\":5,\"bos_token_id\":null}";
    const sc_config *c = made(text, "{\"eos_token_id\":[7,8]}");
    ck_assert_int_eq(c->eos_count, 2);
    ck_assert_int_eq(c->eos_token_id[1], 8);
    ck_assert_int_eq(c->bos_token_id, -1);
    c = made(text, "{}");
    ck_assert_int_eq(c->eos_count, 1);
    ck_assert_int_eq(c->eos_token_id[0], 5);
}
END_TEST

static char *slurp(const char *path) {
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    char *text = calloc(1, 16384);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_gt(fread(text, 1, 16383, f), 0);
    fclose(f);
    return text;
}

static int is_json(const struct dirent *e) {
    const size_t n = strlen(e->d_name);
    return n > 5 && !strcmp(e->d_name + n - 5, ".json");
}

/* tests/errors/NAME.json is refused, and NAME.err is the whole message. */
START_TEST(refused_with_the_whole_message) {
    struct dirent **names = NULL;
    const int n = scandir("tests/errors", &names, is_json, alphasort);
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "tests/errors/%s", names[i]->d_name);
        char *text = slurp(path);
        strcpy(path + strlen(path) - 5, ".err");
        char *want = slurp(path);
        want[strcspn(want, "\n")] = 0;
        sc_config *c = NULL;
        sc_error err = { 0 };
        ck_assert_msg(make(&c, text, NULL, &err) == SC_EINPUT, "%s: not refused", path);
        ck_assert_msg(!strcmp(err.message, want), "%s:\n  %s\n  %s", path, err.message, want);
        ck_assert_ptr_null(c);
        free(text);
        free(want);
        free(names[i]);
    }
    free(names);
}
END_TEST

Suite *config_suite(void);
Suite *config_suite(void) {
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("config");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, layers_of, 0, sizeof layer_table / sizeof *layer_table);
    tcase_add_loop_test(tc, every_value_says_where_it_came_from, 0,
                        sizeof origin_table / sizeof *origin_table);
    tcase_add_test(tc, old_and_new_rope_read_alike);
    tcase_add_test(tc, the_generation_config_wins_for_eos);
    tcase_add_test(tc, refused_with_the_whole_message);
    suite_add_tcase(suite, tc);
    return suite;
}
