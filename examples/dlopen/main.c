/*
 * main.c - a program that opens any casting: prints its layers, then goes on from token ids.
 *
 *     dlopen LIBRARY WEIGHTS 41,84,364 12
 *
 * It is compiled without any casting at hand; runtime/casting.h, the same for all, is enough.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "casting.h"

/* Reads "1,2,3" into ids; returns how many, -1 when it is no such list. */
static int read_ids(int32_t *ids, int room, const char *text) {
    int count = 0;
    for (char *end; count < room; text = end + 1) {
        const long id = strtol(text, &end, 10);
        if (end == text || id < INT32_MIN || id > INT32_MAX)
            return -1;
        ids[count++] = (int32_t)id;
        if (!*end)
            return count;
        if (*end != ',')
            return -1;
    }
    return -1;
}

static const sc_casting *open_casting(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "slipcast_casting") : NULL;
    const sc_casting *(*get)(void);
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from object to function */
    if (!symbol)
        fprintf(stderr, "%s\n", dlerror());
    return symbol ? get() : NULL;
}

/* The prompt goes to every row of the batch; row 0 is printed. */
static int generate(const sc_casting *c, sc_model *model, sc_cache *cache, const int32_t *prompt,
                    int count, int new_tokens, sc_error *err) {
    const size_t rows = (size_t)c->batch, width = (size_t)c->vocab;
    float *logits = malloc(rows * width * sizeof *logits);
    int32_t *ids = malloc(rows * (size_t)count * sizeof *ids);
    int rc = logits && ids ? SC_OK : SC_EENV;
    for (size_t row = 0; row < rows && !rc; row++)
        memcpy(ids + row * (size_t)count, prompt, (size_t)count * sizeof *ids);
    for (int made = 0; made < new_tokens && !rc; made++) {
        rc = c->model_forward(model, cache, ids, made ? 1 : count, logits, 0, err);
        if (rc)
            break;
        int32_t best = 0;
        for (int32_t id = 1; id < c->vocab; id++)
            if (logits[id] > logits[best])
                best = id;
        printf("%s%d", made ? "," : "", (int)best);
        for (size_t row = 0; row < rows; row++)
            ids[row] = best;
    }
    printf("\n");
    free(logits);
    free(ids);
    return rc;
}

int main(int argc, char **argv) {
    static int32_t prompt[65536];
    const int count = argc == 5 ? read_ids(prompt, 65536, argv[3]) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: dlopen LIBRARY WEIGHTS 1,2,3 NEW_TOKENS\n");
        return 2;
    }
    const sc_casting *c = open_casting(argv[1]);
    if (!c)
        return 1;
    printf("%s: %s, batch %d, max_cache_len %d, %s\n", c->name, c->model_type, c->batch,
           c->max_cache_len, c->kv_dtype);
    for (int i = 0; i < c->layers; i++)
        printf("%d %s [%d, %lld, %lld, %lld]\n", i, c->layer[i].layer_type, c->batch,
               (long long)c->layer[i].kv_heads, (long long)c->layer[i].slots,
               (long long)c->layer[i].head_dim);
    sc_model *model = NULL;
    sc_cache *cache = NULL;
    sc_error err = { 0, "no memory" };
    int rc = c->model_open(&model, argv[2], NULL, &err);
    if (!rc)
        rc = c->cache_create(&cache, &err);
    if (!rc)
        rc = generate(c, model, cache, prompt, count, atoi(argv[4]), &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    c->cache_destroy(cache);
    c->model_close(model);
    return rc ? 1 : 0;
}
