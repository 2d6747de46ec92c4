/* export.c - see export.h. */
#include "export.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cubin.h"
#include "emit.h"
#include "emit_scope.h"
#include "file.h"
#include "json.h"
#include "pack.h"
#include "sha256.h"
#include "target.h"
#include "tokenizer_pack.h"

/* model_type names the casting unless --name does: never the folder, which is not part of the
 * input. */
static int casting_name(const char **name, sc_pool *pool, const char *wish, const char *model_type,
                        sc_error *err) {
    enum { LONGEST = 48 };
    const char *made = wish ? wish : sc_identifier(pool, model_type);
    if (!made)
        return sc_oom(err, "naming the casting");
    const char *way_out = wish ? "choose another one" : "model_type makes it; choose one";
    const size_t length = strlen(made);
    if (!length || length > LONGEST || isdigit((unsigned char)*made) ||
        strspn(made, SC_IDENTIFIER) != length)
        return sc_fail(err, SC_EUSAGE,
                       "--name: \"%s\" is no C identifier of at most %d letters, digits and _ (%s)",
                       made, LONGEST, way_out);
    /* The runtime's prefix, the Makefile's targets, and what lies beside the sources. */
    static const char *const taken[] = { "sc", "all", "clean", "runtime", "Makefile" };
    bool good = strncmp(made, "sc_", 3) != 0;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        good &= strcmp(made, taken[i]) != 0;
    if (!good)
        return sc_fail(err, SC_EUSAGE, "--name: \"%s\" is taken by the casting itself (%s)", made,
                       way_out);
    *name = made;
    return SC_OK;
}

static bool find_dtype(sc_dtype *dtype, const char *name) {
    static const sc_dtype all[] = { SC_F32, SC_BF16, SC_F16, SC_Q8_0, SC_FP8_E4M3 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(sc_dtype_name(all[i]), name)) {
            *dtype = all[i];
            return true;
        }
    return false;
}

int sc_export_plan(const sc_plan **plan, sc_pool *pool, const sc_source *source,
                   const sc_export_options *options, sc_error *err) {
    enum { USUAL = 4096 };
    const sc_config *config = source->config;
    sc_plan_options o = { .max_cache_len = options->max_cache_len,
                          .batch_size = options->batch_size };
    const int64_t positions = config->max_position_embeddings;
    if (!o.max_cache_len)
        o.max_cache_len = positions && positions < USUAL ? positions : USUAL;
    if (!o.batch_size)
        o.batch_size = 1;
    o.rewind = options->rewind;
    o.offloading = options->offloading;
    o.offload_sliding = options->offload_sliding;
    int rc = sc_target_read(&o, pool, options, err);
    if (rc)
        return rc;
    if (!find_dtype(&o.dtype, options->dtype ? options->dtype : "float32") ||
        sc_kv_value_dtype(o.dtype) != o.dtype)
        return sc_fail(err, SC_EUSAGE, "--dtype: \"%s\" is none of float32, bfloat16, float16",
                       options->dtype);
    o.kv_dtype = o.dtype;
    if (options->kv_dtype && !find_dtype(&o.kv_dtype, options->kv_dtype))
        return sc_fail(err, SC_EUSAGE,
                       "--kv-dtype: \"%s\" is none of float32, bfloat16, float16, q8_0, fp8_e4m3",
                       options->kv_dtype);
    rc = sc_target_check(&o, err);
    if (!rc)
        rc = casting_name(&o.name, pool, options->name, config->model_type, err);
    sc_graph *graph = NULL;
    if (!rc && !options->only_cache)
        rc = sc_graph_make(&graph, pool, config, err);
    sc_plan *made = NULL;
    if (!rc)
        rc = sc_plan_make(&made, pool, config, graph, &o, err);
    if (!rc)
        *plan = made;
    return rc;
}

int sc_export_digest(char hex[65], const char *path, sc_error *err) {
    enum { PIECE = 1 << 18 };
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
    unsigned char *piece = malloc(PIECE);
    sc_sha256 *sum = NULL;
    int rc = piece ? sc_sha256_begin(&sum, err) : sc_oom(err, "summing a file");
    while (!rc) {
        const ssize_t n = read(fd, piece, PIECE);
        if (n < 0)
            rc = sc_fail(err, SC_EENV, "%s: cannot be read: %s", path, strerror(errno));
        if (n <= 0)
            break;
        rc = sc_sha256_update(sum, piece, (size_t)n, err);
    }
    free(piece);
    close(fd);
    if (!rc)
        return sc_sha256_finish(sum, hex, err);
    sc_sha256_drop(sum);
    return rc;
}

