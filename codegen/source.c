/* source.c - see source.h. */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "mxfp4.h"
#include "safetensors.h"
#include "text_part.h"

enum { CONFIG_LIMIT = 16 << 20, TOKENIZER_LIMIT = 256 << 20 };

static bool is_gguf(const char *path) {
    FILE *f = fopen(path, "rb");
    char magic[4] = "";
    const bool yes = f && fread(magic, 1, 4, f) == 4 && !memcmp(magic, "GGUF", 4);
    if (f)
        fclose(f);
    const size_t n = strlen(path);
    return yes || (n > 5 && !strcmp(path + n - 5, ".gguf"));
}

static void add_input(sc_source *s, const char *path) {
    for (int i = 0; i < s->inputs; i++)
        if (!strcmp(s->input[i], path))
            return;
    if (s->inputs < SC_INPUTS)
        s->input[s->inputs++] = path;
}

/* A file of the folder that need not be there. */
static int read_optional(cJSON **json, sc_source *s, sc_pool *pool, const char *folder,
                         const char *file, size_t limit, const char **path, sc_error *err) {
    *path = sc_pool_printf(pool, "%s/%s", folder, file);
    if (!*path)
        return sc_oom(err, "opening the model");
    if (access(*path, F_OK))
        return SC_OK;
    add_input(s, *path);
    return sc_json_read(json, *path, limit, err);
}

static int same_values(bool *same, const sc_tensor *a, const sc_tensor *b, sc_error *err) {
    *same = a->rank == 2 && b->rank == 2 && a->shape[0] == b->shape[0] &&
            a->shape[1] == b->shape[1] && a->dtype != SC_DTYPE_OTHER && b->dtype != SC_DTYPE_OTHER;
    if (!*same)
        return SC_OK;
    const size_t width = (size_t)a->shape[1];
    float *row = calloc(2 * width + 1, sizeof *row);
    int rc = row ? SC_OK : sc_oom(err, "comparing lm_head with the embedding");
    for (int64_t i = 0; i < a->shape[0] && *same && !rc; i++) {
        rc = sc_tensor_read(a, i, 1, row, err);
        if (!rc)
            rc = sc_tensor_read(b, i, 1, row + width, err);
        *same = !memcmp(row, row + width, width * sizeof *row);
    }
    free(row);
    return rc;
}

static int add_note(sc_config *config, sc_pool *pool, const char *text, sc_error *err) {
    const char **note = sc_pool_alloc(pool, (size_t)config->notes + 1, sizeof *note);
    if (!note || !text)
        return sc_oom(err, "opening the model");
    for (int i = 0; i < config->notes; i++)
        note[i] = config->note[i];
    note[config->notes++] = text;
    config->note = note;
    return SC_OK;
}

/* Of a multimodal model the text alone is cast. */
static int take_text_part(sc_source *s, sc_config *config, sc_pool *pool, sc_error *err) {
    const char *skipped = NULL;
    const int rc = config->nested ? sc_text_part(s->tensors, &skipped, pool, err) : SC_OK;
    if (rc || !skipped)
        return rc;
    return add_note(config, pool,
                    sc_pool_printf(pool, "weights: not of the text model, skipped: %s", skipped),
                    err);
}

/* tie_word_embeddings shares what the file does not tell apart: a lm_head of its own that differs
 * from the embedding wins, as in transformers' tie_weights, and is reported. */
static int untie(sc_source *s, sc_config *config, sc_pool *pool, sc_error *err) {
    const sc_tensor *head = sc_tensors_find(s->tensors, "lm_head.weight"),
                    *embed = sc_tensors_find(s->tensors, "model.embed_tokens.weight");
    bool same = true;
    if (!config->tie_word_embeddings || !head || !embed)
        return SC_OK;
    const int rc = same_values(&same, head, embed, err);
    if (rc || same)
        return rc;
    config->tie_word_embeddings = false;
    return add_note(config, pool,
                    "tie_word_embeddings: true, but lm_head.weight differs from "
                    "model.embed_tokens.weight; lm_head.weight is used",
                    err);
}

