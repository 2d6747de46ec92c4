/* emit_cuda_ops.c - see emit_cuda_ops.h. */
#include "emit_cuda_ops.h"

#include <string.h>

enum { MOST_WEIGHTS = 12 }; /* of a chain of row operations: a kernel takes 16 words */

int sc_cuda_begin(sc_cuda_set *set, sc_error *err) {
    static const char *const lists[] = { "row_kernels",  "device_linears", "mixture_kernels",
                                         "conv_kernels", "scan_kernels",   "delta_kernels" };
    const sc_graph *g = set->plan->graph;
    sc_scope_flag(set->top, "device_first_ops", false);
    sc_scope_flag(set->top, "device_last_ops", false);
    size_t ops = (size_t)g->first.ops + (size_t)g->last.ops + 1; /* and the head */
    for (int i = 0; i < g->layers; i++)
        ops += (size_t)g->layer[i].ops;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        sc_scope_flag(set->top, lists[i], false);
    set->kernel = sc_pool_alloc(set->top->pool, ops, sizeof *set->kernel);
    return set->kernel ? SC_OK : sc_oom(err, "filling templates");
}

/* The kernel's name, stem0, stem1, … in order of first use; *is_new: it was not there before. */
const char *sc_cuda_kernel_name(sc_cuda_set *set, const char *stem, const char *text,
                                bool *is_new) {
    int number = 0;
    *is_new = false;
    for (int i = 0; i < set->kernels && text; i++) {
        const sc_cuda_kernel *k = &set->kernel[i];
        if (!strcmp(k->stem, stem) && !strcmp(k->text, text))
            return k->name;
        number += !strcmp(k->stem, stem);
    }
    const char *name = sc_pool_printf(set->top->pool, "%s%d", stem, number);
    if (!text || !name) {
        set->top->rc = SC_EENV;
        return NULL;
    }
    *is_new = true;
    set->kernel[set->kernels++] = (sc_cuda_kernel){ text, stem, name };
    return name;
}

/* ---- values ---- */

static bool is_single(const sc_cuda_set *set) { return set->plan->options.dtype == SC_F32; }

static const char *name_of(const sc_cuda_set *set, sc_span span) {
    return set->plan->graph->value[span.value].name;
}

static const char *macro_of(const sc_cuda_set *set, sc_span span) {
    return sc_macro(set->top->pool, name_of(set, span));
}

static bool has_twin(const sc_cuda_set *set, sc_span span) {
    return sc_plan_has_twin(set->plan, span.value);
}

/* Whether what is written are floats, operands or both. */
static bool writes_floats(const sc_cuda_set *set, sc_span span) {
    return is_single(set) || set->plan->device.value[span.value].floats;
}

static bool writes_operands(const sc_cuda_set *set, sc_span span) {
    return !is_single(set) && set->plan->device.value[span.value].operands;
}

/* "X_AT + 64 * 4": bytes from the start of the scratch. */
static const char *place_of(const sc_cuda_set *set, const char *buffer, int64_t at, int size) {
    sc_pool *pool = set->top->pool;
    return at ? sc_pool_printf(pool, "%s_AT + %lld * %d", buffer, (long long)at, size)
              : sc_pool_printf(pool, "%s_AT", buffer);
}

const char *sc_cuda_floats_at(const sc_cuda_set *set, sc_span span) {
    return place_of(set, macro_of(set, span), span.at, sizeof(float));
}

static const char *operands_at(const sc_cuda_set *set, sc_span span) {
    const char *macro = macro_of(set, span);
    if (has_twin(set, span))
        macro = sc_pool_printf(set->top->pool, "%s_OPERANDS", macro);
    return place_of(set, macro, span.at, is_single(set) ? 4 : 2);
}

static const char *with_suffix(const sc_cuda_set *set, sc_span span, const char *suffix) {
    return sc_pool_printf(set->top->pool, "%s%s", macro_of(set, span), suffix);
}

/* Where the weight lies, as C. */
const char *sc_cuda_weight_at(const sc_cuda_set *set, const sc_weight *weight) {
    const sc_plan *plan = set->plan;
    for (int i = 0; i < plan->packed && weight; i++)
        if (plan->pack[i].weight == weight)
            return sc_pool_printf(set->top->pool, "%s + %zu", set->weights,
                                  plan->pack[i].device.offset);
    return "NULL";
}

