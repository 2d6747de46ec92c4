/* emit.c - see emit.h. */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

#include "sha256.h"

/* As many blanks as text has letters: they align what goes on below it. */
static const char *blanks(sc_pool *pool, const char *text) {
    return text ? sc_pool_printf(pool, "%*s", (int)strlen(text), "") : NULL;
}

/* The layers whose kind is wanted, "Layers 0-4, 6, 8" or "Layer 3", for a comment: a long list goes
 * on behind " * ". */
static const char *layer_list(sc_pool *pool, int layers, const int *kind, int wanted) {
    enum { WIDTH = 48 };
    char *text = NULL;
    int count = 0;
    for (int i = 0; i < layers; i++) {
        if (kind[i] != wanted)
            continue;
        int last = i;
        while (last + 1 < layers && kind[last + 1] == wanted)
            last++;
        const char *line = text ? strrchr(text, '\n') : NULL;
        const char *comma = !text ? "" : strlen(line ? line : text) > WIDTH ? ",\n * " : ", ";
        text = last > i ? sc_pool_printf(pool, "%s%s%d-%d", text ? text : "", comma, i, last)
                        : sc_pool_printf(pool, "%s%s%d", text ? text : "", comma, i);
        if (!text)
            return NULL;
        count += last - i + 1;
        i = last;
    }
    return text ? sc_pool_printf(pool, "%s %s", count > 1 ? "Layers" : "Layer", text) : NULL;
}

/* One value after another into a scope; the first failure sticks. */
typedef struct {
    sc_pool *pool;
    sc_values *values;
    int rc;
} scope;

static void text(scope *s, const char *name, const char *value) {
    if (!s->rc)
        s->rc = value ? sc_values_set(s->values, name, value) : SC_EENV;
}

static void number(scope *s, const char *name, int64_t value) {
    if (!s->rc)
        s->rc = sc_values_int(s->values, name, value);
}

static void real(scope *s, const char *name, float value) {
    if (!s->rc)
        s->rc = sc_values_float(s->values, name, value);
}

static void flag(scope *s, const char *name, bool value) {
    if (!s->rc)
        s->rc = sc_values_flag(s->values, name, value);
}

static scope item(scope *s, const char *list) {
    scope next = { s->pool, s->rc ? NULL : sc_values_add(s->values, list), s->rc };
    if (!next.rc && !next.values)
        next.rc = s->rc = SC_EENV;
    return next;
}

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
 * the model and their strides. */
typedef struct {
    const char *field, *bias_field, *x, *x_stride, *y, *y_stride;
} linear_role;

/* A function per distinct linear: qkv_proj0, qkv_proj1, … in order of first use. */
typedef struct {
    const linear_role *role;
    int64_t in, out;
    bool bias, gated, add;
    sc_activation act;
} linear_shape;

typedef struct {
    linear_shape shape[64];
    int count;
} linear_set;

static const char *linear_name(scope *top, linear_set *set, const sc_plan *plan, const char *what,
                               linear_shape shape) {
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
    scope s = item(top, "linears");
    text(&s, "fn", name);
    text(&s, "fn_pad", blanks(top->pool, name));
    text(&s, "field", shape.role->field);
    text(&s, "bias_field", shape.role->bias_field);
    text(&s, "x", shape.role->x);
    text(&s, "x_stride", shape.role->x_stride);
    text(&s, "y", shape.role->y);
    text(&s, "y_stride", shape.role->y_stride);
    text(&s, "what", what);
    number(&s, "in", shape.in);
    number(&s, "depth", plan->pairs ? (shape.in + 1) / 2 * 2 : shape.in);
    number(&s, "out", shape.out);
    number(&s, "panels", (shape.out + unit - 1) / unit);
    number(&s, "panel", plan->panel);
    number(&s, "half", lanes);
    flag(&s, "bias", shape.bias);
    flag(&s, "gated", shape.gated);
    flag(&s, "plain", !shape.gated);
    text(&s, "y_ctype", shape.gated ? "operand" : "float");
    flag(&s, "add", shape.add);
    text(&s, "act", "vec_silu");
    if (s.rc)
        top->rc = s.rc;
    return name;
}

