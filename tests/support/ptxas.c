/* ptxas.c - see ptxas.h. */
#include "ptxas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../codegen/cubin.h"
#include "../../codegen/emit.h"

static const char entry[] = "Compiling entry function '";

static int count_kernels(const char *log) {
    int count = 0;
    for (const char *at = log; (at = strstr(at, entry)); at++)
        count++;
    return count;
}

/* The number that stands before words, within a kernel's lines; 0: they are not there. */
static int before(const char *lines, const char *end, const char *words) {
    const char *at = strstr(lines, words);
    if (!at || at >= end)
        return 0;
    while (at > lines && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return atoi(at);
}

static bool read_kernel(ptxas_kernel *k, const char *lines) {
    const char *next = strstr(lines, entry), *end = next ? next : lines + strlen(lines);
    *k = (ptxas_kernel){ .registers = before(lines, end, " registers"),
                         .shared = before(lines, end, " bytes smem"),
                         .stack = before(lines, end, " bytes stack frame"),
                         .spill = before(lines, end, " bytes spill stores") +
                                  before(lines, end, " bytes spill loads") };
    return sscanf(lines, "%95[^']", k->kernel) == 1 && k->registers > 0;
}

/* Lines of the compiler that warn, without what a template has for other models. */
static const char *find_warnings(sc_pool *pool, const char *log) {
    const char *all = "";
    while (*log && all) {
        const int length = (int)strcspn(log, "\n");
        const char *warning = strstr(log, ": warning");
        if (warning && warning < log + length)
            all = sc_pool_printf(pool, "%s%.*s\n", all, length, log);
        log += length + (log[length] == '\n');
    }
    return all;
}

int ptxas_read(ptxas_report *report, sc_pool *pool, const char *log, sc_error *err) {
    const int count = count_kernels(log);
    ptxas_kernel *all = sc_pool_alloc(pool, (size_t)count + 1, sizeof *all);
    const char *at = log, *warnings = find_warnings(pool, log);
    if (!all || !warnings)
        return sc_oom(err, "reading a report");
    for (int i = count; i-- > 0;) { /* ptxas begins with the last one */
        at = strstr(at, entry) + strlen(entry);
        if (!read_kernel(&all[i], at))
            return sc_fail(err, SC_EINPUT, "ptxas: %.60s: no registers are named", at);
    }
    *report = (ptxas_report){ count, all, warnings };
    return SC_OK;
}

static int compile(ptxas_report *report, const sc_nvrtc *nvrtc, sc_pool *pool,
                   const sc_source *source, const sc_plan *plan, int sm, sc_error *err) {
    sc_template_map map = { 0 };
    sc_values *values = NULL;
    sc_nvrtc_code cubin;
    char *text = NULL;
    size_t bytes;
    const char *log = NULL, *name = sc_pool_printf(pool, "%s_cuda.cu", plan->options.name);
    int rc = name ? sc_emit_values(&values, pool, plan, source->config, err)
                  : sc_oom(err, "making a report");
    if (!rc)
        rc = sc_template_render(&text, &bytes, &map, "cuda/device.cu", values, err);
    if (!rc)
        rc = sc_cubin_compile(&cubin, NULL, &log, nvrtc, pool, name, text, &map, sm, true, err);
    if (!rc)
        rc = ptxas_read(report, pool, log, err);
    free(map.piece);
    free(text);
    return rc;
}

int ptxas_compile(ptxas_report *report, const sc_nvrtc *nvrtc, sc_pool *pool, const char *model,
                  const sc_export_options *options, int sm, sc_error *err) {
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    int rc = sc_source_open(&source, pool, model, false, options->generic, err);
    if (!rc)
        rc = sc_export_plan(&plan, pool, source, options, err);
    if (!rc)
        rc = compile(report, nvrtc, pool, source, plan, sm, err);
    if (source)
        sc_source_close(source);
    return rc;
}

bool ptxas_is_decode(const ptxas_kernel *kernel) {
    static const char *const others[] = { "attention", "end_",       "bias_",
                                          "unpack",    "write_back", "shift" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(kernel->kernel, others[i], strlen(others[i])))
            return false;
    return !strstr(kernel->kernel, "_sort_kernel") && !strstr(kernel->kernel, "_all_kernel");
}
