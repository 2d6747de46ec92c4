/*
 * graph_build.h - what the builders in families/ share.
 */
#ifndef SC_GRAPH_BUILD_H
#define SC_GRAPH_BUILD_H

#include "graph.h"

/* Where a decoder of llama's shape differs from the next: who has a bias, norms on q and k. */
typedef struct {
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm; /* q_norm and k_norm, per head over head_dim */
} sc_decoder_shape;

/* The config's rope as an index into the graph's; one that is there already is shared. */
int sc_graph_rope(int *index, sc_graph *graph, sc_pool *pool, const sc_config *config,
                  sc_error *err);

/* Every layer: norm, attention, residual, norm, gated MLP, residual. */
int sc_graph_decoder(sc_graph *graph, sc_pool *pool, const sc_config *config,
                     const sc_decoder_shape *shape, sc_error *err);

#endif