/* What a linear reads and writes. Roles are compared by address: these are the only ones. */
static const linear_role qkv_role = { "qkv_proj",      "qkv_bias", "normed",
                                      "HIDDEN_STRIDE", "qkv",      "QKV_STRIDE" },
                         o_role = { "o_proj",          "o_bias", "attended",
                                    "ATTENDED_STRIDE", "x",      "HIDDEN_STRIDE" },
                         gate_up_role = { "gate_up_proj",  "gate_up_bias", "normed",
                                          "HIDDEN_STRIDE", "ffn",          "FFN_STRIDE" },
                         down_role = { "down_proj",  "down_bias", "ffn",
                                       "FFN_STRIDE", "x",         "HIDDEN_STRIDE" };

static linear_shape shape_of(const linear_role *role, int64_t in, int64_t out, bool bias) {
    linear_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.role = role;
    shape.in = in;
    shape.out = out;
    shape.bias = bias;
    return shape;
}

static void emit_attention(scope *top, scope *op, linear_set *set, const sc_plan *plan,
                           const sc_attention *a, int id, int shape, const char *layers) {
    scope s = item(top, "attentions");
    const int64_t group = a->heads / a->kv_heads;
    const int64_t tokens = 48 / group > 1 ? 48 / group : 1;
    number(&s, "id", id);
    text(&s, "layer_list", layers);
    text(&s, "layer_type", sc_layer_type_name(a->type));
    number(&s, "heads", a->heads);
    number(&s, "kv_heads", a->kv_heads);
    number(&s, "group", group);
    number(&s, "tokens", tokens);
    number(&s, "queries", tokens * group);
    number(&s, "shape", shape);
    number(&s, "window", a->window);
    flag(&s, "windowed", a->window > 0);
    flag(&s, "kv_floats", plan->options.dtype == SC_F32);
    flag(&s, "ring", plan->shape[shape].evicted > 0);
    flag(&s, "q_norm", a->q_norm.weight != NULL);
    flag(&s, "k_norm", a->k_norm.weight != NULL);
    real(&s, "q_norm_eps", a->q_norm.eps);
    real(&s, "k_norm_eps", a->k_norm.eps);
    real(&s, "scale", a->scale);
    flag(&s, "roped", a->rope >= 0);
    number(&s, "rope", a->rope);
    number(&s, "k_at", a->q_proj.out);
    number(&s, "v_at", a->q_proj.out + a->k_proj.out);

    number(op, "attention_id", id);
    const bool bias = a->q_proj.bias || a->k_proj.bias || a->v_proj.bias;
    text(op, "qkv_fn",
         linear_name(top, set, plan, "q_proj, k_proj and v_proj in one",
                     shape_of(&qkv_role, a->q_proj.in,
                              a->q_proj.out + a->k_proj.out + a->v_proj.out, bias)));
    linear_shape o = shape_of(&o_role, a->o_proj.in, a->o_proj.out, a->o_proj.bias != NULL);
    o.add = true;
    text(op, "o_fn", linear_name(top, set, plan, "o_proj, added to the residual stream", o));
    if (s.rc)
        top->rc = s.rc;
}

static void emit_gated(scope *top, scope *op, linear_set *set, const sc_plan *plan,
                       const sc_gated_mlp *m) {
    const bool bias = m->gate_proj.bias || m->up_proj.bias;
    linear_shape gate_up = shape_of(&gate_up_role, m->gate_proj.in, m->ffn, bias);
    gate_up.gated = true;
    gate_up.act = m->act;
    linear_shape down =
        shape_of(&down_role, m->down_proj.in, m->down_proj.out, m->down_proj.bias != NULL);
    down.add = true;
    text(op, "gate_up_fn", linear_name(top, set, plan, "act(gate_proj) * up_proj", gate_up));
    text(op, "down_fn",
         linear_name(top, set, plan, "down_proj, added to the residual stream", down));
}

