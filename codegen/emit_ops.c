/* emit_ops.c - see emit_ops.h. */
#include "emit_ops.h"

#include <string.h>

#include "template.h"

int sc_emit_begin(sc_op_set *set, sc_error *err) {
    static const char *const lists[] = { "first_ops",    "last_ops",    "linears",
                                         "attentions",   "mixtures",    "convs",
                                         "state_spaces", "delta_rules", "indexes" };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        sc_scope_flag(set->top, lists[i], false);
    set->fresh =
        sc_pool_alloc(set->top->pool, (size_t)set->plan->graph->values, sizeof *set->fresh);
    return set->fresh ? SC_OK : sc_oom(err, "filling templates");
}

static const sc_value *value_of(const sc_op_set *set, sc_span span) {
    return &set->plan->graph->value[span.value];
}

/* Whether its operands lie beside it: floats are none, and both are wanted. */
static bool has_twin(const sc_op_set *set, sc_span span) {
    const sc_value *v = value_of(set, span);
    return set->plan->pairs && v->floats && v->operand;
}

/* Where a linear finds the value. */
static const char *operand_field(const sc_op_set *set, sc_span span) {
    const sc_value *v = value_of(set, span);
    return has_twin(set, span) ? sc_pool_printf(set->top->pool, "%s_operands", v->name) : v->name;
}

static const char *stride_of(const sc_op_set *set, sc_span span) {
    return sc_pool_printf(set->top->pool, "%s_STRIDE",
                          sc_macro(set->top->pool, value_of(set, span)->name));
}

/* " + 64", "" for the value's beginning. */
static const char *offset_text(const sc_op_set *set, sc_span span) {
    sc_pool *pool = set->top->pool;
    const char *text = span.at ? sc_pool_printf(pool, " + %lld", (long long)span.at) : "";
    if (span.step && text)
        text = sc_pool_printf(pool, "%s + layer * %lld", text, (long long)span.step);
    return text ? text : "";
}

static const char *row_of(const sc_op_set *set, const char *field, sc_span span) {
    sc_pool *pool = set->top->pool;
    const char *text = sc_pool_printf(pool, "m->%s + row * %s", field, stride_of(set, span));
    return text ? sc_pool_printf(pool, "%s%s", text, offset_text(set, span)) : NULL;
}

const char *sc_row_of(const sc_op_set *set, sc_span span) {
    return row_of(set, value_of(set, span)->name, span);
}

/* ---- items ---- */

static const char *const op_names[] = {
    [SC_OP_ROW] = "rows",
    [SC_OP_LINEAR] = "linear",
    [SC_OP_ATTENTION] = "attention",
    [SC_OP_EXPERTS] = "experts",
    [SC_OP_CONV] = "conv",
    [SC_OP_STATE_SPACE] = "state_space",
    [SC_OP_DELTA_RULE] = "delta_rule",
    [SC_OP_INDEX] = "index",
};

sc_scope sc_emit_op_item(sc_scope *scope, const char *list, sc_op_kind kind) {
    sc_scope item = sc_scope_item(scope, list);
    for (int i = 0; i < (int)(sizeof op_names / sizeof *op_names); i++)
        if (i != (int)kind)
            sc_scope_flag(&item, op_names[i], false);
    return item;
}

sc_scope sc_emit_function(sc_op_set *set, const char *list) {
    sc_scope s = sc_scope_item(set->top, list);
    sc_scope_number(&s, "id", set->owner);
    sc_scope_text(&s, "layer_list", set->layers);
    return s;
}

/* ---- rows ---- */

/* What each function is given, letter by letter: a, b, o the rows that are read and written, w, W
 * the weights, 0 … 5 the counts, f, g the factors, p the token's position, i its id, t the
 * activation, r the rope. */
