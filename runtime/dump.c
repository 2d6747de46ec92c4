/* dump.c - see dump.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* open_memstream, fsync */
#endif
#include "dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char *name;
    const char *dtype;
    size_t element, bytes;
    int rank;
    int64_t shape[SC_DUMP_RANK_MAX];
    const void *data;
} tensor;

struct sc_dump {
    char *path;
    tensor *tensors;
    size_t count, room;
    sc_error failure; /* the first; code 0 while there is none */
};

/* Widest elements first: every tensor is then aligned to its element without a gap. */
static const struct {
    const char *name;
    size_t element;
} dtypes[] = { { "F32", 4 }, { "I32", 4 }, { "BF16", 2 }, { "F16", 2 } };

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

int sc_dump_begin(sc_dump **out, const char *path) {
    *out = NULL;
    sc_dump *dump = calloc(1, sizeof *dump);
    if (!dump)
        return SC_EENV;
    dump->path = strdup(path);
    if (!dump->path) {
        free(dump);
        return SC_EENV;
    }
    *out = dump;
    return SC_OK;
}

/* The header is JSON: names that would need an escape are refused. */
static bool good_name(const char *name) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e || *c == '"' || *c == '\\')
            return false;
    return *name != 0 && strcmp(name, "__metadata__") != 0;
}

static bool has_name(const sc_dump *dump, const char *name) {
    for (size_t i = 0; i < dump->count; i++)
        if (strcmp(dump->tensors[i].name, name) == 0)
            return true;
    return false;
}

/* false: negative or too large */
static bool set_shape(tensor *t, const int64_t *shape) {
    t->bytes = t->element;
    for (int i = 0; i < t->rank; i++) {
        t->shape[i] = shape[i];
        if (shape[i] < 0 || __builtin_mul_overflow(t->bytes, (uint64_t)shape[i], &t->bytes))
            return false;
    }
    return true;
}

static bool make_room(sc_dump *dump) {
    if (dump->count < dump->room)
        return true;
    size_t room = dump->room ? 2 * dump->room : 32;
    tensor *tensors = realloc(dump->tensors, room * sizeof *tensors);
    if (!tensors)
        return false;
    dump->tensors = tensors;
    dump->room = room;
    return true;
}

int sc_dump_add(sc_dump *dump, const char *name, const char *dtype, int rank, const int64_t *shape,
                const void *data) {
    if (!dump)
        return SC_EENV;
    sc_error *failure = &dump->failure;
    if (failure->code)
        return failure->code;
    if (!good_name(name))
        return sc_fail(failure, SC_EUSAGE, "%s: \"%s\": not a tensor's name", dump->path, name);
    if (has_name(dump, name))
        return sc_fail(failure, SC_EUSAGE, "%s: %s: added twice", dump->path, name);
    tensor t = { .rank = rank, .data = data };
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            t.dtype = dtypes[i].name, t.element = dtypes[i].element;
    if (!t.dtype)
        return sc_fail(failure, SC_EUSAGE, "%s: %s: \"%s\" is none of F32, I32, BF16, F16",
                       dump->path, name, dtype);
    if (rank < 0 || rank > SC_DUMP_RANK_MAX)
        return sc_fail(failure, SC_EUSAGE, "%s: %s: rank %d is not in 0..%d", dump->path, name,
                       rank, SC_DUMP_RANK_MAX);
    if (!set_shape(&t, shape))
        return sc_fail(failure, SC_EUSAGE, "%s: %s: the shape is negative or too large", dump->path,
                       name);
    if (!make_room(dump) || !(t.name = strdup(name)))
        return sc_fail(failure, SC_EENV, "%s: %s: no memory", dump->path, name);
    dump->tensors[dump->count++] = t;
    return SC_OK;
}

