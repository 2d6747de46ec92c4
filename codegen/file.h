/*
 * file.h - whole files and whole folders, read with a limit and written so that they appear at
 * once.
 *
 * What is written goes aside first, is synced, and then renamed: a reader sees the old or the new,
 * never a half. Modes are fixed, 0644 for files and 0755 for folders, whatever the umask.
 *
 * SC_EENV    what the system refuses (disk full, no permission): "PATH: strerror".
 * SC_EINPUT  a file to read that is missing, is no plain file, or is over the limit.
 * SC_EUSAGE  a place that must not be written to.
 */
#ifndef SC_FILE_H
#define SC_FILE_H

#include <stddef.h>

#include "pool.h"

/* The whole file, in the pool, a NUL behind its *size bytes. limit is in bytes. */
int sc_file_read(char **bytes, size_t *size, const char *path, size_t limit, sc_pool *pool,
                 sc_error *err);

/* Writes one file atomically; an old one of that name is replaced. */
int sc_file_write(const char *path, const void *bytes, size_t size, sc_error *err);

/* write() until all is out, for descriptors from sc_folder_create; path is for the message. */
int sc_file_put(int fd, const void *bytes, size_t size, const char *path, sc_error *err);

/* A folder in the making: a hidden sibling `.NAME.XXXXXX` of the place where it will stand. */
typedef struct sc_folder sc_folder;

/*
 * Begins the folder final_path. SC_EUSAGE when something stands there that commit would refuse to
 * replace. On success end it with exactly one of sc_folder_commit and sc_folder_abort.
 */
int sc_folder_begin(sc_folder **folder, const char *final_path, sc_error *err);

/* Where the files are until commit. Lives as long as the folder. */
const char *sc_folder_path(const sc_folder *folder);

/* Adds the file rel ("runtime/error.c"), making the folders that it needs. A rel that leaves the
 * folder is SC_EUSAGE; one that was written before is SC_EENV. */
int sc_folder_write(sc_folder *folder, const char *rel, const void *bytes, size_t size,
                    sc_error *err);

/* The same for a file to be streamed: *fd is open for reading and writing, the caller closes it
 * before commit. */
int sc_folder_create(sc_folder *folder, const char *rel, int *fd, sc_error *err);

/*
 * Syncs everything and puts the folder in its place, over nothing, an empty folder or an earlier
 * casting (a folder with manifest.json); anything else is SC_EUSAGE and stays as it is. The folder
 * is gone afterwards: after a failure as after sc_folder_abort.
 */
int sc_folder_commit(sc_folder *folder, sc_error *err);

/* Removes all that was written. NULL is fine. */
void sc_folder_abort(sc_folder *folder);

#endif
