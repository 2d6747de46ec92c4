/* emit_model.c - the forward pass as values: one function per kind of layer and per kind of linear.
 */
#include <string.h>

#include "emit_scope.h"

/* What differs between two kinds of layer. Layers of one kind share their functions. */
typedef struct {
    int *kind;  /* [layers] */
    int *first; /* [kinds]: a layer of that kind */
    int kinds;
} layer_kinds;

static bool same_linear(const sc_linear *a, const sc_linear *b) {
    return a->in == b->in && a->out == b->out && !a->bias == !b->bias;
}

static bool same_norm(const sc_norm *a, const sc_norm *b) {
    return a->width == b->width && !a->weight == !b->weight &&
           memcmp(&a->eps, &b->eps, sizeof a->eps) == 0;
}

static bool same_attention(const sc_attention *a, const sc_attention *b) {
    return a->type == b->type && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->head_dim == b->head_dim && a->v_head_dim == b->v_head_dim && a->window == b->window &&
           memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 && a->rope == b->rope &&
           same_linear(&a->q_proj, &b->q_proj) && same_linear(&a->k_proj, &b->k_proj) &&
           same_linear(&a->v_proj, &b->v_proj) && same_linear(&a->o_proj, &b->o_proj) &&
           same_norm(&a->q_norm, &b->q_norm) && same_norm(&a->k_norm, &b->k_norm);
}

static bool same_op(const sc_op *a, const sc_op *b) {
    if (a->kind != b->kind)
        return false;
    if (a->kind == SC_OP_NORM)
        return same_norm(&a->norm, &b->norm);
    if (a->kind == SC_OP_ATTENTION)
        return same_attention(&a->attention, &b->attention);
    if (a->kind == SC_OP_GATED_MLP)
        return a->gated_mlp.act == b->gated_mlp.act && a->gated_mlp.ffn == b->gated_mlp.ffn &&
               same_linear(&a->gated_mlp.gate_proj, &b->gated_mlp.gate_proj) &&
               same_linear(&a->gated_mlp.up_proj, &b->gated_mlp.up_proj) &&
               same_linear(&a->gated_mlp.down_proj, &b->gated_mlp.down_proj);
    return true;
}

static bool same_layer(const sc_layer *a, const sc_layer *b) {
    bool same = a->ops == b->ops;
    for (int i = 0; same && i < a->ops; i++)
        same = same_op(&a->op[i], &b->op[i]);
    return same;
}

static int find_kinds(layer_kinds *k, sc_pool *pool, const sc_graph *g, sc_error *err) {
    k->kind = sc_pool_alloc(pool, (size_t)g->layers, sizeof *k->kind);
    k->first = sc_pool_alloc(pool, (size_t)g->layers, sizeof *k->first);
    if (!k->kind || !k->first)
        return sc_oom(err, "sorting layers");
    for (int i = 0; i < g->layers; i++) {
        int kind = 0;
        while (kind < k->kinds && !same_layer(&g->layer[i], &g->layer[k->first[kind]]))
            kind++;
        if (kind == k->kinds)
            k->first[k->kinds++] = i;
        k->kind[i] = kind;
    }
    return SC_OK;
}

/* Field of the weights, and the function's name but for its number; field of the biases; buffers of
 * the model and their strides; a device's buffers and its stride of products. */
typedef struct {
    const char *field, *bias_field, *x, *x_stride, *y, *y_stride;
    const char *device_x, *device_x_step, *device_y, *device_stride;
} linear_role;

/* A function per distinct linear: qkv_proj0, qkv_proj1, … in order of first use. */
typedef struct {
    const linear_role *role;
    int64_t in, out;
    bool bias, gated, add;
    bool normed; /* x is the residual stream's norm, of that eps */
    float norm_eps;
    sc_activation act;
} linear_shape;

typedef struct {
    linear_shape shape[64];
    int count;
    float norm_eps[64]; /* distinct norms of the residual stream: a kernel each */
    int norms;
} linear_set;

