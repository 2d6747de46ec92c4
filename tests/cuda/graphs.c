/*
 * graphs.c - see driver.h: captures, and the graphs that they make.
 *
 * A capture has clocks of its own: a chain per stream that takes part. So what nothing orders
 * within a graph is found once, by the capture, and a launch is a single entry of the clock of its
 * stream.
 */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { GLOBAL = 0, RELAXED = 2, PRIORITY_KEPT = 8 };

typedef struct {
    work work;
    int chain;
    int before[2]; /* nodes that it comes after; -1: none */
    bool leaf;     /* none comes after it */
} node;

typedef struct {
    node *items;
    int count, room;
} node_list;

struct capture {
    uint64_t id;
    CUstream origin;
    pthread_t thread;
    int mode;
    bool invalid;
    node_list nodes;
    touch_list touches;
    capture *next;
};

struct CUgraph_st {
    object object;
    node_list nodes;
};

struct CUgraphExec_st {
    object object;
    node_list nodes;
    op_ref *ops;        /* of a launch, by node */
    op_ref last;        /* its last launch, which the next one comes after */
    vector_clock clock; /* after that */
};

static capture *captures;

static capture *find(uint64_t id) {
    capture *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

/* All its streams are as before. */
static void end(capture *ended) {
    capture **at = &captures;
    while (*at != ended)
        at = &(*at)->next;
    *at = ended->next;
    for (int i = 0; i < CHAINS; i++) {
        CUstream s = stream_of_chain(i);
        if (s && s->capture == ended)
            s->capture = NULL;
    }
    free(ended->nodes.items);
    free(ended->touches.items);
    free(ended);
}

void captures_reset(void) {
    while (captures)
        end(captures);
}

void capture_leave(CUstream stream) {
    capture *c = stream->capture;
    if (c && c->origin == stream)
        end(c);
    else if (c)
        c->invalid = true;
    stream->capture = NULL;
}

CUresult capture_forbid(void) {
    CUresult result = CUDA_SUCCESS;
    for (capture *c = captures; c; c = c->next)
        if (c->mode == GLOBAL || (c->mode != RELAXED && pthread_equal(c->thread, pthread_self()))) {
            c->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

static CUresult invalidate(capture *c, CUresult reason) {
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    c->invalid = true;
    return reason;
}

CUresult capture_forbid_on(CUstream stream) {
    return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* --- what a capture takes --- */

static int add_node(capture *c, CUstream s, const work *w, int other) {
    if (c->nodes.count == c->nodes.room) {
        const int room = c->nodes.room ? 2 * c->nodes.room : 32;
        node *items = realloc(c->nodes.items, (size_t)room * sizeof *items);
        if (!items)
            abort();
        c->nodes.items = items;
        c->nodes.room = room;
    }
    c->nodes.items[c->nodes.count] =
        (node){ .work = *w, .chain = s->chain, .before = { s->node, other }, .leaf = true };
    if (s->node >= 0)
        c->nodes.items[s->node].leaf = false;
    if (other >= 0)
        c->nodes.items[other].leaf = false;
    s->node = c->nodes.count;
    s->captured.at[s->chain]++;
    return c->nodes.count++;
}

CUresult capture_put(CUstream s, const work *w) {
    capture *c = s->capture;
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    add_node(c, s, w, -1);
    for (int i = 0; i < w->ranges; i++) {
        const touch now = { w->range[i], s->chain, s->captured.at[s->chain], w->what };
        races_add(&c->touches, &now, &s->captured, NULL);
    }
    return CUDA_SUCCESS;
}

CUresult capture_record(CUstream s, CUevent e) {
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    e->recorded = true;
    e->capture = s->capture->id;
    e->node = s->node;
    e->clock = s->captured;
    return CUDA_SUCCESS;
}

/* The stream comes into the event's capture, or two branches of it meet. */
static CUresult join(CUstream s, CUevent e, capture *c) {
    if (!s->capture) {
        s->capture = c;
        s->node = e->node;
        s->captured = e->clock;
    } else if (e->node >= 0 && e->node != s->node) {
        const work nothing = { .kind = NOTHING, .what = "cuStreamWaitEvent" };
        add_node(c, s, &nothing, e->node);
        clock_merge(&s->captured, &e->clock);
    }
    return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream s, CUevent e) {
    capture *c = e->capture ? find(e->capture) : NULL;
    if (s->capture && s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!s->capture && !c)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!c)
        return e->recorded ? invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                           : CUDA_SUCCESS;
    if (s->capture && s->capture != c) {
        invalidate(c, 0);
        return invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    return c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : join(s, e, c);
}

/* --- begin and end --- */

CUresult cuStreamBeginCapture(CUstream s, int mode) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result)
        result = object_check(s, STREAM);
    if (!result && (mode < GLOBAL || mode > RELAXED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && s->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    capture *c = result ? NULL : calloc(1, sizeof *c);
    if (!result && !c)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        c->id = ++driver.next_id;
        c->origin = s;
        c->thread = pthread_self();
        c->mode = mode;
        c->next = captures;
        captures = c;
        s->capture = c;
        s->node = -1;
        memset(&s->captured, 0, sizeof s->captured);
    }
    return driver_leave(result);
}

/* Whether all that was captured comes before the end of the stream. */
static bool is_joined(const capture *c, CUstream end_of) {
    for (int i = 0; i < CHAINS; i++) {
        CUstream s = stream_of_chain(i);
        if (s && s->capture == c && s->captured.at[i] > end_of->captured.at[i])
            return false;
    }
    return true;
}

static void drop_graph(object *self) { free(((CUgraph)self)->nodes.items); }

static CUresult end_capture(CUstream s, CUgraph *out) {
    capture *c = s->capture;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != RELAXED && !pthread_equal(c->thread, pthread_self()))
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult result = c->invalid        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : is_joined(c, s) ? CUDA_SUCCESS
                                        : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    CUgraph graph = result ? NULL : object_create(GRAPH, sizeof *graph, drop_graph);
    if (!result && !graph)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        graph->nodes = c->nodes;
        c->nodes = (node_list){ NULL, 0, 0 };
    }
    end(c);
    *out = graph;
    return result;
}

/* The capture ends with a failure too, as it does when the driver fails. */
CUresult cuStreamEndCapture(CUstream s, CUgraph *graph) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    const CUresult checked = object_check(s, STREAM);
    if (result && !checked && s->capture && s->capture->origin == s)
        end(s->capture);
    if (!result)
        result = graph ? checked : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = end_capture(s, graph);
    return driver_leave(result);
}

