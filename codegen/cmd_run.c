/*
 * cmd_run.c - run and bench: cast, build, and become the casting's program.
 *
 * Castings are kept by content under $SLIPCAST_CACHE, else $XDG_CACHE_HOME/slipcast, else
 * ~/.cache/slipcast: the key is a digest of the inputs' digests, the options, the compiler and
 * everything this program emits from, its own sources with it. Digests of inputs are remembered by
 * device, inode, size and times, so that a large file is read once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd_chat.h"
#include "file.h"
#include "options.h"
#include "sha256.h"
#include "template.h"

static const char *compiler(void) {
    const char *cc = getenv("CC");
    return cc && *cc ? cc : "cc";
}

static int make_folders(char *path, sc_error *err) {
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            return sc_fail(err, SC_EENV, "%s: cannot be made: %s (set SLIPCAST_CACHE)", path,
                           strerror(errno));
        if (!slash)
            return SC_OK;
        *slash = '/';
    }
}

static int cache_folder(char **path, sc_pool *pool, sc_error *err) {
    const char *own = getenv("SLIPCAST_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (own && *own)
        *path = sc_pool_strdup(pool, own);
    else if (xdg && *xdg)
        *path = sc_pool_printf(pool, "%s/slipcast", xdg);
    else if (home && *home)
        *path = sc_pool_printf(pool, "%s/.cache/slipcast", home);
    else
        return sc_fail(err, SC_EENV,
                       "run: there is no place for castings (set SLIPCAST_CACHE or HOME)");
    return *path ? make_folders(*path, err) : sc_oom(err, "running");
}

/* The digest of an input, from the memo when the file is the one that was summed. A file changed in
 * the last two seconds is not remembered: it could change again within one tick of its clock. */
