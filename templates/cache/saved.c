{{! saved.c - a cache in a file. }}
/* A saved cache: this, the counts, a checksum of all else, then row by row the used slots of every
 * layer's keys, values and indexer keys, and its states. */
static const struct {
    char magic[8];
    unsigned char layout[32]; /* of the casting */
} saved_head = { "SCCACHE2", {
    {{layout_bytes}}
} };

{{> cache/device_saved.c}}
/* Calls visit on every stored run of bytes, in the file's order. */
static int each_run(const {{name}}_cache *cache, const cache_counts *counts,
                    int (*visit)(void *run, size_t bytes, void *arg), void *arg) {
    int rc = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        const shape_info *shape = {{name}}_place[layer].shape < 0 ? NULL : shape_of(layer);
        for (int64_t row = 0; shape && row < BATCH && !rc; row++) {
            /* A ring that has been full once may have any slot in use. */
            const int64_t used = counts->kept[layer][row]
                                     ? shape->slots
                                     : least(counts->seen[layer][row], shape->slots);
            for (int64_t at = row * shape->kv_heads; at < (row + 1) * shape->kv_heads && !rc;
                 at++) {
                rc = {{visit}}keys_of(cache, layer) + at * shape->slots * shape->key,
                           (size_t)(used * shape->key) * sizeof(kv), arg);
                if (!rc)
                    rc = {{visit}}values_of(cache, layer) + at * shape->slots * shape->value,
                               (size_t)(used * shape->value) * sizeof(kv), arg);
            }
{{#has_indexer}}
            const size_t width = (size_t){{name}}_indexer[layer].dim * sizeof(indexer_key);
            if (!rc)
                rc = {{visit}}cache->arena + {{name}}_indexer[layer].offset +
                               (size_t)(row * shape->slots) * width,
                           (size_t)counts->indexed[layer][row] * width, arg);
{{/has_indexer}}
        }
    }
{{#has_states}}
    for (int i = 0; i < STATES; i++)
        for (int row = 0; row < BATCH && !rc; row++)
            if (counts->held[i][row])
                rc = {{visit}}state_row(cache, i, row), state_bytes(i), arg);
{{/has_states}}
    return rc;
}

typedef struct {
    int fd;
    sc_checksum sum;
} saved_file;

static int sum_run(void *run, size_t bytes, void *arg) {
    sc_checksum_add(&((saved_file *)arg)->sum, run, bytes);
    return 0;
}

static void sum_begin(saved_file *file, const cache_counts *counts) {
    sc_checksum_begin(&file->sum);
    sc_checksum_add(&file->sum, &saved_head, sizeof saved_head);
    sc_checksum_add(&file->sum, counts, sizeof *counts);
}

