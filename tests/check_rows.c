/*
 * check_rows.c - rows of a batch that live their own lives: continuous batching over whole models.
 *
 * Source of a row's logits: the same tokens alone, in a casting for batch 1.
 */
#include <check.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/draw.h"
#include "support/run.h"

Suite *rows_suite(void);

#define FOLDER "build/test-castings/rows"

/* ---- continuous batching ---- */

enum { ROWS = 3, LENGTH = 32, VOCAB = 256, WINDOW = 8, ROUNDS = 220 };

static const char *const models[] = { "qwen2_sliding", "qwen3" };
enum { MODELS = 2 };

/* [model][0]: for batch 1; [1]: for ROWS. */
static const sc_casting *castings[MODELS][2];

static const char *folder_of(int model, int batch) {
    static char folder[128];
    snprintf(folder, sizeof folder, FOLDER "/%s-%d", models[model], batch);
    return folder;
}

static const sc_casting *cast_model(int model, int batch) {
    char path[256];
    const char *folder = folder_of(model, batch);
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST export tests/reference/tiny/%s -o %s --name cast --quiet "
                         "--max-cache-len %d --batch-size %d && make -C %s -j2 %s libcast.so",
                         models[model], folder, LENGTH, batch, folder, cast_make_flags),
                     0);
    snprintf(path, sizeof path, "%s/libcast.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    const sc_casting *(*get)(void);
    *(void **)&get = dlsym(library, "slipcast_casting");
    ck_assert_msg(get != NULL, "%s", dlerror());
    return get();
}

/* A model and a cache of it. */
typedef struct {
    const sc_casting *api;
    sc_model *model;
    sc_cache *cache;
    sc_error err;
} runner;

static runner open_model(int model, int batch, int threads) {
    char path[256];
    runner r = { .api = castings[model][batch > 1] };
    const sc_options options = { .threads = threads };
    snprintf(path, sizeof path, "%s/cast.weights", folder_of(model, batch));
    ck_assert_msg(!r.api->model_open(&r.model, path, &options, &r.err), "%s", r.err.message);
    ck_assert_msg(!r.api->cache_create(&r.cache, &r.err), "%s", r.err.message);
    return r;
}

static void close_model(runner *r) {
    r->api->model_close(r->model);
    r->api->cache_destroy(r->cache);
}

/* What one row is given, how far it has come, and the logits of every position, alone. */
typedef struct {
    int length, done;
    int32_t ids[LENGTH];
    float logits[LENGTH][VOCAB];
} request;

static void run_alone(runner *alone, request *q) {
    ck_assert_int_eq(alone->api->cache_reset(alone->cache, &alone->err), SC_OK);
    ck_assert_msg(!alone->api->model_forward(alone->model, alone->cache, q->ids, q->length,
                                             q->logits[0], 1, &alone->err),
                  "%s", alone->err.message);
}

/* From keep on, other tokens. */
static void renew(runner *alone, request *q, int keep, uint64_t *random) {
    q->length = keep + 1 + draw(random, LENGTH - keep);
    q->done = keep;
    for (int i = keep; i < q->length; i++)
        q->ids[i] = (int32_t)draw(random, VOCAB);
    run_alone(alone, q);
}

typedef struct {
    runner all, alone;
    request row[ROWS];
    uint64_t random;
    int compared, moved, cropped, uncropped;
    char what[96];
} service;

/* Some rows, in any order, get as many tokens each as the shortest of them wants; their logits are
 * compared bit for bit. */
