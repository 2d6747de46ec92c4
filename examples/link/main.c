/*
 * main.c - a program that links a casting: token ids in, greedy token ids out.
 *
 *     link WEIGHTS 41,84,364 12
 */
#include <stdio.h>
#include <stdlib.h>

#include "austen.h"

/* Reads "1,2,3" into ids; returns how many, -1 when it is no such list. */
static int read_ids(int32_t *ids, int room, const char *text) {
    int count = 0;
    for (char *end; count < room; text = end + 1) {
        const long id = strtol(text, &end, 10);
        if (end == text || id < 0 || id >= austen_VOCAB)
            return -1;
        ids[count++] = (int32_t)id;
        if (!*end)
            return count;
        if (*end != ',')
            return -1;
    }
    return -1;
}

static int32_t greatest(const float *logits) {
    int32_t best = 0;
    for (int32_t id = 1; id < austen_VOCAB; id++)
        if (logits[id] > logits[best])
            best = id;
    return best;
}

/* Feeds the prompt at once, then each new token but the last. */
static int generate(austen_model *model, austen_cache *cache, const int32_t *prompt, int count,
                    int new_tokens, sc_error *err) {
    static float logits[austen_VOCAB];
    int32_t id = 0;
    for (int made = 0; made < new_tokens; made++) {
        const int rc =
            made ? austen_model_forward(model, cache, &id, 1, logits, 0, err)
                 : austen_model_forward(model, cache, prompt, count, logits, 0, err);
        if (rc)
            return rc;
        id = greatest(logits);
        printf("%s%d", made ? "," : "", (int)id);
    }
    printf("\n");
    return SC_OK;
}

int main(int argc, char **argv) {
    static int32_t prompt[austen_MAX_CACHE_LEN];
    const int count = argc == 4 ? read_ids(prompt, austen_MAX_CACHE_LEN, argv[2]) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: link WEIGHTS 1,2,3 NEW_TOKENS (ids below %d)\n", austen_VOCAB);
        return 2;
    }
    austen_model *model = NULL;
    austen_cache *cache = NULL;
    sc_error err = { 0, "" };
    int rc = austen_model_open(&model, argv[1], NULL, &err);
    if (!rc)
        rc = austen_cache_create(&cache, &err);
    if (!rc)
        rc = generate(model, cache, prompt, count, atoi(argv[3]), &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    austen_cache_destroy(cache);
    austen_model_close(model);
    return rc ? 1 : 0;
}
