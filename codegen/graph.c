/* graph.c - sc_config -> sc_graph: the frame around a family's builder; text and print. */
#include "graph.h"

#include <assert.h>
#include <string.h>

#include "families.h"
#include "graph_build.h"
#include "template.h"

const sc_attention *sc_layer_attention(const sc_graph *graph, int layer) {
    const sc_op_list *list = &graph->layer[layer];
    for (int i = 0; i < list->ops; i++)
        if (list->op[i].kind == SC_OP_ATTENTION)
            return &list->op[i].attention;
    return NULL;
}

const sc_weight *sc_op_weight(const sc_op *op, int i) {
    const sc_weight *w[SC_OP_WEIGHTS] = { NULL };
    if (op->kind == SC_OP_ROW) {
        w[0] = op->row.w;
        w[1] = op->row.w2;
    } else if (op->kind == SC_OP_LINEAR) {
        w[0] = op->linear.w;
        w[1] = op->linear.bias;
    } else if (op->kind == SC_OP_ATTENTION) {
        w[0] = op->attention.q_norm;
        w[1] = op->attention.k_norm;
        w[2] = op->attention.sinks;
    } else if (op->kind == SC_OP_EXPERTS) {
        w[0] = op->experts.gate_up;
        w[1] = op->experts.down;
        w[2] = op->experts.gate_up_bias;
        w[3] = op->experts.down_bias;
    } else if (op->kind == SC_OP_CONV) {
        w[0] = op->conv.w;
        w[1] = op->conv.bias;
    } else if (op->kind == SC_OP_STATE_SPACE) {
        w[0] = op->state_space.a_log;
        w[1] = op->state_space.d;
        w[2] = op->state_space.dt_bias;
    } else if (op->kind == SC_OP_DELTA_RULE) {
        w[0] = op->delta_rule.a_log;
        w[1] = op->delta_rule.dt_bias;
    }
    for (int k = 0; k < SC_OP_WEIGHTS; k++)
        if (w[k] && !i--)
            return w[k];
    return NULL;
}

bool sc_list_has_before(const sc_op_list *list, int op, const sc_weight *weight) {
    for (int i = 0; i < op; i++)
        for (int k = 0; sc_op_weight(&list->op[i], k); k++)
            if (sc_op_weight(&list->op[i], k) == weight)
                return true;
    return false;
}

/* ---- whose buffer is read by what ---- */

static void mark_floats(sc_graph *g, sc_span span) {
    if (span.value >= 0)
        g->value[span.value].floats = true;
}

static void mark_list(sc_graph *g, const sc_op_list *list) {
    for (int i = 0; i < list->ops; i++) {
        const sc_op *op = &list->op[i];
        if (op->kind == SC_OP_ROW) {
            mark_floats(g, op->row.a);
            mark_floats(g, op->row.b);
            mark_floats(g, op->row.out); /* its function writes floats */
        } else if (op->kind == SC_OP_LINEAR) {
            g->value[op->linear.x.value].operand = true;
            if (op->linear.add)
                mark_floats(g, op->linear.y);
        } else if (op->kind == SC_OP_ATTENTION) {
            mark_floats(g, op->attention.q);
            mark_floats(g, op->attention.k);
            mark_floats(g, op->attention.v);
            if (op->attention.latent)
                mark_floats(g, op->attention.q_rope);
        } else if (op->kind == SC_OP_EXPERTS) {
            if (op->experts.weigh_input)
                mark_floats(g, op->experts.x);
            else
                g->value[op->experts.x.value].operand = true;
            mark_floats(g, op->experts.route);
            mark_floats(g, op->experts.out);
        } else if (op->kind == SC_OP_CONV) {
            mark_floats(g, op->conv.x);
            mark_floats(g, op->conv.y);
        } else if (op->kind == SC_OP_INDEX) {
            mark_floats(g, op->index.q);
            mark_floats(g, op->index.k);
            mark_floats(g, op->index.weights);
        } else if (op->kind == SC_OP_DELTA_RULE) {
            const sc_delta_rule *d = &op->delta_rule;
            const sc_span spans[] = { d->q, d->k, d->v, d->y, d->a, d->b };
            for (int k = 0; k < 6; k++)
                mark_floats(g, spans[k]);
        } else {
            const sc_state_space *s = &op->state_space;
            const sc_span spans[] = { s->x, s->dt, s->b, s->c, s->y };
            for (int k = 0; k < 5; k++)
                mark_floats(g, spans[k]);
        }
    }
}

