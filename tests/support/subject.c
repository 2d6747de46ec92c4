/* subject.c - see subject.h. */
#include "subject.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

subject subject_begin(const cast_shape *shape) {
    subject s = { .shape = *shape, .api = cast_make(shape), .layers = (int)strlen(shape->types) };
    const size_t floats = cast_floats(shape, 2 * shape->max_cache_len + 4);
    s.keys = calloc(floats, sizeof(float));
    s.values = calloc(floats, sizeof(float));
    ck_assert(s.keys && s.values);
    ck_assert_int_eq(s.api->cache_create(&s.cache, &s.err), SC_OK);
    mkdir(SUBJECT_FOLDER, 0777); /* it may be there */
    return s;
}

void subject_end(subject *s) {
    s->api->cache_destroy(s->cache);
    free(s->keys);
    free(s->values);
}

/* ---- tokens: every float that is stored is told from every other ---- */

int subject_token_id(int serial, int b) { return serial * SUBJECT_BATCHES + b; }

/* The float at dimension d of a token; kind 0: key, 1: value. Id 0 is no token but zeros. */
static float number(int kind, int layer, int head, int id, int d) {
    return id ? (float)(1 + d + CAST_DIM * (kind + 2 * (head + 2 * (layer + CAST_LAYERS * id))))
              : 0;
}

void subject_fill(subject *s, int layer, int serial, int tokens) {
    float *k = s->keys, *v = s->values;
    for (int b = 0; b < s->shape.batch; b++)
        for (int h = 0; h < s->shape.heads; h++)
            for (int t = 0; t < tokens; t++)
                for (int d = 0; d < CAST_DIM; d++) {
                    *k++ = number(0, layer, h, subject_token_id(serial + t, b), d);
                    *v++ = number(1, layer, h, subject_token_id(serial + t, b), d);
                }
}

void subject_push(subject *s, int layer, int serial, int tokens) {
    subject_fill(s, layer, serial, tokens);
    const int rc = s->api->cache_update(s->cache, layer, s->keys, s->values, tokens, &s->err);
    ck_assert_msg(!rc, "%s", s->err.message);
}

void subject_push_all(subject *s, int serial, int tokens) {
    for (int layer = 0; layer < s->layers; layer++)
        subject_push(s, layer, serial, tokens);
}

subject_rows subject_rows_of(const int *serials, int count, const int32_t *from) {
    subject_rows r = { 0 };
    for (int b = 0; b < SUBJECT_BATCHES; b++)
        for (int j = 0; j < count; j++)
            r.id[b][j] = serials[j] ? subject_token_id(serials[j], from ? from[b] : b) : 0;
    return r;
}

/* The keys and values that the cache has just returned, [batch, heads, length, dim]. */
static void assert_tokens(const subject *s, int layer, int64_t length, const subject_rows *wanted,
                          const char *what) {
    const float *got[2] = { s->keys, s->values };
    for (int b = 0; b < s->shape.batch; b++)
        for (int h = 0; h < s->shape.heads; h++)
            for (int64_t j = 0; j < length; j++)
                for (int i = 0; i < 2 * CAST_DIM; i++) {
                    const int kind = i % 2, d = i / 2;
                    const float want = number(kind, layer, h, wanted->id[b][j], d),
                                have = got[kind]
                                          [((b * s->shape.heads + h) * length + j) * CAST_DIM + d];
                    if (have != want)
                        ck_abort_msg("%s: layer %d, %s [%d, %d, %" PRId64 ", %d]: %g, not %g", what,
                                     layer, kind ? "value" : "key", b, h, j, d, (double)have,
                                     (double)want);
                }
}

void subject_assert_read(subject *s, int layer, const subject_rows *wanted, const char *what) {
    if (s->api->cache_read(s->cache, layer, s->keys, s->values, &s->err))
        ck_abort_msg("%s: %s", what, s->err.message);
    assert_tokens(s, layer, cast_slots(&s->shape, layer), wanted, what);
}

void subject_assert_visible(subject *s, int layer, int64_t length, const subject_rows *wanted,
                            const char *what) {
    int64_t got = -1;
    if (s->api->cache_visible(s->cache, layer, NULL, NULL, &got, &s->err) || got != length)
        ck_abort_msg("%s: layer %d shows %" PRId64 " tokens, not %" PRId64 " (%s)", what, layer,
                     got, length, s->err.message);
    if (s->api->cache_visible(s->cache, layer, s->keys, s->values, &got, &s->err) || got != length)
        ck_abort_msg("%s: layer %d: the second look differs", what, layer);
    assert_tokens(s, layer, length, wanted, what);
}

/* ---- what must not change when a call is refused ---- */

subject_state subject_state_of(const subject *s) {
    subject_state now;
    size_t more;
    char *seen = cast_state(&s->shape, s->cache, 1, &now.bytes);
    ck_assert_int_eq(s->api->cache_save(s->cache, SUBJECT_FOLDER "/state", NULL), SC_OK);
    char *file = cast_file(SUBJECT_FOLDER "/state", &more);
    now.data = realloc(seen, now.bytes + more);
    ck_assert_ptr_nonnull(now.data);
    memcpy(now.data + now.bytes, file, more);
    now.bytes += more;
    free(file);
    return now;
}

void subject_assert_same(const subject_state *a, const subject_state *b, const char *what) {
    ck_assert_msg(a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes), "%s: not the same",
                  what);
}

void subject_assert_unchanged(const subject *s, subject_state *before, const char *what) {
    subject_state now = subject_state_of(s);
    subject_assert_same(before, &now, what);
    free(now.data);
    free(before->data);
}

int64_t subject_saved(const subject *s, int i) {
    size_t bytes;
    int64_t value;
    ck_assert_int_eq(s->api->cache_save(s->cache, SUBJECT_FOLDER "/numbers", NULL), SC_OK);
    char *file = cast_file(SUBJECT_FOLDER "/numbers", &bytes);
    memcpy(&value, file + 40 + 8 * i, sizeof value);
    free(file);
    return value;
}

int64_t subject_padding(const subject *s, int row) {
    return subject_saved(s, 2 * s->layers * s->shape.batch + row);
}
