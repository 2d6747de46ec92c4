/* emit_device.c - the host's side of a CUDA casting as values: what lies where on the device. */
#include "emit_ops.h"

static void emit_buffers(sc_scope *top, const sc_device_plan *d) {
    for (int i = 0; i < d->buffers; i++) {
        sc_scope s = sc_scope_item(top, "device_buffers");
        sc_scope_text(&s, "macro",
                      sc_pool_printf(top->pool, "%s_AT", sc_macro(top->pool, d->buffer[i].name)));
        sc_scope_number(&s, "offset", (int64_t)d->buffer[i].place.offset);
        sc_scope_text(&s, "what", d->buffer[i].what);
        if (s.rc)
            top->rc = s.rc;
    }
}

/* A layer's run of weights; those on the host take turns in two slots. */
static void emit_runs(sc_scope *top, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    const bool offloaded = plan->options.offload_weights > 0;
    for (int i = 0; i < plan->layers; i++) {
        sc_scope s = sc_scope_item(top, "runs");
        sc_scope_number(&s, "layer", i);
        sc_scope_number(&s, "offset", (int64_t)d->run[i].offset);
        sc_scope_number(&s, "bytes", (int64_t)d->run[i].bytes);
        sc_scope_flag(&s, "weights_offloaded", offloaded);
        if (offloaded)
            sc_scope_number(&s, "slot", d->slot[i]);
        if (s.rc)
            top->rc = s.rc;
    }
}

/* The two tensors of no layer that the host names itself, from the start of the device's weights;
 * embed_tokens may be lm_head. */
static void emit_places(sc_scope *top, const sc_plan *plan) {
    const sc_graph *g = plan->graph;
    for (int i = 0; i < plan->packed; i++) {
        const sc_packed *p = &plan->pack[i];
        if (p->weight == (g->embed_tokens ? g->embed_tokens : g->lm_head))
            sc_scope_number(top, "embed_tokens_at", (int64_t)p->device.offset);
        if (p->weight == g->lm_head) {
            sc_scope_number(top, "lm_head_at", (int64_t)p->device.offset);
            sc_scope_number(top, "lm_head_depth", p->device_depth);
        }
    }
}

void sc_emit_device(sc_scope *top, const sc_plan *plan) {
    const sc_device_plan *d = &plan->device;
    const sc_dtype dtype = plan->options.dtype;
    emit_buffers(top, d);
    emit_runs(top, plan);
    emit_places(top, plan);
    sc_scope_number(top, "device_weights_bytes", (int64_t)d->weights_bytes);
    sc_scope_number(top, "device_scratch_bytes", (int64_t)d->scratch_bytes);
    sc_scope_number(top, "staging_bytes", (int64_t)d->staging_bytes);
    sc_scope_number(top, "workspace_bytes", (int64_t)d->workspace_bytes);
    sc_scope_flag(top, "weights_offloaded", plan->options.offload_weights > 0);
    if (plan->options.offload_weights) {
        sc_scope_number(top, "host_weights_bytes", (int64_t)d->host_weights_bytes);
        sc_scope_number(top, "weight_slot_0", (int64_t)d->weight_slot[0].offset);
        sc_scope_number(top, "weight_slot_1", (int64_t)d->weight_slot[1].offset);
    }
    sc_scope_number(top, "pair_run", plan->pairs ? 2 : 1);
    sc_scope_number(top, "panel", plan->panel);
    sc_scope_number(top, "head_rows", d->head_rows);
    sc_scope_text(top, "product_type",
                  dtype == SC_F32    ? "SC_PRODUCT_F32"
                  : dtype == SC_BF16 ? "SC_PRODUCT_BF16"
                                     : "SC_PRODUCT_F16");
}
