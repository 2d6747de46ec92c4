/*
 * check_cuda_cache.c - the cache on a device is the cache on the processor: one casting, a cache of
 * each, the same random calls to both; every answer, every refusal and every saved file is the
 * same.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/device.h"
#include "support/draw.h"
#include "support/run.h"
#include "support/standin.h"

Suite *cuda_cache_suite(void);

#define STATE(channels, columns)                                                                   \
    "{\"name\": \"conv_state\", \"shape\": [" #channels ", " #columns "]}"
#define RECURRENT "{\"name\": \"recurrent_state\", \"shape\": [3, 4], \"dtype\": \"float32\"}"
#define KV(type, heads, dim, more)                                                                 \
    "{\"layer_type\": \"" type "\", \"num_key_value_heads\": " #heads ", \"head_dim\": " #dim more \
    "}"

static const struct {
    const char *name, *layers, *options;
} specs[] = {
    { "kv",
      KV("full_attention", 2, 4, ", \"v_head_dim\": 6") "," KV(
          "sliding_attention", 3, 8,
          ", \"sliding_window\": 3") "," KV("chunked_attention", 1, 2,
                                            ", \"attention_chunk_size\": 4"),
      "--dtype float32 --batch-size 3 --max-cache-len 13" },
    { "moved",
      KV("full_attention", 2, 4,
         "") "," KV("sliding_attention", 1, 6,
                    ", \"sliding_window\": 5") "," KV("full_attention", 2, 4,
                                                      "") "," KV("full_attention", 2, 4, ""),
      "--dtype bfloat16 --batch-size 2 --max-cache-len 8 --offloading "
      "--no-offload-only-non-sliding --rewind 3" },
    { "states",
      "{\"layer_type\": \"conv\", \"states\": [" STATE(
          5, 3) "]},"
                "{\"layer_type\": \"linear_attention\", \"states\": [" STATE(
                    2, 4) ", " RECURRENT
                          "]}," KV("hybrid_sliding", 1, 8,
                                   ", \"sliding_window\": 2, \"states\": [" STATE(4, 1) "]"),
      "--dtype float16 --batch-size 2 --max-cache-len 8" },
    { "indexed",
      KV("indexed_attention", 1, 20, ", \"index_head_dim\": 6") ",{\"layer_type\": \"moe\"}",
      "--dtype bfloat16 --batch-size 2 --max-cache-len 13 --offloading" },
    { "one-state", "{\"layer_type\": \"conv\", \"states\": [" STATE(2, 4) "]}",
      "--dtype float32 --batch-size 1 --max-cache-len 4" },
};
enum { SPECS = sizeof specs / sizeof *specs, STEPS = 400, ROOM = 1 << 16 };

static const device_casting *cast_spec_on_device(int i) {
    char folder[128], path[160], json[2048], options[256];
    snprintf(folder, sizeof folder, "build/test-castings/cuda-cache-%s-config", specs[i].name);
    snprintf(path, sizeof path, "%s/config.json", folder);
    const int n =
        snprintf(json, sizeof json, "{\"model_type\": \"slipcast_cache\", \"layers\": [%s]}",
                 specs[i].layers);
    ck_assert_int_lt(n, (int)sizeof json);
    ck_assert_int_eq(run(NULL, NULL, "mkdir -p %s", folder), 0);
    cast_write(path, json, (size_t)n);
    snprintf(options, sizeof options, "--only cache %s", specs[i].options);
    return device_cast(specs[i].name, path, options);
}

/* One call and its arguments, and all that it answers. */
typedef struct {
    unsigned what, layer, row, other, tokens, index;
    int32_t beam[4];
    char in[2][ROOM];
} call;

typedef struct {
    int rc;
    int64_t number[2];
    char message[1024];
    char out[2][ROOM];
} answer;

enum { CALLS = 16 };

