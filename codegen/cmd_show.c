/* cmd_show.c - inspect and plan: what would be cast, before anything is. */
#include "options.h"
#include "plan_html.h"
#include "plan_memory.h"

static void say_notes(const sc_config *config) {
    for (int i = 0; i < config->notes; i++)
        fprintf(stderr, "%s: %s\n", config->path, config->note[i]);
}

int sc_cmd_inspect(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    sc_source *source = NULL;
    int rc = sc_source_open(&source, pool, cli->model[0], false, cli->export.generic, err);
    if (rc)
        return rc;
    const sc_config *config = source->config;
    sc_graph *graph = NULL;
    if (!config->unsupported)
        rc = sc_graph_make(&graph, pool, config, err);
    if (!rc) {
        if (graph)
            sc_graph_print(out, graph, config);
        else
            fprintf(out, "no graph: %s\n", config->unsupported);
        fprintf(out, "\n");
        for (int i = 0; i < config->entries; i++) {
            const sc_config_entry *e = &config->entry[i];
            fprintf(out, "%-28s %-24s %s\n", e->key, e->value, e->from);
        }
        for (int i = 0; i < config->notes; i++)
            fprintf(out, "note: %s\n", config->note[i]);
    }
    sc_source_close(source);
    return rc;
}

static void say_plan(const sc_cli *cli, const sc_source *source, const sc_plan *plan) {
    if (cli->export.quiet)
        return;
    say_notes(source->config);
    if (!plan->graph && !cli->export.only_cache)
        fprintf(stderr, "%s (this is the plan of its cache)\n", source->config->unsupported);
}

/* --json: all of it; else the table, or in its place what --memory and --html ask for. */
static void print_plan(const sc_cli *cli, const sc_plan *plan, const sc_memory *memory, FILE *out) {
    if (cli->json) {
        sc_plan_print_json_keys(out, plan);
        if (cli->memory) {
            fprintf(out, ",\n  \"memory\": ");
            sc_memory_print_json(out, plan, memory);
        }
        fprintf(out, "\n}\n");
    } else if (cli->memory)
        sc_memory_print(out, plan, memory);
    else if (!cli->html)
        sc_plan_print(out, plan);
}

int sc_cmd_plan(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    sc_source *source = NULL;
    int rc = sc_source_open(&source, pool, cli->model[0], false, cli->export.generic, err);
    if (rc)
        return rc;
    const sc_plan *plan = NULL;
    sc_memory memory;
    sc_export_options options = cli->export;
    options.only_cache |= source->config->unsupported != NULL;
    rc = sc_export_plan(&plan, pool, source, &options, err);
    if (!rc && cli->memory)
        rc = sc_memory_make(&memory, plan, cli->memory, cli->given_batch, err);
    if (!rc && cli->html)
        rc = sc_plan_write_html(cli->html, pool, plan, cli->given_batch, err);
    if (!rc) {
        say_plan(cli, source, plan);
        print_plan(cli, plan, &memory, out);
    }
    sc_source_close(source);
    return rc;
}
