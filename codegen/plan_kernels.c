/* plan_kernels.c - which operations have kernels for devices, and which become one; see plan.h. */
#include <string.h>

#include "plan.h"

/* ---- what has a kernel ---- */

static bool is_between(int64_t n, int64_t most) { return n >= 0 && n <= most; }

static const bool has_row_kernel[SC_ROWS] = {
    [SC_ROW_RMS_NORM] = true,    [SC_ROW_LAYER_NORM] = true,  [SC_ROW_ADD] = true,
    [SC_ROW_ROPE_PAIRS] = true,  [SC_ROW_ROPE] = true,        [SC_ROW_ROUTE] = true,
    [SC_ROW_POSITION] = true,    [SC_ROW_TEMPERATURE] = true, [SC_ROW_MULTIPLY] = true,
    [SC_ROW_TIMES] = true,       [SC_ROW_SILU_GATE] = true,   [SC_ROW_SIGMOID_GATE] = true,
    [SC_ROW_SCALE] = true,       [SC_ROW_LOOKUP] = true,      [SC_ROW_TANH] = true,
    [SC_ROW_MAGNITUDE] = true,   [SC_ROW_PREDICT] = true,     [SC_ROW_CORRECT] = true,
    [SC_ROW_SPARSE_GATE] = true,
};

/* A warp knows of each lane's group of experts whether it is among the best. Rows that rope leaves
 * as they are have no operands to be left so. */
static bool has_row(const sc_graph *g, const sc_row_op *r) {
    enum { MOST_GROUPS = 32 };
    if (r->kind == SC_ROW_ROUTE && r->n[4] > MOST_GROUPS)
        return false;
    if (r->kind == SC_ROW_ROPE && r->a.value == r->out.value && g->value[r->out.value].operand)
        return false;
    return has_row_kernel[r->kind];
}

/* Whether a linear writes what it reads. */
static bool is_overlap(const sc_linear *l) {
    const int64_t last = l->w->blocks - 1, in = l->in + last * l->x_step;
    const int64_t out = l->out + last * l->y_step;
    return l->x.value == l->y.value && l->x.at < l->y.at + out && l->y.at < l->x.at + in;
}

/* Of several linears side by side: outputs without a gap, which end as those of one do. */
static bool is_together(const sc_linear *l) {
    return l->w->blocks == 1 || (l->y_step == l->out && !l->bias && !l->gated);
}

/* Of the list's layer: one span for all its layers is what launches know. */
static bool is_fixed(sc_span span) { return !span.step; }

/* Latent attention is that of DeepSeek: one key of all heads, which the whole cache shows; some of
 * its queries fit in shared memory. */
static bool has_attention(const sc_attention *a) {
    enum { MOST_LATENT = 1024 };
    const bool plain = a->kv_heads == 1 && !a->window && a->softcap <= 0 && !a->alibi &&
                       !a->sinks && !a->q_norm && !a->k_norm && a->rope < 0 && a->k.value >= 0;
    return a->latent ? plain && is_fixed(a->q_rope) && a->head_dim + a->v_head_dim <= MOST_LATENT
                     : !a->indexed;
}

/* Whether what is known here of an operation is all there is to it: its text says everything that
 * changes what it computes. */