static void ask(answer *a, const sc_casting *c, sc_cache *cache, const call *q, const char *file) {
    sc_error err = { 0 };
    const int layer = (int)q->layer, row = (int)q->row, tokens = (int)q->tokens;
    const int index = (int)q->index;
    memset(a, 0x55, sizeof *a);
    a->number[0] = a->number[1] = 0;
    a->rc = 0;
    switch (q->what) {
    case 0:
    case 1:
        a->rc = c->cache_update(cache, layer, q->in[0], q->in[1], tokens, &err);
        break;
    case 2:
        a->rc = c->cache_update_row(cache, layer, row, q->in[0], q->in[1], tokens, &err);
        break;
    case 3:
        a->rc = c->cache_visible(cache, layer, a->out[0], a->out[1], &a->number[0], &err);
        break;
    case 4:
        a->rc = c->cache_visible_row(cache, layer, row, a->out[0], a->out[1], &a->number[0], &err);
        break;
    case 5:
        a->rc = c->cache_read(cache, layer, a->out[0], a->out[1], &err);
        break;
    case 6:
        a->rc = c->cache_crop(cache, -(int64_t)(q->tokens % 4), &err);
        break;
    case 7:
        a->rc = c->cache_reorder(cache, q->beam, &err);
        break;
    case 8:
        a->rc = c->cache_copy_row(cache, row, (int)q->other, &err);
        break;
    case 9:
        a->rc = q->tokens % 7 ? c->cache_reset_row(cache, row, &err) : c->cache_reset(cache, &err);
        break;
    case 10:
        a->rc = (q->tokens % 2 ? c->cache_offload : c->cache_prefetch)(cache, layer, &err);
        break;
    case 11:
        a->rc = c->cache_save(cache, file, &err);
        break;
    case 12: /* of the file that the processor's has saved last, if any */
        a->rc = c->cache_load(cache, "build/test-castings/saved-0", &err);
        break;
    case 13:
        if (c->cache_update_conv)
            a->rc = c->cache_update_conv(cache, layer, index, q->in[0], tokens,
                                         q->tokens % 2 ? a->out[0] : NULL, &a->number[0], &err);
        if (c->cache_read_conv && !a->rc)
            a->rc = c->cache_read_conv(cache, layer, index, a->out[1], &err);
        break;
    case 14:
        if (c->cache_update_recurrent)
            a->rc = c->cache_update_recurrent_row(cache, layer, index, row, q->in[0], &err);
        if (c->cache_read_recurrent && !a->rc)
            a->rc = c->cache_read_recurrent(cache, layer, index, a->out[0], &err);
        break;
    case 15:
        if (c->cache_update_indexer)
            a->rc = c->cache_update_indexer(cache, layer, q->in[0], tokens, &err);
        if (c->cache_read_indexer && !a->rc)
            a->rc = c->cache_read_indexer(cache, layer, a->out[0], &err);
        break;
    default:
        break;
    }
    memcpy(a->message, err.message, sizeof a->message);
}

static void draw_call(call *q, const sc_casting *c, uint64_t *state) {
    q->what = (unsigned)draw(state, CALLS);
    q->layer = (unsigned)draw(state, c->layers + (draw(state, 20) ? 0 : 1)); /* or none such */
    q->row = (unsigned)draw(state, c->batch);
    q->other = (unsigned)draw(state, c->batch);
    q->tokens = 1 + (unsigned)draw(state, draw(state, 4) ? 3 : c->max_cache_len);
    q->index = (unsigned)draw(state, 2);
    for (int b = 0; b < c->batch; b++)
        q->beam[b] = (int32_t)draw(state, c->batch);
    for (int i = 0; i < 2; i++)
        for (int at = 0; at < ROOM; at++)
            q->in[i][at] = (char)draw(state, 256);
}

