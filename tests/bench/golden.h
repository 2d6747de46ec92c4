/*
 * golden.h - a case of tests/reference/tiny: what the reference computed, and whether a casting
 * computes the same.
 *
 * Reads   FOLDER/expected.json and FOLDER/expected.safetensors, or those of ../states/NAME beside
 * the folder, where they have the case. Shapes  prompt [batch, prompt], tokens [batch, steps + 1]:
 * greedy ids; prefill [batch, prompt, vocab], decode [batch, steps, vocab]: logits. Owner   the
 * caller of open.
 */
#ifndef SC_TEST_GOLDEN_H
#define SC_TEST_GOLDEN_H

#include <stdbool.h>

#include "../../codegen/tensors.h"
#include "../../runtime/casting.h"

enum { GOLDEN_CHUNKS = 8 };

typedef struct {
    int batch, prompt, steps, max_cache_len, vocab;
    int chunks, chunk[GOLDEN_CHUNKS]; /* sizes of the prompt's pieces: their sum is prompt */
    int32_t *ids, *tokens;
    float *prefill, *decode;
    const char *path; /* of expected.json, for messages */
    sc_pool *pool;
    sc_tensors *expected;
} golden;

/* SC_EINPUT: a file that is not there or does not fit itself. */
int golden_open(golden *g, const char *folder, const char *name, sc_error *err);
void golden_close(golden *g); /* of zeros is allowed */

typedef struct {
    double tolerance; /* of a logit, relative to the largest of its piece */
    double mean;      /* of what is rounded, which may take another expert here and there, instead:
                       * of mean_error; 0: none */
    bool exact;       /* chosen ids are the reference's; else as good within twice the tolerance */
    bool odd;         /* which decode steps give logits: the odd ones; the others ids alone */
} golden_rules;

typedef struct {
    double largest;        /* of a logit, as tolerance has it */
    double squares, scale; /* sums of the errors' squares and of the reference's */
} golden_errors;

/* The root of the mean square error of all logits, relative to that of the reference's. */
double golden_mean_error(const golden_errors *errors);

/*
 * Feeds the case, teacher-forced, to an open model and an empty cache of its batch. errors: of all
 * logits so far.
 * SC_ECHECK: a logit or an id is another; the message has the place and both. What the casting
 * returns.
 */
int golden_run(const golden *g, const sc_casting *api, sc_model *model, sc_cache *cache,
               const golden_rules *rules, golden_errors *errors, sc_error *err);

/* |ours - theirs| <= tolerance * largest |theirs|, all of them, and numbers. errors may be NULL. */
int golden_compare(const char *what, const float *ours, const float *theirs, size_t count,
                   double tolerance, golden_errors *errors, sc_error *err);

#endif
