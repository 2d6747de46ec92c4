/* agree.c - see agree.h. */
#include "agree.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "noise.h"
#include "standin.h"

enum { STEPS = 3, MOST_BATCH = 9, MOST_TOKENS = 256, ALL_LOGITS = 1 };

/* Logits of every position of the prompt, in pieces, then of some tokens one by one; the second row
 * begins with padding. */
static float *generate(const device_casting *c, const char *device, int batch, int tokens,
                       size_t *count) {
    const sc_casting *api = c->api;
    const sc_options choice = { .device = device };
    const int64_t padding[MOST_BATCH] = { 0, 2 };
    const size_t row = (size_t)(tokens + STEPS) * AGREE_VOCAB;
    sc_model *m = NULL;
    sc_cache *cache = NULL;
    sc_error err = { 0 };
    ck_assert_msg(!api->model_open(&m, c->weights, &choice, &err), "%s", err.message);
    ck_assert_msg(!api->cache_create_on(&cache, device, &err), "%s", err.message);
    if (batch > 1)
        ck_assert_msg(!api->cache_pad(cache, padding, &err), "%s", err.message);
    *count = (size_t)batch * row;
    float *all = malloc(*count * sizeof *all);
    int32_t ids[MOST_BATCH * MOST_TOKENS];
    for (int done = 0, n; done < tokens + STEPS; done += n) {
        n = done >= tokens ? 1 : done ? tokens - done : (tokens + 2) / 3;
        float *piece = malloc((size_t)(batch * n * AGREE_VOCAB) * sizeof *piece);
        ck_assert(all && piece);
        for (int i = 0; i < batch * n; i++)
            ids[i] = (i / n * 7 + (done + i % n) * 29) % AGREE_VOCAB;
        ck_assert_msg(!api->model_forward(m, cache, ids, n, piece, ALL_LOGITS, &err), "%s",
                      err.message);
        for (int b = 0; b < batch; b++)
            memcpy(all + (size_t)b * row + done * AGREE_VOCAB, piece + b * n * AGREE_VOCAB,
                   (size_t)(n * AGREE_VOCAB) * sizeof *all);
        free(piece);
    }
    api->cache_destroy(cache);
    api->model_close(m);
    return all;
}

void agree_check(const agree_model *model) {
    char folder[128], options[192];
    size_t count;
    ck_assert(model->batch <= MOST_BATCH && model->tokens <= MOST_TOKENS);
    snprintf(folder, sizeof folder, "build/test-castings/noise-%s", model->name);
    snprintf(options, sizeof options, "--max-cache-len %d --batch-size %d %s", model->tokens + 30,
             model->batch, model->options);
    noise_model(folder, model->config);
    const device_casting *c = device_cast(model->name, folder, options);
    device_begin(c, &(sc_standin_settings){ .seed = 5 });
    float *theirs = generate(c, "cpu", model->batch, model->tokens, &count);
    float *ours = generate(c, "cuda:0", model->batch, model->tokens, &count);
    float largest = 0, error = 0;
    for (size_t i = 0; i < count; i++) {
        ck_assert(isfinite(ours[i]) && isfinite(theirs[i]));
        largest = fmaxf(largest, fabsf(theirs[i]));
        error = fmaxf(error, fabsf(ours[i] - theirs[i]));
    }
    ck_assert_msg(error <= model->tolerance * largest, "%s: an error of %g of the largest",
                  model->name, (double)(error / largest));
    free(ours);
    free(theirs);
    standin_check_clean(model->name);
}
