/* objects.c - see driver.h: handles. */
#include <stdlib.h>

#include "driver.h"

static object *objects;

static int *count_of(uint32_t magic) {
    sc_standin_log *log = &driver.log;
    switch (magic) {
    case STREAM:
        return &log->streams;
    case EVENT:
        return &log->events;
    case GRAPH:
        return &log->graphs;
    case EXEC:
        return &log->graph_execs;
    case MODULE:
        return &log->modules;
    default:
        return NULL;
    }
}

void *object_create(uint32_t magic, size_t bytes, void (*drop)(object *self)) {
    object *o = calloc(1, bytes);
    if (!o)
        return NULL;
    *o = (object){ .magic = magic, .owner = driver_context(), .next = objects, .drop = drop };
    objects = o;
    int *count = count_of(magic);
    if (count)
        ++*count;
    return o;
}

void object_destroy(object *self) {
    int *count = count_of(self->magic);
    if (count)
        --*count;
    self->magic = 0;
    if (self->drop)
        self->drop(self);
    self->drop = NULL;
}

CUresult object_check(const void *handle, uint32_t magic) {
    const object *o = handle;
    return o && o->magic == magic && o->owner == driver_context() ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_HANDLE;
}

/* A module's end looks at its functions: nothing is freed before all have ended. */
void objects_reset(void) {
    for (object *o = objects; o; o = o->next)
        if (o->drop)
            o->drop(o);
    while (objects) {
        object *o = objects;
        objects = o->next;
        free(o);
    }
}
