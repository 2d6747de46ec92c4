/*
 * gpu_goldens.c - the reference's tiny models on the device, cast in several ways, every case with
 * the graph of a token and without. See gpu_check.h.
 */
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "gpu_check.h"
#include "gpu_device.h"

/* float32: sums in another order, of each logit. 16 bits: weights, operands, keys and values are
 * rounded, and where two experts are about as good the other one is taken, which a position shows
 * at large; so of all logits' mean error. */
static const struct {
    const char *name, *options;
    int batch;
    double tolerance, mean; /* golden_rules; of one the other is 0 */
} variants[] = {
    { "resident", "", 1, 1e-4, 0 },
    { "batch2", "", 2, 1e-4, 0 },
    { "offloading", "--offloading --no-offload-only-non-sliding", 1, 1e-4, 0 },
    { "offload-weights", "--offload-weights 2", 1, 1e-4, 0 },
    { "bfloat16", "--dtype bfloat16", 1, 0, 0.15 },
    { "float16", "--dtype float16", 1, 0, 0.15 },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static const struct {
    const char *name;
    int batch;
} cases[] = { { "short", 1 }, { "long", 1 }, { "chunked", 1 }, { "batch2", 2 } };
enum { CASES = sizeof cases / sizeof *cases };

enum { MOST_FAMILIES = 256, UNIT_SECONDS = 60, AT_ONCE = 4 };

typedef struct {
    const char *family, *reference, *folder, *device;
    int variant;
} subject;

/* Which keys an indexer chooses among close scores falls otherwise in 16 bits, and the logits with
 * it: they have to be numbers, and float32 is what judges it. */
static bool is_judged(const sc_casting *api, int variant) {
    bool indexed = false;
    for (int i = 0; i < api->layers; i++)
        indexed |= api->layer[i].index_head_dim > 0;
    return !indexed || variants[variant].mean <= 0;
}

static int run_case(golden_errors *errors, const subject *s, const sc_casting *api, int which,
                    bool graph, sc_error *err) {
    golden g;
    sc_model *model = NULL;
    sc_cache *cache = NULL;
    char weights[1100];
    const sc_options options = { .device = s->device, .no_graph = !graph };
    const double mean = variants[s->variant].mean;
    const golden_rules rules = { .tolerance = mean > 0 ? INFINITY : variants[s->variant].tolerance,
                                 .mean = is_judged(api, s->variant) ? mean : DBL_MAX,
                                 .exact = !(mean > 0),
                                 .odd = graph };
    snprintf(weights, sizeof weights, "%s/cast.weights", s->folder);
    int rc = golden_open(&g, s->reference, cases[which].name, err);
    if (!rc)
        rc = api->model_open(&model, weights, &options, err);
    if (!rc)
        rc = api->cache_create_on(&cache, s->device, err);
    if (!rc)
        rc = golden_run(&g, api, model, cache, &rules, errors, err);
    if (cache)
        api->cache_destroy(cache);
    if (model)
        api->model_close(model);
    golden_close(&g);
    return rc;
}

static cJSON *add_verdict(cJSON *goldens, const char *family, int variant, const char *name,
                          bool ok, const char *reason) {
    cJSON *verdict = cJSON_CreateObject();
    cJSON_AddStringToObject(verdict, "family", family);
    cJSON_AddStringToObject(verdict, "variant", variants[variant].name);
    cJSON_AddStringToObject(verdict, "case", name);
    cJSON_AddBoolToObject(verdict, "ok", ok);
    if (!ok)
        cJSON_AddStringToObject(verdict, "reason", reason);
    cJSON_AddItemToArray(goldens, verdict);
    return verdict;
}

/* A unit: every case of a casting. What says no is in its verdict, so that the others are heard. */
static int run_casting(cJSON *answer, const void *what, sc_error *err) {
    const subject *s = what;
    const sc_casting *api = NULL;
    sc_cuda *held = NULL;
    int rc = gpu_casting_open(&api, s->folder, err);
    if (!rc)
        rc = gpu_device_open(&held, s->device, 0, err);
    if (rc)
        return rc;
    cJSON *goldens = cJSON_AddArrayToObject(answer, "goldens");
    for (int i = 0; i < 2 * CASES; i++) {
        const int which = i / 2;
        const bool graph = i % 2 == 0;
        if (cases[which].batch != variants[s->variant].batch)
            continue;
        golden_errors errors = { 0 };
        sc_error no = { 0 };
        const bool ok = !run_case(&errors, s, api, which, graph, &no);
        cJSON *verdict =
            add_verdict(goldens, s->family, s->variant, cases[which].name, ok, no.message);
        cJSON_AddBoolToObject(verdict, "graph", graph);
        const bool mean = variants[s->variant].mean > 0;
        cJSON_AddNumberToObject(verdict, "largest_error", errors.largest);
        cJSON_AddNumberToObject(verdict, "mean_error", golden_mean_error(&errors));
        if (!is_judged(api, s->variant)) {
            cJSON_AddStringToObject(verdict, "judged_by", "none: an indexer in 16 bits");
            continue;
        }
        cJSON_AddStringToObject(verdict, "judged_by", mean ? "mean_error" : "largest_error");
        cJSON_AddNumberToObject(verdict, "tolerance",
                                mean ? variants[s->variant].mean : variants[s->variant].tolerance);
    }
    sc_cuda_close(held);
    return SC_OK;
}

/* Moves the verdicts of an answer; how many said no. */
static int take_verdicts(cJSON *goldens, cJSON *answer, const char *family, int variant) {
    int bad = 0;
    cJSON *theirs = cJSON_GetObjectItemCaseSensitive(answer, "goldens");
    if (gpu_unit_code(answer)) {
        add_verdict(goldens, family, variant, "all", false, gpu_unit_reason(answer));
        return 1;
    }
    for (cJSON *one; (one = cJSON_DetachItemFromArray(theirs, 0));) {
        bad += !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "ok"));
        cJSON_AddItemToArray(goldens, one);
    }
    return bad;
}

