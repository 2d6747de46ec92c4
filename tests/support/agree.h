/*
 * agree.h - a model of noise computed on the stand-in driver and on the processor, which the
 * reference has judged.
 */
#ifndef SC_TEST_AGREE_H
#define SC_TEST_AGREE_H

/* What is cast: of a config.json, whose vocabulary has AGREE_VOCAB ids, as NAME; options are the
 * command's, besides the batch and the cache's length; so many tokens of each row are the prompt.
 */
typedef struct {
    const char *name, *config, *options;
    int batch, tokens;
    double tolerance; /* of the largest logit */
} agree_model;

enum { AGREE_VOCAB = 61 };

/* Every position's logits: of the prompt in two pieces, the second row beginning with padding, then
 * of three tokens one by one. Fails the test. */
void agree_check(const agree_model *model);

#endif
