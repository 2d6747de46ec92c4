/*
 * check_cuda.c - CUDA castings on the stand-in driver: the reference's tiny models, every order of
 * what runs side by side, every call that can fail.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/golden.h"
#include "support/cast.h"
#include "support/device.h"
#include "support/noise.h"
#include "support/run.h"
#include "support/standin.h"

Suite *cuda_suite(void);

static const char *const families[] = { "llama", "llama_rope3_bias", "mistral",
                                        "qwen2", "qwen2_sliding",    "qwen3" };
static const char *const cases[] = { "short", "long", "batch2", "chunked" };
enum { FAMILIES = sizeof families / sizeof *families, CASES = sizeof cases / sizeof *cases };

/* float32 sums in another order, relative to the largest logit of the case. */
static const double tolerance = 1e-4;

/* The other families, a case each: what llama's shape has not. By turns in float32 and in halves,
 * whose tolerance is how they round. Sanitizers, which make all of it slow, get the first ones. */
static const struct {
    const char *family, *name, *options;
    double tolerance;
} others[] = {
    { "mixtral", "chunked", "--dtype float16", 0.02 },
    { "gemma2", "long", "--dtype float16", 0.02 },
    { "olmo2", "batch2", "--dtype bfloat16", 0.12 },
    { "bloom", "long", "", 1e-4 },
    { "gpt_neo", "long", "--dtype float16", 0.02 },
    { "gpt_oss", "long", "--dtype float16", 0.02 },
    { "cohere2", "batch2", "", 1e-4 },
    { "ernie4_5", "chunked", "--dtype float16", 0.02 },
    { "exaone4", "long", "--dtype float16", 0.02 },
    { "falcon", "batch2", "", 1e-4 },
    { "falcon_new", "long", "--dtype bfloat16", 0.12 },
    { "gemma", "chunked", "", 1e-4 },
    { "gemma2", "batch2", "", 1e-4 },
    { "gemma3_text", "chunked", "", 1e-4 },
    { "glm4", "batch2", "--dtype bfloat16", 0.12 },
    { "gpt2", "long", "", 1e-4 },
    { "gpt_neox", "chunked", "", 1e-4 },
    { "granite", "batch2", "--dtype float16", 0.02 },
    { "llama_yarn", "long", "", 1e-4 },
    { "mixtral", "batch2", "", 1e-4 },
    { "olmo3", "long", "", 1e-4 },
    { "opt", "long", "--dtype float16", 0.02 },
    { "phi", "batch2", "", 1e-4 },
    { "phi3", "long", "", 1e-4 },
    { "phi3_sliding", "chunked", "--dtype bfloat16", 0.12 },
    { "qwen3_moe", "long", "--dtype float16 --kv-dtype float32", 0.02 },
    { "seed_oss", "batch2", "", 1e-4 },
    { "smollm3", "long", "", 1e-4 },
    { "stablelm", "chunked", "--dtype float16", 0.02 },
    { "starcoder2", "batch2", "--dtype float16", 0.02 },
    { "llama4_text", "batch2", "", 1e-4 },
    { "gemma3n_text", "long", "", 1e-4 },
    { "gemma4_text", "chunked", "--dtype float16", 0.04 },
    { "lfm2", "long", "--offload-weights 2", 1e-4 },
    { "lfm2", "batch2", "--dtype bfloat16", 0.12 },
    { "../states/mamba2_limits", "long", "", 1e-4 },
    { "mamba2", "batch2", "--dtype float16", 0.02 },
    { "falcon_h1", "long", "--offloading", 1e-4 },
    { "../states/falcon_h1_norm_gate", "batch2", "--dtype float16", 0.02 },
    { "jamba", "long", "", 1e-4 },
    { "deepseek_v3", "long", "", 1e-4 },
    { "deepseek_v3", "batch2", "--dtype float16", 0.02 },
    { "deepseek_v3", "chunked", "--dtype bfloat16", 0.12 },
    { "deepseek_v32", "long", "", 1e-4 },
    { "deepseek_v32", "chunked", "--offloading", 1e-4 },
    { "qwen3_next", "long", "", 1e-4 },
    { "qwen3_next", "batch2", "--dtype float16", 0.02 },
    { "../states/jamba_bias", "batch2", "--dtype float16", 0.02 },
    { "nemotron_h", "long", "", 1e-4 },
    { "nemotron_h", "batch2", "--dtype float16", 0.02 },
};
enum { OTHERS = sizeof others / sizeof *others, SANITIZED = 3 };

