{{! unpack.cu - at open: the panels of NAME.weights become rows; docs/casting.md, Weights. }}
enum {
    PANEL = {{panel}},    /* outputs of a panel */
    RUN = {{pair_run}},       /* inputs of one output that lie side by side */
    HALF = PANEL / 2, /* of a gated panel are the first part's, the rest the second's */
};

/*
 * rows [out_a + out_b, depth] = panels first_panel … of packed [panels, ceil(in / RUN), PANEL,
 * RUN], zeros from in to depth. Gated: out_a rows of the first part, then out_b of the second.
 * Grid [panels, ceil(depth / UNPACK_COLUMNS)], block UNPACK_THREADS, shared UNPACK_COLUMNS *
 * (PANEL + 1) weights. A block turns UNPACK_COLUMNS inputs of one panel around.
 */
extern "C" __global__ void __launch_bounds__(UNPACK_THREADS)
    unpack_kernel(const void *packed, weight *rows, long long first_panel, long long panels, long long in,
                  long long depth, long long gated, long long out_a, long long out_b) {
    SHARED(weight, tile, UNPACK_COLUMNS * (PANEL + 1));
    if (blockIdx.x >= panels)
        return;
    const long long packed_depth = (in + RUN - 1) / RUN * RUN;
    const long long first = (long long)blockIdx.y * UNPACK_COLUMNS;
    const weight *from = (const weight *)packed + (blockIdx.x * packed_depth + first) * PANEL;
    for (int i = (int)threadIdx.x; i < UNPACK_COLUMNS * PANEL; i += UNPACK_THREADS) {
        const int lane = i / RUN % PANEL, column = i / RUN / PANEL * RUN + i % RUN;
        tile[column * (PANEL + 1) + lane] = first + column < in ? from[i] : (weight)0;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < UNPACK_COLUMNS * PANEL; i += UNPACK_THREADS) {
        const int lane = i / UNPACK_COLUMNS, column = i % UNPACK_COLUMNS;
        const bool second = gated && lane >= HALF;
        const long long panel = first_panel + blockIdx.x;
        const long long row = gated ? panel * HALF + lane % HALF : panel * PANEL + lane;
        if (row < (second ? out_b : out_a) && first + column < depth)
            rows[((second ? out_a : 0) + row) * depth + first + column] = tile[column * (PANEL + 1) + lane];
    }
}