static int input_digest(char hex[65], const char *cache, const char *path, sc_pool *pool,
                        sc_error *err) {
    struct stat st;
    if (stat(path, &st))
        return sc_fail(err, SC_EINPUT, "%s: %s", path, strerror(errno));
    const char *identity = sc_pool_printf(
        pool, "%llu %llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)st.st_dev,
        (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
        st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
    char key[65];
    int rc =
        identity ? sc_sha256_hex(key, identity, strlen(identity), err) : sc_oom(err, "running");
    if (rc)
        return rc;
    const char *memo = sc_pool_printf(pool, "%s/sum-%s", cache, key);
    if (!memo)
        return sc_oom(err, "running");
    const int fd = open(memo, O_RDONLY | O_CLOEXEC);
    const bool known = fd >= 0 && read(fd, hex, 65) == 64;
    if (fd >= 0)
        close(fd);
    if (known) {
        hex[64] = 0;
        return SC_OK;
    }
    rc = sc_export_digest(hex, path, err);
    if (!rc && time(NULL) - st.st_ctim.tv_sec > 2)
        rc = sc_file_write(memo, hex, 64, err);
    return rc;
}

static int add_line(sc_sha256 *sum, const char *text, sc_error *err) {
    return sc_sha256_update(sum, text, strlen(text) + 1, err);
}

/* The model's files by name, in strcmp order: what an export could depend on. */
static int list_inputs(const char ***paths, int *count, const char *model, sc_pool *pool,
                       sc_error *err) {
    enum { MOST = 4096 };
    struct stat st;
    const char **list = sc_pool_alloc(pool, MOST, sizeof *list);
    if (!list)
        return sc_oom(err, "running");
    *paths = list;
    *count = 0;
    if (stat(model, &st))
        return sc_fail(err, SC_EINPUT,
                       "%s: there is no such model (give an HF folder or a GGUF file)", model);
    if (!S_ISDIR(st.st_mode)) {
        list[(*count)++] = model;
        return SC_OK;
    }
    struct dirent **entries;
    const int n = scandir(model, &entries, NULL, alphasort);
    if (n < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be listed: %s", model, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        const bool wanted = dot && (!strcmp(dot, ".json") || !strcmp(dot, ".safetensors") ||
                                    !strcmp(dot, ".jinja"));
        if (wanted && *count < MOST)
            list[(*count)++] = sc_pool_printf(pool, "%s/%s", model, name);
        free(entries[i]);
    }
    free(entries);
    for (int i = 0; i < *count; i++)
        if (!list[i])
            return sc_oom(err, "running");
    return SC_OK;
}

/* From the files' bytes, not from what they say: a casting that is there is run without reading
 * them. */
static int content_key(char hex[65], const char *cache, const char *model,
                       const sc_export_options *o, sc_pool *pool, sc_error *err) {
    const sc_arch *arch = sc_arch_find(o->arch ? o->arch : "native");
    const char **inputs = NULL;
    int count = 0;
    int rc = list_inputs(&inputs, &count, model, pool, err);
    sc_sha256 *sum = NULL;
    if (!rc)
        rc = sc_sha256_begin(&sum, err);
    if (rc)
        return rc;
    for (int i = 0; i < sc_embedded_count && !rc; i++) {
        rc = add_line(sum, sc_embedded[i].path, err);
        if (!rc)
            rc = sc_sha256_update(sum, sc_embedded[i].bytes, sc_embedded[i].size, err);
    }
    for (int i = 0; i < count && !rc; i++) {
        char digest[65];
        rc = input_digest(digest, cache, inputs[i], pool, err);
        if (!rc)
            rc = add_line(sum, digest, err);
        if (!rc && inputs[i] != model)
            rc = add_line(sum, strrchr(inputs[i], '/'), err);
    }
    const char *options = sc_pool_printf(
        pool, "%llx %s %lld %lld %lld %s %s %d %d %s %s %s %d %lld", sc_sources_sum,
        o->name ? o->name : "", (long long)o->max_cache_len, (long long)o->batch_size,
        (long long)o->rewind, o->dtype ? o->dtype : "", o->kv_dtype ? o->kv_dtype : "",
        o->offloading, o->offload_sliding,
        arch ? arch->name : sc_pool_printf(pool, "%s %s", o->arch, sc_arch_find("native")->name),
        compiler(), o->target ? o->target : "cpu", o->emit_only, (long long)o->offload_weights);
    if (!rc)
        rc = options ? add_line(sum, options, err) : sc_oom(err, "running");
    if (!rc)
        return sc_sha256_finish(sum, hex, err);
    sc_sha256_drop(sum);
    return rc;
}

/* What is run: the program, or for a chat the library, which is opened in this process. */
static const char *make_target(const char *name, bool chat, sc_pool *pool) {
    return chat ? sc_pool_printf(pool, "lib%s.so", name) : name;
}

/* Runs make in the casting; its output goes to a log that is shown when it fails. */
static int build(const char *dir, const char *target, sc_pool *pool, sc_error *err) {
    const char *log = sc_pool_printf(pool, "%s/build.log", dir),
               *cc = sc_pool_printf(pool, "CC=%s", compiler());
    if (!log || !cc || !target)
        return sc_oom(err, "building");
    const pid_t child = fork();
    if (child < 0)
        return sc_fail(err, SC_EENV, "run: no process for make: %s", strerror(errno));
    if (!child) {
        const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd >= 0) {
            dup2(fd, STDOUT_FILENO);
            dup2(fd, STDERR_FILENO);
        }
        unsetenv("MAKEFLAGS");
        unsetenv("MFLAGS");
        unsetenv("MAKELEVEL");
        unsetenv("CFLAGS");
        unsetenv("LDFLAGS");
        execlp("make", "make", "-C", dir, "-j2", cc, target, (char *)NULL);
        _exit(127);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return sc_fail(err, SC_EENV, "run: make: %s", strerror(errno));
    if (WIFEXITED(status) && !WEXITSTATUS(status)) {
        unlink(log);
        return SC_OK;
    }
    return sc_fail(
        err, SC_EENV,
        "%s: the casting could not be built with make and %s (are both installed? set CC)", log,
        compiler());
}

static int become(const char *dir, const char *name, const sc_cli *cli, sc_pool *pool,
                  sc_error *err) {
    const char *program = sc_pool_printf(pool, "%s/%s", dir, name);
    const char **argv = sc_pool_alloc(pool, (size_t)cli->rest + 8, sizeof *argv);
    if (!program || !argv)
        return sc_oom(err, "running");
    int n = 0;
    argv[n++] = program;
    for (int i = 0; i < cli->rest; i++)
        argv[n++] = cli->word[i];
    if (!strcmp(cli->command, "bench")) {
        argv[n++] = "--bench";
        argv[n++] = cli->bench ? cli->bench : "512,64,3";
    }
    fflush(NULL);
    execv(program, (char *const *)(uintptr_t)argv);
    return sc_fail(err, SC_EENV, "%s: cannot be run: %s", program, strerror(errno));
}

static bool is_casting(const char *path, sc_pool *pool) {
    const char *manifest = sc_pool_printf(pool, "%s/manifest.json", path);
    return manifest && !access(manifest, F_OK);
}

/* A casting of our own cache is never edited; in a user's folder make decides what is old. */
static int run_casting(const char *dir, bool built, const sc_cli *cli, sc_pool *pool, FILE *out,
                       sc_error *err) {
    sc_export_options options;
    int rc = sc_export_read_options(&options, pool, dir, err);
    if (!rc && !built)
        rc = build(dir, make_target(options.name, cli->chat, pool), pool, err);
    if (rc)
        return rc;
    return cli->chat ? sc_chat_run(dir, options.name, cli, pool, out, err)
                     : become(dir, options.name, cli, pool, err);
}

static int cast(const char *dir, const char *model, const sc_export_options *options, sc_pool *pool,
                sc_error *err) {
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    int rc = sc_source_open(&source, pool, model, true, false, err);
    if (rc)
        return rc;
    if (!source->tensors)
        rc = sc_fail(err, SC_EINPUT,
                     "%s: has no weights to run (give the folder, not its config.json)", model);
    if (!rc)
        rc = sc_export_plan(&plan, pool, source, options, err);
    if (!rc && !options->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "casting %s …\n", model);
    if (!rc)
        rc = sc_export_write(dir, pool, source, plan, options->quiet, err);
    sc_source_close(source);
    return rc;
}

/* The mark is made when make is done: a program that is being linked is there, but not whole. */
static const char *built_mark(const char *dir, bool chat, sc_pool *pool) {
    return sc_pool_printf(pool, "%s/.built%s", dir, chat ? "-library" : "");
}

static bool is_built(const char *dir, bool chat, sc_pool *pool) {
    const char *mark = built_mark(dir, chat, pool);
    return mark && !access(mark, F_OK);
}

/* Casts and builds under a lock, for another run may want the same casting at this moment. */
static int make_casting(const char *dir, const char *model, const sc_export_options *options,
                        bool chat, sc_pool *pool, sc_error *err) {
    const char *path = sc_pool_printf(pool, "%s.lock", dir);
    const int lock = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (lock < 0 || flock(lock, LOCK_EX)) {
        const int rc = sc_fail(err, SC_EENV, "%s: cannot be locked: %s (set SLIPCAST_CACHE)",
                               path ? path : dir, strerror(errno));
        if (lock >= 0)
            close(lock);
        return rc;
    }
    int rc = is_casting(dir, pool) ? SC_OK : cast(dir, model, options, pool, err);
    sc_export_options made;
    if (!rc)
        rc = sc_export_read_options(&made, pool, dir, err);
    if (!rc && !is_built(dir, chat, pool))
        rc = build(dir, make_target(made.name, chat, pool), pool, err);
    if (!rc)
        rc = sc_file_write(built_mark(dir, chat, pool), "", 0, err);
    close(lock);
    return rc;
}

int sc_cmd_run(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err) {
    if (!strcmp(cli->command, "run") && !cli->rows && !cli->chat)
        return sc_fail(err, SC_EUSAGE,
                       "run: what to go on from? (-p TEXT, --token-ids 1,2,3, or -i to chat)");
    if (is_casting(cli->model[0], pool))
        return run_casting(cli->model[0], false, cli, pool, out, err);
    sc_export_options options = cli->export;
    if (!cli->given_batch && cli->rows > 1)
        options.batch_size = cli->rows;
    char *cache = NULL, key[65];
    int rc = cache_folder(&cache, pool, err);
    if (!rc)
        rc = content_key(key, cache, cli->model[0], &options, pool, err);
    const char *dir = rc ? NULL : sc_pool_printf(pool, "%s/%s", cache, key);
    if (!rc && !dir)
        rc = sc_oom(err, "running");
    if (rc)
        return rc;
    if (!is_built(dir, cli->chat, pool))
        rc = make_casting(dir, cli->model[0], &options, cli->chat, pool, err);
    return rc ? rc : run_casting(dir, true, cli, pool, out, err);
}
