{{! weights.c - at open: the panels of the weights file become rows on the device. }}
/* A layer's weights on the device, or the host, where they take turns in two slots. */
static const struct {
    size_t offset, bytes;
{{#weights_offloaded}}
    int slot; /* -1: they stay on the device */
{{/weights_offloaded}}
} runs[LAYERS] = {
{{#runs}}
    { {{offset}}, {{bytes}}{{#weights_offloaded}}, {{slot}}{{/weights_offloaded}} }, /* {{layer}} */
{{/runs}}
};
{{#weights_offloaded}}

static const size_t weight_slot[2] = { {{weight_slot_0}}, {{weight_slot_1}} };
{{/weights_offloaded}}

typedef enum { PANELS, GATED_PANELS, VECTOR, GATED_VECTOR, PLAIN_ROWS } packing;

/* Every tensor of the file: its blocks (experts, else one), of each the panels of `in` inputs, the
 * rows of its first part and of all, and where they go: bytes from the start of the device's
 * weights, or of its layer's run. */
static const struct {
    uint64_t from;
    size_t to;
    packing packing;
    int layer; /* -1: none */
    int64_t in, depth, blocks, panels, first_rows, rows;
} tensors[] = {
{{#tensors}}
    { {{offset}}, {{device_offset}}, {{packing}}, {{tensor_layer}}, {{in}}, {{device_depth}}, {{blocks}}, {{panels}}, {{first_rows}}, {{rows}} },
{{/tensors}}
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum { WEIGHT_BYTES = sizeof({{weight_ctype}}), PANEL = {{panel}}, RUN = {{pair_run}} };

/* What open needs for itself: two halves that take turns, each on a stream of its own. */
typedef struct {
    {{name}}_device *device;
    const sc_weights *file;
    unsigned char *pinned; /* [2, STAGING_BYTES] */
    int turn;
} unpacking;

/* Panels of one block by pieces: read, copied, spread as rows by a kernel. */
static void unpack_panels(unpacking *u, int i, const unsigned char *from, unsigned char *to) {
    {{name}}_device *d = u->device;
    const int64_t packed_depth = (tensors[i].in + RUN - 1) / RUN * RUN;
    const size_t panel_bytes = (size_t)(packed_depth * PANEL) * WEIGHT_BYTES;
    const int64_t at_once = (int64_t)(STAGING_BYTES / panel_bytes);
    for (int64_t panel = 0; panel < tensors[i].panels; panel += at_once) {
        const int64_t left = tensors[i].panels - panel, count = left < at_once ? left : at_once;
        const size_t bytes = (size_t)count * panel_bytes, half = (size_t)u->turn * STAGING_BYTES;
        CUstream stream = u->turn ? d->cuda->copies : d->cuda->compute;
        SC_CUDA(d->cuda, StreamSynchronize, stream);
        memcpy(u->pinned + half, from + (size_t)panel * panel_bytes, bytes);
        sc_cuda_copy(d->cuda, stream, d->scratch + half, u->pinned + half, bytes);
        const int64_t second = tensors[i].rows - tensors[i].first_rows;
        sc_cuda_launch(d->cuda, stream, d->kernel[unpack_kernel], (unsigned)count,
                       (unsigned)((tensors[i].depth + UNPACK_COLUMNS - 1) / UNPACK_COLUMNS), UNPACK_THREADS,
                       WORDS(word(d->scratch + half), word(to), (uint64_t)panel, (uint64_t)count,
                             (uint64_t)tensors[i].in, (uint64_t)tensors[i].depth,
                             tensors[i].packing == GATED_PANELS,
                             (uint64_t)tensors[i].first_rows, (uint64_t)second));
        u->turn = !u->turn;
    }
}

/* A gated pair's biases lie as its panels do: half a panel of one, half of the other. */
static void unpack_gated_vector(unpacking *u, int i, const unsigned char *from, unsigned char *to) {
    enum { HALF = PANEL / 2 * sizeof(float) };
    sc_cuda *cuda = u->device->cuda;
    const size_t bytes = (size_t)tensors[i].first_rows * sizeof(float);
    for (int part = 0; part < 2; part++, from += HALF, to += bytes) {
        const size_t whole = bytes / HALF;
        sc_cuda_move_runs(cuda, cuda->compute, to, HALF, from, 2 * HALF, HALF, whole);
        sc_cuda_move_runs(cuda, cuda->compute, to + whole * HALF, HALF, from + whole * 2 * HALF, HALF,
                          bytes % HALF, 1);
    }
}

static void unpack_block(unpacking *u, int i, const unsigned char *from, unsigned char *to) {
    sc_cuda *cuda = u->device->cuda;
    const size_t row = (size_t)tensors[i].in * WEIGHT_BYTES;
    switch (tensors[i].packing) {
    case PANELS:
    case GATED_PANELS:
        unpack_panels(u, i, from, to);
        break;
    case GATED_VECTOR:
        unpack_gated_vector(u, i, from, to);
        break;
    case VECTOR:
        sc_cuda_move_runs(cuda, cuda->compute, to, 0, from, 0,
                          (size_t)(tensors[i].rows * tensors[i].depth) * sizeof(float), 1);
        break;
    case PLAIN_ROWS:
        sc_cuda_move_runs(cuda, cuda->compute, to, (size_t)tensors[i].depth * WEIGHT_BYTES, from, row,
                          row, (size_t)tensors[i].rows);
        break;
    }
}

/* Blocks lie in whole panels in the file, one behind the other on the device. */
static void unpack_tensor(unpacking *u, int i, unsigned char *to) {
    const bool floats = tensors[i].packing == VECTOR || tensors[i].packing == GATED_VECTOR;
    const size_t size = floats ? sizeof(float) : WEIGHT_BYTES;
    const int64_t packed_depth = floats ? tensors[i].depth : (tensors[i].in + RUN - 1) / RUN * RUN;
    const size_t packed = (size_t)(tensors[i].panels * PANEL * packed_depth) * size;
    const size_t rows = (size_t)(tensors[i].rows * tensors[i].depth) * size;
    const unsigned char *from = sc_weights_at(u->file, tensors[i].from);
    for (int64_t block = 0; block < tensors[i].blocks; block++)
        unpack_block(u, i, from + (size_t)block * packed, to + (size_t)block * rows);
}

/* What is done so far on both streams; the first failure. */
static int settle({{name}}_device *d, sc_error *err) {
    SC_CUDA(d->cuda, StreamSynchronize, d->cuda->copies);
    return sc_cuda_finish(d->cuda, d->cuda->compute, err);
}

/* The tensors of one layer, or with -1 those of none, to `at`. */
static int unpack_layer(unpacking *u, int layer, unsigned char *at, sc_error *err) {
    for (int i = 0; i < TENSORS; i++)
        if (tensors[i].layer == layer)
            unpack_tensor(u, i, at + tensors[i].to);
    return settle(u->device, err);
}

static int unpack_weights({{name}}_device *d, const sc_weights *file, sc_error *err) {
    unpacking u = { .device = d, .file = file };
    int rc = sc_cuda_alloc_host(d->cuda, &u.pinned, 2 * STAGING_BYTES, err);
    /* Rows are filled up with zeros, and no scratch begins as it was found. */
    sc_cuda_zero(d->cuda, d->cuda->compute, d->block, DEVICE_WEIGHTS_BYTES + DEVICE_SCRATCH_BYTES);
    if (!rc)
        rc = settle(d, err);
    if (!rc)
        rc = unpack_layer(&u, -1, d->block, err);
    for (int layer = 0; layer < LAYERS && !rc; layer++) {
{{#weights_offloaded}}
        if (runs[layer].slot >= 0) { /* by way of a slot to the host */
            rc = unpack_layer(&u, layer, d->block + weight_slot[0], err);
            sc_cuda_copy(d->cuda, d->cuda->compute, d->host_weights + runs[layer].offset,
                         d->block + weight_slot[0], runs[layer].bytes);
            if (!rc)
                rc = settle(d, err);
            continue;
        }
{{/weights_offloaded}}
        rc = unpack_layer(&u, layer, d->block + runs[layer].offset, err);
    }
    sc_cuda_free_host(d->cuda, u.pinned);
    if (rc)
        return rc;
    sc_cuda_zero(d->cuda, d->cuda->compute, d->scratch, 2 * STAGING_BYTES);
    return settle(d, err);
}