/* y, and its operands beside it where it has such. */
void sc_cuda_target(const sc_cuda_set *set, sc_scope *s, sc_span y) {
    const bool floats = writes_floats(set, y), twin = has_twin(set, y);
    sc_scope_text(s, "y_ctype", floats ? "float" : "operand");
    sc_scope_text(s, "y_from", floats ? "" : "operand_of");
    sc_scope_text(s, "y_row", with_suffix(set, y, floats ? "_STRIDE" : "_DEPTH"));
    sc_scope_text(s, "y_at", floats ? sc_cuda_floats_at(set, y) : operands_at(set, y));
    sc_scope_flag(s, "twin", twin);
    if (twin) {
        sc_scope_text(s, "twin_row", with_suffix(set, y, "_DEPTH"));
        sc_scope_text(s, "twin_at", operands_at(set, y));
    }
}

static const char *const act_names[SC_ACTS] = { "", "silu", "gelu", "gelu_tanh", "relu", "relu2" };

const char *sc_cuda_act(sc_cuda_set *set, sc_activation act) {
    set->act[act] = true;
    return act_names[act];
}

/* ---- rows ---- */

/* What each function is given, letter by letter: a, b the rows that are read, o what is written, as
 * floats and as operands, w, W the weights, 0 … 5 the counts, f, g the factors, p the token's
 * position, i its id, t the activation, r the rope, d a weight's row, s shared memory for sums. */
static const struct {
    const char *function, *arguments;
} row_functions[SC_ROWS] = {
    [SC_ROW_RMS_NORM] = { "rms_norm", "aw012fos" },
    [SC_ROW_LAYER_NORM] = { "layer_norm", "awW012fos" },
    [SC_ROW_ADD] = { "add", "afbg0o" },
    [SC_ROW_ROPE_PAIRS] = { "rope_pairs", "a01ro" },
    [SC_ROW_ROPE] = { "rope", "a0123ro" },
    [SC_ROW_ROUTE] = { "route", "awW012345fo" },
    [SC_ROW_POSITION] = { "add_position", "awdp10o" },
    [SC_ROW_TEMPERATURE] = { "temperature", "ap1f0o" },
    [SC_ROW_MULTIPLY] = { "multiply", "ab0o" },
    [SC_ROW_TIMES] = { "times", "af0o" },
    [SC_ROW_SILU_GATE] = { "silu_gate", "ab0o" },
    [SC_ROW_SIGMOID_GATE] = { "sigmoid_gate", "ab01o" },
    [SC_ROW_SCALE] = { "scale", "aw01o" },
    [SC_ROW_LOOKUP] = { "lookup", "afwdgi10o" },
    [SC_ROW_TANH] = { "tanh_row", "a0o" },
    [SC_ROW_MAGNITUDE] = { "match_magnitude", "abf0os" },
    [SC_ROW_PREDICT] = { "predict", "ab01o" },
    [SC_ROW_CORRECT] = { "correct", "ab01o" },
    [SC_ROW_SPARSE_GATE] = { "sparse_gate", "abft0os" },
};

/* One chain on its way into a kernel. */
typedef struct {
    const sc_op_list *list;
    int first, end; /* operations of the list */
    int weights;
    const sc_weight *weight[MOST_WEIGHTS];
} row_chain;

/* Whether it reads or writes elsewhere in each layer. */
static bool is_layered(const row_chain *chain) {
    for (int i = chain->first; i < chain->end; i++) {
        const sc_row_op *op = &chain->list->op[i].row;
        if (op->a.step || op->b.step || op->out.step)
            return true;
    }
    return false;
}

static int weight_number(const row_chain *chain, const sc_weight *w) {
    int i = 0;
    while (i < chain->weights && chain->weight[i] != w)
        i++;
    return i;
}

/* Operations of rows from the i-th on, as many as a kernel takes. */
static row_chain chain_from(const sc_op_list *list, int i) {
    row_chain chain = { .list = list, .first = i, .end = i };
    for (; i < list->ops && list->op[i].kind == SC_OP_ROW; chain.end = ++i) {
        if (chain.weights + 2 > MOST_WEIGHTS)
            break;
        for (int k = 0; sc_op_weight(&list->op[i], k); k++) {
            const sc_weight *w = sc_op_weight(&list->op[i], k);
            const int number = weight_number(&chain, w);
            chain.weight[number] = w;
            chain.weights += number == chain.weights;
        }
    }
    return chain;
}

