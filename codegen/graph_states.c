/* graph_states.c - see graph_states.h. */
#include "graph_states.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { WIDEST = 4096 }; /* a thread has a row of it on its stack */

/* The widths of the layer's first state of that name, which it must have, and its place among the
 * layer's states. */
static const int64_t *find_state(sc_builder *b, const char *name, int *index) {
    const sc_layer_config *c = &b->config->layer[b->layer];
    int i = 0;
    while (i < c->states - 1 && strcmp(c->state[i].name, name))
        i++;
    assert(i < c->states && !strcmp(c->state[i].name, name));
    for (int k = 1; k < c->state[i].rank; k++)
        if (c->state[i].dim[k] > WIDEST)
            sc_build_fail(b, name, "of %lld columns, at most %d", (long long)c->state[i].dim[k],
                          WIDEST);
    *index = i;
    return c->state[i].dim;
}

void sc_build_conv(sc_builder *b, sc_span x, const char *module, bool bias, sc_activation act,
                   sc_span y) {
    sc_conv c = { .act = act, .x = x, .y = y };
    const int64_t *dim = find_state(b, "conv_state", &c.state);
    c.channels = dim[0];
    c.columns = dim[1];
    c.w = sc_build_table(b, sc_build_name(b, module, "weight"), 3,
                         (const int64_t[]){ dim[0], 1, dim[1] });
    if (bias)
        c.bias = sc_build_floats(b, sc_build_name(b, module, "bias"), dim[0], 0);
    sc_build_op(b, SC_OP_CONV)->conv = c;
}

/* out = norm of groups of y, by the mixer's norm. */
static void build_group_norm(sc_builder *b, sc_span y, const sc_mixer *mixer, int64_t groups,
                             int64_t inner, sc_span out) {
    const char *name = sc_build_name(b, mixer->module, "norm.weight");
    const sc_part part = sc_build_vector(b, name, inner);
    const sc_weight *w = sc_build_weight(b, SC_WEIGHT_FLOATS, "mixer_norm", 1, 1, &part);
    sc_build_runs_norm(b, y, w, groups, inner / groups, out)->n[2] = inner / groups;
}

/* y as the last linear takes it: "mixed". */
static sc_span build_norm(sc_builder *b, sc_span y, sc_span gate, const sc_mixer *mixer,
                          int64_t groups, int64_t inner) {
    const sc_span mixed = sc_build_value(b, "mixed", inner);
    const sc_span normed = mixer->norm == SC_MIXER_GATE_NORM ? mixed : y;
    if (mixer->norm != SC_MIXER_NORM_GATE)
        sc_build_silu_gate(b, y, gate, inner, mixer->norm == SC_MIXER_GATE ? mixed : y);
    if (mixer->norm == SC_MIXER_GATE)
        return mixed;
    build_group_norm(b, y, mixer, groups, inner, normed);
    if (mixer->norm == SC_MIXER_NORM_GATE)
        sc_build_silu_gate(b, y, gate, inner, mixed);
    return mixed;
}

