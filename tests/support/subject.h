/*
 * subject.h - one cache of a casting under test, filled with tokens that are told from each other.
 *
 * A token has an id, its serial number times SUBJECT_BATCHES and the row; every float of its keys
 * and values is another number. Id 0 stands for zeros. All failures are the test's.
 */
#ifndef SC_TEST_SUBJECT_H
#define SC_TEST_SUBJECT_H

#include <check.h>
#include <string.h>

#include "cast.h"

#define SUBJECT_FOLDER "build/test-castings/subject"

/* More than any shape has: rows of a batch, tokens of one. */
enum { SUBJECT_BATCHES = 4, SUBJECT_ROW = 64 };

/* The cache, and buffers for all that it takes or returns. */
typedef struct {
    cast_shape shape;
    const sc_casting *api;
    sc_cache *cache;
    int layers;
    float *keys, *values; /* of 2 max_cache_len + 4 tokens */
    sc_error err;
} subject;

subject subject_begin(const cast_shape *shape);
void subject_end(subject *s);

int subject_token_id(int serial, int row);

/* Tokens serial, serial + 1, … of every row into the buffers; into one layer; into all. */
void subject_fill(subject *s, int layer, int serial, int tokens);
void subject_push(subject *s, int layer, int serial, int tokens);
void subject_push_all(subject *s, int serial, int tokens);

/* The ids of tokens that a layer should show, per row of the batch. */
typedef struct {
    int id[SUBJECT_BATCHES][SUBJECT_ROW];
} subject_rows;

/* These serials in every row, 0 for zeros; row b shows what row from[b] was given (NULL: b). */
subject_rows subject_rows_of(const int *serials, int count, const int32_t *from);

/* cache_read, and cache_visible, give these. */
void subject_assert_read(subject *s, int layer, const subject_rows *wanted, const char *what);
void subject_assert_visible(subject *s, int layer, int64_t length, const subject_rows *wanted,
                            const char *what);

/* All that a caller can see, and the saved file, which has the padding too; the caller frees
 * data. */
typedef struct {
    char *data;
    size_t bytes;
} subject_state;

subject_state subject_state_of(const subject *s);
void subject_assert_same(const subject_state *a, const subject_state *b, const char *what);
/* Frees before. */
void subject_assert_unchanged(const subject *s, subject_state *before, const char *what);

/* Number i of the counts that a saved cache begins with: seen and kept [layers][batch], padding
 * [batch]. docs/cache.md, "Save and load". */
int64_t subject_saved(const subject *s, int i);
int64_t subject_padding(const subject *s, int row);

/* The call, which is given err, fails with that code and text, and again when nobody listens;
 * neither changes anything. */
#define ASSERT_REFUSED(s, refusal, part, ...)                                                      \
    do {                                                                                           \
        subject_state before_ = subject_state_of(s);                                               \
        sc_error *err = &(s)->err;                                                                 \
        *err = (sc_error){ 0 };                                                                    \
        ck_assert_int_eq((__VA_ARGS__), refusal);                                                  \
        ck_assert_int_eq(err->code, refusal);                                                      \
        ck_assert_msg(strstr(err->message, part) != NULL, "%s: without \"%s\"", err->message,      \
                      part);                                                                       \
        err = NULL;                                                                                \
        ck_assert_int_eq((__VA_ARGS__), refusal);                                                  \
        subject_assert_unchanged(s, &before_, #__VA_ARGS__);                                       \
    } while (0)

#endif
