/*
 * check_cache_saved.c - a cache in a file: what it holds, what load refuses, and what a save that
 * fails leaves.
 */
#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../runtime/checksum.h"
#include "support/run.h"
#include "support/subject.h"

Suite *cache_saved_suite(void);

static const cast_shape mixed = { "sf", 3, 8, 3, 1 };

/* docs/cache.md, "Save and load": the fields, then the used slots of K and V, float32. */
static size_t file_bytes(const cast_shape *shape, int seen) {
    const size_t layers = strlen(shape->types), batch = (size_t)shape->batch;
    size_t bytes = 8 + 32 + 2 * 8 * layers * batch + 8 * batch + 8;
    for (int layer = 0; layer < (int)layers; layer++) {
        const int slots = cast_slots(shape, layer);
        bytes += 2 * sizeof(float) * cast_floats(shape, seen < slots ? seen : slots);
    }
    return bytes;
}

/* A ring that has wrapped, a full layer that has room, padding: a session of the mixed shape. */
static void make_session(subject *s, int serial) {
    ck_assert_int_eq(s->api->cache_pad(s->cache, (const int64_t[]){ 0, 2, serial % 8 }, &s->err),
                     SC_OK);
    subject_push_all(s, serial, 4);
    subject_push_all(s, serial + 4, 1);
}

static void save(const subject *s, const char *path) {
    sc_error err = { 0 };
    ck_assert_msg(!s->api->cache_save(s->cache, path, &err), "%s", err.message);
}

START_TEST(a_file_holds_the_used_slots_and_no_more) {
    subject s = subject_begin(&mixed);
    for (int seen = 0; seen <= s.shape.max_cache_len; seen++) {
        size_t bytes;
        if (seen)
            subject_push_all(&s, seen, 1);
        save(&s, SUBJECT_FOLDER "/sizes");
        free(cast_file(SUBJECT_FOLDER "/sizes", &bytes));
        ck_assert_uint_eq(bytes, file_bytes(&s.shape, seen));
        ck_assert_int_eq(subject_saved(&s, 0), seen);
        ck_assert_int_eq(subject_saved(&s, 1 * s.shape.batch + 2), seen);
    }
    const size_t arena = 2 * sizeof(float) * cast_floats(&mixed, 3 + 8);
    ck_assert_uint_lt(file_bytes(&mixed, 2), arena);
    subject_end(&s);
}
END_TEST

START_TEST(a_loaded_session_goes_on_like_the_saved_one) {
    subject a = subject_begin(&mixed), b = subject_begin(&mixed);
    size_t bytes, other_bytes;
    int64_t length = -1;
    make_session(&a, 1);
    save(&a, SUBJECT_FOLDER "/session");
    subject_push_all(&b, 50, 8);
    ck_assert_int_eq(b.api->cache_load(b.cache, SUBJECT_FOLDER "/session", &b.err), SC_OK);
    const subject_rows ring = subject_rows_of((const int[]){ 3, 4, 5 }, 3, NULL),
                       line = subject_rows_of((const int[]){ 1, 2, 3, 4, 5 }, 5, NULL);
    subject_assert_read(&b, 0, &ring, "loaded ring");
    subject_assert_read(&b, 1, &line, "loaded full layer");
    for (int layer = 0; layer < b.layers; layer++)
        ck_assert_int_eq(b.api->cache_visible(b.cache, layer, NULL, NULL, &length, NULL),
                         SC_ESTATE);
    save(&b, SUBJECT_FOLDER "/again");
    char *file = cast_file(SUBJECT_FOLDER "/session", &bytes),
         *again = cast_file(SUBJECT_FOLDER "/again", &other_bytes);
    ck_assert_uint_eq(bytes, other_bytes);
    ck_assert(!memcmp(file, again, bytes));
    subject_push_all(&a, 6, 3);
    subject_push_all(&b, 6, 3);
    subject_state wanted = subject_state_of(&a);
    subject_assert_unchanged(&b, &wanted, "both sessions, three tokens later");
    free(file);
    free(again);
    subject_end(&a);
    subject_end(&b);
}
END_TEST