static void mark_values(sc_graph *g) {
    mark_floats(g, g->embedded);
    mark_list(g, &g->first);
    for (int i = 0; i < g->layers; i++)
        mark_list(g, &g->layer[i]);
    mark_list(g, &g->last);
    g->value[g->head_in.value].operand = true;
}

/* A layer's weights are members of one struct: no two of one name. */
static void assert_fields(const sc_op_list *list) {
    for (int i = 0; i < list->ops; i++)
        for (int k = 0; sc_op_weight(&list->op[i], k); k++)
            for (int j = 0; j <= i; j++)
                for (int l = 0; sc_op_weight(&list->op[j], l); l++) {
                    const sc_weight *a = sc_op_weight(&list->op[i], k);
                    const sc_weight *b = sc_op_weight(&list->op[j], l);
                    assert(a == b || strcmp(a->field, b->field));
                    (void)a;
                    (void)b;
                }
}

/* ---- parameters ---- */

/* Each multiplication and sum checked. */
typedef struct {
    long long total;
    int rc;
    sc_error *err;
} counter;

static void count_weight(counter *c, const sc_weight *w) {
    for (int i = 0; w && i < w->blocks * w->parts; i++) {
        long long product = 0;
        if (!w->part[i].tensor)
            continue;
        if (!c->rc)
            c->rc = sc_mul(&product, w->part[i].rows, w->in, w->part[i].tensor, c->err);
        if (!c->rc && __builtin_add_overflow(c->total, product, &c->total))
            c->rc = sc_fail(c->err, SC_EINPUT, "%s: the model's parameters overflow",
                            w->part[i].tensor);
    }
}

static void count_list(counter *c, const sc_op_list *list) {
    for (int i = 0; i < list->ops; i++)
        for (int k = 0; sc_op_weight(&list->op[i], k); k++)
            if (!sc_list_has_before(list, i, sc_op_weight(&list->op[i], k)))
                count_weight(c, sc_op_weight(&list->op[i], k));
}

static int parameters(long long *total, const sc_graph *graph, sc_error *err) {
    counter c = { .err = err };
    count_weight(&c, graph->embed_tokens);
    count_list(&c, &graph->first);
    for (int i = 0; i < graph->layers; i++)
        count_list(&c, &graph->layer[i]);
    count_list(&c, &graph->last);
    count_weight(&c, graph->lm_head);
    count_weight(&c, graph->lm_head_bias);
    if (!c.rc)
        *total = c.total;
    return c.rc;
}

/* The widths that builders multiply before any is checked. */
static int check_widths(const sc_config *config, sc_error *err) {
    long long width;
    int rc = SC_OK;
    for (int64_t i = 0; i < config->num_hidden_layers && !rc; i++) {
        rc = sc_mul(&width, config->num_attention_heads, config->layer[i].head_dim, "q_proj", err);
        if (!rc)
            rc =
                sc_mul(&width, config->layer[i].kv_heads, config->layer[i].head_dim, "k_proj", err);
    }
    return rc;
}

int sc_graph_make(sc_graph **graph, sc_pool *pool, const sc_config *config, sc_error *err) {
    if (config->unsupported)
        return sc_fail(err, SC_EINPUT, "%s", config->unsupported);
    sc_graph *g = sc_pool_alloc(pool, 1, sizeof *g);
    const size_t layers = (size_t)config->num_hidden_layers;
    sc_op_list *layer = sc_pool_alloc(pool, layers, sizeof *layer);
    if (!g || !layer)
        return sc_oom(err, "building the graph");
    g->family = config->model_type;
    g->vocab = config->vocab_size;
    g->hidden = config->hidden_size;
    g->layers = (int)layers;
    g->layer = layer;
    g->tied = config->tie_word_embeddings;
    g->logits_scale = 1;
    sc_builder b = { .graph = g, .pool = pool, .config = config, .root = "", .layer = -1 };
    b.ops = &g->first;
    b.norm.eps = (float)config->rms_norm_eps;
    b.err = err;
    b.rc = check_widths(config, err);
    if (!b.rc)
        config->family->build(&b);
    long long total = 0;
    if (!b.rc)
        mark_values(g);
    for (int i = 0; i < g->layers && !b.rc; i++)
        assert_fields(&g->layer[i]);
    const int rc = b.rc ? b.rc : parameters(&total, g, err);
    if (!rc)
        *graph = g;
    return rc;
}

