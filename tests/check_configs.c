/* check_configs.c - the cache of every published config, cast alone, built, and used. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/run.h"

Suite *configs_suite(void);

enum { BATCH = 2, LENGTH = 12, FIRST = 3, SECOND = 2, SEEN = FIRST + SECOND };

static char config[128][64];
static int configs;

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static void list_configs(void) {
    DIR *folder = opendir("tests/reference/configs");
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && !strchr(entry->d_name, '_') &&
            strcmp(entry->d_name, "SOURCES.md") && strcmp(entry->d_name, "deepseek-v4-flash"))
            snprintf(config[configs++], sizeof *config, "%.63s", entry->d_name);
    if (folder)
        closedir(folder);
    qsort(config, (size_t)configs, sizeof *config, by_name);
}

/* Small whole numbers, different in neighbours of every direction. */
static float element(int kind, int layer, int row, int64_t head, int64_t token, int64_t d) {
    return (float)((kind * 31 + layer * 17 + row * 13 + head * 7 + token * 5 + d * 3) % 251);
}

static void fill(float *to, int kind, int layer, int64_t heads, int64_t from, int64_t tokens,
                 int64_t dim) {
    for (int row = 0; row < BATCH; row++)
        for (int64_t head = 0; head < heads; head++)
            for (int64_t t = 0; t < tokens; t++)
                for (int64_t d = 0; d < dim; d++)
                    *to++ = element(kind, layer, row, head, from + t, d);
}

/* [BATCH, heads, slots, dim] holds tokens 0 … SEEN - 1 of the rows in that order, zeros behind. */
static void assert_filled(const float *got, int kind, int layer, int64_t heads, int64_t slots,
                          int64_t dim, int swapped, int seen) {
    for (int row = 0; row < BATCH; row++)
        for (int64_t head = 0; head < heads; head++)
            for (int64_t t = 0; t < slots; t++)
                for (int64_t d = 0; d < dim; d++, got++) {
                    const float want =
                        t < seen ? element(kind, layer, swapped ? !row : row, head, t, d) : 0;
                    if (*got < want || *got > want)
                        ck_abort_msg("layer %d, kind %d [%d, %lld, %lld, %lld]: %g, not %g", layer,
                                     kind, row, (long long)head, (long long)t, (long long)d,
                                     (double)*got, (double)want);
                }
}

static float *a, *b;

static void assert_cache(const sc_casting *c, const sc_cache *cache, int swapped, int seen) {
    for (int i = 0; i < c->layers; i++) {
        const sc_casting_layer *l = &c->layer[i];
        if (!l->kv_heads) {
            ck_assert_int_eq(c->cache_read(cache, i, a, b, NULL), SC_EUSAGE);
            continue;
        }
        ck_assert_int_eq(l->slots, LENGTH); /* every window is longer */
        ck_assert_int_eq(c->cache_read(cache, i, a, b, NULL), SC_OK);
        assert_filled(a, 0, i, l->kv_heads, l->slots, l->head_dim, swapped, seen);
        assert_filled(b, 1, i, l->kv_heads, l->slots, l->v_head_dim, swapped, seen);
        if (l->index_head_dim) {
            ck_assert_int_eq(c->cache_read_indexer(cache, i, a, NULL), SC_OK);
            assert_filled(a, 2, i, 1, l->slots, l->index_head_dim, swapped, seen);
        }
    }
    for (int i = 0; i < c->states; i++) {
        const sc_casting_state *s = &c->state[i];
        const int conv = !strcmp(s->name, "conv_state");
        ck_assert_int_eq((conv ? c->cache_read_conv : c->cache_read_recurrent)(cache, s->layer,
                                                                               s->index, a, NULL),
                         SC_OK);
        assert_filled(a, 3 + s->index, s->layer, s->channels, 1, s->columns, swapped, seen ? 1 : 0);
    }
}