static void emit_kind(scope *top, linear_set *set, const sc_plan *plan, const layer_kinds *kinds,
                      int kind) {
    const int index = kinds->first[kind];
    const sc_layer *layer = &plan->graph->layer[index];
    const char *list = layer_list(top->pool, plan->graph->layers, kinds->kind, kind);
    scope k = item(top, "kinds");
    number(&k, "id", kind);
    text(&k, "layer_list", list);
    for (int i = 0; i < layer->ops && !top->rc; i++) {
        const sc_op *op = &layer->op[i];
        if (op->kind == SC_OP_RESIDUAL)
            continue; /* folded into the linear before it */
        scope ops = item(&k, "ops");
        const char *const names[] = { "norm", "attention", "gated_mlp" };
        const int which = op->kind == SC_OP_NORM ? 0 : op->kind == SC_OP_ATTENTION ? 1 : 2;
        for (int n = 0; n < 3; n++)
            if (n != which)
                flag(&ops, names[n], false);
        scope body = item(&ops, names[which]);
        if (which == 0) {
            text(&body, "field", sc_plan_norm_field(top->pool, op->norm.weight));
            real(&body, "eps", op->norm.eps);
        } else if (which == 1)
            emit_attention(top, &body, set, plan, &op->attention, kind, plan->layer[index].shape,
                           list);
        else
            emit_gated(top, &body, set, plan, &op->gated_mlp);
        if (body.rc)
            top->rc = body.rc;
    }
    if (k.rc)
        top->rc = k.rc;
}

static void emit_ropes(scope *top, const sc_graph *g) {
    enum { PER_ROW = 4 };
    flag(top, "ropes", false);
    for (int i = 0; i < g->ropes; i++) {
        const sc_rope *rope = &g->rope[i];
        scope s = item(top, "ropes");
        number(&s, "id", i);
        text(&s, "rope_type", rope->rope_type);
        real(&s, "rope_theta", (float)rope->rope_theta);
        number(&s, "pairs", rope->rotary_dim / 2);
        const float one = 1.0f;
        flag(&s, "scaled", memcmp(&rope->attention_factor, &one, sizeof one) != 0);
        real(&s, "attention_factor", rope->attention_factor);
        for (int64_t at = 0; at < rope->rotary_dim / 2 && !s.rc; at += PER_ROW) {
            char line[PER_ROW * (SC_FLOAT_LITERAL + 2)] = "", one_text[SC_FLOAT_LITERAL];
            for (int64_t j = at; j < at + PER_ROW && j < rope->rotary_dim / 2; j++) {
                strcat(strcat(line, j > at ? " " : ""),
                       sc_float_literal(one_text, rope->inv_freq[j]));
                strcat(line, ",");
            }
            scope row = item(&s, "rows");
            text(&row, "numbers", line);
        }
        if (s.rc)
            top->rc = s.rc;
    }
}

static void emit_shapes(scope *top, const sc_plan *plan) {
    const sc_graph *g = plan->graph;
    int *shape_of_layer = sc_pool_alloc(top->pool, (size_t)g->layers, sizeof *shape_of_layer);
    if (!shape_of_layer) {
        top->rc = SC_EENV;
        return;
    }
    for (int i = 0; i < g->layers; i++)
        shape_of_layer[i] = plan->layer[i].shape;
    for (int i = 0; i < plan->shapes; i++) {
        const sc_cache_shape *c = &plan->shape[i];
        scope s = item(top, "shapes");
        number(&s, "id", i);
        text(&s, "layer_list", layer_list(top->pool, g->layers, shape_of_layer, i));
        text(&s, "layer_type", sc_layer_type_name(c->type));
        text(&s, "kind", c->ring ? "ring" : "linear");
        number(&s, "kv_heads", c->kv_heads);
        number(&s, "slots", c->slots);
        number(&s, "head_dim", c->head_dim);
        number(&s, "v_head_dim", c->v_head_dim);
        number(&s, "evicted", c->evicted);
        text(&s, "slots_from",
             c->ring ? sc_pool_printf(top->pool, "min(sliding_window %lld, max_cache_len %lld)",
                                      (long long)c->window, (long long)plan->options.max_cache_len)
                     : "max_cache_len");
        text(&s, "capacity",
             c->capacity < 0 ? "INT64_MAX"
                             : sc_pool_printf(top->pool, "%lld", (long long)c->capacity));
        flag(&s, "unbounded", c->capacity < 0);
        flag(&s, "ring", c->evicted > 0);
        number(&s, "ring_flag", c->ring);
        if (s.rc)
            top->rc = s.rc;
    }
    for (int i = 0; i < g->layers; i++) {
        scope s = item(top, "places");
        number(&s, "layer", i);
        number(&s, "keys_offset", (int64_t)plan->layer[i].keys_offset);
        number(&s, "values_offset", (int64_t)plan->layer[i].values_offset);
        number(&s, "shape", plan->layer[i].shape);
        const sc_cache_shape *c = &plan->shape[plan->layer[i].shape];
        text(&s, "layer_type", sc_layer_type_name(c->type));
        number(&s, "kv_heads", c->kv_heads);
        number(&s, "slots", c->slots);
        number(&s, "head_dim", c->head_dim);
        number(&s, "v_head_dim", c->v_head_dim);
        if (s.rc)
            top->rc = s.rc;
    }
}