/* ---- text ---- */

static const char *const acts[SC_ACTS] = { "none", "silu", "gelu", "gelu_pytorch_tanh",
                                           "relu", "relu2" };

static const char *const rows[SC_ROWS] = {
    [SC_ROW_RMS_NORM] = "rms_norm",
    [SC_ROW_LAYER_NORM] = "layer_norm",
    [SC_ROW_ADD] = "add",
    [SC_ROW_MULTIPLY] = "multiply",
    [SC_ROW_SCALE] = "scale",
    [SC_ROW_LOOKUP] = "lookup",
    [SC_ROW_ROUTE] = "route",
    [SC_ROW_ROPE_PAIRS] = "rope_pairs",
    [SC_ROW_ROPE] = "rope",
    [SC_ROW_TANH] = "tanh",
    [SC_ROW_MAGNITUDE] = "magnitude",
    [SC_ROW_PREDICT] = "predict",
    [SC_ROW_CORRECT] = "correct",
    [SC_ROW_SPARSE_GATE] = "sparse_gate",
    [SC_ROW_POSITION] = "position",
    [SC_ROW_TEMPERATURE] = "temperature",
    [SC_ROW_TIMES] = "times",
    [SC_ROW_SILU_GATE] = "silu_gate",
    [SC_ROW_SIGMOID_GATE] = "sigmoid_gate",
};

static const char *span_text(sc_pool *pool, const sc_graph *g, sc_span s) {
    if (s.value < 0)
        return "-";
    const char *text = g->value[s.value].name;
    if (s.at)
        text = sc_pool_printf(pool, "%s + %lld", text, (long long)s.at);
    if (s.step && text)
        text = sc_pool_printf(pool, "%s + layer * %lld", text, (long long)s.step);
    return text ? text : "";
}

static const char *real_text(char text[SC_FLOAT_LITERAL], float number) {
    sc_float_literal(text, number);
    text[strlen(text) - 1] = 0; /* the f */
    return text;
}

static const char *row_text(sc_pool *pool, const sc_graph *g, const sc_row_op *r) {
    char f0[SC_FLOAT_LITERAL], f1[SC_FLOAT_LITERAL];
    const char *text = sc_pool_printf(pool, "%s = %s %s", span_text(pool, g, r->out), rows[r->kind],
                                      span_text(pool, g, r->a));
    if (r->b.value >= 0 && text)
        text = sc_pool_printf(pool, "%s, %s", text, span_text(pool, g, r->b));
    if (r->rope >= 0 && text)
        text = sc_pool_printf(pool, "%s, rope %d", text, r->rope);
    if (r->act && text)
        text = sc_pool_printf(pool, "%s, %s", text, acts[r->act]);
    for (int i = 0; i < 6 && text; i++)
        if (r->n[i])
            text = sc_pool_printf(pool, "%s%s%lld", text, i && r->n[i - 1] ? " x " : ", ",
                                  (long long)r->n[i]);
    if (text && r->f[1] != 0)
        text = sc_pool_printf(pool, "%s, factors %s and %s", text, real_text(f0, r->f[0]),
                              real_text(f1, r->f[1]));
    else if (text && r->f[0] != 0)
        text =
            sc_pool_printf(pool, "%s, %s %s", text, r->kind <= SC_ROW_LAYER_NORM ? "eps" : "factor",
                           real_text(f0, r->f[0]));
    return text;
}

static const char *linear_text(sc_pool *pool, const sc_graph *g, const sc_linear *l) {
    char scale[SC_FLOAT_LITERAL];
    const char *text =
        sc_pool_printf(pool, "%s %s %s%s %s [%lld, %lld]", span_text(pool, g, l->y),
                       l->add ? "+=" : "=", l->gated ? "gated_linear " : "linear ", l->w->field,
                       span_text(pool, g, l->x), (long long)l->out, (long long)l->in);
    if (l->w->blocks > 1 && text)
        text = sc_pool_printf(pool, "%s of each %lld, to each %lld, %d times", text,
                              (long long)l->x_step, (long long)l->y_step, l->w->blocks);
    if (l->bias && text)
        text = sc_pool_printf(pool, "%s, bias", text);
    if (l->act && text)
        text = sc_pool_printf(pool, "%s, %s", text, acts[l->act]);
    if (l->scale < 1 || l->scale > 1)
        text = sc_pool_printf(pool, "%s, times %s", text, real_text(scale, l->scale));
    return text;
}