/* ours [count] is what the reference has under the name. */
static void check_kept(const golden *g, const char *name, const float *ours, size_t count) {
    int rank;
    int64_t shape[8];
    sc_error err = { 0 };
    float *theirs = tensor_floats(g->expected, name, &rank, shape);
    ck_assert_msg(!golden_compare(name, ours, theirs, count, tolerance, NULL, &err), "%s",
                  err.message);
    free(theirs);
}

static void check_cache(const golden *g, const device_casting *c, const sc_cache *cache) {
    char name[64];
    for (int layer = 0; layer < c->api->layers; layer++) {
        const sc_casting_layer *l = &c->api->layer[layer];
        const size_t count = (size_t)(g->batch * l->kv_heads * l->slots * l->head_dim);
        float *kv[2] = { malloc(count * 4), malloc(count * 4) };
        if (count)
            ck_assert_int_eq(c->api->cache_read(cache, layer, kv[0], kv[1], NULL), 0);
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "long.cache.%d.%s", layer, i ? "values" : "keys");
            if (count)
                check_kept(g, name, kv[i], count);
            free(kv[i]);
        }
        if (l->index_head_dim) {
            const size_t keys = (size_t)(g->batch * l->slots * l->index_head_dim);
            float *indexer = malloc(keys * sizeof *indexer);
            ck_assert_int_eq(c->api->cache_read_indexer(cache, layer, indexer, NULL), 0);
            snprintf(name, sizeof name, "long.cache.%d.indexer_keys", layer);
            check_kept(g, name, indexer, keys);
            free(indexer);
        }
    }
    for (int i = 0; i < c->api->states; i++) {
        const sc_casting_state *s = &c->api->state[i];
        const size_t count = (size_t)(g->batch * s->channels * s->columns);
        float *kept = malloc(count * 4);
        const bool conv = !strcmp(s->name, "conv_state");
        ck_assert_int_eq((conv ? c->api->cache_read_conv : c->api->cache_read_recurrent)(
                             cache, s->layer, s->index, kept, NULL),
                         0);
        snprintf(name, sizeof name, "long.cache.%d.%s.%d", s->layer, s->name, s->index);
        check_kept(g, name, kept, count);
        free(kept);
    }
}

/* Whether every layer has keys and values of its own. */
static bool has_keys(const device_casting *c) {
    for (int layer = 0; layer < c->api->layers; layer++)
        if (!c->api->layer[layer].kv_heads || c->api->layer[layer].source >= 0)
            return false;
    return true;
}

