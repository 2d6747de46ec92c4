/* emit_cuda.c - the device code of a CUDA casting as values: tiles, pieces, launches of its
 * kernels.
 */
#include "emit_ops.h"

enum {
    DECODE_ROWS = 8,     /* columns of d of mma.m16n8k16 */
    DECODE_WARPS = 8,    /* of a block of the decode linears */
    STAGED = 36 << 10,   /* bytes of x in shared memory; the rest of 48 KiB is for sums */
    PIECE_UNIT = 1024,   /* a turn of a block's warps takes that many inputs, or a part of it */
    MOST_BLOCKS = 1024,  /* of a decode linear: a few for each multiprocessor */
    ATTEND_QUERIES = 16, /* heads at once */
    ATTEND_WARPS = 4,
    ATTEND_THREADS = 32 * ATTEND_WARPS,
    ATTENTION_QUERIES = 64, /* of a block of a prefill's attention */
    WIDE_HEAD = 128,        /* above it fewer keys fit at once */
    KEEP_WARPS = 8,
    KEEP_HEADS = 16,   /* of q, k and v that a block takes */
    HALF_OUTPUTS = 64, /* of one expert that a block makes: 16 by each of 4 warps */
    FLOAT_OUTPUTS = 32
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t parts(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static int64_t round_up(int64_t n, int64_t unit) { return parts(n, unit) * unit; }

static bool is_half(sc_dtype dtype) { return dtype != SC_F32; }

static int64_t decode_columns(const sc_plan *plan) {
    return least(plan->options.batch_size, DECODE_ROWS);
}

bool sc_cuda_decodes(const sc_plan *plan) { return plan->options.batch_size <= DECODE_ROWS; }

/* Blocks of so many tiles, each with as many of them; the last one may have fewer. */
static int64_t blocks_of(int64_t tiles, int64_t most_blocks) {
    return parts(tiles, parts(tiles, most_blocks));
}

/* Inputs of x that a block has in shared memory at once. */
static int64_t piece_of(const sc_plan *plan, int64_t depth) {
    const int64_t words = STAGED / 4 / decode_columns(plan);
    const int64_t room = is_half(plan->options.dtype) ? 2 * (words - 16) : words;
    return least(round_up(depth, 128), room / PIECE_UNIT * PIECE_UNIT);
}

void sc_emit_cuda_linear(sc_scope *s, const sc_plan *plan, const sc_cuda_linear *l) {
    const bool half = is_half(plan->options.dtype);
    const int64_t columns = l->chosen ? 1 : decode_columns(plan),
                  depth = sc_plan_depth(plan, l->in);
    const int64_t products = l->gated ? 2 : 1, tile = half ? 16 : 4;
    const int64_t tiles = parts(l->out, tile), steps = (half ? 4 : 2) / products;
    const int64_t piece = piece_of(plan, depth);
    int64_t shared = half ? DECODE_WARPS * products * tile * 8
                          : DECODE_WARPS * products * tile * columns; /* floats */
    if (l->normed)
        shared += columns * (half ? piece / 2 + 16 : piece) + 2 * columns + DECODE_WARPS;
    sc_scope_number(s, "tiles", tiles);
    const int64_t most_blocks = (half ? MOST_BLOCKS : 2 * MOST_BLOCKS) / l->blocks;
    sc_scope_number(s, "decode_grid", blocks_of(tiles, most(1, most_blocks)));
    sc_scope_text(s, "tile_outputs",
                  sc_pool_printf(s->pool, "%lld %s", (long long)tile,
                                 l->gated ? "pairs of outputs" : "outputs"));
    sc_scope_number(s, "columns", columns);
    sc_scope_number(s, "steps", steps);
    sc_scope_number(s, "chunk", steps * (half ? 32 : 128));
    sc_scope_number(s, "products", products);
    sc_scope_number(s, "tile_rows", products * (half ? 2 : tile));
    sc_scope_number(s, "decode_shared", shared * 4);
    sc_scope_flag(s, "operands", !l->normed);
    sc_scope_flag(s, "pieces", l->normed && piece < depth);
    if (l->normed)
        sc_scope_number(s, "piece", piece);
}

/* Words from one query or key to the next, of so many steps of 32 dimensions: rows begin 16 banks
 * apart, so that eight lanes read 16 bytes each of two rows at once. */
static int64_t words_of(int64_t steps) { return 16 * steps + (steps % 2 ? 0 : 16); }

/* Pairs of dimensions that a lane has: blocks of 64 dimensions, and the rest. */
static void emit_pairs(sc_scope *s, int64_t pairs) {
    sc_scope_number(s, "value_pairs", pairs);
    sc_scope_number(s, "value_blocks", pairs / 4);
    sc_scope_number(s, "value_rest", pairs % 4);
    sc_scope_flag(s, "has_rest", pairs % 4 > 0);
}

/* Attention by mma: 32 dimensions of a key at a step, pairs of dimensions of values. */
static void emit_tiles(sc_scope *s, const sc_attention *a, int64_t attend_words) {
    const int64_t steps = parts(a->head_dim, 32), pairs = parts(a->v_head_dim, 16);
    const int64_t group = a->heads / a->kv_heads, rows = group > 8 ? ATTEND_QUERIES : 8;
    const int64_t widest = most(a->head_dim, a->v_head_dim), keys = widest > WIDE_HEAD ? 32 : 64;
    /* Values are read every second row: 4 banks apart. */
    const int64_t words = words_of(steps), value_words = 8 * pairs + 4;
    attend_words += rows * words + ATTEND_WARPS * (2 * 16 + rows * 68);
    sc_scope_number(s, "attend_shared", attend_words * 4);
    sc_scope_number(s, "attend_rows", rows);
    sc_scope_flag(s, "attend_wide", rows > 8);
    sc_scope_number(s, "attend_halves", rows / 8);
    sc_scope_number(s, "key_steps", steps);
    sc_scope_number(s, "query_words", words);
    emit_pairs(s, pairs);
    sc_scope_number(s, "value_words", value_words);
    sc_scope_flag(s, "query_held", a->head_dim <= WIDE_HEAD);
    sc_scope_number(s, "tile_queries", ATTENTION_QUERIES);
    sc_scope_number(s, "tile_keys", keys);
    sc_scope_number(s, "attention_shared", keys * (words + value_words) * 4);
}

/* Attention by plain multiply-adds, on a float cache. */
static void emit_float_tiles(sc_scope *s, const sc_attention *a, int64_t attend_words) {
    const int64_t queries = least(a->heads / a->kv_heads, ATTEND_QUERIES);
    const int64_t widest = round_up(most(a->head_dim, a->v_head_dim), 4);
    const int64_t tile = widest > WIDE_HEAD ? 16 : 32, team = ATTEND_THREADS / tile;
    const int64_t stride = widest % 8 ? widest : widest + 4; /* eight rows in other banks */
    attend_words += queries * (round_up(a->head_dim, 4) + ATTEND_THREADS + 3);
    sc_scope_number(s, "attend_shared", attend_words * 4);
    sc_scope_number(s, "attend_rows", queries);
    sc_scope_number(s, "key_depth", round_up(a->head_dim, 4));
    sc_scope_number(s, "tile_queries", tile);
    sc_scope_number(s, "tile_keys", tile);
    sc_scope_number(s, "tile_depth", widest);
    sc_scope_number(s, "tile_stride", stride);
    sc_scope_number(s, "team_fours", parts(parts(a->v_head_dim, 4), team));
    sc_scope_number(s, "dim_depth", round_up(a->head_dim, 4));
    sc_scope_number(s, "attention_shared", (2 * tile * stride + tile * (tile + 1)) * 4);
}

/* Latent attention by mma: steps of 32 dimensions of a key, then of what is key alone; a warp has a
 * quarter of the sum's dimensions. By plain multiply-adds: 4 dimensions at a time. */
static void emit_latent_tiles(sc_scope *s, const sc_plan *plan, const sc_attention *a,
                              int64_t words) {
    const int64_t queries = sc_plan_tile_heads(plan, a);
    const int64_t key = round_up(a->head_dim, 4), depth = key + round_up(a->v_head_dim, 4);
    const int64_t steps = parts(a->head_dim, 32) + parts(a->v_head_dim, 32);
    const int64_t query = words_of(steps);
    const int64_t pairs = parts(parts(a->head_dim, 16), ATTEND_WARPS);
    const bool floats = plan->options.kv_dtype == SC_F32;
    words += floats ? queries * (depth + ATTEND_THREADS + 3) : 16 * (query + 36 + 2 * ATTEND_WARPS);
    sc_scope_number(s, "attend_shared", words * 4);
    sc_scope_number(s, "key_depth", key);
    sc_scope_number(s, "query_depth", depth);
    sc_scope_number(s, "key_steps", parts(a->head_dim, 32));
    sc_scope_number(s, "latent_steps", steps);
    sc_scope_number(s, "query_words", query);
    emit_pairs(s, pairs);
}

/* Where heads of q, k or v begin, and how far it is from row to row. */
static void emit_heads(sc_scope *s, const sc_plan *plan, const char *what, sc_span span) {
    const char *value = sc_macro(s->pool, plan->graph->value[span.value].name);
    sc_scope_text(
        s, sc_pool_printf(s->pool, "%s_at", what),
        sc_pool_printf(s->pool, "%s_AT + %lld * sizeof(float)", value, (long long)span.at));
    sc_scope_text(s, sc_pool_printf(s->pool, "%s_row", what),
                  sc_pool_printf(s->pool, "%s_STRIDE", value));
}

void sc_emit_cuda_spans(sc_scope *s, const sc_plan *plan, const sc_attention *a) {
    emit_heads(s, plan, "q", a->q);
    if (a->latent)
        emit_heads(s, plan, "q_rope", a->q_rope);
    if (a->k.value >= 0) {
        emit_heads(s, plan, "k", a->k);
        emit_heads(s, plan, "v", a->v);
    }
    sc_scope_text(s, "attended", sc_macro(s->pool, plan->graph->value[a->out.value].name));
}

void sc_emit_cuda_index(sc_scope *s, const sc_plan *plan, const sc_index *x) {
    const int64_t at_once = most(1, least(x->heads, STAGED / 4 / x->dim / 8 * 8));
    emit_heads(s, plan, "q", x->q);
    emit_heads(s, plan, "k", x->k);
    emit_heads(s, plan, "weights", x->weights);
    sc_scope_number(s, "index_at_once", at_once);
    sc_scope_number(s, "index_shared", at_once * x->dim * 4);
}

void sc_emit_cuda_attention(sc_scope *s, const sc_plan *plan, const sc_attention *a, int shape) {
    const bool floats = plan->options.kv_dtype == SC_F32;
    const int64_t group = sc_plan_tile_heads(plan, a), queries = least(group, ATTEND_QUERIES);
    const int64_t widest = most(a->head_dim, a->v_head_dim);
    const int64_t heads = a->heads + (a->k.value >= 0 ? 2 * a->kv_heads : 0);
    const int64_t splits = sc_plan_splits(plan, a, &plan->shape[shape]);
    const sc_value *out = &plan->graph->value[a->out.value];
    const bool is_read = is_half(plan->options.dtype) && plan->device.value[a->out.value].floats;
    sc_emit_cuda_spans(s, plan, a);
    /* What a row operation gates is floats, and its operands are that operation's. */
    sc_scope_text(s, "attended_ctype", is_read ? "float" : "operand");
    sc_scope_text(s, "attended_from", is_read ? "" : "operand_of");
    sc_scope_text(s, "attended_row",
                  sc_pool_printf(s->pool, "%s_%s", sc_macro(s->pool, out->name),
                                 is_read ? "STRIDE" : "DEPTH"));
    sc_scope_flag(s, "scored", a->softcap > 0 || a->alibi);
    sc_scope_number(s, "head_dim", a->head_dim);
    sc_scope_number(s, "v_head_dim", a->v_head_dim);
    sc_scope_number(s, "attend_splits", splits);
    sc_scope_number(s, "attend_tiles", sc_plan_tiles(plan, a));
    sc_scope_text(s, "sum_dim",
                  sc_pool_printf(s->pool, "SHAPE%d_%sDIM", shape, a->latent ? "" : "V_"));
    sc_scope_number(s, "device_group", group);
    sc_scope_number(s, "attend_queries", queries);
    sc_scope_number(s, "widest_head", widest);
    sc_scope_number(s, "keep_shared", KEEP_WARPS * widest * 4);
    sc_scope_number(s, "keep_grid", parts(heads, KEEP_HEADS));
    /* The part of attend's shared memory that all have: factors of shares, a flag; then heads. */
    const int64_t shares = queries * splits + 1, words = ATTEND_WARPS * a->head_dim + shares;
    if (a->latent)
        emit_latent_tiles(s, plan, a, shares);
    else if (floats)
        emit_float_tiles(s, a, words);
    else
        emit_tiles(s, a, words);
}

/* "" of float32, which is as it is; else a function of that type's. */
static const char *of_half(sc_dtype dtype, const char *bf16, const char *f16) {
    return dtype == SC_BF16 ? bf16 : dtype == SC_F16 ? f16 : "";
}

/* How floats become what is kept and back, and the multiply-add of tiles. */
static void emit_types(sc_scope *top, sc_dtype weight, sc_dtype kv, bool multiplies) {
    const bool mma[] = { is_half(weight) && multiplies, is_half(kv) };
    sc_scope_flag(top, "device_halves", is_half(weight));
    sc_scope_flag(top, "device_bf16", weight == SC_BF16 || kv == SC_BF16);
    sc_scope_flag(top, "device_f16", weight == SC_F16 || kv == SC_F16);
    sc_scope_flag(top, "device_mma", mma[0] || mma[1]);
    sc_scope_flag(top, "weight_mma", mma[0]);
    sc_scope_flag(top, "bf16_mma", (mma[0] && weight == SC_BF16) || (mma[1] && kv == SC_BF16));
    sc_scope_flag(top, "f16_mma", (mma[0] && weight == SC_F16) || (mma[1] && kv == SC_F16));
    sc_scope_text(top, "device_weight_to", of_half(weight, "float_from_bf16", "float_from_half"));
    sc_scope_text(top, "device_weight_from", of_half(weight, "bf16_from_float", "half_from_float"));
    if (is_half(weight))
        sc_scope_text(top, "device_weight_mma", of_half(weight, "mma_bf16", "mma_f16"));
    sc_scope_flag(top, "float_cache", !is_half(kv));
    sc_scope_text(top, "device_kv_ctype", is_half(kv) ? "unsigned short" : "float");
    sc_scope_text(top, "device_kv_from", of_half(kv, "bf16_from_float", "half_from_float"));
    if (is_half(kv))
        sc_scope_text(top, "device_kv_mma", of_half(kv, "mma_bf16", "mma_f16"));
}

void sc_emit_cuda(sc_scope *top, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    const bool decodes = sc_cuda_decodes(plan);
    int64_t angles = 0;
    for (int i = 0; i < plan->graph->ropes; i++)
        angles += plan->graph->rope[i].rotary_dim * d->rows;
    emit_types(top, plan->options.dtype, plan->options.kv_dtype, decodes || plan->top_k);
    sc_scope_number(top, "device_block", d->block);
    sc_scope_number(top, "device_hidden_depth", sc_plan_depth(plan, plan->graph->hidden));
    sc_scope_number(top, "device_sums_stride", d->sums_stride);
    sc_scope_number(top, "device_query_width", d->query_width);
    sc_scope_number(top, "device_partial", d->partial_floats);
    sc_scope_number(top, "device_arrived", d->arrived);
    sc_scope_number(top, "device_angles", angles);
    sc_scope_number(top, "device_expert_depth", d->expert_depth);
    sc_scope_number(top, "index_rows", d->index_rows);
    sc_scope_number(top, "index_scores_stride", d->index_stride);
    sc_scope_number(top, "index_chosen", d->index_chosen);
    sc_scope_number(top, "expert_outputs",
                    is_half(plan->options.dtype) ? HALF_OUTPUTS : FLOAT_OUTPUTS);
    sc_scope_number(top, "decode_rows", DECODE_ROWS);
    sc_scope_flag(top, "decode_linears", decodes);
}