static int open_folder(sc_source *s, sc_pool *pool, const char *folder, const char *config,
                       bool weights, bool generic, sc_error *err) {
    const char *path;
    add_input(s, config);
    int rc = sc_json_read(&s->json, config, CONFIG_LIMIT, err);
    if (!rc)
        rc = read_optional(&s->generation, s, pool, folder, "generation_config.json", CONFIG_LIMIT,
                           &path, err);
    sc_config *made;
    if (!rc)
        rc = sc_config_make(&made, pool, config, s->json, s->generation, generic, err);
    if (!rc)
        s->config = made;
    if (rc || !weights)
        return rc;
    rc = read_optional(&s->tokenizer_json, s, pool, folder, "tokenizer.json", TOKENIZER_LIMIT,
                       &s->tokenizer_file, err);
    s->tokenizer = s->tokenizer_json;
    if (!rc && s->tokenizer)
        rc = sc_chat_of_folder(&s->chat, pool, folder, made, err);
    for (int i = 0; !rc && s->chat && i < s->chat->inputs; i++)
        add_input(s, s->chat->input[i]);
    if (!rc)
        rc = sc_safetensors_open(&s->tensors, pool, folder, err);
    if (!rc)
        rc = take_text_part(s, made, pool, err);
    if (!rc && made->mxfp4)
        rc = sc_mxfp4_pair(s->tensors, pool, err);
    if (!rc)
        rc = untie(s, made, pool, err);
    if (rc)
        return rc;
    const char *index = sc_pool_printf(pool, "%s/model.safetensors.index.json", folder);
    const char *single = sc_pool_printf(pool, "%s/model.safetensors", folder);
    if (index && single && access(single, F_OK))
        add_input(s, index);
    for (int i = 0; i < s->tensors->count; i++)
        if (!i || s->tensors->tensor[i].file != s->tensors->tensor[i - 1].file)
            add_input(s, s->tensors->tensor[i].file);
    return SC_OK;
}

static int open_gguf(sc_source *s, sc_pool *pool, const char *path, sc_error *err) {
    add_input(s, path);
    int rc = sc_gguf_open(&s->gguf, pool, path, err);
    if (rc)
        return rc;
    s->tensors = s->gguf->tensors;
    s->tokenizer = s->gguf->tokenizer;
    s->tokenizer_file = path;
    sc_config *made;
    rc = sc_config_make(&made, pool, path, s->gguf->config, s->gguf->generation, false, err);
    if (!rc)
        s->config = made;
    if (!rc && s->tokenizer)
        rc = sc_chat_of_gguf(&s->chat, pool, path, s->gguf, made, err);
    return rc;
}

int sc_source_open(sc_source **source, sc_pool *pool, const char *model, bool with_weights,
                   bool generic, sc_error *err) {
    sc_source *s = sc_pool_alloc(pool, 1, sizeof *s);
    struct stat st;
    if (s)
        s->input = sc_pool_alloc(pool, SC_INPUTS, sizeof *s->input);
    if (!s || !s->input)
        return sc_oom(err, "opening the model");
    if (stat(model, &st))
        return sc_fail(
            err, SC_EINPUT,
            "%s: there is no such model (give an HF folder, its config.json or a GGUF file)",
            model);
    int rc;
    if (S_ISDIR(st.st_mode)) {
        const char *config = sc_pool_printf(pool, "%s/config.json", model);
        rc = config ? open_folder(s, pool, model, config, with_weights, generic, err)
                    : sc_oom(err, "opening the model");
    } else if (is_gguf(model))
        rc = open_gguf(s, pool, model, err);
    else {
        /* A config.json alone: its folder may hold generation_config.json, weights are not looked
         * for. */
        char *folder = sc_pool_strdup(pool, model);
        if (!folder)
            return sc_oom(err, "opening the model");
        char *slash = strrchr(folder, '/');
        if (slash)
            slash[slash == folder] = 0;
        rc = open_folder(s, pool, slash ? folder : ".", model, false, generic, err);
    }
    if (rc)
        sc_source_close(s);
    else
        *source = s;
    return rc;
}

void sc_source_close(sc_source *s) {
    if (!s)
        return;
    cJSON_Delete(s->json);
    cJSON_Delete(s->generation);
    cJSON_Delete(s->tokenizer_json);
    if (s->gguf)
        sc_gguf_close(s->gguf); /* closes its tensors too */
    else
        sc_tensors_close(s->tensors);
}
