/* graph.c - sc_config -> sc_graph: the common frame, the parts builders share, the print. */
#include "graph.h"

#include <math.h>
#include <string.h>

#include "families.h"
#include "graph_build.h"

static const double pi = 3.14159265358979323846;

/* Frequency of llama3: long waves are stretched by factor, short ones kept, between them a blend.
 * transformers modeling_rope_utils.py, _compute_llama3_parameters. */
static double llama3_freq(double freq, const sc_config *config) {
    const double factor = config->rope.factor;
    const double low = config->rope.low_freq_factor, high = config->rope.high_freq_factor;
    const double context = (double)config->rope.original_max_position_embeddings;
    const double wavelen = 2 * pi / freq;
    if (wavelen < context / high)
        return freq;
    if (wavelen > context / low)
        return freq / factor;
    const double smooth = (context / wavelen - low) / (high - low);
    return (1 - smooth) * freq / factor + smooth * freq;
}

/* In double, rounded once. */
static float inv_freq(const sc_config *config, int64_t i) {
    double freq = pow(config->rope.rope_theta, -2.0 * (double)i / (double)config->head_dim);
    if (!strcmp(config->rope.rope_type, "linear"))
        freq /= config->rope.factor;
    else if (!strcmp(config->rope.rope_type, "llama3"))
        freq = llama3_freq(freq, config);
    if (config->rope.freq_factors)
        freq /= (double)config->rope.freq_factor[i];
    return (float)freq;
}

static bool same_rope(const sc_rope *a, const sc_rope *b) {
    return a->rotary_dim == b->rotary_dim &&
           memcmp(&a->attention_factor, &b->attention_factor, sizeof(float)) == 0 &&
           memcmp(a->inv_freq, b->inv_freq, sizeof(float) * (size_t)a->rotary_dim / 2) == 0;
}

int sc_graph_rope(int *index, sc_graph *graph, sc_pool *pool, const sc_config *config,
                  sc_error *err) {
    const int64_t pairs = config->head_dim / 2;
    float *freq = sc_pool_alloc(pool, (size_t)pairs, sizeof *freq);
    sc_rope *ropes = sc_pool_alloc(pool, (size_t)graph->ropes + 1, sizeof *ropes);
    if (!freq || !ropes)
        return sc_oom(err, "building the graph");
    for (int64_t i = 0; i < pairs; i++)
        freq[i] = inv_freq(config, i);
    const sc_rope rope = { config->rope.rope_type, config->rope.rope_theta, 2 * pairs, freq, 1.0f };
    for (int i = 0; i < graph->ropes; i++)
        if (same_rope(&graph->rope[i], &rope)) {
            *index = i;
            return SC_OK;
        }
    if (graph->ropes)
        memcpy(ropes, graph->rope, (size_t)graph->ropes * sizeof *ropes);
    ropes[graph->ropes] = rope;
    graph->rope = ropes;
    *index = graph->ropes++;
    return SC_OK;
}

/* A layer's tensors by name; out of memory is remembered. */
typedef struct {
    sc_pool *pool;
    int layer;
    bool failed;
} namer;

static const char *name(namer *n, const char *module, const char *kind) {
    const char *text = sc_pool_printf(n->pool, "model.layers.%d.%s.%s", n->layer, module, kind);
    n->failed |= !text;
    return text;
}

static sc_linear linear(namer *n, const char *module, int64_t in, int64_t out, bool bias) {
    return (sc_linear){ name(n, module, "weight"), bias ? name(n, module, "bias") : NULL, in, out };
}

static sc_op norm(namer *n, const char *module, const sc_config *config) {
    return (sc_op){ .kind = SC_OP_NORM,
                    .norm = { name(n, module, "weight"), config->hidden_size,
                              (float)config->rms_norm_eps } };
}

static sc_op attention(namer *n, const sc_config *config, const sc_decoder_shape *shape,
                       int64_t q_width, int64_t kv_width, int rope) {
    const sc_layer_config *layer = &config->layer[n->layer];
    const int64_t hidden = config->hidden_size, head_dim = layer->head_dim;
    const float eps = (float)config->rms_norm_eps;
    sc_attention a = {
        .type = layer->type,
        .heads = config->num_attention_heads,
        .kv_heads = layer->kv_heads,
        .head_dim = head_dim,
        .v_head_dim = layer->v_head_dim,
        .window = layer->window,
        .scale = (float)(1 / sqrt((double)head_dim)),
        .rope = rope,
    };
    a.q_proj = linear(n, "self_attn.q_proj", hidden, q_width, shape->qkv_bias);
    a.k_proj = linear(n, "self_attn.k_proj", hidden, kv_width, shape->qkv_bias);
    a.v_proj = linear(n, "self_attn.v_proj", hidden, kv_width, shape->qkv_bias);
    a.o_proj = linear(n, "self_attn.o_proj", q_width, hidden, shape->o_bias);
    if (shape->qk_norm) {
        a.q_norm = (sc_norm){ name(n, "self_attn.q_norm", "weight"), head_dim, eps };
        a.k_norm = (sc_norm){ name(n, "self_attn.k_norm", "weight"), head_dim, eps };
    }
    return (sc_op){ .kind = SC_OP_ATTENTION, .attention = a };
}

