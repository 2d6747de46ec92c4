/* source.c - see source.h. */
#include "source.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "safetensors.h"

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

static int open_folder(sc_source *s, sc_pool *pool, const char *folder, const char *config,
                       bool weights, sc_error *err) {
    const char *path;
    add_input(s, config);
    int rc = sc_json_read(&s->json, config, CONFIG_LIMIT, err);
    if (!rc)
        rc = read_optional(&s->generation, s, pool, folder, "generation_config.json", CONFIG_LIMIT,
                           &path, err);
    if (!rc) {
        sc_config *made;
        rc = sc_config_make(&made, pool, config, s->json, s->generation, err);
        if (!rc)
            s->config = made;
    }
    if (rc || !weights)
        return rc;
    rc = read_optional(&s->tokenizer_json, s, pool, folder, "tokenizer.json", TOKENIZER_LIMIT,
                       &s->tokenizer_file, err);
    s->tokenizer = s->tokenizer_json;
    if (!rc)
        rc = sc_safetensors_open(&s->tensors, pool, folder, err);
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
    rc = sc_config_make(&made, pool, path, s->gguf->config, s->gguf->generation, err);
    if (!rc)
        s->config = made;
    return rc;
}

int sc_source_open(sc_source **source, sc_pool *pool, const char *model, bool with_weights,
                   sc_error *err) {
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
        rc = config ? open_folder(s, pool, model, config, with_weights, err)
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
        rc = open_folder(s, pool, slash ? folder : ".", model, false, err);
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