static const struct {
    const char *function, *arguments;
} row_functions[SC_ROWS] = {
    [SC_ROW_RMS_NORM] = { "rms_norm", "aw012fo" },
    [SC_ROW_LAYER_NORM] = { "layer_norm", "awW012fo" },
    [SC_ROW_ADD] = { "add", "afbg0o" },
    [SC_ROW_ROPE_PAIRS] = { "rope_pairs", "a01ro" },
    [SC_ROW_ROPE] = { "rope", "a0123ro" },
    [SC_ROW_ROUTE] = { "route", "awW012345fo" },
    [SC_ROW_POSITION] = { "add_position", "awp10o" },
    [SC_ROW_MULTIPLY] = { "multiply", "ab0o" },
    [SC_ROW_TIMES] = { "times", "af0o" },
    [SC_ROW_SILU_GATE] = { "silu_gate", "ab0o" },
    [SC_ROW_SIGMOID_GATE] = { "sigmoid_gate", "ab01o" },
    [SC_ROW_SCALE] = { "scale", "aw01o" },
    [SC_ROW_LOOKUP] = { "lookup", "afwgi10o" },
    [SC_ROW_TANH] = { "tanh_row", "a0o" },
    [SC_ROW_MAGNITUDE] = { "match_magnitude", "abf0o" },
    [SC_ROW_PREDICT] = { "predict", "ab01o" },
    [SC_ROW_CORRECT] = { "correct", "ab01o" },
    [SC_ROW_SPARSE_GATE] = { "sparse_gate", "abft0o" },
    [SC_ROW_TEMPERATURE] = { "temperature", "ap1f0o" },
};

static const char *weight_text(const sc_op_set *set, const sc_weight *w) {
    return w ? sc_pool_printf(set->top->pool, "%s->%s", set->weights, w->field) : "NULL";
}

const char *sc_act_name(sc_activation act) {
    static const char *const names[SC_ACTS] = { "",         "vec_silu", "vec_gelu", "vec_gelu_tanh",
                                                "vec_relu", "vec_relu2" };
    return names[act];
}

static const char *row_argument(const sc_op_set *set, const sc_row_op *op, char letter) {
    sc_pool *pool = set->top->pool;
    char number[SC_FLOAT_LITERAL];
    switch (letter) {
    case 'a':
        return sc_row_of(set, op->a);
    case 'b':
        return sc_row_of(set, op->b);
    case 'o':
        return sc_row_of(set, op->out);
    case 'w':
        return weight_text(set, op->w);
    case 'W':
        return weight_text(set, op->w2);
    case 'f':
    case 'g':
        return sc_pool_strdup(pool, sc_float_literal(number, op->f[letter == 'g']));
    case 'p':
        return "position(s, row)";
    case 'i':
        return "token_of(s, row)";
    case 't':
        return sc_act_name(op->act);
    case 'r':
        return sc_pool_printf(pool,
                              "m->cos%d + row * ROPE%d_PAIRS, m->sin%d + row * ROPE%d_PAIRS, "
                              "ROPE%d_PAIRS",
                              op->rope, op->rope, op->rope, op->rope, op->rope);
    default:
        return sc_pool_printf(pool, "%lld", (long long)op->n[letter - '0']);
    }
}

static void add_call(const sc_op_set *set, sc_scope *rows, const char *text) {
    sc_scope call = sc_scope_item(rows, "calls");
    sc_scope_text(&call, "call", text);
    if (call.rc)
        set->top->rc = call.rc;
}

/* The value's operands become those of its floats. */
static void add_operands(sc_op_set *set, sc_scope *rows, sc_span span, int64_t width) {
    add_call(set, rows,
             sc_pool_printf(set->top->pool, "operands(%s, %lld,\n                 %s)",
                            sc_row_of(set, span), (long long)width,
                            row_of(set, operand_field(set, span), span)));
    set->fresh[span.value] = true;
}

static int64_t row_width(const sc_row_op *op) {
    const bool runs = op->kind == SC_ROW_RMS_NORM || op->kind == SC_ROW_LAYER_NORM ||
                      op->kind == SC_ROW_ROPE_PAIRS;
    return runs ? op->n[0] * op->n[1] : op->n[0];
}