/* The case on a device: every prompt position's logits, every step's, the greedy tokens. */
static void check_case(const char *family, const char *name, const char *options, bool no_graph,
                       double bound) {
    golden g;
    sc_error err = { 0 };
    char cast[64], all[256], model[128];
    snprintf(model, sizeof model, "tests/reference/tiny/%s", family);
    ck_assert_msg(!golden_open(&g, model, name, &err), "%s", err.message);
    snprintf(cast, sizeof cast, "%s-b%d%.40s", family, g.batch, *options ? options + 2 : "");
    for (char *c = cast; *c; c++)
        *c = strchr(" ,/", *c) ? '_' : *c;
    snprintf(all, sizeof all, "--max-cache-len %d --batch-size %d %s", g.max_cache_len, g.batch,
             options);
    const device_casting *c = device_cast(cast, model, all);
    device_begin(c, &(sc_standin_settings){ .seed = 7 });
    const sc_options choice = { .device = "cuda:0", .no_graph = no_graph };
    sc_model *m = NULL;
    sc_cache *cache = NULL;
    ck_assert_msg(!c->api->model_open(&m, c->weights, &choice, &err), "%s", err.message);
    ck_assert_msg(!c->api->cache_create_on(&cache, "cuda:0", &err), "%s", err.message);
    ck_assert_str_eq(c->api->model_device(m), "cuda:0");
    const golden_rules rules = { .tolerance = bound, .exact = bound < 1e-3, .odd = no_graph };
    golden_errors errors = { 0 };
    ck_assert_msg(!golden_run(&g, c->api, m, cache, &rules, &errors, &err), "%s: %s: %s", family,
                  name, err.message);
    if (!strcmp(name, "long") && !strstr(options, "dtype") && has_keys(c))
        check_cache(&g, c, cache);
    const sc_standin_log log = device_log();
    ck_assert_int_eq(log.graph_launches, no_graph ? 0 : g.steps);
    c->api->cache_destroy(cache);
    c->api->model_close(m);
    standin_check_clean(cast);
    golden_close(&g);
}

START_TEST(a_casting_on_a_device_computes_what_the_reference_does) {
    check_case(families[_i / CASES], cases[_i % CASES], "", _i % 2, tolerance);
}
END_TEST

START_TEST(every_family_computes_on_a_device_what_the_reference_does) {
    check_case(others[_i].family, others[_i].name, others[_i].options, _i % 2,
               others[_i].tolerance);
}
END_TEST

/* Embedding, learned positions, five kernels a layer, head and choice; whether norms are of squares
 * or centred. */
START_TEST(a_token_is_five_launches_a_layer) {
    static const char *const models[] = { "llama", "gpt2" };
    static const int besides[] = { 3, 4 };
    char name[64], model[128];
    sc_error err = { 0 };
    sc_model *m = NULL;
    sc_cache *cache = NULL;
    int32_t ids[] = { 3, 1, 4 };
    snprintf(name, sizeof name, "%s-b1", models[_i]);
    snprintf(model, sizeof model, "tests/reference/tiny/%s", models[_i]);
    const device_casting *c = device_cast(name, model, "--max-cache-len 44 --batch-size 1 ");
    const sc_options choice = { .device = "cuda:0", .no_graph = true };
    device_begin(c, NULL);
    ck_assert_msg(!c->api->model_open(&m, c->weights, &choice, &err), "%s", err.message);
    ck_assert_msg(!c->api->cache_create_on(&cache, "cuda:0", &err), "%s", err.message);
    ck_assert_msg(!c->api->model_greedy(m, cache, ids, 3, ids, &err), "%s", err.message);
    const long before = device_log().launches;
    ck_assert_msg(!c->api->model_greedy(m, cache, ids, 1, ids, &err), "%s", err.message);
    ck_assert_int_eq(device_log().launches - before, 5 * c->api->layers + besides[_i]);
    c->api->cache_destroy(cache);
    c->api->model_close(m);
    standin_check_clean(name);
}
END_TEST

/* ---- offload: whatever runs side by side, the outcome is one ---- */

enum { PROMPT = 7, STEPS = 3 };

/* Sanitizers make fibers slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ORDERS = 100, FAILURE_STEP = 10 };
#else
enum { ORDERS = 1000, FAILURE_STEP = 40 };
#endif

/* Everything that a generation leaves: greedy ids and the last logits, or what went wrong. */
typedef struct {
    int32_t ids[STEPS];
    float logits[256];
    int rc;
    sc_error err;
    int refused;
    long opened; /* calls of the driver until all is open */
    long calls;  /* and until it is closed, which cannot say that something failed */
} outcome;

