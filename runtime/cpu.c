/* cpu.c - see cpu.h. */
#include "cpu.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>

/* What the compilers' __builtin_cpu_supports does not name alike is asked of cpuid. */
static bool cpuid_bit(unsigned leaf, unsigned subleaf, int reg, int bit) {
    unsigned r[4] = { 0 };
    if (!__get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3]))
        return false;
    return r[reg] >> bit & 1;
}

enum { EAX, EBX, ECX, EDX };

/* The builtin also asks whether the operating system keeps the wide registers. */
static bool has_v3(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt") && cpuid_bit(1, 0, ECX, 29) /* F16C */ &&
           cpuid_bit(1, 0, ECX, 22) /* MOVBE */ && cpuid_bit(0x80000001, 0, ECX, 5) /* LZCNT */;
}

static bool has_v4(void) {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool has_v4_bf16(void) { return has_v4() && cpuid_bit(7, 1, EAX, 5); }
#else
static bool has_v3(void) { return false; }
static bool has_v4(void) { return false; }
static bool has_v4_bf16(void) { return false; }
#endif

static bool has_generic(void) { return true; }

/* Best first. */
static const struct {
    const char *name;
    bool (*has)(void);
} archs[] = {
    { "x86-64-v4-bf16", has_v4_bf16 },
    { "x86-64-v4", has_v4 },
    { "x86-64-v3", has_v3 },
    { "generic", has_generic },
};

enum { ARCHS = sizeof archs / sizeof archs[0] };

int sc_cpu_check(const char *arch, sc_error *err) {
    for (int i = 0; i < ARCHS; i++) {
        if (strcmp(arch, archs[i].name) != 0)
            continue;
        if (archs[i].has())
            return SC_OK;
        return sc_fail(err, SC_EENV, "arch: this processor lacks %s (export with --arch %s)", arch,
                       sc_cpu_native());
    }
    return sc_fail(err, SC_EUSAGE,
                   "arch: \"%s\" is none of generic, x86-64-v3, x86-64-v4, x86-64-v4-bf16", arch);
}

const char *sc_cpu_native(void) {
    for (int i = 0; i < ARCHS - 1; i++)
        if (archs[i].has())
            return archs[i].name;
    return archs[ARCHS - 1].name;
}
