/* plan_html.c - the page of a plan; see plan_html.h. */
#include "plan_html.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "plan_memory.h"

/* Colours that stay apart for colour-blind readers (Okabe and Ito), a set for light and dark. */
static const char style[] =
    ":root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;"
    "--band:#f3f5f7;--lit:#fff3c4;--full:#0072b2;--sliding:#e69f00;--chunked:#b35a96;"
    "--indexed:#009e73;--states:#d55e00;--slots:#56b4e9;--padding:#8c959f}\n"
    "@media (prefers-color-scheme:dark){:root{--page:#12161b;--text:#e6edf3;--soft:#9aa5b1;"
    "--line:#38414b;--band:#1b222a;--lit:#453c14;--full:#4aa3df;--sliding:#f0b93a;"
    "--chunked:#d98fc1;--indexed:#2fc59b;--states:#f0803c;--slots:#9ad4f5;--padding:#6e7781}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:24px;max-width:1120px;background:var(--page);color:var(--text);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}\n"
    "h2{font-size:18px;margin:36px 0 8px}\nh3{font-size:15px;margin:20px 0 4px}\n"
    "p{margin:4px 0 10px}\n.soft{color:var(--soft)}\n"
    ".facts{display:flex;flex-wrap:wrap;gap:2px 28px;margin:10px 0;padding:0}\n"
    ".facts div{display:flex;gap:8px}\n.facts dt{color:var(--soft)}\n"
    ".facts dd{margin:0;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}\n"
    ".wide,.picture{overflow-x:auto}\n"
    "svg{display:block;width:100%;min-width:680px;height:auto}\n"
    "svg text{fill:var(--soft);font:12px system-ui,sans-serif}\n"
    "svg .middle,svg .number{text-anchor:middle}\nsvg .last{text-anchor:end}\n"
    ".full{fill:var(--full)}.sliding{fill:var(--sliding)}.chunked{fill:var(--chunked)}"
    ".indexed{fill:var(--indexed)}.states{fill:var(--states)}.slots{fill:var(--slots)}"
    ".padding{fill:var(--padding)}\n"
    ".odd{fill-opacity:.72}\nrect.lit,rect:hover{fill:var(--text);fill-opacity:1}\n"
    ".grid,.axis{stroke:var(--line);fill:none}\n"
    ".marker{stroke:var(--soft);stroke-dasharray:4 4;fill:none}\n"
    "polyline{fill:none;stroke-width:2.5;stroke-linejoin:round}\n"
    ".curve0 polyline{stroke:var(--full)}.curve0 circle{fill:var(--full)}\n"
    ".curve1 polyline{stroke:var(--sliding);stroke-dasharray:9 5}"
    ".curve1 circle{fill:var(--sliding)}\n"
    ".curve2 polyline{stroke:var(--indexed);stroke-dasharray:2 4}"
    ".curve2 circle{fill:var(--indexed)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 20px;list-style:none;margin:6px 0;padding:0}\n"
    ".legend svg{display:inline-block;width:26px;min-width:0;height:12px;margin-right:7px}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;color:var(--soft);padding-bottom:4px}\n"
    "th,td{padding:2px 12px 2px 0;text-align:left;vertical-align:top;white-space:nowrap}\n"
    "thead th{border-bottom:1px solid var(--line);font-weight:600}\n"
    "table{margin-top:8px}\n.star{display:inline-block;width:12px;text-align:left}\n"
    ".right{text-align:right}\n#layers{font-size:13px}\n"
    "#layers tbody{border-bottom:1px solid var(--line)}\n"
    "#layers tbody:nth-of-type(even){background:var(--band)}\n"
    "#layers tbody.lit{background:var(--lit)}\n"
    "#read{position:sticky;bottom:0;min-height:32px;margin:8px 0 0;padding:4px 8px;"
    "background:var(--band);color:var(--text)}\n#read:empty{visibility:hidden}\n"
    "summary{cursor:pointer}\n"
    "@media print{#read{display:none}}\n";

/* Reads out what the pointer is on, and lights the layer in pictures and table. XML takes it as it
 * is: no less-than, no ampersand. */