/* function(arguments, broken behind a comma where the line is full. */
static const char *call_text(const sc_op_set *set, const sc_row_op *op) {
    enum { LAST_COLUMN = 86, INDENT = 8 };
    sc_pool *pool = set->top->pool;
    const char *text = sc_pool_printf(pool, "%s(", row_functions[op->kind].function);
    size_t column = INDENT + strlen(text ? text : "");
    const size_t open = column;
    for (const char *c = row_functions[op->kind].arguments; *c && text; c++) {
        const char *argument = row_argument(set, op, *c);
        const size_t n = strlen(argument ? argument : "");
        const bool breaks = column + n > LAST_COLUMN && column > open;
        text = !argument ? NULL
               : breaks  ? sc_pool_printf(pool, "%s\n%*s%s%s", text, (int)open, "", argument,
                                         c[1] ? "," : ")")
                        : sc_pool_printf(pool, "%s%s%s%s", text, column > open ? " " : "", argument,
                                         c[1] ? "," : ")");
        column = (breaks ? open : column) + n + 2;
    }
    return text;
}

/* Operations of rows, one behind the other, from op i on; returns the next that is none. */
static int emit_rows(sc_op_set *set, sc_scope *item, const sc_op_list *list, int i) {
    sc_scope rows = sc_scope_item(item, "rows");
    for (; i < list->ops && list->op[i].kind == SC_OP_ROW; i++) {
        const sc_row_op *op = &list->op[i].row;
        set->used[op->kind] = true;
        add_call(set, &rows, call_text(set, op));
        if (has_twin(set, op->out))
            add_operands(set, &rows, op->out, row_width(op));
    }
    if (rows.rc)
        set->top->rc = rows.rc;
    return i;
}

/* ---- linears ---- */

/* What is stored of one half of a panel's sums. */
static const char *sum_text(const sc_op_set *set, const sc_linear *l) {
    sc_pool *pool = set->top->pool;
    char scale[SC_FLOAT_LITERAL];
    const bool scaled = l->scale < 1 || l->scale > 1;
    if (l->gated && scaled)
        return sc_pool_printf(pool, "%s(sum[0] * vec_set(%s)) * sum[1]", sc_act_name(l->act),
                              sc_float_literal(scale, l->scale));
    if (l->gated)
        return sc_pool_printf(pool, "%s(sum[0]) * sum[1]", sc_act_name(l->act));
    const char *text = "sum[half]";
    if (l->act)
        text = sc_pool_printf(pool, "%s(%s)", sc_act_name(l->act), text);
    if (scaled && text)
        text = sc_pool_printf(pool, "%s * vec_set(%s)", text, sc_float_literal(scale, l->scale));
    return l->add && text ? sc_pool_printf(pool, "%s + vec_load(y)", text) : text;
}

/* Where a linear finds its weights. */
static const char *weights_type(const sc_op_set *set) {
    return sc_pool_printf(set->top->pool, "%s%s", set->plan->options.name,
                          strcmp(set->weights, "w") ? "_weights" : "_layer_weights");
}

static const char *linear_what(const sc_op_set *set, const sc_linear *l) {
    const char *const what[] = { l->w->field, "q_proj, k_proj and v_proj in one",
                                 "act(gate_proj) * up_proj" };
    const char *name = what[l->gated ? 2 : !strcmp(l->w->field, "qkv_proj")];
    return l->add ? sc_pool_printf(set->top->pool, "%s, added to the residual stream", name) : name;
}

