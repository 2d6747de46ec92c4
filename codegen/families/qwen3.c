/* qwen3.c - Qwen3ForCausalLM: q_norm and k_norm per head; attention_bias on q, k, v and o. */
#include "../families.h"
#include "../graph_build.h"

int sc_build_qwen3(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err) {
    const sc_decoder_shape shape = { .qkv_bias = config->attention_bias,
                                     .o_bias = config->attention_bias,
                                     .qk_norm = true };
    return sc_graph_decoder(graph, pool, config, &shape, err);
}