/* Load says no, names the file, and all that can be seen is as in seen. */
static void refuse_load(subject *s, const char *path, const subject_state *seen, const char *how,
                        size_t at) {
    size_t bytes;
    s->err = (sc_error){ 0 };
    const int rc = s->api->cache_load(s->cache, path, &s->err);
    if (rc != SC_EINPUT || s->err.code != rc || !strstr(s->err.message, path))
        ck_abort_msg("%s %zu: %d: %s", how, at, rc, s->err.message);
    char *now = cast_state(&s->shape, s->cache, 1, &bytes);
    if (bytes != seen->bytes || memcmp(now, seen->data, bytes))
        ck_abort_msg("%s %zu: refused, but the cache has changed", how, at);
    free(now);
}

START_TEST(a_file_that_is_cut_changed_or_too_long_is_refused) {
    static const char path[] = SUBJECT_FOLDER "/damaged";
    subject a = subject_begin(&mixed), s = subject_begin(&mixed);
    size_t bytes;
    make_session(&a, 1);
    make_session(&s, 50);
    save(&a, path);
    char *data = cast_file(path, &bytes); /* with room behind */
    subject_state before = subject_state_of(&s), seen;
    seen.data = cast_state(&s.shape, s.cache, 1, &seen.bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        cast_write(path, data, cut);
        refuse_load(&s, path, &seen, "cut at", cut);
    }
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        cast_write(path, data, bytes);
        refuse_load(&s, path, &seen, "other bit", bit);
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    }
    memset(data + bytes, 0, 64);
    for (size_t more = 1; more <= 64; more++) {
        cast_write(path, data, bytes + more);
        refuse_load(&s, path, &seen, "too long by", more);
    }
    subject_assert_unchanged(&s, &before, "files that were refused");
    cast_write(path, data, bytes);
    ck_assert_int_eq(s.api->cache_load(s.cache, path, &s.err), SC_OK);
    free(data);
    free(seen.data);
    subject_end(&a);
    subject_end(&s);
}
END_TEST

typedef struct {
    int i;
    int64_t value;
} forged;

/* A session, its full layer full, some of whose int64 numbers are others, with the checksum that
 * belongs to it. */
static void forge(const char *path, const forged *number, int numbers) {
    const size_t checksum_at = 40 + 8 * (2 * 2 * 3 + 3); /* of the mixed shape: 2 layers, 3 rows */
    subject a = subject_begin(&mixed);
    size_t bytes;
    sc_checksum sum;
    make_session(&a, 1);
    subject_push(&a, 1, 6, 3);
    save(&a, path);
    char *data = cast_file(path, &bytes);
    for (int i = 0; i < numbers; i++)
        memcpy(data + 40 + 8 * number[i].i, &number[i].value, sizeof number[i].value);
    sc_checksum_begin(&sum);
    sc_checksum_add(&sum, data, checksum_at);
    sc_checksum_add(&sum, data + checksum_at + 8, bytes - checksum_at - 8);
    const uint64_t end_of_sum = sc_checksum_end(&sum);
    memcpy(data + checksum_at, &end_of_sum, sizeof end_of_sum);
    cast_write(path, data, bytes);
    free(data);
    subject_end(&a);
}

/* seen is at 0 … 5, three rows of the ring, then of the full layer; kept at 6 … 11. */
static const forged impossible[] = {
    { 0, -1 },  { 3, INT64_MIN }, /* lengths below 0 */
    { 4, 9 },                     /* max_cache_len is 8 */
    { 1, 2 },   { 3, 7 },         /* less than there is */
    { 6, 0 },   { 6, 3 },         /* the ring has seen 5: it keeps 2, 3, 4 */
    { 6, -1 },  { 9, 1 },         /* a full layer keeps all */
    { 12, -1 }, { 14, 8 },        /* paddings that pad refuses */
};
enum { IMPOSSIBLE = sizeof impossible / sizeof *impossible };