static sc_activation activation(const char *hidden_act) {
    if (!strcmp(hidden_act, "gelu"))
        return SC_ACT_GELU;
    return strcmp(hidden_act, "gelu_pytorch_tanh") ? SC_ACT_SILU : SC_ACT_GELU_TANH;
}

static sc_op gated_mlp(namer *n, const sc_config *config, const sc_decoder_shape *shape) {
    const int64_t hidden = config->hidden_size, ffn = config->intermediate_size;
    sc_gated_mlp m = { .act = activation(config->hidden_act), .ffn = ffn };
    m.gate_proj = linear(n, "mlp.gate_proj", hidden, ffn, shape->mlp_bias);
    m.up_proj = linear(n, "mlp.up_proj", hidden, ffn, shape->mlp_bias);
    m.down_proj = linear(n, "mlp.down_proj", ffn, hidden, shape->mlp_bias);
    return (sc_op){ .kind = SC_OP_GATED_MLP, .gated_mlp = m };
}

int sc_graph_decoder(sc_graph *graph, sc_pool *pool, const sc_config *config,
                     const sc_decoder_shape *shape, sc_error *err) {
    long long q_width = 0, kv_width = 0;
    int rope = -1;
    int rc = sc_mul(&q_width, config->num_attention_heads, config->head_dim, "q_proj", err);
    if (!rc)
        rc = sc_mul(&kv_width, config->num_key_value_heads, config->head_dim, "k_proj", err);
    if (!rc)
        rc = sc_graph_rope(&rope, graph, pool, config, err);
    if (rc)
        return rc;
    namer n = { .pool = pool };
    for (; n.layer < graph->layers; n.layer++) {
        sc_op *op = sc_pool_alloc(pool, 6, sizeof *op);
        if (!op)
            return sc_oom(err, "building the graph");
        op[0] = norm(&n, "input_layernorm", config);
        op[1] = attention(&n, config, shape, q_width, kv_width, rope);
        op[2] = (sc_op){ .kind = SC_OP_RESIDUAL };
        op[3] = norm(&n, "post_attention_layernorm", config);
        op[4] = gated_mlp(&n, config, shape);
        op[5] = (sc_op){ .kind = SC_OP_RESIDUAL };
        graph->layer[n.layer] = (sc_layer){ 6, op, &op[1].attention };
    }
    return n.failed ? sc_oom(err, "building the graph") : SC_OK;
}

/* Parameters, each multiplication and sum checked. */
typedef struct {
    long long total;
    int rc;
    sc_error *err;
} counter;

static void count(counter *c, const char *what, int64_t rows, int64_t columns) {
    long long product = 0;
    if (!c->rc)
        c->rc = sc_mul(&product, rows, columns, what, c->err);
    if (!c->rc && __builtin_add_overflow(c->total, product, &c->total))
        c->rc = sc_fail(c->err, SC_EINPUT, "%s: the model's parameters overflow", what);
}

static void count_linear(counter *c, const sc_linear *l) {
    count(c, l->weight, l->out, l->in);
    if (l->bias)
        count(c, l->bias, l->out, 1);
}

static void count_norm(counter *c, const sc_norm *n) {
    if (n->weight)
        count(c, n->weight, n->width, 1);
}

static void count_op(counter *c, const sc_op *op) {
    if (op->kind == SC_OP_NORM)
        count_norm(c, &op->norm);
    if (op->kind == SC_OP_ATTENTION) {
        const sc_attention *a = &op->attention;
        count_linear(c, &a->q_proj);
        count_linear(c, &a->k_proj);
        count_linear(c, &a->v_proj);
        count_linear(c, &a->o_proj);
        count_norm(c, &a->q_norm);
        count_norm(c, &a->k_norm);
    }
    if (op->kind == SC_OP_GATED_MLP) {
        count_linear(c, &op->gated_mlp.gate_proj);
        count_linear(c, &op->gated_mlp.up_proj);
        count_linear(c, &op->gated_mlp.down_proj);
    }
}

static int parameters(long long *total, const sc_graph *graph, sc_error *err) {
    counter c = { .err = err };
    count(&c, graph->embed_tokens, graph->vocab, graph->hidden);
    for (int i = 0; i < graph->layers; i++)
        for (int k = 0; k < graph->layer[i].ops; k++)
            count_op(&c, &graph->layer[i].op[k]);
    count_norm(&c, &graph->norm);
    if (!graph->tied)
        count_linear(&c, &graph->lm_head);
    if (!c.rc)
        *total = c.total;
    return c.rc;
}