static void show_progress(uint64_t done, uint64_t all) {
    static int last = -1;
    const int percent = (int)(done * 100 / (all ? all : 1));
    if (percent == last)
        return;
    last = percent;
    fprintf(stderr, "\rpacking weights [%-40.*s] %3d %%%s", percent * 40 / 100,
            "########################################", percent, percent == 100 ? "\n" : "");
}

static int write_weights(sc_folder *folder, sc_pool *pool, const sc_source *source,
                         const sc_plan *plan, bool quiet, sc_error *err) {
    const char *extra, *name = sc_pool_printf(pool, "%s.weights", plan->options.name);
    char layout[65], hex[65];
    int fd, rc = name ? sc_pack_check(plan, source->tensors, &extra, err) : sc_oom(err, "packing");
    if (!rc)
        rc = sc_emit_layout(layout, pool, plan, err);
    if (!rc)
        rc = sc_folder_create(folder, name, &fd, err);
    if (rc)
        return rc;
    if (extra && !quiet)
        fprintf(stderr, "%s: %s: is not used by model_type %s\n", source->tensors->path, extra,
                plan->config->model_type);
    const bool bar = !quiet && isatty(STDERR_FILENO);
    rc = sc_pack_write(fd, name, plan, source->tensors, layout, hex, bar ? show_progress : NULL,
                       err);
    if (close(fd) && !rc)
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", name, strerror(errno));
    return rc;
}

static int write_tokenizer(sc_folder *folder, sc_pool *pool, const sc_source *source,
                           const sc_plan *plan, sc_error *err) {
    unsigned char *image = NULL;
    size_t bytes;
    const char *name = sc_pool_printf(pool, "%s.tokenizer", plan->options.name);
    int rc = name
                 ? sc_tokenizer_pack(&image, &bytes, source->tokenizer, source->tokenizer_file, err)
                 : sc_oom(err, "packing the tokenizer");
    if (!rc)
        rc = sc_folder_write(folder, name, image, bytes, err);
    free(image);
    return rc;
}

/* NAME.chat, for `run -i`. */
static int write_chat(sc_folder *folder, sc_pool *pool, const sc_source *source,
                      const sc_plan *plan, sc_error *err) {
    const char *text, *name = sc_pool_printf(pool, "%s.chat", plan->options.name);
    const int rc = name ? sc_chat_write(&text, pool, source->chat, err)
                        : sc_oom(err, "writing the chat template");
    return rc ? rc : sc_folder_write(folder, name, text, strlen(text), err);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds {file, sha256} for each path; label is what the manifest calls it. */
static int add_digest(cJSON *list, const char *path, const char *label, sc_error *err) {
    char hex[65];
    const int rc = sc_export_digest(hex, path, err);
    if (rc)
        return rc;
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "file", label);
    cJSON_AddStringToObject(entry, "sha256", hex);
    return cJSON_AddItemToArray(list, entry) ? SC_OK : sc_oom(err, "writing the manifest");
}

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static cJSON *plan_json(const sc_plan *plan) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    sc_plan_print_json(f, plan);
    fclose(f);
    cJSON *json = cJSON_Parse(text);
    free(text);
    return json;
}