/* The kernel of a norm of that eps. */
static int norm_number(sc_scope *top, linear_set *set, float eps) {
    int i = 0;
    while (i < set->norms && memcmp(&set->norm_eps[i], &eps, sizeof eps) != 0)
        i++;
    if (i < set->norms)
        return i;
    set->norm_eps[set->norms++] = eps; /* no more than linears, and one before the head */
    sc_scope s = sc_scope_item(top, "norms");
    sc_scope_number(&s, "id", i);
    sc_scope_real(&s, "eps", eps);
    if (s.rc)
        top->rc = s.rc;
    return i;
}

/* Outputs of a linear: a gated pair has two products. */
static void emit_device_linear(sc_scope *top, sc_scope *s, linear_set *set, const sc_plan *plan,
                               const linear_shape *shape) {
    sc_scope_number(s, "device_depth", sc_plan_depth(plan, shape->in));
    sc_scope_number(s, "device_out", shape->gated ? 2 * shape->out : shape->out);
    sc_scope_text(s, "device_x", shape->role->device_x);
    sc_scope_text(s, "device_x_step", shape->role->device_x_step);
    sc_scope_text(s, "device_y", shape->role->device_y);
    sc_scope_text(s, "device_stride", shape->role->device_stride);
    sc_scope_flag(s, "normed", shape->normed);
    if (shape->normed) {
        sc_scope_number(s, "norm", norm_number(top, set, shape->norm_eps));
        sc_scope_real(s, "norm_eps", shape->norm_eps);
    }
    sc_scope_flag(s, "decode_linears", sc_cuda_decodes(plan));
    const sc_cuda_linear linear = { .in = shape->in,
                                    .out = shape->out,
                                    .normed = shape->normed,
                                    .gated = shape->gated,
                                    .y_stride =
                                        shape->gated ? "FFN_DEPTH" : shape->role->device_stride };
    sc_emit_cuda_linear(s, plan, &linear);
}

static const char *linear_name(sc_scope *top, linear_set *set, const sc_plan *plan,
                               const char *what, linear_shape shape) {
    int number_of_role = 0;
    for (int i = 0; i < set->count; i++) {
        if (!memcmp(&set->shape[i], &shape, sizeof shape))
            return sc_pool_printf(top->pool, "%s%d", shape.role->field, number_of_role);
        number_of_role += set->shape[i].role == shape.role;
    }
    if (set->count == 64) {
        top->rc = SC_EINPUT;
        return NULL;
    }
    const char *name = sc_pool_printf(top->pool, "%s%d", shape.role->field, number_of_role);
    set->shape[set->count++] = shape;
    const int64_t lanes = plan->panel / 2, unit = shape.gated ? lanes : plan->panel;
    sc_scope s = sc_scope_item(top, "linears");
    sc_scope_text(&s, "fn", name);
    sc_scope_text(&s, "fn_pad", sc_blanks(top->pool, name));
    sc_scope_text(&s, "field", shape.role->field);
    sc_scope_text(&s, "bias_field", shape.role->bias_field);
    sc_scope_text(&s, "x", shape.role->x);
    sc_scope_text(&s, "x_stride", shape.role->x_stride);
    sc_scope_text(&s, "y", shape.role->y);
    sc_scope_text(&s, "y_stride", shape.role->y_stride);
    sc_scope_text(&s, "what", what);
    sc_scope_number(&s, "in", shape.in);
    sc_scope_number(&s, "depth", plan->pairs ? (shape.in + 1) / 2 * 2 : shape.in);
    sc_scope_number(&s, "out", shape.out);
    sc_scope_number(&s, "panels", (shape.out + unit - 1) / unit);
    sc_scope_number(&s, "panel", plan->panel);
    sc_scope_number(&s, "half", lanes);
    sc_scope_flag(&s, "bias", shape.bias);
    sc_scope_flag(&s, "gated", shape.gated);
    sc_scope_flag(&s, "plain", !shape.gated);
    sc_scope_text(&s, "y_ctype", shape.gated ? "operand" : "float");
    sc_scope_flag(&s, "add", shape.add);
    sc_scope_text(&s, "act", "vec_silu");
    if (plan->options.cuda)
        emit_device_linear(top, &s, set, plan, &shape);
    if (s.rc)
        top->rc = s.rc;
    return name;
}