static void assert_same_files(int step) {
    size_t bytes[2];
    char *file[2] = { cast_file("build/test-castings/saved-0", &bytes[0]),
                      cast_file("build/test-castings/saved-1", &bytes[1]) };
    ck_assert_msg(bytes[0] == bytes[1] && !memcmp(file[0], file[1], bytes[0]),
                  "step %d: the saved files differ", step);
    free(file[0]);
    free(file[1]);
}

START_TEST(a_cache_on_a_device_answers_as_one_on_the_processor) {
    static call q;
    static answer a[2];
    const device_casting *cast = cast_spec_on_device(_i);
    const sc_casting *c = cast->api;
    device_begin(cast, &(sc_standin_settings){ .seed = (unsigned long long)_i + 1 });
    sc_cache *cache[2];
    sc_error err = { 0 };
    uint64_t state = (uint64_t)_i * 77 + 5;
    int answered[CALLS] = { 0 };
    ck_assert_int_eq(run(NULL, NULL, "rm -f build/test-castings/saved-0"), 0);
    ck_assert_int_eq(c->cache_create(&cache[0], &err), 0);
    ck_assert_msg(!c->cache_create_on(&cache[1], "cuda:0", &err), "%s", err.message);
    ck_assert_str_eq(c->cache_device(cache[0]), "cpu");
    ck_assert_str_eq(c->cache_device(cache[1]), "cuda:0");
    for (int step = 0; step < STEPS; step++) {
        draw_call(&q, c, &state);
        ask(&a[0], c, cache[0], &q, "build/test-castings/saved-0");
        ask(&a[1], c, cache[1], &q, "build/test-castings/saved-1");
        ck_assert_msg(!memcmp(&a[0], &a[1], sizeof *a),
                      "step %d: call %u of layer %u: %d (%s) and %d (%s), or another answer", step,
                      q.what, q.layer, a[0].rc, a[0].message, a[1].rc, a[1].message);
        answered[q.what] += !a[0].rc;
        if (q.what == 11)
            assert_same_files(step);
        for (int layer = 0; layer < c->layers; layer++)
            for (int row = 0; row < c->batch; row++)
                ck_assert_int_eq(c->cache_row_length(cache[0], layer, row),
                                 c->cache_row_length(cache[1], layer, row));
    }
    static const int kv[] = { 1, 2, 5, 6, 7, 8, 9, 11, 12 };
    for (size_t i = 0; i < sizeof kv / sizeof *kv && c->layer[0].kv_heads; i++)
        ck_assert_msg(answered[kv[i]] > 0, "call %d was always refused", kv[i]);
    c->cache_destroy(cache[0]);
    c->cache_destroy(cache[1]);
    standin_check_clean(specs[_i].name);
}
END_TEST

/* ---- a device that fails once ---- */

/* A call that changes the cache; nothing but that. */
static int change(const sc_casting *c, sc_cache *cache, const call *q, sc_error *err) {
    const int layer = (int)q->layer, row = (int)q->row, tokens = (int)q->tokens;
    const int index = (int)q->index;
    switch (q->what % 6) {
    case 0:
        return c->cache_update(cache, layer, q->in[0], q->in[1], tokens, err);
    case 1:
        return c->cache_reorder(cache, q->beam, err);
    case 2:
        return c->cache_update_conv
                   ? c->cache_update_conv(cache, layer, index, q->in[0], tokens, NULL, NULL, err)
                   : 0;
    case 3:
        return c->cache_update_recurrent
                   ? c->cache_update_recurrent_row(cache, layer, index, row, q->in[0], err)
                   : 0;
    case 4:
        return c->cache_update_indexer
                   ? c->cache_update_indexer(cache, layer, q->in[0], tokens, err)
                   : 0;
    default:
        return c->cache_prefetch(cache, layer, err);
    }
}