static const char *row_pointer(const sc_cuda_set *set, sc_span span, const char *suffix) {
    sc_pool *pool = set->top->pool;
    const char *text = sc_pool_printf(pool, "%s_%s", name_of(set, span), suffix);
    if (span.at && text)
        text = sc_pool_printf(pool, "%s + %lld", text, (long long)span.at);
    if (span.step && text)
        text = sc_pool_printf(pool, "%s + layer * %lld", text, (long long)span.step);
    return text;
}

static const char *weight_argument(const sc_cuda_set *set, const row_chain *chain,
                                   const sc_weight *w) {
    return w ? sc_pool_printf(set->top->pool, "w%d", weight_number(chain, w)) : "0";
}

static const char *row_argument(sc_cuda_set *set, const row_chain *chain, const sc_row_op *op,
                                char letter) {
    sc_pool *pool = set->top->pool;
    char number[SC_FLOAT_LITERAL];
    switch (letter) {
    case 'a':
        return row_pointer(set, op->a, "row");
    case 'b':
        return row_pointer(set, op->b, "row");
    case 'o':
        return sc_pool_printf(
            pool, "%s, %s", writes_floats(set, op->out) ? row_pointer(set, op->out, "row") : "0",
            writes_operands(set, op->out) ? row_pointer(set, op->out, "to") : "0");
    case 'w':
        return weight_argument(set, chain, op->w);
    case 'W':
        return weight_argument(set, chain, op->w2);
    case 'd':
        return sc_pool_printf(pool, "%lld", (long long)sc_plan_depth(set->plan, op->w->in));
    case 'f':
    case 'g':
        return sc_pool_strdup(pool, sc_float_literal(number, op->f[letter == 'g']));
    case 'p':
        return "pos";
    case 'i':
        return "id";
    case 't':
        return sc_cuda_act(set, op->act);
    case 'r':
        return sc_pool_printf(pool,
                              "angles + ROPE%d_COS + row * ROPE%d_PAIRS, angles + ROPE%d_SIN + row "
                              "* ROPE%d_PAIRS, ROPE%d_PAIRS",
                              op->rope, op->rope, op->rope, op->rope, op->rope);
    case 's':
        return "sums";
    default:
        return sc_pool_printf(pool, "%lld", (long long)op->n[letter - '0']);
    }
}

static void add_call(sc_cuda_set *set, sc_scope *s, const row_chain *chain, int i) {
    sc_pool *pool = set->top->pool;
    const sc_row_op *op = &chain->list->op[i].row;
    const char *text = sc_pool_printf(pool, "%s(", row_functions[op->kind].function);
    for (const char *c = row_functions[op->kind].arguments; *c && text; c++) {
        const char *argument = row_argument(set, chain, op, *c);
        text = argument ? sc_pool_printf(pool, "%s%s%s", text, argument, c[1] ? ", " : ")") : NULL;
    }
    sc_scope call = sc_scope_item(s, "calls");
    sc_scope_flag(&call, "follows", i > chain->first); /* reads what the one before has written */
    sc_scope_text(&call, "call", text);
    sc_scope_text(&call, "what", sc_op_text(pool, set->plan->graph, &chain->list->op[i]));
    if (call.rc)
        set->top->rc = call.rc;
}

/* The rows that the chain reads or writes, each once. */
static void add_pointers(const sc_cuda_set *set, sc_scope *s, const row_chain *chain) {
    for (int value = 0; value < set->plan->graph->values; value++) {
        const sc_span span = { .value = value };
        bool floats = false, operands = false;
        for (int i = chain->first; i < chain->end; i++) {
            const sc_row_op *op = &chain->list->op[i].row;
            const bool is_out = op->out.value == value;
            floats |= op->a.value == value || op->b.value == value ||
                      (is_out && op->kind == SC_ROW_CORRECT) ||
                      (is_out && writes_floats(set, op->out));
            operands |= is_out && writes_operands(set, op->out);
        }
        if (!floats && !operands)
            continue;
        sc_scope v = sc_scope_item(s, "pointers");
        sc_scope_text(&v, "field", name_of(set, span));
        sc_scope_text(&v, "macro", macro_of(set, span));
        sc_scope_flag(&v, "floats", floats);
        sc_scope_flag(&v, "to", operands);
        sc_scope_text(&v, "to_at", operands_at(set, span));
        if (v.rc)
            set->top->rc = v.rc;
    }
}