static bool is_known(sc_pool *pool, const sc_graph *g, const sc_op *op) {
    sc_op known = { .kind = op->kind };
    if (op->kind == SC_OP_ROW) {
        const sc_row_op *r = &op->row;
        if (!has_row(g, r))
            return false;
        known.row = (sc_row_op){ .kind = r->kind,
                                 .a = r->a,
                                 .b = r->b,
                                 .out = r->out,
                                 .w = r->w,
                                 .w2 = r->w2,
                                 .act = r->act,
                                 .rope = r->rope };
        memcpy(known.row.n, r->n, sizeof r->n);
        memcpy(known.row.f, r->f, sizeof r->f);
    } else if (op->kind == SC_OP_LINEAR) {
        const sc_linear *l = &op->linear;
        known.linear = (sc_linear){ .w = l->w,
                                    .bias = l->bias,
                                    .x = l->x,
                                    .y = l->y,
                                    .in = l->in,
                                    .out = l->out,
                                    .x_step = l->x_step,
                                    .y_step = l->y_step,
                                    .gated = l->gated,
                                    .add = l->add,
                                    .act = l->act,
                                    .scale = l->scale };
        if (!is_between((int)l->act, SC_ACT_RELU2) || is_overlap(l) || !is_together(l) ||
            !is_fixed(l->x) || !is_fixed(l->y))
            return false;
    } else if (op->kind == SC_OP_ATTENTION) {
        const sc_attention *a = &op->attention;
        known.attention = (sc_attention){ .type = a->type,
                                          .heads = a->heads,
                                          .kv_heads = a->kv_heads,
                                          .head_dim = a->head_dim,
                                          .v_head_dim = a->v_head_dim,
                                          .window = a->window,
                                          .scale = a->scale,
                                          .softcap = a->softcap,
                                          .q = a->q,
                                          .k = a->k,
                                          .v = a->v,
                                          .out = a->out,
                                          .q_norm = a->q_norm,
                                          .k_norm = a->k_norm,
                                          .norm_eps = a->norm_eps,
                                          .alibi = a->alibi,
                                          .sinks = a->sinks,
                                          .chunked = a->chunked,
                                          .latent = a->latent,
                                          .indexed = a->indexed,
                                          .q_rope = a->q_rope,
                                          .rope = a->rope };
        if (!has_attention(a) || a->q.value < 0 || (a->k.value < 0) != (a->v.value < 0) ||
            a->out.at || !is_fixed(a->q) || !is_fixed(a->k) || !is_fixed(a->v))
            return false;
    } else if (op->kind == SC_OP_EXPERTS) {
        const sc_experts *e = &op->experts;
        known.experts = (sc_experts){ .experts = e->experts,
                                      .top_k = e->top_k,
                                      .hidden = e->hidden,
                                      .ffn = e->ffn,
                                      .act = e->act,
                                      .x = e->x,
                                      .route = e->route,
                                      .out = e->out,
                                      .plain = e->plain,
                                      .gate_up = e->gate_up,
                                      .gate_up_bias = e->gate_up_bias,
                                      .alpha = e->alpha,
                                      .limit = e->limit,
                                      .weigh_input = e->weigh_input,
                                      .down = e->down,
                                      .add = e->add };
        if (!is_between((int)e->act, SC_ACT_RELU2))
            return false;
    } else if (op->kind == SC_OP_CONV) {
        const sc_conv *c = &op->conv;
        known.conv = (sc_conv){ .channels = c->channels,
                                .columns = c->columns,
                                .act = c->act,
                                .x = c->x,
                                .y = c->y,
                                .w = c->w,
                                .bias = c->bias };
        if (!is_between((int)c->act, SC_ACT_RELU2) || !is_fixed(c->x) || !is_fixed(c->y))
            return false;
    } else if (op->kind == SC_OP_STATE_SPACE) {
        const sc_state_space *o = &op->state_space;
        known.state_space = (sc_state_space){ .heads = o->heads,
                                              .head_dim = o->head_dim,
                                              .groups = o->groups,
                                              .state_size = o->state_size,
                                              .dt_least = o->dt_least,
                                              .dt_most = o->dt_most,
                                              .x = o->x,
                                              .dt = o->dt,
                                              .b = o->b,
                                              .c = o->c,
                                              .y = o->y,
                                              .a_log = o->a_log,
                                              .d = o->d,
                                              .dt_bias = o->dt_bias };
        if (!is_fixed(o->x) || !is_fixed(o->dt) || !is_fixed(o->b) || !is_fixed(o->c) ||
            !is_fixed(o->y))
            return false;
    } else if (op->kind == SC_OP_DELTA_RULE) {
        const sc_delta_rule *d = &op->delta_rule;
        known.delta_rule = (sc_delta_rule){ .key_heads = d->key_heads,
                                            .heads = d->heads,
                                            .key_dim = d->key_dim,
                                            .value_dim = d->value_dim,
                                            .q = d->q,
                                            .k = d->k,
                                            .v = d->v,
                                            .y = d->y,
                                            .a = d->a,
                                            .b = d->b,
                                            .a_log = d->a_log,
                                            .dt_bias = d->dt_bias };
        if (!is_fixed(d->q) || !is_fixed(d->k) || !is_fixed(d->v) || !is_fixed(d->y) ||
            !is_fixed(d->a) || !is_fixed(d->b))
            return false;
    } else {                      /* SC_OP_INDEX */
        enum { MOST_DIM = 8192 }; /* floats in shared memory */
        const sc_index *x = &op->index;
        known.index = (sc_index){ .heads = x->heads,
                                  .dim = x->dim,
                                  .top_k = x->top_k,
                                  .q = x->q,
                                  .k = x->k,
                                  .weights = x->weights };
        if (x->dim > MOST_DIM || !is_fixed(x->q) || !is_fixed(x->k) || !is_fixed(x->weights))
            return false;
    }
    const char *all = sc_op_text(pool, g, op), *ours = sc_op_text(pool, g, &known);
    return all && ours && !strcmp(all, ours);
}