static void serve(service *s) {
    static float logits[ROWS * LENGTH * VOCAB];
    static int32_t tokens[ROWS * LENGTH];
    int32_t rows[ROWS] = { 0, 1, 2 };
    for (int i = ROWS - 1; i > 0; i--) {
        const int k = draw(&s->random, i + 1);
        const int32_t was = rows[i];
        rows[i] = rows[k];
        rows[k] = was;
    }
    const int batch = 1 + draw(&s->random, ROWS), every = draw(&s->random, 2);
    int n = LENGTH;
    for (int b = 0; b < batch; b++) {
        const request *q = &s->row[rows[b]];
        n = q->length - q->done < n ? q->length - q->done : n;
    }
    n = draw(&s->random, 3) ? 1 : 1 + draw(&s->random, n);
    for (int b = 0; b < batch; b++)
        memcpy(tokens + b * n, s->row[rows[b]].ids + s->row[rows[b]].done,
               (size_t)n * sizeof *tokens);
    const int in_order = batch == ROWS && rows[0] == 0 && rows[1] == 1;
    const int rc =
        in_order ? s->all.api->model_forward(s->all.model, s->all.cache, tokens, n, logits,
                                             (unsigned)every, &s->all.err)
                 : s->all.api->model_forward_rows(s->all.model, s->all.cache, rows, batch, tokens,
                                                  n, logits, (unsigned)every, &s->all.err);
    ck_assert_msg(!rc, "%s: %s", s->what, s->all.err.message);
    for (int b = 0; b < batch; b++) {
        request *q = &s->row[rows[b]];
        for (int t = every ? 0 : n - 1; t < n; t++) {
            const float *ours = logits + (every ? b * n + t : b) * VOCAB;
            ck_assert_msg(!memcmp(ours, q->logits[q->done + t], VOCAB * sizeof *ours),
                          "%s: row %d of %d, token %d of %d: not as alone", s->what, rows[b], batch,
                          q->done + t, q->length);
            s->compared++;
        }
        q->done += n;
    }
}

/* Rows become others; each goes on as what it is now. */
static void move_rows(service *s) {
    static request old[ROWS];
    memcpy(old, s->row, sizeof old);
    s->moved++;
    if (draw(&s->random, 2)) {
        int32_t beams[ROWS];
        for (int b = 0; b < ROWS; b++) {
            beams[b] = (int32_t)draw(&s->random, ROWS);
            s->row[b] = old[beams[b]];
        }
        ck_assert_int_eq(s->all.api->cache_reorder(s->all.cache, beams, &s->all.err), SC_OK);
        return;
    }
    /* A common beginning, then something else. */
    const int from = draw(&s->random, ROWS), to = draw(&s->random, ROWS);
    ck_assert_int_eq(s->all.api->cache_copy_row(s->all.cache, from, to, &s->all.err), SC_OK);
    s->row[to] = old[from];
    renew(&s->alone, &s->row[to], old[from].done, &s->random);
}

/* Goes back when no ring has forgotten; a sliding layer has after more than WINDOW tokens. */
static void take_back(service *s, int slides) {
    int forgotten = 0, least = LENGTH;
    for (int b = 0; b < ROWS; b++) {
        forgotten |= slides && s->row[b].done > WINDOW;
        least = s->row[b].done < least ? s->row[b].done : least;
    }
    if (!least)
        return;
    const int amount = 1 + draw(&s->random, least);
    ck_assert_int_eq(s->all.api->cache_crop(s->all.cache, -amount, &s->all.err),
                     forgotten ? SC_EFULL : SC_OK);
    for (int b = 0; b < ROWS && !forgotten; b++)
        s->row[b].done -= amount;
    s->cropped += !forgotten;
    s->uncropped += forgotten;
}

START_TEST(a_row_among_others_computes_what_it_computes_alone) {
    static service s;
    const int model = _i / 2, threads = 1 + _i % 2 * 2;
    s = (service){ .all = open_model(model, ROWS, threads),
                   .alone = open_model(model, 1, 1),
                   .random = (uint64_t)_i + 1 };
    for (int b = 0; b < ROWS; b++)
        renew(&s.alone, &s.row[b], 0, &s.random);
    for (int round = 0; round < ROUNDS; round++) {
        snprintf(s.what, sizeof s.what, "%s, threads %d, round %d", models[model], threads, round);
        const int op = draw(&s.random, 40);
        if (op < 36)
            serve(&s);
        else if (op < 38)
            take_back(&s, !model);
        else
            move_rows(&s);
        for (int b = 0; b < ROWS; b++) {
            ck_assert_int_eq(s.all.api->cache_row_length(s.all.cache, 1, b), s.row[b].done);
            if (s.row[b].done < s.row[b].length)
                continue;
            ck_assert_int_eq(s.all.api->cache_reset_row(s.all.cache, b, &s.all.err), SC_OK);
            renew(&s.alone, &s.row[b], 0, &s.random);
        }
    }
    ck_assert_msg(s.compared > ROUNDS && s.moved > 2 && (model ? s.cropped : s.uncropped) > 2,
                  "%s: %d compared, %d moved, %d cropped, %d not: too tame", s.what, s.compared,
                  s.moved, s.cropped, s.uncropped);
    close_model(&s.all);
    close_model(&s.alone);
}
END_TEST

/* ---- refusals of forward_rows ---- */

