/* gpu_castings.c - see gpu_castings.h. */
#include "gpu_castings.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../codegen/json.h"

/* Paths come as variables, so that none of their letters means anything to the shell. The exit
 * status is export's, or 4. */
static const char script[] =
    "exec >\"$FOLDER.log\" 2>&1; rm -rf \"$FOLDER\"\n"
    "\"$SLIPCAST\" export \"$MODEL\" -o \"$FOLDER\" --name cast --quiet --target cuda "
    "--arch \"$ARCH\" $OPTIONS || exit\n"
    "make -s -C \"$FOLDER\" ${NVCC:+\"NVCC=$NVCC\"} libcast.so || exit 4";
enum { EXPORT_USAGE = 2, EXPORT_INPUT = 3 }; /* of the command's exit codes */

static void become(const gpu_casting *c, const gpu_build *build) {
    char options[sizeof c->options + 16];
    snprintf(options, sizeof options, "%s%s", c->options, build->nvcc ? " --emit-only" : "");
    const struct {
        const char *name, *value;
    } variables[] = { { "FOLDER", c->folder }, { "SLIPCAST", build->slipcast },
                      { "MODEL", c->model },   { "ARCH", build->arch },
                      { "OPTIONS", options },  { "NVCC", build->nvcc ? build->nvcc : "" },
                      { "MAKEFLAGS", NULL },   { "MFLAGS", NULL },
                      { "MAKELEVEL", NULL },   { "CFLAGS", NULL },
                      { "LDFLAGS", NULL } };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (variables[i].value ? setenv(variables[i].name, variables[i].value, 1)
                               : unsetenv(variables[i].name))
            _exit(EXIT_FAILURE);
    execl("/bin/sh", "sh", "-c", script, (char *)NULL);
    _exit(EXIT_FAILURE);
}

/* The last line of its log that says something. */
static void read_reason(gpu_casting *c) {
    char path[sizeof c->folder + 8], line[sizeof c->reason];
    snprintf(path, sizeof path, "%s.log", c->folder);
    snprintf(c->reason, sizeof c->reason, "%.400s: could not be made", path);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof line, log)) {
        line[strcspn(line, "\n")] = 0;
        if (*line)
            memcpy(c->reason, line, sizeof line);
    }
    if (log)
        fclose(log);
}

/* Waits for one of them. */
static void reap(gpu_casting *castings, const pid_t *pids, int count) {
    int status = 0;
    const pid_t done = wait(&status);
    for (int i = 0; i < count; i++)
        if (done > 0 && pids[i] == done) {
            const int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
            castings[i].made = !code;
            castings[i].refused = code == EXPORT_USAGE || code == EXPORT_INPUT;
            if (!castings[i].made)
                read_reason(&castings[i]);
        }
}

int gpu_castings_make(gpu_casting *castings, int count, const gpu_build *build, sc_error *err) {
    pid_t *pids = calloc((size_t)count + 1, sizeof *pids);
    int running = 0, rc = pids ? SC_OK : sc_fail(err, SC_EENV, "gpu-check: no memory");
    fflush(NULL);
    for (int i = 0; i < count && !rc; i++) {
        if (running == build->jobs) {
            reap(castings, pids, i);
            running--;
        }
        pids[i] = fork();
        if (!pids[i])
            become(&castings[i], build);
        if (pids[i] < 0)
            rc = sc_fail(err, SC_EENV, "gpu-check: no process: %s", strerror(errno));
        else
            running++;
    }
    for (; running > 0; running--)
        reap(castings, pids, count);
    free(pids);
    return rc;
}

int gpu_casting_open(const sc_casting **api, const char *folder, sc_error *err) {
    char path[1100];
    const sc_casting *(*get)(void) = NULL;
    snprintf(path, sizeof path, "%s/libcast.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&get = dlsym(library, "slipcast_casting");
    if (!get)
        return sc_fail(err, SC_ECHECK, "%s", dlerror());
    *api = get();
    return SC_OK;
}

int gpu_casting_manifest(cJSON **manifest, const char *folder, sc_error *err) {
    enum { MOST = 1 << 24 };
    char path[1100];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    return sc_json_read(manifest, path, MOST, err);
}