/* A line; the reason is the first of the verdicts that came last. */
static void say(const char *family, int variant, int bad, const cJSON *goldens, int from) {
    const cJSON *why = NULL;
    for (int i = from; i < cJSON_GetArraySize(goldens) && !why; i++)
        why = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(goldens, i), "reason");
    printf("golden %-18s %-16s %s%s\n", family, variants[variant].name, bad ? "NO: " : "ok",
           bad && why ? why->valuestring : "");
    fflush(stdout);
}

/* "llama" in "llama,qwen3". */
static bool is_wanted(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, name, length))
            return true;
    return !list;
}

static int list_families(char names[MOST_FAMILIES][64], const gpu_setup *setup, sc_error *err) {
    struct dirent **entries;
    const int n = scandir(setup->reference, &entries, NULL, alphasort);
    int count = 0;
    if (n < 0)
        return sc_fail(err, SC_EUSAGE, "%s: cannot be listed (--reference)", setup->reference);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.' && strlen(entries[i]->d_name) < 64 &&
            count < MOST_FAMILIES && is_wanted(setup->families, entries[i]->d_name))
            snprintf(names[count++], 64, "%.63s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return count ? count
                 : sc_fail(err, SC_EUSAGE, "%s: has none of these families", setup->reference);
}

/* max_cache_len as the reference had it. */
static int describe(gpu_casting *c, const gpu_setup *setup, const char *family, int variant,
                    sc_error *err) {
    golden g;
    char reference[1024];
    snprintf(reference, sizeof reference, "%s/%s", setup->reference, family);
    const int rc = golden_open(&g, reference, "short", err);
    snprintf(c->model, sizeof c->model, "%s", reference);
    snprintf(c->options, sizeof c->options, "--max-cache-len %d --batch-size %d %s",
             g.max_cache_len, variants[variant].batch, variants[variant].options);
    snprintf(c->folder, sizeof c->folder, "%s/%s-%s", setup->work, family, variants[variant].name);
    golden_close(&g);
    return rc;
}

