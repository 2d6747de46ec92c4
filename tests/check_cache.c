/* check_cache.c - the cache of a casting, through its public API, against the reference's traces.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "support/subject.h"
#include "support/trace.h"

Suite *cache_suite(void);

/* ---- the reference's traces ---- */

static const char *const traces[] = {
    "full_basic",
    "full_batch_ops",
    "full_crop",
    "full_crop_underflow",
    "full_overflow_chunk",
    "full_overflow_first",
    "full_overflow_one",
    "sliding_big_second_chunk",
    "sliding_cache_equal",
    "sliding_cache_shorter",
    "sliding_crop_below",
    "sliding_crop_past",
    "sliding_crop_past_decode",
    "sliding_decode",
    "sliding_exact_prompt",
    "sliding_fill_exactly",
    "sliding_long_prompt",
    "sliding_partial_then_full",
    "sliding_reorder",
    "sliding_reset",
    "sliding_short_prompt",
    "sliding_window_one",
    "mixed_sliding_full",
    "mixed_all_sliding",
    "mixed_chunked_full",
    "mixed_dummy",
    "chunked_basic",
    "chunked_long_prompt",
};
enum { TRACES = sizeof traces / sizeof *traces };

static int number(const cJSON *object, const char *key) {
    const cJSON *item = sc_json_get(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "the trace lacks %s", key);
    return item->valueint;
}

static cast_shape trace_shape(const cJSON *trace) {
    const cJSON *types = sc_json_get(trace, "layer_types"), *type;
    const cJSON *arguments = types ? trace : sc_json_get(trace, "arguments");
    cast_shape shape = { .max_cache_len = number(arguments, "max_cache_len"),
                         .batch = number(trace, "batch_size"),
                         .heads = number(trace, "num_heads") };
    const char *window =
        sc_json_get(arguments, "attention_chunk_size") ? "attention_chunk_size" : "sliding_window";
    shape.window = sc_json_get(arguments, window) ? number(arguments, window) : 4;
    int layers = 0;
    cJSON_ArrayForEach(type, types) shape.types[layers++] = type->valuestring[0];
    if (!types)
        shape.types[0] = sc_json_get(trace, "layer_type")->valuestring[0];
    ck_assert_int_eq(number(trace, types ? "head_dim" : "key_head_dim"), CAST_DIM);
    return shape;
}

static int first_layer; /* what layer 0 is in the rule of the inputs */

/* The inputs by the trace's rule. */
static void trace_tokens(subject *s, int layer, int serial, int tokens) {
    float *k = s->keys, *v = s->values;
    for (int b = 0; b < s->shape.batch; b++)
        for (int h = 0; h < s->shape.heads; h++)
            for (int t = 0; t < tokens; t++)
                for (int d = 0; d < CAST_DIM; d++) {
                    const int sum =
                        (first_layer + layer) * 7 + b * 11 + h * 5 + (serial + t) * 3 + d;
                    *k++ = (float)(sum % 64) / 8;
                    *v++ = (float)((sum + 29) % 64) / 8 - 4;
                }
}

/* [batch, heads, length, dim]: the first used tokens of each row are the reference's, the rest of
 * ours is zero. A reference of null has not written anything yet. */