static void new_linear(sc_op_set *set, const sc_linear *l, const char *name) {
    sc_pool *pool = set->top->pool;
    const sc_plan *plan = set->plan;
    const int64_t lanes = plan->panel / 2, unit = l->gated ? lanes : plan->panel;
    const sc_value *y = value_of(set, l->y);
    const bool operands = y->operand && !y->floats;
    set->stores |= operands;
    sc_scope s = sc_scope_item(set->top, "linears");
    sc_scope_text(&s, "fn", name);
    sc_scope_text(&s, "fn_pad", sc_blanks(pool, name));
    sc_scope_text(&s, "field", l->w->field);
    sc_scope_text(&s, "bias_field", l->bias ? l->bias->field : "");
    const char *x = operand_field(set, l->x);
    sc_scope_text(&s, "x", sc_pool_printf(pool, "%s%s", x, offset_text(set, l->x)));
    sc_scope_text(&s, "weights_type", weights_type(set));
    sc_scope_flag(&s, "layered", l->x.step || l->y.step);
    sc_scope_text(&s, "x_stride", stride_of(set, l->x));
    sc_scope_text(&s, "y", y->name);
    sc_scope_text(&s, "y_at", offset_text(set, l->y));
    sc_scope_text(&s, "y_stride", stride_of(set, l->y));
    sc_scope_text(&s, "what", linear_what(set, l));
    sc_scope_number(&s, "in", l->in);
    sc_scope_number(&s, "depth", plan->pairs ? (l->in + 1) / 2 * 2 : l->in);
    sc_scope_number(&s, "out", l->out);
    sc_scope_number(&s, "panels", (l->out + unit - 1) / unit * l->w->blocks);
    sc_scope_number(&s, "blocks", l->w->blocks);
    sc_scope_flag(&s, "blocked", l->w->blocks > 1);
    sc_scope_flag(&s, "whole", l->w->blocks == 1);
    sc_scope_number(&s, "x_step", l->x_step);
    sc_scope_number(&s, "y_step", l->y_step);
    sc_scope_number(&s, "panel", plan->panel);
    sc_scope_number(&s, "half", lanes);
    sc_scope_flag(&s, "bias", l->bias != NULL);
    sc_scope_flag(&s, "gated", l->gated);
    sc_scope_flag(&s, "plain", !l->gated && l->w->blocks == 1);
    sc_scope_text(&s, "y_ctype", operands ? "operand" : "float");
    sc_scope_text(&s, "y_store", operands ? "store_operand" : "vec_store");
    sc_scope_text(&s, "sum", sum_text(set, l));
    sc_scope_flag(&s, "add", l->add);
    if (s.rc)
        set->top->rc = s.rc;
}

/* The name of the linear's function: qkv_proj0, qkv_proj1, … in order of first use. */
static const char *linear_name(sc_op_set *set, const sc_op *op) {
    const sc_linear *l = &op->linear;
    sc_pool *pool = set->top->pool;
    const char *text = sc_op_text(pool, set->plan->graph, op);
    if (strcmp(set->weights, "w") && text)
        text = sc_pool_printf(pool, "%s, of no layer", text);
    int number = 0;
    for (int i = 0; i < set->linears && text; i++) {
        if (!strcmp(set->linear[i].text, text))
            return set->linear[i].name;
        number += !strcmp(set->linear[i].field, l->w->field);
    }
    const char *name = sc_pool_printf(pool, "%s%d", l->w->field, number);
    if (!text || !name || set->linears == SC_MOST_LINEARS) {
        set->top->rc = text && name ? SC_EINPUT : SC_EENV;
        return NULL;
    }
    set->linear[set->linears].text = text;
    set->linear[set->linears].field = l->w->field;
    set->linear[set->linears++].name = name;
    new_linear(set, l, name);
    return name;
}

static void emit_linear(sc_op_set *set, sc_scope *item, const sc_op *op) {
    sc_scope body = sc_scope_item(item, "linear");
    sc_scope_text(&body, "fn", linear_name(set, op));
    sc_scope_text(&body, "weights", set->weights);
    sc_scope_flag(&body, "layered", op->linear.x.step || op->linear.y.step);
    if (body.rc)
        set->top->rc = body.rc;
}

/* ---- attention ---- */

static void emit_span(const sc_op_set *set, sc_scope *s, const char *what, sc_span span) {
    sc_pool *pool = set->top->pool;
    if (span.value < 0)
        return;
    sc_scope_text(s, sc_pool_printf(pool, "%s_from", what),
                  sc_pool_printf(pool, "s->model->%s + row * %s + %lld", value_of(set, span)->name,
                                 stride_of(set, span), (long long)span.at));
}

static void emit_slopes(const sc_op_set *set, sc_scope *s, const sc_attention *a) {
    const char *text = "";
    char number[SC_FLOAT_LITERAL];
    sc_scope_flag(s, "alibi", a->alibi != NULL);
    for (int64_t i = 0; i < a->heads && a->alibi && text; i++)
        text = sc_pool_printf(set->top->pool, "%s%s%s", text,
                              !i      ? ""
                              : i % 4 ? ", "
                                      : ",\n    ",
                              sc_float_literal(number, a->alibi[i]));
    if (a->alibi)
        sc_scope_text(s, "slopes", text);
}

