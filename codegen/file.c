/* file.c - see file.h. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0644, FOLDER_MODE = 0755 };

struct sc_folder {
    char *final; /* without a slash at its end */
    char *aside;
};

static int system_says(sc_error *err, const char *path) {
    return sc_fail(err, SC_EENV, "%s: %s", path, strerror(errno));
}

/* "FOLDER/NAME", to free(); NULL when no memory is left. */
static char *join(const char *folder, const char *name) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* The folder that holds path, to free(). */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* A hidden sibling's name for mkstemp and mkdtemp, to free(). */
static char *sibling_of(const char *path) {
    const char *slash = strrchr(path, '/');
    const size_t stem = slash ? (size_t)(slash - path) + 1 : 0;
    const size_t size = strlen(path) + sizeof "..XXXXXX";
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "%.*s.%s.XXXXXX", (int)stem, path, path + stem);
    return name;
}

/* ---- one file ---- */

int sc_file_read(char **bytes, size_t *size, const char *path, size_t limit, sc_pool *pool,
                 sc_error *err) {
    struct stat st;
    int rc = SC_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0)
        return sc_fail(err, SC_EINPUT, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st)) {
        rc = system_says(err, path);
        goto done;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = sc_fail(err, SC_EINPUT, "%s: not a plain file", path);
        goto done;
    }
    if ((unsigned long long)st.st_size > limit || st.st_size == INT64_MAX) {
        rc = sc_fail(err, SC_EINPUT, "%s: %lld bytes, more than the limit of %zu", path,
                     (long long)st.st_size, limit);
        goto done;
    }
    const size_t want = (size_t)st.st_size;
    char *text = sc_pool_alloc(pool, want + 1, 1);
    if (!text) {
        rc = sc_oom(err, "handling files");
        goto done;
    }
    size_t have = 0;
    while (have < want) {
        const ssize_t got = read(fd, text + have, want - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            rc = system_says(err, path);
            goto done;
        }
        if (got == 0)
            break; /* it shrank while we read: what is there counts */
        have += (size_t)got;
    }
    text[have] = '\0';
    *bytes = text;
    *size = have;
done:
    close(fd);
    return rc;
}

int sc_file_put(int fd, const void *bytes, size_t size, const char *path, sc_error *err) {
    const char *from = bytes;
    while (size > 0) {
        const ssize_t put = write(fd, from, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return system_says(err, path);
        from += put;
        size -= (size_t)put;
    }
    return SC_OK;
}

/* Syncs a file or a folder. Some file systems cannot sync folders; that is no failure. */
static int sync_path(const char *path, bool folder, sc_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | (folder ? O_DIRECTORY : 0));
    if (fd < 0)
        return system_says(err, path);
    int rc = SC_OK;
    if (fsync(fd) && !(folder && errno == EINVAL))
        rc = system_says(err, path);
    close(fd);
    return rc;
}

static int sync_parent(const char *path, sc_error *err) {
    char *folder = folder_of(path);
    if (!folder)
        return sc_oom(err, "handling files");
    const int rc = sync_path(folder, true, err);
    free(folder);
    return rc;
}

int sc_file_write(const char *path, const void *bytes, size_t size, sc_error *err) {
    char *aside = sibling_of(path);
    if (!aside)
        return sc_oom(err, "handling files");
    int rc = SC_OK;
    int fd = mkstemp(aside);
    if (fd < 0) {
        rc = system_says(err, path);
        free(aside);
        return rc;
    }
    rc = sc_file_put(fd, bytes, size, path, err);
    if (!rc && (fchmod(fd, FILE_MODE) || fsync(fd)))
        rc = system_says(err, path);
    if (close(fd) && !rc)
        rc = system_says(err, path);
    if (!rc && rename(aside, path))
        rc = system_says(err, path);
    if (rc)
        unlink(aside);
    else
        rc = sync_parent(path, err);
    free(aside);
    return rc;
}

/* ---- a folder ---- */

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

/* Removes a tree as far as it goes; links are removed, not followed. */
static void remove_tree(const char *path) {
    DIR *dir = opendir(path);
    if (dir) {
        for (struct dirent *entry; (entry = readdir(dir));) {
            struct stat st;
            char *inner = is_dots(entry->d_name) ? NULL : join(path, entry->d_name);
            if (inner && !lstat(inner, &st)) {
                if (S_ISDIR(st.st_mode))
                    remove_tree(inner);
                else
                    unlink(inner);
            }
            free(inner);
        }
        closedir(dir);
    }
    rmdir(path);
}

static int sync_tree(const char *path, sc_error *err) {
    int rc = SC_OK;
    DIR *dir = opendir(path);
    if (!dir)
        return system_says(err, path);
    for (struct dirent *entry; !rc && (entry = readdir(dir));) {
        struct stat st;
        if (is_dots(entry->d_name))
            continue;
        char *inner = join(path, entry->d_name);
        if (!inner)
            rc = sc_oom(err, "handling files");
        else if (lstat(inner, &st))
            rc = system_says(err, inner);
        else if (S_ISDIR(st.st_mode))
            rc = sync_tree(inner, err);
        else
            rc = sync_path(inner, false, err);
        free(inner);
    }
    closedir(dir);
    return rc ? rc : sync_path(path, true, err);
}

enum standing { STANDS_NOTHING, STANDS_EMPTY, STANDS_CASTING };

