/*
 * once.h - what several tests want and one of them makes: suites run side by side, and tests in
 * children of theirs.
 */
#ifndef SC_TEST_ONCE_H
#define SC_TEST_ONCE_H

#include <stdbool.h>

/* A run of the tests begins, in the process whose children all others are. */
void once_start(void);

/* Locks the path, a file or a folder of build/test-castings that need not be there, until once_end
 * or the end of this process: it is to be made. False when this run has made it. */
bool once_begin(const char *path);

/* It is made, whole. */
void once_end(void);

#endif