/* What a linear reads and writes. Roles are compared by address: these are the only ones. */
static const linear_role
    qkv_role = { "qkv_proj",   "qkv_bias", "normed",        "HIDDEN_STRIDE", "qkv",
                 "QKV_STRIDE", "X",        "HIDDEN_STRIDE", "QKV",           "QKV_STRIDE" },
    o_role = { "o_proj",   "o_bias",         "attended", "ATTENDED_STRIDE", "x", "HIDDEN_STRIDE",
               "ATTENDED", "ATTENDED_DEPTH", "X",        "HIDDEN_STRIDE" },
    gate_up_role = { "gate_up_proj", "gate_up_bias",  "normed", "HIDDEN_STRIDE",
                     "ffn",          "FFN_STRIDE",    "X",      "HIDDEN_STRIDE",
                     "FFN",          "GATE_UP_STRIDE" },
    down_role = { "down_proj",     "down_bias", "ffn",       "FFN_STRIDE", "x",
                  "HIDDEN_STRIDE", "FFN",       "FFN_DEPTH", "X",          "HIDDEN_STRIDE" };

/* norm: of what it reads, NULL: it reads no norm. */
static linear_shape shape_of(const linear_role *role, int64_t in, int64_t out, bool bias,
                             const sc_norm *norm) {
    linear_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.role = role;
    shape.in = in;
    shape.out = out;
    shape.bias = bias;
    shape.normed = norm != NULL;
    shape.norm_eps = norm ? norm->eps : 0;
    return shape;
}

static void emit_attention(sc_scope *top, sc_scope *op, linear_set *set, const sc_plan *plan,
                           const sc_attention *a, const sc_norm *norm, int id, int shape,
                           const char *layers) {
    sc_scope s = sc_scope_item(top, "attentions");
    const int64_t group = a->heads / a->kv_heads;
    const int64_t tokens = 48 / group > 1 ? 48 / group : 1;
    sc_scope_number(&s, "id", id);
    sc_scope_text(&s, "layer_list", layers);
    sc_scope_text(&s, "layer_type", sc_layer_type_name(a->type));
    sc_scope_number(&s, "heads", a->heads);
    sc_scope_number(&s, "kv_heads", a->kv_heads);
    sc_scope_number(&s, "group", group);
    sc_scope_number(&s, "tokens", tokens);
    sc_scope_number(&s, "queries", tokens * group);
    sc_scope_number(&s, "shape", shape);
    sc_scope_number(&s, "window", a->window);
    sc_scope_flag(&s, "windowed", a->window > 0);
    sc_scope_flag(&s, "kv_floats", plan->options.kv_dtype == SC_F32);
    sc_scope_flag(&s, "ring", plan->shape[shape].evicted > 0);
    sc_scope_flag(&s, "q_norm", a->q_norm.weight != NULL);
    sc_scope_flag(&s, "k_norm", a->k_norm.weight != NULL);
    sc_scope_real(&s, "q_norm_eps", a->q_norm.eps);
    sc_scope_real(&s, "k_norm_eps", a->k_norm.eps);
    sc_scope_real(&s, "scale", a->scale);
    sc_scope_flag(&s, "roped", a->rope >= 0);
    sc_scope_number(&s, "rope", a->rope);
    sc_scope_number(&s, "k_at", a->q_proj.out);
    sc_scope_number(&s, "v_at", a->q_proj.out + a->k_proj.out);
    if (plan->options.cuda)
        sc_emit_cuda_attention(&s, plan, a, shape);

    sc_scope_number(op, "attention_id", id);
    const bool bias = a->q_proj.bias || a->k_proj.bias || a->v_proj.bias;
    sc_scope_text(op, "qkv_fn",
                  linear_name(top, set, plan, "q_proj, k_proj and v_proj in one",
                              shape_of(&qkv_role, a->q_proj.in,
                                       a->q_proj.out + a->k_proj.out + a->v_proj.out, bias, norm)));
    linear_shape o = shape_of(&o_role, a->o_proj.in, a->o_proj.out, a->o_proj.bias != NULL, NULL);
    o.add = true;
    sc_scope_text(op, "o_fn",
                  linear_name(top, set, plan, "o_proj, added to the residual stream", o));
    if (s.rc)
        top->rc = s.rc;
}