static const char *ctype_of(const sc_packed *p) {
    return p->kind == SC_PACK_FLOATS || p->kind == SC_PACK_BIAS ? "float" : NULL;
}

static void emit_weights(scope *top, const sc_plan *plan) {
    const char *weight = plan->options.dtype == SC_F32 ? "float" : "unsigned short";
    flag(top, "layer_fields", false);
    flag(top, "fields", false);
    for (int i = 0; i < plan->packed; i++) {
        const sc_packed *p = &plan->pack[i];
        const char *type = ctype_of(p) ? ctype_of(p) : weight;
        bool first = true; /* a field is declared once, whichever layers have it */
        for (int j = 0; p->layer >= 0 && j < i; j++)
            first &= plan->pack[j].layer < 0 || strcmp(plan->pack[j].field, p->field) != 0;
        if (first) {
            scope s = item(top, p->layer >= 0 ? "layer_fields" : "fields");
            text(&s, "field", p->field);
            text(&s, "ctype", type);
        }
        scope s = item(top, "tensors");
        text(&s, "place",
             p->layer >= 0 ? sc_pool_printf(top->pool, "layer[%d].%s", p->layer, p->field)
                           : p->field);
        number(&s, "offset", (int64_t)p->offset);
        const char *names = "";
        for (int k = 0; k < p->parts; k++)
            if (p->part[k].tensor)
                names = sc_pool_printf(top->pool, "%s%s%s", names, *names ? ",\n     * " : "",
                                       p->part[k].tensor);
        text(&s, "names", names);
        if (s.rc)
            top->rc = s.rc;
    }
}

int sc_emit_layout(char hex[65], sc_pool *pool, const sc_plan *plan, sc_error *err) {
    (void)pool;
    sc_sha256 *sum;
    int rc = sc_sha256_begin(&sum, err);
    char line[512];
    for (int i = 0; i < plan->shapes && !rc; i++) {
        const sc_cache_shape *s = &plan->shape[i];
        snprintf(line, sizeof line, "shape %d %lld %lld %lld %lld %lld\n", (int)s->type,
                 (long long)s->kv_heads, (long long)s->slots, (long long)s->head_dim,
                 (long long)s->v_head_dim, (long long)s->window);
        rc = sc_sha256_update(sum, line, strlen(line), err);
    }
    for (int i = 0; i < plan->packed && !rc; i++) {
        const sc_packed *p = &plan->pack[i];
        snprintf(line, sizeof line, "tensor %d %d %.64s %lld %lld %llu %llu\n", (int)p->kind,
                 p->layer, p->field, (long long)p->in, (long long)p->panels,
                 (unsigned long long)p->offset, (unsigned long long)p->bytes);
        rc = sc_sha256_update(sum, line, strlen(line), err);
        for (int k = 0; k < p->parts && !rc; k++) {
            snprintf(line, sizeof line, "part %.400s %lld\n",
                     p->part[k].tensor ? p->part[k].tensor : "-", (long long)p->part[k].rows);
            rc = sc_sha256_update(sum, line, strlen(line), err);
        }
    }
    if (!rc) {
        snprintf(line, sizeof line, "batch %lld dtype %s panel %lld name %.200s layers %d\n",
                 (long long)plan->options.batch_size, sc_dtype_name(plan->options.dtype),
                 (long long)plan->panel, plan->options.name, plan->graph->layers);
        rc = sc_sha256_update(sum, line, strlen(line), err);
    }
    if (rc) {
        sc_sha256_drop(sum);
        return rc;
    }
    return sc_sha256_finish(sum, hex, err);
}