START_TEST(every_published_config_is_cast_built_and_used) {
    char path[256];
    size_t bytes;
    snprintf(path, sizeof path, "tests/reference/configs/%s/config.json", config[_i]);
    char *json = cast_file(path, &bytes);
    json[bytes] = 0;
    const sc_casting *c = cast_spec(config[_i], json, "--max-cache-len 12 --batch-size 2");
    free(json);
    /* As the casting's own Makefile compiles, by clang too where there is one. */
    ck_assert_int_eq(
        run(NULL, NULL,
            "! command -v clang >/dev/null || (cd build/test-castings/spec-%s && clang "
            "-std=gnu11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only cast_cache.c "
            "cast_table.c)",
            config[_i]),
        0);
    size_t most = 1;
    for (int i = 0; i < c->layers; i++) {
        const sc_casting_layer *l = &c->layer[i];
        const size_t widest = (size_t)(l->head_dim > l->v_head_dim ? l->head_dim : l->v_head_dim);
        const size_t floats = BATCH * (size_t)(l->kv_heads * l->slots) * widest +
                              BATCH * (size_t)(l->slots * l->index_head_dim);
        most = floats > most ? floats : most;
    }
    for (int i = 0; i < c->states; i++) {
        const size_t floats = BATCH * (size_t)(c->state[i].channels * c->state[i].columns);
        most = floats > most ? floats : most;
    }
    a = calloc(most, sizeof *a);
    b = calloc(most, sizeof *b);
    sc_cache *cache = NULL, *other = NULL;
    sc_error err = { 0 };
    ck_assert(a && b && !c->cache_create(&cache, &err) && !c->cache_create(&other, &err));
    for (int i = 0; i < c->layers; i++)
        for (int part = 0; part < 2 && c->layer[i].kv_heads; part++) {
            const sc_casting_layer *l = &c->layer[i];
            const int from = part ? FIRST : 0, tokens = part ? SECOND : FIRST;
            fill(a, 0, i, l->kv_heads, from, tokens, l->head_dim);
            fill(b, 1, i, l->kv_heads, from, tokens, l->v_head_dim);
            ck_assert_int_eq(c->cache_update(cache, i, a, b, tokens, &err), SC_OK);
            fill(a, 2, i, 1, from, tokens, l->index_head_dim);
            if (l->index_head_dim)
                ck_assert_int_eq(c->cache_update_indexer(cache, i, a, tokens, &err), SC_OK);
        }
    for (int i = 0; i < c->states; i++) {
        const sc_casting_state *s = &c->state[i];
        fill(a, 3 + s->index, s->layer, s->channels, 0, 1, s->columns);
        if (strcmp(s->name, "conv_state"))
            ck_assert_int_eq(c->cache_update_recurrent(cache, s->layer, s->index, a, &err), SC_OK);
        else
            ck_assert_int_eq(c->cache_update_conv(cache, s->layer, s->index, a, (int)s->columns,
                                                  NULL, NULL, &err),
                             SC_OK);
    }
    assert_cache(c, cache, 0, SEEN);
    ck_assert_int_eq(c->cache_reorder(cache, (const int32_t[]){ 1, 0 }, &err), SC_OK);
    assert_cache(c, cache, 1, SEEN);
    snprintf(path, sizeof path, "build/test-castings/spec-%s/saved", config[_i]);
    ck_assert_int_eq(c->cache_save(cache, path, &err), SC_OK);
    ck_assert_int_eq(c->cache_reset(cache, &err), SC_OK);
    assert_cache(c, cache, 0, 0);
    ck_assert_msg(!c->cache_load(other, path, &err), "%s", err.message);
    assert_cache(c, other, 1, SEEN);
    remove(path);
    c->cache_destroy(cache);
    c->cache_destroy(other);
    free(a);
    free(b);
}
END_TEST

START_TEST(all_of_them_were_tried) { ck_assert_int_eq(configs, 59); }
END_TEST

Suite *configs_suite(void) {
    Suite *suite = suite_create("configs");
    TCase *tests = tcase_create("castings");
    tcase_set_timeout(tests, 120);
    list_configs();
    tcase_add_loop_test(tests, every_published_config_is_cast_built_and_used, 0, configs);
    tcase_add_test(tests, all_of_them_were_tried);
    suite_add_tcase(suite, tests);
    return suite;
}
