/*
 * cubin.h - the device code of a CUDA casting, compiled and put into NAME_cubin.c.
 */
#ifndef SC_CUBIN_H
#define SC_CUBIN_H

#include "file.h"
#include "nvrtc.h"
#include "plan.h"
#include "template.h"

/* A cubin for each of the plan's architectures, and PTX of the lowest for later devices. SC_EENV:
 * no NVRTC; SC_EINPUT: a template does not compile: its own file and line are named. */
int sc_cubin_write(sc_folder *folder, const sc_plan *plan, const sc_values *values, sc_error *err);

/* NVRTC's log with the lines of text that it names replaced by those of its templates:
 * "NAME_cuda.cu(12): error: …" becomes "templates/cuda/norm.cu:7: error: …". In the pool. */
const char *sc_cubin_translate(sc_pool *pool, const char *log, const char *name,
                               const sc_template_map *map, const char *text);

#endif
