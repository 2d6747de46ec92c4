/*
 * gpu_bench.c - how fast a model of a real one's shape is on the device, against what its memory
 * and PCIe allow. See gpu_check.h.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../codegen/json.h"
#include "gpu_check.h"
#include "gpu_device.h"
#include "gpu_speed.h"

enum { RESIDENT, OFFLOADING, OFFLOAD_WEIGHTS, CASTINGS };
enum { UNIT_SECONDS = 120 };

typedef struct {
    const gpu_setup *setup;
    gpu_model model;
    gpu_casting casting[CASTINGS];
    char weights[600];
    double weights_read, weights_fetched; /* bytes per token */
    double bandwidth, to_device;          /* bytes per second */
    cJSON *figures;
    bool ok;
} bench;

static double number(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* target 0: there is none. reason NULL: the figure was had. */
static void add_figure(bench *b, const char *name, double value, const char *unit, double target,
                       const char *reason) {
    const bool ok = !reason && value >= target;
    cJSON *figure = cJSON_CreateObject();
    cJSON_AddStringToObject(figure, "name", name);
    cJSON_AddNumberToObject(figure, "value", value);
    cJSON_AddStringToObject(figure, "unit", unit);
    if (target > 0)
        cJSON_AddNumberToObject(figure, "target", target);
    cJSON_AddBoolToObject(figure, "ok", ok);
    if (reason)
        cJSON_AddStringToObject(figure, "reason", reason);
    cJSON_AddItemToArray(b->figures, figure);
    b->ok &= ok;
    printf("bench  %-38s %12.4g %-9s", name, value, unit);
    if (target > 0)
        printf(" target %.3g", target);
    printf("%s%s\n", ok ? "" : " NO", reason ? reason : "");
    fflush(stdout);
}

static int make_castings(bench *b, sc_error *err) {
    static const char *const names[CASTINGS] = { "resident", "offloading", "offload-weights" };
    char folder[600], config[700];
    snprintf(folder, sizeof folder, "%s/model", b->setup->work);
    snprintf(config, sizeof config, "%s/config.json", folder);
    mkdir(folder, 0777);
    int rc = gpu_model_write_config(&b->model, config, err);
    for (int i = 0; i < CASTINGS; i++) {
        gpu_casting *c = &b->casting[i];
        char more[64] = "";
        if (i == OFFLOADING)
            snprintf(more, sizeof more, "--offloading");
        if (i == OFFLOAD_WEIGHTS)
            snprintf(more, sizeof more, "--offload-weights %lld", (long long)b->model.layers);
        snprintf(c->model, sizeof c->model, "%s", config);
        snprintf(c->options, sizeof c->options, "--dtype bfloat16 --max-cache-len %d %s",
                 b->model.max_cache_len, more);
        snprintf(c->folder, sizeof c->folder, "%s/bench-%s", b->setup->work, names[i]);
    }
    if (!rc)
        rc = gpu_castings_make(b->casting, CASTINGS, &b->setup->build, err);
    for (int i = 0; i < CASTINGS && !rc; i++)
        if (!b->casting[i].made)
            rc = sc_fail(err, SC_ECHECK, "%s", b->casting[i].reason);
    return rc;
}

/* What the plans say of a token's bytes; the weights' file. */
static int read_plans(bench *b, sc_error *err) {
    cJSON *resident = NULL, *offloaded = NULL;
    int rc = gpu_casting_manifest(&resident, b->casting[RESIDENT].folder, err);
    if (!rc)
        rc = gpu_casting_manifest(&offloaded, b->casting[OFFLOAD_WEIGHTS].folder, err);
    if (!rc) {
        const cJSON *all = sc_json_get(sc_json_get(resident, "plan"), "device");
        const cJSON *pinned = sc_json_get(sc_json_get(offloaded, "plan"), "device");
        b->weights_read = number(all, "weights_bytes") - gpu_model_embedding_bytes(&b->model);
        b->weights_fetched = number(pinned, "pinned_weights_bytes");
        rc = gpu_model_write_weights(b->weights, resident, err);
    }
    cJSON_Delete(resident);
    cJSON_Delete(offloaded);
    return rc;
}

static cJSON *time_casting(const bench *b, int which, bool no_graph) {
    const gpu_model *m = &b->model;
    const gpu_speed speed = { .folder = b->casting[which].folder,
                              .weights = b->weights,
                              .options = { .device = b->setup->device, .no_graph = no_graph },
                              .prompt = which == OFFLOADING ? m->deep_prompt : m->prompt,
                              .tokens = which == OFFLOAD_WEIGHTS ? m->slow_tokens : m->tokens };
    return gpu_unit_run(gpu_speed_run, &speed, speed.folder, UNIT_SECONDS);
}

static const char *why(const cJSON *answer) {
    return gpu_unit_code(answer) ? gpu_unit_reason(answer) : NULL;
}

static void time_resident(bench *b) {
    cJSON *answer = time_casting(b, RESIDENT, false);
    const char *reason = why(answer);
    const double decode = number(answer, "decode_tokens_per_second");
    const int middle = b->model.prompt + b->model.tokens / 2;
    const double bytes = b->weights_read + gpu_model_kv_bytes(&b->model, middle);
    add_figure(b, "prefill", number(answer, "prefill_tokens_per_second"), "tokens/s", 0, reason);
    add_figure(b, "decode", decode, "tokens/s", 0, reason);
    add_figure(b, "decode_bytes_per_token", bytes, "B", 0, NULL);
    add_figure(b, "decode_share_of_bandwidth", b->bandwidth > 0 ? bytes * decode / b->bandwidth : 0,
               "1", b->setup->share,
               reason || b->bandwidth > 0
                   ? reason
                   : "the driver does not say how fast the memory is (--bandwidth GB/s)");
    cJSON_Delete(answer);
    answer = time_casting(b, RESIDENT, true);
    add_figure(b, "decode_without_graph", number(answer, "decode_tokens_per_second"), "tokens/s", 0,
               why(answer));
    cJSON_Delete(answer);
}

static void time_copies(bench *b) {
    const gpu_copy copy = { .device = b->setup->device, .bytes = b->model.copy_bytes };
    cJSON *answer =
        gpu_unit_run(gpu_device_copies, &copy, b->casting[RESIDENT].folder, UNIT_SECONDS);
    b->to_device = number(answer, "to_device");
    add_figure(b, "pinned_to_device", b->to_device / 1e9, "GB/s", 0, why(answer));
    add_figure(b, "device_to_pinned", number(answer, "to_host") / 1e9, "GB/s", 0, why(answer));
    cJSON_Delete(answer);
}

static void time_offload(bench *b, int which, const char *name, double bytes) {
    cJSON *answer = time_casting(b, which, false);
    const double decode = number(answer, "decode_tokens_per_second");
    char full[64];
    snprintf(full, sizeof full, "%s_decode", name);
    add_figure(b, full, decode, "tokens/s", 0, why(answer));
    snprintf(full, sizeof full, "%s_bytes_per_token", name);
    add_figure(b, full, bytes, "B", 0, NULL);
    snprintf(full, sizeof full, "%s_share_of_pcie", name);
    add_figure(b, full, b->to_device > 0 ? bytes * decode / b->to_device : 0, "1",
               b->setup->offload_share, why(answer));
    cJSON_Delete(answer);
}

static void describe(cJSON *to, const bench *b) {
    cJSON *model = cJSON_AddObjectToObject(to, "model");
    cJSON_AddStringToObject(model, "name", b->model.name);
    cJSON_AddNumberToObject(model, "layers", (double)b->model.layers);
    cJSON_AddNumberToObject(model, "layers_wanted", (double)b->setup->model->layers);
    cJSON_AddNumberToObject(model, "weights_bytes", gpu_model_bytes(&b->model));
    cJSON_AddStringToObject(model, "dtype", "bfloat16");
    cJSON_AddNumberToObject(model, "prompt", b->model.prompt);
    cJSON_AddNumberToObject(model, "offloading_prompt", b->model.deep_prompt);
    cJSON_AddNumberToObject(model, "tokens", b->model.tokens);
    cJSON_AddNumberToObject(model, "offload_weights_tokens", b->model.slow_tokens);
    cJSON_AddNumberToObject(to, "bandwidth_bytes_per_second", b->bandwidth);
    cJSON_AddStringToObject(to, "bandwidth_from",
                            b->setup->bandwidth > 0 ? "--bandwidth" : "memory clock and bus");
}

bool gpu_bench(cJSON *report, const gpu_setup *setup, const cJSON *facts, sc_error *err) {
    /* Bits on two edges of the clock. */
    const double own = 2e3 * number(facts, "memory_clock_khz") * number(facts, "bus_bits") / 8;
    bench b = { .setup = setup,
                .model = gpu_model_fit(setup->model, setup->work, number(facts, "free_bytes")),
                .bandwidth = setup->bandwidth > 0 ? setup->bandwidth : own,
                .ok = true };
    cJSON *to = cJSON_AddObjectToObject(report, "bench");
    describe(to, &b);
    b.figures = cJSON_AddArrayToObject(to, "figures");
    snprintf(b.weights, sizeof b.weights, "%s/bench.weights", setup->work);
    int rc = b.model.layers ? make_castings(&b, err)
                            : sc_fail(err, SC_EENV,
                                      "gpu-check: not one layer of the model fits on the disk, in "
                                      "memory and on the device");
    if (!rc)
        rc = read_plans(&b, err);
    if (!rc) {
        time_resident(&b);
        time_copies(&b);
        time_offload(&b, OFFLOADING, "offloading",
                     gpu_model_fetched_bytes(&b.model, b.model.deep_prompt + b.model.tokens));
        time_offload(&b, OFFLOAD_WEIGHTS, "offload_weights", b.weights_fetched);
    }
    unlink(b.weights);
    if (rc && err)
        cJSON_AddStringToObject(to, "reason", err->message);
    return !rc && b.ok;
}
