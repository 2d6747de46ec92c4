/* once.c - see once.h. */
#include "once.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static long run_of; /* the process that began the run */
static int mark = -1;

void once_start(void) { run_of = getpid(); }

/* The mark has the run that made it. Its lock is this process's, not the descriptor's: a test that
 * fails before once_end hinders none that comes after it here. */
bool once_begin(const char *path) {
    char name[256], made[32] = "";
    mkdir("build/test-castings", 0777);
    snprintf(name, sizeof name, "%s.once", path);
    mark = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ck_assert_msg(mark >= 0 && !lockf(mark, F_LOCK, 0), "%s: cannot be locked", name);
    ck_assert_int_ge(pread(mark, made, sizeof made - 1, 0), 0);
    if (atol(made) != run_of)
        return true;
    close(mark);
    return false;
}

void once_end(void) {
    char made[32];
    const int bytes = snprintf(made, sizeof made, "%-20ld", run_of);
    ck_assert_int_eq(pwrite(mark, made, (size_t)bytes, 0), bytes);
    close(mark);
}