/* Every file of the casting but the manifest itself, sorted. */
static int list_outputs(const char ***names, int *count, sc_pool *pool, const sc_plan *plan,
                        const sc_source *source, sc_error *err) {
    enum { SOURCES = 24 };
    const char **list =
        sc_pool_alloc(pool, (size_t)(SOURCES + 4 + sc_embedded_count), sizeof *list);
    if (!list)
        return sc_oom(err, "writing the manifest");
    int n = 0;
    list[n++] = "Makefile";
    for (int i = 0; sc_emit_source(plan, i); i++)
        list[n++] = sc_pool_printf(pool, "%s%s", plan->options.name, sc_emit_source(plan, i));
    if (source->tensors)
        list[n++] = sc_pool_printf(pool, "%s.weights", plan->options.name);
    if (source->tensors && source->tokenizer)
        list[n++] = sc_pool_printf(pool, "%s.tokenizer", plan->options.name);
    if (source->tensors && source->tokenizer)
        list[n++] = sc_pool_printf(pool, "%s.chat", plan->options.name);
    for (int i = 0; i < sc_embedded_count; i++) {
        if (sc_emit_needs(plan, sc_embedded[i].path))
            list[n++] = sc_embedded[i].path;
    }
    for (int i = 0; i < n; i++)
        if (!list[i])
            return sc_oom(err, "writing the manifest");
    qsort(list, (size_t)n, sizeof *list, compare_names);
    *names = list;
    *count = n;
    return SC_OK;
}

/* toolkit: 13000 when CUDA 13.0 compiled the device code; 0: nobody did. */
static int write_manifest(sc_folder *folder, sc_pool *pool, const sc_source *source,
                          const sc_plan *plan, int toolkit, sc_error *err) {
    cJSON *json = cJSON_CreateObject(), *options = cJSON_AddObjectToObject(json, "options");
    cJSON_AddStringToObject(options, "name", plan->options.name);
    cJSON_AddNumberToObject(options, "max_cache_len", (double)plan->options.max_cache_len);
    cJSON_AddNumberToObject(options, "batch_size", (double)plan->options.batch_size);
    cJSON_AddNumberToObject(options, "rewind", (double)plan->options.rewind);
    cJSON_AddBoolToObject(options, "offloading", plan->options.offloading);
    cJSON_AddBoolToObject(options, "offload_only_non_sliding", !plan->options.offload_sliding);
    cJSON_AddBoolToObject(options, "generic", plan->config->generic);
    cJSON_AddStringToObject(options, "only", plan->graph ? "" : "cache");
    cJSON_AddStringToObject(options, "dtype", sc_dtype_name(plan->options.dtype));
    cJSON_AddStringToObject(options, "kv_dtype", sc_dtype_name(plan->options.kv_dtype));
    cJSON_AddStringToObject(options, "arch", plan->options.arch->name);
    if (plan->options.cuda) {
        cJSON_AddStringToObject(options, "target", "cuda");
        cJSON_AddItemToObject(options, "sm",
                              cJSON_CreateIntArray(plan->options.sm, plan->options.sms));
        cJSON_AddBoolToObject(options, "emit_only", plan->options.emit_only);
        cJSON_AddNumberToObject(options, "offload_weights", (double)plan->options.offload_weights);
    }
    char layout[65];
    int rc = sc_emit_layout(layout, pool, plan, err);
    cJSON_AddStringToObject(json, "format", "slipcast casting 1");
    cJSON_AddStringToObject(json, "layout", layout);
    char version[32];
    snprintf(version, sizeof version, "%d.%d", toolkit / 1000, toolkit % 1000 / 10);
    if (toolkit)
        cJSON_AddStringToObject(json, "nvrtc", version);
    cJSON_AddItemToObject(json, "plan", plan_json(plan));
    cJSON *inputs = cJSON_AddArrayToObject(json, "inputs"),
          *outputs = cJSON_AddArrayToObject(json, "outputs");
    for (int i = 0; i < source->inputs && !rc; i++)
        rc = add_digest(inputs, source->input[i], base(source->input[i]), err);
    const char **names = NULL;
    int count = 0;
    if (!rc)
        rc = list_outputs(&names, &count, pool, plan, source, err);
    for (int i = 0; i < count && !rc; i++) {
        const char *path = sc_pool_printf(pool, "%s/%s", sc_folder_path(folder), names[i]);
        rc = path ? add_digest(outputs, path, names[i], err) : sc_oom(err, "writing the manifest");
    }
    char *text = rc ? NULL : cJSON_Print(json);
    if (!rc)
        rc = text ? sc_folder_write(folder, "manifest.json", text, strlen(text), err)
                  : sc_oom(err, "writing the manifest");
    cJSON_free(text);
    cJSON_Delete(json);
    return rc;
}

