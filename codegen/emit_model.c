/* emit_model.c - the forward pass as values: values' buffers, ropes, weights, kinds of layers. */
#include <ctype.h>
#include <string.h>

#include "emit_cuda_ops.h"

const char *sc_macro(sc_pool *pool, const char *name) {
    char *text = sc_pool_strdup(pool, name);
    for (char *c = text; c && *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return text;
}

static void emit_values(sc_scope *top, const sc_plan *plan) {
    for (int i = 0; i < plan->graph->values; i++) {
        const sc_value *v = &plan->graph->value[i];
        sc_scope s = sc_scope_item(top, "values");
        sc_scope_text(&s, "field", v->name);
        sc_scope_text(&s, "macro", sc_macro(top->pool, v->name));
        sc_scope_number(&s, "stride", plan->stride[i]);
        sc_scope_text(&s, "ctype", plan->pairs && !v->floats ? "operand" : "float");
        sc_scope_flag(&s, "twin", plan->pairs && v->floats && v->operand);
        if (s.rc)
            top->rc = s.rc;
    }
}

/* Four to a line. */
static void emit_numbers(sc_scope *s, const char *list, const float *number, int64_t count) {
    enum { PER_ROW = 4 };
    for (int64_t at = 0; at < count && !s->rc; at += PER_ROW) {
        char line[PER_ROW * (SC_FLOAT_LITERAL + 2)] = "", one[SC_FLOAT_LITERAL];
        for (int64_t j = at; j < at + PER_ROW && j < count; j++) {
            strcat(strcat(line, j > at ? " " : ""), sc_float_literal(one, number[j]));
            strcat(line, ",");
        }
        sc_scope row = sc_scope_item(s, list);
        sc_scope_text(&row, "numbers", line);
        if (row.rc)
            s->rc = row.rc;
    }
}

static void emit_ropes(sc_scope *top, const sc_plan *plan) {
    const sc_graph *g = plan->graph;
    int64_t angles = 0; /* on a device: floats before those of this rope */
    sc_scope_flag(top, "ropes", false);
    for (int i = 0; i < g->ropes; i++) {
        const sc_rope *rope = &g->rope[i];
        sc_scope s = sc_scope_item(top, "ropes");
        sc_scope_number(&s, "id", i);
        sc_scope_text(&s, "rope_type", rope->rope_type);
        sc_scope_real(&s, "rope_theta", (float)rope->rope_theta);
        sc_scope_number(&s, "pairs", rope->rotary_dim / 2);
        if (plan->options.cuda) {
            const int64_t half = plan->device.rows * rope->rotary_dim / 2;
            sc_scope_number(&s, "cos_at", angles);
            sc_scope_number(&s, "sin_at", angles + half);
            angles += 2 * half;
        }
        const float one = 1.0f;
        sc_scope_flag(&s, "scaled", memcmp(&rope->attention_factor, &one, sizeof one) != 0);
        sc_scope_real(&s, "attention_factor", rope->attention_factor);
        emit_numbers(&s, "rows", rope->inv_freq, rope->rotary_dim / 2);
        sc_scope_flag(&s, "long_rows", false);
        sc_scope_flag(&s, "switches", rope->long_freq != NULL);
        sc_scope_number(&s, "long_from", rope->long_from);
        sc_scope_flag(&s, "grows", rope->growth > 0);
        sc_scope_flag(&s, "plain", !rope->long_from);
        sc_scope_real(&s, "growth", rope->growth);
        if (rope->long_freq)
            emit_numbers(&s, "long_rows", rope->long_freq, rope->rotary_dim / 2);
        if (s.rc)
            top->rc = s.rc;
    }
}

/* How open makes rows of it. */
static void emit_device_tensor(sc_scope *s, const sc_packed *p) {
    static const char *const packings[] = {
        [SC_WEIGHT_LINEAR] = "PANELS",   [SC_WEIGHT_GATED] = "GATED_PANELS",
        [SC_WEIGHT_ROWS] = "PLAIN_ROWS", [SC_WEIGHT_FLOATS] = "VECTOR",
        [SC_WEIGHT_BIAS] = "VECTOR",     [SC_WEIGHT_GATED_BIAS] = "GATED_VECTOR"
    };
    sc_scope_text(s, "packing", packings[p->weight->kind]);
    sc_scope_number(s, "tensor_layer", p->layer);
    sc_scope_number(s, "device_offset", (int64_t)p->device.offset);
    sc_scope_number(s, "in", p->weight->in);
    sc_scope_number(s, "device_depth", p->device_depth);
    const int blocks = p->weight->blocks;
    sc_scope_number(s, "blocks", blocks);
    sc_scope_number(s, "panels", p->panels / blocks);
    sc_scope_number(s, "first_rows",
                    sc_weight_is_gated(p->weight) ? p->weight->part[0].rows : p->rows / blocks);
    sc_scope_number(s, "rows", p->rows / blocks);
}

/* Whether an earlier tensor has the same place in the struct: of any layer, one field is declared
 * once. */
static bool is_first(const sc_plan *plan, int i) {
    for (int j = 0; j < i; j++)
        if ((plan->pack[j].layer >= 0) == (plan->pack[i].layer >= 0) &&
            !strcmp(plan->pack[j].weight->field, plan->pack[i].weight->field))
            return false;
    return true;
}

/* The names of its tensors, one below the other; of many blocks' the first and the last. */
static const char *names_of(sc_pool *pool, const sc_weight *w) {
    const char *names = "", *last = "";
    const int parts = w->parts, all = w->blocks * parts;
    for (int k = 0; k < all && names; k++) {
        const char *name = w->part[k].tensor;
        if (k == parts && all > 2 * parts) {
            names = sc_pool_printf(pool, "%s,\n     * …", names);
            k = all - parts - 1;
        } else if (name && strcmp(name, last))
            names = sc_pool_printf(pool, "%s%s%s", names, *names ? ",\n     * " : "", last = name);
    }
    return names;
}

/* Whether b is a, but for the layer's number. */
static bool same_but_number(const char *a, int a_layer, const char *b, int b_layer) {
    char a_number[16], b_number[16];
    const int a_length = snprintf(a_number, sizeof a_number, ".%d.", a_layer);
    const int b_length = snprintf(b_number, sizeof b_number, ".%d.", b_layer);
    while (*a && *b)
        if (!strncmp(a, a_number, (size_t)a_length) && !strncmp(b, b_number, (size_t)b_length)) {
            a += a_length;
            b += b_length;
        } else if (*a++ != *b++)
            return false;
    return !*a && !*b;
}

/* Whether the names need saying: in the layer before they were others. */
static bool is_news(const sc_plan *plan, int i, const char *const *names) {
    const sc_packed *p = &plan->pack[i];
    for (int j = i - 1; j >= 0 && p->layer >= 0 && plan->pack[j].layer >= p->layer - 1; j--)
        if (plan->pack[j].layer == p->layer - 1 &&
            !strcmp(plan->pack[j].weight->field, p->weight->field))
            return !same_but_number(names[j], p->layer - 1, names[i], p->layer);
    return true;
}

static void emit_weights(sc_scope *top, const sc_plan *plan) {
    const char *weight = plan->options.dtype == SC_F32 ? "float" : "unsigned short";
    const char **names = sc_pool_alloc(top->pool, (size_t)plan->packed, sizeof *names);
    sc_scope_flag(top, "layer_fields", false);
    sc_scope_flag(top, "fields", false);
    for (int i = 0; i < plan->packed && !top->rc; i++) {
        const sc_packed *p = &plan->pack[i];
        const char *field = p->weight->field;
        if (is_first(plan, i)) {
            sc_scope s = sc_scope_item(top, p->layer >= 0 ? "layer_fields" : "fields");
            sc_scope_text(&s, "field", field);
            sc_scope_text(&s, "ctype", sc_weight_is_floats(p->weight) ? "float" : weight);
        }
        if (!names || !(names[i] = names_of(top->pool, p->weight))) {
            top->rc = SC_EENV;
            return;
        }
        sc_scope s = sc_scope_item(top, "tensors");
        sc_scope_text(&s, "place",
                      p->layer >= 0 ? sc_pool_printf(top->pool, "layer[%d].%s", p->layer, field)
                                    : field);
        sc_scope_number(&s, "offset", (int64_t)p->offset);
        sc_scope_flag(&s, "named", is_news(plan, i, names));
        sc_scope_text(&s, "names", names[i]);
        if (plan->options.cuda)
            emit_device_tensor(&s, p);
        if (s.rc)
            top->rc = s.rc;
    }
}

/* ---- kinds of layers, and whose functions their operations call ---- */

static int shape_of(const sc_plan *plan, int layer) {
    return plan->layer[plan->config->layer[layer].kv_source].shape;
}

static const char *layer_text(sc_pool *pool, const sc_plan *plan, int layer) {
    const sc_op_list *list = &plan->graph->layer[layer];
    const char *text = sc_pool_printf(pool, "shape %d", shape_of(plan, layer));
    for (int i = 0; i < list->ops && text; i++) {
        const char *op = sc_op_text(pool, plan->graph, &list->op[i]);
        text = op ? sc_pool_printf(pool, "%s\n%s", text, op) : NULL;
    }
    return text;
}

static int find_kinds(sc_layer_kinds *k, sc_pool *pool, const sc_plan *plan, sc_error *err) {
    const size_t layers = (size_t)plan->layers;
    const char **text = sc_pool_alloc(pool, layers, sizeof *text);
    k->kind = sc_pool_alloc(pool, layers, sizeof *k->kind);
    k->first = sc_pool_alloc(pool, layers, sizeof *k->first);
    if (!k->kind || !k->first || !text)
        return sc_oom(err, "sorting layers");
    for (int i = 0; i < plan->layers; i++) {
        int kind = 0;
        text[i] = layer_text(pool, plan, i);
        if (!text[i])
            return sc_oom(err, "sorting layers");
        while (kind < k->kinds && strcmp(text[i], text[k->first[kind]]))
            kind++;
        if (kind == k->kinds)
            k->first[k->kinds++] = i;
        k->kind[i] = kind;
    }
    return SC_OK;
}

static int state_of(const sc_op *op) {
    return op->kind == SC_OP_CONV          ? op->conv.state
           : op->kind == SC_OP_STATE_SPACE ? op->state_space.state
           : op->kind == SC_OP_DELTA_RULE  ? op->delta_rule.state
                                           : -1;
}

/* Whether one function does both: but for the weights' names in the checkpoint all is equal. */
static bool is_same(sc_pool *pool, const sc_graph *g, const sc_op *a, const sc_op *b) {
    if (a->kind != b->kind || state_of(a) != state_of(b))
        return false;
    for (int i = 0; sc_op_weight(a, i) || sc_op_weight(b, i); i++) {
        const sc_weight *w = sc_op_weight(a, i), *v = sc_op_weight(b, i);
        if (!w || !v || strcmp(w->field, v->field))
            return false;
    }
    const char *text = sc_op_text(pool, g, a), *other = sc_op_text(pool, g, b);
    return text && other && !strcmp(text, other);
}

int sc_op_owner(sc_pool *pool, const sc_plan *plan, const sc_layer_kinds *kinds, int layer,
                const sc_op *op, const char **layers) {
    const sc_graph *g = plan->graph;
    int owner = -1,
        *has = sc_pool_alloc(pool, (size_t)kinds->kinds + (size_t)g->layers, sizeof *has);
    if (!has)
        return -1;
    int *whole = has + kinds->kinds; /* the same layer by layer */
    for (int kind = 0; kind < kinds->kinds; kind++) {
        const int first = kinds->first[kind];
        const sc_op_list *list = &g->layer[first];
        for (int i = 0; i < list->ops && shape_of(plan, first) == shape_of(plan, layer); i++)
            has[kind] |= is_same(pool, g, &list->op[i], op);
        if (has[kind] && owner < 0)
            owner = kind;
    }
    for (int i = 0; i < g->layers; i++)
        whole[i] = has[kinds->kind[i]];
    *layers = sc_layer_list(pool, g->layers, whole, 1);
    return *layers ? owner : -1;
}

int sc_emit_model(sc_scope *top, const sc_plan *plan, sc_error *err) {
    sc_layer_kinds kinds = { 0 };
    const sc_graph *g = plan->graph;
    sc_op_set set = { .top = top, .plan = plan, .kinds = &kinds };
    sc_cuda_set device = { .top = top, .plan = plan, .kinds = &kinds };
    const bool cuda = plan->options.cuda;
    int rc = find_kinds(&kinds, top->pool, plan, err);
    if (!rc)
        rc = sc_emit_begin(&set, err);
    if (!rc && cuda)
        rc = sc_cuda_begin(&device, err);
    if (rc)
        return rc;
    emit_values(top, plan);
    emit_ropes(top, plan);
    emit_weights(top, plan);
    sc_emit_list(&set, top, "first_ops", &g->first, -1);
    for (int i = 0; i < kinds.kinds && !top->rc; i++) {
        const int layer = kinds.first[i];
        sc_scope k = sc_scope_item(top, "kinds");
        sc_scope_number(&k, "id", i);
        sc_scope_text(&k, "layer_list", sc_layer_list(top->pool, g->layers, kinds.kind, i));
        set.kind = i;
        sc_emit_list(&set, &k, "ops", &g->layer[layer], layer);
        if (cuda)
            sc_cuda_list(&device, &k, "device_ops", &g->layer[layer], layer);
        if (k.rc)
            top->rc = k.rc;
    }
    sc_emit_list(&set, top, "last_ops", &g->last, -1);
    sc_emit_end(&set);
    if (cuda) {
        sc_cuda_list(&device, top, "device_first_ops", &g->first, -1);
        sc_cuda_list(&device, top, "device_last_ops", &g->last, -1);
        sc_cuda_end(&device);
    }
    for (int i = 0; i < plan->layers; i++) {
        sc_scope call = sc_scope_item(top, "layer_calls");
        sc_scope_number(&call, "kind", kinds.kind[i]);
        sc_scope_number(&call, "layer", i);
    }
    return SC_OK;
}