static void assert_rows(const subject *s, const float *ours, const cJSON *tensor, int64_t length,
                        int64_t used, const char *what) {
    const cJSON *shape = sc_json_get(tensor, "shape"),
                *at = cJSON_GetArrayItem(sc_json_get(tensor, "data"), 0);
    const int absent = cJSON_IsNull(tensor);
    if (!absent)
        ck_assert_msg(cJSON_GetArrayItem(shape, 2)->valueint == length,
                      "%s: %" PRId64 " tokens, the reference has %d", what, length,
                      cJSON_GetArrayItem(shape, 2)->valueint);
    for (size_t i = 0; i < cast_floats(&s->shape, length); i++, at = at ? at->next : NULL) {
        const int64_t token = (int64_t)i / CAST_DIM % length;
        ck_assert_msg(absent || at, "%s: the reference ends at %zu", what, i);
        const double wanted = token < used && !absent ? at->valuedouble : 0;
        ck_assert_msg((double)ours[i] == wanted, "%s: index %zu (slot %" PRId64 "): %g, not %g",
                      what, i, token, (double)ours[i], wanted);
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Counters and mask sizes of one layer. */
static void assert_counters(subject *s, int layer, const cJSON *wanted, const char *what) {
    if (cJSON_IsObject(sc_json_get(wanted, "seq_length"))) { /* the reference raises */
        ck_assert_int_eq(s->api->cache_seq_length(s->cache, layer), -1);
        return;
    }
    ck_assert_msg(s->api->cache_seq_length(s->cache, layer) == number(wanted, "seq_length"),
                  "%s: %" PRId64 " tokens, the reference has %d", what,
                  s->api->cache_seq_length(s->cache, layer), number(wanted, "seq_length"));
    if (sc_json_get(wanted, "max_length"))
        ck_assert_int_eq(s->api->cache_max_length(s->cache, layer), number(wanted, "max_length"));
    const cJSON *sizes;
    cJSON_ArrayForEach(sizes, sc_json_get(wanted, "mask_sizes")) {
        int64_t length = -1, offset = -1;
        ck_assert_int_eq(s->api->cache_mask_sizes(s->cache, layer, atoi(sizes->string), &length,
                                                  &offset, &s->err),
                         SC_OK);
        ck_assert_msg(length == cJSON_GetArrayItem(sizes, 0)->valueint &&
                          offset == cJSON_GetArrayItem(sizes, 1)->valueint,
                      "%s: mask sizes of %s queries: %" PRId64 ", %" PRId64, what, sizes->string,
                      length, offset);
    }
}

static void assert_stored(subject *s, int layer, const cJSON *wanted, const char *what) {
    const int slots = cast_slots(&s->shape, layer);
    if (s->shape.types[layer] == 'm')
        return;
    const int64_t used = least(slots, s->api->cache_seq_length(s->cache, layer));
    ck_assert_int_eq(s->api->cache_read(s->cache, layer, s->keys, s->values, &s->err), SC_OK);
    assert_rows(s, s->keys, sc_json_get(wanted, "keys"), slots, used, what);
    assert_rows(s, s->values, sc_json_get(wanted, "values"), slots, used, what);
}

/* What the models' mask functions build follows from mask_sizes, asked before the update. */
static void assert_masks(subject *s, int layer, const cJSON *masks, const char *what) {
    const char type = s->shape.types[layer];
    const char *kind = type == 's'   ? "sliding_attention"
                       : type == 'c' ? "chunked_attention"
                                     : "full_attention";
    const cJSON *rows = sc_json_get(masks, kind), *row;
    const int64_t seen = s->api->cache_seq_length(s->cache, layer);
    int64_t length, offset, query = seen;
    if (!rows)
        return;
    ck_assert_int_eq(s->api->cache_mask_sizes(s->cache, layer, cJSON_GetArraySize(rows), &length,
                                              &offset, &s->err),
                     SC_OK);
    cJSON_ArrayForEach(row, rows) {
        ck_assert_int_eq((int64_t)strlen(row->valuestring), length);
        for (int64_t j = 0; j < length; j++) {
            const int64_t pos = offset + j;
            const int sees = pos <= query && (type != 's' || pos > query - s->shape.window) &&
                             (type != 'c' || pos / s->shape.window == query / s->shape.window);
            ck_assert_msg(row->valuestring[j] == (sees ? '1' : '0'),
                          "%s: query %" PRId64 ", slot %" PRId64, what, query, j);
        }
        query++;
    }
}

/* Has the layer no room for so many tokens? */
static int overflows(const subject *s, int layer, int tokens) {
    const int bounded = s->shape.types[layer] == 'f' ||
                        (s->shape.types[layer] != 'm' && s->shape.window > s->shape.max_cache_len);
    return bounded && s->api->cache_seq_length(s->cache, layer) + tokens > s->shape.max_cache_len;
}

/* The code with which ours refuses what the reference overflows or corrupts; SC_OK: it does not. */
static int refusal(const subject *s, const cJSON *step, int amount, int update) {
    for (int layer = 0; layer < s->layers; layer++) {
        const int64_t seen = s->api->cache_seq_length(s->cache, layer);
        if (s->shape.types[layer] == 'm')
            continue;
        if (update && overflows(s, layer, amount))
            return SC_EFULL;
        if (!update && (amount > 0 || seen + amount < 0))
            return SC_EUSAGE;
        if (!update && amount && s->shape.types[layer] != 'f' &&
            seen > cast_slots(&s->shape, layer))
            return SC_EFULL;
    }
    ck_assert(!sc_json_get(step, "error"));
    return SC_OK;
}

static void replay_update(subject *s, const cJSON *step, const int *serial, int tokens,
                          const char *what) {
    const cJSON *all = sc_json_get(step, "returned");
    for (int layer = 0; layer < s->layers; layer++) {
        const cJSON *returned = cJSON_IsArray(all) ? cJSON_GetArrayItem(all, layer) : all;
        const int64_t seen = s->api->cache_seq_length(s->cache, layer);
        int64_t length, offset, got = -1;
        if (s->shape.types[layer] == 'm') {
            trace_tokens(s, layer, *serial, tokens);
            ck_assert_int_eq(
                s->api->cache_update(s->cache, layer, s->keys, s->values, tokens, &s->err),
                SC_EUSAGE);
            continue;
        }
        assert_masks(s, layer, sc_json_get(step, "masks"), what);
        ck_assert_int_eq(
            s->api->cache_mask_sizes(s->cache, layer, tokens, &length, &offset, &s->err), SC_OK);
        trace_tokens(s, layer, *serial, tokens);
        ck_assert_msg(!s->api->cache_update(s->cache, layer, s->keys, s->values, tokens, &s->err),
                      "%s: %s", what, s->err.message);
        ck_assert_int_eq(s->api->cache_visible(s->cache, layer, NULL, NULL, &got, &s->err), SC_OK);
        ck_assert_int_eq(got, length);
        ck_assert_int_eq(s->api->cache_visible(s->cache, layer, s->keys, s->values, &got, &s->err),
                         SC_OK);
        const int64_t used = seen + tokens - offset;
        assert_rows(s, s->keys, sc_json_get(returned, "keys"), got, used, what);
        assert_rows(s, s->values, sc_json_get(returned, "values"), got, used, what);
    }
}

/* One call that the reference has too; all layers get the same. */
static int replay_call(subject *s, const cJSON *step, const char *op, int amount, int serial,
                       const char *what) {
    if (!strcmp(op, "update")) {
        const int rc = refusal(s, step, amount, 1);
        if (!rc)
            replay_update(s, step, &serial, amount, what);
        for (int layer = 0; rc && layer < s->layers; layer++) {
            if (!overflows(s, layer, amount))
                continue;
            trace_tokens(s, layer, serial, amount);
            ck_assert_int_eq(
                s->api->cache_update(s->cache, layer, s->keys, s->values, amount, &s->err), rc);
        }
        return rc;
    }
    if (!strcmp(op, "crop")) {
        const int rc = refusal(s, step, amount, 0);
        ck_assert_msg(s->api->cache_crop(s->cache, amount, &s->err) == rc, "%s", what);
        return rc;
    }
    if (!strcmp(op, "reset"))
        return s->api->cache_reset(s->cache, &s->err);
    if (!strcmp(op, "reorder_cache")) {
        int32_t beams[8] = { 0 };
        const cJSON *list = sc_json_get(step, "beam_idx");
        list = list ? list : sc_json_get(step, "argument");
        for (int b = 0; b < s->shape.batch; b++)
            beams[b] = cJSON_GetArrayItem(list, b)->valueint;
        return s->api->cache_reorder(s->cache, beams, &s->err);
    }
    ck_assert_msg(!strncmp(op, "batch_", 6), "%s: an operation that this test does not know", what);
    return SC_OK; /* the reference has no such method for static layers either */
}

START_TEST(a_cache_does_what_the_reference_traced) {
    cJSON *trace = trace_read(traces[_i]);
    const cast_shape shape = trace_shape(trace);
    subject s = subject_begin(&shape);
    first_layer = sc_json_get(trace, "layer_index") ? number(trace, "layer_index") : 0;
    const cJSON *step;
    int serial = 0, lost = 0, i = 0;
    if (sc_json_get(trace, "max_length"))
        ck_assert_int_eq(s.api->cache_max_length(s.cache, -1), number(trace, "max_length"));
    cJSON_ArrayForEach(step, sc_json_get(trace, "steps")) {
        const char *op = sc_json_get(step, "op")->valuestring;
        const cJSON *argument = sc_json_get(step, "argument");
        char what[128];
        snprintf(what, sizeof what, "%s: step %d (%s)", traces[_i], i++, op);
        const int amount = !strcmp(op, "update") && !argument ? number(step, "tokens")
                           : !strcmp(op, "crop") && !argument ? number(step, "tokens_to_remove")
                           : cJSON_IsNumber(argument)         ? argument->valueint
                                                              : 0;
        const int first = serial;
        serial += strcmp(op, "update") ? 0 : amount;
        if (sc_json_get(step, "first_serial"))
            ck_assert_int_eq(number(step, "first_serial"), first);
        /* After a refusal the two differ until both are empty again. */
        if (lost && strcmp(op, "reset"))
            continue;
        const cJSON *before = sc_json_get(step, "before"), *after = sc_json_get(step, "after"),
                    *layers = sc_json_get(before, "layers");
        for (int layer = 0; !lost && layer < s.layers; layer++)
            assert_counters(&s, layer, layers ? cJSON_GetArrayItem(layers, layer) : before, what);
        lost = 0;
        subject_state was = subject_state_of(&s);
        const int rc = replay_call(&s, step, op, amount, first, what);
        if (rc) {
            subject_assert_unchanged(&s, &was, what);
            lost = !(rc == SC_EUSAGE && amount > 0);
            continue;
        }
        free(was.data);
        layers = sc_json_get(after, "layers");
        const cJSON *stored = sc_json_get(step, "stored");
        for (int layer = 0; layer < s.layers; layer++) {
            assert_counters(&s, layer, layers ? cJSON_GetArrayItem(layers, layer) : after, what);
            assert_stored(&s, layer, stored ? cJSON_GetArrayItem(stored, layer) : after, what);
        }
    }
    subject_end(&s);
    cJSON_Delete(trace);
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_trace_castings(void) {
    for (int i = 0; i < TRACES; i++) {
        cJSON *trace = trace_read(traces[i]);
        const cast_shape shape = trace_shape(trace);
        cast_make(&shape);
        cJSON_Delete(trace);
    }
}

Suite *cache_suite(void) {
    Suite *suite = suite_create("cache");
    TCase *reference = tcase_create("reference");
    tcase_set_timeout(reference, 300);
    tcase_add_unchecked_fixture(reference, make_trace_castings, NULL);
    tcase_add_loop_test(reference, a_cache_does_what_the_reference_traced, 0, TRACES);
    suite_add_tcase(suite, reference);
    return suite;
}