static void assert_same_caches(const sc_casting *c, sc_cache *const cache[2], int step) {
    for (int i = 0; i < 2; i++) {
        sc_error err = { 0 };
        char file[64];
        snprintf(file, sizeof file, "build/test-castings/saved-%d", i);
        ck_assert_msg(!c->cache_save(cache[i], file, &err), "step %d: %s", step, err.message);
    }
    assert_same_files(step);
}

/* The call failed on the device alone. It is as if it had not been, or the cache wants a reset. */
static bool recover(const sc_casting *c, sc_cache *const cache[2], const call *q) {
    sc_error err = { 0 };
    const int again = change(c, cache[1], q, &err);
    if (!again)
        return false;
    ck_assert_msg(again == SC_ESTATE, "%d: %s", again, err.message);
    ck_assert_msg(strstr(err.message, "failed in the middle of an update"), "%s", err.message);
    ck_assert_int_eq(c->cache_save(cache[1], "build/test-castings/saved-1", NULL), SC_ESTATE);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!c->cache_reset(cache[i], &err), "%s", err.message);
    return true;
}

/* Some changes, the fail-th call of the driver after the first of which fails; 0: none. How many
 * calls there were; *refused is one more when the cache was refused. */
static int64_t change_and_fail(const device_casting *cast, int64_t opened, int64_t fail,
                               int *refused) {
    enum { CHANGES = 30 };
    static call q;
    const sc_casting *c = cast->api;
    sc_cache *cache[2];
    uint64_t state = 99;
    device_begin(cast, &(sc_standin_settings){ .seed = 5, .fail = fail ? opened + fail : 0 });
    ck_assert_int_eq(c->cache_create(&cache[0], NULL), 0);
    ck_assert_int_eq(c->cache_create_on(&cache[1], "cuda:0", NULL), 0);
    ck_assert(!opened || device_log().calls == opened);
    for (int step = 0; step < CHANGES; step++) {
        sc_error err[2] = { 0 };
        draw_call(&q, c, &state);
        const int there = change(c, cache[0], &q, &err[0]);
        const int here = change(c, cache[1], &q, &err[1]);
        if (here == SC_EENV) {
            ck_assert_str_ne(device_log().failed, "");
            *refused += recover(c, cache, &q);
            assert_same_caches(c, cache, step);
        } else
            ck_assert_msg(here == there && !strcmp(err[0].message, err[1].message),
                          "step %d: %d (%s) and %d (%s)", step, there, err[0].message, here,
                          err[1].message);
    }
    const int64_t calls = device_log().calls - opened;
    if (!fail || !*device_log().failed)
        assert_same_caches(c, cache, CHANGES);
    for (int i = 0; i < 2; i++)
        c->cache_destroy(cache[i]);
    standin_check_clean(__func__);
    return calls;
}

START_TEST(a_change_that_fails_midway_wants_a_reset) {
    const device_casting *cast = cast_spec_on_device(_i);
    sc_cache *cache = NULL;
    int refused = 0, tries = 0;
    device_begin(cast, NULL);
    ck_assert_int_eq(cast->api->cache_create_on(&cache, "cuda:0", NULL), 0);
    const int64_t opened = device_log().calls;
    cast->api->cache_destroy(cache);
    const int64_t calls = change_and_fail(cast, opened, 0, &refused);
    ck_assert_int_eq(refused, 0);
    for (int64_t n = 1; n <= calls; n += 1 + n / 40, tries++)
        change_and_fail(cast, opened, n, &refused);
    ck_assert_msg(refused > tries / 2, "%s: refused %d of %d times", specs[_i].name, refused,
                  tries);
}
END_TEST

Suite *cuda_cache_suite(void) {
    Suite *suite = suite_create("cuda_cache");
    if (!device_available())
        return suite;
    TCase *tests = tcase_create("both");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, a_cache_on_a_device_answers_as_one_on_the_processor, 0, SPECS);
    tcase_add_loop_test(tests, a_change_that_fails_midway_wants_a_reset, 0, SPECS);
    suite_add_tcase(suite, tests);
    return suite;
}