/* Experts read operands 16 bytes at a time. */
static bool is_aligned(const sc_op *op) {
    enum { LOAD = 8 };
    return op->kind != SC_OP_EXPERTS || op->experts.x.at % LOAD == 0;
}

/* Whether an operation of rows reads the value as floats. */
static bool is_read_by_rows(const sc_op_list *list, int value) {
    for (int i = 0; i < list->ops; i++)
        if (list->op[i].kind == SC_OP_ROW &&
            (list->op[i].row.a.value == value || list->op[i].row.b.value == value))
            return true;
    return false;
}

/* Attention writes floats where some layer's rows read them, else operands; so those rows are to
 * follow at once, and to write all of it anew. */
static bool is_gated_or_read_by_linears(const sc_graph *g, const sc_op_list *list, int i) {
    const sc_attention *a = &list->op[i].attention;
    bool floats = false;
    for (int layer = 0; layer < g->layers && !floats; layer++)
        floats = is_read_by_rows(&g->layer[layer], a->out.value);
    if (!floats)
        return true;
    const sc_row_op *next =
        i + 1 < list->ops && list->op[i + 1].kind == SC_OP_ROW ? &list->op[i + 1].row : NULL;
    return next && next->kind == SC_ROW_SIGMOID_GATE && next->a.value == a->out.value &&
           next->out.value == a->out.value && next->n[0] == a->heads * a->v_head_dim;
}

static int check_list(const sc_graph *g, sc_pool *pool, const sc_op_list *list, sc_error *err) {
    int attentions = 0;
    for (int i = 0; i < list->ops; i++) {
        const sc_op *op = &list->op[i];
        bool good = is_known(pool, g, op) && is_aligned(op);
        if (good && op->kind == SC_OP_ATTENTION)
            good = !attentions++ && is_gated_or_read_by_linears(g, list, i);
        if (good)
            continue;
        const char *text = sc_op_text(pool, g, op);
        return sc_fail(err, SC_EUSAGE,
                       "--target cuda: %s: \"%s\" has no kernel (take --target cpu)", g->family,
                       text ? text : "an operation");
    }
    return SC_OK;
}

int sc_plan_kernels(const sc_graph *graph, sc_pool *pool, sc_error *err) {
    int rc = check_list(graph, pool, &graph->first, err);
    for (int i = 0; i < graph->layers && !rc; i++)
        rc = check_list(graph, pool, &graph->layer[i], err);
    return rc ? rc : check_list(graph, pool, &graph->last, err);
}

/* ---- what becomes one ---- */

