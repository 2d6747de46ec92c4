/* check_config.c - config.json -> sc_config: what each family reads, and what is refused. */
#include "../codegen/config.h"
#include "../codegen/graph.h"
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
        rc = sc_config_make(c, pool, "config.json", json, gen, false, err);
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
#define GEMMA3 "{\"model_type\":\"gemma3_text\"," KV2
#define GEMMA4                                                                                     \
    "{\"model_type\":\"gemma4_text\"," KV2                                                         \
    "\"num_hidden_layers\":6,\"head_dim\":16,\"layer_types\":["                                    \
    "\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"sliding_attention\","        \
    "\"full_attention\",\"sliding_attention\"],\"num_kv_shared_layers\":"
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
    /* The answers of TRIALS.md, by transformers. */
    { GEMMA3 "\"num_hidden_layers\":13}", "sssssfsssssfs", 2, 4096, 0 },
    { GEMMA3 "\"num_hidden_layers\":6,\"sliding_window_pattern\":2}", "sfsfsf", 2, 4096, 0 },
    { GEMMA3 "\"num_hidden_layers\":2,\"sliding_window_pattern\":2,\"layer_types\":"
             "[\"full_attention\",\"sliding_attention\"]}",
      "fs", 2, 4096, 0 },
    { GEMMA3 "\"num_hidden_layers\":2}", "ss", 2, 4096, 0 },
    { "{\"model_type\":\"gemma3\",\"text_config\":{" KV2 "\"num_hidden_layers\":2}}", "ss", 2, 4096,
      0 },
    { GEMMA4 "3}", "sfsddd", 2, 512, 1 },
};

START_TEST(layers_of) {
    const sc_config *c = made(layer_table[_i].text, NULL);
    const char *want = layer_table[_i].layers;
    ck_assert_int_eq(c->num_hidden_layers, (int64_t)strlen(want));
    for (size_t i = 0; want[i]; i++)
        ck_assert_int_eq(sc_layer_type_name(c->layer[i].type)[0], want[i]);
    ck_assert_int_eq(c->num_key_value_heads, layer_table[_i].kv_heads);
    ck_assert_int_eq(c->sliding_window, layer_table[_i].window);
    ck_assert_int_eq(c->notes, layer_table[_i].notes);
    if (c->notes)
        ck_assert_ptr_nonnull(strstr(c->note[0], " is not used"));
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

/* TRIALS.md: types s f s s f f, three shared: 3 reads 2, 4 reads 1, 5 reads 1. */
START_TEST(shared_layers_read_the_last_of_their_type) {
    static const int source[] = { 0, 1, 2, 2, 1, 1 };
    const sc_config *c = made(GEMMA4 "3}", NULL);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(c->layer[i].kv_source, source[i]);
    ck_assert_int_eq(c->layer[0].head_dim, 16);
    ck_assert_int_eq(c->layer[1].head_dim, 512);
    ck_assert_int_eq(c->layer[2].head_dim, 16);
}
END_TEST

/* --generic: only what all families share, and every assumption is said. */
START_TEST(an_unknown_model_type_is_read_when_asked) {
    const char *text = "{\"model_type\":\"nobody\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                       "\"num_attention_heads\":4,\"sliding_window\":8}";
    cJSON *json = NULL;
    sc_config *c = NULL;
    sc_error err = { 0 };
    ck_assert(!sc_json_parse(&json, "config.json", text, strlen(text), &err));
    ck_assert_int_eq(sc_config_make(&c, pool, "config.json", json, NULL, false, &err), SC_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.message, "\"nobody\" is unknown"));
    ck_assert_msg(!sc_config_make(&c, pool, "config.json", json, NULL, true, &err), "%s",
                  err.message);
    ck_assert_int_eq(c->layer[1].type, SC_SLIDING_ATTENTION);
    ck_assert_int_eq(c->layer[1].kv_heads, 4);
    ck_assert_int_eq(c->layer[1].head_dim, 16);
    ck_assert_ptr_nonnull(c->unsupported);
    ck_assert_int_eq(c->notes, 2);
    ck_assert_ptr_nonnull(strstr(c->note[1], "assumed: "));
    ck_assert_ptr_nonnull(strstr(c->note[1], "num_key_value_heads 4, "));
    cJSON_DeleteItemFromObjectCaseSensitive(json, "num_attention_heads");
    ck_assert_int_eq(sc_config_make(&c, pool, "config.json", json, NULL, true, &err), SC_EINPUT);
    ck_assert_str_eq(err.message, "config.json: num_attention_heads: is missing");
    cJSON_Delete(json);
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

/* tests/errors/NAME.json is refused, or at least no graph can be built of it; NAME.err is the whole
 * message. */
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
        int rc = make(&c, text, NULL, &err);
        sc_graph *graph = NULL;
        const bool read = !rc;
        if (read && !c->unsupported)
            rc = sc_graph_make(&graph, pool, c, &err);
        const char *said = rc ? err.message : c->unsupported;
        ck_assert_msg(rc == SC_EINPUT || (!rc && said), "%s: not refused", path);
        ck_assert_msg(!strcmp(said, want), "%s:\n  %s\n  %s", path, said, want);
        ck_assert(read || !c);
        ck_assert(!graph);
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
    tcase_add_test(tc, shared_layers_read_the_last_of_their_type);
    tcase_add_test(tc, an_unknown_model_type_is_read_when_asked);
    tcase_add_test(tc, refused_with_the_whole_message);
    suite_add_tcase(suite, tc);
    return suite;
}
