/* cmd_show.c - inspect and plan: what would be cast, before anything is. */
#include "options.h"

static void say_notes(const sc_config *config) {
    for (int i = 0; i < config->notes; i++)
        fprintf(stderr, "%s: %s\n", config->path, config->note[i]);
}

int sc_cmd_inspect(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    sc_source *source = NULL;
    int rc = sc_source_open(&source, pool, cli->model[0], false, err);
    if (rc)
        return rc;
    sc_graph *graph = NULL;
    rc = sc_graph_make(&graph, pool, source->config, err);
    if (!rc) {
        sc_graph_print(out, graph, source->config);
        fprintf(out, "\n");
        for (int i = 0; i < source->config->entries; i++) {
            const sc_config_entry *e = &source->config->entry[i];
            fprintf(out, "%-28s %-24s %s\n", e->key, e->value, e->from);
        }
        for (int i = 0; i < source->config->notes; i++)
            fprintf(out, "note: %s\n", source->config->note[i]);
    }
    sc_source_close(source);
    return rc;
}

int sc_cmd_plan(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    sc_source *source = NULL;
    int rc = sc_source_open(&source, pool, cli->model[0], false, err);
    if (rc)
        return rc;
    const sc_plan *plan = NULL;
    rc = sc_export_plan(&plan, pool, source, &cli->export, err);
    if (!rc) {
        if (!cli->export.quiet)
            say_notes(source->config);
        (cli->json ? sc_plan_print_json : sc_plan_print)(out, plan);
    }
    sc_source_close(source);
    return rc;
}