static const char *attention_text(sc_pool *pool, const sc_graph *g, const sc_attention *a) {
    char real[SC_FLOAT_LITERAL];
    const char *text = sc_pool_printf(
        pool, "%s = attention %s %s: heads %lld, kv_heads %lld, head_dim %lld",
        span_text(pool, g, a->out), sc_layer_type_name(a->type), span_text(pool, g, a->q),
        (long long)a->heads, (long long)a->kv_heads, (long long)a->head_dim);
    if (a->v_head_dim != a->head_dim && text)
        text = sc_pool_printf(pool, "%s, v_head_dim %lld", text, (long long)a->v_head_dim);
    if (text)
        text = sc_pool_printf(pool, "%s, scale %s", text, real_text(real, a->scale));
    if (a->window && text)
        text = sc_pool_printf(pool, "%s, %s %lld", text, a->chunked ? "chunk" : "window",
                              (long long)a->window);
    if (a->softcap > 0 && text)
        text = sc_pool_printf(pool, "%s, softcap %s", text, real_text(real, a->softcap));
    if (a->alibi && text)
        text = sc_pool_printf(pool, "%s, alibi", text);
    if (a->sinks && text)
        text = sc_pool_printf(pool, "%s, sinks", text);
    if (a->q_norm && text)
        text = sc_pool_printf(pool, "%s, q_norm%s eps %s", text, a->k_norm ? " and k_norm" : "",
                              real_text(real, a->norm_eps));
    if (a->latent && text)
        text = sc_pool_printf(pool, "%s, latent, with %s", text, span_text(pool, g, a->q_rope));
    if (a->indexed && text)
        text = sc_pool_printf(pool, "%s, indexed", text);
    if (a->k.value < 0 && text)
        text = sc_pool_printf(pool, "%s, of another layer's keys and values", text);
    if (a->rope >= 0 && text)
        text = sc_pool_printf(pool, "%s, rope %d", text, a->rope);
    return text;
}

static const char *experts_text(sc_pool *pool, const sc_graph *g, const sc_experts *e) {
    char alpha[SC_FLOAT_LITERAL], limit[SC_FLOAT_LITERAL];
    const char *text = sc_pool_printf(
        pool, "%s %s %sexperts %s by %s%s: %lld of %lld, ffn %lld", span_text(pool, g, e->out),
        e->add ? "+=" : "=", e->plain ? "plain " : "", span_text(pool, g, e->x),
        span_text(pool, g, e->route), e->weigh_input ? ", which weighs it" : "",
        (long long)e->top_k, (long long)e->experts, (long long)e->ffn);
    if (e->gate_up_bias && text)
        text = sc_pool_printf(pool, "%s, bias", text);
    if (!text || e->limit <= 0)
        return text ? sc_pool_printf(pool, "%s, %s", text, acts[e->act]) : NULL;
    return sc_pool_printf(pool, "%s, sigmoid of %s gate, limit %s", text,
                          real_text(alpha, e->alpha), real_text(limit, e->limit));
}

static const char *conv_text(sc_pool *pool, const sc_graph *g, const sc_conv *c) {
    const char *text =
        sc_pool_printf(pool, "%s = conv %s: channels %lld, columns %lld%s",
                       span_text(pool, g, c->y), span_text(pool, g, c->x), (long long)c->channels,
                       (long long)c->columns, c->bias ? ", bias" : "");
    return c->act && text ? sc_pool_printf(pool, "%s, %s", text, acts[c->act]) : text;
}

static const char *state_space_text(sc_pool *pool, const sc_graph *g, const sc_state_space *s) {
    char least[SC_FLOAT_LITERAL], most[SC_FLOAT_LITERAL];
    const char *text = sc_pool_printf(
        pool, "%s = state_space %s, dt %s, B %s, C %s: heads %lld, head_dim %lld, groups %lld",
        span_text(pool, g, s->y), span_text(pool, g, s->x), span_text(pool, g, s->dt),
        span_text(pool, g, s->b), span_text(pool, g, s->c), (long long)s->heads,
        (long long)s->head_dim, (long long)s->groups);
    if (text)
        text = sc_pool_printf(pool, "%s, state_size %lld%s%s", text, (long long)s->state_size,
                              s->a_log && s->a_log->in > 1 ? ", A per element" : "",
                              s->dt_bias ? ", dt_bias" : "");
    if (text && s->dt_least > 0)
        text = sc_pool_printf(pool, "%s, dt from %s", text, real_text(least, s->dt_least));
    if (text && s->dt_most > 0)
        text = sc_pool_printf(pool, "%s, dt to %s", text, real_text(most, s->dt_most));
    return text;
}

