/*
 * gpu_check.h - what the parts of gpu-check share: its options, and the report that they add to.
 *
 * The report is one JSON object; a part answers whether all that it looked at was good.
 */
#ifndef SC_GPU_CHECK_H
#define SC_GPU_CHECK_H

#include "gpu_castings.h"
#include "gpu_model.h"

typedef struct {
    const char *device;    /* "cuda:0" */
    const char *reference; /* folder of tiny models, a folder each */
    const char *families;  /* "llama,qwen3"; NULL: all that are there */
    const char *variants;  /* "resident,bfloat16" (gpu_goldens.c); NULL: all */
    char work[512];        /* absolute */
    gpu_build build;
    const gpu_model *model;
    double bandwidth;            /* bytes per second of the device's memory; 0: as it says itself */
    double share, offload_share; /* targets: of the bandwidth, of the rate of PCIe */
} gpu_setup;

/* gpu_goldens.c: adds "goldens" and "left_out". */
bool gpu_goldens(cJSON *report, const gpu_setup *setup, sc_error *err);

/* gpu_bench.c: adds "bench"; facts are those of gpu_device_facts. */
bool gpu_bench(cJSON *report, const gpu_setup *setup, const cJSON *facts, sc_error *err);

#endif
