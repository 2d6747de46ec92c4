/* golden.c - see golden.h. */
#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../codegen/json.h"
#include "../../codegen/safetensors.h"

enum { ALL_LOGITS = 1 }; /* SC_ALL_LOGITS of NAME.h */

/* Rows of equal length, flattened, in the pool. */
static int take_rows(const golden *g, int32_t **out, int *rows, int *length, const cJSON *json,
                     const char *what, sc_error *err) {
    const int count = cJSON_GetArraySize(json), each = count ? cJSON_GetArraySize(json->child) : 0;
    int32_t *to = each ? sc_pool_alloc(g->pool, (size_t)count * (size_t)each, sizeof *to) : NULL;
    const cJSON *row, *id;
    int n = 0;
    if (!to)
        return sc_fail(err, SC_EINPUT, "%s: %s: has no rows", g->path, what);
    cJSON_ArrayForEach(row, json) {
        if (cJSON_GetArraySize(row) != each)
            return sc_fail(err, SC_EINPUT, "%s: %s: rows of other lengths", g->path, what);
        cJSON_ArrayForEach(id, row) to[n++] = id->valueint;
    }
    *out = to;
    *rows = count;
    *length = each;
    return SC_OK;
}

static int take_chunks(golden *g, const cJSON *json, sc_error *err) {
    const cJSON *chunk;
    int sum = 0;
    g->chunks = 0;
    cJSON_ArrayForEach(chunk, json) {
        if (g->chunks == GOLDEN_CHUNKS || chunk->valueint < 1)
            return sc_fail(err, SC_EINPUT, "%s: chunks: %d, or one that is no size", g->path,
                           cJSON_GetArraySize(json));
        sum += g->chunk[g->chunks++] = chunk->valueint;
    }
    if (!g->chunks)
        sum = g->chunk[g->chunks++] = g->prompt;
    return sum == g->prompt
               ? SC_OK
               : sc_fail(err, SC_EINPUT, "%s: chunks: %d tokens of %d", g->path, sum, g->prompt);
}

static int take_case(golden *g, const cJSON *json, const char *name, sc_error *err) {
    const cJSON *one = sc_json_get(sc_json_get(json, "cases"), name);
    int rows = 0, length = 0;
    int64_t max_cache_len = 0, steps = 0;
    if (!sc_json_int(sc_json_get(json, "max_cache_len"), &max_cache_len) ||
        !sc_json_int(sc_json_get(one, "decode_steps"), &steps) || max_cache_len < 1 || steps < 1 ||
        max_cache_len > INT32_MAX || steps > INT32_MAX)
        return sc_fail(err, SC_EINPUT, "%s: %s: no such case", g->path, name);
    g->max_cache_len = (int)max_cache_len;
    g->steps = (int)steps;
    int rc =
        take_rows(g, &g->ids, &g->batch, &g->prompt, sc_json_get(one, "prompt"), "prompt", err);
    if (!rc)
        rc = take_rows(g, &g->tokens, &rows, &length, sc_json_get(one, "tokens"), "tokens", err);
    if (!rc && (rows != g->batch || length != g->steps + 1))
        rc = sc_fail(err, SC_EINPUT, "%s: %s: tokens: [%d, %d], wanted are [%d, %d]", g->path, name,
                     rows, length, g->batch, g->steps + 1);
    return rc ? rc : take_chunks(g, sc_json_get(one, "chunks"), err);
}

/* [batch, positions, vocab] */
static int take_logits(golden *g, float **out, const char *name, const char *what, int positions,
                       sc_error *err) {
    char full[96];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const sc_tensor *t = sc_tensors_find(g->expected, full);
    if (!t || t->rank != 3 || t->shape[0] != g->batch || t->shape[1] != positions ||
        t->shape[2] < 1 || t->shape[2] > INT32_MAX || (g->vocab && t->shape[2] != g->vocab))
        return sc_fail(err, SC_EINPUT, "%s: %s: missing, or not [%d, %d, vocab]", g->expected->path,
                       full, g->batch, positions);
    g->vocab = (int)t->shape[2];
    const size_t rows = (size_t)g->batch * (size_t)positions;
    float *to = sc_pool_alloc(g->pool, rows * (size_t)g->vocab, sizeof *to);
    if (!to)
        return sc_oom(err, "reading logits");
    *out = to;
    return sc_tensor_read(t, 0, (int64_t)rows, to, err);
}

