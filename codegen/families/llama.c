/* llama.c - LlamaForCausalLM: attention_bias on q, k, v and o, mlp_bias on all three. */
#include "../families.h"
#include "../graph_build.h"

int sc_build_llama(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err) {
    const sc_decoder_shape shape = { .qkv_bias = config->attention_bias,
                                     .o_bias = config->attention_bias,
                                     .mlp_bias = config->mlp_bias };
    return sc_graph_decoder(graph, pool, config, &shape, err);
}