START_TEST(a_file_with_impossible_numbers_is_refused) {
    static const char path[] = SUBJECT_FOLDER "/forged";
    subject s = subject_begin(&mixed);
    make_session(&s, 50);
    forge(path, &impossible[_i], 1);
    ASSERT_REFUSED(&s, SC_EINPUT, path, s.api->cache_load(s.cache, path, err));
    subject_end(&s);
}
END_TEST

/* A ring takes any number of tokens, and then one more is one too many. W = 3, q = 4. */
START_TEST(a_ring_that_has_seen_all_tokens_overflows_nothing) {
    static const char path[] = SUBJECT_FOLDER "/forged";
    subject s = subject_begin(&mixed);
    int64_t length, offset;
    forge(path,
          (const forged[]){ { 0, INT64_MAX },
                            { 1, INT64_MAX },
                            { 2, INT64_MAX },
                            { 6, INT64_MAX - 3 },
                            { 7, INT64_MAX - 3 },
                            { 8, INT64_MAX - 3 } },
          6);
    ck_assert_int_eq(s.api->cache_load(s.cache, path, &s.err), SC_OK);
    ck_assert_int_eq(s.api->cache_seq_length(s.cache, 0), INT64_MAX);
    ck_assert_int_eq(s.api->cache_mask_sizes(s.cache, 0, 4, &length, &offset, &s.err), SC_OK);
    ck_assert_int_eq(offset, INT64_MAX - 2);
    ck_assert_int_eq(length, 3 + 4 - 1);
    subject_fill(&s, 0, 6, 1);
    ASSERT_REFUSED(&s, SC_EFULL, "room for 0",
                   s.api->cache_update(s.cache, 0, s.keys, s.values, 1, err));
    subject_end(&s);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_refused) {
    static const char path[] = SUBJECT_FOLDER "/nowhere/session";
    subject s = subject_begin(&mixed);
    make_session(&s, 1);
    subject_state before = subject_state_of(&s);
    const int rc = s.api->cache_load(s.cache, path, &s.err);
    ck_assert(rc == SC_EINPUT || rc == SC_EENV);
    ck_assert_int_eq(s.err.code, rc);
    ck_assert_ptr_nonnull(strstr(s.err.message, path));
    ck_assert_int_eq(s.api->cache_load(s.cache, path, NULL), rc);
    ck_assert_int_lt(s.api->cache_load(s.cache, SUBJECT_FOLDER, NULL), 0);
    subject_assert_unchanged(&s, &before, "no file");
    subject_end(&s);
}
END_TEST

static const struct {
    cast_shape mine, other;
} strangers[] = {
    { { "s", 4, 10, 1, 2 }, { "f", 4, 4, 1, 2 } },    /* the type alone: both have 4 slots */
    { { "s", 4, 10, 1, 2 }, { "s", 5, 16, 1, 2 } },   /* the window */
    { { "f", 4, 5, 1, 2 }, { "f", 4, 4, 1, 2 } },     /* max_cache_len */
    { { "f", 4, 5, 1, 2 }, { "f", 4, 5, 3, 2 } },     /* batch */
    { { "f", 4, 5, 1, 2 }, { "f", 4, 5, 1, 1 } },     /* heads */
    { { "s", 5, 5, 1, 2 }, { "ss", 5, 20, 1, 2 } },   /* layers */
    { { "ssf", 9, 6, 1, 1 }, { "sff", 9, 6, 1, 1 } }, /* which layer has which shape */
};
enum { STRANGERS = sizeof strangers / sizeof *strangers };

START_TEST(a_file_of_another_casting_is_refused) {
    static const char path[] = SUBJECT_FOLDER "/stranger";
    const int row = _i / 2, turned = _i % 2;
    subject a = subject_begin(turned ? &strangers[row].mine : &strangers[row].other),
            s = subject_begin(turned ? &strangers[row].other : &strangers[row].mine);
    subject_push_all(&a, 1, 3);
    subject_push_all(&s, 7, 2);
    save(&a, path);
    ASSERT_REFUSED(&s, SC_EINPUT, path, s.api->cache_load(s.cache, path, err));
    subject_end(&a);
    subject_end(&s);
}
END_TEST

