/* graph_experts.c - building mixtures of experts: routers, and weights of one block per expert. */
#include <string.h>

#include "graph_build.h"

/* What one expert has of a weight of `modules` parts: modules of its own, prefix, its number, a
 * dot, the module; or its share of one tensor of all experts. */
static sc_part expert_part(sc_builder *b, const sc_expert_spec *spec, const char *stacked,
                           const char *const *module, int modules, int64_t i, int64_t rows,
                           int64_t in) {
    const int64_t expert = i / modules, at = i % modules, all = modules * rows;
    if (!stacked) {
        const char *name = sc_pool_printf(b->pool, "%s.%lld.%s.weight", spec->prefix,
                                          (long long)expert, module[at]);
        return sc_build_rows(b, name ? name : "", rows, in);
    }
    sc_part part = { .tensor = stacked, .rows = rows, .rank = 3, .first = at * rows };
    part.shape[0] = spec->experts;
    if (spec->interleaved) {
        part.first = at;
        part.run = 1;
        part.stride = modules;
    }
    part.transposed = spec->in_out;
    part.in_first = part.transposed ? expert * in : 0;
    part.first += part.transposed ? 0 : expert * all;
    part.shape[1] = part.transposed ? in : all;
    part.shape[2] = part.transposed ? all : in;
    return part;
}

static const sc_weight *expert_weight(sc_builder *b, sc_weight_kind kind, const char *field,
                                      const sc_expert_spec *spec, int modules,
                                      const char *const *module, int64_t rows, int64_t in) {
    const bool bias = kind == SC_WEIGHT_BIAS || kind == SC_WEIGHT_GATED_BIAS;
    const char *stacked = NULL;
    const bool in_one = !spec->gate && !spec->plain;
    if (in_one) {
        const char *what = modules > 1 ? "gate_up_proj" : "down_proj";
        stacked =
            sc_pool_printf(b->pool, "%s%s.%s%s", b->root, spec->prefix, what, bias ? "_bias" : "");
    }
    sc_part *part = sc_pool_alloc(b->pool, (size_t)(spec->experts * modules), sizeof *part);
    if (!part || (in_one && !stacked)) {
        b->rc = sc_oom(b->err, "building the graph");
        return NULL;
    }
    for (int64_t i = 0; i < spec->experts * modules; i++) {
        part[i] = expert_part(b, spec, stacked, module, modules, i, rows, in);
        if (!bias)
            continue;
        part[i].rank = 2; /* [experts, rows]: an expert's is one row */
        part[i].transposed = true;
        part[i].shape[1] = modules * rows;
        part[i].in_first = i / modules;
        part[i].first = spec->interleaved ? i % modules : i % modules * rows;
    }
    return sc_build_blocks(b, kind, field, in, (int)spec->experts, modules, part);
}

static void check_experts(sc_builder *b, const sc_expert_spec *spec) {
    const int64_t groups = spec->groups, of_group = groups ? spec->experts / groups : 0;
    if (spec->top_k < 1 || spec->top_k > spec->experts || spec->experts > SC_MOST_EXPERTS)
        sc_build_fail(b, "num_experts_per_tok", "%lld of %lld experts, at most %d",
                      (long long)spec->top_k, (long long)spec->experts, SC_MOST_EXPERTS);
    else if (groups && (spec->experts % groups || of_group < 2 || spec->top_groups < 1 ||
                        spec->top_groups > groups || spec->top_k > spec->top_groups * of_group))
        sc_build_fail(b, "n_group",
                      "%lld experts in %lld groups, %lld chosen of %lld groups (groups are alike "
                      "and of two at least, and hold what is chosen)",
                      (long long)spec->experts, (long long)groups, (long long)spec->top_k,
                      (long long)spec->top_groups);
}

sc_span sc_build_route(sc_builder *b, sc_span x, const sc_expert_spec *spec) {
    check_experts(b, spec);
    if (b->rc)
        return x;
    const sc_span scores =
        sc_build_linear(b, x, b->graph->hidden, sc_build_value(b, "router", spec->experts),
                        &(sc_linear_spec){ .field = "router",
                                           .module = { spec->router },
                                           .out = { spec->experts },
                                           .bias = spec->router_bias,
                                           .scale = spec->router_scale });
    const sc_weight *correction = NULL, *expert_scale = NULL;
    if (spec->correction)
        correction = sc_build_floats(b, spec->correction, spec->experts, 0);
    if (spec->expert_scale)
        expert_scale = sc_build_floats(b, spec->expert_scale, spec->experts, 0);
    const sc_span route = sc_build_value(b, "route", 2 * spec->top_k);
    sc_row_op *row = sc_build_row(b, SC_ROW_ROUTE, scores, sc_nowhere, route);
    const int64_t n[6] = { spec->experts, spec->top_k,  spec->normalise,
                           spec->sigmoid, spec->groups, spec->top_groups };
    memcpy(row->n, n, sizeof n);
    row->w = correction;
    row->w2 = expert_scale;
    row->f[0] = spec->scale > 0 ? spec->scale : 1;
    return route;
}

void sc_build_routed(sc_builder *b, sc_span x, sc_span route, const sc_expert_spec *spec,
                     sc_span out, bool add) {
    const int64_t hidden = spec->hidden ? spec->hidden : b->graph->hidden;
    const char *const up[] = { spec->gate, spec->up }, *const down[] = { spec->down };
    if (b->rc)
        return;
    sc_experts e = { .experts = spec->experts, .top_k = spec->top_k, .hidden = hidden };
    e.ffn = spec->ffn;
    e.act = b->config->hidden_act;
    e.alpha = spec->alpha;
    e.limit = spec->limit;
    e.weigh_input = spec->weigh_input;
    e.add = add;
    e.x = x;
    e.route = route;
    e.out = out;
    e.plain = spec->plain;
    e.gate_up =
        spec->plain
            ? expert_weight(b, SC_WEIGHT_LINEAR, "experts_up", spec, 1, up + 1, spec->ffn, hidden)
            : expert_weight(b, SC_WEIGHT_GATED, "experts_gate_up", spec, 2, up, spec->ffn, hidden);
    e.down = expert_weight(b, SC_WEIGHT_LINEAR, "experts_down", spec, 1, down, hidden, spec->ffn);
    if (spec->bias) {
        e.gate_up_bias = expert_weight(b, SC_WEIGHT_GATED_BIAS, "experts_gate_up_bias", spec, 2, up,
                                       spec->ffn, 1);
        e.down_bias =
            expert_weight(b, SC_WEIGHT_BIAS, "experts_down_bias", spec, 1, down, hidden, 1);
    }
    sc_build_op(b, SC_OP_EXPERTS)->experts = e;
}

void sc_build_experts(sc_builder *b, sc_span x, const sc_expert_spec *spec) {
    sc_build_routed(b, x, sc_build_route(b, x, spec), spec, b->x, true);
}

bool sc_build_is_sparse(const sc_builder *b) {
    const sc_config_value *dense = sc_config_key(b->config, "mlp_only_layers");
    const int step = (int)sc_build_number(b, "decoder_sparse_step");
    for (int i = 0; i < dense->count; i++)
        if ((int)dense->list[i] == b->layer)
            return false;
    return sc_build_number(b, "num_experts") > 0 && step > 0 && (b->layer + 1) % step == 0;
}
