/* nvrtc.c - see nvrtc.h. */
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef struct nvrtc_program *program;

enum { NVRTC_ERROR_COMPILATION = 6 };

#define FUNCTIONS(X)                                                                               \
    X(Version, (int *, int *))                                                                     \
    X(GetNumSupportedArchs, (int *))                                                               \
    X(GetSupportedArchs, (int *))                                                                  \
    X(CreateProgram,                                                                               \
      (program *, const char *, const char *, int, const char *const *, const char *const *))      \
    X(DestroyProgram, (program *))                                                                 \
    X(CompileProgram, (program, int, const char *const *))                                         \
    X(GetProgramLogSize, (program, size_t *))                                                      \
    X(GetProgramLog, (program, char *))                                                            \
    X(GetCUBINSize, (program, size_t *))                                                           \
    X(GetCUBIN, (program, char *))                                                                 \
    X(GetPTXSize, (program, size_t *))                                                             \
    X(GetPTX, (program, char *))

struct sc_nvrtc {
    int version;
#define MEMBER(name, arguments) result(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static void *open_in(sc_pool *pool, const char *folder) {
    static const char *const files[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = sc_pool_printf(pool, "%s%s", folder, files[i]);
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library)
            return library;
    }
    return NULL;
}

static const char *named_toolkit(void) {
    const char *home = getenv("CUDA_HOME"), *path = getenv("CUDA_PATH");
    return home && *home ? home : path && *path ? path : NULL;
}

/* A toolkit that is named is the one that is meant; else where the loader looks, then where
 * toolkits are. */
static void *find_library(sc_pool *pool) {
    const char *named = named_toolkit(), *home = named ? named : "/usr/local/cuda";
    void *library = named ? NULL : open_in(pool, "");
    static const char *const folders[] = { "lib64", "lib" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !library; i++) {
        const char *folder = sc_pool_printf(pool, "%s/%s/", home, folders[i]);
        library = folder ? open_in(pool, folder) : NULL;
    }
    return library;
}

int sc_nvrtc_open(sc_nvrtc **nvrtc, sc_pool *pool, sc_error *err) {
    sc_nvrtc *n = sc_pool_alloc(pool, 1, sizeof *n);
    if (!n)
        return sc_oom(err, "opening NVRTC");
    void *library = find_library(pool); /* as long as the program runs */
    const char *named = named_toolkit();
    if (!library && named)
        return sc_fail(err, SC_EENV,
                       "--target cuda: %s/lib64: no libnvrtc (correct CUDA_HOME, or --emit-only "
                       "and build with nvcc)",
                       named);
    if (!library)
        return sc_fail(err, SC_EENV,
                       "--target cuda: no libnvrtc (install the CUDA toolkit, set CUDA_HOME, or "
                       "--emit-only and build with nvcc)");
#define FIND(function, arguments)                                                                  \
    *(void **)&n->function = dlsym(library, "nvrtc" #function);                                    \
    if (!n->function)                                                                              \
        return sc_fail(err, SC_EENV,                                                               \
                       "--target cuda: libnvrtc has no nvrtc" #function                            \
                       " (install CUDA 12 or later)");
    FUNCTIONS(FIND)
#undef FIND
    int major = 0, minor = 0;
    if (n->Version(&major, &minor))
        return sc_fail(err, SC_EENV,
                       "--target cuda: libnvrtc does not say its version (install CUDA 12 or "
                       "later)");
    n->version = 1000 * major + 10 * minor;
    *nvrtc = n;
    return SC_OK;
}

int sc_nvrtc_version(const sc_nvrtc *nvrtc) { return nvrtc->version; }

static int check_arch(const sc_nvrtc *n, sc_pool *pool, int sm, sc_error *err) {
    int count = 0;
    if (n->GetNumSupportedArchs(&count) || count < 1)
        return sc_fail(err, SC_EENV,
                       "--target cuda: libnvrtc does not say which GPUs it knows (install CUDA 12 "
                       "or later)");
    int *archs = sc_pool_alloc(pool, (size_t)count, sizeof *archs);
    if (!archs)
        return sc_oom(err, "opening NVRTC");
    if (!n->GetSupportedArchs(archs))
        for (int i = 0; i < count; i++)
            if (archs[i] == sm)
                return SC_OK;
    return sc_fail(err, SC_EENV,
                   "--arch: \"sm_%d\" is unknown to NVRTC %d.%d (leave it out, install another "
                   "CUDA toolkit, or --emit-only and build with its nvcc)",
                   sm, n->version / 1000, n->version % 1000 / 10);
}

static int take_log(const sc_nvrtc *n, program p, sc_pool *pool, const char **log, sc_error *err) {
    size_t size = 0;
    char *text = n->GetProgramLogSize(p, &size) ? NULL : sc_pool_alloc(pool, size + 1, 1);
    if (!text || (size && n->GetProgramLog(p, text)))
        return sc_oom(err, "reading NVRTC's log");
    *log = text;
    return SC_OK;
}

static int take_code(sc_nvrtc_code *code, program p, sc_pool *pool,
                     result (*get_size)(program, size_t *), result (*get)(program, char *),
                     sc_error *err) {
    size_t size = 0;
    if (get_size(p, &size) || !size)
        return sc_fail(err, SC_EENV,
                       "--target cuda: NVRTC made no code (install CUDA 12 or later)");
    char *bytes = sc_pool_alloc(pool, size, 1);
    if (!bytes)
        return sc_oom(err, "compiling device code");
    if (get(p, bytes))
        return sc_fail(err, SC_EENV,
                       "--target cuda: NVRTC made no code (install CUDA 12 or later)");
    *code = (sc_nvrtc_code){ (const unsigned char *)bytes, size };
    return SC_OK;
}

int sc_nvrtc_compile(sc_nvrtc_code *cubin, sc_nvrtc_code *ptx, const char **log, const sc_nvrtc *n,
                     sc_pool *pool, const char *name, const char *source, int sm, bool verbose,
                     sc_error *err) {
    *log = NULL;
    int rc = check_arch(n, pool, sm, err);
    const char *arch = sc_pool_printf(pool, "--gpu-architecture=sm_%d", sm);
    program p = NULL;
    if (!rc && !arch)
        rc = sc_oom(err, "compiling device code");
    if (!rc && n->CreateProgram(&p, source, name, 0, NULL, NULL))
        rc = sc_fail(err, SC_EENV, "--target cuda: NVRTC takes no program (is there memory?)");
    if (rc)
        return rc;
    const char *const options[] = { arch, "--std=c++17", "--ptxas-options=-v" };
    const result compiled = n->CompileProgram(p, verbose ? 3 : 2, options);
    rc = take_log(n, p, pool, log, err);
    if (!rc && compiled)
        rc = compiled == NVRTC_ERROR_COMPILATION
                 ? sc_fail(err, SC_EINPUT, "%s: does not compile for sm_%d (see the log)", name, sm)
                 : sc_fail(err, SC_EENV, "--target cuda: NVRTC fails with %d (see the log)",
                           compiled);
    if (!rc)
        rc = take_code(cubin, p, pool, n->GetCUBINSize, n->GetCUBIN, err);
    if (!rc && ptx)
        rc = take_code(ptx, p, pool, n->GetPTXSize, n->GetPTX, err);
    n->DestroyProgram(&p);
    return rc;
}
