/* emit_cuda_states.c - operations that remember, as values of a CUDA casting; emit_cuda_ops.h. */
#include "emit_cuda_ops.h"

#include <string.h>

/* Elements of a state that a lane has side by side, and the lanes of a warp. */
enum { LANE = 4, WARP = 32 };

static const char *row_of(const sc_cuda_set *set, sc_span span) {
    const char *value = set->plan->graph->value[span.value].name;
    return sc_pool_printf(set->top->pool, "%s_STRIDE", sc_macro(set->top->pool, value));
}

/* What is read: NAME_row of its kernel, NAME_at of its launch. */
static void emit_source(const sc_cuda_set *set, sc_scope *kernel, sc_scope *call, const char *name,
                        sc_span span) {
    sc_pool *pool = set->top->pool;
    if (kernel)
        sc_scope_text(kernel, sc_pool_printf(pool, "%s_row", name), row_of(set, span));
    else
        sc_scope_text(call, sc_pool_printf(pool, "%s_at", name), sc_cuda_floats_at(set, span));
}

static void emit_call(const sc_cuda_set *set, sc_scope *s, const char *fn, int state, sc_span y) {
    sc_scope_text(s, "fn", fn);
    sc_scope_number(s, "state", state);
    sc_cuda_target(set, s, y);
}

/* ---- convolutions ---- */

static void new_conv(sc_cuda_set *set, const char *name, const sc_conv *c) {
    sc_scope s = sc_scope_item(set->top, "conv_kernels");
    sc_scope_text(&s, "fn", name);
    sc_scope_text(&s, "fn_pad", sc_blanks(set->top->pool, name));
    sc_scope_number(&s, "channels", c->channels);
    sc_scope_number(&s, "columns", c->columns);
    sc_scope_flag(&s, "activated", c->act != SC_ACT_NONE);
    sc_scope_text(&s, "act", c->act ? sc_cuda_act(set, c->act) : "");
    sc_scope_flag(&s, "bias", c->bias != NULL);
    emit_source(set, &s, NULL, "x", c->x);
    sc_cuda_target(set, &s, c->y);
    if (s.rc)
        set->top->rc = s.rc;
}

void sc_cuda_conv(sc_cuda_set *set, sc_scope *item, const sc_op *op) {
    const sc_conv *c = &op->conv;
    bool is_new;
    const char *name =
        sc_cuda_kernel_name(set, "conv", sc_op_text(set->top->pool, set->plan->graph, op), &is_new);
    if (is_new)
        new_conv(set, name, c);
    sc_scope body = sc_scope_item(item, "conv");
    emit_call(set, &body, name, c->state, c->y);
    emit_source(set, NULL, &body, "x", c->x);
    sc_scope_text(&body, "conv_w", sc_cuda_weight_at(set, c->w));
    sc_scope_text(&body, "bias_w", sc_cuda_weight_at(set, c->bias));
    if (body.rc)
        set->top->rc = body.rc;
}

/* ---- state spaces ---- */

static void emit_sources(const sc_cuda_set *set, sc_scope *kernel, sc_scope *call,
                         const sc_state_space *o) {
    emit_source(set, kernel, call, "x", o->x);
    emit_source(set, kernel, call, "dt", o->dt);
    emit_source(set, kernel, call, "b", o->b);
    emit_source(set, kernel, call, "c", o->c);
}

static void new_state_space(sc_cuda_set *set, const char *name, const sc_state_space *o) {
    int64_t lanes = 1;
    while (lanes < WARP && lanes * LANE < o->state_size)
        lanes *= 2;
    sc_scope s = sc_scope_item(set->top, "scan_kernels");
    sc_scope_text(&s, "fn", name);
    sc_scope_text(&s, "fn_pad", sc_blanks(set->top->pool, name));
    sc_scope_number(&s, "heads", o->heads);
    sc_scope_number(&s, "head_dim", o->head_dim);
    sc_scope_number(&s, "groups", o->groups);
    sc_scope_number(&s, "state_size", o->state_size);
    sc_scope_number(&s, "lanes", lanes);
    sc_scope_number(&s, "lane_steps", (o->state_size + lanes * LANE - 1) / (lanes * LANE));
    /* B and C are parts of rows that begin at whole loads. */
    sc_scope_flag(&s, "aligned",
                  o->state_size % LANE || (o->b.at % LANE == 0 && o->c.at % LANE == 0));
    sc_scope_flag(&s, "per_element", o->a_log->in > 1);
    sc_scope_flag(&s, "dt_bias", o->dt_bias != NULL);
    sc_scope_flag(&s, "limited_below", o->dt_least > 0);
    sc_scope_real(&s, "dt_least", o->dt_least);
    sc_scope_flag(&s, "limited_above", o->dt_most > 0);
    sc_scope_real(&s, "dt_most", o->dt_most);
    emit_sources(set, &s, NULL, o);
    sc_cuda_target(set, &s, o->y);
    if (s.rc)
        set->top->rc = s.rc;
}

void sc_cuda_state_space(sc_cuda_set *set, sc_scope *item, const sc_op *op) {
    const sc_state_space *o = &op->state_space;
    bool is_new;
    const char *name =
        sc_cuda_kernel_name(set, "scan", sc_op_text(set->top->pool, set->plan->graph, op), &is_new);
    if (is_new)
        new_state_space(set, name, o);
    sc_scope body = sc_scope_item(item, "state_space");
    emit_call(set, &body, name, o->state, o->y);
    emit_sources(set, NULL, &body, o);
    sc_scope_text(&body, "a_log_w", sc_cuda_weight_at(set, o->a_log));
    sc_scope_text(&body, "d_w", sc_cuda_weight_at(set, o->d));
    sc_scope_text(&body, "dt_bias_w", sc_cuda_weight_at(set, o->dt_bias));
    if (body.rc)
        set->top->rc = body.rc;
}
