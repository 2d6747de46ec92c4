/*
 * gpu_check.c - slipcast on a real device: the reference's tiny models, then speed, in one JSON.
 *
 * usage: gpu-check --slipcast PROGRAM --work DIR --out FILE.json [OPTION …]   (make gpu-check)
 *   --device cuda:N        the device (cuda:0)
 *   --reference DIR        tiny models and what the reference made of them (tests/reference/tiny)
 *   --families A,B         those alone
 *   --variants A,B         of gpu_goldens.c, those alone
 *   --only goldens|bench   that alone
 *   --model 8b|small       whose shape is timed (8b)
 *   --bandwidth GB/s       of the device's memory, where the driver does not say
 *   --share X              of the bandwidth that decode is to reach (0.85)
 *   --offload-share X      of PCIe's rate that offloaded decode is to reach (0.9)
 *   --nvcc NVCC            build device code with it, not with NVRTC
 *   --commit TEXT          of what is checked
 *
 * Exit codes: 0 all good, 1 a check said no, 2 usage, 4 no device or no place to work.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../../codegen/file.h"
#include "gpu_check.h"
#include "gpu_device.h"
#include "gpu_unit.h"

typedef struct {
    gpu_setup setup;
    const char *slipcast, *work, *out, *reference, *nvcc, *commit, *model, *only;
    const char *bandwidth, *share, *offload_share;
} arguments;

static int read_arguments(arguments *a, int argc, char **argv, sc_error *err) {
    const struct {
        const char *name;
        const char **value;
    } options[] = {
        { "--slipcast", &a->slipcast },
        { "--work", &a->work },
        { "--out", &a->out },
        { "--device", &a->setup.device },
        { "--reference", &a->reference },
        { "--families", &a->setup.families },
        { "--model", &a->model },
        { "--bandwidth", &a->bandwidth },
        { "--share", &a->share },
        { "--offload-share", &a->offload_share },
        { "--nvcc", &a->nvcc },
        { "--commit", &a->commit },
        { "--only", &a->only },
        { "--variants", &a->setup.variants },
    };
    enum { OPTIONS = sizeof options / sizeof *options };
    for (int i = 1; i < argc; i += 2) {
        int at = 0;
        while (at < OPTIONS && strcmp(argv[i], options[at].name) != 0)
            at++;
        if (at == OPTIONS || i + 1 == argc)
            return sc_fail(err, SC_EUSAGE, "gpu-check: %s: is unknown or lacks its value", argv[i]);
        *options[at].value = argv[i + 1];
    }
    if (!a->slipcast || !a->work || !a->out)
        return sc_fail(err, SC_EUSAGE, "gpu-check: --slipcast, --work and --out are wanted");
    return SC_OK;
}

/* A positive number; NULL leaves it. */
static int read_number(double *number, const char *option, const char *text, sc_error *err) {
    char *end = NULL;
    const double value = text ? strtod(text, &end) : 1;
    if (text && (end == text || *end || !(value > 0) || isinf(value)))
        return sc_fail(err, SC_EUSAGE, "gpu-check: %s: \"%s\" is no positive number", option, text);
    if (text)
        *number = value;
    return SC_OK;
}

/* Units run in folders of their own, so paths are made whole; the caller frees. */
static int whole_path(char **path, const char *name, sc_error *err) {
    *path = realpath(name, NULL);
    return *path ? SC_OK : sc_fail(err, SC_EENV, "%s: %s", name, strerror(errno));
}

static int set_up(arguments *a, sc_error *err) {
    gpu_setup *s = &a->setup;
    char *work = NULL, *slipcast = NULL, *reference = NULL;
    s->model = gpu_model_find(a->model ? a->model : "8b");
    if (!s->model)
        return sc_fail(err, SC_EUSAGE, "gpu-check: --model: \"%s\" is none of 8b, small", a->model);
    if (a->only && strcmp(a->only, "goldens") != 0 && strcmp(a->only, "bench") != 0)
        return sc_fail(err, SC_EUSAGE, "gpu-check: --only: \"%s\" is none of goldens, bench",
                       a->only);
    int rc = read_number(&s->bandwidth, "--bandwidth", a->bandwidth, err);
    s->bandwidth *= 1e9;
    if (!rc)
        rc = read_number(&s->share, "--share", a->share, err);
    if (!rc)
        rc = read_number(&s->offload_share, "--offload-share", a->offload_share, err);
    if (!rc && mkdir(a->work, 0777) && errno != EEXIST)
        rc = sc_fail(err, SC_EENV, "%s: %s", a->work, strerror(errno));
    if (!rc)
        rc = whole_path(&work, a->work, err);
    if (!rc)
        rc = whole_path(&slipcast, a->slipcast, err);
    if (!rc)
        rc = whole_path(&reference, a->reference, err);
    if (!rc && strlen(work) >= sizeof s->work)
        rc = sc_fail(err, SC_EUSAGE, "%s: the path is too long", work);
    if (!rc)
        memcpy(s->work, work, strlen(work) + 1);
    s->build.slipcast = slipcast; /* both stay */
    s->reference = reference;
    free(work);
    return rc;
}

