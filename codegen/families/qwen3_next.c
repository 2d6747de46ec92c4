/* qwen3_next.c - every fourth layer attends, with a gate on what comes of it; the others are gated
 * delta rules. A shared expert with a gate of its own beside the chosen ones. */
#include "../families.h"
#include "../graph_states.h"

/* Qwen3NextAttention: q_proj holds each head's query, then its gate. */
static void build_attention(sc_builder *b, sc_span x) {
    const sc_config *c = b->config;
    const int64_t dim = c->head_dim, q = c->num_attention_heads * dim;
    const int64_t kv = c->num_key_value_heads * dim, hidden = c->hidden_size;
    static const char *const names[] = { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.q_proj" };
    const int64_t rows[] = { q, kv, kv, q };
    sc_part part[4], bias[4];
    for (int i = 0; i < 4; i++) {
        const bool both = rows[i] == q && (i == 0 || i == 3);
        part[i] = sc_build_rows(b, sc_build_name(b, names[i], "weight"), both ? 2 * q : kv, hidden);
        bias[i] = sc_build_vector(b, sc_build_name(b, names[i], "bias"), both ? 2 * q : kv);
        if (both) {
            part[i].first = bias[i].first = i ? dim : 0;
            part[i].run = bias[i].run = dim;
            part[i].stride = bias[i].stride = 2 * dim;
        }
        part[i].rows = bias[i].rows = rows[i];
    }
    const sc_span qkv = sc_build_linear(b, x, hidden, sc_build_value(b, "qkv", 2 * q + 2 * kv),
                                        &(sc_linear_spec){ .field = "qkv_proj",
                                                           .part = part,
                                                           .bias_part = bias,
                                                           .parts = 4,
                                                           .bias = c->attention_bias });
    const sc_weight *q_norm = sc_build_floats(b, "self_attn.q_norm.weight", dim, b->norm.plus);
    const sc_weight *k_norm = sc_build_floats(b, "self_attn.k_norm.weight", dim, b->norm.plus);
    sc_attention *a = sc_build_attention(b, qkv, sc_build_rope(b, dim));
    const sc_span attended = a->out;
    a->q_norm = q_norm;
    a->k_norm = k_norm;
    a->norm_eps = b->norm.eps;
    sc_build_sigmoid_gate(b, attended, sc_build_at(qkv, q + 2 * kv), q, q, attended);
    sc_build_onto(b, attended, q, "self_attn.o_proj", c->attention_bias, 1);
}

/* Qwen3NextSparseMoeBlock: the shared expert's output times sigmoid of one number per token. */
static void build_experts(sc_builder *b, sc_span x) {
    const int64_t hidden = b->config->hidden_size;
    const int64_t ffn = sc_build_count(b, "shared_expert_intermediate_size");
    const sc_expert_spec spec = {
        .experts = sc_build_count(b, "num_experts"),
        .top_k = sc_build_count(b, "num_experts_per_tok"),
        .ffn = sc_build_count(b, "moe_intermediate_size"),
        .normalise = sc_build_flag(b, "norm_topk_prob"),
        .router = "mlp.gate",
        .prefix = "mlp.experts",
        .gate = "gate_proj",
        .up = "up_proj",
        .down = "down_proj",
    };
    const sc_span gate =
        sc_build_linear(b, x, hidden, sc_build_value(b, "shared_gate", 1),
                        &(sc_linear_spec){ .module = { "mlp.shared_expert_gate" }, .out = { 1 } });
    const sc_span up = sc_build_gated(b, x, ffn, "mlp.shared_expert.gate_proj",
                                      "mlp.shared_expert.up_proj", false);
    const sc_span out = sc_build_linear(
        b, up, ffn, sc_build_value(b, "out", hidden),
        &(sc_linear_spec){ .module = { "mlp.shared_expert.down_proj" }, .out = { hidden } });
    sc_build_sigmoid_gate(b, out, gate, 1, hidden, out);
    sc_build_add(b, b->x, 1, out, 1, hidden, b->x);
    sc_build_experts(b, x, &spec);
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    b->norm.plus = 1;
    sc_build_embedding(b, "model.embed_tokens.weight", 1);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        sc_span normed = sc_build_normed(b, "input_layernorm");
        if (c->layer[i].type == SC_LINEAR_ATTENTION)
            sc_build_gated_delta(b, normed, "linear_attn", c->hidden_act);
        else
            build_attention(b, normed);
        normed = sc_build_normed(b, "post_attention_layernorm");
        if (sc_build_is_sparse(b))
            build_experts(b, normed);
        else
            sc_build_mlp(b, normed, c->intermediate_size, "mlp");
    }
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "num_experts", SC_KEY_COUNT, 512, false },
    { "num_experts_per_tok", SC_KEY_COUNT, 10, false },
    { "moe_intermediate_size", SC_KEY_COUNT, 512, false },
    { "shared_expert_intermediate_size", SC_KEY_COUNT, 512, false },
    { "norm_topk_prob", SC_KEY_FLAG, 1, false },
    { "decoder_sparse_step", SC_KEY_COUNT, 1, false },
    { "mlp_only_layers", SC_KEY_NUMBERS, 0, false },
    { .key = NULL },
};

const sc_family sc_family_qwen3_next = {
    .model_type = "qwen3_next",
    .hidden_size = 2048,
    .num_hidden_layers = 48,
    .num_attention_heads = 16,
    .num_key_value_heads = 2,
    .head_dim = 256,
    .max_position_embeddings = 32768,
    .period = 4,
    .period_key = "full_attention_interval",
    .others = SC_LINEAR_ATTENTION,
    .widths = sc_widths_gated_delta,
    .build = build,
    .builds = 1u << SC_LINEAR_ATTENTION,
    .vocab_size = 151936,
    .intermediate_size = 5632,
    .bos_token_id = SC_NULL,
    .eos_token_id = SC_NULL,
    .attention_bias = true,
    .rotary_factor = 0.25,
    .key = keys,
};