static int entries(const char *folder) {
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return count;
}

/* A disk that is full after so many bytes. */
static int save_within(subject *s, const char *path, size_t bytes) {
    struct rlimit was;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    const struct rlimit small = { bytes, was.rlim_max };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    s->err = (sc_error){ 0 };
    const int rc = s->api->cache_save(s->cache, path, &s->err);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, handler);
    return rc;
}

START_TEST(a_save_that_fails_half_way_leaves_the_old_file) {
    static const char path[] = SUBJECT_FOLDER "/full/session";
    subject s = subject_begin(&mixed);
    size_t bytes, now_bytes;
    ck_assert_int_eq(
        run(NULL, NULL, "rm -rf %s/full && mkdir %s/full", SUBJECT_FOLDER, SUBJECT_FOLDER), 0);
    make_session(&s, 1);
    save(&s, path);
    char *old = cast_file(path, &bytes);
    subject_push_all(&s, 6, 1);
    const size_t whole = file_bytes(&mixed, 6);
    for (size_t room = 0; room < whole; room += room < whole - 20 ? 19 : 1) {
        subject_state before = subject_state_of(&s);
        ck_assert_int_eq(save_within(&s, path, room), SC_EENV);
        ck_assert_int_eq(s.err.code, SC_EENV);
        ck_assert_ptr_nonnull(strstr(s.err.message, path));
        subject_assert_unchanged(&s, &before, "a save that fails");
        char *now = cast_file(path, &now_bytes);
        ck_assert(now_bytes == bytes && !memcmp(now, old, bytes));
        ck_assert_int_eq(entries(SUBJECT_FOLDER "/full"), 1);
        free(now);
    }
    ck_assert_int_eq(save_within(&s, path, whole), SC_OK);
    free(cast_file(path, &now_bytes));
    ck_assert_uint_eq(now_bytes, whole);
    ck_assert_int_eq(entries(SUBJECT_FOLDER "/full"), 1);
    free(old);
    subject_end(&s);
}
END_TEST

START_TEST(a_save_to_an_impossible_place_leaves_nothing_behind) {
    static const char folder[] = SUBJECT_FOLDER "/place", kept[] = SUBJECT_FOLDER "/place/kept";
    static const char *const paths[] = { SUBJECT_FOLDER "/place/none/session", /* no such folder */
                                         SUBJECT_FOLDER
                                         "/place/kept/session",     /* a file in the way */
                                         SUBJECT_FOLDER "/place" }; /* a folder, not empty */
    subject s = subject_begin(&mixed);
    size_t bytes;
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir %s", folder, folder), 0);
    cast_write(kept, "old", 3);
    make_session(&s, 1);
    const int around = entries(SUBJECT_FOLDER);
    ck_assert_int_eq(s.api->cache_save(s.cache, paths[_i], &s.err), SC_EENV);
    ck_assert_int_eq(s.err.code, SC_EENV);
    ck_assert_ptr_nonnull(strstr(s.err.message, paths[_i]));
    ck_assert_int_eq(s.api->cache_save(s.cache, paths[_i], NULL), SC_EENV);
    ck_assert_int_eq(entries(folder), 1);
    ck_assert_int_eq(entries(SUBJECT_FOLDER), around);
    char *old = cast_file(kept, &bytes);
    ck_assert(bytes == 3 && !memcmp(old, "old", 3));
    free(old);
    subject_end(&s);
}
END_TEST

/* ---- many rows of many layers: counts of megabytes on a stack of 512 KiB ---- */

enum { MANY_LAYERS = 400, MANY_ROWS = 1024 };

