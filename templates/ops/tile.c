/*
 * tile - up to SC_TILE rows of x times one panel of weights [k, SC_PANEL], sums held in registers.
 * Each of the sums runs over k in rising order, one multiply-add (vec_fma) each.
 */
{{^pairs}}
static inline vec weight_vec(const weight *w) { return {{weight_load}}; }
{{/pairs}}
static inline float weight_float(weight w) { return {{weight_to_float}}; }
{{#uses_weight_of}}
static inline weight weight_of(float x) { return {{weight_from_float}}; }
{{/uses_weight_of}}

#define TILE(name, type, load, ROW_COUNT)                                                          \
    static inline __attribute__((always_inline)) void name(                                        \
        vec(*sum)[2], const type *restrict w, int64_t w_stride, const float *restrict x,           \
        int64_t x_stride, int64_t k) {                                                             \
        vec low[ROW_COUNT], high[ROW_COUNT];                                                       \
        SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                            \
            low[r] = sum[r][0];                                                                    \
            high[r] = sum[r][1];                                                                   \
        }                                                                                          \
        for (int64_t i = 0; i < k; i++) {                                                          \
            if (ROW_COUNT <= 2) { /* decode is bound by memory: ask 32 steps ahead */              \
                __builtin_prefetch(w + (i + 32) * w_stride);                                       \
                __builtin_prefetch(w + (i + 32) * w_stride + SC_LANES);                            \
            }                                                                                      \
            const vec w0 = load(w + i * w_stride), w1 = load(w + i * w_stride + SC_LANES);         \
            SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                        \
                const vec xi = vec_set(x[r * x_stride + i]);                                       \
                low[r] = vec_fma(xi, w0, low[r]);                                                  \
                high[r] = vec_fma(xi, w1, high[r]);                                                \
            }                                                                                      \
        }                                                                                          \
        SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                            \
            sum[r][0] = low[r];                                                                    \
            sum[r][1] = high[r];                                                                   \
        }                                                                                          \
    }

{{^pairs}}
TILE(tile_full, weight, weight_vec, SC_TILE)
TILE(tile_1, weight, weight_vec, 1)
TILE(tile_2, weight, weight_vec, 2)
TILE(tile_4, weight, weight_vec, 4)
{{/pairs}}
{{#pairs}}
/* The same on pairs of bfloat16: one instruction adds two products, in rising order of the pairs.
 */
#define TILE_PAIRS(name, ROW_COUNT)                                                                \
    static inline __attribute__((always_inline)) void name(                                        \
        vec(*sum)[2], const weight *restrict w, int64_t w_stride, const operand *restrict x,       \
        int64_t x_stride, int64_t k) {                                                             \
        vec low[ROW_COUNT], high[ROW_COUNT];                                                       \
        SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                            \
            low[r] = sum[r][0];                                                                    \
            high[r] = sum[r][1];                                                                   \
        }                                                                                          \
        for (int64_t i = 0; i < k; i += 2) {                                                       \
            if (ROW_COUNT <= 2) { /* decode is bound by memory: ask 32 steps ahead */              \
                __builtin_prefetch(w + (i + 64) * w_stride);                                       \
                __builtin_prefetch(w + (i + 64) * w_stride + 2 * SC_LANES);                        \
            }                                                                                      \
            const pairs w0 = pairs_load(w + i * w_stride);                                         \
            const pairs w1 = pairs_load(w + i * w_stride + 2 * SC_LANES);                          \
            SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                        \
                const pairs xi = pairs_set(x + r * x_stride + i);                                  \
                low[r] = pairs_dot(w0, xi, low[r]);                                                \
                high[r] = pairs_dot(w1, xi, high[r]);                                              \
            }                                                                                      \
        }                                                                                          \
        SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                            \
            sum[r][0] = low[r];                                                                    \
            sum[r][1] = high[r];                                                                   \
        }                                                                                          \
    }

TILE_PAIRS(tile_full, SC_TILE)
TILE_PAIRS(tile_1, 1)
TILE_PAIRS(tile_2, 2)
TILE_PAIRS(tile_4, 4)
{{/pairs}}
{{#has_attention}}
TILE(tile_f32_full, float, vec_load, SC_TILE)
TILE(tile_f32_4, float, vec_load, 4)
{{/has_attention}}

/*
 * One panel times any number of rows. Weights are taken {{k_chunk}} at a time, so that they stay in
 * the first cache while all rows pass; a sum goes on where the piece before left it.
 */
static __attribute__((noinline)) void panel_times_rows(vec (*sum)[2], const weight *restrict w,
                                                       const operand *restrict x, int64_t x_stride,
                                                       int64_t k, int64_t rows) {
    enum { PIECE = {{k_chunk}} };
    for (int64_t row = 0; row < rows; row++)
        sum[row][0] = sum[row][1] = (vec){ 0 };
    for (int64_t i = 0; i < k; i += PIECE) {
        const int64_t n = rows > 2 ? least(PIECE, k - i) : k;
        const weight *from = w + i * SC_PANEL;
        int64_t row = 0;
        for (; row + SC_TILE <= rows; row += SC_TILE)
            tile_full(sum + row, from, SC_PANEL, x + row * x_stride + i, x_stride, n);
        for (; row + 4 <= rows; row += 4)
            tile_4(sum + row, from, SC_PANEL, x + row * x_stride + i, x_stride, n);
        for (; row + 2 <= rows; row += 2)
            tile_2(sum + row, from, SC_PANEL, x + row * x_stride + i, x_stride, n);
        if (row < rows)
            tile_1(sum + row, from, SC_PANEL, x + row * x_stride + i, x_stride, n);
        if (n == k)
            break;
    }
}

{{#has_attention}}
/*
 * The same for float weights of any stride, onto what is in sum; of attention, whose rows of x and
 * of sum go on to the next multiple of SC_TILE. What is computed too much is of no use and no harm.
 */
static inline void tile_f32_run(vec (*sum)[2], const float *w, int64_t w_stride, const float *x,
                                int64_t x_stride, int64_t k, int n) {
    if (n <= 4)
        tile_f32_4(sum, w, w_stride, x, x_stride, k);
    else
        tile_f32_full(sum, w, w_stride, x, x_stride, k);
}

/* From zero. Returns how many rows were done, SC_TILE at most. */
static inline int tile_f32(vec (*sum)[2], const float *w, int64_t w_stride, const float *x,
                           int64_t x_stride, int64_t k, int64_t rows) {
    const int n = (int)least(rows, SC_TILE);
    for (int r = 0; r < SC_TILE; r++)
        sum[r][0] = sum[r][1] = (vec){ 0 };
    tile_f32_run(sum, w, w_stride, x, x_stride, k, n);
    return n;
}

/* Starts from y [rows, y_stride], each row times its factor. */
static inline int tile_f32_onto(vec (*sum)[2], const float *w, int64_t w_stride, const float *x,
                                int64_t x_stride, int64_t k, int64_t rows, const float *y,
                                int64_t y_stride, const float *factor) {
    const int n = (int)least(rows, SC_TILE);
    for (int r = 0; r < SC_TILE; r++)
        for (int half = 0; half < 2; half++)
            sum[r][half] = vec_load(y + r * y_stride + half * SC_LANES) * vec_set(factor[r]);
    tile_f32_run(sum, w, w_stride, x, x_stride, k, n);
    return n;
}
{{/has_attention}}