void sc_build_mamba2(sc_builder *b, sc_span x, const sc_mixer *mixer) {
    sc_state_space s = { .dt_least = mixer->dt_least, .dt_most = mixer->dt_most };
    const int64_t channels = find_state(b, "conv_state", &s.state)[0];
    const int64_t *dim = find_state(b, "recurrent_state", &s.state);
    s.heads = dim[0];
    s.head_dim = dim[1];
    s.state_size = dim[2];
    s.groups = (channels - s.heads * s.head_dim) / (2 * s.state_size);
    const int64_t inner = s.heads * s.head_dim, shared = s.groups * s.state_size;
    const int64_t width[] = { inner, inner, shared, shared, s.heads };
    const int64_t all = inner + channels + s.heads;
    if (s.heads % s.groups)
        sc_build_fail(b, mixer->groups_key, "%lld groups do not share out %lld heads",
                      (long long)s.groups, (long long)s.heads);
    if (b->rc)
        return;
    const sc_span gate =
        sc_build_linear(b, x, b->graph->hidden, sc_build_value(b, "projected", all),
                        &(sc_linear_spec){ .module = { sc_build_name(b, mixer->module, "in_proj") },
                                           .out = { all },
                                           .bias = mixer->in_bias });
    sc_span part = gate;
    for (int i = 0; i < 5 && mixer->multiply; part.at += width[i++])
        sc_build_times(b, part, mixer->multiply[i], width[i], part);
    s.x = s.y = sc_build_at(gate, inner);
    s.b = sc_build_at(s.x, inner);
    s.c = sc_build_at(s.b, shared);
    s.dt = sc_build_at(s.c, shared);
    sc_build_conv(b, s.x, sc_build_name(b, mixer->module, "conv1d"), mixer->conv_bias, mixer->act,
                  s.x);
    s.a_log = sc_build_floats(b, sc_build_name(b, mixer->module, "A_log"), s.heads, 0);
    s.d = sc_build_floats(b, sc_build_name(b, mixer->module, "D"), s.heads, 0);
    s.dt_bias = sc_build_floats(b, sc_build_name(b, mixer->module, "dt_bias"), s.heads, 0);
    sc_build_op(b, SC_OP_STATE_SPACE)->state_space = s;
    sc_build_onto(b, build_norm(b, s.y, gate, mixer, s.groups, inner), inner,
                  sc_build_name(b, mixer->module, "out_proj"), mixer->out_bias,
                  mixer->onto > 0 || mixer->onto < 0 ? mixer->onto : 1);
}

static void norm_in_place(sc_builder *b, sc_span x, const char *module, const char *norm,
                          int64_t width) {
    if (norm)
        sc_build_norm(b, x, sc_build_name(b, module, norm), width, x);
}

/* dt, B and C of x: into s. */
static void build_selection(sc_builder *b, sc_span x, const sc_mamba *mamba, sc_state_space *s) {
    const char *module = mamba->module;
    const int64_t rank = mamba->dt_rank, all = rank + 2 * s->state_size;
    const sc_span low = sc_build_linear(
        b, x, s->heads, sc_build_value(b, "selection", all),
        &(sc_linear_spec){ .module = { sc_build_name(b, module, "x_proj") }, .out = { all } });
    s->b = sc_build_at(low, rank);
    s->c = sc_build_at(s->b, s->state_size);
    norm_in_place(b, low, module, mamba->dt_norm, rank);
    norm_in_place(b, s->b, module, mamba->b_norm, s->state_size);
    norm_in_place(b, s->c, module, mamba->c_norm, s->state_size);
    s->dt = sc_build_linear(b, low, rank, sc_build_value(b, "dt", s->heads),
                            &(sc_linear_spec){ .module = { sc_build_name(b, module, "dt_proj") },
                                               .out = { s->heads },
                                               .bias = true });
}

void sc_build_mamba(sc_builder *b, sc_span x, const sc_mamba *mamba) {
    const char *module = mamba->module;
    sc_state_space s = { .head_dim = 1, .groups = 1 };
    const int64_t *dim = find_state(b, "recurrent_state", &s.state);
    const int64_t inner = s.heads = dim[0];
    s.state_size = dim[1];
    const sc_span projected =
        sc_build_linear(b, x, b->graph->hidden, sc_build_value(b, "projected", 2 * inner),
                        &(sc_linear_spec){ .module = { sc_build_name(b, module, "in_proj") },
                                           .out = { 2 * inner },
                                           .bias = mamba->bias });
    const sc_span mixed = sc_build_value(b, "mixed", inner);
    s.x = s.y = sc_build_value(b, "convolved", inner);
    sc_build_conv(b, projected, sc_build_name(b, module, "conv1d"), mamba->conv_bias, mamba->act,
                  s.x);
    build_selection(b, s.x, mamba, &s);
    s.a_log = sc_build_table(b, sc_build_name(b, module, "A_log"), 2, dim);
    s.d = sc_build_floats(b, sc_build_name(b, module, "D"), inner, 0);
    sc_build_op(b, SC_OP_STATE_SPACE)->state_space = s;
    sc_build_silu_gate(b, s.y, sc_build_at(projected, inner), inner, mixed);
    sc_build_onto(b, mixed, inner, sc_build_name(b, module, "out_proj"), mamba->bias, 1);
}

