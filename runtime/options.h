/*
 * options.h - what the caller of a casting may choose when it is created.
 *
 * All zero is the default: every core, no checksum.
 */
#ifndef SC_OPTIONS_H
#define SC_OPTIONS_H

#include <stdbool.h>

typedef struct {
    int threads;        /* 0: all cores */
    bool check;         /* verify the weights' checksum at open */
    const char *device; /* NULL, "cpu": the processor; "cuda:N" where the casting has device code */
    bool no_graph;      /* on a device: launch every kernel of a token instead of one graph */
} sc_options;

#endif
