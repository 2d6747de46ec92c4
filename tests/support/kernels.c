/* kernels.c - see kernels.h. */
#include "kernels.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cast.h"
#include "run.h"

/* A library with sanitizers wants the runtime of the compiler that built the program. */
#ifdef __clang__
#define COMPILER "clang++"
#else
#define COMPILER "g++"
#endif

static const char *compiler(void) {
    const char *name = getenv("CXX");
    return name && *name ? name : COMPILER;
}

int kernels_available(const char *left_out) {
    static int known, there;
    char command[256]; /* called while suites are made: no test may fail yet */
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", compiler());
    if (!known)
        there = !system(command);
    if (!known && !there)
        printf("%s: no C++ compiler (%s), left out\n", left_out, compiler());
    known = 1;
    return there;
}

const char *kernels_command(void) {
    static char command[1024];
    /* Fibers are nothing to TSan, whose program may load what is built without it. */
    const char *sanitize = strstr(cast_sanitize, "thread") ? "" : cast_sanitize;
    snprintf(command, sizeof command,
             "%s -std=gnu++17 -Wall -Wextra -Werror -Wno-unknown-pragmas -ffp-contract=off -O1 -g1 "
             "-fPIC -shared -fvisibility=hidden %s -DSLIPCAST_HOST_KERNELS "
             "-include tests/cuda/host.h -x c++ tests/cuda/host.cc",
             compiler(), sanitize);
    return command;
}

void kernels_build(const char *library, const char *cu, const char *options) {
    ck_assert_int_eq(run(NULL, NULL, "mkdir -p $(dirname %s) && %s %s %s -o %s", library,
                         kernels_command(), options, cu, library),
                     0);
}

void *kernels_open(const char *library) {
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(opened != NULL, "%s", dlerror());
    return opened;
}
