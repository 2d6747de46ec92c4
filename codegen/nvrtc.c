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

/* Where the loader looks, then where toolkits are. */
static void *find_library(sc_pool *pool) {
    static const char *const files[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
    const char *const homes[] = { NULL, getenv("CUDA_HOME"), getenv("CUDA_PATH"),
                                  "/usr/local/cuda" };
    for (size_t h = 0; h < sizeof homes / sizeof *homes; h++)
        for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
            if (h && !homes[h])
                continue;
            const char *path =
                h ? sc_pool_printf(pool, "%s/lib64/%s", homes[h], files[f]) : files[f];
            void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
            if (library)
                return library;
        }
    return NULL;
}

int sc_nvrtc_open(sc_nvrtc **nvrtc, sc_pool *pool, sc_error *err) {
    sc_nvrtc *n = sc_pool_alloc(pool, 1, sizeof *n);
    if (!n)
        return sc_oom(err, "opening NVRTC");
    void *library = find_library(pool); /* as long as the program runs */
    if (!library)
        return sc_fail(err, SC_EENV,
                       "--target cuda: libnvrtc cannot be found (install the CUDA toolkit, set "
                       "CUDA_HOME, or --emit-only and build with nvcc)");
#define FIND(function, arguments)                                                                  \
    *(void **)&n->function = dlsym(library, "nvrtc" #function);                                    \
    if (!n->function)                                                                              \
        return sc_fail(err, SC_EENV,                                                               \
                       "--target cuda: libnvrtc has no nvrtc" #function                            \
                       " (it wants CUDA 11.2 or later)");
    FUNCTIONS(FIND)
#undef FIND
    int major = 0, minor = 0;
    if (n->Version(&major, &minor))
        return sc_fail(err, SC_EENV, "--target cuda: libnvrtc does not say its version");
    n->version = 1000 * major + 10 * minor;
    *nvrtc = n;
    return SC_OK;
}

int sc_nvrtc_version(const sc_nvrtc *nvrtc) { return nvrtc->version; }

static int check_arch(const sc_nvrtc *n, sc_pool *pool, int sm, sc_error *err) {
    int count = 0;
    if (n->GetNumSupportedArchs(&count) || count < 1)
        return sc_fail(err, SC_EENV, "--target cuda: libnvrtc does not say what it supports");
    int *archs = sc_pool_alloc(pool, (size_t)count, sizeof *archs);
    if (!archs)
        return sc_oom(err, "opening NVRTC");
    if (!n->GetSupportedArchs(archs))
        for (int i = 0; i < count; i++)
            if (archs[i] == sm)
                return SC_OK;
    return sc_fail(err, SC_EENV,
                   "--arch sm_%d: NVRTC %d.%d does not know it (install another CUDA toolkit, or "
                   "leave it out)",
                   sm, n->version / 1000, n->version % 1000 / 10);
}

static int take_log(const sc_nvrtc *n, program p, sc_pool *pool, char **log, sc_error *err) {
    size_t size = 0;
    *log = NULL;
    if (!n->GetProgramLogSize(p, &size) && (*log = sc_pool_alloc(pool, size + 1, 1)) &&
        !n->GetProgramLog(p, *log))
        return SC_OK;
    return sc_oom(err, "reading NVRTC's log");
}

static int take_code(const sc_nvrtc *n, program p, sc_pool *pool, bool ptx, unsigned char **bytes,
                     size_t *size, sc_error *err) {
    if (ptx ? n->GetPTXSize(p, size) : n->GetCUBINSize(p, size))
        return sc_fail(err, SC_EENV, "--target cuda: NVRTC made no code");
    char *code = sc_pool_alloc(pool, *size + 1, 1);
    if (!code)
        return sc_oom(err, "compiling device code");
    if (ptx ? n->GetPTX(p, code) : n->GetCUBIN(p, code))
        return sc_fail(err, SC_EENV, "--target cuda: NVRTC made no code");
    *bytes = (unsigned char *)code;
    return SC_OK;
}

int sc_nvrtc_compile(const sc_nvrtc *n, sc_pool *pool, const char *name, const char *source, int sm,
                     bool ptx, bool verbose, unsigned char **bytes, size_t *size, char **log,
                     sc_error *err) {
    int rc = check_arch(n, pool, sm, err);
    const char *arch = sc_pool_printf(pool, "--gpu-architecture=%s_%d", ptx ? "compute" : "sm", sm);
    program p = NULL;
    if (!rc && !arch)
        rc = sc_oom(err, "compiling device code");
    if (!rc && n->CreateProgram(&p, source, name, 0, NULL, NULL))
        rc = sc_fail(err, SC_EENV, "--target cuda: NVRTC takes no program");
    if (rc)
        return rc;
    const char *const options[] = { arch, "--std=c++17", "--ptxas-options=-v" };
    const result compiled = n->CompileProgram(p, verbose ? 3 : 2, options);
    rc = take_log(n, p, pool, log, err);
    if (!rc && compiled)
        rc = sc_fail(err, compiled == NVRTC_ERROR_COMPILATION ? SC_EINPUT : SC_EENV,
                     "%s: sm_%d: NVRTC's result is %d: %.600s", name, sm, compiled, *log);
    if (!rc)
        rc = take_code(n, p, pool, ptx, bytes, size, err);
    n->DestroyProgram(&p);
    return rc;
}
