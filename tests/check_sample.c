/* check_sample.c - runtime/sample.h: what each option leaves, and how often it is drawn. */
#include "../runtime/sample.h"

#include <check.h>
#include <math.h>
#include <string.h>

Suite *sample_suite(void);

enum { VOCAB = 5, DRAWS = 20000 };
/* probabilities 0.1 0.4 0.2 0.05 0.25 */
static const float logits[VOCAB] = { -2.3025851f, -0.9162907f, -1.6094379f, -2.9957323f,
                                     -1.3862944f };

static void draw(sc_sampling sampling, int *counts) {
    sc_sampler *s = NULL;
    ck_assert_int_eq(sc_sampler_create(&s, &sampling, VOCAB, NULL), 0);
    memset(counts, 0, VOCAB * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) {
        const int32_t id = sc_sampler_next(s, logits, NULL, 0);
        ck_assert(id >= 0 && id < VOCAB);
        counts[id]++;
    }
    sc_sampler_destroy(s);
}

static void check_share(const int *counts, int id, double want) {
    const double share = (double)counts[id] / DRAWS;
    ck_assert_msg(want == 0 ? share == 0 : fabs(share - want) < 0.02, "id %d: %g, wanted %g", id,
                  share, want);
}

START_TEST(draws_by_probability) {
    int counts[VOCAB];
    static const double all[VOCAB] = { 0.1, 0.4, 0.2, 0.05, 0.25 };
    draw((sc_sampling){ .temperature = 1, .seed = 7 }, counts);
    for (int i = 0; i < VOCAB; i++)
        check_share(counts, i, all[i]);
    draw((sc_sampling){ .temperature = 0.5f }, counts); /* squares, which sum to 0.275 */
    for (int i = 0; i < VOCAB; i++)
        check_share(counts, i, all[i] * all[i] / 0.275);
}
END_TEST

START_TEST(cuts_as_told) {
    int counts[VOCAB];
    static const double two[VOCAB] = { 0, 0.4 / 0.65, 0, 0, 0.25 / 0.65 };
    static const double three[VOCAB] = { 0, 0.4 / 0.85, 0.2 / 0.85, 0, 0.25 / 0.85 };
    static const double one[VOCAB] = { 0, 1, 0, 0, 0 };
    static const struct {
        sc_sampling sampling;
        const double *want;
    } cases[] = {
        { { .temperature = 1, .top_k = 2 }, two },
        { { .temperature = 1, .top_k = 1 }, one },
        { { .temperature = 1, .top_p = 0.6f }, two },
        { { .temperature = 1, .top_p = 0.3f }, one },
        { { .temperature = 1, .top_p = 0.7f }, three },
        { { .temperature = 1, .min_p = 0.6f }, two },
        { { .temperature = 1, .top_k = 3, .top_p = 0.74f }, two }, /* 0.65 / 0.85 is 0.765 */
        { { .temperature = 1, .top_k = 3, .top_p = 0.8f }, three },
        { { .temperature = 1, .top_k = 4, .min_p = 0.45f }, three },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        draw(cases[k].sampling, counts);
        for (int i = 0; i < VOCAB; i++)
            check_share(counts, i, cases[k].want[i]);
    }
}
END_TEST

START_TEST(is_greedy_and_penalises) {
    static const float row[4] = { 1, 2, 2, -1 };
    static const float none[4] = { -INFINITY, NAN, -INFINITY, -3 };
    static const int32_t history[] = { 1, 1, 2, 3, 99, -1 };
    sc_sampler *s = NULL;
    ck_assert_int_eq(sc_sampler_create(&s, &(sc_sampling){ 0 }, 4, NULL), 0);
    ck_assert_int_eq(sc_sampler_next(s, row, NULL, 0), 1);
    ck_assert_int_eq(sc_sampler_next(s, none, NULL, 0), 3);
    sc_sampler_destroy(s);
    ck_assert_int_eq(sc_sampler_create(&s, &(sc_sampling){ .repetition_penalty = 1.5f }, 4, NULL),
                     0);
    ck_assert_int_eq(sc_sampler_next(s, row, history, 2), 2);
    ck_assert_int_eq(sc_sampler_next(s, row, history, 6), 1); /* 2 / 1.5 once, still above 1 */
    sc_sampler_destroy(s);
}
END_TEST

START_TEST(repeats_with_its_seed) {
    sc_sampler *a = NULL, *b = NULL, *c = NULL;
    int same = 0;
    const sc_sampling first = { .temperature = 1, .top_p = 0.9f, .seed = 1 };
    const sc_sampling other = { .temperature = 1, .top_p = 0.9f, .seed = 2 };
    ck_assert_int_eq(sc_sampler_create(&a, &first, VOCAB, NULL), 0);
    ck_assert_int_eq(sc_sampler_create(&b, &first, VOCAB, NULL), 0);
    ck_assert_int_eq(sc_sampler_create(&c, &other, VOCAB, NULL), 0);
    for (int i = 0; i < 100; i++) {
        const int32_t id = sc_sampler_next(a, logits, NULL, 0);
        ck_assert_int_eq(id, sc_sampler_next(b, logits, NULL, 0));
        same += id == sc_sampler_next(c, logits, NULL, 0);
    }
    ck_assert_int_lt(same, 100);
    sc_sampler_destroy(c);
    sc_sampler_destroy(b);
    sc_sampler_destroy(a);
    sc_sampler_destroy(NULL);
}
END_TEST

START_TEST(refuses_what_is_out_of_range) {
    static const sc_sampling bad[] = {
        { .temperature = -1 }, { .temperature = NAN }, { .top_k = -1 },
        { .top_p = 1.1f },     { .min_p = -0.1f },     { .repetition_penalty = -1 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sc_sampler *s = NULL;
        ck_assert_int_eq(sc_sampler_create(&s, &bad[i], VOCAB, NULL), SC_EUSAGE);
        ck_assert_ptr_null(s);
    }
}
END_TEST

Suite *sample_suite(void) {
    Suite *suite = suite_create("sample");
    TCase *all = tcase_create("all");
    tcase_add_test(all, draws_by_probability);
    tcase_add_test(all, cuts_as_told);
    tcase_add_test(all, is_greedy_and_penalises);
    tcase_add_test(all, repeats_with_its_seed);
    tcase_add_test(all, refuses_what_is_out_of_range);
    suite_add_tcase(suite, all);
    return suite;
}
