/* exaone4.c - every fourth layer is full, the others slide. */
#include "../families.h"
#include "../graph_build.h"

/* The pattern may be a string, "LLLG", which only an explicit list goes with. */
static void types(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *pattern = sc_read_item(r, "sliding_window_pattern");
    if (c->listed)
        return;
    if (cJSON_IsString(pattern) || !c->sliding_window) {
        sc_read_fail(r, "layer_types",
                     c->sliding_window
                         ? "is missing, and sliding_window_pattern is no number (give layer_types)"
                         : "is missing, and sliding_window is null (give layer_types)");
        return;
    }
    const int64_t period = sc_read_count(r, "sliding_window_pattern", 4, false);
    if (!r->rc)
        sc_types_periodic(r, period, SC_SLIDING_ATTENTION);
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        /* Where some layers slide, the full ones have no rope. */
        const bool roped = !c->sliding_window || c->layer[i].type == SC_SLIDING_ATTENTION;
        const int rope = roped ? sc_build_rope(b, c->layer[i].head_dim) : -1;
        const sc_span attended = sc_build_self_attention(b, b->x, false, true, rope)->out;
        sc_build_normed_onto(b, attended, sc_build_attended(b), "self_attn.o_proj", false,
                             "post_attention_layernorm");
        const sc_span gated = sc_build_gated(b, b->x, ffn, "mlp.gate_proj", "mlp.up_proj", false);
        sc_build_normed_onto(b, gated, ffn, "mlp.down_proj", false, "post_feedforward_layernorm");
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

const sc_family sc_family_exaone4 = {
    .model_type = "exaone4",
    .hidden_size = 4096,
    .num_hidden_layers = 32,
    .num_attention_heads = 32,
    .num_key_value_heads = 32,
    .max_position_embeddings = 2048,
    .sliding_window = 4096,
    .types = types,
    .build = build,
    .vocab_size = 102400,
    .intermediate_size = 16384,
    .bos_token_id = 0,
    .eos_token_id = 2,
    .eps = 1e-5,
};