/* The layers as JSON inside a C string: the casting's signature. */
static const char *signature(sc_pool *pool, const sc_plan *plan) {
    char *all = sc_pool_printf(pool, "{\\\"model_type\\\": \\\"%s\\\", \\\"layers\\\": [",
                               plan->graph->family);
    for (int i = 0; i < plan->graph->layers && all; i++) {
        const sc_cache_shape *s = &plan->shape[plan->layer[i].shape];
        all =
            sc_pool_printf(pool,
                           "%s%s\"\n                     \""
                           "{\\\"layer_type\\\": \\\"%s\\\", \\\"kv_heads\\\": %lld, "
                           "\"\n                     \""
                           "\\\"slots\\\": %lld, \\\"head_dim\\\": %lld, \\\"v_head_dim\\\": %lld}",
                           all, i ? ", " : "", sc_layer_type_name(s->type), (long long)s->kv_heads,
                           (long long)s->slots, (long long)s->head_dim, (long long)s->v_head_dim);
    }
    return all ? sc_pool_printf(pool, "%s]}", all) : NULL;
}

int sc_emit_values(sc_values **values, sc_pool *pool, const sc_plan *plan, const sc_config *config,
                   sc_error *err) {
    const sc_graph *g = plan->graph;
    const sc_plan_options *o = &plan->options;
    const bool f32 = o->dtype == SC_F32;
    char hex[65], bytes[400] = "";
    int rc = sc_emit_layout(hex, pool, plan, err);
    if (rc)
        return rc;
    for (int i = 0; i < 32; i++)
        snprintf(bytes + strlen(bytes), sizeof bytes - strlen(bytes), "%s0x%.2s",
                 !i       ? ""
                 : i % 16 ? ", "
                          : ",\n    ",
                 hex + 2 * i);
    scope s = { pool, sc_values_make(pool), SC_OK };
    if (!s.values)
        return sc_oom(err, "filling templates");
    text(&s, "name", o->name);
    text(&s, "name_pad", blanks(pool, o->name));
    text(&s, "family", g->family);
    number(&s, "layers", g->layers);
    number(&s, "batch", o->batch_size);
    number(&s, "vocab", g->vocab);
    number(&s, "hidden", g->hidden);
    number(&s, "max_cache_len", o->max_cache_len);
    text(&s, "dtype", sc_dtype_name(o->dtype));
    text(&s, "kv_dtype", sc_dtype_name(o->dtype));
    text(&s, "kv_dump", f32 ? "F32" : "BF16");
    text(&s, "kv_ctype", f32 ? "float" : "unsigned short");
    text(&s, "weight_ctype", f32 ? "float" : "unsigned short");
    text(&s, "weight_load", f32 ? "vec_load(w)" : "vec_load_bf16(w)");
    text(&s, "weight_to_float", f32 ? "w" : "sc_from_bf16(w)");
    text(&s, "kv_load", f32 ? "from[d]" : "sc_from_bf16(from[d])");
    text(&s, "kv_store", f32 ? "from[d]" : "sc_to_bf16(from[d])");
    text(&s, "arch", o->arch->name);
    text(&s, "arch_cflags", o->arch->cflags);
    text(&s, "vector", o->arch->vector);
    text(&s, "layout_bytes", bytes);
    number(&s, "weights_bytes", (int64_t)plan->weights_bytes);
    number(&s, "arena_bytes", (int64_t)plan->arena_bytes);
    number(&s, "cache_shapes", plan->shapes);
    number(&s, "block", plan->block);
    number(&s, "hidden_stride", plan->hidden_stride);
    number(&s, "qkv_stride", plan->qkv_stride);
    number(&s, "attended_stride", plan->attended_stride);
    number(&s, "ffn_stride", plan->ffn_stride);
    number(&s, "attention_dim", plan->attention_dim);
    number(&s, "attention_queries", plan->attention_queries);
    number(&s, "step_kv", plan->step_kv);
    number(&s, "k_chunk", 192);
    flag(&s, "pairs", plan->pairs);
    text(&s, "operand_store", plan->pairs ? "vec_store_bf16" : "vec_store");
    text(&s, "operand_from", plan->pairs ? "sc_to_bf16" : "");
    text(&s, "operand_ctype", plan->pairs ? "unsigned short" : "float");
    number(&s, "hidden_depth", plan->pairs ? (g->hidden + 1) / 2 * 2 : g->hidden);
    number(&s, "head_panels", (g->vocab + plan->panel - 1) / plan->panel);
    flag(&s, "tied", g->tied);
    real(&s, "norm_eps", g->norm.eps);
    number(&s, "eos_count", config->eos_count);
    const char *eos = "";
    for (int i = 0; i < config->eos_count; i++)
        eos = sc_pool_printf(pool, "%s%s%lld", eos ? eos : "", i ? ", " : "",
                             (long long)config->eos_token_id[i]);
    text(&s, "eos_ids", config->eos_count ? eos : "-1");
    bool bounded = false; /* does any layer limit how much can be fed? */
    for (int i = 0; i < plan->shapes; i++)
        bounded |= plan->shape[i].capacity >= 0;
    flag(&s, "bounded", bounded);
    text(&s, "signature", signature(pool, plan));
    emit_shapes(&s, plan);
    emit_ropes(&s, g);
    emit_weights(&s, plan);
    layer_kinds kinds = { 0 };
    rc = find_kinds(&kinds, pool, g, err);
    if (rc)
        return rc;
    linear_set set = { .count = 0 };
    for (int i = 0; i < kinds.kinds; i++)
        emit_kind(&s, &set, plan, &kinds, i);
    for (int i = 0; i < g->layers; i++) {
        scope call = item(&s, "layer_calls");
        number(&call, "kind", kinds.kind[i]);
        number(&call, "layer", i);
    }
    if (s.rc)
        return sc_fail(err, s.rc, "emit: no memory, or more than 64 kinds of linear");
    *values = s.values;
    return SC_OK;
}