static const char script[] =
    "'use strict';\n"
    "(function () {\n"
    "    const read = document.getElementById('read');\n"
    "    let lit = [];\n"
    "    function light(layer) {\n"
    "        lit.forEach(function (e) { e.classList.remove('lit'); });\n"
    "        lit = layer === null ? [] :\n"
    "            Array.from(document.querySelectorAll('[data-layer=\"' + layer + '\"]'));\n"
    "        lit.forEach(function (e) { e.classList.add('lit'); });\n"
    "    }\n"
    "    document.addEventListener('mouseover', function (event) {\n"
    "        const shape = event.target.closest('rect, circle, .marker');\n"
    "        const title = shape === null ? null : shape.querySelector('title');\n"
    "        const layer = event.target.closest('[data-layer]');\n"
    "        read.textContent = title === null ? '' : title.textContent;\n"
    "        light(layer === null ? null : layer.getAttribute('data-layer'));\n"
    "    });\n"
    "    document.documentElement.setAttribute('data-script', 'ready');\n"
    "})();\n";

/* ---- title, options, totals ---- */

static void print_fact(FILE *out, const char *name, const char *value) {
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    sc_html_text(out, value);
    fprintf(out, "</dd></div>\n");
}

static void print_number(FILE *out, const char *name, long long value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", value);
    print_fact(out, name, text);
}

static void print_bytes(FILE *out, const char *name, unsigned long long bytes) {
    char text[32], both[64];
    snprintf(both, sizeof both, "%llu (%s)", bytes, sc_bytes_text(text, bytes));
    print_fact(out, name, both);
}

static void print_options(FILE *out, const sc_plan *plan) {
    const sc_plan_options *o = &plan->options;
    fprintf(out, "<dl class=\"facts\">\n");
    print_fact(out, "name", o->name);
    print_number(out, "layers", plan->layers);
    print_number(out, "max_cache_len", o->max_cache_len);
    print_number(out, "batch_size", o->batch_size);
    print_fact(out, "dtype", sc_dtype_name(o->dtype));
    print_fact(out, "kv_dtype", sc_dtype_name(o->kv_dtype));
    if (o->rewind)
        print_number(out, "rewind", o->rewind);
    print_fact(out, "offloading",
               !o->offloading       ? "no"
               : o->offload_sliding ? "yes, sliding layers too"
                                    : "yes, of layers that do not slide");
    if (plan->config->max_position_embeddings)
        print_number(out, "max_position_embeddings", plan->config->max_position_embeddings);
    if (plan->graph)
        print_fact(out, "arch", o->arch->name);
    for (int i = 0; i < o->sms; i++) {
        char sm[16];
        snprintf(sm, sizeof sm, "sm_%d", o->sm[i]);
        print_fact(out, "device arch", sm);
    }
    if (o->offload_weights)
        print_number(out, "offload_weights", o->offload_weights);
    fprintf(out, "</dl>\n");
}

/* What a device holds beside the arena and the cache's scratch. */
static void print_device(FILE *out, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    print_bytes(out, "device weights", d->weights_bytes);
    if (plan->options.offload_weights) {
        print_bytes(out, "of it slots of weights",
                    d->weight_slot[0].bytes + d->weight_slot[1].bytes);
        print_bytes(out, "pinned weights", d->host_weights_bytes);
    }
    print_bytes(out, "device scratch", d->scratch_bytes);
}

static void print_totals(FILE *out, const sc_plan *plan) {
    size_t to_device, to_host;
    fprintf(out, "<dl class=\"facts\">\n");
    print_bytes(out, plan->options.offloading ? "device arena" : "cache arena", plan->arena_bytes);
    if (plan->padding_bytes)
        print_bytes(out, "padding", plan->padding_bytes);
    if (plan->options.offloading) {
        sc_plan_moved(plan, &to_device, &to_host);
        print_bytes(out, "of it slots", plan->slot_bytes);
        print_bytes(out, "host arena", plan->host_bytes);
        print_bytes(out, "moved per token", to_device + to_host);
    }
    print_bytes(out, "cache scratch", plan->cache_scratch_bytes);
    if (plan->graph) {
        print_bytes(out, "model scratch", plan->scratch_bytes);
        print_bytes(out, "and per thread", plan->thread_scratch_bytes);
        print_bytes(out, "weights", plan->weights_bytes);
        if (plan->options.cuda)
            print_device(out, plan);
    }
    fprintf(out, "</dl>\n");
}

/* What was assumed, and why it is the cache alone; without the file's name, which is no part of the
 * model. */
static void print_notes(FILE *out, const sc_config *config) {
    const char *why = config->unsupported, *slash = strrchr(config->path, '/');
    const char *file = slash ? slash + 1 : config->path;
    const size_t length = strlen(file);
    if (why && !strncmp(why, file, length) && !strncmp(why + length, ": ", 2))
        why += length + 2;
    for (int i = 0; i < config->notes; i++) {
        fprintf(out, "<p class=\"soft\">");
        sc_html_text(out, config->note[i]);
        fprintf(out, "</p>\n");
    }
    if (!why)
        return;
    fprintf(out, "<p class=\"soft\">");
    sc_html_text(out, why);
    fprintf(out, "</p>\n");
}