static const sc_index *index_of(const sc_graph *g, int layer) {
    const sc_op *op = g->layer[layer].op;
    while (op->kind != SC_OP_INDEX)
        op++;
    return &op->index;
}

static void emit_attention(sc_op_set *set, const sc_attention *a, int layer) {
    const sc_plan *plan = set->plan;
    const int shape = plan->layer[plan->config->layer[layer].kv_source].shape;
    const int64_t group = sc_plan_group(a), groups = a->heads / a->kv_heads / group;
    const int64_t tokens = 48 / group > 1 ? 48 / group : 1;
    const sc_value *out = value_of(set, a->out);
    set->head_norms |= a->q_norm || a->k_norm;
    set->rotates |= a->rope >= 0;
    sc_scope s = sc_emit_function(set, "attentions");
    sc_scope_text(&s, "layer_type", sc_layer_type_name(a->type));
    sc_scope_number(&s, "heads", a->heads);
    sc_scope_number(&s, "kv_heads", a->kv_heads);
    sc_scope_number(&s, "group", group);
    sc_scope_number(&s, "groups", groups);
    sc_scope_flag(&s, "latent", a->latent);
    sc_scope_flag(&s, "indexed", a->indexed);
    if (a->indexed)
        sc_scope_number(&s, "top_k", index_of(plan->graph, layer)->top_k);
    sc_scope_flag(&s, "expanded", !a->latent);
    sc_scope_number(&s, "tokens", tokens);
    sc_scope_number(&s, "queries", tokens * group);
    sc_scope_number(&s, "shape", shape);
    sc_scope_number(&s, "window", a->window);
    sc_scope_flag(&s, "limited", a->window > 0);
    sc_scope_flag(&s, "windowed", a->window > 0 && !a->chunked);
    sc_scope_flag(&s, "chunked", a->chunked);
    sc_scope_flag(&s, "sinks", a->sinks != NULL);
    sc_scope_flag(&s, "softcapped", a->softcap > 0);
    sc_scope_real(&s, "softcap", a->softcap);
    emit_slopes(set, &s, a);
    sc_scope_flag(&s, "kv_floats", plan->options.kv_dtype == SC_F32);
    sc_scope_flag(&s, "ring", plan->shape[shape].evicted > 0);
    sc_scope_flag(&s, "q_norm", a->q_norm != NULL);
    sc_scope_flag(&s, "k_norm", a->k_norm != NULL);
    sc_scope_text(&s, "q_norm_field", a->q_norm ? a->q_norm->field : "");
    sc_scope_text(&s, "k_norm_field", a->k_norm ? a->k_norm->field : "");
    sc_scope_real(&s, "norm_eps", a->norm_eps);
    sc_scope_real(&s, "scale", a->scale);
    sc_scope_flag(&s, "roped", a->rope >= 0);
    sc_scope_number(&s, "rope", a->rope);
    emit_span(set, &s, "q", a->q);
    if (a->latent)
        emit_span(set, &s, "q_rope", a->q_rope);
    emit_span(set, &s, "k", a->k);
    emit_span(set, &s, "v", a->v);
    sc_scope_text(&s, "out", out->name);
    sc_scope_text(&s, "out_stride", stride_of(set, a->out));
    sc_scope_text(&s, "out_ctype", out->floats ? "float" : "operand");
    sc_scope_text(&s, "out_from", out->floats || !plan->pairs ? "" : "sc_to_bf16");
    sc_scope_flag(&s, "keeps", a->k.value >= 0);
    if (plan->options.cuda)
        sc_emit_cuda_attention(&s, plan, a, shape);
    if (s.rc)
        set->top->rc = s.rc;
}

/* ---- experts ---- */

