/* gemma3_text.c - every sixth layer is full, the others slide. */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"

/* Attention to both sides sees half the window to each, the token itself once. */
static void types(sc_reader *r) {
    sc_config *c = r->config;
    if (!sc_read_flag(r, "use_bidirectional_attention", false) || !c->sliding_window)
        return;
    c->sliding_window = c->sliding_window / 2 + 1;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].window = c->sliding_window;
    sc_read_record_count(r, "sliding_window", c->sliding_window, "rule: sliding_window / 2 + 1");
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    const double scalar = sc_config_key(c, "query_pre_attn_scalar")->number;
    const double softcap = sc_config_key(c, "attn_logit_softcapping")->number;
    const double logits = sc_config_key(c, "final_logit_softcapping")->number;
    b->norm.plus = 1;
    sc_build_embedding(b, "model.embed_tokens.weight", sqrtf((float)b->graph->hidden));
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        const sc_span attended = sc_build_self_attention(b, sc_build_normed(b, "input_layernorm"),
                                                         c->attention_bias, true, rope);
        sc_attention *a = &b->ops->op[b->ops->ops - 1].attention;
        a->scale = 1 / sqrtf((float)scalar);
        a->softcap = softcap > 0 ? (float)softcap : 0;
        sc_build_normed_onto(b, attended, sc_build_attended(b), "self_attn.o_proj",
                             "post_attention_layernorm");
        const sc_span gated = sc_build_gated(b, sc_build_normed(b, "pre_feedforward_layernorm"),
                                             ffn, "mlp.gate_proj", "mlp.up_proj", false);
        sc_build_normed_onto(b, gated, ffn, "mlp.down_proj", "post_feedforward_layernorm");
    }
    b->graph->logits_softcap = logits > 0 ? (float)logits : 0;
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "query_pre_attn_scalar", SC_KEY_REAL, 256, false },
    { "attn_logit_softcapping", SC_KEY_REAL, SC_NULL, false },
    { "final_logit_softcapping", SC_KEY_REAL, SC_NULL, false },
    { .key = NULL },
};

const sc_family sc_family_gemma3_text = {
    .model_type = "gemma3_text",
    .hidden_size = 2304,
    .num_hidden_layers = 26,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .max_position_embeddings = 131072,
    .sliding_window = 4096,
    .period = 6,
    .period_key = "sliding_window_pattern",
    .others = SC_SLIDING_ATTENTION,
    .types = types,
    .build = build,
    .vocab_size = 262208,
    .intermediate_size = 9216,
    .bos_token_id = 2,
    .eos_token_id = 1,
    .hidden_act = "gelu_pytorch_tanh",
    .act_key = "hidden_activation",
    .tied = true,
    .rope_theta = 1000000,
    .local_theta = 10000,
    .key = keys,
};
