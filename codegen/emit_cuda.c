/*
 * emit_cuda.c - device code as values: how much a block of every kernel takes at once.
 *
 * All is settled by the shapes: what fits the 48 KiB of static shared memory and the registers of a
 * thread on every architecture from sm_80 on.
 */
#include <string.h>

#include "emit_scope.h"

enum {
    SHARED = 48 * 1024 - 1024, /* bytes, a little left for the small arrays */
    DECODE_WARPS = 8,          /* of a block: DECODE_THREADS / 32 */
    DECODE_BLOCKS = 264,       /* two for each multiprocessor of a large device */
    MMA_ROWS = 8,              /* rows of x that one mma takes */
    ATTEND_WARPS = 4,
    ATTENTION_THREADS = 128,
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t blocks(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static int64_t round_up(int64_t n, int64_t unit) { return blocks(n, unit) * unit; }

static int64_t columns(const sc_plan *plan) { return least(plan->options.batch_size, MMA_ROWS); }

void sc_emit_cuda_linear(sc_scope *s, const sc_plan *plan, const sc_cuda_linear *l) {
    const bool halves = plan->options.dtype != SC_F32;
    const int64_t tile = halves ? 16 : 4, step = halves ? 32 : 128, products = l->gated ? 2 : 1;
    const int64_t steps = l->gated ? 2 : 4, rows = halves ? 2 * products : tile * products;
    const int64_t depth = round_up(l->in, halves ? 8 : 4), n = columns(plan);
    const int64_t outputs = l->gated ? plan->device.ffn_depth : l->out;
    const int64_t tiles = blocks(outputs, tile), turns = blocks(tiles, DECODE_BLOCKS);
    const int64_t part =
        halves ? DECODE_WARPS * products * tile * 8 : DECODE_WARPS * tile * products * n;
    /* Inputs that are staged at once: all, or as many as fit, in whole turns of the warps. */
    const int64_t room = (SHARED / 4 - part) / n - (halves ? 16 : 0);
    const int64_t fits = (halves ? 2 : 1) * room / (step * DECODE_WARPS) * (step * DECODE_WARPS);
    const int64_t whole = round_up(depth, 64);
    const int64_t piece = whole <= (halves ? 2 : 1) * room ? whole : fits;
    sc_scope_flag(s, "decode_linears", plan->options.batch_size <= MMA_ROWS);
    sc_scope_flag(s, "device_halves", halves);
    sc_scope_text(s, "decode_y_stride", l->y_stride);
    sc_scope_flag(s, "operands", !l->normed);
    sc_scope_number(s, "products", products);
    sc_scope_number(s, "tiles", tiles);
    sc_scope_number(s, "decode_grid", blocks(tiles, turns));
    sc_scope_number(s, "steps", steps);
    sc_scope_number(s, "chunk", step * steps);
    sc_scope_number(s, "tile_rows", rows);
    sc_scope_text(s, "tile_outputs", sc_pool_printf(s->pool, "%lld outputs", (long long)tile));
    sc_scope_number(s, "piece", piece);
    sc_scope_number(s, "decode_shared",
                    4 * (part + (l->normed ? n * (halves ? piece / 2 + 16 : piece) + n + 8 : 0)));
    sc_scope_text(s, "device_act", "silu");
}

/* Words from one row of pairs to the next, so that four of eight rows are in other banks. */
static int64_t row_words(int64_t words) { return words % 32 ? words : words + 16; }

/* The same where a row is 8 of every lane's words and lanes are two rows apart. */
static int64_t value_words(int64_t words) { return words + (words % 16 ? 12 : 4); }

/* Blocks of dimensions of a 16-bit key and value, and keys of a prefill's block. */
static int64_t emit_halves(sc_scope *s, const sc_attention *a) {
    const int64_t steps = blocks(a->head_dim, 32), key = row_words(steps * 16);
    const int64_t wide = a->v_head_dim / 64, rest = blocks(a->v_head_dim % 64, 16);
    const int64_t pairs = wide * 4 + rest, value = value_words(pairs * 8);
    int64_t keys = 64;
    while (keys > 16 && keys * (key + value) * 4 > SHARED)
        keys /= 2;
    sc_scope_number(s, "key_steps", steps);
    sc_scope_number(s, "query_words", key);
    sc_scope_number(s, "value_blocks", wide);
    sc_scope_number(s, "value_rest", rest);
    sc_scope_flag(s, "has_rest", rest > 0);
    sc_scope_number(s, "value_pairs", pairs);
    sc_scope_number(s, "value_words", value);
    sc_scope_number(s, "tile_keys", keys);
    sc_scope_number(s, "tile_queries", ATTENTION_THREADS / 32 * 16);
    sc_scope_flag(s, "query_held", steps <= 4);
    sc_scope_number(s, "attention_shared", keys * (key + value) * 4);
    return key;
}

/* The same of a float cache: queries and keys of a prefill's block. */
static void emit_floats(sc_scope *s, const sc_attention *a) {
    const int64_t depth = round_up(most(a->head_dim, a->v_head_dim), 4), stride = depth + 4;
    int64_t tile = 32;
    while (tile > 16 && 4 * (2 * tile * stride + tile * (tile + 1)) > SHARED)
        tile /= 2;
    const int64_t team = ATTENTION_THREADS / tile;
    sc_scope_number(s, "tile_depth", depth);
    sc_scope_number(s, "tile_stride", stride);
    sc_scope_number(s, "dim_depth", round_up(a->head_dim, 4));
    sc_scope_number(s, "key_depth", round_up(a->head_dim, 4));
    sc_scope_number(s, "team_fours", blocks(blocks(a->v_head_dim, 4), team));
    sc_scope_number(s, "tile_keys", tile);
    sc_scope_number(s, "tile_queries", tile);
    sc_scope_number(s, "attention_shared", 4 * (2 * tile * stride + tile * (tile + 1)));
}

void sc_emit_cuda_attention(sc_scope *s, const sc_plan *plan, const sc_attention *a, int shape) {
    const bool halves = plan->options.kv_dtype != SC_F32;
    const int64_t group = a->heads / a->kv_heads, queries = least(group, halves ? 16 : 8);
    const int64_t splits = sc_plan_splits(plan, &plan->shape[shape]);
    const int64_t rows = !halves ? queries : queries > 8 ? 16 : 8;
    const int64_t widest = most(a->head_dim, a->v_head_dim);
    int64_t attend = ATTEND_WARPS * a->head_dim + queries * splits + 1;
    if (halves) {
        const int64_t key = emit_halves(s, a);
        attend += rows * key + 2 * ATTEND_WARPS * 16 + ATTEND_WARPS * rows * 68;
    } else {
        emit_floats(s, a);
        attend += queries * (round_up(a->head_dim, 4) + ATTENTION_THREADS + 3);
    }
    sc_scope_number(s, "head_dim", a->head_dim);
    sc_scope_number(s, "splits", splits);
    sc_scope_number(s, "attend_queries", queries);
    sc_scope_number(s, "attend_rows", rows);
    sc_scope_number(s, "attend_halves", rows > 8 ? 2 : 1);
    sc_scope_flag(s, "attend_wide", rows > 8);
    sc_scope_number(s, "attend_shared", 4 * attend);
    sc_scope_number(s, "widest_head", widest);
    sc_scope_number(s, "keep_shared", 8 * 4 * widest);
}

/* How a dtype is stored, made and read. */
static const char *type_of(sc_dtype dtype) { return dtype == SC_F32 ? "float" : "unsigned short"; }

static const char *by_dtype(sc_dtype dtype, const char *bf16, const char *f16) {
    return dtype == SC_F32 ? "" : dtype == SC_BF16 ? bf16 : f16;
}

void sc_emit_cuda(sc_scope *top, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    const sc_dtype dtype = plan->options.dtype, kv = plan->options.kv_dtype;
    int64_t angles = 0;
    for (int i = 0; i < plan->graph->ropes; i++)
        angles += plan->graph->rope[i].rotary_dim * d->rows;
    sc_scope_number(top, "device_block", d->block);
    sc_scope_number(top, "device_hidden_depth", d->hidden_depth);
    sc_scope_number(top, "device_hidden_stride", d->hidden_stride);
    sc_scope_number(top, "device_qkv_stride", d->qkv_stride);
    sc_scope_number(top, "device_q_stride", d->q_stride);
    sc_scope_number(top, "device_attended_depth", d->attended_depth);
    sc_scope_number(top, "device_gate_up_stride", d->gate_up_stride);
    sc_scope_number(top, "device_ffn_depth", d->ffn_depth);
    sc_scope_number(top, "device_partial", d->partial_floats);
    sc_scope_number(top, "device_arrived", d->arrived);
    sc_scope_number(top, "device_angles", angles);
    sc_scope_number(top, "decode_columns", columns(plan));
    sc_scope_flag(top, "device_halves", dtype != SC_F32);
    sc_scope_flag(top, "float_cache", kv == SC_F32);
    sc_scope_text(top, "device_weight_to", by_dtype(dtype, "float_from_bf16", "float_from_half"));
    sc_scope_text(top, "device_weight_from", by_dtype(dtype, "bf16_from_float", "half_from_float"));
    if (dtype != SC_F32)
        sc_scope_text(top, "device_weight_mma", by_dtype(dtype, "mma_bf16", "mma_f16"));
    sc_scope_text(top, "device_kv_ctype", type_of(kv));
    sc_scope_text(top, "device_kv_from", by_dtype(kv, "bf16_from_float", "half_from_float"));
    if (kv != SC_F32)
        sc_scope_text(top, "device_kv_mma", by_dtype(kv, "mma_bf16", "mma_f16"));
}
