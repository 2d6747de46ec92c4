/* check_cache_kinds.c - layers that keep more than keys and values of one width: the reference's
 * traces of convolutions, recurrent states, hybrids, indexer keys, through castings of
 * specifications. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "support/cast.h"
#include "support/trace.h"

Suite *cache_kinds_suite(void);

static const char *const traces[] = {
    "conv_only",   "conv_kernel_from_input", "linear_long", "linear_short",  "linear_three_states",
    "hybrid_full", "hybrid_sliding",         "indexed",     "full_kv_width",
};
enum { TRACES = sizeof traces / sizeof *traces, MOST = 4096 };

/* The number of that name, in the trace or among its arguments; -1: there is none. */
static int number(const cJSON *trace, const char *key) {
    const cJSON *item = sc_json_get(trace, key);
    item = item ? item : sc_json_get(sc_json_get(trace, "arguments"), key);
    return cJSON_IsNumber(item) ? item->valueint : -1;
}

/* One layer as the trace has it. */
static const sc_casting *cast_trace(const char *name, const cJSON *trace) {
    char json[1024], options[128];
    const cJSON *type = sc_json_get(trace, "layer_type"),
                *recurrent = sc_json_get(trace, "recurrent_shape");
    int at = snprintf(json, sizeof json,
                      "{\"model_type\": \"slipcast_cache\", \"layers\": [{\"layer_type\": \"%s\"",
                      type ? type->valuestring : "indexed_attention");
    const int states = number(trace, "number_of_states"),
              max_cache_len = number(trace, "max_cache_len");
    if (max_cache_len > 0) {
        const int key = number(trace, "key_head_dim"), value = number(trace, "value_head_dim");
        const int heads = number(trace, "num_heads");
        at += snprintf(json + at, sizeof json - (size_t)at,
                       ", \"num_key_value_heads\": %d, \"head_dim\": %d, \"v_head_dim\": %d",
                       heads > 0 ? heads : 2, key > 0 ? key : 2, value > 0 ? value : 2);
    }
    if (number(trace, "sliding_window") > 0)
        at += snprintf(json + at, sizeof json - (size_t)at, ", \"sliding_window\": %d",
                       number(trace, "sliding_window"));
    if (number(trace, "index_head_dim") > 0)
        at += snprintf(json + at, sizeof json - (size_t)at, ", \"index_head_dim\": %d",
                       number(trace, "index_head_dim"));
    for (int i = 0; i < states; i++)
        at += snprintf(
            json + at, sizeof json - (size_t)at,
            "%s{\"name\": \"conv_state\", \"shape\": [%d, %d]}%s", i ? ", " : ", \"states\": [",
            number(trace, "channels"), number(trace, "conv_kernel_size"),
            cJSON_IsArray(recurrent) ? ", {\"name\": \"recurrent_state\", \"shape\": [2, 2]}" : "");
    snprintf(json + at, sizeof json - (size_t)at, "%s}]}", states > 0 ? "]" : "");
    snprintf(options, sizeof options, "--max-cache-len %d --batch-size %d",
             max_cache_len > 0 ? max_cache_len : 1, number(trace, "batch_size"));
    return cast_spec(name, json, options);
}

/* The trace's rules. Elements are [batch, heads, tokens, dim] and the like. */
static void fill_kv(float *to, int layer, int values, int batch, int heads, int serial, int tokens,
                    int dim) {
    for (int b = 0; b < batch; b++)
        for (int h = 0; h < heads; h++)
            for (int t = 0; t < tokens; t++)
                for (int d = 0; d < dim; d++) {
                    const int sum = layer * 7 + b * 11 + h * 5 + (serial + t) * 3 + d;
                    *to++ = values ? (float)((sum + 29) % 64) / 8 - 4 : (float)(sum % 64) / 8;
                }
}

static void fill_indexer(float *to, int batch, int serial, int tokens, int dim) {
    for (int b = 0; b < batch; b++)
        for (int t = 0; t < tokens; t++)
            for (int d = 0; d < dim; d++)
                *to++ = (float)((b * 11 + (serial + t) * 3 + d + 13) % 64) / 8;
}

static void fill_conv(float *to, int state, int batch, int channels, int serial, int tokens) {
    for (int b = 0; b < batch; b++)
        for (int c = 0; c < channels; c++)
            for (int t = 0; t < tokens; t++)
                *to++ = (float)((state * 7 + b * 11 + c * 5 + (serial + t) * 3 + 17) % 64) / 8 - 4;
}