static void emit_experts(sc_op_set *set, const sc_experts *e) {
    const sc_plan *plan = set->plan;
    const int64_t lanes = plan->panel / 2, panel = plan->panel;
    const bool pairs = plan->pairs;
    set->stores = true;
    sc_scope s = sc_emit_function(set, "mixtures");
    sc_scope_number(&s, "experts", e->experts);
    sc_scope_number(&s, "top_k", e->top_k);
    sc_scope_flag(&s, "limited", e->limit > 0);
    sc_scope_real(&s, "alpha", e->alpha);
    sc_scope_real(&s, "limit", e->limit);
    sc_scope_text(&s, "gated",
                  e->limit > 0
                      ? sc_pool_printf(set->top->pool, "expert_gate%d(gate, up)", set->owner)
                      : sc_pool_printf(set->top->pool, "%s(gate) * up", sc_act_name(e->act)));
    sc_scope_flag(&s, "plain", e->plain);
    sc_scope_text(&s, "act", sc_act_name(e->act));
    sc_scope_text(&s, "up_field", e->gate_up->field);
    sc_scope_number(&s, "width", e->hidden);
    sc_scope_flag(&s, "bias", e->gate_up_bias != NULL);
    sc_scope_flag(&s, "weigh_input", e->weigh_input);
    sc_scope_flag(&s, "add", e->add);
    sc_scope_text(&s, "x", e->weigh_input ? value_of(set, e->x)->name : operand_field(set, e->x));
    sc_scope_text(&s, "x_stride", stride_of(set, e->x));
    sc_scope_text(&s, "route", value_of(set, e->route)->name);
    sc_scope_text(&s, "route_stride", stride_of(set, e->route));
    sc_scope_text(&s, "out", value_of(set, e->out)->name);
    sc_scope_text(&s, "out_stride", stride_of(set, e->out));
    const int64_t unit = e->plain ? panel : lanes; /* outputs of a panel */
    sc_scope_number(&s, "up_panels", (e->ffn + unit - 1) / unit);
    sc_scope_number(&s, "up_depth", pairs ? (e->hidden + 1) / 2 * 2 : e->hidden);
    sc_scope_number(&s, "down_panels", (e->hidden + panel - 1) / panel);
    sc_scope_number(&s, "down_depth", pairs ? (e->ffn + 1) / 2 * 2 : e->ffn);
    if (s.rc)
        set->top->rc = s.rc;
}

/* ---- indexes ---- */

static void emit_index(sc_op_set *set, const sc_index *x, int layer) {
    set->rounds = true;
    sc_scope s = sc_emit_function(set, "indexes");
    sc_scope_number(&s, "heads", x->heads);
    sc_scope_number(&s, "dim", x->dim);
    sc_scope_number(&s, "top_k", x->top_k);
    sc_scope_number(&s, "shape", set->plan->layer[layer].shape);
    sc_scope_text(&s, "q", sc_row_of(set, x->q));
    sc_scope_text(&s, "k", sc_row_of(set, x->k));
    sc_scope_text(&s, "weights", sc_row_of(set, x->weights));
    if (set->plan->options.cuda)
        sc_emit_cuda_index(&s, set->plan, x);
    if (s.rc)
        set->top->rc = s.rc;
}

/* ---- lists ---- */

/* Before a linear reads what a linear, or the embedding, has left as floats. */
static void refresh(sc_op_set *set, sc_scope *scope, const char *name, sc_span span) {
    if (!has_twin(set, span) || set->fresh[span.value])
        return;
    sc_scope item = sc_emit_op_item(scope, name, SC_OP_ROW);
    sc_scope rows = sc_scope_item(&item, "rows");
    add_operands(set, &rows, (sc_span){ .value = span.value }, value_of(set, span)->width);
    if (item.rc || rows.rc)
        set->top->rc = SC_EENV;
}

/* The value that an operation writes anew; -1: none, or rows, which keep its operands themselves.
 */
static int written(const sc_op *op) {
    switch (op->kind) {
    case SC_OP_LINEAR:
        return op->linear.y.value;
    case SC_OP_ATTENTION:
        return op->attention.out.value;
    case SC_OP_EXPERTS:
        return op->experts.out.value;
    case SC_OP_CONV:
        return op->conv.y.value;
    case SC_OP_STATE_SPACE:
        return op->state_space.y.value;
    case SC_OP_DELTA_RULE:
        return op->delta_rule.y.value;
    case SC_OP_ROW:
    case SC_OP_INDEX:
        break;
    }
    return -1;
}