/* One pass per dtype gives the order in the file; header and data walk it alike. */
static bool print_header(const sc_dump *dump, FILE *file) {
    uint64_t offset = 0;
    const char *comma = "";
    fputc('{', file);
    for (int d = 0; d < DTYPES; d++)
        for (size_t i = 0; i < dump->count; i++) {
            const tensor *t = &dump->tensors[i];
            if (t->dtype != dtypes[d].name)
                continue;
            fprintf(file, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", comma, t->name, t->dtype);
            for (int k = 0; k < t->rank; k++)
                fprintf(file, "%s%" PRId64, k ? "," : "", t->shape[k]);
            uint64_t end;
            if (__builtin_add_overflow(offset, t->bytes, &end))
                return false;
            fprintf(file, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, end);
            offset = end;
            comma = ",";
        }
    fputc('}', file);
    return true;
}

static int make_header(const sc_dump *dump, char **text, size_t *bytes, sc_error *err) {
    FILE *file = open_memstream(text, bytes);
    if (!file)
        return sc_fail(err, SC_EENV, "%s: no memory for the header", dump->path);
    bool fits = print_header(dump, file);
    if (fits && fflush(file) == 0)
        for (size_t pad = (8 - *bytes % 8) % 8; pad > 0; pad--)
            fputc(' ', file);
    bool failed = ferror(file);
    if (fclose(file) != 0 || failed)
        return sc_fail(err, SC_EENV, "%s: no memory for the header", dump->path);
    return fits ? SC_OK
                : sc_fail(err, SC_EUSAGE, "%s: the tensors together are too large", dump->path);
}

static bool write_bytes(FILE *file, const void *data, size_t bytes) {
    return bytes == 0 || fwrite(data, 1, bytes, file) == bytes;
}

static bool write_all(const sc_dump *dump, FILE *file, const char *header, size_t bytes) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    if (!write_bytes(file, length, sizeof length) || !write_bytes(file, header, bytes))
        return false;
    for (int d = 0; d < DTYPES; d++)
        for (size_t i = 0; i < dump->count; i++) {
            const tensor *t = &dump->tensors[i];
            if (t->dtype == dtypes[d].name && !write_bytes(file, t->data, t->bytes))
                return false;
        }
    return fflush(file) == 0 && fsync(fileno(file)) == 0;
}

static int write_aside(const sc_dump *dump, const char *aside, const char *header, size_t bytes,
                       sc_error *err) {
    FILE *file = fopen(aside, "wbe");
    if (!file)
        return sc_fail(err, SC_EENV, "%s: cannot create: %s", aside, strerror(errno));
    bool written = write_all(dump, file, header, bytes);
    int reason = errno;
    if (fclose(file) != 0 && written) {
        written = false;
        reason = errno;
    }
    if (written && rename(aside, dump->path) != 0) {
        written = false;
        reason = errno;
    }
    if (written)
        return SC_OK;
    unlink(aside);
    return sc_fail(err, SC_EENV, "%s: cannot write: %s", dump->path, strerror(reason));
}

static void destroy(sc_dump *dump) {
    for (size_t i = 0; i < dump->count; i++)
        free(dump->tensors[i].name);
    free(dump->tensors);
    free(dump->path);
    free(dump);
}

int sc_dump_end(sc_dump *dump, sc_error *err) {
    if (!dump)
        return sc_fail(err, SC_EENV, "dump: no memory");
    char *aside = NULL, *header = NULL;
    size_t bytes = 0;
    int rc = dump->failure.code;
    if (rc) {
        sc_fail(err, rc, "%s", dump->failure.message);
        goto done;
    }
    rc = make_header(dump, &header, &bytes, err);
    if (rc)
        goto done;
    size_t aside_bytes = strlen(dump->path) + 32;
    aside = malloc(aside_bytes);
    if (!aside) {
        rc = sc_fail(err, SC_EENV, "%s: no memory", dump->path);
        goto done;
    }
    /* With the process in the name: two runners that dump to one path do not mix. */
    snprintf(aside, aside_bytes, "%s.part%jd", dump->path, (intmax_t)getpid());
    rc = write_aside(dump, aside, header, bytes, err);
done:
    free(aside);
    free(header);
    destroy(dump);
    return rc;
}