static void emit_gated(sc_scope *top, sc_scope *op, linear_set *set, const sc_plan *plan,
                       const sc_gated_mlp *m, const sc_norm *norm) {
    const bool bias = m->gate_proj.bias || m->up_proj.bias;
    linear_shape gate_up = shape_of(&gate_up_role, m->gate_proj.in, m->ffn, bias, norm);
    gate_up.gated = true;
    gate_up.act = m->act;
    linear_shape down =
        shape_of(&down_role, m->down_proj.in, m->down_proj.out, m->down_proj.bias != NULL, NULL);
    down.add = true;
    sc_scope_text(op, "gate_up_fn",
                  linear_name(top, set, plan, "act(gate_proj) * up_proj", gate_up));
    sc_scope_text(op, "down_fn",
                  linear_name(top, set, plan, "down_proj, added to the residual stream", down));
}

/* Where an operation's weights lie, as C: from w, where the layer's begin. */
static void emit_device_op(sc_scope *top, sc_scope *body, const sc_plan *plan, int layer,
                           const sc_norm *norm) {
    static const char *const fields[] = { "qkv_proj",  "qkv_bias", "q_norm",       "k_norm",
                                          "o_proj",    "o_bias",   "gate_up_proj", "gate_up_bias",
                                          "down_proj", "down_bias" };
    const char *norm_field = norm ? sc_plan_norm_field(top->pool, norm->weight) : "";
    for (size_t f = 0; f <= sizeof fields / sizeof *fields; f++) {
        const char *field = f ? fields[f - 1] : norm_field, *text = "NULL";
        for (int i = 0; i < plan->packed && field; i++)
            if (plan->pack[i].layer == layer && !strcmp(plan->pack[i].field, field))
                text = sc_pool_printf(top->pool, "w + %zu", plan->pack[i].device.offset);
        sc_scope_text(body, sc_pool_printf(top->pool, "%s_w", f ? field : "norm"), text);
    }
}

static void emit_kind(sc_scope *top, linear_set *set, const sc_plan *plan, const layer_kinds *kinds,
                      int kind) {
    const int index = kinds->first[kind];
    const sc_layer *layer = &plan->graph->layer[index];
    const char *list = sc_layer_list(top->pool, plan->graph->layers, kinds->kind, kind);
    sc_scope k = sc_scope_item(top, "kinds");
    sc_scope_number(&k, "id", kind);
    sc_scope_text(&k, "layer_list", list);
    const sc_norm *norm = NULL; /* what attention and MLP read */
    for (int i = 0; i < layer->ops && !top->rc; i++) {
        const sc_op *op = &layer->op[i];
        if (op->kind == SC_OP_RESIDUAL)
            continue; /* folded into the linear before it */
        if (op->kind == SC_OP_NORM)
            norm = &op->norm;
        sc_scope ops = sc_scope_item(&k, "ops");
        const char *const names[] = { "norm", "attention", "gated_mlp" };
        const int which = op->kind == SC_OP_NORM ? 0 : op->kind == SC_OP_ATTENTION ? 1 : 2;
        for (int n = 0; n < 3; n++)
            if (n != which)
                sc_scope_flag(&ops, names[n], false);
        sc_scope body = sc_scope_item(&ops, names[which]);
        if (which == 0) {
            sc_scope_text(&body, "field", sc_plan_norm_field(top->pool, op->norm.weight));
            sc_scope_real(&body, "eps", op->norm.eps);
        } else if (which == 1)
            emit_attention(top, &body, set, plan, &op->attention, norm, kind,
                           plan->layer[index].shape, list);
        else
            emit_gated(top, &body, set, plan, &op->gated_mlp, norm);
        if (plan->options.cuda && which)
            emit_device_op(top, &body, plan, index, norm);
        if (body.rc)
            top->rc = body.rc;
    }
    if (k.rc)
        top->rc = k.rc;
}

