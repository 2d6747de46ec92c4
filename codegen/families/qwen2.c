/* qwen2.c - Qwen2ForCausalLM: bias on q, k and v, always; none on o. */
#include "../families.h"
#include "../graph_build.h"

int sc_build_qwen2(sc_graph *graph, sc_pool *pool, const sc_config *config, sc_error *err) {
    const sc_decoder_shape shape = { .qkv_bias = true };
    return sc_graph_decoder(graph, pool, config, &shape, err);
}
