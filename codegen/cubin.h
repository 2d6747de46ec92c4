/*
 * cubin.h - the device code of a CUDA casting, compiled and put into NAME_cubin.c.
 *
 * Compile errors are those of the template that the line came from, not of NAME_cuda.cu.
 */
#ifndef SC_CUBIN_H
#define SC_CUBIN_H

#include "file.h"
#include "nvrtc.h"
#include "plan.h"
#include "template.h"

/*
 * NAME_cubin.c: a cubin for each of the plan's architectures, and PTX of the lowest for later ones.
 * *toolkit is 13000 when CUDA 13.0 made it: its bytes depend on that too.
 * SC_EENV    there is no NVRTC, or one that does not know an architecture.
 * SC_EINPUT  a template does not compile: the first error is the message, the whole log goes to
 *            stderr.
 */
int sc_cubin_write(int *toolkit, sc_folder *folder, const sc_plan *plan, const sc_values *values,
                   sc_error *err);

/* sc_nvrtc_compile of a rendered source; its errors as above. */
int sc_cubin_compile(sc_nvrtc_code *cubin, sc_nvrtc_code *ptx, const char **log,
                     const sc_nvrtc *nvrtc, sc_pool *pool, const char *name, const char *source,
                     const sc_template_map *map, int sm, bool verbose, sc_error *err);

/* NVRTC's log of the source `name` (its text) with places in templates: "NAME_cuda.cu(12): error:
 * …" becomes "templates/cuda/norm.cu:7: error: …". In the pool; NULL: no memory. */
const char *sc_cubin_translate(sc_pool *pool, const char *log, const char *name,
                               const sc_template_map *map, const char *text);

#endif