int sc_graph_make(sc_graph **graph, sc_pool *pool, const sc_config *config, sc_error *err) {
    if (config->unsupported)
        return sc_fail(err, SC_EINPUT, "%s", config->unsupported);
    sc_graph *g = sc_pool_alloc(pool, 1, sizeof *g);
    const size_t layers = (size_t)config->num_hidden_layers;
    sc_layer *layer = sc_pool_alloc(pool, layers, sizeof *layer);
    if (!g || !layer)
        return sc_oom(err, "building the graph");
    const int64_t hidden = config->hidden_size, vocab = config->vocab_size;
    g->family = config->model_type;
    g->vocab = vocab;
    g->hidden = hidden;
    g->layers = (int)layers;
    g->layer = layer;
    g->tied = config->tie_word_embeddings;
    g->embed_tokens = "model.embed_tokens.weight";
    g->norm = (sc_norm){ "model.norm.weight", hidden, (float)config->rms_norm_eps };
    g->lm_head = (sc_linear){ g->tied ? g->embed_tokens : "lm_head.weight", NULL, hidden, vocab };
    long long total = 0;
    int rc = config->family->build(g, pool, config, err);
    if (!rc)
        rc = parameters(&total, g, err);
    if (!rc)
        *graph = g;
    return rc;
}

static void print_linear(FILE *out, const sc_linear *l) {
    fprintf(out, "        %s [%lld, %lld]\n", l->weight, (long long)l->out, (long long)l->in);
    if (l->bias)
        fprintf(out, "        %s [%lld]\n", l->bias, (long long)l->out);
}

static void print_weight(FILE *out, const sc_norm *n) {
    if (n->weight)
        fprintf(out, "        %s [%lld]\n", n->weight, (long long)n->width);
}

static void print_attention(FILE *out, const sc_attention *a) {
    fprintf(out, "    attention %s: heads %lld, kv_heads %lld, head_dim %lld",
            sc_layer_type_name(a->type), (long long)a->heads, (long long)a->kv_heads,
            (long long)a->head_dim);
    if (a->window)
        fprintf(out, ", window %lld", (long long)a->window);
    if (a->rope >= 0)
        fprintf(out, ", rope %d", a->rope);
    fputc('\n', out);
    print_linear(out, &a->q_proj);
    print_linear(out, &a->k_proj);
    print_linear(out, &a->v_proj);
    print_weight(out, &a->q_norm);
    print_weight(out, &a->k_norm);
    print_linear(out, &a->o_proj);
}

static void print_mlp(FILE *out, const sc_gated_mlp *m) {
    static const char *const act[] = { "silu", "gelu", "gelu_pytorch_tanh" };
    fprintf(out, "    gated_mlp %s: ffn %lld\n", act[m->act], (long long)m->ffn);
    print_linear(out, &m->gate_proj);
    print_linear(out, &m->up_proj);
    print_linear(out, &m->down_proj);
}

static void print_op(FILE *out, const sc_op *op) {
    switch (op->kind) {
    case SC_OP_NORM:
        fputs("    norm\n", out);
        print_weight(out, &op->norm);
        break;
    case SC_OP_ATTENTION:
        print_attention(out, &op->attention);
        break;
    case SC_OP_GATED_MLP:
        print_mlp(out, &op->gated_mlp);
        break;
    case SC_OP_RESIDUAL:
        fputs("    residual\n", out);
        break;
    }
}

void sc_graph_print(FILE *out, const sc_graph *graph, const sc_config *config) {
    long long total = 0;
    (void)parameters(&total, graph, NULL); /* make has checked it */
    const long long vocab = graph->vocab, hidden = graph->hidden;
    fprintf(out, "graph %s (%s)\n", graph->family, config->dtype);
    for (int i = 0; i < graph->ropes; i++)
        fprintf(out, "rope %d: %s, rotary_dim %lld\n", i, graph->rope[i].rope_type,
                (long long)graph->rope[i].rotary_dim);
    fprintf(out, "embed_tokens\n        %s [%lld, %lld]\n", graph->embed_tokens, vocab, hidden);
    for (int i = 0; i < graph->layers; i++) {
        fprintf(out, "layer %d\n", i);
        for (int k = 0; k < graph->layer[i].ops; k++)
            print_op(out, &graph->layer[i].op[k]);
    }
    fputs("norm\n", out);
    print_weight(out, &graph->norm);
    fprintf(out, "lm_head%s\n", graph->tied ? " (tied)" : "");
    print_linear(out, &graph->lm_head);
    fprintf(out, "parameters: %lld\n", total);
}
