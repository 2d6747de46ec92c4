/* check_rope.c - a config's rope as numbers, against tests/reference/make_rope.py. */
#include "../codegen/json.h"
#include "../codegen/rope.h"

#include <check.h>
#include <math.h>

static sc_pool *pool;
static cJSON *json;
static const cJSON *cases;

/* Before the tests run, to count the cases, too: no assertion. */
static void begin(void) {
    pool = sc_pool_create();
    json = NULL;
    sc_json_read(&json, "tests/reference/rope/rope.json", 1 << 20, NULL);
    cases = sc_json_get(json, "cases");
}

static void end(void) {
    cJSON_Delete(json);
    sc_pool_destroy(pool);
}

/* What a casting computes: templates/model.c. */
static double frequency(const sc_rope *rope, int64_t pair, int64_t pos) {
    if (!rope->long_from || pos < rope->long_from)
        return (double)rope->inv_freq[pair];
    if (rope->long_freq)
        return (double)rope->long_freq[pair];
    const double factor = (double)rope->growth;
    const double grown = factor * (double)(pos + 1) / (double)rope->long_from - (factor - 1);
    return (double)rope->inv_freq[pair] *
           pow(grown, -2.0 * (double)pair / (double)(rope->rotary_dim - 2));
}

/* Both sides take the same float32 steps; a power may be off by one in the last place, which later
 * steps can make two. */
static void check_frequencies(const char *name, const sc_rope *rope, int64_t pos,
                              const cJSON *want) {
    ck_assert_msg(cJSON_GetArraySize(want) == rope->rotary_dim / 2, "%s: %lld pairs", name,
                  (long long)rope->rotary_dim / 2);
    int64_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, want) {
        const double have = frequency(rope, i, pos);
        ck_assert_msg(fabs(have - item->valuedouble) <= 2.4e-7 * item->valuedouble,
                      "%s, position %lld, pair %lld: %.9g, not %.9g", name, (long long)pos,
                      (long long)i, have, item->valuedouble);
        i++;
    }
}

START_TEST(frequencies_are_the_references) {
    const cJSON *one = cJSON_GetArrayItem(cases, _i);
    ck_assert_msg(one != NULL, "tests/reference/rope/rope.json cannot be read");
    const char *name = sc_json_get(one, "name")->valuestring;
    const int64_t head_dim = (int64_t)sc_json_get(one, "head_dim")->valuedouble;
    sc_config *config;
    sc_rope rope, sliding;
    sc_error err = { 0 };
    int rc =
        sc_config_make(&config, pool, "config.json", sc_json_get(one, "config"), NULL, false, &err);
    if (!rc)
        rc = sc_rope_make(&rope, pool, &config->rope, head_dim, config->max_position_embeddings,
                          &err);
    if (!rc)
        rc = sc_rope_make(&sliding, pool, &config->sliding_rope, head_dim,
                          config->max_position_embeddings, &err);
    ck_assert_msg(!rc, "%s: %s", name, err.message);
    ck_assert_msg(!config->unsupported, "%s: %s", name, config->unsupported);
    const cJSON *apart = sc_json_get(one, "sliding"), *at;
    check_frequencies(name, &rope, 0, sc_json_get(one, "inv_freq"));
    check_frequencies(name, &sliding, 0, apart ? apart : sc_json_get(one, "inv_freq"));
    ck_assert_double_eq_tol((double)rope.attention_factor,
                            sc_json_get(one, "attention_factor")->valuedouble, 1e-7);
    cJSON_ArrayForEach(at, sc_json_get(one, "at")) {
        check_frequencies(name, &rope, (int64_t)sc_json_get(at, "pos")->valuedouble,
                          sc_json_get(at, "inv_freq"));
    }
}
END_TEST

START_TEST(latent_scores_take_what_cos_and_sin_leave_out) {
    sc_rope_config rope = { .rope_type = "yarn", .factor = 40 };
    ck_assert_double_eq(sc_rope_score_scale(&rope), 1);
    rope.mscale_all_dim = 1;
    ck_assert_double_eq_tol(sc_rope_score_scale(&rope), 1.8738542070926265, 1e-12);
}
END_TEST

Suite *rope_suite(void);
Suite *rope_suite(void) {
    Suite *suite = suite_create("rope");
    TCase *t = tcase_create("rope");
    begin();
    const int count = cases ? cJSON_GetArraySize(cases) : 1;
    end();
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, frequencies_are_the_references, 0, count);
    tcase_add_test(t, latent_scores_take_what_cos_and_sin_leave_out);
    suite_add_tcase(suite, t);
    return suite;
}