static void print_head(FILE *out, const sc_plan *plan) {
    fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                 "<title>");
    sc_html_text(out, plan->config->model_type);
    fprintf(out, ": the plan of its %s</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>",
            plan->graph ? "casting" : "cache", style);
    sc_html_text(out, plan->config->model_type);
    fprintf(out, "</h1>\n<p class=\"soft\">%s</p>\n",
            plan->graph ? "Every static buffer of its casting, planned before it is built."
                        : "Every static buffer of its cache, planned before it is built; the cache "
                          "alone.");
    print_options(out, plan);
    print_totals(out, plan);
    print_notes(out, plan->config);
}

/* ---- arenas ---- */

static void print_legend(FILE *out, const sc_arena *arena, int arenas) {
    fprintf(out, "<ul class=\"legend\">\n");
    for (sc_kind kind = 0; kind < SC_KINDS; kind++) {
        size_t bytes = 0;
        for (int i = 0; i < arenas; i++)
            bytes += arena[i].kind_bytes[kind];
        if (bytes)
            fprintf(out,
                    "<li><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\"><path class=\"%s\" "
                    "d=\"M0 0h26v12h-26z\"/></svg>%s</li>\n",
                    sc_kind_name(kind), sc_kind_name(kind));
    }
    fprintf(out, "</ul>\n");
}

/* Indices of the layers that have a buffer of that kind there, "0-4, 6". */
static void print_layers_of(FILE *out, const sc_arena *arena, sc_kind kind) {
    int first = -1, last = -1;
    const char *before = "";
    for (int i = 0; i <= arena->stretches; i++) {
        const sc_stretch *s = &arena->stretch[i];
        const bool end = i == arena->stretches;
        if (!end && (s->kind != kind || s->layer < 0 || s->layer == last))
            continue;
        if (!end && last >= 0 && s->layer == last + 1) {
            last++;
            continue;
        }
        if (last >= 0) {
            fprintf(out, first == last ? "%s%d" : "%s%d-%d", before, first, last);
            before = ", ";
        }
        if (!end)
            first = last = s->layer;
    }
}

