/* emit_states.c - operations whose layers keep states, as values; see emit_ops.h. */
#include <math.h>

#include "emit_ops.h"

/* ---- convolutions ---- */

void sc_emit_conv(sc_op_set *set, const sc_conv *c) {
    set->rounds = true;
    sc_scope s = sc_emit_function(set, "convs");
    sc_scope_number(&s, "channels", c->channels);
    sc_scope_number(&s, "columns", c->columns);
    sc_scope_number(&s, "state", c->state);
    sc_scope_flag(&s, "activated", c->act != SC_ACT_NONE);
    sc_scope_text(&s, "act", sc_act_name(c->act));
    sc_scope_text(&s, "w", c->w->field);
    sc_scope_flag(&s, "bias", c->bias != NULL);
    sc_scope_text(&s, "bias_field", c->bias ? c->bias->field : "");
    sc_scope_text(&s, "x", sc_row_of(set, c->x));
    sc_scope_text(&s, "y", sc_row_of(set, c->y));
    if (s.rc)
        set->top->rc = s.rc;
}

/* ---- state spaces ---- */

/* Where a row's spans are, by their names in the template. */
typedef struct {
    const char *name;
    sc_span span;
} named_span;

static void emit_spans(const sc_op_set *set, sc_scope *s, const named_span *spans, int count) {
    for (int i = 0; i < count; i++)
        sc_scope_text(s, spans[i].name, sc_row_of(set, spans[i].span));
}

void sc_emit_state_space(sc_op_set *set, const sc_state_space *o) {
    const named_span spans[] = {
        { "x", o->x }, { "dt", o->dt }, { "b", o->b }, { "c", o->c }, { "y", o->y }
    };
    set->uses_softplus = true;
    sc_scope s = sc_emit_function(set, "state_spaces");
    sc_scope_number(&s, "heads", o->heads);
    sc_scope_number(&s, "head_dim", o->head_dim);
    sc_scope_number(&s, "groups", o->groups);
    sc_scope_number(&s, "state_size", o->state_size);
    sc_scope_number(&s, "state", o->state);
    sc_scope_flag(&s, "per_element", o->a_log->in > 1);
    sc_scope_flag(&s, "dt_bias", o->dt_bias != NULL);
    sc_scope_flag(&s, "limited_below", o->dt_least > 0);
    sc_scope_real(&s, "dt_least", o->dt_least);
    sc_scope_flag(&s, "limited_above", o->dt_most > 0);
    sc_scope_real(&s, "dt_most", o->dt_most);
    emit_spans(set, &s, spans, (int)(sizeof spans / sizeof *spans));
    if (s.rc)
        set->top->rc = s.rc;
}

/* ---- delta rules ---- */

void sc_emit_delta_rule(sc_op_set *set, const sc_delta_rule *d) {
    const named_span spans[] = { { "q", d->q }, { "k", d->k }, { "v", d->v },
                                 { "y", d->y }, { "a", d->a }, { "b", d->b } };
    set->uses_softplus = true;
    sc_scope s = sc_emit_function(set, "delta_rules");
    sc_scope_number(&s, "heads", d->heads);
    sc_scope_number(&s, "key_heads", d->key_heads);
    sc_scope_number(&s, "key_dim", d->key_dim);
    sc_scope_number(&s, "value_dim", d->value_dim);
    sc_scope_number(&s, "state", d->state);
    sc_scope_real(&s, "scale", (float)(1 / sqrt((double)d->key_dim)));
    emit_spans(set, &s, spans, (int)(sizeof spans / sizeof *spans));
    if (s.rc)
        set->top->rc = s.rc;
}