static const char *index_text(sc_pool *pool, const sc_graph *g, const sc_index *x) {
    return sc_pool_printf(pool, "index %s, key %s, weights %s: heads %lld, dim %lld, top_k %lld",
                          span_text(pool, g, x->q), span_text(pool, g, x->k),
                          span_text(pool, g, x->weights), (long long)x->heads, (long long)x->dim,
                          (long long)x->top_k);
}

static const char *delta_rule_text(sc_pool *pool, const sc_graph *g, const sc_delta_rule *d) {
    return sc_pool_printf(
        pool,
        "%s = delta_rule q %s, k %s, v %s, a %s, b %s: heads %lld, key_heads %lld, key_dim %lld, "
        "value_dim %lld",
        span_text(pool, g, d->y), span_text(pool, g, d->q), span_text(pool, g, d->k),
        span_text(pool, g, d->v), span_text(pool, g, d->a), span_text(pool, g, d->b),
        (long long)d->heads, (long long)d->key_heads, (long long)d->key_dim,
        (long long)d->value_dim);
}

const char *sc_op_text(sc_pool *pool, const sc_graph *graph, const sc_op *op) {
    if (op->kind == SC_OP_ROW)
        return row_text(pool, graph, &op->row);
    if (op->kind == SC_OP_LINEAR)
        return linear_text(pool, graph, &op->linear);
    if (op->kind == SC_OP_ATTENTION)
        return attention_text(pool, graph, &op->attention);
    if (op->kind == SC_OP_EXPERTS)
        return experts_text(pool, graph, &op->experts);
    if (op->kind == SC_OP_CONV)
        return conv_text(pool, graph, &op->conv);
    if (op->kind == SC_OP_INDEX)
        return index_text(pool, graph, &op->index);
    if (op->kind == SC_OP_DELTA_RULE)
        return delta_rule_text(pool, graph, &op->delta_rule);
    return state_space_text(pool, graph, &op->state_space);
}

/* ---- print ---- */

static void print_weight(FILE *out, const sc_weight *w) {
    for (int i = 0; w && i < w->blocks * w->parts; i++) {
        const sc_part *p = &w->part[i];
        if (!p->tensor)
            continue;
        fprintf(out, "        %s [", p->tensor);
        for (int k = 0; k < p->rank; k++)
            fprintf(out, "%s%lld", k ? ", " : "", (long long)p->shape[k]);
        fputs("]\n", out);
    }
}

static void print_list(FILE *out, sc_pool *pool, const sc_graph *graph, const sc_op_list *list) {
    for (int i = 0; i < list->ops; i++) {
        const char *text = sc_op_text(pool, graph, &list->op[i]);
        fprintf(out, "    %s\n", text ? text : "");
        for (int k = 0; sc_op_weight(&list->op[i], k); k++)
            print_weight(out, sc_op_weight(&list->op[i], k));
    }
}

void sc_graph_print(FILE *out, const sc_graph *graph, const sc_config *config) {
    long long total = 0;
    sc_pool *pool = sc_pool_create();
    (void)parameters(&total, graph, NULL); /* make has checked it */
    fprintf(out, "graph %s (%s)\n", graph->family, config->dtype);
    for (int i = 0; i < graph->ropes; i++)
        fprintf(out, "rope %d: %s, rotary_dim %lld\n", i, graph->rope[i].rope_type,
                (long long)graph->rope[i].rotary_dim);
    fprintf(out, "embed_tokens\n        %s [%lld, %lld]\n", graph->embed_name,
            (long long)graph->vocab, (long long)graph->hidden);
    print_list(out, pool, graph, &graph->first);
    for (int i = 0; i < graph->layers; i++) {
        fprintf(out, "layer %d\n", i);
        print_list(out, pool, graph, &graph->layer[i]);
    }
    fputs("last\n", out);
    print_list(out, pool, graph, &graph->last);
    fprintf(out, "lm_head%s\n", graph->tied ? " (tied)" : "");
    print_weight(out, graph->lm_head);
    print_weight(out, graph->lm_head_bias);
    fprintf(out, "parameters: %lld\n", total);
    sc_pool_destroy(pool);
}
