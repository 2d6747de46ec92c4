/*
 * check_cuda_states.c - what layers remember besides keys and values, on the stand-in driver: the
 * same bits however a prompt is cut and in whatever row of a padded batch it is, gone after a
 * reset. check_cuda.c has the reference's numbers.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/device.h"
#include "support/standin.h"

Suite *cuda_states_suite(void);

enum { PROMPT = 11, BATCH = 2, MOST = 1 << 15 };

static const char *const families[] = { "lfm2", "mamba2", "jamba" };
enum { FAMILIES = sizeof families / sizeof *families };

/* How prompts are cut. A pass of one token has linears of its own, whose sums are in another
 * order, so there is none; 11 and 3 are more than a convolution has columns, or fewer. */
static const int cuts[][4] = { { 11 }, { 3, 2, 6 }, { 2, 7, 2 } };
enum { CUTS = sizeof cuts / sizeof *cuts };

typedef struct {
    float logits[BATCH * 256];
    unsigned char state[MOST]; /* of all layers, as the cache gives them */
    size_t bytes;
} outcome;

static void read_states(outcome *o, const sc_casting *api, const sc_cache *cache) {
    o->bytes = 0;
    for (int i = 0; i < api->states; i++) {
        const sc_casting_state *s = &api->state[i];
        const bool conv = !strcmp(s->name, "conv_state");
        const size_t size = strcmp(s->dtype, "float32") ? 2 : 4;
        const size_t bytes = (size_t)(BATCH * s->channels * s->columns) * size;
        ck_assert_uint_le(o->bytes + bytes, MOST);
        ck_assert_int_eq((conv ? api->cache_read_conv : api->cache_read_recurrent)(
                             cache, s->layer, s->index, o->state + o->bytes, NULL),
                         0);
        o->bytes += bytes;
    }
}

/* The prompt of both rows in pieces; the second row's begins with so many tokens of padding, which
 * has other ids each time. */
static void pass(outcome *o, const sc_casting *api, sc_model *m, sc_cache *cache, const int *cut,
                 int64_t padding, int32_t filler) {
    int32_t ids[BATCH * PROMPT];
    const int64_t pad[BATCH] = { 0, padding };
    sc_error err = { 0 };
    memset(o, 0, sizeof *o);
    ck_assert_int_eq(api->cache_reset(cache, &err), 0);
    ck_assert_msg(!api->cache_pad(cache, pad, &err), "%s", err.message);
    for (int done = 0; done < PROMPT; done += *cut++) {
        for (int b = 0; b < BATCH; b++)
            for (int i = 0; i < *cut; i++) {
                const int64_t at = done + i - pad[b];
                ids[b * *cut + i] = at < 0 ? filler : (int32_t)((at * 37 + 5) % api->vocab);
            }
        ck_assert_msg(!api->model_forward(m, cache, ids, *cut, o->logits, 0, &err), "%s",
                      err.message);
    }
    read_states(o, api, cache);
}

START_TEST(a_state_is_the_same_however_a_prompt_is_cut) {
    char name[64], model[128];
    outcome whole, other;
    sc_model *m = NULL;
    sc_cache *cache = NULL;
    sc_error err = { 0 };
    const sc_options choice = { .device = "cuda:0" };
    snprintf(name, sizeof name, "%s-states", families[_i]);
    snprintf(model, sizeof model, "tests/reference/tiny/%s", families[_i]);
    const device_casting *c =
        device_cast(name, model, "--max-cache-len 16 --batch-size 2 --dtype bfloat16");
    device_begin(c, &(sc_standin_settings){ .seed = 3 });
    ck_assert_msg(!c->api->model_open(&m, c->weights, &choice, &err), "%s", err.message);
    ck_assert_msg(!c->api->cache_create_on(&cache, "cuda:0", &err), "%s", err.message);
    pass(&whole, c->api, m, cache, cuts[0], 4, 1);
    ck_assert_uint_gt(whole.bytes, 0);
    for (int i = 1; i < CUTS; i++) {
        pass(&other, c->api, m, cache, cuts[i], 4, 2);
        ck_assert_msg(!memcmp(&whole, &other, sizeof whole), "%s: cut %d: states differ", model, i);
    }
    /* Without padding the rows are one prompt, and the same. */
    pass(&other, c->api, m, cache, cuts[1], 0, 0);
    for (int i = 0; i < 256; i++)
        ck_assert(memcmp(&other.logits[i], &other.logits[256 + i], sizeof(float)) == 0);
    c->api->cache_destroy(cache);
    c->api->model_close(m);
    standin_check_clean(name);
}
END_TEST

Suite *cuda_states_suite(void) {
    Suite *suite = suite_create("cuda_states");
    if (!device_available())
        return suite;
    TCase *cases = tcase_create("cases");
    tcase_add_loop_test(cases, a_state_is_the_same_however_a_prompt_is_cut, 0,
                        *cast_sanitize ? 1 : FAMILIES);
    tcase_set_timeout(cases, 600);
    suite_add_tcase(suite, cases);
    return suite;
}
