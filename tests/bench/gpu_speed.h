/* gpu_speed.h - how fast a casting generates on a device: a unit (gpu_unit.h) of gpu-check. */
#ifndef SC_GPU_SPEED_H
#define SC_GPU_SPEED_H

#include "../../runtime/options.h"
#include "gpu_unit.h"

typedef struct {
    const char *folder, *weights; /* of the casting; its weights */
    sc_options options;
    int prompt, tokens; /* fed at once, then one by one */
} gpu_speed;

/* what: gpu_speed. Adds open_seconds, prefill_tokens_per_second and decode_tokens_per_second, the
 * last two medians of some runs. */
int gpu_speed_run(cJSON *answer, const void *what, sc_error *err);

#endif
