/* standin.c - see standin.h and driver.h: settings, the log, reports, what begins and ends a call.
 */
#include "standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

driver_state driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long long number(const char *name, long long otherwise) {
    char variable[64];
    snprintf(variable, sizeof variable, "SC_STANDIN_%s", name);
    const char *text = getenv(variable);
    return text && *text ? strtoll(text, NULL, 0) : otherwise;
}

static sc_standin_settings read_environment(void) {
    const long long devices = number("DEVICES", 1);
    return (sc_standin_settings){
        .seed = (unsigned long long)number("SEED", 0),
        .fail = number("FAIL", 0),
        .drop_wait = (int)number("DROP_WAIT", 0),
        .memory = (size_t)number("MEMORY", 0),
        .sm = (int)number("SM", 0),
        .driver = (int)number("DRIVER", 0),
        .devices = devices > 0 ? (int)devices : -1,
        .quiet = (int)number("QUIET", 0),
    };
}

static void start_draws(uint64_t seed) {
    driver.random = (seed + 1) * 0x9e3779b97f4a7c15u;
    driver.random = driver.random ? driver.random : 1;
}

static void set_up(const sc_standin_settings *settings) {
    const char *kernels =
        settings && settings->kernels ? settings->kernels : getenv("SC_STANDIN_KERNELS");
    const uint64_t round = driver.round + 1, next_id = driver.next_id;
    char *copy = kernels ? strdup(kernels) : NULL;
    free((char *)(uintptr_t)driver.settings.kernels);
    memset(&driver, 0, sizeof driver);
    driver.round = round;
    driver.next_id = next_id;
    driver.settings = settings ? *settings : read_environment();
    sc_standin_settings *s = &driver.settings;
    s->kernels = copy;
    s->memory = s->memory ? s->memory : (size_t)1 << 30;
    s->sm = s->sm ? s->sm : 90;
    s->driver = s->driver ? s->driver : 13000;
    s->devices = s->devices ? s->devices : 1;
    s->devices = s->devices < 0 ? 0 : s->devices > DEVICES_MAX ? DEVICES_MAX : s->devices;
    start_draws(s->seed);
    driver.set_up = true;
}

void sc_standin_reset(const sc_standin_settings *settings) {
    pthread_mutex_lock(&lock);
    captures_reset();
    schedule_reset();
    objects_reset();
    streams_reset();
    memory_reset();
    set_up(settings);
    pthread_mutex_unlock(&lock);
}

void sc_standin_seed(unsigned long long seed) {
    pthread_mutex_lock(&lock);
    driver.settings.seed = seed;
    start_draws(seed);
    pthread_mutex_unlock(&lock);
}

static void count_contexts(void) {
    driver.log.contexts = 0;
    for (int i = 0; i < DEVICES_MAX; i++)
        driver.log.contexts += driver.contexts[i].retained > 0;
}

void sc_standin_read(sc_standin_log *log) {
    pthread_mutex_lock(&lock);
    count_contexts();
    *log = driver.log;
    pthread_mutex_unlock(&lock);
}

/* One "name value" a line. */
__attribute__((destructor)) static void write_log(void) {
    const char *path = getenv("SC_STANDIN_LOG");
    const sc_standin_log *l = &driver.log;
    FILE *file = path && *path && driver.set_up ? fopen(path, "w") : NULL;
    if (file) {
        count_contexts();
        fprintf(file, "failed %s\n", l->failed);
        fprintf(file, "calls %lld\nwait_places %d\nmistakes %d\n", (long long)l->calls,
                l->wait_places, l->mistakes);
        fprintf(file, "allocations %d\npinned %d\nstreams %d\nevents %d\nmodules %d\n",
                l->allocations, l->pinned, l->streams, l->events, l->modules);
        fprintf(file, "graphs %d\ngraph_execs %d\ncontexts %d\n", l->graphs, l->graph_execs,
                l->contexts);
        fprintf(file, "bytes %zu\npeak %zu\nallocated %lld\nlaunches %lld\ncopies %lld\n", l->bytes,
                l->peak, (long long)l->allocated, (long long)l->launches, (long long)l->copies);
        fprintf(file, "mistake %s\n", l->mistake);
        fclose(file);
    }
    sc_standin_reset(NULL);
    free((char *)(uintptr_t)driver.settings.kernels);
}

/* --- calls --- */

static CUresult count_call(const char *call, unsigned flags) {
    if (!(flags & COUNTED) || ++driver.log.calls != driver.settings.fail)
        return 0;
    driver.lost = flags & ORDERS;
    snprintf(driver.log.failed, sizeof driver.log.failed, "%s", call);
    return flags & ALLOCATES ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

CUresult driver_enter(const char *call, unsigned flags) {
    pthread_mutex_lock(&lock);
    if (!driver.set_up)
        set_up(NULL);
    const CUresult failed = count_call(call, flags);
    if (failed)
        return failed;
    const context *current = driver_context();
    if (flags & CONTEXT && !driver.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (flags & CONTEXT && !current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags & CONTEXT && !current->retained)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (flags & WORK && driver.raised)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return flags & (ALLOCATES | OUTSIDE) ? capture_forbid() : 0;
}

CUresult driver_leave(CUresult result) {
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult driver_raise(void) {
    if (!driver.broken)
        return 0;
    driver.raised = true;
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

int sc_standin_count(const char *call) {
    pthread_mutex_lock(&lock);
    if (!driver.set_up)
        set_up(NULL);
    const CUresult failed = count_call(call, COUNTED);
    pthread_mutex_unlock(&lock);
    return failed != 0;
}

void driver_report(const char *format, ...) {
    char text[sizeof driver.log.mistake];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!driver.settings.quiet)
        fprintf(stderr, "standin: %s\n", text);
    if (!driver.log.mistakes++)
        memcpy(driver.log.mistake, text, sizeof text);
    driver.broken = true;
}

/* xorshift64*. */
uint64_t driver_draw(uint64_t below) {
    driver.random ^= driver.random >> 12;
    driver.random ^= driver.random << 25;
    driver.random ^= driver.random >> 27;
    return (driver.random * 0x2545f4914f6cdd1du >> 33) % below;
}