static const sc_casting *cast_many(void) {
    static char json[MANY_LAYERS * 96];
    char options[64];
    size_t at = 0;
    for (int layer = 0; layer < MANY_LAYERS; layer++)
        at += (size_t)snprintf(json + at, sizeof json - at,
                               "%s{\"layer_type\": \"full_attention\", "
                               "\"num_key_value_heads\": 1, \"head_dim\": 1}",
                               layer ? ", " : "{\"model_type\": \"slipcast_cache\", \"layers\": [");
    snprintf(json + at, sizeof json - at, "]}");
    snprintf(options, sizeof options, "--max-cache-len 2 --batch-size %d", MANY_ROWS);
    return cast_spec("many-rows", json, options);
}

/* Each row gets one token, its own number; the rows are turned round, saved and loaded. */
static void *use_many(void *arg) {
    static float keys[2 * MANY_ROWS], values[2 * MANY_ROWS];
    static int32_t beams[MANY_ROWS];
    const sc_casting *api = arg;
    sc_error err = { 0 };
    sc_cache *cache = NULL, *other = NULL;
    int rc = api->cache_create(&cache, &err);
    if (!rc)
        rc = api->cache_create(&other, &err);
    for (int row = 0; row < MANY_ROWS; row++) {
        keys[row] = values[row] = (float)(row + 1);
        beams[row] = MANY_ROWS - 1 - row;
    }
    for (int layer = 0; layer < MANY_LAYERS && !rc; layer++)
        rc = api->cache_update(cache, layer, keys, values, 1, &err);
    if (!rc)
        rc = api->cache_reorder(cache, beams, &err);
    if (!rc)
        rc = api->cache_save(cache, SUBJECT_FOLDER "/many", &err);
    if (!rc)
        rc = api->cache_load(other, SUBJECT_FOLDER "/many", &err);
    for (int layer = 0; layer < MANY_LAYERS && !rc; layer++) {
        rc = api->cache_read(other, layer, keys, values, &err);
        for (int row = 0; row < MANY_ROWS && !rc; row++)
            if (keys[2 * row] != (float)(MANY_ROWS - row) || values[2 * row] != keys[2 * row])
                return "a row is another's";
    }
    api->cache_destroy(cache);
    api->cache_destroy(other);
    return rc ? "a call failed" : NULL;
}

START_TEST(many_rows_of_many_layers_need_little_stack) {
    pthread_attr_t small;
    pthread_t thread;
    void *wrong = NULL;
    mkdir(SUBJECT_FOLDER, 0777); /* it may be there */
    ck_assert_int_eq(pthread_attr_init(&small), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&small, 512 * 1024), 0);
    ck_assert_int_eq(pthread_create(&thread, &small, use_many, (void *)cast_many()), 0);
    ck_assert_int_eq(pthread_join(thread, &wrong), 0);
    pthread_attr_destroy(&small);
    ck_assert_msg(!wrong, "%s", (const char *)wrong);
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    cast_many();
    cast_make(&mixed);
    for (int i = 0; i < STRANGERS; i++) {
        cast_make(&strangers[i].mine);
        cast_make(&strangers[i].other);
    }
}

Suite *cache_saved_suite(void) {
    Suite *suite = suite_create("cache_saved");
    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 300);
    tcase_add_unchecked_fixture(files, make_castings, NULL);
    tcase_add_test(files, a_file_holds_the_used_slots_and_no_more);
    tcase_add_test(files, a_loaded_session_goes_on_like_the_saved_one);
    tcase_add_test(files, a_file_that_is_cut_changed_or_too_long_is_refused);
    tcase_add_loop_test(files, a_file_with_impossible_numbers_is_refused, 0, IMPOSSIBLE);
    tcase_add_test(files, a_ring_that_has_seen_all_tokens_overflows_nothing);
    tcase_add_test(files, a_file_that_is_not_there_is_refused);
    tcase_add_loop_test(files, a_file_of_another_casting_is_refused, 0, 2 * STRANGERS);
    tcase_add_test(files, a_save_that_fails_half_way_leaves_the_old_file);
    tcase_add_loop_test(files, a_save_to_an_impossible_place_leaves_nothing_behind, 0, 3);
    tcase_add_test(files, many_rows_of_many_layers_need_little_stack);
    suite_add_tcase(suite, files);
    return suite;
}
