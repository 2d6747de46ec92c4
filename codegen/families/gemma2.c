/* gemma2.c - sliding and full layers take turns; norms before and behind; scores and logits capped.
 */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"

void sc_build_gemma2(sc_builder *b, bool qk_norm) {
    const sc_config *c = b->config;
    const int64_t ffn = c->intermediate_size;
    b->norm.plus = 1;
    sc_build_embedding(b, "model.embed_tokens.weight", sqrtf((float)b->graph->hidden));
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        const int rope = sc_build_rope(b, c->layer[i].head_dim);
        sc_attention *a = sc_build_self_attention(b, sc_build_normed(b, "input_layernorm"),
                                                  c->attention_bias, qk_norm, rope);
        a->scale = 1 / sqrtf((float)sc_build_number(b, "query_pre_attn_scalar"));
        a->softcap = sc_build_cap(b, "attn_logit_softcapping");
        sc_build_normed_onto(b, a->out, sc_build_attended(b), "self_attn.o_proj", c->attention_bias,
                             "post_attention_layernorm");
        const sc_span gated = sc_build_gated(b, sc_build_normed(b, "pre_feedforward_layernorm"),
                                             ffn, "mlp.gate_proj", "mlp.up_proj", false);
        sc_build_normed_onto(b, gated, ffn, "mlp.down_proj", false, "post_feedforward_layernorm");
    }
    b->graph->logits_softcap = sc_build_cap(b, "final_logit_softcapping");
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static void build(sc_builder *b) { sc_build_gemma2(b, false); }

static const sc_key keys[] = {
    { "use_bidirectional_attention", SC_KEY_FIXED, 0, true },
    { "query_pre_attn_scalar", SC_KEY_REAL, 256, false },
    { "attn_logit_softcapping", SC_KEY_REAL, 50, true },
    { "final_logit_softcapping", SC_KEY_REAL, 30, true },
    { .key = NULL },
};

const sc_family sc_family_gemma2 = {
    .model_type = "gemma2",
    .hidden_size = 2304,
    .num_hidden_layers = 26,
    .num_attention_heads = 8,
    .num_key_value_heads = 4,
    .head_dim = 256,
    .max_position_embeddings = 8192,
    .sliding_window = 4096,
    .period = 2,
    .others = SC_SLIDING_ATTENTION,
    .build = build,
    .vocab_size = 256000,
    .intermediate_size = 9216,
    .bos_token_id = 2,
    .eos_token_id = 1,
    .hidden_act = "gelu_pytorch_tanh",
    .act_key = "hidden_activation",
    .tied = true,
    .key = keys,
    .attention_bias = true,
};
