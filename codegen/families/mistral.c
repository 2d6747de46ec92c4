/* mistral.c - MistralForCausalLM: no bias anywhere. */
#include "../families.h"
#include "../graph_build.h"

int sc_build_mistral(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err) {
    const sc_decoder_shape shape = { .qkv_bias = false };
    return sc_graph_decoder(graph, pool, config, &shape, err);
}