CUresult cuGraphDestroy(CUgraph graph) {
    CUresult result = driver_enter(__func__, CONTEXT);
    if (!result)
        result = object_check(graph, GRAPH);
    if (!result)
        object_destroy(&graph->object);
    return driver_leave(result);
}

/* --- launches --- */

static void drop_exec(object *self) {
    free(((CUgraphExec)self)->nodes.items);
    free(((CUgraphExec)self)->ops);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result)
        result = out && !flags ? object_check(graph, GRAPH) : CUDA_ERROR_INVALID_VALUE;
    CUgraphExec exec = result ? NULL : object_create(EXEC, sizeof *exec, drop_exec);
    if (!result && !exec)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        const int count = graph->nodes.count;
        exec->nodes = (node_list){ NULL, count, count };
        exec->nodes.items = calloc((size_t)count + 1, sizeof *exec->nodes.items);
        exec->ops = calloc((size_t)count + 1, sizeof *exec->ops);
        if (!exec->nodes.items || !exec->ops)
            abort();
        if (count)
            memcpy(exec->nodes.items, graph->nodes.items, (size_t)count * sizeof(node));
        *out = exec;
    }
    return driver_leave(result);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult result = driver_enter(__func__, CONTEXT);
    if (!result)
        result = object_check(exec, EXEC);
    if (!result)
        object_destroy(&exec->object);
    return driver_leave(result);
}

/* The nodes, and behind them all an operation that does nothing. */
static void launch(CUgraphExec exec, CUstream s) {
    const work nothing = { .kind = NOTHING, .what = "cuGraphLaunch" };
    uint64_t priority[CHAINS] = { 0 };
    clock_merge(&s->clock, &driver.host);
    clock_merge(&s->clock, &exec->clock);
    s->clock.at[s->chain]++;
    op *last = schedule_add(&nothing, 0);
    schedule_after(last, s->last);
    schedule_after(last, exec->last);
    for (int i = 0; i < exec->nodes.count; i++) {
        const node *n = &exec->nodes.items[i];
        work w = n->work;
        stream_check(s, &w, &s->clock);
        if (!priority[n->chain] || !driver_draw(PRIORITY_KEPT))
            priority[n->chain] = driver_draw(UINT32_MAX);
        op *o = schedule_add(&w, priority[n->chain]);
        schedule_after(o, s->last);
        schedule_after(o, exec->last);
        for (int j = 0; j < 2; j++)
            if (n->before[j] >= 0)
                schedule_after(o, exec->ops[n->before[j]]);
        exec->ops[i] = schedule_go(o);
        if (n->leaf)
            schedule_after(last, exec->ops[i]);
    }
    s->last = exec->last = schedule_go(last);
    exec->clock = s->clock;
    driver.log.graph_launches++;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream s) {
    CUresult result = driver_enter(__func__, COUNTED | CONTEXT | WORK);
    if (!result)
        result = object_check(exec, EXEC);
    if (!result)
        result = object_check(s, STREAM);
    if (!result && s->capture)
        result = capture_forbid_on(s);
    if (!result)
        launch(exec, s);
    return driver_leave(result);
}
