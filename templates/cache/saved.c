{{! saved.c - a cache in a file. }}
/* A saved cache: this header, then row by row the used slots of every layer's keys, values and
 * indexer keys, and its states. */
typedef struct {
    char magic[8];
    unsigned char layout[32]; /* of the casting */
    int64_t seen[LAYERS][BATCH], kept[LAYERS][BATCH], padding[BATCH];
{{#has_indexer}}
    int64_t indexed[LAYERS][BATCH];
{{/has_indexer}}
{{#has_states}}
    int64_t held[STATES][BATCH];
{{/has_states}}
    uint64_t checksum; /* of the fields above and all that follows */
} saved_header;

static const unsigned char layout_id[32] = {
    {{layout_bytes}}
};

/* Calls visit on every stored run of bytes, in the file's order. */
static int each_run(const {{name}}_cache *cache, const saved_header *header,
                    int (*visit)(void *run, size_t bytes, void *arg), void *arg) {
    int rc = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        const shape_info *shape = {{name}}_place[layer].shape < 0 ? NULL : shape_of(layer);
        for (int64_t row = 0; shape && row < BATCH && !rc; row++) {
            /* A ring that has been full once may have any slot in use. */
            const int64_t used = header->kept[layer][row]
                                     ? shape->slots
                                     : least(header->seen[layer][row], shape->slots);
            for (int64_t at = row * shape->kv_heads; at < (row + 1) * shape->kv_heads && !rc;
                 at++) {
                rc = visit(keys_of(cache, layer) + at * shape->slots * shape->key,
                           (size_t)(used * shape->key) * sizeof(kv), arg);
                if (!rc)
                    rc = visit(values_of(cache, layer) + at * shape->slots * shape->value,
                               (size_t)(used * shape->value) * sizeof(kv), arg);
            }
{{#has_indexer}}
            const size_t width = (size_t)indexers[layer].dim * sizeof(indexer_key);
            if (!rc)
                rc = visit(cache->arena + indexers[layer].offset +
                               (size_t)(row * shape->slots) * width,
                           (size_t)header->indexed[layer][row] * width, arg);
{{/has_indexer}}
        }
    }
{{#has_states}}
    for (int i = 0; i < STATES; i++)
        for (int row = 0; row < BATCH && !rc; row++)
            if (header->held[i][row])
                rc = visit(state_row(cache, i, row),
                           (size_t)(states[i].channels * states[i].columns) * states[i].size, arg);
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
    saved_header header = { .magic = "SCCACHE2" };
    memcpy(header.layout, layout_id, sizeof layout_id);
    memcpy(header.seen, cache->seen, sizeof header.seen);
    memcpy(header.kept, cache->kept, sizeof header.kept);
    memcpy(header.padding, cache->padding, sizeof header.padding);
{{#has_indexer}}
    memcpy(header.indexed, cache->indexed, sizeof header.indexed);
{{/has_indexer}}
{{#has_states}}
    memcpy(header.held, cache->held, sizeof header.held);
{{/has_states}}
    saved_file file = { .fd = mkstemp(aside) };
    if (file.fd < 0)
        return sc_fail(err, SC_EENV, "%s: cannot be made: %s", aside, strerror(errno));
    sc_checksum_begin(&file.sum);
    sc_checksum_add(&file.sum, &header, offsetof(saved_header, checksum));
    each_run(cache, &header, sum_run, &file);
    header.checksum = sc_checksum_end(&file.sum);
    int rc = SC_OK;
    if (transfer(file.fd, &header, sizeof header, 1) ||
        each_run(cache, &header, write_run, &file) || fsync(file.fd))
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
    if (close(file.fd) && !rc)
        rc = sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
    if (!rc && rename(aside, path))
        rc = sc_fail(err, SC_EENV, "%s: cannot be renamed: %s", path, strerror(errno));
    if (rc)
        unlink(aside);
    return rc;
}

/* Could a cache of this casting have these counters? */
static int check_counters(const saved_header *header, const char *path, sc_error *err) {
    for (int layer = 0; layer < LAYERS; layer++)
        for (int row = 0; row < BATCH; row++) {
            const shape_info *shape = {{name}}_place[layer].shape < 0 ? NULL : shape_of(layer);
            const int64_t seen = header->seen[layer][row], kept = header->kept[layer][row];
            const int64_t gone = shape && seen > shape->slots ? seen - shape->slots : 0;
            /* Only a ring that has been rewound has lost more than what it drove out. */
            const int rewound = shape && shape->rewind && kept > gone && kept <= seen &&
                                seen - kept >= shape->length - 1;
            if (seen < 0 || seen > (shape ? shape->capacity : 0) || (kept != gone && !rewound))
                return sc_fail(err, SC_EINPUT, "%s: layer %d, row %d: a length of %lld", path,
                               layer, row, (long long)seen);
{{#has_indexer}}
            const int64_t indexed = header->indexed[layer][row];
            if (indexed < 0 || indexed > (indexers[layer].dim ? shape->slots : 0))
                return sc_fail(err, SC_EINPUT, "%s: layer %d, row %d: %lld indexer keys", path,
                               layer, row, (long long)indexed);
{{/has_indexer}}
        }
    for (int row = 0; row < BATCH; row++)
        if (header->padding[row] < 0 || header->padding[row] >= MAX_CACHE_LEN)
            return sc_fail(err, SC_EINPUT, "%s: row %d: a padding of %lld", path, row,
                           (long long)header->padding[row]);
    return SC_OK;
}

static int check_saved(saved_file *file, const {{name}}_cache *cache, saved_header *header,
                       const char *path, sc_error *err) {
    if (transfer(file->fd, header, sizeof *header, 0) || memcmp(header->magic, "SCCACHE2", 8))
        return sc_fail(err, SC_EINPUT, "%s: is no saved cache of this casting", path);
    if (memcmp(header->layout, layout_id, sizeof layout_id))
        return sc_fail(err, SC_EINPUT, "%s: was saved by another casting", path);
    const int rc = check_counters(header, path, err);
    if (rc)
        return rc;
    sc_checksum_begin(&file->sum);
    sc_checksum_add(&file->sum, header, offsetof(saved_header, checksum));
    char more;
    if (each_run(cache, header, skim_run, file))
        return sc_fail(err, SC_EINPUT, "%s: ends early", path);
    if (read(file->fd, &more, 1) != 0)
        return sc_fail(err, SC_EINPUT, "%s: has bytes after its end", path);
    if (sc_checksum_end(&file->sum) != header->checksum)
        return sc_fail(err, SC_EINPUT, "%s: its checksum does not match", path);
    return SC_OK;
}

API int {{name}}_cache_load({{name}}_cache *cache, const char *path, sc_error *err) {
    saved_file file = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
    saved_header header;
    if (file.fd < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
    int rc = check_saved(&file, cache, &header, path, err);
    if (!rc && lseek(file.fd, sizeof header, SEEK_SET) < 0)
        rc = sc_fail(err, SC_EINPUT, "%s: cannot be read twice: %s", path, strerror(errno));
    if (!rc) {
        {{name}}_cache_reset(cache, NULL);
        if (each_run(cache, &header, read_run, &file)) {
            rc = sc_fail(err, SC_EENV, "%s: changed while it was read; the cache is empty now",
                         path);
            {{name}}_cache_reset(cache, NULL);
        } else {
            memcpy(cache->seen, header.seen, sizeof header.seen);
            memcpy(cache->kept, header.kept, sizeof header.kept);
            memcpy(cache->padding, header.padding, sizeof header.padding);
{{#has_indexer}}
            memcpy(cache->indexed, header.indexed, sizeof header.indexed);
{{/has_indexer}}
{{#has_states}}
            memcpy(cache->held, header.held, sizeof header.held);
{{/has_states}}
        }
    }
    close(file.fd);
    return rc;
}
