/* run.c - see run.h. */
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TALK_BYTES = 65536 };

static char *slurp(const char *path) {
    char *text = calloc(1, TALK_BYTES);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(text);
    if (f) {
        const size_t n = fread(text, 1, TALK_BYTES - 1, f);
        text[n] = 0;
        fclose(f);
    }
    return text;
}

int run(char **output, char **talk, const char *format, ...) {
    char command[16384], all[20000], out[64], err[64];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    ck_assert_int_lt(n, (int)sizeof command);
    if (!getenv("SLIPCAST"))
        setenv("SLIPCAST", "build/slipcast", 1);
    setenv("SLIPCAST_CACHE", "build/test-castings", 1);
    mkdir("build", 0777);
    snprintf(out, sizeof out, "build/test-%d.out", (int)getpid());
    snprintf(err, sizeof err, "build/test-%d.err", (int)getpid());
    snprintf(all, sizeof all, "{ %s ; } >%s 2>%s", command, out, err);
    const int status = system(all);
    if (output)
        *output = slurp(out);
    if (talk)
        *talk = slurp(err);
    else if (WEXITSTATUS(status)) {
        char *text = slurp(err);
        fprintf(stderr, "%s\n%s", command, text);
        free(text);
    }
    unlink(out);
    unlink(err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void run_share_runtime(void) {
    char path[4096];
    const char *cc = getenv("CC");
    ck_assert_ptr_nonnull(realpath("tests/support/cc", path));
    setenv("SC_TEST_CC", cc && *cc ? cc : "cc", 1);
    setenv("CC", path, 1);
}

float *tensor_floats(const sc_tensors *tensors, const char *name, int *rank, int64_t *shape) {
    const sc_tensor *t = sc_tensors_find(tensors, name);
    ck_assert_msg(t != NULL, "%s: no tensor %s", tensors->path, name);
    int64_t rows = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        rows *= t->shape[i];
    float *data = malloc((size_t)(rows * t->shape[t->rank - 1]) * sizeof *data + 1);
    sc_error err = { 0 };
    ck_assert_ptr_nonnull(data);
    ck_assert_msg(!sc_tensor_read(t, 0, rows, data, &err), "%s", err.message);
    *rank = t->rank;
    memcpy(shape, t->shape, sizeof t->shape);
    return data;
}

double largest_difference(const float *a, const float *b, size_t count, size_t *worst) {
    double largest = 0;
    *worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= largest)) {
            largest = isnan(d) ? INFINITY : d;
            *worst = i;
        }
    }
    return largest;
}