enum { MOST_JSON = 1 << 24 };

/* The folder, or where the reference has the case wrong ../states/NAME beside it, which has it
 * right (tests/reference/make_states.py). */
static const char *whose_numbers(sc_pool *pool, const char *folder, const char *name) {
    const char *slash = strrchr(folder, '/');
    const char *states =
        slash ? sc_pool_printf(pool, "%.*s/../states%s", (int)(slash - folder), folder, slash)
              : NULL;
    const char *path = states ? sc_pool_printf(pool, "%s/expected.json", states) : NULL;
    cJSON *json = NULL;
    if (path)
        sc_json_read(&json, path, MOST_JSON, NULL);
    const bool mended = sc_json_get(sc_json_get(json, "cases"), name) != NULL;
    cJSON_Delete(json);
    return mended ? states : folder;
}

int golden_open(golden *g, const char *folder, const char *name, sc_error *err) {
    memset(g, 0, sizeof *g);
    g->pool = sc_pool_create();
    if (!g->pool)
        return sc_oom(err, "reading the reference");
    const char *numbers = whose_numbers(g->pool, folder, name);
    g->path = sc_pool_printf(g->pool, "%s/expected.json", numbers);
    cJSON *json = NULL;
    int rc = g->path ? sc_json_read(&json, g->path, MOST_JSON, err)
                     : sc_oom(err, "reading the reference");
    if (!rc)
        rc = take_case(g, json, name, err);
    cJSON_Delete(json);
    if (!rc) {
        const char *path = sc_pool_printf(g->pool, "%s/expected.safetensors", numbers);
        rc = path ? sc_safetensors_open_file(&g->expected, g->pool, path, err)
                  : sc_oom(err, "reading the reference");
    }
    if (!rc)
        rc = take_logits(g, &g->prefill, name, "prefill_logits", g->prompt, err);
    if (!rc)
        rc = take_logits(g, &g->decode, name, "decode_logits", g->steps, err);
    return rc;
}

void golden_close(golden *g) {
    sc_tensors_close(g->expected);
    sc_pool_destroy(g->pool);
    memset(g, 0, sizeof *g);
}

static double largest(const float *x, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    return most;
}

double golden_mean_error(const golden_errors *errors) {
    return errors->scale > 0 ? sqrt(errors->squares / errors->scale) : INFINITY;
}

int golden_compare(const char *what, const float *ours, const float *theirs, size_t count,
                   double tolerance, golden_errors *errors, sc_error *err) {
    const double scale = largest(theirs, count);
    golden_errors sums = { 0 };
    double error = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)ours[i] - (double)theirs[i]);
        sums.squares += d * d;
        sums.scale += (double)theirs[i] * (double)theirs[i];
        if (!(d <= error)) {
            error = isnan(d) ? INFINITY : d;
            at = i;
        }
    }
    const double relative = scale > 0 ? error / scale : error;
    if (errors) {
        errors->largest = fmax(errors->largest, relative);
        errors->squares += sums.squares;
        errors->scale += sums.scale;
    }
    if (relative <= tolerance)
        return SC_OK;
    return sc_fail(err, SC_ECHECK,
                   "%s: index %zu: %g, the reference has %g (error %.3g of the largest, %.3g is "
                   "allowed)",
                   what, at, (double)ours[at], (double)theirs[at], relative, tolerance);
}