static void new_rows(sc_cuda_set *set, const char *name, const row_chain *chain) {
    sc_pool *pool = set->top->pool;
    sc_scope s = sc_scope_item(set->top, "row_kernels");
    const char *parameters = "";
    bool sums = false, positions = false, ids = false, turns = false;
    for (int i = 0; i < chain->weights && parameters; i++)
        parameters = sc_pool_printf(pool, "%s, const %s *w%d", parameters,
                                    sc_weight_is_floats(chain->weight[i]) ? "float" : "weight", i);
    sc_scope_text(&s, "fn", name);
    sc_scope_text(&s, "parameters", parameters);
    for (int i = chain->first; i < chain->end; i++) {
        const sc_row_op *op = &chain->list->op[i].row;
        sums |= strchr(row_functions[op->kind].arguments, 's') != NULL;
        positions |= strchr(row_functions[op->kind].arguments, 'p') != NULL;
        ids |= strchr(row_functions[op->kind].arguments, 'i') != NULL;
        turns |= op->rope >= 0;
        add_call(set, &s, chain, i);
    }
    add_pointers(set, &s, chain);
    sc_scope_flag(&s, "sums", sums);
    sc_scope_flag(&s, "positions", positions);
    sc_scope_flag(&s, "ids", ids);
    sc_scope_flag(&s, "turns", turns);
    sc_scope_flag(&s, "layered", is_layered(chain));
    if (s.rc)
        set->top->rc = s.rc;
}

/* The kernel of a chain. */
static const char *rows_name(sc_cuda_set *set, const row_chain *chain) {
    sc_pool *pool = set->top->pool;
    const char *text = "";
    bool is_new;
    for (int i = chain->first; i < chain->end && text; i++) {
        const sc_row_op *op = &chain->list->op[i].row;
        const char *one = sc_op_text(pool, set->plan->graph, &chain->list->op[i]);
        text = !one ? NULL
                    : sc_pool_printf(pool, "%s%s, by %d and %d\n", text, one,
                                     op->w ? weight_number(chain, op->w) : -1,
                                     op->w2 ? weight_number(chain, op->w2) : -1);
    }
    const char *name = sc_cuda_kernel_name(set, "rows", text, &is_new);
    if (is_new)
        new_rows(set, name, chain);
    return name;
}

static void emit_rows(sc_cuda_set *set, sc_scope *item, const row_chain *chain) {
    sc_pool *pool = set->top->pool;
    sc_scope body = sc_scope_item(item, "rows");
    const char *weights = "";
    for (int i = 0; i < chain->weights && weights; i++)
        weights =
            sc_pool_printf(pool, "%s, word(%s)", weights, sc_cuda_weight_at(set, chain->weight[i]));
    sc_scope_text(&body, "fn", rows_name(set, chain));
    sc_scope_flag(&body, "layered", is_layered(chain));
    sc_scope_text(&body, "weights", weights);
    if (body.rc)
        set->top->rc = body.rc;
}

/* ---- linears ---- */

/* What is made of a sum, with its bias: total, and of a gated pair's second total_up. */
static const char *made_text(sc_cuda_set *set, const sc_linear *l) {
    sc_pool *pool = set->top->pool;
    char scale[SC_FLOAT_LITERAL];
    const bool scaled = l->scale < 1 || l->scale > 1;
    const char *text = "total", *by = scaled ? sc_float_literal(scale, l->scale) : "";
    if (scaled && l->gated) /* of the gate, before its activation */
        text = sc_pool_printf(pool, "total * %s", by);
    if (l->act && text)
        text = sc_pool_printf(pool, "%s(%s)", sc_cuda_act(set, l->act), text);
    if (l->gated && text)
        text = sc_pool_printf(pool, "%s * total_up", text);
    else if (scaled && text)
        text = sc_pool_printf(pool, "%s * %s", text, by);
    return text;
}

/* The norm that a linear takes in, NULL: none. */
static void emit_folded(const sc_cuda_set *set, sc_scope *s, const sc_row_op *norm) {
    sc_scope_flag(s, "normed", norm != NULL);
    sc_scope_flag(s, "norm_biased", norm && norm->w2);
    sc_scope_text(s, "norm_w", sc_cuda_weight_at(set, norm ? norm->w : NULL));
    sc_scope_text(s, "norm_b", sc_cuda_weight_at(set, norm ? norm->w2 : NULL));
}

