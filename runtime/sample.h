/*
 * sample.h - the next token from a row of logits.
 *
 * In the order of transformers: repetition_penalty, temperature, top_k, top_p, min_p. The same
 * seed, logits and history give the same tokens on every machine with the same libm.
 *
 * Owner    the caller; sc_sampler_create takes all memory, nothing is allocated afterwards.
 */
#ifndef SC_SAMPLE_H
#define SC_SAMPLE_H

#include "error.h"

#include <stdint.h>

typedef struct {
    float temperature;        /* 0: the greatest logit, of equal ones the lowest id */
    int top_k;                /* 0: all; those equal to the k-th stay too */
    float top_p;              /* 0 or 1: all */
    float min_p;              /* 0: all; else at least this part of the best one's probability */
    float repetition_penalty; /* 0 or 1: none */
    uint64_t seed;
} sc_sampling;

typedef struct sc_sampler sc_sampler;

/* SC_EUSAGE names the option that is out of its range; SC_EENV: no memory. */
int sc_sampler_create(sc_sampler **out, const sc_sampling *sampling, int vocab, sc_error *err);

/* logits [vocab] stay as they are; history holds the tokens so far and may be NULL when count is 0.
 */
int32_t sc_sampler_next(sc_sampler *sampler, const float *logits, const int32_t *history,
                        int count);

/* NULL is allowed. */
void sc_sampler_destroy(sc_sampler *sampler);

#endif