/* What stands at the final path; SC_EUSAGE when it must stay there. */
static int look(enum standing *standing, const char *path, sc_error *err) {
    struct stat st;
    if (lstat(path, &st)) {
        if (errno != ENOENT)
            return system_says(err, path);
        *standing = STANDS_NOTHING;
        return SC_OK;
    }
    if (!S_ISDIR(st.st_mode))
        return sc_fail(err, SC_EUSAGE, "%s: exists and is no folder (choose another place)", path);
    DIR *dir = opendir(path);
    if (!dir)
        return system_says(err, path);
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(dir));)
        empty = is_dots(entry->d_name);
    closedir(dir);
    char *manifest = join(path, "manifest.json");
    if (!manifest)
        return sc_oom(err, "handling files");
    const bool casting = !lstat(manifest, &st) && S_ISREG(st.st_mode);
    free(manifest);
    if (!empty && !casting)
        return sc_fail(err, SC_EUSAGE,
                       "%s: a folder with files but no manifest.json, so no casting to replace "
                       "(choose another place)",
                       path);
    *standing = empty ? STANDS_EMPTY : STANDS_CASTING;
    return SC_OK;
}

static void folder_free(sc_folder *folder) {
    free(folder->final);
    free(folder->aside);
    free(folder);
}

int sc_folder_begin(sc_folder **folder, const char *final_path, sc_error *err) {
    size_t length = strlen(final_path);
    while (length > 1 && final_path[length - 1] == '/')
        length--;
    sc_folder *made = calloc(1, sizeof *made);
    int rc = SC_OK;
    if (!made || !(made->final = strndup(final_path, length)) ||
        !(made->aside = sibling_of(made->final))) {
        rc = sc_oom(err, "beginning a folder");
        goto done;
    }
    const char *slash = strrchr(made->final, '/');
    const char *name = slash ? slash + 1 : made->final;
    if (!*name || is_dots(name)) {
        rc = sc_fail(err, SC_EUSAGE, "%s: not the name of a new folder (give it one)", final_path);
        goto done;
    }
    enum standing standing;
    rc = look(&standing, made->final, err);
    if (rc)
        goto done;
    if (!mkdtemp(made->aside)) {
        rc = system_says(err, made->final);
        goto done;
    }
    if (chmod(made->aside, FOLDER_MODE)) {
        rc = system_says(err, made->final);
        rmdir(made->aside);
        goto done;
    }
    *folder = made;
    return SC_OK;
done:
    if (made)
        folder_free(made);
    return rc;
}

const char *sc_folder_path(const sc_folder *folder) { return folder->aside; }

/* Is rel a path that stays inside: no empty, "." or ".." component? */
static bool stays_inside(const char *rel) {
    for (const char *from = rel;; from++) {
        const size_t length = strcspn(from, "/");
        if (length == 0 || (length == 1 && from[0] == '.') ||
            (length == 2 && from[0] == '.' && from[1] == '.'))
            return false;
        from += length;
        if (!*from)
            return true;
    }
}

int sc_folder_create(sc_folder *folder, const char *rel, int *fd, sc_error *err) {
    if (!stays_inside(rel))
        return sc_fail(err, SC_EUSAGE, "%s: leaves the folder %s (name a path below it)", rel,
                       folder->final);
    char *path = join(folder->aside, rel);
    if (!path)
        return sc_oom(err, "handling files");
    int rc = SC_OK, made = -1;
    char *slash = path + strlen(folder->aside);
    while ((slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        if (!mkdir(path, FOLDER_MODE)) {
            if (chmod(path, FOLDER_MODE)) /* the umask has no say */
                rc = system_says(err, path);
        } else if (errno != EEXIST) {
            rc = system_says(err, path);
        }
        *slash = '/';
        if (rc)
            goto done;
    }
    made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (made < 0 || fchmod(made, FILE_MODE)) {
        rc = system_says(err, path);
        if (made >= 0)
            close(made);
        goto done;
    }
    *fd = made;
done:
    free(path);
    return rc;
}

int sc_folder_write(sc_folder *folder, const char *rel, const void *bytes, size_t size,
                    sc_error *err) {
    int fd;
    int rc = sc_folder_create(folder, rel, &fd, err);
    if (rc)
        return rc;
    rc = sc_file_put(fd, bytes, size, rel, err);
    if (close(fd) && !rc)
        rc = system_says(err, rel);
    return rc;
}

/* Old casting aside, new one in its place; when that fails the old one comes back. */
static int replace(const sc_folder *folder, sc_error *err) {
    char *old = sibling_of(folder->final);
    if (!old)
        return sc_oom(err, "handling files");
    int rc = SC_OK;
    if (!mkdtemp(old)) {
        rc = system_says(err, folder->final);
    } else if (rename(folder->final, old)) {
        rc = system_says(err, folder->final);
        rmdir(old);
    } else if (rename(folder->aside, folder->final)) {
        rc = system_says(err, folder->final);
        if (rename(old, folder->final))
            rc = sc_fail(err, SC_EENV, "%s: %s (the casting that was there is now %s)",
                         folder->final, strerror(errno), old);
    } else {
        remove_tree(old);
    }
    free(old);
    return rc;
}

int sc_folder_commit(sc_folder *folder, sc_error *err) {
    enum standing standing;
    int rc = sync_tree(folder->aside, err);
    if (!rc)
        rc = look(&standing, folder->final, err);
    if (!rc && standing == STANDS_CASTING)
        rc = replace(folder, err);
    else if (!rc && rename(folder->aside, folder->final))
        rc = system_says(err, folder->final);
    if (rc) {
        sc_folder_abort(folder);
        return rc;
    }
    rc = sync_parent(folder->final, err);
    folder_free(folder);
    return rc;
}

void sc_folder_abort(sc_folder *folder) {
    if (!folder)
        return;
    remove_tree(folder->aside);
    folder_free(folder);
}
