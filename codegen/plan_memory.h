/*
 * plan_memory.h - what fits into a memory: the longest cache and the widest batch.
 *
 * Every answer is found by bisection over real plans (sc_plan_make), so it is exact: it fits, and
 * one more token, or row, does not. Each trial has a pool of its own, dropped at once, so a
 * search takes no more memory than one plan.
 *
 * Fits    the device's arena, the cache's scratch, and when the graph is known the scratch of the
 *         forward pass and the weights. Not: what each thread adds (thread_scratch_bytes), nor the
 *         program itself.
 * Units   bytes, unless a name says tokens or rows.
 */
#ifndef SC_PLAN_MEMORY_H
#define SC_PLAN_MEMORY_H

#include "plan.h"

/* Why it is no more. */
typedef enum {
    SC_LIMIT_MEMORY,    /* one more does not fit */
    SC_LIMIT_POSITIONS, /* the config's max_position_embeddings */
    SC_LIMIT_PLAN       /* the largest that sc_plan_make takes */
} sc_memory_limit;

typedef struct {
    int64_t batch_size, max_cache_len; /* the one that was looked for is 0 when none fits */
    uint64_t bytes;                    /* that this needs; when none fits, that the least needs */
    uint64_t host_bytes;               /* beside it, on the host */
    sc_memory_limit limit;
} sc_memory_fit;

enum { SC_MEMORY_BATCHES = 6 }; /* 1, 2, 4, 8, 16, 32 */

typedef struct {
    uint64_t bytes; /* of the memory */
    int lengths;
    sc_memory_fit length[SC_MEMORY_BATCHES]; /* the longest cache per batch */
    sc_memory_fit batch;                     /* the widest batch for the plan's max_cache_len */
} sc_memory;

/* "24GiB", "512MiB", "24GB", "1073741824". SC_EUSAGE names option and value. */
int sc_memory_read(uint64_t *bytes, const char *option, const char *text, sc_error *err);

/* What has to fit for a plan. */
uint64_t sc_memory_needed(const sc_plan *plan);

/*
 * Plans config and graph (NULL: the cache alone) with other options and keeps the sizes only.
 * SC_EINPUT: sizes that overflow; else as sc_plan_make.
 */
typedef struct {
    uint64_t needed;       /* sc_memory_needed */
    uint64_t device, host; /* the arenas */
} sc_memory_sizes;
int sc_memory_try(sc_memory_sizes *sizes, const sc_config *config, const sc_graph *graph,
                  const sc_plan_options *options, sc_error *err);

/* The longest cache of batch_size rows, at least --rewind tokens; the plan's other options. */
int sc_memory_longest(sc_memory_fit *fit, const sc_plan *plan, int64_t batch_size, uint64_t bytes,
                      sc_error *err);
/* The widest batch at the plan's max_cache_len. */
int sc_memory_widest(sc_memory_fit *fit, const sc_plan *plan, uint64_t bytes, sc_error *err);

/* Both; given_batch: the lengths for the plan's batch_size alone. */
int sc_memory_make(sc_memory *memory, const sc_plan *plan, uint64_t bytes, bool given_batch,
                   sc_error *err);

void sc_memory_print(FILE *out, const sc_plan *plan, const sc_memory *memory);
/* The value of the key "memory". */
void sc_memory_print_json(FILE *out, const sc_plan *plan, const sc_memory *memory);
const char *sc_memory_limit_name(sc_memory_limit limit);

#endif