static bool reads(const sc_op *op, int value) {
    switch (op->kind) {
    case SC_OP_ROW:
        return op->row.a.value == value || op->row.b.value == value ||
               (op->row.kind == SC_ROW_CORRECT && op->row.out.value == value);
    case SC_OP_LINEAR:
        return op->linear.x.value == value || (op->linear.add && op->linear.y.value == value);
    case SC_OP_ATTENTION:
        return op->attention.q.value == value || op->attention.k.value == value ||
               op->attention.v.value == value ||
               (op->attention.latent && op->attention.q_rope.value == value);
    case SC_OP_EXPERTS:
        return op->experts.x.value == value || op->experts.route.value == value ||
               op->experts.out.value == value;
    case SC_OP_CONV:
        return op->conv.x.value == value;
    case SC_OP_STATE_SPACE:
        return op->state_space.x.value == value || op->state_space.dt.value == value ||
               op->state_space.b.value == value || op->state_space.c.value == value;
    case SC_OP_DELTA_RULE:
        return op->delta_rule.q.value == value || op->delta_rule.k.value == value ||
               op->delta_rule.v.value == value || op->delta_rule.a.value == value ||
               op->delta_rule.b.value == value;
    case SC_OP_INDEX:
        return op->index.q.value == value || op->index.k.value == value ||
               op->index.weights.value == value;
    }
    return true;
}

/* Whether nothing of what the value was is left. */
static bool overwrites(const sc_graph *g, const sc_op *op, int value) {
    const int64_t width = g->value[value].width;
    const sc_row_op *r = &op->row;
    if (op->kind == SC_OP_LINEAR)
        return op->linear.y.value == value && op->linear.out * op->linear.w->blocks == width;
    return op->kind == SC_OP_ROW && r->out.value == value &&
           (r->kind == SC_ROW_RMS_NORM || r->kind == SC_ROW_LAYER_NORM) &&
           r->n[0] * r->n[1] == width;
}

/* Whether what the value is before operation i of the list is read from there on. *ends: it is
 * still there at the list's end. */
static bool is_read_from(const sc_graph *g, const sc_op_list *list, int i, int value, bool *ends) {
    *ends = false;
    for (; i < list->ops; i++) {
        if (reads(&list->op[i], value))
            return true;
        if (overwrites(g, &list->op[i], value))
            return false;
    }
    *ends = true;
    return false;
}

/* The same to the end of the pass, whatever list comes next. */
static bool is_read_later(const sc_graph *g, const sc_op_list *list, int i, int value) {
    bool ends, again;
    if (is_read_from(g, list, i, value, &ends))
        return true;
    if (!ends || list == &g->last)
        return false;
    for (int layer = 0; layer < g->layers; layer++)
        if (is_read_from(g, &g->layer[layer], 0, value, &again))
            return true;
    return is_read_from(g, &g->last, 0, value, &again) || (again && g->head_in.value == value);
}

const sc_row_op *sc_plan_folded(const sc_graph *graph, const sc_op_list *list, int i) {
    if (i < 1 || list->op[i - 1].kind != SC_OP_ROW ||
        (i > 1 && list->op[i - 2].kind == SC_OP_ROW)) /* a chain is a kernel anyway */
        return NULL;
    const bool head = i == list->ops;
    if (head && i > 1)
        return NULL;
    const sc_row_op *norm = &list->op[i - 1].row;
    const sc_linear *l = head ? NULL : &list->op[i].linear;
    if (!head && (list->op[i].kind != SC_OP_LINEAR || l->w->blocks > 1))
        return NULL;
    const sc_span x = head ? graph->head_in : l->x;
    const int64_t in = head ? graph->lm_head->in : l->in;
    const bool is_norm = norm->kind == SC_ROW_RMS_NORM || norm->kind == SC_ROW_LAYER_NORM;
    if (!is_norm || !norm->w || norm->n[0] != 1 || norm->n[1] != in || norm->a.at || norm->out.at ||
        x.at || norm->out.value != x.value || norm->a.value == x.value ||
        (l && l->y.value == norm->a.value))
        return NULL;
    return is_read_later(graph, list, i + 1, x.value) ? NULL : norm;
}

bool sc_plan_ends(const sc_plan *plan, const sc_linear *linear) {
    return linear->gated || linear->act || linear->scale < 1 || linear->scale > 1 ||
           (plan->options.dtype != SC_F32 && plan->device.value[linear->y.value].operands);
}

bool sc_plan_has_twin(const sc_plan *plan, int value) {
    const sc_device_value *v = &plan->device.value[value];
    return plan->options.dtype != SC_F32 && v->floats && v->operands;
}
