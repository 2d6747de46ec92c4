/* standin_graphs.c - capture of streams, and graphs that are replayed. */
#include <stdlib.h>
#include <string.h>

#include "standin_own.h"

struct CUgraphExec_st {
    graph graph;
};

/* Adds to what the stream captures, behind its last and `also` (-1: none). */
int standin_capture(CUstream stream, const work *w, int also) {
    graph *g = stream->capture;
    if (g->broken) {
        free(w->words);
        return ERROR_CAPTURE_INVALIDATED;
    }
    if (g->nodes == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        g->node = realloc(g->node, (size_t)g->room * sizeof *g->node);
    }
    int *before = malloc(2 * sizeof *before);
    if (!g->node || !before)
        abort();
    node *n = &g->node[g->nodes];
    *n = (node){ .work = *w, .before = before, .chain = stream->chain };
    if (stream->node >= 0)
        before[n->befores++] = stream->node;
    if (also >= 0)
        before[n->befores++] = also;
    stream->node = g->nodes++;
    return SUCCESS;
}

static uint64_t *copy_words(const work *w) {
    uint64_t *words = w->words ? malloc(w->count * 8 + 8) : NULL;
    if (words)
        memcpy(words, w->words, w->count * 8);
    return words;
}

static void free_nodes(graph *g) {
    for (int i = 0; i < g->nodes; i++) {
        free(g->node[i].before);
        free(g->node[i].work.words);
    }
    free(g->node);
}

API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    (void)mode;
    if (rc || stream->capture)
        return rc ? rc : ERROR_INVALID_VALUE;
    stream->capture = calloc(1, sizeof *stream->capture);
    if (!stream->capture)
        return ERROR_OUT_OF_MEMORY;
    stream->capture->origin = stream;
    stream->node = -1;
    return SUCCESS;
}

/* Is there a way from node `from` back to node `to`? */
static bool comes_after(const graph *g, int from, int to) {
    bool *seen = calloc((size_t)g->nodes + 1, sizeof *seen);
    if (!seen)
        abort();
    if (from >= 0)
        seen[from] = true;
    for (int i = from; i >= 0; i--) /* those before a node have lower numbers */
        for (int k = 0; seen[i] && k < g->node[i].befores; k++)
            seen[g->node[i].before[k]] = true;
    const bool found = to < 0 || seen[to];
    free(seen);
    return found;
}

API CUresult cuStreamEndCapture(CUstream stream, CUgraph *out) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    graph *g = stream->capture;
    *out = NULL;
    if (!g || g->origin != stream)
        return ERROR_INVALID_VALUE;
    bool joined = true;
    for (CUstream s = standin_streams; s; s = s->next)
        if (s->capture == g) {
            joined &= comes_after(g, stream->node, s->node);
            if (s != stream)
                s->capture = NULL;
        }
    stream->capture = NULL;
    if (rc || g->broken || !joined) {
        free_nodes(g);
        const int code = rc ? rc : g->broken ? ERROR_CAPTURE_INVALIDATED : ERROR_CAPTURE_UNJOINED;
        free(g);
        return code;
    }
    *out = g;
    standin_log.graphs++;
    return SUCCESS;
}

API CUresult cuGraphDestroy(CUgraph g) {
    free_nodes(g);
    free(g);
    standin_log.graphs--;
    return SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph g, unsigned long long flags) {
    const int rc = standin_enter(true, ERROR_OUT_OF_MEMORY);
    if (rc || flags)
        return rc ? rc : ERROR_INVALID_VALUE;
    CUgraphExec e = calloc(1, sizeof *e);
    node *nodes = calloc((size_t)g->nodes + 1, sizeof *nodes);
    if (!e || !nodes)
        abort();
    e->graph = *g;
    e->graph.node = nodes;
    for (int i = 0; i < g->nodes; i++) {
        nodes[i] = g->node[i];
        nodes[i].work.words = copy_words(&g->node[i].work);
        nodes[i].before = malloc(2 * sizeof(int));
        if (!nodes[i].before)
            abort();
        memcpy(nodes[i].before, g->node[i].before, (size_t)g->node[i].befores * sizeof(int));
    }
    *exec = e;
    standin_log.graph_execs++;
    return SUCCESS;
}

API CUresult cuGraphExecDestroy(CUgraphExec exec) {
    free_nodes(&exec->graph);
    free(exec);
    standin_log.graph_execs--;
    return SUCCESS;
}

/* Every node behind those that it was captured behind, the first ones behind what the stream has
 * so far, and the stream behind all. */
API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    const int rc = standin_enter(true, ERROR_UNKNOWN);
    const graph *g = &exec->graph;
    if (rc || stream->capture)
        return rc ? rc : ERROR_CAPTURE_UNSUPPORTED;
    op **ops = calloc((size_t)g->nodes + 1, sizeof(op *));
    if (!ops)
        return ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < g->nodes; i++) {
        const node *n = &g->node[i];
        op *before[3] = { n->befores ? NULL : stream->last };
        for (int k = 0; k < n->befores; k++)
            before[k] = ops[n->before[k]];
        work w = n->work;
        w.words = copy_words(&n->work);
        ops[i] = standin_add_after(before, 3, CHAINS / 2 + n->chain, &w);
    }
    const work nothing = { .kind = OP_NOTHING };
    ops[g->nodes] = stream->last;
    stream->last = standin_add_after(ops, g->nodes + 1, stream->chain, &nothing);
    free(ops);
    standin_log.graph_launches++;
    return SUCCESS;
}