int sc_export_write(const char *dir, sc_pool *pool, const sc_source *source, const sc_plan *plan,
                    bool quiet, sc_error *err) {
    sc_values *values = NULL;
    sc_folder *folder = NULL;
    int toolkit = 0;
    int rc = sc_emit_values(&values, pool, plan, source->config, err);
    if (!rc)
        rc = sc_folder_begin(&folder, dir, err);
    if (!rc)
        rc = sc_emit_sources(folder, plan, values, err);
    if (!rc && plan->options.cuda && !plan->options.emit_only)
        rc = sc_cubin_write(&toolkit, folder, plan, values, err);
    if (!rc && source->tensors)
        rc = write_weights(folder, pool, source, plan, quiet, err);
    if (!rc && source->tensors && source->tokenizer)
        rc = write_tokenizer(folder, pool, source, plan, err);
    if (!rc && source->tensors && source->tokenizer)
        rc = write_chat(folder, pool, source, plan, err);
    if (!rc)
        rc = write_manifest(folder, pool, source, plan, toolkit, err);
    if (!rc)
        return sc_folder_commit(folder, err);
    sc_folder_abort(folder);
    return rc;
}

/* Of a CUDA casting; other manifests have none of these keys. */
static int read_device_options(sc_export_options *options, sc_pool *pool, const cJSON *o,
                               const char *path, sc_error *err) {
    if (!sc_json_get(o, "target"))
        return SC_OK;
    options->target = "cuda";
    options->emit_only = cJSON_IsTrue(sc_json_get(o, "emit_only"));
    if (!sc_json_int(sc_json_get(o, "offload_weights"), &options->offload_weights))
        return sc_fail(err, SC_EINPUT, "%s: options.offload_weights: is no number", path);
    const cJSON *sm;
    cJSON_ArrayForEach(sm, sc_json_get(o, "sm")) {
        int64_t number;
        if (!sc_json_int(sm, &number))
            return sc_fail(err, SC_EINPUT, "%s: options.sm: is no list of numbers", path);
        options->arch = sc_pool_printf(pool, "%s,sm_%lld", options->arch, (long long)number);
        if (!options->arch)
            return sc_oom(err, "reading the manifest");
    }
    return SC_OK;
}

int sc_export_read_options(sc_export_options *options, sc_pool *pool, const char *dir,
                           sc_error *err) {
    const char *path = sc_pool_printf(pool, "%s/manifest.json", dir);
    cJSON *json = NULL;
    int rc = path ? sc_json_read(&json, path, 64 << 20, err) : sc_oom(err, "reading the manifest");
    if (rc)
        return rc;
    const cJSON *o = sc_json_get(json, "options");
    const char *const keys[] = { "name", "dtype", "arch", "kv_dtype", "only" };
    const char *text[5];
    *options = (sc_export_options){ 0 };
    for (int i = 0; i < 5 && !rc; i++) {
        const cJSON *value = sc_json_get(o, keys[i]);
        if (!cJSON_IsString(value))
            rc = sc_fail(err, SC_EINPUT, "%s: options.%s: is missing (is this a casting?)", path,
                         keys[i]);
        else if (!(text[i] = sc_pool_strdup(pool, value->valuestring)))
            rc = sc_oom(err, "reading the manifest");
    }
    if (!rc && (!sc_json_int(sc_json_get(o, "max_cache_len"), &options->max_cache_len) ||
                !sc_json_int(sc_json_get(o, "batch_size"), &options->batch_size) ||
                !sc_json_int(sc_json_get(o, "rewind"), &options->rewind)))
        rc = sc_fail(err, SC_EINPUT,
                     "%s: options: max_cache_len, batch_size or rewind is no number (is this a "
                     "casting?)",
                     path);
    if (!rc) {
        options->name = text[0];
        options->dtype = text[1];
        options->arch = text[2];
        options->kv_dtype = text[3];
        options->only_cache = *text[4];
        options->generic = cJSON_IsTrue(sc_json_get(o, "generic"));
        options->offloading = cJSON_IsTrue(sc_json_get(o, "offloading"));
        options->offload_sliding = cJSON_IsFalse(sc_json_get(o, "offload_only_non_sliding"));
        rc = read_device_options(options, pool, o, path, err);
    }
    cJSON_Delete(json);
    return rc;
}
