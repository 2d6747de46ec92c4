/* cmd_export.c - export and pack: the casting, or what one of a config alone still lacks. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int export_to(const char *dir, const char *model, const sc_export_options *options,
                     sc_pool *pool, FILE *out, sc_error *err) {
    sc_source *source = NULL;
    int rc = sc_source_open(&source, pool, model, has_weights(model), err);
    if (rc)
        return rc;
    const sc_plan *plan = NULL;
    rc = sc_export_plan(&plan, pool, source, options, err);
    for (int i = 0; i < source->config->notes && !rc && !options->quiet; i++)
        fprintf(stderr, "%s: %s\n", source->config->path, source->config->note[i]);
    if (!rc)
        rc = sc_export_write(dir, pool, source, plan, options->quiet, err);
    if (!rc && out && !options->quiet) {
        char text[32];
        fprintf(out, "%s: %s, %d layers, cache %s", dir, plan->options.name, plan->graph->layers,
                sc_bytes_text(text, plan->arena_bytes));
        if (source->tensors)
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
    return export_to(cli->output, cli->model[0], &cli->export, pool, out, err);
}

/* Packing is exporting again, with the casting's own options, from a model that has weights. */
int sc_cmd_pack(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    if (cli->models != 2)
        return sc_fail(err, SC_EUSAGE, "pack: MODEL and DIR are wanted");
    sc_export_options options;
    int rc = sc_export_read_options(&options, pool, cli->model[1], err);
    if (rc)
        return rc;
    if (!has_weights(cli->model[0]))
        return sc_fail(err, SC_EINPUT,
                       "%s: has no model.safetensors or model.safetensors.index.json to pack",
                       cli->model[0]);
    options.quiet = cli->export.quiet;
    return export_to(cli->model[1], cli->model[0], &options, pool, out, err);
}
