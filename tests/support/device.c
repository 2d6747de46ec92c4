/* device.c - see device.h. */
#include "device.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cast.h"
#include "kernels.h"
#include "once.h"
#include "run.h"
#include "standin.h"

enum { CASTINGS = 128 };

static struct {
    char name[64];
    device_casting casting;
} made[CASTINGS];
static int count;

bool device_available(void) { return kernels_available("tests of CUDA castings"); }

static void build(const char *folder, const device_casting *c, const char *model,
                  const char *options) {
    char path[256];
    ck_assert_int_eq(run(NULL, NULL,
                         "rm -rf %s && $SLIPCAST export %s -o %s --name cast --quiet --target cuda "
                         "--emit-only --arch generic,sm_80,sm_90 %s",
                         folder, model, folder, options),
                     0);
    static const char cubins[] =
        "#include \"cast_cuda.h\"\n"
        "static const unsigned char elf[] = { 0x7f, 'E', 'L', 'F' }, ptx[] = \"// PTX\";\n"
        "static const sc_cubin all[] = { { 80, 0, elf, 4 }, { 90, 0, elf, 4 }, { 80, 1, ptx, 7 } "
        "};\n"
        "const sc_cubins cast_cubins = { 13000, 3, all };\n";
    snprintf(path, sizeof path, "%s/cast_cubin.c", folder);
    cast_write(path, cubins, strlen(cubins));
    ck_assert_int_eq(run(NULL, NULL, "make -C %s -j4 %s libcast.so", folder, cast_make_flags), 0);
    snprintf(path, sizeof path, "%s/cast_cuda.cu", folder);
    kernels_build(c->kernels, path, "");
}

const device_casting *device_cast(const char *name, const char *model, const char *options) {
    char folder[128], path[256];
    for (int i = 0; i < count; i++)
        if (!strcmp(made[i].name, name))
            return &made[i].casting;
    ck_assert_int_lt(count, CASTINGS);
    device_casting *c = &made[count].casting;
    snprintf(folder, sizeof folder, "build/test-castings/cuda-%s", name);
    snprintf(c->kernels, sizeof c->kernels, "%s/kernels.so", folder);
    snprintf(c->weights, sizeof c->weights, "%s/cast.weights", folder);
    if (once_begin(folder)) {
        build(folder, c, model, options);
        once_end();
    }
    snprintf(path, sizeof path, "%s/libcast.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    const sc_casting *(*get)(void);
    *(void **)&get = dlsym(library, "slipcast_casting");
    ck_assert_msg(get != NULL, "%s", dlerror());
    c->api = get();
    snprintf(made[count].name, sizeof made[count].name, "%s", name);
    return &made[count++].casting;
}

void device_begin(const device_casting *casting, const sc_standin_settings *settings) {
    sc_standin_settings s = settings ? *settings : (sc_standin_settings){ 0 };
    s.kernels = casting->kernels;
    standin_open()->reset(&s);
}

sc_standin_log device_log(void) {
    sc_standin_log log;
    standin_open()->log(&log);
    return log;
}