/* Some tokens in pieces, then one by one; model and cache are there. */
static outcome generate(const device_casting *c, sc_model *m, sc_cache *cache) {
    outcome o;
    memset(&o, 0, sizeof o);
    int32_t prompt[PROMPT], next = 0;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = (i * 37 + 5) % c->api->vocab;
    o.rc = c->api->cache_reset(cache, &o.err);
    for (int done = 0, n = 4; done < PROMPT && !o.rc; done += n) {
        n = n < PROMPT - done ? n : PROMPT - done;
        o.rc = c->api->model_greedy(m, cache, prompt + done, n, &next, &o.err);
    }
    for (int i = 0; i < STEPS && !o.rc; i++) {
        o.ids[i] = next;
        if (i + 1 < STEPS)
            o.rc = c->api->model_greedy(m, cache, &o.ids[i], 1, &next, &o.err);
        else
            o.rc = c->api->model_forward(m, cache, &o.ids[i], 1, o.logits, 0, &o.err);
    }
    return o;
}

/* The same from nothing to nothing. When it has failed with all open, *again (may be NULL) is the
 * same once more, and *again's refusals count what was asked before that and refused. */
static outcome whole_generation(const device_casting *c, outcome *again) {
    outcome o;
    memset(&o, 0, sizeof o);
    sc_model *m = NULL;
    sc_cache *cache = NULL;
    const sc_options choice = { .device = "cuda:0" };
    o.rc = c->api->model_open(&m, c->weights, &choice, &o.err);
    if (!o.rc)
        o.rc = c->api->cache_create_on(&cache, "cuda:0", &o.err);
    const long opened = device_log().calls;
    if (!o.rc)
        o = generate(c, m, cache);
    if (o.rc && cache && again) {
        const int32_t id = 1;
        int32_t next;
        const int refused = c->api->model_greedy(m, cache, &id, 1, &next, NULL) == SC_ESTATE;
        *again = generate(c, m, cache);
        again->refused = refused;
    }
    o.opened = opened;
    o.calls = device_log().calls;
    c->api->cache_destroy(cache);
    c->api->model_close(m);
    return o;
}

static bool same(const outcome *a, const outcome *b) {
    return a->rc == b->rc && !memcmp(a->ids, b->ids, sizeof a->ids) &&
           !memcmp(a->logits, b->logits, sizeof a->logits);
}

/* ---- a model with more layers than slots: mistral's, of noise ---- */

static void make_deep(const char *folder, const char *types, int layers) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\": \"mistral\", \"hidden_size\": 32, \"intermediate_size\": 32, "
             "\"num_hidden_layers\": %d, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
             "\"head_dim\": 16, \"vocab_size\": 48, \"sliding_window\": 4, \"layer_types\": [%s], "
             "\"rms_norm_eps\": 1e-6, \"max_position_embeddings\": 64, "
             "\"tie_word_embeddings\": true}\n",
             layers, types);
    noise_model(folder, text);
}

#define FULL "\"full_attention\""
#define SLIDING "\"sliding_attention\""

/* An odd and an even number of offloaded layers, two shapes that take turns, weights besides. */
static const struct {
    const char *name, *types;
    int layers;
    const char *options;
} offloads[] = {
    { "odd", FULL "," FULL "," FULL "," FULL "," FULL, 5, "--offloading" },
    { "even", FULL "," FULL "," FULL "," FULL, 4, "--offloading" },
    { "shapes", FULL "," SLIDING "," FULL "," SLIDING "," FULL "," SLIDING, 6,
      "--offloading --no-offload-only-non-sliding" },
    { "weights", FULL "," FULL "," FULL "," SLIDING "," FULL, 5,
      "--offloading --offload-weights 4" },
};
enum { OFFLOADS = sizeof offloads / sizeof *offloads };

static const device_casting *cast_deep(int i, const char *prefix, const char *options) {
    char name[64], folder[128], all[128];
    snprintf(name, sizeof name, "%s%s", prefix, offloads[i].name);
    snprintf(folder, sizeof folder, "build/test-castings/deep-%s", offloads[i].name);
    snprintf(all, sizeof all, "--max-cache-len 16 %s", options);
    make_deep(folder, offloads[i].types, offloads[i].layers);
    return device_cast(name, folder, all);
}

