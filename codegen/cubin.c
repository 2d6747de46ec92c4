/* cubin.c - see cubin.h. */
#include "cubin.h"

#include <stdlib.h>
#include <string.h>

const char *sc_cubin_translate(sc_pool *pool, const char *log, const char *name,
                               const sc_template_map *map, const char *text) {
    const char *made = "";
    const size_t length = strlen(name);
    while (*log && made) {
        int line, end = 0, template_line = 0;
        const char *file = NULL;
        if (!strncmp(log, name, length) && sscanf(log + length, "(%d)%n", &line, &end) == 1 && end)
            file = sc_template_origin(map, text, line, &template_line);
        const char *rest = file ? log + length + end : log;
        const size_t bytes = strcspn(rest, "\n") + (rest[strcspn(rest, "\n")] == '\n');
        made =
            file ? sc_pool_printf(pool, "%s%s:%d%.*s", made, file, template_line, (int)bytes, rest)
                 : sc_pool_printf(pool, "%s%.*s", made, (int)bytes, rest);
        log = rest + bytes;
    }
    return made;
}

/* The first line of a log that speaks of an error. */
static const char *first_error(sc_pool *pool, const char *log) {
    for (const char *line = log; *line; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");
        char *one = sc_pool_printf(pool, "%.*s", (int)length, line);
        if (!one || strstr(one, "error"))
            return one ? one : "";
        if (!line[length])
            break;
    }
    return log;
}

typedef struct {
    int sm;
    bool ptx;
    unsigned char *bytes;
    size_t size;
} code;

enum { PER_LINE = 24, LETTERS = 4 }; /* "255," */

/* Bytes as a C initialiser, PER_LINE a line. */
static char *write_bytes(char *to, const code *c) {
    for (size_t i = 0; i < c->size; i++)
        to += sprintf(to, "%s%d,", i % PER_LINE ? "" : "\n    ", c->bytes[i]);
    return to;
}

static int write_source(sc_folder *folder, sc_pool *pool, const char *name, int version,
                        const code *all, int count, sc_error *err) {
    size_t room = 4096;
    for (int i = 0; i < count; i++)
        room += all[i].size * (LETTERS + 1) + 1024;
    char *text = malloc(room), *at = text;
    const char *path = sc_pool_printf(pool, "%s_cubin.c", name);
    if (!text || !path) {
        free(text);
        return sc_oom(err, "writing device code");
    }
    at += sprintf(at,
                  "/* %s_cubin.c - the device code of %s, %s_cuda.cu compiled by NVRTC %d.%d. */\n"
                  "#include \"%s_cuda.h\"\n",
                  name, name, name, version / 1000, version % 1000 / 10, name);
    for (int i = 0; i < count; i++) {
        at += sprintf(at, "\nstatic const unsigned char %s%d[] __attribute__((aligned(64))) = {",
                      all[i].ptx ? "ptx" : "cubin", all[i].sm);
        at = write_bytes(at, &all[i]);
        at += sprintf(at, "\n};\n");
    }
    at += sprintf(at, "\nstatic const sc_cubin all[] = {\n");
    for (int i = 0; i < count; i++)
        at += sprintf(at, "    { %d, %d, %s%d, sizeof %s%d },\n", all[i].sm, all[i].ptx,
                      all[i].ptx ? "ptx" : "cubin", all[i].sm, all[i].ptx ? "ptx" : "cubin",
                      all[i].sm);
    at += sprintf(at, "};\n\nconst sc_cubins %s_cubins = { %d, %d, all };\n", name, version, count);
    const int rc = sc_folder_write(folder, path, text, (size_t)(at - text), err);
    free(text);
    return rc;
}

static int compile(const sc_nvrtc *nvrtc, sc_pool *pool, const char *name, const char *source,
                   const sc_template_map *map, code *c, sc_error *err) {
    char *log = NULL;
    const int rc = sc_nvrtc_compile(nvrtc, pool, name, source, c->sm, c->ptx, false, &c->bytes,
                                    &c->size, &log, err);
    if (rc != SC_EINPUT || !log)
        return rc;
    const char *translated = sc_cubin_translate(pool, log, name, map, source);
    if (!translated)
        return sc_oom(err, "compiling device code");
    fputs(translated, stderr);
    return sc_fail(err, SC_EINPUT, "%s (the template does not compile for sm_%d)",
                   first_error(pool, translated), c->sm);
}

static int compile_all(sc_folder *folder, sc_pool *pool, const sc_plan *plan, const char *source,
                       const sc_template_map *map, sc_error *err) {
    const sc_plan_options *o = &plan->options;
    code all[SC_MOST_SMS + 1];
    sc_nvrtc *nvrtc = NULL;
    const char *name = sc_pool_printf(pool, "%s_cuda.cu", o->name);
    int rc = name ? sc_nvrtc_open(&nvrtc, pool, err) : sc_oom(err, "compiling device code");
    for (int i = 0; i <= o->sms && !rc; i++) {
        all[i] = (code){ .sm = o->sm[i < o->sms ? i : 0], .ptx = i == o->sms };
        rc = compile(nvrtc, pool, name, source, map, &all[i], err);
    }
    return rc ? rc
              : write_source(folder, pool, o->name, sc_nvrtc_version(nvrtc), all, o->sms + 1, err);
}

int sc_cubin_write(sc_folder *folder, const sc_plan *plan, const sc_values *values, sc_error *err) {
    sc_pool *pool = sc_pool_create();
    sc_template_map map = { 0 };
    char *source = NULL;
    size_t bytes;
    int rc = pool ? sc_template_render_mapped(&source, &bytes, &map, "cuda/device.cu", values, err)
                  : sc_oom(err, "compiling device code");
    if (!rc)
        rc = compile_all(folder, pool, plan, source, &map, err);
    free(source);
    free(map.piece);
    sc_pool_destroy(pool);
    return rc;
}
