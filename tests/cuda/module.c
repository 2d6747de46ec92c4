/* module.c - see driver.h: device code, which is the library of host-built kernels. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

struct CUmod_st {
    object object;
    void *library;
    sc_host_launch_fn *launch;
    struct CUfunc_st *functions; /* that were asked for */
};

struct CUfunc_st {
    object object;
    CUmodule module;
    void *kernel;
    char *name;
    struct CUfunc_st *next;
};

const char *function_name(CUfunction kernel) { return kernel->name; }

/* --- a kernel that touches what it must not, which ends the process: what did it is said first ---
 */

static CUfunction running;
static struct sigaction before_segv, before_bus;

/* Returns, so that the access happens again, to whoever handles it otherwise. */
static void say_who(int number, siginfo_t *info, void *unused) {
    char what[128], line[400];
    (void)number, (void)unused;
    memory_describe((uintptr_t)info->si_addr, what, sizeof what);
    const int n = snprintf(line, sizeof line, "standin: %s touches %s\n", running->name, what);
    if (n < 0 || write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(1);
    sigaction(SIGSEGV, &before_segv, NULL);
    sigaction(SIGBUS, &before_bus, NULL);
}

int function_run(CUfunction kernel, const work *w, uint64_t seed, char *report, size_t bytes) {
    struct sigaction action = { .sa_flags = SA_SIGINFO };
    action.sa_sigaction = say_who;
    sigemptyset(&action.sa_mask);
    running = kernel;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
    const int failed = kernel->module->launch(kernel->kernel, w->grid, w->block, w->shared,
                                              w->words, w->word_count, seed, report, bytes);
    sigaction(SIGSEGV, &before_segv, NULL);
    sigaction(SIGBUS, &before_bus, NULL);
    return failed;
}

/* Machine code, or PTX: a comment or its first directive. */
static bool is_image(const void *image) {
    static const char *const begins[] = { "\177ELF", ".version", "//" };
    for (size_t i = 0; image && i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(image, begins[i], strlen(begins[i])))
            return true;
    return false;
}

/* What is queued is done first. */
static void drop_module(object *self) {
    CUmodule m = (CUmodule)self;
    for (CUfunction f = m->functions; f; f = f->next)
        f->object.magic = 0;
    if (m->library)
        dlclose(m->library);
}

static CUresult load(CUmodule m) {
    const char *path = driver.settings.kernels;
    m->library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!m->library) {
        fprintf(stderr, "standin: SC_STANDIN_KERNELS: %s\n", path && *path ? dlerror() : "not set");
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    *(void **)&m->launch = dlsym(m->library, "sc_host_launch");
    if (m->launch)
        return CUDA_SUCCESS;
    fprintf(stderr, "standin: %s: has no sc_host_launch (tests/cuda/host.cc)\n", path);
    return CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | OUTSIDE | WORK);
    if (!result)
        result = !out              ? CUDA_ERROR_INVALID_VALUE
                 : is_image(image) ? CUDA_SUCCESS
                                   : CUDA_ERROR_INVALID_IMAGE;
    CUmodule m = result ? NULL : object_create(MODULE, sizeof *m, drop_module);
    if (!result)
        result = m ? load(m) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        *out = m;
    else if (m)
        object_destroy(&m->object);
    return driver_leave(result);
}

CUresult cuModuleUnload(CUmodule m) {
    CUresult result = driver_enter(__func__, CONTEXT | OUTSIDE);
    if (!result)
        result = object_check(m, MODULE);
    if (!result) {
        schedule_drain();
        object_destroy(&m->object);
    }
    return driver_leave(result);
}

static void drop_function(object *self) {
    free(((CUfunction)self)->name);
    ((CUfunction)self)->name = NULL;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result)
        result = out && name ? object_check(m, MODULE) : CUDA_ERROR_INVALID_VALUE;
    void *kernel = result ? NULL : dlsym(m->library, name);
    if (!result && !kernel)
        result = CUDA_ERROR_NOT_FOUND;
    CUfunction f = result ? NULL : object_create(FUNCTION, sizeof *f, drop_function);
    if (!result && !f)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        f->module = m;
        f->kernel = kernel;
        f->name = strdup(name);
        f->next = m->functions;
        m->functions = f;
        *out = f;
    }
    return driver_leave(result);
}

/* --- launches --- */

/* The list that cuLaunchKernel takes: what, then its value, up to 0. */
static CUresult read_extra(work *w, void **extra) {
    enum { POINTER = 1, SIZE = 2 };
    const void *words = NULL;
    size_t bytes = 0;
    for (; extra && *extra; extra += 2) {
        if ((uintptr_t)*extra == POINTER)
            words = extra[1];
        else if ((uintptr_t)*extra == SIZE)
            bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes % 8 || bytes > sizeof w->words || (bytes && !words))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes)
        memcpy(w->words, words, bytes);
    w->word_count = (int)(bytes / 8);
    return CUDA_SUCCESS;
}

static CUresult check_sizes(const work *w) {
    const unsigned *g = w->grid, *b = w->block;
    if (!g[0] || !g[1] || !g[2] || g[0] > 0x7fffffff || g[1] > 65535 || g[2] > 65535 || !b[0] ||
        !b[1] || !b[2] || b[0] > 1024 || b[1] > 1024 || b[2] > 64 ||
        b[0] * b[1] * b[2] > SC_HOST_THREADS || w->shared > SC_HOST_SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream s, void **parameters, void **extra) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    work w = { .kind = KERNEL,
               .what = "cuLaunchKernel",
               .kernel = f,
               .grid = { grid_x, grid_y, grid_z },
               .block = { block_x, block_y, block_z },
               .shared = shared };
    if (!result)
        result = object_check(f, FUNCTION);
    if (!result)
        result = object_check(s, STREAM);
    if (!result)
        result = parameters ? CUDA_ERROR_NOT_SUPPORTED : check_sizes(&w);
    if (!result)
        result = read_extra(&w, extra);
    if (!result)
        result = stream_put(s, &w);
    return driver_leave(result);
}