/* Of every key head's run of rows in the tensor, those from first on. */
static sc_part part_by_head(sc_builder *b, const char *tensor, int64_t key_heads, int64_t all,
                            int64_t first, int64_t run) {
    sc_part part = sc_build_rows(b, tensor, key_heads * all, b->graph->hidden);
    part.rows = key_heads * run;
    part.first = first;
    part.run = run;
    part.stride = all;
    return part;
}

void sc_build_gated_delta(sc_builder *b, sc_span x, const char *module, sc_activation act) {
    sc_delta_rule d = { .y = sc_nowhere };
    const int64_t channels = find_state(b, "conv_state", &d.state)[0];
    const int64_t *dim = find_state(b, "recurrent_state", &d.state);
    d.heads = dim[0];
    d.key_dim = dim[1];
    d.value_dim = dim[2];
    const int64_t values = d.heads * d.value_dim, keys = (channels - values) / 2;
    d.key_heads = keys / d.key_dim;
    if (d.heads % d.key_heads)
        sc_build_fail(b, "linear_num_value_heads", "%lld heads do not share %lld of keys out",
                      (long long)d.heads, (long long)d.key_heads);
    if (b->rc)
        return;
    const int64_t share = d.heads / d.key_heads, key = d.key_dim, value = share * d.value_dim;
    const int64_t all = 2 * key + 2 * value;
    const char *qkvz = sc_build_name(b, module, "in_proj_qkvz.weight");
    const char *ba = sc_build_name(b, module, "in_proj_ba.weight");
    const sc_part part[] = { part_by_head(b, qkvz, d.key_heads, all, 0, key),
                             part_by_head(b, qkvz, d.key_heads, all, key, key),
                             part_by_head(b, qkvz, d.key_heads, all, 2 * key, value),
                             part_by_head(b, qkvz, d.key_heads, all, 2 * key + value, value),
                             part_by_head(b, ba, d.key_heads, 2 * share, 0, share),
                             part_by_head(b, ba, d.key_heads, 2 * share, share, share) };
    d.q = sc_build_linear(
        b, x, b->graph->hidden, sc_build_value(b, "projected", 2 * keys + 2 * values + 2 * d.heads),
        &(sc_linear_spec){
            .field = "in_proj", .part = part, .parts = (int)(sizeof part / sizeof *part) });
    d.k = sc_build_at(d.q, keys);
    d.v = d.y = sc_build_at(d.k, keys);
    const sc_span gate = sc_build_at(d.v, values), mixed = sc_build_value(b, "mixed", values);
    d.b = sc_build_at(gate, values);
    d.a = sc_build_at(d.b, d.heads);
    sc_build_conv(b, d.q, sc_build_name(b, module, "conv1d"), false, act, d.q);
    d.a_log = sc_build_floats(b, sc_build_name(b, module, "A_log"), d.heads, 0);
    d.dt_bias = sc_build_floats(b, sc_build_name(b, module, "dt_bias"), d.heads, 0);
    sc_build_op(b, SC_OP_DELTA_RULE)->delta_rule = d;
    const sc_weight *norm =
        sc_build_floats(b, sc_build_name(b, module, "norm.weight"), d.value_dim, 0);
    sc_build_runs_norm(b, d.y, norm, d.heads, d.value_dim, d.y);
    sc_build_silu_gate(b, d.y, gate, values, mixed);
    sc_build_onto(b, mixed, values, sc_build_name(b, module, "out_proj"), false, 1);
}

void sc_build_dt_limits(sc_builder *b, const char *key, float *least, float *most) {
    const sc_config_value *limit = sc_config_key(b->config, key);
    *least = *most = 0;
    if (!limit->count)
        return;
    if (limit->count != 2 || limit->list[0] >= limit->list[1] || limit->list[1] <= 0) {
        sc_build_fail(b, key, "is no pair of limits, the first below the second, which is above 0");
        return;
    }
    *least = limit->list[0] > 0 ? (float)limit->list[0] : 0;
    *most = isinf(limit->list[1]) ? 0 : (float)limit->list[1];
}
