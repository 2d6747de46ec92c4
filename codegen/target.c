/* target.c - see target.h. */
#include "target.h"

#include <string.h>

/* sm_87 is Orin, sm_110 Thor; those with a suffix ("sm_90a") do not run on what comes after. */
static const int devices[] = { 80, 86, 87, 89, 90, 100, 103, 110, 120, 121 };
enum { DEVICES = sizeof devices / sizeof *devices };
_Static_assert((int)DEVICES <= (int)SC_MOST_SMS, "room for all");

/* The number of "sm_90"; 0: there is none of that name. */
static int find_device(const char *name) {
    for (int i = 0; i < DEVICES; i++) {
        char text[16];
        snprintf(text, sizeof text, "sm_%d", devices[i]);
        if (!strcmp(text, name))
            return devices[i];
    }
    return 0;
}

/* In ascending order, each once. */
static void add_device(sc_plan_options *o, int sm) {
    int at = 0;
    while (at < o->sms && o->sm[at] < sm)
        at++;
    if (at < o->sms && o->sm[at] == sm)
        return;
    memmove(o->sm + at + 1, o->sm + at, (size_t)(o->sms - at) * sizeof *o->sm);
    o->sm[at] = sm;
    o->sms++;
}

static int read_device(sc_plan_options *o, const char *name, sc_error *err) {
    const int sm = find_device(name);
    if (!sm)
        return sc_fail(err, SC_EUSAGE,
                       "--arch: \"%s\" is none of sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, "
                       "sm_103, sm_110, sm_120, sm_121",
                       name);
    if (!o->cuda)
        return sc_fail(err, SC_EUSAGE, "--arch: \"%s\" is a GPU's (add --target cuda)", name);
    add_device(o, sm);
    return SC_OK;
}

static int read_processor(sc_plan_options *o, const char *name, sc_error *err) {
    const sc_arch *arch = sc_arch_find(name);
    if (!arch)
        return sc_fail(err, SC_EUSAGE,
                       "--arch: \"%s\" is none of native, generic, x86-64-v3, x86-64-v4, "
                       "x86-64-v4-bf16%s",
                       name, o->cuda ? ", sm_80, …, sm_121" : "");
    if (o->arch)
        return sc_fail(err, SC_EUSAGE,
                       "--arch: \"%s\" is a second processor (one casting is for "
                       "one; export another)",
                       name);
    o->arch = arch;
    return SC_OK;
}

static int read_list(sc_plan_options *o, sc_pool *pool, const char *list, sc_error *err) {
    for (const char *at = list; at;) {
        const size_t length = strcspn(at, ",");
        const char *name = sc_pool_printf(pool, "%.*s", (int)length, at);
        int rc = SC_OK;
        if (!name)
            rc = sc_oom(err, "reading --arch");
        else if (!length)
            rc = sc_fail(err, SC_EUSAGE, "--arch: \"%s\" has an empty name (one comma between two)",
                         list);
        else
            rc = (strncmp(name, "sm_", 3) ? read_processor : read_device)(o, name, err);
        if (rc)
            return rc;
        at = at[length] ? at + length + 1 : NULL;
    }
    return SC_OK;
}

int sc_target_read(sc_plan_options *o, sc_pool *pool, const sc_export_options *options,
                   sc_error *err) {
    const char *target = options->target ? options->target : "cpu";
    o->cuda = !strcmp(target, "cuda");
    if (!o->cuda && strcmp(target, "cpu"))
        return sc_fail(err, SC_EUSAGE, "--target: \"%s\" is none of cpu, cuda", target);
    if (!o->cuda && (options->emit_only || options->offload_weights))
        return sc_fail(err, SC_EUSAGE, "%s: is for devices (add --target cuda)",
                       options->emit_only ? "--emit-only" : "--offload-weights");
    if (options->only_cache && options->offload_weights)
        return sc_fail(err, SC_EUSAGE,
                       "--offload-weights: a cache alone has no weights (leave out "
                       "--only cache)");
    o->emit_only = options->emit_only;
    o->offload_weights = options->offload_weights;
    const int rc = options->arch ? read_list(o, pool, options->arch, err) : SC_OK;
    if (rc)
        return rc;
    if (!o->arch)
        o->arch = sc_arch_find("native");
    if (o->cuda && !o->sms) {
        add_device(o, 80);
        add_device(o, 90);
    }
    return SC_OK;
}

int sc_target_check(const sc_plan_options *o, sc_error *err) {
    if (o->cuda && sc_kv_value_dtype(o->kv_dtype) != o->kv_dtype)
        return sc_fail(err, SC_EUSAGE,
                       "--kv-dtype: \"%s\" is none of float32, bfloat16, float16, which devices "
                       "keep (or --target cpu)",
                       sc_dtype_name(o->kv_dtype));
    return SC_OK;
}
