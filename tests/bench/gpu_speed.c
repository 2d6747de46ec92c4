/* gpu_speed.c - see gpu_speed.h. */
#include "gpu_speed.h"

#include <stdlib.h>

#include "gpu_castings.h"
#include "gpu_device.h"

enum { RUNS = 3, WARM_UP = 2 }; /* the first token makes the graph */
_Static_assert((int)RUNS <= (int)GPU_MOST_RUNS, "room for all");

/* One generation; seconds of the prompt and per token. */
static int generate(double seconds[2], const gpu_speed *s, const sc_casting *api, sc_model *model,
                    sc_cache *cache, int32_t *ids, sc_error *err) {
    int32_t chosen;
    int rc = api->cache_reset(cache, err);
    for (int i = 0; i < s->prompt; i++)
        ids[i] = (int32_t)(((int64_t)i * 7919 + 13) % api->vocab);
    double begin = gpu_seconds();
    if (!rc)
        rc = api->model_greedy(model, cache, ids, s->prompt, &chosen, err);
    seconds[0] = gpu_seconds() - begin;
    for (int i = -WARM_UP; i < s->tokens && !rc; i++) {
        if (!i)
            begin = gpu_seconds();
        const int32_t id = (int32_t)(((int64_t)(i + WARM_UP) * 104729) % api->vocab);
        rc = api->model_greedy(model, cache, &id, 1, &chosen, err);
    }
    seconds[1] = (gpu_seconds() - begin) / s->tokens;
    return rc;
}

static int time_runs(cJSON *answer, const gpu_speed *s, const sc_casting *api, sc_model *model,
                     sc_cache *cache, sc_error *err) {
    double prompt[RUNS], token[RUNS], seconds[2] = { 0 };
    int32_t *ids = malloc((size_t)s->prompt * sizeof *ids);
    int rc = ids ? SC_OK : sc_fail(err, SC_EENV, "gpu-check: no memory");
    for (int run = -1; run < RUNS && !rc; run++) { /* the first warms up */
        rc = generate(seconds, s, api, model, cache, ids, err);
        if (run >= 0) {
            prompt[run] = seconds[0];
            token[run] = seconds[1];
        }
    }
    free(ids);
    if (rc)
        return rc;
    cJSON_AddNumberToObject(answer, "prefill_tokens_per_second",
                            s->prompt / gpu_median(prompt, RUNS));
    cJSON_AddNumberToObject(answer, "decode_tokens_per_second", 1 / gpu_median(token, RUNS));
    return SC_OK;
}

int gpu_speed_run(cJSON *answer, const void *what, sc_error *err) {
    const gpu_speed *s = what;
    const sc_casting *api = NULL;
    sc_model *model = NULL;
    sc_cache *cache = NULL;
    int rc = gpu_casting_open(&api, s->folder, err);
    if (rc)
        return rc;
    const double begin = gpu_seconds();
    rc = api->model_open(&model, s->weights, &s->options, err);
    if (!rc)
        rc = api->cache_create_on(&cache, s->options.device, err);
    if (!rc)
        cJSON_AddNumberToObject(answer, "open_seconds", gpu_seconds() - begin);
    if (!rc)
        rc = time_runs(answer, s, api, model, cache, err);
    if (cache)
        api->cache_destroy(cache);
    if (model)
        api->model_close(model);
    return rc;
}
