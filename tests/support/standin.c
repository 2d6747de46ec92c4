/* standin.c - see standin.h. */
#include "standin.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static standin opened;

/* build/FLAVOUR/cuda, beside the running program. */
const char *standin_folder(void) {
    static char folder[4096];
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - sizeof "cuda");
    folder[n > 0 ? n : 0] = 0;
    char *name = strrchr(folder, '/');
    ck_assert_msg(name != NULL, "/proc/self/exe cannot be read");
    memcpy(name + 1, "cuda", sizeof "cuda");
    return folder;
}

static void *open_library(const char *name) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", standin_folder(), name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    return library;
}

const standin *standin_open(void) {
    if (opened.cublaslt)
        return &opened;
    opened.library = open_library("libcuda.so.1");
#define FIND(name, version, arguments)                                                             \
    *(void **)&opened.api.name = dlsym(opened.library, "cu" #name version);                        \
    ck_assert_msg(opened.api.name != NULL, "cu" #name version);
    SC_CUDA_FUNCTIONS(FIND)
#undef FIND
    *(void **)&opened.reset = dlsym(opened.library, "sc_standin_reset");
    *(void **)&opened.log = dlsym(opened.library, "sc_standin_read");
    ck_assert(opened.reset && opened.log);
    opened.cublaslt = open_library("libcublasLt.so.13");
    return &opened;
}

void standin_check_clean(void) {
    sc_standin_log log;
    standin_open()->log(&log);
    ck_assert_str_eq(log.mistake, "");
    ck_assert_int_eq(log.mistakes, 0);
    ck_assert_int_eq(log.allocations, 0);
    ck_assert_int_eq(log.pinned, 0);
    ck_assert_int_eq(log.streams, 0);
    ck_assert_int_eq(log.events, 0);
    ck_assert_int_eq(log.modules, 0);
    ck_assert_int_eq(log.graphs, 0);
    ck_assert_int_eq(log.graph_execs, 0);
    ck_assert_int_eq(log.contexts, 0);
}