/* Row 1 is full but for two tokens, the others are empty but for three. */
static const struct {
    int batch, n, code;
    int32_t rows[ROWS + 1], bad_id; /* the last token, when it is not 0 */
    const char *part;
} refused[] = {
    { 1, 1, SC_EUSAGE, { -1 }, 0, "row -1 is none" },
    { 2, 1, SC_EUSAGE, { 0, ROWS }, 0, "row 3 is none" },
    { 1, 1, SC_EUSAGE, { INT32_MAX }, 0, "is none" },
    { 1, 1, SC_EUSAGE, { INT32_MIN }, 0, "is none" },
    { 2, 1, SC_EUSAGE, { 2, 2 }, 0, "row 2 is there twice" },
    { 4, 1, SC_EUSAGE, { 0, 1, 2, 0 }, 0, "row 0 is there twice" },
    { 0, 1, SC_EUSAGE, { 0 }, 0, "0 rows" },
    { -1, 1, SC_EUSAGE, { 0 }, 0, "-1 rows" },
    { 2, 0, SC_EUSAGE, { 0, 2 }, 0, "forward of 0 tokens" },
    { 2, -1, SC_EUSAGE, { 0, 2 }, 0, "forward of -1 tokens" },
    { 2, 2, SC_EUSAGE, { 0, 2 }, VOCAB, "token id 256 at 1 of row 2" },
    { 2, 2, SC_EUSAGE, { 2, 0 }, -1, "token id -1 at 1 of row 0" },
    { 2, 3, SC_EFULL, { 0, 1 }, 0, "3 tokens at position 30, room for 2" },
    { 3, 3, SC_EFULL, { 2, 0, 1 }, 0, "3 tokens at position 30, room for 2" },
};
enum { REFUSED = sizeof refused / sizeof *refused };

START_TEST(rows_that_cannot_go_on_change_nothing) {
    static float logits[(ROWS + 1) * 4 * VOCAB];
    int32_t tokens[(ROWS + 1) * LENGTH] = { 0 };
    for (int model = 0; model < MODELS; model++) {
        runner r = open_model(model, ROWS, 2);
        size_t bytes, bytes_now;
        ck_assert_int_eq(r.api->model_forward(r.model, r.cache, tokens, 3, NULL, 0, &r.err), SC_OK);
        ck_assert_int_eq(r.api->model_forward_rows(r.model, r.cache, (const int32_t[]){ 1 }, 1,
                                                   tokens, LENGTH - 5, NULL, 0, &r.err),
                         SC_OK);
        char *before = cast_seen(r.api, r.cache, &bytes);
        for (size_t i = 0; i < sizeof logits / sizeof *logits; i++)
            logits[i] = 0.25f;
        const int last = refused[_i].batch * refused[_i].n - 1;
        if (last >= 0)
            tokens[last] = refused[_i].bad_id;
        for (int listens = 1; listens >= 0; listens--)
            ck_assert_int_eq(r.api->model_forward_rows(r.model, r.cache, refused[_i].rows,
                                                       refused[_i].batch, tokens, refused[_i].n,
                                                       logits, 1, listens ? &r.err : NULL),
                             refused[_i].code);
        ck_assert_int_eq(r.err.code, refused[_i].code);
        ck_assert_msg(strstr(r.err.message, refused[_i].part) != NULL, "%s", r.err.message);
        char *after = cast_seen(r.api, r.cache, &bytes_now);
        ck_assert(bytes == bytes_now && !memcmp(before, after, bytes));
        for (size_t i = 0; i < sizeof logits / sizeof *logits; i++)
            ck_assert(logits[i] == 0.25f);
        free(before);
        free(after);
        close_model(&r);
        memset(tokens, 0, sizeof tokens);
    }
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", FOLDER, FOLDER), 0);
    for (int model = 0; model < MODELS; model++) {
        castings[model][0] = cast_model(model, 1);
        castings[model][1] = cast_model(model, ROWS);
    }
}

Suite *rows_suite(void) {
    Suite *suite = suite_create("rows");
    TCase *tests = tcase_create("rows");
    tcase_set_timeout(tests, 300);
    tcase_add_unchecked_fixture(tests, make_castings, NULL);
    tcase_add_loop_test(tests, a_row_among_others_computes_what_it_computes_alone, 0, 2 * MODELS);
    tcase_add_loop_test(tests, rows_that_cannot_go_on_change_nothing, 0, REFUSED);
    suite_add_tcase(suite, tests);
    return suite;
}
