/*
 * tile - up to SC_TILE rows of x times one panel of weights [k, SC_PANEL], sums held in registers.
 * Each of the sums runs over k in rising order, one fused multiply-add each. Returns the rows done.
 */
static inline vec weight_vec(const weight *w) { return {{weight_load}}; }
static inline float weight_float(weight w) { return {{weight_to_float}}; }

#define TILE(name, type, load, ROW_COUNT)                                                          \
    static inline __attribute__((always_inline)) void name(                                        \
        vec sum[SC_TILE][2], const type *restrict w, int64_t w_stride, const float *restrict x,    \
        int64_t x_stride, int64_t k) {                                                             \
        vec s[ROW_COUNT][2];                                                                       \
        SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                            \
            s[r][0] = sum[r][0];                                                                   \
            s[r][1] = sum[r][1];                                                                   \
        }                                                                                          \
        for (int64_t i = 0; i < k; i++) {                                                          \
            const vec w0 = load(w + i * w_stride), w1 = load(w + i * w_stride + SC_LANES);         \
            SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                        \
                const vec xi = vec_set(x[r * x_stride + i]);                                       \
                s[r][0] = vec_fma(xi, w0, s[r][0]);                                                \
                s[r][1] = vec_fma(xi, w1, s[r][1]);                                                \
            }                                                                                      \
        }                                                                                          \
        SC_UNROLL for (int r = 0; r < ROW_COUNT; r++) {                                            \
            sum[r][0] = s[r][0];                                                                   \
            sum[r][1] = s[r][1];                                                                   \
        }                                                                                          \
    }

TILE(tile_full, weight, weight_vec, SC_TILE)
TILE(tile_1, weight, weight_vec, 1)
TILE(tile_2, weight, weight_vec, 2)
TILE(tile_f32_full, float, vec_load, SC_TILE)
TILE(tile_f32_1, float, vec_load, 1)
TILE(tile_f32_2, float, vec_load, 2)

static inline __attribute__((always_inline)) int tile(vec sum[SC_TILE][2], const weight *w, const float *x, int64_t x_stride, int64_t k,
                int64_t rows) {
    const int n = (int)least(rows, SC_TILE);
    SC_UNROLL
    for (int r = 0; r < SC_TILE; r++)
        sum[r][0] = sum[r][1] = (vec){ 0 };
    if (n == SC_TILE)
        tile_full(sum, w, SC_PANEL, x, x_stride, k);
    else {
        int r = 0;
        for (; r + 2 <= n; r += 2)
            tile_2(sum + r, w, SC_PANEL, x + r * x_stride, x_stride, k);
        if (r < n)
            tile_1(sum + r, w, SC_PANEL, x + r * x_stride, x_stride, k);
    }
    return n;
}

/* The same for float weights of any stride, onto what is in sum. */
static inline __attribute__((always_inline)) int tile_f32_run(vec sum[SC_TILE][2], const float *w, int64_t w_stride,
                               const float *x, int64_t x_stride, int64_t k, int n) {
    if (n == SC_TILE)
        tile_f32_full(sum, w, w_stride, x, x_stride, k);
    else {
        int r = 0;
        for (; r + 2 <= n; r += 2)
            tile_f32_2(sum + r, w, w_stride, x + r * x_stride, x_stride, k);
        if (r < n)
            tile_f32_1(sum + r, w, w_stride, x + r * x_stride, x_stride, k);
    }
    return n;
}

static inline int tile_f32(vec sum[SC_TILE][2], const float *w, int64_t w_stride, const float *x,
                           int64_t x_stride, int64_t k, int64_t rows) {
    for (int r = 0; r < SC_TILE; r++)
        sum[r][0] = sum[r][1] = (vec){ 0 };
    return tile_f32_run(sum, w, w_stride, x, x_stride, k, (int)least(rows, SC_TILE));
}

/* Starts from y [rows, y_stride], each row times its factor. */
static inline int tile_f32_onto(vec sum[SC_TILE][2], const float *w, int64_t w_stride, const float *x,
                                int64_t x_stride, int64_t k, int64_t rows, const float *y,
                                int64_t y_stride, const float *factor) {
    const int n = (int)least(rows, SC_TILE);
    for (int r = 0; r < n; r++)
        for (int half = 0; half < 2; half++)
            sum[r][half] = vec_load(y + r * y_stride + half * SC_LANES) * vec_set(factor[r]);
    return tile_f32_run(sum, w, w_stride, x, x_stride, k, n);
}

