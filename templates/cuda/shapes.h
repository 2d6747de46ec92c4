{{! shapes.h - constants that device code and its host side share. BATCH is defined before it. }}
/* How much a pass takes. */
enum {
    DEVICE_BLOCK = {{device_block}}, /* tokens of each row of the batch */
    DEVICE_ROWS = BATCH * DEVICE_BLOCK,
    DECODE_ROWS = {{decode_rows}}, /* rows of one token each that the linears of decode take */
    HEAD_ROWS = {{head_rows}}, /* of logits at once */
};

/*
 * Elements from row to row of what a pass computes: of floats STRIDE, of operands of linears DEPTH,
 * both whole 16 bytes. Nothing is written behind a row's width, so there are the zeros of open.
 */
enum {
{{#device_values}}
{{#floats}}
    {{macro}}_STRIDE = {{stride}},
{{/floats}}
{{#operands}}
    {{macro}}_DEPTH = {{depth}},
{{/operands}}
{{/device_values}}
    HIDDEN = {{hidden}},
    HIDDEN_DEPTH = {{device_hidden_depth}}, /* of embed_tokens */
    SUMS_STRIDE = {{device_sums_stride}},
    QUERY_WIDTH = {{device_query_width}}, /* at most: queries are [rows, heads, head_dim] of their layer */
    VOCAB = {{vocab}},
};

/* Where the buffers of a pass lie: bytes from the start of the scratch. */
{{#device_buffers}}
#define {{macro}} {{offset}}ULL /* {{what}} */
{{/device_buffers}}

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
    ROW_THREADS = 256,    /* embed, rows, keep, bias, end: a block per row; write_back */
    PICK_THREADS = 1024,
    UNPACK_THREADS = 256,
    UNPACK_COLUMNS = 64, /* inputs of one panel that a block unpacks */
    ATTEND_THREADS = 128,
    ATTENTION_THREADS = 128,
    END_COLUMNS = 1024, /* of a row that one block takes: end */
    CONV_THREADS = 64, /* conv: a thread has a channel, whose tokens follow each other */
    SCAN_THREADS = 128, /* scan, delta */
{{#has_index}}
    INDEX_THREADS = 128, /* index_score: a thread has a key */
    INDEX_ROWS = {{index_rows}}, /* queries that are scored at once */
    INDEX_STRIDE = {{index_scores_stride}}, /* floats from one query's scores to the next one's */
    INDEX_CHOSEN = {{index_chosen}}, /* slots that are listed for a query, at most */
{{/has_index}}
{{#has_experts}}
    EXPERT_THREADS = 128,
    EXPERT_OUTPUTS = {{expert_outputs}}, /* that a block makes of one expert's rows in a prefill */
    EXPERT_DEPTH = {{device_expert_depth}}, /* elements from choice to choice: operands of down */
    EXPERT_Y_STRIDE = {{expert_y_stride}}, /* and floats that it makes */
{{/has_experts}}
};

/* W [out, depth] of each linear, and the blocks that multiply it in decode. */
enum {
{{#device_linears}}
    {{fn}}_DEPTH = {{device_depth}},
    {{fn}}_OUT = {{device_out}},
    {{fn}}_GRID = {{decode_grid}},
{{/device_linears}}
{{#head_linears}}
    {{fn}}_DEPTH = {{device_depth}},
    {{fn}}_OUT = {{device_out}},
    {{fn}}_GRID = {{decode_grid}},
{{/head_linears}}
};
{{#mixture_kernels}}

/* {{experts}} experts, {{top_k}} for each row: a choice is one of them. */
enum {
    {{mixture}}_EXPERTS = {{experts}},
    {{mixture}}_CHOSEN = {{top_k}},
{{#expert_linears}}
    {{fn}}_DEPTH = {{device_depth}},
    {{fn}}_OUT = {{device_out}},
    {{fn}}_GRID = {{decode_grid}},
    {{fn}}_TILES_GRID = ({{out}} + EXPERT_OUTPUTS - 1) / EXPERT_OUTPUTS,
{{/expert_linears}}
};
{{/mixture_kernels}}
{{#conv_kernels}}

enum {
    {{fn}}_CHANNELS = {{channels}},
    {{fn}}_COLUMNS = {{columns}},
    {{fn}}_GRID = ({{channels}} + CONV_THREADS - 1) / CONV_THREADS,
};
{{/conv_kernels}}
{{#scan_kernels}}

/* {{heads}} heads of {{head_dim}} rows, each a state of {{state_size}} that {{lanes}} lanes hold, 4 elements at a step. */
enum {
    {{fn}}_ROWS = {{heads}} * {{head_dim}},
    {{fn}}_DIM = {{head_dim}},
    {{fn}}_SIZE = {{state_size}},
    {{fn}}_GROUP = {{heads}} / {{groups}}, /* heads that share B and C */
    {{fn}}_LANES = {{lanes}},
    {{fn}}_STEPS = {{lane_steps}},
    {{fn}}_GRID = ({{fn}}_ROWS * {{fn}}_LANES + SCAN_THREADS - 1) / SCAN_THREADS,
};
{{/scan_kernels}}
{{#delta_kernels}}

/* {{heads}} heads of {{value_dim}} columns of {{key_dim}} keys. */
enum {
    {{fn}}_HEADS = {{heads}},
    {{fn}}_SHARE = {{heads}} / {{key_heads}}, /* heads of one query and key */
    {{fn}}_KEY = {{key_dim}},
    {{fn}}_VALUE = {{value_dim}},
    {{fn}}_STEPS = ({{key_dim}} + 15) / 16, /* four keys of each of four lanes */
    {{fn}}_COLUMNS = 8, /* of a warp */
    {{fn}}_WARPS = ({{value_dim}} + {{fn}}_COLUMNS - 1) / {{fn}}_COLUMNS, /* of a head */
    {{fn}}_GRID = ({{fn}}_HEADS * {{fn}}_WARPS * 32 + SCAN_THREADS - 1) / SCAN_THREADS,
};
{{/delta_kernels}}
{{#attentions}}

{{#latent}}
/* {{layer_list}}. keep: grid [rows, KEEP{{id}}_GRID]. latent: grid [rows * LATENT{{id}}_TILES, shares],
 * ATTEND{{id}}_SPLITS at most. */
enum {
    ATTEND{{id}}_SPLITS = {{attend_splits}},
    LATENT{{id}}_TILES = {{attend_tiles}}, /* blocks that share the heads of one token */
    KEEP{{id}}_GRID = {{keep_grid}}, /* the same of keep */
};
{{/latent}}
{{#expanded}}
/* {{layer_list}}. keep: grid [rows, KEEP{{id}}_GRID]. attend: grid [ATTEND{{id}}_SPLITS, batch * ATTEND{{id}}_HEADS].
 * attention: grid [ceil(tokens * ATTENTION{{id}}_GROUP / ATTENTION{{id}}_QUERIES), batch *
 * ATTEND{{id}}_HEADS]. */
enum {
    ATTEND{{id}}_SPLITS = {{attend_splits}},
    ATTEND{{id}}_HEADS = {{kv_heads}},
    KEEP{{id}}_GRID = {{keep_grid}}, /* blocks that share the heads of one token */
    ATTENTION{{id}}_GROUP = {{device_group}},
    ATTENTION{{id}}_QUERIES = {{tile_queries}},
};
{{/expanded}}
{{/attentions}}

/* What a pass is about, at one address on the device. */
typedef struct {
    long long batch, tokens;  /* activations are [batch, tokens, …] */
    long long row[BATCH];     /* of the cache */
    long long seen[BATCH];    /* tokens that the row held before the pass */
    long long padding[BATCH]; /* positions of the row below it are padding */
    int ids[DEVICE_ROWS];     /* [batch, tokens] */
} step;