/* What kernels of a linear have in common, whatever they multiply. */
static void emit_kernel(sc_cuda_set *set, sc_scope *s, const char *name, const sc_linear *l,
                        const sc_row_op *norm, bool chosen) {
    const sc_plan *plan = set->plan;
    const int blocks = l->w && !chosen ? l->w->blocks : 1;
    sc_scope_text(s, "fn", name);
    sc_scope_text(s, "fn_pad", sc_blanks(set->top->pool, name));
    sc_scope_number(s, "in", l->in);
    sc_scope_number(s, "out", l->out);
    sc_scope_number(s, "blocks", blocks);
    sc_scope_number(s, "outs", blocks * l->out);
    sc_scope_flag(s, "several", blocks > 1);
    sc_scope_number(s, "block_x", l->x_step);
    sc_scope_number(s, "block_y", l->y_step);
    sc_scope_number(s, "device_depth", sc_plan_depth(plan, l->in));
    sc_scope_number(s, "device_out", l->gated ? 2 * l->out : l->out);
    sc_scope_text(s, "made", made_text(set, l));
    sc_scope_flag(s, "bias", l->bias != NULL);
    sc_scope_flag(s, "gated", l->gated);
    sc_scope_flag(s, "add", l->add);
    sc_scope_flag(s, "chosen", chosen);
    sc_scope_flag(s, "weighed", false);
    sc_scope_flag(s, "device_halves", !is_single(set));
    sc_scope_flag(s, "decode_linears", sc_cuda_decodes(plan));
    const bool centred = norm && norm->kind == SC_ROW_LAYER_NORM;
    emit_folded(set, s, norm);
    if (norm) {
        sc_scope_flag(s, "rms", !centred);
        sc_scope_text(s, "centred", centred ? "true" : "false");
        sc_scope_number(s, "norm_width", norm->n[1]);
        sc_scope_real(s, "norm_eps", norm->f[0]);
    }
    const sc_cuda_linear shape = { .in = l->in,
                                   .out = l->out,
                                   .blocks = blocks,
                                   .normed = norm,
                                   .gated = l->gated,
                                   .chosen = chosen };
    sc_emit_cuda_linear(s, plan, &shape);
}

/* Whether some of the operands that a linear reads do not begin at whole loads. */
static bool is_scattered(const sc_cuda_set *set, sc_span x, int64_t x_step) {
    const int64_t load = is_single(set) ? 4 : 8;
    return x.at % load || x_step % load;
}

/* Where x is: as operands for products, and as a kernel of decode takes it. */
static void emit_source(sc_cuda_set *set, sc_scope *s, sc_span x, int64_t x_step,
                        const sc_row_op *norm) {
    const bool scattered = is_scattered(set, x, x_step);
    set->scattered |= scattered;
    sc_scope_flag(s, "scattered", scattered);
    sc_scope_text(s, "x_at", operands_at(set, x));
    sc_scope_text(s, "x_row", with_suffix(set, x, "_DEPTH"));
    sc_scope_text(s, "decode_x_at", norm ? sc_cuda_floats_at(set, norm->a) : operands_at(set, x));
    sc_scope_text(s, "decode_x_row",
                  norm ? with_suffix(set, norm->a, "_STRIDE") : with_suffix(set, x, "_DEPTH"));
}

static const char *linear_what(const sc_cuda_set *set, const sc_linear *l) {
    const char *const what[] = { l->w->field, "q_proj, k_proj and v_proj in one",
                                 "act(gate_proj) * up_proj" };
    const char *name = what[l->gated ? 2 : !strcmp(l->w->field, "qkv_proj")];
    return l->add ? sc_pool_printf(set->top->pool, "%s, added to %s", name, name_of(set, l->y))
                  : name;
}

static void new_linear(sc_cuda_set *set, const char *name, const sc_linear *l,
                       const row_chain *norm) {
    const sc_row_op *folded = norm ? &norm->list->op[norm->first].row : NULL;
    const char *norm_fn = norm ? rows_name(set, norm) : NULL;
    sc_scope s = sc_scope_item(set->top, "device_linears");
    emit_kernel(set, &s, name, l, folded, false);
    emit_source(set, &s, l->x, l->x_step, folded);
    sc_cuda_target(set, &s, l->y);
    sc_scope_text(&s, "what", linear_what(set, l));
    sc_scope_flag(&s, "ended", sc_plan_ends(set->plan, l));
    sc_scope_text(&s, "sums_row", "SUMS_STRIDE");
    sc_scope_number(&s, "adds", l->add);
    if (norm)
        sc_scope_text(&s, "norm_fn", norm_fn);
    if (s.rc)
        set->top->rc = s.rc;
}