/* A family that is refused in every variant for one reason is one entry, of the first. */
static void leave_out(cJSON *left_out, const gpu_casting *c, const char *family, int variant) {
    const cJSON *before;
    cJSON_ArrayForEach(before, left_out) {
        const cJSON *whose = cJSON_GetObjectItemCaseSensitive(before, "family");
        const cJSON *why = cJSON_GetObjectItemCaseSensitive(before, "reason");
        if (!strcmp(whose->valuestring, family) && !strcmp(why->valuestring, c->reason))
            return;
    }
    cJSON *refused = cJSON_CreateObject();
    cJSON_AddStringToObject(refused, "family", family);
    cJSON_AddStringToObject(refused, "variant", variants[variant].name);
    cJSON_AddStringToObject(refused, "reason", c->reason);
    cJSON_AddItemToArray(left_out, refused);
    printf("golden %-18s %-16s left out: %s\n", family, variants[variant].name, c->reason);
}

static gpu_unit start_casting(const gpu_setup *setup, const gpu_casting *c, const char *family,
                              int variant) {
    const subject s = { .family = family,
                        .reference = c->model,
                        .folder = c->folder,
                        .device = setup->device,
                        .variant = variant };
    return gpu_unit_start(run_casting, &s, c->folder, UNIT_SECONDS);
}

/* How many of its verdicts said no; unit is of a casting that was made. */
static int finish_casting(cJSON *goldens, cJSON *left_out, const gpu_casting *c,
                          const gpu_unit *unit, const char *family, int variant) {
    const int from = cJSON_GetArraySize(goldens);
    int bad = 1;
    if (c->refused) {
        leave_out(left_out, c, family, variant);
        return 0;
    }
    if (c->made) {
        cJSON *answer = gpu_unit_finish(unit);
        bad = take_verdicts(goldens, answer, family, variant);
        cJSON_Delete(answer);
    } else
        add_verdict(goldens, family, variant, "all", false, c->reason);
    say(family, variant, bad, goldens, from);
    return bad;
}

bool gpu_goldens(cJSON *report, const gpu_setup *setup, sc_error *err) {
    char(*names)[64] = calloc(MOST_FAMILIES, sizeof *names);
    const int families =
        names ? list_families(names, setup, err) : sc_fail(err, SC_EENV, "gpu-check: no memory");
    int variant[VARIANTS], chosen = 0;
    for (int i = 0; i < VARIANTS; i++)
        if (is_wanted(setup->variants, variants[i].name))
            variant[chosen++] = i;
    const int count = families > 0 ? families * chosen : 0;
    gpu_casting *castings = calloc((size_t)count + 1, sizeof *castings);
    int rc = families < 0 ? families
             : castings   ? SC_OK
                          : sc_fail(err, SC_EENV, "gpu-check: no memory");
    for (int i = 0; i < count && !rc; i++)
        rc = describe(&castings[i], setup, names[i / chosen], variant[i % chosen], err);
    if (!rc)
        rc = gpu_castings_make(castings, count, &setup->build, err);
    cJSON *goldens = cJSON_AddArrayToObject(report, "goldens");
    cJSON *left_out = cJSON_AddArrayToObject(report, "left_out");
    gpu_unit units[AT_ONCE];
    int bad = 0;
    for (int i = 0; i < count + AT_ONCE && !rc; i++) {
        gpu_unit *unit = &units[i % AT_ONCE];
        const int done = i - AT_ONCE; /* the one that had its place */
        if (done >= 0 && done < count)
            bad += finish_casting(goldens, left_out, &castings[done], unit, names[done / chosen],
                                  variant[done % chosen]);
        if (i < count && castings[i].made)
            *unit = start_casting(setup, &castings[i], names[i / chosen], variant[i % chosen]);
    }
    const bool any = cJSON_GetArraySize(goldens) > 0;
    free(castings);
    free(names);
    return !rc && !bad && any;
}
