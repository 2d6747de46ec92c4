/* gemma3_text.c - gemma2 with norms of q and k; every sixth layer is full, the others slide. */
#include "../families.h"
#include "../graph_build.h"

/* Attention to both sides sees half the window to each, the token itself once. */
static void types(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *both = sc_read_item(r, "use_bidirectional_attention");
    if (!both || cJSON_IsNull(both) || !sc_read_flag(r, both->string, false) || !c->sliding_window)
        return;
    c->sliding_window = c->sliding_window / 2 + 1;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].window = c->sliding_window;
    sc_read_record_count(r, "sliding_window", c->sliding_window, "rule: sliding_window / 2 + 1");
}

static void build(sc_builder *b) { sc_build_gemma2(b, true); }

static const sc_key keys[] = {
    { "use_bidirectional_attention", SC_KEY_FIXED, 0, true },
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
    .attention_bias = true,
};
