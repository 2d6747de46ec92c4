{{! shapes.h - constants that device code and its host side share. BATCH is defined before it. }}
/* How much a pass takes. */
enum {
    DEVICE_BLOCK = {{device_block}}, /* tokens of each row of the batch */
    DEVICE_ROWS = BATCH * DEVICE_BLOCK,
    DECODE_ROWS = {{decode_rows}}, /* rows of one token each that the linears of decode take */
    HEAD_ROWS = {{head_rows}}, /* of logits at once */
};

/* Widths in elements. Rows of operands and weights are whole 16 bytes, zeros behind their end. */
enum {
    HIDDEN = {{hidden}},
    HIDDEN_STRIDE = {{device_hidden_stride}},
    HIDDEN_DEPTH = {{device_hidden_depth}},
    QKV_STRIDE = {{device_qkv_stride}},
    Q_STRIDE = {{device_q_stride}}, /* at most: q is [rows, heads, head_dim] of its layer */
    ATTENDED_DEPTH = {{device_attended_depth}},
    GATE_UP_STRIDE = {{device_gate_up_stride}},
    FFN_DEPTH = {{device_ffn_depth}},
    VOCAB = {{vocab}},
};

/* Scratch of one kernel or from one to the next. */
enum {
    PARTIAL = {{device_partial}},  /* floats: parts of a split attention */
    ARRIVED = {{device_arrived}}, /* counters, 0 between kernels */
    ANGLES = {{device_angles}},   /* floats: cos and sin of each rope, [DEVICE_ROWS, pairs] */
};
{{#ropes}}

enum {
    ROPE{{id}}_PAIRS = {{pairs}},
    ROPE{{id}}_COS = {{cos_at}}, /* of the angles */
    ROPE{{id}}_SIN = {{sin_at}},
};
{{/ropes}}

/* Blocks of threads. */
enum {
    DECODE_THREADS = 256, /* decode linears */
    ROW_THREADS = 256,    /* embed, norm, keep, bias, gated: a block per row; write_back */
    PICK_THREADS = 1024,
    UNPACK_THREADS = 256,
    UNPACK_COLUMNS = 64, /* inputs of one panel that a block unpacks */
    ATTEND_THREADS = 128,
    ATTENTION_THREADS = 128,
    GATED_COLUMNS = 1024, /* of a row that one block takes: gated, bias */
};

/* W [out, depth] of each linear, and the blocks that multiply it in decode. */
enum {
{{#linears}}
    {{fn}}_DEPTH = {{device_depth}},
    {{fn}}_OUT = {{device_out}},
    {{fn}}_GRID = {{decode_grid}},
{{/linears}}
{{#head_linears}}
    {{fn}}_DEPTH = {{device_depth}},
    {{fn}}_OUT = {{device_out}},
    {{fn}}_GRID = {{decode_grid}},
{{/head_linears}}
};
{{#attentions}}

/* {{layer_list}}. keep: grid [rows, KEEP{{id}}_GRID]. attend: grid [ATTEND{{id}}_SPLITS, batch * ATTEND{{id}}_HEADS].
 * attention: grid [ceil(tokens * ATTENTION{{id}}_GROUP / ATTENTION{{id}}_QUERIES), batch *
 * ATTEND{{id}}_HEADS]. */
enum {
    ATTEND{{id}}_SPLITS = {{splits}},
    ATTEND{{id}}_HEADS = {{kv_heads}},
    KEEP{{id}}_GRID = {{keep_grid}}, /* blocks that share the heads of one token */
    ATTENTION{{id}}_GROUP = {{group}},
    ATTENTION{{id}}_QUERIES = {{tile_queries}},
};
{{/attentions}}

/* What a pass is about, at one address on the device. */
typedef struct {
    long long batch, tokens;  /* activations are [batch, tokens, …] */
    long long row[BATCH];     /* of the cache */
    long long seen[BATCH];    /* tokens that the row held before the pass */
    long long padding[BATCH]; /* positions of the row below it are padding */
    int ids[DEVICE_ROWS];     /* [batch, tokens] */
} step;