static int feed_prompt(const golden *g, const sc_casting *api, sc_model *model, sc_cache *cache,
                       float *logits, int32_t *ids, const golden_rules *rules,
                       golden_errors *errors, sc_error *err) {
    const size_t vocab = (size_t)g->vocab;
    for (int done = 0, i = 0; i < g->chunks; done += g->chunk[i++]) {
        const int n = g->chunk[i];
        for (int b = 0; b < g->batch; b++)
            memcpy(ids + b * n, g->ids + b * g->prompt + done, (size_t)n * sizeof *ids);
        int rc = api->model_forward(model, cache, ids, n, logits, ALL_LOGITS, err);
        for (int b = 0; b < g->batch && !rc; b++)
            rc = golden_compare("prefill", logits + (size_t)(b * n) * vocab,
                                g->prefill + (size_t)(b * g->prompt + done) * vocab,
                                (size_t)n * vocab, rules->tolerance, errors, err);
        if (rc)
            return rc;
    }
    return SC_OK;
}

static const float *decode_logits(const golden *g, int row, int step) {
    return g->decode + (size_t)(row * g->steps + step) * (size_t)g->vocab;
}

/* The id of a row that the device has chosen at that step. */
static int check_id(const golden *g, int row, int step, int32_t id, const golden_rules *rules,
                    sc_error *err) {
    const int32_t wanted = g->tokens[row * (g->steps + 1) + step + 1];
    const float *logits = decode_logits(g, row, step);
    const size_t vocab = (size_t)g->vocab;
    float best = logits[0];
    for (size_t i = 1; i < vocab; i++)
        best = logits[i] > best ? logits[i] : best;
    const double slack = 2 * rules->tolerance * largest(logits, vocab);
    const bool near =
        !rules->exact && id >= 0 && id < g->vocab && (double)logits[id] >= (double)best - slack;
    if (id == wanted || near)
        return SC_OK;
    return sc_fail(err, SC_ECHECK, "decode: row %d, step %d: id %d, the reference has %d", row,
                   step, (int)id, (int)wanted);
}

static int decode_step(const golden *g, int step, const sc_casting *api, sc_model *model,
                       sc_cache *cache, float *logits, int32_t *ids, const golden_rules *rules,
                       golden_errors *errors, sc_error *err) {
    const size_t vocab = (size_t)g->vocab;
    for (int b = 0; b < g->batch; b++)
        ids[b] = g->tokens[b * (g->steps + 1) + step];
    if (step % 2 == rules->odd) {
        int rc = api->model_forward(model, cache, ids, 1, logits, 0, err);
        for (int b = 0; b < g->batch && !rc; b++)
            rc = golden_compare("decode", logits + (size_t)b * vocab, decode_logits(g, b, step),
                                vocab, rules->tolerance, errors, err);
        return rc;
    }
    int32_t *chosen = ids + g->batch;
    int rc = api->model_greedy(model, cache, ids, 1, chosen, err);
    for (int b = 0; b < g->batch && !rc; b++)
        rc = check_id(g, b, step, chosen[b], rules, err);
    return rc;
}

int golden_run(const golden *g, const sc_casting *api, sc_model *model, sc_cache *cache,
               const golden_rules *rules, golden_errors *errors, sc_error *err) {
    if (api->vocab != g->vocab || api->batch != g->batch)
        return sc_fail(err, SC_ECHECK, "vocab %d and batch %d, the reference has %d and %d",
                       api->vocab, api->batch, g->vocab, g->batch);
    const size_t rows = (size_t)g->batch * (size_t)g->prompt;
    float *logits = malloc(rows * (size_t)g->vocab * sizeof *logits);
    int32_t *ids = malloc((rows + 2 * (size_t)g->batch) * sizeof *ids);
    int rc = logits && ids ? SC_OK : sc_oom(err, "comparing with the reference");
    if (!rc)
        rc = feed_prompt(g, api, model, cache, logits, ids, rules, errors, err);
    for (int step = 0; step < g->steps && !rc; step++)
        rc = decode_step(g, step, api, model, cache, logits, ids, rules, errors, err);
    const double mean = golden_mean_error(errors);
    if (!rc && rules->mean > 0 && !(mean <= rules->mean))
        rc = sc_fail(err, SC_ECHECK, "logits: a mean error of %.3g, %.3g is allowed", mean,
                     rules->mean);
    free(logits);
    free(ids);
    return rc;
}