static const device_casting *cast_offloaded(int i) {
    return cast_deep(i, "offloaded-", offloads[i].options);
}

/* A casting of the same model that keeps everything on the device. */
static outcome resident(int i) {
    const device_casting *c = cast_deep(i, "resident-", "");
    device_begin(c, NULL);
    const outcome o = whole_generation(c, NULL);
    ck_assert_msg(!o.rc, "%s", o.err.message);
    return o;
}

START_TEST(a_thousand_orders_make_one_outcome) {
    enum { SEEDS = ORDERS / OFFLOADS, PER_OPEN = 25 };
    const outcome wanted = resident(_i);
    const device_casting *c = cast_offloaded(_i);
    for (int seed = 1; seed <= SEEDS; seed += PER_OPEN) {
        device_begin(c, &(sc_standin_settings){ .seed = (unsigned long long)seed });
        sc_model *m = NULL;
        sc_cache *cache = NULL;
        sc_error err = { 0 };
        const sc_options choice = { .device = "cuda:0" };
        ck_assert_msg(!c->api->model_open(&m, c->weights, &choice, &err), "%s", err.message);
        ck_assert_msg(!c->api->cache_create_on(&cache, "cuda:0", &err), "%s", err.message);
        for (int i = 0; i < PER_OPEN; i++) {
            standin_open()->seed((unsigned long long)(seed + i));
            const outcome o = generate(c, m, cache);
            ck_assert_msg(same(&o, &wanted), "%s: seed %d: other ids or logits, or %s",
                          offloads[_i].name, seed + i, o.err.message);
        }
        c->api->cache_destroy(cache);
        c->api->model_close(m);
        standin_check_clean(offloads[_i].name);
    }
}
END_TEST

/* Every place that waits for an event is left out once, and some order shows it. */
START_TEST(no_wait_can_be_left_out) {
    enum { SEEDS = 60 };
    const outcome wanted = resident(_i);
    const device_casting *c = cast_offloaded(_i);
    int places = 1;
    for (int place = 1; place <= places; place++) {
        bool caught = false;
        for (int seed = 1; seed <= SEEDS && !caught; seed++) {
            device_begin(c, &(sc_standin_settings){ .seed = (unsigned long long)seed,
                                                    .drop_wait = place,
                                                    .quiet = true });
            const outcome o = whole_generation(c, NULL);
            const sc_standin_log log = device_log();
            caught = log.mistakes || !same(&o, &wanted);
            places = log.wait_places > places ? log.wait_places : places;
        }
        ck_assert_msg(caught, "%s: nothing shows when wait %d of %d is left out", offloads[_i].name,
                      place, places);
    }
    ck_assert_int_ge(places, 4);
}
END_TEST

/* Every call of the driver fails once: one clear error, and nothing is left over. */
START_TEST(a_call_that_fails_is_one_error_and_leaves_nothing) {
    const device_casting *c = cast_offloaded(_i);
    device_begin(c, &(sc_standin_settings){ .seed = 3 });
    const outcome good = whole_generation(c, NULL);
    const long calls = good.calls;
    ck_assert_msg(!good.rc, "%s", good.err.message);
    ck_assert_int_gt(calls, 100);
    for (long n = 1; n <= calls; n += 1 + n / FAILURE_STEP) {
        device_begin(c, &(sc_standin_settings){ .seed = 3, .fail = n });
        const outcome o = whole_generation(c, NULL);
        ck_assert_msg(o.rc == SC_EENV, "call %ld of %ld, %s, failed, and the outcome is %d: %s", n,
                      calls, device_log().failed, o.rc, o.err.message);
        ck_assert_msg(!strncmp(o.err.message, "cuda:0: ", 8), "%s", o.err.message);
        standin_check_clean(o.err.message);
    }
}
END_TEST