static void emit_linear(sc_cuda_set *set, sc_scope *item, const sc_op *op, const row_chain *norm) {
    sc_pool *pool = set->top->pool;
    const sc_linear *l = &op->linear;
    const char *text = sc_op_text(pool, set->plan->graph, op);
    bool is_new;
    if (norm && text) { /* which is taken in on the way */
        const char *before = sc_op_text(pool, set->plan->graph, &norm->list->op[norm->first]);
        text = before ? sc_pool_printf(pool, "%s of %s", text, before) : NULL;
    }
    const char *name = sc_cuda_kernel_name(set, l->w->field, text, &is_new);
    if (is_new)
        new_linear(set, name, l, norm);
    sc_scope body = sc_scope_item(item, "linear");
    sc_scope_text(&body, "fn", name);
    emit_folded(set, &body, norm ? &norm->list->op[norm->first].row : NULL);
    sc_scope_text(&body, "linear_w", sc_cuda_weight_at(set, l->w));
    sc_scope_text(&body, "bias_w", sc_cuda_weight_at(set, l->bias));
    if (body.rc)
        set->top->rc = body.rc;
}

/* The head is a linear like the others, of one token of each row or of some rows of a pass. */
static void emit_head(sc_cuda_set *set) {
    sc_pool *pool = set->top->pool;
    const sc_graph *g = set->plan->graph;
    char number[SC_FLOAT_LITERAL];
    const sc_row_op *norm = sc_plan_folded(g, &g->last, g->last.ops);
    const sc_linear l = {
        .in = g->lm_head->in, .out = g->vocab, .bias = g->lm_head_bias, .scale = g->logits_scale
    };
    sc_scope s = sc_scope_item(set->top, "head_linears");
    emit_kernel(set, &s, "lm_head", &l, norm, false);
    emit_source(set, &s, g->head_in, 0, norm);
    if (g->logits_softcap > 0)
        sc_scope_text(&s, "made",
                      sc_pool_printf(pool, "softcap(%s, %s)", made_text(set, &l),
                                     sc_float_literal(number, g->logits_softcap)));
    sc_scope_text(&s, "what", "lm_head");
    sc_scope_text(&s, "y_ctype", "float");
    sc_scope_text(&s, "y_from", "");
    sc_scope_text(&s, "y_row", "VOCAB");
    sc_scope_flag(&s, "twin", false);
    sc_scope_flag(&s, "ended", l.bias || l.scale < 1 || l.scale > 1 || g->logits_softcap > 0);
    sc_scope_text(&s, "sums_row", "VOCAB");
    sc_scope_number(&s, "x_size", is_single(set) ? 4 : 2);
    sc_scope_number(&s, "decode_x_size", is_single(set) || norm ? 4 : 2);
    sc_scope_text(&s, "bias_w", sc_cuda_weight_at(set, g->lm_head_bias));
    /* Whether operations come between the layers and the head, and even where decode's head takes
     * its norm in. */
    sc_scope_flag(set->top, "closes", g->last.ops > 0);
    sc_scope_flag(&s, "closes_first", g->last.ops && (!norm || !sc_cuda_decodes(set->plan)));
    if (s.rc)
        set->top->rc = s.rc;
}

/* ---- attention ---- */

static void emit_attention(const sc_cuda_set *set, sc_scope *item, const sc_attention *a,
                           int owner) {
    sc_scope body = sc_scope_item(item, "attention");
    sc_scope_number(&body, "attention_id", owner);
    sc_emit_cuda_spans(&body, set->plan, a);
    sc_scope_text(&body, "q_norm_w", sc_cuda_weight_at(set, a->q_norm));
    sc_scope_text(&body, "k_norm_w", sc_cuda_weight_at(set, a->k_norm));
    const bool keeps = a->k.value >= 0;
    sc_scope_flag(&body, "latent", a->latent);
    sc_scope_flag(&body, "expanded", !a->latent);
    sc_scope_flag(&body, "keeps", keeps);
    sc_scope_flag(&body, "offloading", set->plan->options.offloading); /* names source within */
    sc_scope_text(
        &body, "source",
        keeps ? "layer"
              : sc_pool_printf(set->top->pool, "%s_place[layer].source", set->plan->options.name));
    sc_scope_flag(&body, "sinks", a->sinks != NULL);
    if (a->sinks)
        sc_scope_text(&body, "sinks_w", sc_cuda_weight_at(set, a->sinks));
    if (body.rc)
        set->top->rc = body.rc;
}

