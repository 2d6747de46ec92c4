{{! device_saved.c - a run of a device's memory for those who read and write files. }}
{{#cuda}}
static int read_run(void *run, size_t bytes, void *arg);
static int skim_run(void *run, size_t bytes, void *arg);

/* Calls visit with a run of the cache as the host's memory, a piece at a time; what was read goes
 * back. */
static int visit_run(const {{name}}_cache *cache, int (*visit)(void *run, size_t bytes, void *arg),
                     void *run, size_t bytes, void *arg) {
    enum { PIECE = 65536 };
    unsigned char piece[PIECE];
    if (!cache->cuda)
        return visit(run, bytes, arg);
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        if (visit != read_run && visit != skim_run)
            copy_any(cache, piece, (unsigned char *)run + at, n);
        const int rc = visit(piece, n, arg);
        if (rc)
            return rc;
        if (visit == read_run)
            copy_any(cache, (unsigned char *)run + at, piece, n);
    }
    return 0;
}

{{/cuda}}
