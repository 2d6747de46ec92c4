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
    *(void **)&opened.seed = dlsym(opened.library, "sc_standin_seed");
    *(void **)&opened.log = dlsym(opened.library, "sc_standin_read");
    ck_assert(opened.reset && opened.seed && opened.log);
    opened.cublaslt = open_library("libcublasLt.so.13");
    return &opened;
}

void standin_check_clean(const char *what) {
    sc_standin_log l;
    standin_open()->log(&l);
    ck_assert_msg(!l.mistakes && !*l.mistake, "%s: %s", what, l.mistake);
    ck_assert_msg(!(l.allocations || l.pinned || l.streams || l.events || l.modules || l.graphs ||
                    l.graph_execs || l.contexts),
                  "%s: left over: %ld allocations, %ld pinned, %ld streams, %ld events, %ld "
                  "modules, %ld graphs, %ld execs, %ld contexts",
                  what, (long)l.allocations, (long)l.pinned, (long)l.streams, (long)l.events,
                  (long)l.modules, (long)l.graphs, (long)l.graph_execs, (long)l.contexts);
}