static void emit_index(const sc_cuda_set *set, sc_scope *item, int owner) {
    sc_scope body = sc_scope_item(item, "index");
    sc_scope_number(&body, "index_id", owner);
    if (body.rc)
        set->top->rc = body.rc;
}

/* ---- experts ---- */

/* One of an expert's two linears: a choice is a row and one of its experts. */
static void add_expert_linear(sc_cuda_set *set, sc_scope *mixture, const char *name,
                              const sc_experts *e, bool up) {
    sc_pool *pool = set->top->pool;
    const sc_linear l = { .in = up ? e->hidden : e->ffn,
                          .out = up ? e->ffn : e->hidden,
                          .bias = up ? e->gate_up_bias : e->down_bias,
                          .gated = up && !e->plain,
                          .act = up ? e->act : SC_ACT_NONE,
                          .scale = 1 };
    const bool floats = !up || is_single(set);
    char alpha[SC_FLOAT_LITERAL], limit[SC_FLOAT_LITERAL];
    sc_scope s = sc_scope_item(mixture, "expert_linears");
    emit_kernel(set, &s, sc_pool_printf(pool, "%s_%s", name, up ? "up" : "down"), &l, NULL, true);
    if (up && e->limit > 0)
        sc_scope_text(&s, "made",
                      sc_pool_printf(pool, "limited_gate(total, total_up, %s, %s)",
                                     sc_float_literal(alpha, e->alpha),
                                     sc_float_literal(limit, e->limit)));
    sc_scope_flag(&s, "weighed", up && e->weigh_input);
    sc_scope_text(&s, "what",
                  !up        ? "down of each choice"
                  : e->plain ? "act(up) of each choice"
                             : "act(gate) * up of each choice");
    sc_scope_text(&s, "choice_row",
                  up ? sc_pool_printf(pool, "choice / %lld", (long long)e->top_k) : "choice");
    sc_scope_flag(&s, "scattered", false);
    sc_scope_text(&s, "x_row", up ? with_suffix(set, e->x, "_DEPTH") : "EXPERT_DEPTH");
    sc_scope_text(&s, "y_ctype", floats ? "float" : "operand");
    sc_scope_text(&s, "y_from", floats ? "" : "operand_of");
    sc_scope_text(&s, "y_row", up ? "EXPERT_DEPTH" : "EXPERT_Y_STRIDE");
    sc_scope_flag(&s, "twin", false);
    if (s.rc)
        set->top->rc = s.rc;
}

static void new_mixture(sc_cuda_set *set, const char *name, const sc_experts *e) {
    sc_scope s = sc_scope_item(set->top, "mixture_kernels");
    sc_scope_text(&s, "mixture", name);
    sc_scope_number(&s, "experts", e->experts);
    sc_scope_number(&s, "top_k", e->top_k);
    sc_scope_number(&s, "hidden", e->hidden);
    sc_scope_flag(&s, "weigh_input", e->weigh_input);
    sc_scope_flag(&s, "adds", e->add);
    set->limits |= e->limit > 0;
    sc_scope_text(&s, "x_at", operands_at(set, e->x));
    sc_scope_text(&s, "x_row", with_suffix(set, e->x, "_DEPTH"));
    sc_scope_text(&s, "route_at", sc_cuda_floats_at(set, e->route));
    sc_scope_text(&s, "route_row", with_suffix(set, e->route, "_STRIDE"));
    sc_scope_flag(&s, "decode_linears", sc_cuda_decodes(set->plan));
    sc_cuda_target(set, &s, e->out);
    add_expert_linear(set, &s, name, e, true);
    add_expert_linear(set, &s, name, e, false);
    if (s.rc)
        set->top->rc = s.rc;
}

static void emit_experts(sc_cuda_set *set, sc_scope *item, const sc_op *op) {
    bool is_new;
    const char *text = sc_op_text(set->top->pool, set->plan->graph, op);
    const char *name = sc_cuda_kernel_name(set, "experts", text, &is_new);
    if (is_new)
        new_mixture(set, name, &op->experts);
    sc_scope body = sc_scope_item(item, "experts");
    sc_scope_text(&body, "fn", name);
    sc_scope_text(&body, "gate_up_w", sc_cuda_weight_at(set, op->experts.gate_up));
    sc_scope_text(&body, "down_w", sc_cuda_weight_at(set, op->experts.down));
    sc_scope_text(&body, "gate_up_bias_w", sc_cuda_weight_at(set, op->experts.gate_up_bias));
    sc_scope_text(&body, "down_bias_w", sc_cuda_weight_at(set, op->experts.down_bias));
    if (body.rc)
        set->top->rc = body.rc;
}

