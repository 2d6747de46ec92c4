/*
 * gpu_unit.h - one piece of gpu-check in a process of its own, which answers with JSON: what it
 * breaks, and what it leaves on the device, is gone with it.
 */
#ifndef SC_GPU_UNIT_H
#define SC_GPU_UNIT_H

#include <cjson/cJSON.h>
#include <sys/types.h>

#include "../../runtime/error.h"

/* Adds to answer, an object. */
typedef int gpu_unit_fn(cJSON *answer, const void *what, sc_error *err);

/* One that runs. */
typedef struct {
    pid_t child; /* -1: there was no process, or no pipe */
    int end;     /* of the pipe that the answer comes through */
    unsigned seconds;
} gpu_unit;

/* Starts it in the folder; what need not live longer than this call. */
gpu_unit gpu_unit_start(gpu_unit_fn *unit, const void *what, const char *folder, unsigned seconds);

/*
 * Waits for it. The answer (cJSON_Delete) has besides what it added "code", what it returned, and
 * unless that is SC_OK "reason". SC_ECHECK too: it crashed, or took longer than that many seconds.
 * NULL: no memory or no process.
 */
cJSON *gpu_unit_finish(const gpu_unit *unit);

/* Both. */
cJSON *gpu_unit_run(gpu_unit_fn *unit, const void *what, const char *folder, unsigned seconds);

/* The code, and the reason ("" without one), of an answer that may be NULL. */
int gpu_unit_code(const cJSON *answer);
const char *gpu_unit_reason(const cJSON *answer);

#endif