static int transfer(int fd, void *data, size_t bytes, int writing) {
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        const ssize_t n = writing ? write(fd, at, bytes - done) : read(fd, at, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (!n)
                errno = 0;
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

static int write_run(void *run, size_t bytes, void *arg) {
    return transfer(((saved_file *)arg)->fd, run, bytes, 1);
}

static int read_run(void *run, size_t bytes, void *arg) {
    return transfer(((saved_file *)arg)->fd, run, bytes, 0);
}

/* Reads past a run without keeping it: the first pass of load only sums. */
static int skim_run(void *run, size_t bytes, void *arg) {
    (void)run;
    unsigned char piece[4096];
    for (size_t done = 0; done < bytes;) {
        const size_t n = bytes - done < sizeof piece ? bytes - done : sizeof piece;
        if (read_run(piece, n, arg))
            return -1;
        sum_run(piece, n, arg);
        done += n;
    }
    return 0;
}

API int {{name}}_cache_save(const {{name}}_cache *cache, const char *path, sc_error *err) {
    char aside[4096];
    if ((size_t)snprintf(aside, sizeof aside, "%s.XXXXXX", path) >= sizeof aside)
        return sc_fail(err, SC_EUSAGE, "%s: the path is too long", path);
{{#cuda}}
    if ({{name}}_cache_whole(cache, err))
        return SC_ESTATE;
{{/cuda}}
    saved_file file = { .fd = mkstemp(aside) };
    if (file.fd < 0)
        return sc_fail(err, SC_EENV, "%s: cannot be made: %s", aside, strerror(errno));
    sum_begin(&file, &cache->now);
    each_run(cache, &cache->now, sum_run, &file);
    uint64_t checksum = sc_checksum_end(&file.sum);
    int rc = SC_OK;
    if (transfer(file.fd, (void *)&saved_head, sizeof saved_head, 1) ||
        transfer(file.fd, (void *)&cache->now, sizeof cache->now, 1) ||
        transfer(file.fd, &checksum, sizeof checksum, 1) ||
        each_run(cache, &cache->now, write_run, &file) || fsync(file.fd))
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
    if (close(file.fd) && !rc)
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
{{#cuda}}
    if (!rc)
        rc = settle(cache, err);
{{/cuda}}
    if (!rc && rename(aside, path))
        rc = sc_fail(err, SC_EENV, "%s: cannot be renamed: %s", path, strerror(errno));
    if (rc)
        unlink(aside);
    return rc;
}

/* Could a cache of this casting have these counters? */
static int check_counters(const cache_counts *counts, const char *path, sc_error *err) {
    for (int layer = 0; layer < LAYERS; layer++)
        for (int row = 0; row < BATCH; row++) {
            const shape_info *shape = {{name}}_place[layer].shape < 0 ? NULL : shape_of(layer);
            const int64_t seen = counts->seen[layer][row], kept = counts->kept[layer][row];
            const int64_t gone = shape && seen > shape->slots ? seen - shape->slots : 0;
            /* Only a ring that has been rewound has lost more than what it drove out. */
            const int rewound = shape && shape->rewind && kept > gone && kept <= seen &&
                                seen - kept >= shape->length - 1;
{{#model}}
            const int64_t most_seen = shape ? shape->capacity : INT64_MAX;
{{/model}}
{{^model}}
            const int64_t most_seen = shape ? shape->capacity : 0; /* only a model counts there */
{{/model}}
            if (seen < 0 || seen > most_seen || (kept != gone && !rewound))
                return sc_fail(err, SC_EINPUT, "%s: layer %d, row %d: a length of %lld", path,
                               layer, row, (long long)seen);
{{#has_indexer}}
            const int64_t indexed = counts->indexed[layer][row];
            if (indexed < 0 || indexed > ({{name}}_indexer[layer].dim ? shape->slots : 0))
                return sc_fail(err, SC_EINPUT, "%s: layer %d, row %d: %lld indexer keys", path,
                               layer, row, (long long)indexed);
{{/has_indexer}}
        }
    for (int row = 0; row < BATCH; row++)
        if (counts->padding[row] < 0 || counts->padding[row] >= MAX_CACHE_LEN)
            return sc_fail(err, SC_EINPUT, "%s: row %d: a padding of %lld", path, row,
                           (long long)counts->padding[row]);
    return SC_OK;
}

/* Leaves the counts in cache->saved, and the file at its first run the second time round. */
static int check_saved(saved_file *file, {{name}}_cache *cache, const char *path, sc_error *err) {
    unsigned char head[sizeof saved_head], more;
    uint64_t checksum;
    if (transfer(file->fd, head, sizeof head, 0) ||
        memcmp(head, saved_head.magic, sizeof saved_head.magic))
        return sc_fail(err, SC_EINPUT, "%s: is no saved cache of this casting", path);
    if (memcmp(head, &saved_head, sizeof head))
        return sc_fail(err, SC_EINPUT, "%s: was saved by another casting", path);
    if (transfer(file->fd, &cache->saved, sizeof cache->saved, 0) ||
        transfer(file->fd, &checksum, sizeof checksum, 0))
        return sc_fail(err, SC_EINPUT, "%s: ends early", path);
    const int rc = check_counters(&cache->saved, path, err);
    if (rc)
        return rc;
    const off_t runs = lseek(file->fd, 0, SEEK_CUR);
    sum_begin(file, &cache->saved);
    if (each_run(cache, &cache->saved, skim_run, file))
        return sc_fail(err, SC_EINPUT, "%s: ends early", path);
    if (read(file->fd, &more, 1) != 0)
        return sc_fail(err, SC_EINPUT, "%s: has bytes after its end", path);
    if (sc_checksum_end(&file->sum) != checksum)
        return sc_fail(err, SC_EINPUT, "%s: its checksum does not match", path);
    if (runs < 0 || lseek(file->fd, runs, SEEK_SET) < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be read twice: %s", path, strerror(errno));
    return SC_OK;
}

API int {{name}}_cache_load({{name}}_cache *cache, const char *path, sc_error *err) {
    saved_file file = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
    if (file.fd < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
    int rc = check_saved(&file, cache, path, err);
    if (!rc) {
        {{name}}_cache_reset(cache, NULL);
        if (each_run(cache, &cache->saved, read_run, &file)) {
            rc = sc_fail(err, SC_EENV, "%s: changed while it was read; the cache is empty now",
                         path);
            {{name}}_cache_reset(cache, NULL);
        } else
            cache->now = cache->saved;
    }
    close(file.fd);
{{#cuda}}
    if (!rc) {
        rc = settle(cache, err);
        cache->torn = rc != SC_OK;
    }
{{/cuda}}
    return rc;
}
