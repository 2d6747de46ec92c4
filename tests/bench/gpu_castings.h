/*
 * gpu_castings.h - exports and builds the castings of gpu-check, some at once, and opens them.
 */
#ifndef SC_GPU_CASTINGS_H
#define SC_GPU_CASTINGS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "../../runtime/casting.h"

typedef struct {
    char model[1024];  /* folder or config.json */
    char options[256]; /* of export, besides name, target and architecture */
    char folder[1024]; /* made anew; absolute */
    bool made;
    bool refused;     /* by export, which cannot cast that model so */
    char reason[512]; /* why not */
} gpu_casting;

typedef struct {
    const char *slipcast, *arch; /* the program; "sm_90" */
    const char *nvcc;            /* NULL: NVRTC, at export */
    int jobs;
} gpu_build;

/* Every casting is made, or has its reason. SC_EENV: no process could be started. */
int gpu_castings_make(gpu_casting *castings, int count, const gpu_build *build, sc_error *err);

/* folder's library, for as long as the process runs. */
int gpu_casting_open(const sc_casting **api, const char *folder, sc_error *err);

/* folder's manifest.json; the caller deletes it. */
int gpu_casting_manifest(cJSON **manifest, const char *folder, sc_error *err);

#endif