/* What an operation's function is made of. */
static void emit_function(sc_op_set *set, const sc_op *op, int layer) {
    if (op->kind == SC_OP_ATTENTION)
        emit_attention(set, &op->attention, layer);
    else if (op->kind == SC_OP_EXPERTS)
        emit_experts(set, &op->experts);
    else if (op->kind == SC_OP_CONV)
        sc_emit_conv(set, &op->conv);
    else if (op->kind == SC_OP_INDEX)
        emit_index(set, &op->index, layer);
    else if (op->kind == SC_OP_DELTA_RULE)
        sc_emit_delta_rule(set, &op->delta_rule);
    else
        sc_emit_state_space(set, &op->state_space);
}

/* Its call, which needs no more than NAME_id, and of attention whose cache. */
static void emit_call(sc_op_set *set, sc_scope *item, const sc_op *op) {
    sc_pool *pool = set->top->pool;
    const char *name = op_names[op->kind];
    sc_scope body = sc_scope_item(item, name);
    sc_scope_number(&body, sc_pool_printf(pool, "%s_id", name), set->owner);
    if (op->kind == SC_OP_ATTENTION) {
        const bool keeps = op->attention.k.value >= 0;
        sc_scope_flag(&body, "keeps", keeps);
        sc_scope_text(
            &body, "source",
            keeps ? "layer"
                  : sc_pool_printf(pool, "%s_place[layer].source", set->plan->options.name));
        sc_scope_flag(&body, "offloading", set->plan->options.offloading); /* names source within */
    }
    if (body.rc)
        set->top->rc = body.rc;
}

static void emit_op(sc_op_set *set, sc_scope *item, const sc_op *op, int layer) {
    if (op->kind == SC_OP_LINEAR)
        emit_linear(set, item, op);
    else {
        set->owner = sc_op_owner(set->top->pool, set->plan, set->kinds, layer, op, &set->layers);
        if (set->owner < 0)
            set->top->rc = SC_EENV;
        else if (set->owner == set->kind)
            emit_function(set, op, layer);
        emit_call(set, item, op);
    }
    if (written(op) >= 0)
        set->fresh[written(op)] = false;
}

void sc_emit_list(sc_op_set *set, sc_scope *scope, const char *name, const sc_op_list *list,
                  int layer) {
    const sc_graph *g = set->plan->graph;
    set->weights = layer < 0 ? "s->weights" : "w";
    memset(set->fresh, 0, (size_t)g->values * sizeof *set->fresh);
    for (int i = 0; i < list->ops && !set->top->rc;) {
        const sc_op *op = &list->op[i];
        if (op->kind == SC_OP_LINEAR)
            refresh(set, scope, name, op->linear.x);
        else if (op->kind == SC_OP_EXPERTS && !op->experts.weigh_input)
            refresh(set, scope, name, op->experts.x);
        sc_scope item = sc_emit_op_item(scope, name, op->kind);
        if (op->kind == SC_OP_ROW)
            i = emit_rows(set, &item, list, i);
        else {
            emit_op(set, &item, op, layer);
            i++;
        }
        if (item.rc)
            set->top->rc = item.rc;
    }
    if (list == &g->last)
        refresh(set, scope, name, g->head_in);
}

void sc_emit_end(sc_op_set *set) {
    for (int i = 0; i < SC_ROWS; i++)
        sc_scope_flag(set->top,
                      sc_pool_printf(set->top->pool, "uses_%s", row_functions[i].function),
                      set->used[i]);
    const bool positions = set->used[SC_ROW_POSITION] || set->used[SC_ROW_TEMPERATURE];
    sc_scope_flag(set->top, "uses_position", positions);
    sc_scope_flag(set->top, "uses_most", positions || set->plan->attention_dim > 0);
    sc_scope_flag(set->top, "uses_token", set->used[SC_ROW_LOOKUP]);
    sc_scope_flag(set->top, "uses_norm_row", set->head_norms || set->used[SC_ROW_RMS_NORM]);
    sc_scope_flag(set->top, "uses_rotate", set->rotates);
    sc_scope_flag(set->top, "uses_weight_of", set->rounds);
    sc_scope_flag(set->top, "uses_store", set->stores || set->plan->pairs);
    sc_scope_flag(set->top, "uses_softplus", set->uses_softplus);
}