static int emit_file(sc_folder *folder, const char *path, const char *template_file,
                     const sc_values *values, sc_error *err) {
    char *out = NULL;
    size_t bytes;
    int rc = sc_template_render(&out, &bytes, template_file, values, err);
    if (!rc)
        rc = sc_folder_write(folder, path, out, bytes, err);
    free(out);
    return rc;
}

bool sc_emit_needs(const sc_plan *plan, const char *path) {
    const char *own = plan->options.arch->vector;
    if (strncmp(path, "runtime/vector_", 15) || !strcmp(path, "runtime/vector_math.h"))
        return !strncmp(path, "runtime/", 8);
    /* The bfloat16 header stands on the one without. */
    return !strcmp(path + 8, own) ||
           (plan->options.arch->pairs && !strcmp(path + 8, "vector_avx512.h"));
}

int sc_emit_sources(sc_folder *folder, const sc_plan *plan, const sc_values *values,
                    sc_error *err) {
    static const struct {
        const char *from, *suffix;
    } files[] = { { "casting.h", ".h" },         { "internal.h", "_internal.h" },
                  { "weights.h", "_weights.h" }, { "cache.c", "_cache.c" },
                  { "model.c", "_model.c" },     { "weights.c", "_weights.c" },
                  { "table.c", "_table.c" },     { "main.c", "_main.c" } };
    char path[512];
    int rc = emit_file(folder, "Makefile", "Makefile", values, err);
    for (size_t i = 0; i < sizeof files / sizeof *files && !rc; i++) {
        snprintf(path, sizeof path, "%s%s", plan->options.name, files[i].suffix);
        rc = emit_file(folder, path, files[i].from, values, err);
    }
    for (int i = 0; i < sc_embedded_count && !rc; i++) {
        const struct sc_embedded *e = &sc_embedded[i];
        if (!sc_emit_needs(plan, e->path))
            continue;
        rc = sc_folder_write(folder, e->path, e->bytes, e->size, err);
    }
    return rc;
}