static void fill_recurrent(float *to, int state, int batch, int elements, int update) {
    for (int b = 0; b < batch; b++)
        for (int r = 0; r < elements; r++)
            *to++ = (float)((state * 7 + b * 11 + r * 5 + update * 3 + 41) % 64) / 8 - 4;
}

/* ours against {shape, data}; null stands for zeros. Of each run of width, only the first used of
 * slots rows are the reference's, the rest of ours is zero (used < 0: all are). */
static void assert_tensor(const float *ours, const cJSON *tensor, int64_t slots, int64_t used,
                          const char *what) {
    const cJSON *shape = sc_json_get(tensor, "shape"),
                *at = cJSON_GetArrayItem(sc_json_get(tensor, "data"), 0);
    if (cJSON_IsNull(tensor))
        return;
    ck_assert_msg(shape && at, "%s: the trace has no tensor", what);
    const int rank = cJSON_GetArraySize(shape);
    const int64_t width = cJSON_GetArrayItem(shape, rank - 1)->valueint;
    if (used >= 0)
        ck_assert_int_eq(cJSON_GetArrayItem(shape, rank - 2)->valueint, slots);
    for (int64_t i = 0; at; i++, at = at->next) {
        const double wanted = used >= 0 && i / width % slots >= used ? 0 : at->valuedouble;
        ck_assert_msg((double)ours[i] == wanted, "%s: element %" PRId64 ": %g, not %g", what, i,
                      (double)ours[i], wanted);
    }
}

static int64_t elements_of(const cJSON *tensor) {
    return cJSON_GetArraySize(sc_json_get(tensor, "data"));
}

/* One layer under test. */
typedef struct {
    const sc_casting *api;
    sc_cache *cache;
    int layer, batch, heads, key_dim, value_dim, channels, states, recurrent;
    float a[MOST], b[MOST];
    sc_error err;
} subject;

static void update(subject *s, const cJSON *step, const char *what) {
    const int tokens = number(step, "tokens"), serial = number(step, "first_serial");
    const sc_casting_layer *layer = &s->api->layer[0];
    for (int i = 0; i < s->states; i++) {
        const cJSON *wanted = cJSON_GetArrayItem(sc_json_get(step, "returned_conv"), i);
        int64_t columns = -1;
        fill_conv(s->a, i, s->batch, s->channels, serial, tokens);
        ck_assert_int_eq(
            s->api->cache_update_conv(s->cache, 0, i, s->a, tokens, s->b, &columns, &s->err),
            SC_OK);
        ck_assert_int_eq(columns * s->batch * s->channels, elements_of(wanted));
        assert_tensor(s->b, wanted, 0, -1, what);
        fill_recurrent(s->a, i, s->batch, 4, number(step, "update_number"));
        if (s->recurrent)
            ck_assert_int_eq(s->api->cache_update_recurrent(s->cache, 0, i, s->a, &s->err), SC_OK);
    }
    if (layer->index_head_dim) {
        fill_indexer(s->a, s->batch, serial, tokens, (int)layer->index_head_dim);
        ck_assert_int_eq(s->api->cache_update_indexer(s->cache, 0, s->a, tokens, &s->err), SC_OK);
    }
    if (!layer->kv_heads)
        return;
    int64_t length;
    fill_kv(s->a, s->layer, 0, s->batch, s->heads, serial, tokens, s->key_dim);
    fill_kv(s->b, s->layer, 1, s->batch, s->heads, serial, tokens, s->value_dim);
    ck_assert_int_eq(s->api->cache_update(s->cache, 0, s->a, s->b, tokens, &s->err), SC_OK);
    ck_assert_int_eq(s->api->cache_visible(s->cache, 0, s->a, s->b, &length, &s->err), SC_OK);
    const cJSON *returned = sc_json_get(step, "returned");
    const cJSON *keys =
        sc_json_get(returned ? returned : step, returned ? "keys" : "returned_keys");
    const cJSON *values =
        sc_json_get(returned ? returned : step, returned ? "values" : "returned_values");
    if (!keys)
        return;
    ck_assert_int_eq(cJSON_GetArrayItem(sc_json_get(keys, "shape"), 2)->valueint, length);
    assert_tensor(s->a, keys, 0, -1, what);
    assert_tensor(s->b, values, 0, -1, what);
}