/* A pass that fails midway leaves a cache that wants a reset; after it all is as it was. */
START_TEST(a_device_that_failed_once_goes_on_after_a_reset) {
    const device_casting *c = cast_offloaded(_i);
    device_begin(c, &(sc_standin_settings){ .seed = 3 });
    const outcome good = whole_generation(c, NULL);
    ck_assert_msg(!good.rc, "%s", good.err.message);
    int refused = 0, tries = 0;
    for (long n = good.opened + 1; n <= good.calls; n += 1 + n / FAILURE_STEP) {
        outcome again = { 0 };
        device_begin(c, &(sc_standin_settings){ .seed = 3, .fail = n });
        const outcome o = whole_generation(c, &again);
        ck_assert_int_eq(o.rc, SC_EENV);
        ck_assert_msg(same(&again, &good), "call %ld, %s: other ids or logits, or %s", n,
                      device_log().failed, again.err.message);
        standin_check_clean(o.err.message);
        refused += again.refused;
        tries++;
    }
    ck_assert_int_gt(refused, tries / 2); /* not where the call never began */
}
END_TEST

/* One of two caches of a model, or the model, is closed while the context cannot be made current;
 * what it holds on the device is lost, and the others work on and know nothing of it. */
START_TEST(who_closes_without_the_context_is_forgotten) {
    const device_casting *c = cast_offloaded(0);
    const sc_options choice = { .device = "cuda:0" };
    outcome wanted = { 0 };
    for (int64_t fail = 0, round = 0; round < 3; round++) {
        sc_model *m = NULL;
        sc_cache *cache[2] = { NULL, NULL };
        const bool model_first = round == 2;
        device_begin(c, &(sc_standin_settings){ .seed = 3, .fail = fail });
        ck_assert_int_eq(c->api->model_open(&m, c->weights, &choice, NULL), 0);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(c->api->cache_create_on(&cache[i], "cuda:0", NULL), 0);
            const outcome o = generate(c, m, cache[i]); /* leaves a graph */
            ck_assert_msg(!o.rc, "%s", o.err.message);
        }
        fail = device_log().calls + 1;
        if (model_first) {
            c->api->model_close(m);
            m = NULL;
        } else
            c->api->cache_destroy(cache[0]);
        ck_assert_str_eq(device_log().failed, round ? "cuCtxPushCurrent" : "");
        if (!model_first) {
            const outcome o = generate(c, m, cache[1]);
            wanted = round ? wanted : o;
            ck_assert_msg(same(&o, &wanted), "other ids or logits, or %s", o.err.message);
            c->api->model_close(m);
        } else
            c->api->cache_destroy(cache[0]);
        c->api->cache_destroy(cache[1]);
        ck_assert_str_eq(device_log().mistake, "");
        ck_assert_int_eq(device_log().contexts, 0);
    }
}
END_TEST

Suite *cuda_suite(void) {
    Suite *suite = suite_create("cuda");
    if (!device_available())
        return suite;
    TCase *goldens = tcase_create("goldens"), *orders = tcase_create("orders");
    TCase *waits = tcase_create("waits"), *failures = tcase_create("failures");
    TCase *const all[] = { goldens, orders, waits, failures };
    tcase_add_loop_test(goldens, a_casting_on_a_device_computes_what_the_reference_does, 0,
                        FAMILIES * CASES);
    tcase_add_loop_test(goldens, every_family_computes_on_a_device_what_the_reference_does, 0,
                        *cast_sanitize ? SANITIZED : OTHERS);
    tcase_add_loop_test(goldens, a_token_is_five_launches_a_layer, 0, 2);
    tcase_add_loop_test(orders, a_thousand_orders_make_one_outcome, 0, OFFLOADS);
    tcase_add_loop_test(waits, no_wait_can_be_left_out, 0, OFFLOADS);
    tcase_add_loop_test(failures, a_call_that_fails_is_one_error_and_leaves_nothing, 0, OFFLOADS);
    tcase_add_loop_test(failures, a_device_that_failed_once_goes_on_after_a_reset, 0, OFFLOADS);
    tcase_add_test(failures, who_closes_without_the_context_is_forgotten);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tcase_set_timeout(all[i], 600);
        suite_add_tcase(suite, all[i]);
    }
    return suite;
}
