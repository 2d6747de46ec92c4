/*
 * nvrtc.c - a stand-in for NVRTC: code that only looks like some, made of all that real code would
 * depend on. For tests of the export on machines without a toolkit; found through CUDA_HOME.
 *
 * STANDIN_NVRTC   "12.4": the version that it says it is; 13.0 by default
 * STANDIN_ERROR   the line that it complains of, in NVRTC's words
 *
 * A cubin is an ELF header's first bytes, then the name, the options and a sum of the source; PTX
 * is text with the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    uint64_t sum;
    char cubin[512], ptx[512], log[512];
    size_t cubin_size;
} * program;

int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *archs);
int nvrtcCreateProgram(program *made, const char *source, const char *name, int headers,
                       const char *const *header, const char *const *include);
int nvrtcDestroyProgram(program *p);
int nvrtcCompileProgram(program p, int options, const char *const *option);
int nvrtcGetProgramLogSize(program p, size_t *size);
int nvrtcGetProgramLog(program p, char *log);
int nvrtcGetCUBINSize(program p, size_t *size);
int nvrtcGetCUBIN(program p, char *code);
int nvrtcGetPTXSize(program p, size_t *size);
int nvrtcGetPTX(program p, char *code);

int nvrtcVersion(int *major, int *minor) {
    const char *text = getenv("STANDIN_NVRTC");
    *major = 13;
    *minor = 0;
    return text && sscanf(text, "%d.%d", major, minor) != 2;
}

/* As NVRTC has them; 12.8 brought those from 100 on. */
static const int known[] = { 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121 };
enum { KNOWN = sizeof known / sizeof *known, OLD = 6 };

int nvrtcGetNumSupportedArchs(int *count) {
    int major, minor;
    nvrtcVersion(&major, &minor);
    *count = major * 100 + minor >= 1208 ? KNOWN : OLD;
    return 0;
}

int nvrtcGetSupportedArchs(int *archs) {
    int count;
    nvrtcGetNumSupportedArchs(&count);
    memcpy(archs, known, (size_t)count * sizeof *archs);
    return 0;
}

int nvrtcCreateProgram(program *made, const char *source, const char *name, int headers,
                       const char *const *header, const char *const *include) {
    (void)header, (void)include;
    program p = calloc(1, sizeof *p);
    if (!p || headers)
        return 1;
    p->name = name;
    p->sum = 14695981039346656037u; /* FNV-1a */
    for (const char *c = source; *c; c++)
        p->sum = (p->sum ^ (unsigned char)*c) * 1099511628211u;
    *made = p;
    return 0;
}

int nvrtcDestroyProgram(program *p) {
    free(*p);
    *p = NULL;
    return 0;
}

int nvrtcCompileProgram(program p, int options, const char *const *option) {
    const char *line = getenv("STANDIN_ERROR");
    char all[256] = "";
    for (int i = 0; i < options; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", option[i]);
    if (line) {
        snprintf(
            p->log, sizeof p->log,
            "%s(%s): warning #177-D: variable \"y\" was declared but never referenced\n"
            "%s(%s): error: identifier \"x\" is undefined\n    x;\n    ^\n\n1 error detected in "
            "the compilation of \"%s\".\n",
            p->name, line, p->name, line, p->name);
        return 6;
    }
    p->cubin_size = (size_t)snprintf(p->cubin, sizeof p->cubin, "\177ELF%s %s%016llx", p->name, all,
                                     (unsigned long long)p->sum) +
                    1;
    snprintf(p->ptx, sizeof p->ptx, "// %s %s%016llx\n.version 9.0\n", p->name, all,
             (unsigned long long)p->sum);
    return 0;
}

int nvrtcGetProgramLogSize(program p, size_t *size) {
    *size = strlen(p->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(program p, char *log) {
    strcpy(log, p->log);
    return 0;
}

int nvrtcGetCUBINSize(program p, size_t *size) {
    *size = p->cubin_size;
    return 0;
}

int nvrtcGetCUBIN(program p, char *code) {
    memcpy(code, p->cubin, p->cubin_size);
    return 0;
}

int nvrtcGetPTXSize(program p, size_t *size) {
    *size = strlen(p->ptx) + 1;
    return 0;
}

int nvrtcGetPTX(program p, char *code) {
    strcpy(code, p->ptx);
    return 0;
}