/* The rest of the first line of a file that begins with key; "" without one. */
static void read_line(char *line, size_t bytes, const char *path, const char *key) {
    FILE *f = fopen(path, "r");
    bool found = false;
    while (f && !found && fgets(line, (int)bytes, f))
        found = !strncmp(line, key, strlen(key));
    if (f)
        fclose(f);
    const size_t skip = found ? strlen(key) + strspn(line + strlen(key), " \t:") : 0;
    memmove(line, line + skip, found ? strlen(line + skip) + 1 : 0);
    line[found ? strcspn(line, "\n") : 0] = 0;
}

static void describe(cJSON *report, const arguments *a, const cJSON *facts) {
    char line[256];
    struct utsname system;
    cJSON_AddStringToObject(report, "commit", a->commit ? a->commit : "");
    cJSON *machine = cJSON_AddObjectToObject(report, "machine");
    if (!uname(&system)) {
        snprintf(line, sizeof line, "%.80s %.80s %.80s", system.sysname, system.release,
                 system.machine);
        cJSON_AddStringToObject(machine, "system", line);
    }
    read_line(line, sizeof line, "/proc/cpuinfo", "model name");
    cJSON_AddStringToObject(machine, "processor", line);
    cJSON_AddNumberToObject(machine, "processors", (double)sysconf(_SC_NPROCESSORS_ONLN));
    cJSON *versions = cJSON_AddObjectToObject(report, "versions");
    read_line(line, sizeof line, "/proc/driver/nvidia/version", "NVRM version");
    cJSON_AddStringToObject(versions, "driver", line);
    cJSON_AddStringToObject(versions, "compiler", __VERSION__);
    cJSON_AddItemToObject(report, "device", cJSON_Duplicate(facts, true));
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(report, "device"), "code");
}

/* Whole, or not at all. */
static int write_report(const char *path, const cJSON *report, sc_error *err) {
    char *text = cJSON_Print(report);
    const int rc = text ? sc_file_write(path, text, strlen(text), err)
                        : sc_fail(err, SC_EENV, "gpu-check: no memory");
    free(text);
    return rc;
}

static int check(arguments *a, const cJSON *facts, double begin, sc_error *err) {
    gpu_setup *s = &a->setup;
    const cJSON *sm = cJSON_GetObjectItemCaseSensitive(facts, "sm");
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    char arch[32];
    snprintf(arch, sizeof arch, "sm_%d", sm ? sm->valueint : 0);
    s->build.arch = arch;
    s->build.nvcc = a->nvcc;
    s->build.jobs = processors > 0 ? (int)processors : 1;
    cJSON *report = cJSON_CreateObject();
    describe(report, a, facts);
    const bool goldens = !a->only || !strcmp(a->only, "goldens");
    const bool bench = !a->only || !strcmp(a->only, "bench");
    bool ok = !goldens || gpu_goldens(report, s, err);
    if (bench && !err->code)
        ok &= gpu_bench(report, s, facts, err);
    int rc = err->code;
    cJSON_AddNumberToObject(report, "seconds", gpu_seconds() - begin);
    cJSON_AddBoolToObject(report, "ok", ok && !rc);
    sc_error late = { 0 };
    const int written = write_report(a->out, report, rc ? &late : err);
    cJSON_Delete(report);
    if (!rc)
        rc = written;
    return rc ? rc : ok ? SC_OK : sc_fail(err, SC_ECHECK, "gpu-check: no: see %s", a->out);
}

int main(int argc, char **argv) {
    const double begin = gpu_seconds();
    arguments a = { .setup = { .device = "cuda:0", .share = 0.85, .offload_share = 0.9 },
                    .reference = "tests/reference/tiny" };
    sc_error err = { 0 };
    int rc = read_arguments(&a, argc, argv, &err);
    if (!rc)
        rc = set_up(&a, &err);
    if (!rc) {
        enum { SECONDS = 60 };
        cJSON *facts = gpu_unit_run(gpu_device_facts, a.setup.device, a.setup.work, SECONDS);
        rc = gpu_unit_code(facts);
        if (rc)
            sc_fail(&err, rc, "%s", gpu_unit_reason(facts));
        else
            rc = check(&a, facts, begin, &err);
        cJSON_Delete(facts);
    }
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    else
        printf("all good: %s\n", a.out);
    free((char *)(uintptr_t)a.setup.build.slipcast);
    free((char *)(uintptr_t)a.setup.reference);
    return sc_exit_status(rc);
}