static void emit_ropes(sc_scope *top, const sc_plan *plan) {
    enum { PER_ROW = 4 };
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
        for (int64_t at = 0; at < rope->rotary_dim / 2 && !s.rc; at += PER_ROW) {
            char line[PER_ROW * (SC_FLOAT_LITERAL + 2)] = "", one_text[SC_FLOAT_LITERAL];
            for (int64_t j = at; j < at + PER_ROW && j < rope->rotary_dim / 2; j++) {
                strcat(strcat(line, j > at ? " " : ""),
                       sc_float_literal(one_text, rope->inv_freq[j]));
                strcat(line, ",");
            }
            sc_scope row = sc_scope_item(&s, "rows");
            sc_scope_text(&row, "numbers", line);
        }
        if (s.rc)
            top->rc = s.rc;
    }
}

static const char *ctype_of(const sc_packed *p) {
    return p->kind == SC_PACK_FLOATS || p->kind == SC_PACK_BIAS ? "float" : NULL;
}

/* How open makes rows of it. */
static void emit_device_tensor(sc_scope *s, const sc_packed *p) {
    static const char *const packings[] = { [SC_PACK_PANELS] = "PANELS",
                                            [SC_PACK_GATED] = "GATED_PANELS",
                                            [SC_PACK_ROWS] = "PLAIN_ROWS",
                                            [SC_PACK_FLOATS] = "VECTOR",
                                            [SC_PACK_BIAS] = "VECTOR" };
    sc_scope_text(s, "packing",
                  p->kind == SC_PACK_BIAS && p->gated ? "GATED_VECTOR" : packings[p->kind]);
    sc_scope_number(s, "tensor_layer", p->layer);
    sc_scope_number(s, "device_offset", (int64_t)p->device.offset);
    sc_scope_number(s, "in", p->in);
    sc_scope_number(s, "device_depth", p->device_depth);
    sc_scope_number(s, "panels", p->panels);
    sc_scope_number(s, "first_rows", p->gated ? p->part[0].rows : p->rows);
    sc_scope_number(s, "rows", p->rows);
}

static void emit_weights(sc_scope *top, const sc_plan *plan) {
    const char *weight = plan->options.dtype == SC_F32 ? "float" : "unsigned short";
    sc_scope_flag(top, "layer_fields", false);
    sc_scope_flag(top, "fields", false);
    for (int i = 0; i < plan->packed; i++) {
        const sc_packed *p = &plan->pack[i];
        const char *type = ctype_of(p) ? ctype_of(p) : weight;
        bool first = true; /* a field is declared once, whichever layers have it */
        for (int j = 0; p->layer >= 0 && j < i; j++)
            first &= plan->pack[j].layer < 0 || strcmp(plan->pack[j].field, p->field) != 0;
        if (first) {
            sc_scope s = sc_scope_item(top, p->layer >= 0 ? "layer_fields" : "fields");
            sc_scope_text(&s, "field", p->field);
            sc_scope_text(&s, "ctype", type);
        }
        sc_scope s = sc_scope_item(top, "tensors");
        sc_scope_text(&s, "place",
                      p->layer >= 0 ? sc_pool_printf(top->pool, "layer[%d].%s", p->layer, p->field)
                                    : p->field);
        sc_scope_number(&s, "offset", (int64_t)p->offset);
        const char *names = "";
        for (int k = 0; k < p->parts; k++)
            if (p->part[k].tensor)
                names = sc_pool_printf(top->pool, "%s%s%s", names, *names ? ",\n     * " : "",
                                       p->part[k].tensor);
        sc_scope_text(&s, "names", names);
        if (plan->options.cuda)
            emit_device_tensor(&s, p);
        if (s.rc)
            top->rc = s.rc;
    }
}

int sc_emit_model(sc_scope *top, const sc_plan *plan, sc_error *err) {
    layer_kinds kinds = { 0 };
    linear_set set = { .count = 0 };
    const int rc = find_kinds(&kinds, top->pool, plan->graph, err);
    if (rc)
        return rc;
    emit_ropes(top, plan);
    emit_weights(top, plan);
    for (int i = 0; i < kinds.kinds; i++)
        emit_kind(top, &set, plan, &kinds, i);
    if (plan->options.cuda)
        sc_scope_number(top, "head_norm", norm_number(top, &set, plan->graph->norm.eps));
    for (int i = 0; i < plan->layers; i++) {
        sc_scope call = sc_scope_item(top, "layer_calls");
        sc_scope_number(&call, "kind", kinds.kind[i]);
        sc_scope_number(&call, "layer", i);
    }
    return SC_OK;
}
