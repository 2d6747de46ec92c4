/* cmd_export.c - export and pack: the casting, or what one of a config alone still lacks. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emit.h"
#include "json.h"
#include "options.h"

static bool has_weights(const char *model) {
    struct stat st;
    char path[4096];
    if (stat(model, &st) || !S_ISDIR(st.st_mode))
        return true; /* a GGUF file; a config.json alone never asks */
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    if (!access(path, F_OK))
        return true;
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", model);
    return !access(path, F_OK);
}

/* What a casting was made from, beside its options. */
typedef struct {
    const char *config; /* digest of config.json, NULL: none was there */
    const char *layout;
} origin;

static int read_origin(origin *from, const char *dir, sc_pool *pool, sc_error *err) {
    const char *path = sc_pool_printf(pool, "%s/manifest.json", dir);
    cJSON *json = NULL;
    const int rc =
        path ? sc_json_read(&json, path, 64 << 20, err) : sc_oom(err, "reading the manifest");
    if (rc)
        return rc;
    *from = (origin){ NULL, "" };
    const cJSON *input, *layout = sc_json_get(json, "layout");
    if (cJSON_IsString(layout))
        from->layout = sc_pool_strdup(pool, layout->valuestring);
    cJSON_ArrayForEach(input, sc_json_get(json, "inputs")) {
        const cJSON *file = sc_json_get(input, "file"), *sum = sc_json_get(input, "sha256");
        if (cJSON_IsString(file) && cJSON_IsString(sum) &&
            !strcmp(file->valuestring, "config.json"))
            from->config = sc_pool_strdup(pool, sum->valuestring);
    }
    cJSON_Delete(json);
    return from->layout ? SC_OK : sc_oom(err, "reading the manifest");
}

/* Weights go into a casting of the same config.json; those of a GGUF file, which has none, into one
 * of the same layout. */
static int check_origin(const origin *from, const char *dir, const char *model,
                        const sc_source *source, const sc_plan *plan, sc_pool *pool,
                        sc_error *err) {
    char hex[65];
    if (!source->tensors)
        return sc_fail(err, SC_EINPUT, "%s: has no weights to pack (give the model's folder)",
                       model);
    if (from->config && !source->gguf) {
        const int rc = sc_export_digest(hex, source->config->path, err);
        if (rc || !strcmp(hex, from->config))
            return rc;
        return sc_fail(err, SC_EINPUT,
                       "%s: sha256 %s, but %s was exported from one with %s (export it anew)",
                       source->config->path, hex, dir, from->config);
    }
    const int rc = sc_emit_layout(hex, pool, plan, err);
    if (rc || !strcmp(hex, from->layout))
        return rc;
    return sc_fail(err, SC_EINPUT, "%s: layout %s, but %s has layout %s (export it anew)", model,
                   hex, dir, from->layout);
}

/* from: NULL, or what the casting in dir must have been made from. */
static int export_to(const char *dir, const char *model, const origin *from,
                     const sc_export_options *options, sc_pool *pool, FILE *out, sc_error *err) {
    sc_source *source = NULL;
    int rc = sc_source_open(&source, pool, model, has_weights(model) && !options->only_cache,
                            options->generic, err);
    if (rc)
        return rc;
    const sc_plan *plan = NULL;
    rc = sc_export_plan(&plan, pool, source, options, err);
    if (!rc && from)
        rc = check_origin(from, dir, model, source, plan, pool, err);
    for (int i = 0; i < source->config->notes && !rc && !options->quiet; i++)
        fprintf(stderr, "%s: %s\n", source->config->path, source->config->note[i]);
    if (!rc)
        rc = sc_export_write(dir, pool, source, plan, options->quiet, err);
    if (!rc && out && !options->quiet) {
        char text[32];
        fprintf(out, "%s: %s, %d layers, cache %s", dir, plan->options.name, plan->layers,
                sc_bytes_text(text, plan->arena_bytes));
        if (!plan->graph)
            fprintf(out, "\n");
        else if (source->tensors)
            fprintf(out, ", weights %s\n", sc_bytes_text(text, plan->weights_bytes));
        else
            fprintf(out, ", no weights yet (slipcast pack MODEL %s)\n", dir);
    }
    sc_source_close(source);
    return rc;
}

int sc_cmd_export(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    if (!cli->output)
        return sc_fail(err, SC_EUSAGE, "export: where to? (-o DIR)");
    return export_to(cli->output, cli->model[0], NULL, &cli->export, pool, out, err);
}

/* Packing is exporting again, with the casting's own options, from a model that has weights. */
int sc_cmd_pack(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    if (cli->models != 2)
        return sc_fail(err, SC_EUSAGE, "pack: MODEL and DIR are wanted");
    sc_export_options options;
    origin from;
    int rc = sc_export_read_options(&options, pool, cli->model[1], err);
    if (!rc)
        rc = read_origin(&from, cli->model[1], pool, err);
    if (rc)
        return rc;
    if (!has_weights(cli->model[0]))
        return sc_fail(err, SC_EINPUT,
                       "%s: has no model.safetensors or model.safetensors.index.json to pack",
                       cli->model[0]);
    options.quiet = cli->export.quiet;
    return export_to(cli->model[1], cli->model[0], &from, &options, pool, out, err);
}
