/*
 * fuzz.h - what the entries share: one libFuzzer entry per reader of outside files.
 *
 * An entry returns 0 always; a crash, a sanitizer's word or a broken promise (abort) is the find.
 * tests/check_fuzz.c replays corpus/ through all of them in one program, each under a name of its
 * own. Include this first: it wants memfd_create.
 */
#ifndef SC_FUZZ_H
#define SC_FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../runtime/error.h"

/* The bytes as a file without a name: its path into path[64], its descriptor for close(). */
static inline int fuzz_file(char path[64], const void *data, size_t size) {
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* A refusal says why, in one line. */
static inline void fuzz_refusal(int rc, const sc_error *err) {
    if (rc >= 0 || !err->message[0] || strchr(err->message, '\n')) {
        fprintf(stderr, "status %d: \"%s\"\n", rc, err->message);
        abort();
    }
}

/* A promise of our own code. */
static inline void fuzz_promise(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

#endif
