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
            file = sc_template_origin(&template_line, map, text, line);
        const char *rest = file ? log + length + end : log;
        const size_t bytes = strcspn(rest, "\n") + (rest[strcspn(rest, "\n")] == '\n');
        made =
            file ? sc_pool_printf(pool, "%s%s:%d%.*s", made, file, template_line, (int)bytes, rest)
                 : sc_pool_printf(pool, "%s%.*s", made, (int)bytes, rest);
        log = rest + bytes;
    }
    return made;
}

/* The first line of a log that speaks of an error, else the first one. */
static const char *first_error(sc_pool *pool, const char *log) {
    const char *first = NULL;
    while (*log) {
        const size_t length = strcspn(log, "\n");
        const char *line = sc_pool_printf(pool, "%.*s", (int)length, log);
        if (line && (strstr(line, "error") || strstr(line, "fatal")))
            return line;
        if (!first && length)
            first = line;
        log += length + (log[length] == '\n');
    }
    return first ? first : "NVRTC does not say why";
}

int sc_cubin_compile(sc_nvrtc_code *cubin, sc_nvrtc_code *ptx, const char **log,
                     const sc_nvrtc *nvrtc, sc_pool *pool, const char *name, const char *source,
                     const sc_template_map *map, int sm, bool verbose, sc_error *err) {
    const char *said = NULL;
    const int rc = sc_nvrtc_compile(cubin, ptx, &said, nvrtc, pool, name, source, sm, verbose, err);
    if (said)
        said = sc_cubin_translate(pool, said, name, map, source);
    if (log)
        *log = said;
    if (!rc || !said)
        return rc;
    fputs(said, stderr);
    if (rc != SC_EINPUT)
        return rc;
    return sc_fail(err, SC_EINPUT, "%s (for sm_%d; correct the template)", first_error(pool, said),
                   sm);
}

/* ---- NAME_cubin.c ---- */

typedef struct {
    const char *kind; /* "cubin", "ptx" */
    int sm;
    sc_nvrtc_code code;
} section;

enum { PER_LINE = 24, LETTERS = 4 }; /* "255," */

/* Bytes as a C initialiser, PER_LINE a line. */
static char *write_bytes(char *to, const sc_nvrtc_code *code) {
    for (size_t i = 0; i < code->size; i++) {
        const unsigned byte = code->bytes[i];
        if (i % PER_LINE == 0)
            to = stpcpy(to, "\n    ");
        if (byte >= 100)
            *to++ = (char)('0' + byte / 100);
        if (byte >= 10)
            *to++ = (char)('0' + byte / 10 % 10);
        *to++ = (char)('0' + byte % 10);
        *to++ = ',';
    }
    return to;
}

static char *write_section(char *to, const section *s) {
    to += sprintf(to, "\nstatic const unsigned char %s%d[] __attribute__((aligned(64))) = {",
                  s->kind, s->sm);
    return stpcpy(write_bytes(to, &s->code), "\n};\n");
}

static int write_source(sc_folder *folder, sc_pool *pool, const char *name, int toolkit,
                        const section *all, int count, sc_error *err) {
    enum { WORDS = 256 }; /* around a section's bytes, and its line of the table */
    size_t room = 1024;
    for (int i = 0; i < count; i++)
        room += all[i].code.size * LETTERS + all[i].code.size / PER_LINE * 5 + 2 * WORDS;
    char *text = malloc(room), *at = text;
    const char *path = sc_pool_printf(pool, "%s_cubin.c", name);
    if (!text || !path) {
        free(text);
        return sc_oom(err, "writing device code");
    }
    at += sprintf(at,
                  "/* %s_cubin.c - the device code of %s: %s_cuda.cu compiled by NVRTC %d.%d, and "
                  "PTX of\n * the lowest architecture for later ones. */\n"
                  "#include \"%s_cuda.h\"\n",
                  name, name, name, toolkit / 1000, toolkit % 1000 / 10, name);
    for (int i = 0; i < count; i++)
        at = write_section(at, &all[i]);
    at += sprintf(at, "\nstatic const sc_cubin all[] = {\n");
    for (int i = 0; i < count; i++)
        at +=
            sprintf(at, "    { .sm = %d, .ptx = %d, .bytes = %s%d, .size = sizeof %s%d },\n",
                    all[i].sm, *all[i].kind == 'p', all[i].kind, all[i].sm, all[i].kind, all[i].sm);
    at += sprintf(
        at, "};\n\nconst sc_cubins %s_cubins = { .toolkit = %d, .count = %d, .cubin = all };\n",
        name, toolkit, count);
    const int rc = sc_folder_write(folder, path, text, (size_t)(at - text), err);
    free(text);
    return rc;
}

static int compile_all(int *toolkit, sc_folder *folder, sc_pool *pool, const sc_plan *plan,
                       const char *source, const sc_template_map *map, sc_error *err) {
    const sc_plan_options *o = &plan->options;
    section all[SC_MOST_SMS + 1] = { 0 };
    section *ptx = &all[o->sms];
    sc_nvrtc *nvrtc = NULL;
    const char *name = sc_pool_printf(pool, "%s_cuda.cu", o->name);
    int rc = name ? sc_nvrtc_open(&nvrtc, pool, err) : sc_oom(err, "compiling device code");
    for (int i = 0; i < o->sms && !rc; i++) {
        all[i].kind = "cubin";
        all[i].sm = o->sm[i];
        rc = sc_cubin_compile(&all[i].code, i ? NULL : &ptx->code, NULL, nvrtc, pool, name, source,
                              map, o->sm[i], false, err);
    }
    if (rc)
        return rc;
    ptx->kind = "ptx";
    ptx->sm = o->sm[0];
    *toolkit = sc_nvrtc_version(nvrtc);
    return write_source(folder, pool, o->name, *toolkit, all, o->sms + 1, err);
}

int sc_cubin_write(int *toolkit, sc_folder *folder, const sc_plan *plan, const sc_values *values,
                   sc_error *err) {
    sc_pool *pool = sc_pool_create();
    sc_template_map map = { 0 };
    char *source = NULL;
    size_t bytes;
    int rc = pool ? sc_template_render(&source, &bytes, &map, "cuda/device.cu", values, err)
                  : sc_oom(err, "compiling device code");
    if (!rc)
        rc = compile_all(toolkit, folder, pool, plan, source, &map, err);
    free(source);
    free(map.piece);
    sc_pool_destroy(pool);
    return rc;
}