/* ---- lists ---- */

/* Attention and indexers have a kernel where the processor has a function. */
static int owner_of(const sc_cuda_set *set, int layer, const sc_op *op) {
    const char *layers;
    const int owner = sc_op_owner(set->top->pool, set->plan, set->kinds, layer, op, &layers);
    if (owner < 0)
        set->top->rc = SC_EENV;
    return owner;
}

void sc_cuda_list(sc_cuda_set *set, sc_scope *scope, const char *name, const sc_op_list *list,
                  int layer) {
    const sc_graph *g = set->plan->graph;
    set->weights = list == &g->first || list == &g->last ? "p->d->block" : "w";
    for (int i = 0; i < list->ops && !set->top->rc;) {
        const row_chain chain = chain_from(list, i); /* empty, of another operation */
        const bool folded =
            chain.end == i + 1 && chain.end < list->ops && sc_plan_folded(g, list, chain.end);
        const sc_op *op = &list->op[folded ? chain.end : i];
        sc_scope item = sc_emit_op_item(scope, name, op->kind);
        if (op->kind == SC_OP_ROW)
            emit_rows(set, &item, &chain);
        else if (op->kind == SC_OP_LINEAR)
            emit_linear(set, &item, op, folded ? &chain : NULL);
        else if (op->kind == SC_OP_ATTENTION)
            emit_attention(set, &item, &op->attention, owner_of(set, layer, op));
        else if (op->kind == SC_OP_INDEX)
            emit_index(set, &item, owner_of(set, layer, op));
        else if (op->kind == SC_OP_CONV)
            sc_cuda_conv(set, &item, op);
        else if (op->kind == SC_OP_STATE_SPACE)
            sc_cuda_state_space(set, &item, op);
        else if (op->kind == SC_OP_DELTA_RULE)
            sc_cuda_delta_rule(set, &item, op);
        else
            emit_experts(set, &item, op);
        i = op->kind == SC_OP_ROW ? chain.end : folded ? chain.end + 1 : i + 1;
        if (item.rc)
            set->top->rc = item.rc;
    }
}

/* Buffers' rows as constants. */
static void emit_values(sc_cuda_set *set) {
    const sc_graph *g = set->plan->graph;
    for (int i = 0; i < g->values; i++) {
        const sc_device_value *v = &set->plan->device.value[i];
        const sc_span span = { .value = i };
        sc_scope s = sc_scope_item(set->top, "device_values");
        sc_scope_text(&s, "macro", macro_of(set, span));
        sc_scope_flag(&s, "floats", writes_floats(set, span));
        sc_scope_flag(&s, "operands", v->operands);
        sc_scope_number(&s, "stride", v->stride);
        sc_scope_number(&s, "depth", v->depth);
        if (s.rc)
            set->top->rc = s.rc;
    }
    const sc_span x = g->embedded;
    sc_scope_text(set->top, "embed_at", sc_cuda_floats_at(set, x));
    sc_scope_text(set->top, "embed_row", with_suffix(set, x, "_STRIDE"));
    sc_scope_flag(set->top, "embed_twin", has_twin(set, x));
    if (has_twin(set, x)) {
        sc_scope_text(set->top, "embed_twin_at", operands_at(set, x));
        sc_scope_text(set->top, "embed_twin_row", with_suffix(set, x, "_DEPTH"));
    }
    sc_scope_number(set->top, "expert_y_stride", set->plan->device.value[x.value].stride);
}

void sc_cuda_end(sc_cuda_set *set) {
    const sc_graph *g = set->plan->graph;
    emit_values(set);
    emit_head(set);
    sc_scope_flag(set->top, "begins", g->first.ops > 0);
    bool caps = g->logits_softcap > 0;
    for (int i = 0; i < g->layers; i++)
        caps |= sc_layer_attention(g, i) && sc_layer_attention(g, i)->softcap > 0;
    for (int i = 1; i < SC_ACTS; i++)
        sc_scope_flag(set->top, sc_pool_printf(set->top->pool, "acts_%s", act_names[i]),
                      set->act[i]);
    sc_scope_flag(set->top, "caps", caps);
    sc_scope_flag(set->top, "scattered", set->scattered);
    sc_scope_flag(set->top, "limits", set->limits);
}