static void assert_after(subject *s, const cJSON *after, const char *what) {
    const sc_casting_layer *layer = &s->api->layer[0];
    for (int i = 0; i < s->states; i++) {
        ck_assert_int_eq(s->api->cache_read_conv(s->cache, 0, i, s->a, &s->err), SC_OK);
        assert_tensor(s->a, cJSON_GetArrayItem(sc_json_get(after, "conv"), i), 0, -1, what);
        if (!s->recurrent)
            continue;
        ck_assert_int_eq(s->api->cache_read_recurrent(s->cache, 0, i, s->a, &s->err), SC_OK);
        assert_tensor(s->a, cJSON_GetArrayItem(sc_json_get(after, "recurrent"), i), 0, -1, what);
    }
    if (sc_json_get(after, "max_length"))
        ck_assert_int_eq(s->api->cache_max_length(s->cache, 0), number(after, "max_length"));
    if (!layer->kv_heads) {
        ck_assert_int_eq(s->api->cache_seq_length(s->cache, 0), -1);
        return;
    }
    const int64_t seen = s->api->cache_seq_length(s->cache, 0);
    ck_assert_int_eq(seen, number(after, "seq_length"));
    ck_assert_int_eq(s->api->cache_read(s->cache, 0, s->a, s->b, &s->err), SC_OK);
    assert_tensor(s->a, sc_json_get(after, "keys"), layer->slots, seen, what);
    assert_tensor(s->b, sc_json_get(after, "values"), layer->slots, seen, what);
    if (layer->index_head_dim) {
        ck_assert_int_eq(s->api->cache_read_indexer(s->cache, 0, s->a, &s->err), SC_OK);
        assert_tensor(s->a, sc_json_get(after, "indexer_keys"), layer->slots,
                      number(after, "indexer_length"), what);
    }
}

START_TEST(a_layer_of_any_kind_does_what_the_reference_traced) {
    cJSON *trace = trace_read(traces[_i]);
    const cJSON *step;
    subject *s = calloc(1, sizeof *s);
    ck_assert_ptr_nonnull(s);
    s->api = cast_trace(traces[_i], trace);
    s->batch = number(trace, "batch_size");
    s->layer = number(trace, "layer_index") > 0 ? number(trace, "layer_index") : 0;
    s->heads = (int)s->api->layer[0].kv_heads;
    s->key_dim = (int)s->api->layer[0].head_dim;
    s->value_dim = (int)s->api->layer[0].v_head_dim;
    s->channels = number(trace, "channels");
    s->states = number(trace, "number_of_states") > 0 ? number(trace, "number_of_states") : 0;
    s->recurrent = cJSON_IsArray(sc_json_get(trace, "recurrent_shape"));
    ck_assert_int_eq(s->api->cache_create(&s->cache, &s->err), SC_OK);
    int i = 0, checked = 0;
    cJSON_ArrayForEach(step, sc_json_get(trace, "steps")) {
        const char *op = sc_json_get(step, "op")->valuestring;
        char what[128];
        snprintf(what, sizeof what, "%s: step %d (%s)", traces[_i], i++, op);
        if (!strcmp(op, "update") || !strcmp(op, "forward"))
            update(s, step, what);
        else if (!strcmp(op, "reset"))
            ck_assert_int_eq(s->api->cache_reset(s->cache, &s->err), SC_OK);
        else if (!strcmp(op, "crop"))
            ck_assert_int_eq(s->api->cache_crop(s->cache,
                                                sc_json_get(step, "tokens_to_remove")->valueint,
                                                &s->err),
                             sc_json_get(step, "error") ? SC_EUSAGE : SC_OK);
        else {
            ck_assert_str_eq(op, "reorder_cache");
            int32_t beams[2];
            for (int b = 0; b < s->batch; b++)
                beams[b] = cJSON_GetArrayItem(sc_json_get(step, "beam_idx"), b)->valueint;
            ck_assert_int_eq(s->api->cache_reorder(s->cache, beams, &s->err), SC_OK);
        }
        assert_after(s, sc_json_get(step, "after"), what);
        checked++;
    }
    ck_assert_int_ge(checked, 2);
    s->api->cache_destroy(s->cache);
    free(s);
    cJSON_Delete(trace);
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    for (int i = 0; i < TRACES; i++) {
        cJSON *trace = trace_read(traces[i]);
        cast_trace(traces[i], trace);
        cJSON_Delete(trace);
    }
}

Suite *cache_kinds_suite(void) {
    Suite *suite = suite_create("cache_kinds");
    TCase *reference = tcase_create("reference");
    tcase_set_timeout(reference, 300);
    tcase_add_unchecked_fixture(reference, make_castings, NULL);
    tcase_add_loop_test(reference, a_layer_of_any_kind_does_what_the_reference_traced, 0, TRACES);
    suite_add_tcase(suite, reference);
    return suite;
}