static void print_kinds(FILE *out, const sc_arena *arena) {
    char text[32];
    fprintf(out,
            "<div class=\"wide\"><table>\n<caption>The %s by kind</caption>\n<thead><tr><th>"
            "kind</th><th class=\"right\">bytes</th><th></th><th class=\"right\">share</th>"
            "<th>layers</th></tr></thead>\n<tbody>\n",
            arena->name);
    for (sc_kind kind = 0; kind < SC_KINDS; kind++) {
        const size_t bytes = arena->kind_bytes[kind];
        if (!bytes)
            continue;
        const unsigned tenths = (unsigned)((double)bytes / (double)arena->bytes * 1000 + 0.5);
        fprintf(out,
                "<tr><th>%s</th><td class=\"right\">%zu</td><td>%s</td><td class=\"right\">%u.%u "
                "%%</td><td style=\"white-space:normal\">",
                sc_kind_name(kind), bytes, sc_bytes_text(text, bytes), tenths / 10, tenths % 10);
        print_layers_of(out, arena, kind);
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</tbody>\n</table></div>\n");
}

static int print_arenas(FILE *out, sc_pool *pool, const sc_plan *plan, sc_error *err) {
    sc_arena arena[2];
    const int arenas = plan->options.offloading ? 2 : 1;
    for (int i = 0; i < arenas; i++) {
        const int rc = sc_arena_make(&arena[i], pool, plan, i == 1, err);
        if (rc)
            return rc;
    }
    fprintf(out, "<h2>%s, to scale</h2>\n", arenas == 2 ? "The arenas" : "The arena");
    print_legend(out, arena, arenas);
    for (int i = 0; i < arenas; i++) {
        char text[32];
        fprintf(out, "<h3>%s: %s</h3>\n", arena[i].name, sc_bytes_text(text, arena[i].bytes));
        if (!arena[i].bytes) {
            fprintf(out, "<p>It is empty.</p>\n");
            continue;
        }
        sc_arena_print_svg(out, plan, &arena[i]);
        print_kinds(out, &arena[i]);
    }
    return SC_OK;
}

/* ---- length ---- */

static void print_curve_legend(FILE *out, const sc_curves *curves) {
    fprintf(out, "<ul class=\"legend\">\n");
    for (int curve = 0; curve < SC_CURVES; curve++)
        if (curves->there[curve])
            fprintf(out,
                    "<li class=\"curve%d\"><svg viewBox=\"0 0 26 12\" aria-hidden=\"true\">"
                    "<polyline points=\"0,6 26,6\"/></svg>%s</li>\n",
                    curve, sc_curve_name(curve));
    fprintf(out, "</ul>\n");
}

static void print_curve_table(FILE *out, const sc_curves *curves) {
    fprintf(out, "<details>\n<summary>The same as a table</summary>\n<div class=\"wide\"><table>\n"
                 "<thead><tr><th class=\"right\">max_cache_len</th>");
    for (int curve = 0; curve < SC_CURVES; curve++)
        if (curves->there[curve])
            fprintf(out, "<th class=\"right\">%s</th><th></th>", sc_curve_name(curve));
    fprintf(out, "</tr></thead>\n<tbody>\n");
    for (int i = 0; i < curves->points; i++) {
        fprintf(out, "<tr><th class=\"right\">%lld</th>", (long long)curves->length[i]);
        for (int curve = 0; curve < SC_CURVES; curve++) {
            char text[32];
            const unsigned long long bytes = curves->bytes[curve][i];
            if (curves->there[curve])
                fprintf(out, "<td class=\"right\">%llu</td><td>%s</td>", bytes,
                        sc_bytes_text(text, bytes));
        }
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody>\n</table></div>\n</details>\n");
}

static int print_curves(FILE *out, sc_pool *pool, const sc_plan *plan, sc_error *err) {
    sc_curves curves;
    const int rc = sc_curves_make(&curves, pool, plan, err);
    if (rc)
        return rc;
    fprintf(out,
            "<h2>Bytes of the cache against max_cache_len</h2>\n<p class=\"soft\">For "
            "batch_size %lld. %s%s</p>\n",
            (long long)plan->options.batch_size,
            curves.there[1] ? "All layers full is a cache that knows no window."
                            : "No layer has a window.",
            curves.there[2] ? "" : " No layer keeps all tokens, so there is nothing to offload.");
    print_curve_legend(out, &curves);
    if (curves.points) {
        sc_curves_print_svg(out, plan, &curves);
        print_curve_table(out, &curves);
    }
    return SC_OK;
}

/* ---- what a device holds ---- */

static void print_held(FILE *out, const sc_memory_fit *fit, int64_t number) {
    if (!number)
        fprintf(out, "<td class=\"right soft\">none<span class=\"star\"></span></td>");
    else
        fprintf(out, "<td class=\"right\">%lld<span class=\"star\">%s</span></td>",
                (long long)number, fit->limit == SC_LIMIT_MEMORY ? "" : "*");
}

static void print_devices_head(FILE *out, const sc_plan *plan, const sc_memory *memory) {
    fprintf(out,
            "<h2>What a device holds</h2>\n<p class=\"soft\">The largest max_cache_len by "
            "batch_size, and the largest batch_size for max_cache_len %lld. Counted: %s. * "
            "not the memory's limit, but %s.</p>\n<div class=\"wide\"><table id=\"devices\">\n"
            "<thead><tr><th class=\"right\">memory</th>",
            (long long)plan->options.max_cache_len,
            !plan->graph         ? "cache arena and cache scratch alone, no weights"
            : plan->options.cuda ? "device weights, device scratch, cache arena, cache scratch"
                                 : "weights, model scratch, cache arena, cache scratch",
            plan->config->max_position_embeddings ? "max_position_embeddings or slipcast's own"
                                                  : "slipcast's own");
    for (int i = 0; i < memory->lengths; i++)
        fprintf(out, "<th class=\"right\">batch %lld</th>",
                (long long)memory->length[i].batch_size);
    fprintf(out, "<th class=\"right\">largest batch</th></tr></thead>\n<tbody>\n");
}

static int print_devices(FILE *out, const sc_plan *plan, bool given_batch, sc_error *err) {
    static const int gib[] = { 8, 16, 24, 48, 80, 141 };
    for (size_t i = 0; i < sizeof gib / sizeof *gib; i++) {
        sc_memory memory;
        const int rc = sc_memory_make(&memory, plan, (uint64_t)gib[i] << 30, given_batch, err);
        if (rc)
            return rc;
        if (!i)
            print_devices_head(out, plan, &memory);
        fprintf(out, "<tr><th class=\"right\">%d GiB</th>", gib[i]);
        for (int k = 0; k < memory.lengths; k++)
            print_held(out, &memory.length[k], memory.length[k].max_cache_len);
        print_held(out, &memory.batch, memory.batch.batch_size);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody>\n</table></div>\n");
    return SC_OK;
}

/* ---- layers ---- */

/* A cell of the whole layer. */
static void print_cell(FILE *out, int rows, bool right, const char *text) {
    fprintf(out, "<td%s rowspan=\"%d\">%s</td>", right ? " class=\"right\"" : "", rows, text);
}

static void print_buffer(FILE *out, const sc_plan_buffer_view *v) {
    char index[16] = "";
    if (v->index)
        snprintf(index, sizeof index, " %d", v->index);
    fprintf(out,
            "<td>%s%s</td><td>%s</td><td>%s</td><td class=\"right\">%zu</td><td "
            "class=\"right\">%zu</td><td>%s</td>",
            v->name, index, v->shape, sc_dtype_name(v->dtype), v->buffer.bytes, v->buffer.offset,
            v->host ? "host" : "device");
}

static void print_layer(FILE *out, const sc_plan *plan, int i) {
    const sc_layer_config *c = &plan->config->layer[i];
    const int64_t max_length = sc_plan_max_length(plan, i);
    char number[24], source[24] = "none", length[24] = "none";
    sc_plan_buffer_view view;
    int rows = 0;
    while (sc_plan_buffer(&view, plan, i, rows))
        rows++;
    const int span = rows ? rows : 1;
    snprintf(number, sizeof number, "%d", i);
    if (plan->layer[i].shape >= 0 || c->kv_source != i)
        snprintf(source, sizeof source, "%d", c->kv_source);
    if (max_length >= 0)
        snprintf(length, sizeof length, "%lld", (long long)max_length);
    fprintf(out, "<tbody id=\"layer-%d\" data-layer=\"%d\"><tr>", i, i);
    print_cell(out, span, true, number);
    print_cell(out, span, false, sc_layer_type_name(c->type));
    if (rows && sc_plan_buffer(&view, plan, i, 0))
        print_buffer(out, &view);
    else
        fprintf(out, "<td colspan=\"6\" class=\"soft\">%s</td>",
                c->kv_source != i ? "reads another layer's keys and values" : "nothing is kept");
    print_cell(out, span, true, source);
    print_cell(out, span, true, length);
    print_cell(out, span, false, sc_plan_is_croppable(plan, i) ? "yes" : "no");
    fprintf(out, "</tr>\n");
    for (int n = 1; sc_plan_buffer(&view, plan, i, n); n++) {
        fprintf(out, "<tr>");
        print_buffer(out, &view);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody>\n");
}

static void print_layers(FILE *out, const sc_plan *plan) {
    fprintf(out,
            "<h2>Layers</h2>\n<div class=\"wide\"><table id=\"layers\">\n<thead><tr><th "
            "class=\"right\">layer</th><th>layer_type</th><th>buffer</th><th>shape</th><th>dtype"
            "</th><th class=\"right\">bytes</th><th class=\"right\">offset</th><th>placement</th>"
            "<th class=\"right\">kv_source</th><th class=\"right\">max_length</th><th>croppable"
            "</th></tr></thead>\n");
    for (int i = 0; i < plan->layers; i++)
        print_layer(out, plan, i);
    fprintf(out, "</table></div>\n");
}

/* ---- the page ---- */

int sc_plan_print_html(FILE *out, sc_pool *pool, const sc_plan *plan, bool given_batch,
                       sc_error *err) {
    print_head(out, plan);
    int rc = print_arenas(out, pool, plan, err);
    if (!rc)
        rc = print_curves(out, pool, plan, err);
    if (!rc)
        rc = print_devices(out, plan, given_batch, err);
    if (rc)
        return rc;
    print_layers(out, plan);
    fprintf(out, "<p id=\"read\"></p>\n<script>\n%s</script>\n</body>\n</html>\n", script);
    return SC_OK;
}

int sc_plan_write_html(const char *path, sc_pool *pool, const sc_plan *plan, bool given_batch,
                       sc_error *err) {
    char *page = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&page, &bytes);
    if (!out)
        return sc_oom(err, "writing the page");
    int rc = sc_plan_print_html(out, pool, plan, given_batch, err);
    const bool whole = !ferror(out);
    if ((fclose(out) || !whole) && !rc)
        rc = sc_oom(err, "writing the page");
    if (!rc)
        rc = sc_file_write(path, page, bytes, err);
    free(page);
    return rc;
}
